"""The benchmark harness at the smallest size: graphs, checks, limits, a run without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("benchmarks")

from benchmarks import edge_text, graphs, processes, report, rmat, turns
from benchmarks.measures import BY_NAME
from benchmarks.suites import batch

ROOT = Path(__file__).parent.parent
LIMITS = turns.Limits(seconds=60, memory=4 << 30, repeats=2, budget=10, cores=2)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture(scope="module")
def graph(cache: Path) -> graphs.BenchGraph:
    return graphs.of_scale(8, cache)


def test_rmat_is_the_same_in_any_blocks():
    source, target = rmat.pairs(10, 0, 5000)
    again = rmat.pairs(10, 1234, 100)
    assert np.array_equal(source[1234:1334], again[0])
    assert np.array_equal(target[1234:1334], again[1])
    assert np.array_equal(rmat.values(0, 50)[10:], rmat.values(10, 40))
    # Fixed for ever: a table of last year must speak of the same graph.
    sums = int(source.sum()), int(target.sum()), int(rmat.values(0, 5000).sum())
    assert sums == (1229683, 1235500, 253286)


def test_rmat_draws_quadrants_as_often_as_it_should():
    source, target = rmat.pairs(1, 0, 1 << 17)
    share = np.bincount(source * 2 + target, minlength=4) / (1 << 17)
    assert np.allclose(share, [0.57, 0.19, 0.19, 0.05], atol=0.005)
    value = rmat.values(0, 1 << 17)
    assert value.min() == 1
    assert value.max() == 100


def test_text_and_parquet_hold_the_same_edges(graph: graphs.BenchGraph):
    table = pq.read_table(graph.parquet)
    text = np.loadtxt(graph.text, dtype=np.int64)
    assert text.shape == (graph.edges, 3) == (4096, 3)
    for k, name in enumerate(("source", "target", "value")):
        assert np.array_equal(table[name].to_numpy(), text[:, k])


def test_numbers_print_as_numbers():
    columns = np.array([-5, 0, 10, 2**62]), np.array([1, 99, 100, 0]), np.array([7, 8, 9, 10])
    printed = bytes(edge_text.lines(*columns)).decode()
    assert printed == "-5 1 7\n0 99 8\n10 100 9\n4611686018427387904 0 10\n"


def test_reference_agrees_with_networkx(graph: graphs.BenchGraph):
    edges = nx.MultiDiGraph()
    for source, target, value in np.loadtxt(graph.text, dtype=np.int64).tolist():
        edges.add_edge(source, target, weight=value)
    ids = graph.answer("ids").tolist()
    assert sorted(edges) == ids
    lengths = nx.single_source_dijkstra_path_length(edges, graph.origin)
    assert graph.answer("shortest_paths").tolist() == [lengths.get(v, np.inf) for v in ids]
    hops = nx.single_source_shortest_path_length(edges, graph.origin)
    assert graph.answer("bfs").tolist() == [hops.get(v, np.inf) for v in ids]
    components = {min(c) for c in nx.weakly_connected_components(edges)}
    assert {ids[k] for k in graph.answer("components")} == components
    ranks = nx.pagerank(edges, alpha=0.85, tol=1e-14, max_iter=500, weight=None)
    assert np.allclose(graph.answer("pagerank_converged"), [ranks[v] for v in ids], rtol=1e-9)


def test_a_wrong_answer_is_seen(graph: graphs.BenchGraph):
    ids = graph.answer("ids")
    for name in ("pagerank", "shortest_paths", "bfs", "components"):
        check, right = BY_NAME[name].check, np.array(graph.answer(name))
        turned = np.random.default_rng(1).permutation(ids.size)
        assert check(graph, {"ids": ids[turned], "value": right[turned]}) is None
        wrong = right.copy()
        wrong[np.flatnonzero(np.isfinite(right))[-1]] += 1
        assert check(graph, {"ids": ids, "value": wrong})
        assert check(graph, {"ids": ids[1:], "value": right[1:]})
    facts = {"vertices": np.array(graph.vertices), "edges": np.array(graph.edges - 1)}
    assert BY_NAME["load_text"].check(graph, facts)


def test_components_may_have_any_names(graph: graphs.BenchGraph):
    named = {"ids": graph.answer("ids"), "value": -7 - np.array(graph.answer("components"))}
    assert BY_NAME["components"].check(graph, named) is None


def test_smoke_run_without_spark(cache: Path, tmp_path: Path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "benchmarks", "batch", "--scale", "8..9", "--repeats", "2"]
    command += ["--systems", "scipy,igraph,networkx", "--out", str(out), "--cache", str(cache)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.json")
    saved = json.loads(path.read_text())
    for result in saved["results"]:
        for system in result["systems"]:
            assert system["outcomes"]["bfs"]["problem"] is None
            assert len(system["outcomes"]["bfs"]["seconds"]) == 2
            assert system["peak"] > 0
    text = path.with_suffix(".md").read_text()
    assert "Time per edge" in text
    assert str(tmp_path) not in text + path.read_text()


def test_a_disturbed_run_is_not_quotable(graph: graphs.BenchGraph):
    def text(others: float) -> str:
        outcome = turns.Outcome([0.1, 0.2], others=others)
        standing = turns.Standing("ours", "ours", "", outcomes={"load_text": outcome})
        machine = {"versions": {}, "date": "", "processor": "", "cores": 2, "memory": 1}
        machine |= {"system": "", "revision": "", "python": "", "load_average": 0}
        run = report.Run(machine, ["batch"], {"cores": 2})
        run.add(replace(graph, scale=20), [standing])
        return report.markdown(run)

    assert "⚠ 45%" in text(0.45)
    assert "Not to be quoted" in text(0.45)
    assert "| reached |" not in text(0.45)
    assert "⚠" not in text(0.02)
    assert "| reached |" in text(0.02)


def test_processor_time_of_others_is_told_from_ones_own():
    began = processes.busy(), processes.spent([os.getpid()])
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    mine = processes.spent([os.getpid()]) - began[1]
    assert 0.25 <= mine <= 0.6
    assert processes.busy() - began[0] >= mine - 0.05


PEER = """
import time
from benchmarks.peers import Peer, Unavailable

class Slow(Peer):
    title, about = "Slow", ""
    def start(self): return {}
    def release(self): pass
    def load_text(self): return lambda: {"vertices": self.graph.vertices, "edges": 1}
    def components(self):
        time.sleep(60 if self.graph.edges > 4096 else 0)
        return lambda: {}
    def bfs(self):
        return lambda: {"ids": self.graph.answer("ids"), "value": self.graph.answer("bfs")}
    def shortest_paths(self): raise RuntimeError("cannot")

class Absent(Slow):
    def start(self): raise Unavailable("nobody has it")
"""


def test_limits_and_failures_leave_the_rest(
    cache: Path, graph: graphs.BenchGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "slow_peer.py").write_text(PEER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    limits = turns.Limits(seconds=10, memory=4 << 30, repeats=1, budget=1, cores=1)

    def run(system: str) -> turns.Standing:
        bigger = graphs.of_scale(9, cache)
        return turns.run(system, bigger, graph, list(BY_NAME), limits, tmp_path, print)

    outcomes = run("slow_peer:Slow").outcomes
    assert outcomes["load_text"].problem is not None
    assert "wrong answer" in outcomes["load_text"].problem
    assert outcomes["components"].problem == "did not finish in 10 s"
    assert outcomes["shortest_paths"].problem == "RuntimeError: cannot"
    assert outcomes["bfs"].problem is None
    assert run("slow_peer:Absent").unavailable == "nobody has it"


def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert batch.main(["--systems", "nobody"]) == 2
    assert batch.main(["--measures", "nothing"]) == 2
    for arguments in (["--scale", "x"], ["--edges", str(tmp_path / "none")]):
        with pytest.raises(SystemExit) as stop:
            batch.main([*arguments, "--cache", str(tmp_path)])
        assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
