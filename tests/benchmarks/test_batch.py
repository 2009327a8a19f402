"""The benchmark harness at the smallest size: graphs, checks, limits, a run without Spark."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import (
    document,
    edge_files,
    edge_text,
    graphs,
    measures,
    processes,
    rmat,
    systems,
)
from benchmarks.document import Chart, Table, opened
from benchmarks.measures import BY_NAME
from benchmarks.peers import Settings, Unavailable, peer
from benchmarks.suites import batch
from benchmarks.suites.batch import SUITE, OnGraph, Results, Sizes

MACHINE = {"versions": {}, "date": "", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}


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


def test_communities_and_coefficients_are_right(graph: graphs.BenchGraph):
    pairs = np.loadtxt(graph.text, dtype=np.int64)[:, :2].tolist()
    ids = graph.answer("ids").tolist()
    simple = nx.Graph((u, v) for u, v in pairs if u != v)
    simple.add_nodes_from(ids)
    undirected = nx.clustering(simple)
    assert np.allclose(graph.answer("lcc_undirected"), [undirected[v] for v in ids])
    edges, near = set(map(tuple, pairs)), {v: set(simple[v]) for v in ids}
    for v, found in zip(ids, graph.answer("lcc").tolist(), strict=True):
        among = sum((u, w) in edges for u in near[v] for w in near[v] if u != w)
        assert found == pytest.approx(among / max(1, len(near[v]) * (len(near[v]) - 1)))
    ends: dict[int, list[int]] = {v: [] for v in ids}
    for u, v in pairs:
        ends[u].append(v)
        ends[v].append(u)
    label = {v: v for v in ids}
    for _ in range(10):
        counts = {v: Counter(label[u] for u in ends[v]) for v in ids}
        label = {v: min(c, key=lambda one: (-c[one], one)) for v, c in counts.items()}
    assert [ids[k] for k in graph.answer("cdlp")] == [label[v] for v in ids]


def test_a_wrong_answer_is_seen(graph: graphs.BenchGraph):
    ids = graph.answer("ids")
    for name in ("pagerank", "shortest_paths", "bfs", "components", "cdlp", "lcc"):
        check, right = BY_NAME[name].check, np.array(graph.answer(name))
        if name == "cdlp":  # a community has the name of one of its vertices
            right = ids[right]
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


def test_smoke_run_without_spark(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    # As if coefficients took too long on these graphs.
    monkeypatch.setitem(measures.BY_NAME, "lcc", replace(BY_NAME["lcc"], most_edges=4096))
    monkeypatch.setattr(batch, "_SMALL_SCALE", 8)
    out = tmp_path / "out"
    command = ["--scale", "9", "--repeats", "2", "--systems", "scipy,networkx"]
    assert SUITE.main([*command, "--out", str(out), "--cache", str(cache)]) == 0
    (path,) = out.glob("batch-r-mat-9-2*.json")
    saved = json.loads(path.read_text())
    assert [result["graph"]["scale"] for result in saved["results"]] == [9, 8]
    for result in saved["results"]:
        systems = {each["system"]: each for each in result["systems"]}
        assert list(systems) == ["scipy", "networkx"]
        if result["graph"]["scale"] == 8:
            assert list(systems["networkx"]["outcomes"]) == ["lcc"]
            continue
        for system in systems.values():
            assert "lcc" not in system["outcomes"]
            assert system["outcomes"]["bfs"]["problem"] is None
            assert len(system["outcomes"]["bfs"]["seconds"]) == 2
            assert system["peak"] > 0
    text = path.with_suffix(".md").read_text()
    assert text in capsys.readouterr().out
    assert "## R-MAT 8, for what takes too long on R-MAT 9" in text
    assert str(tmp_path) not in text + path.read_text()
    assert document.markdown(opened(saved["document"])) == text


@pytest.mark.parametrize("system", ["scipy", "igraph", "networkx", "networkit"])
def test_every_answer_of_a_system_on_arrays_is_right(
    graph: graphs.BenchGraph, tmp_path: Path, system: str
):
    kind = peer(system)
    one = kind(Settings(2, 1 << 30, str(tmp_path)))
    try:
        one.start()
    except Unavailable:
        assert find_spec(system) is None
        return
    one.graph = graph
    for name in kind.offers():
        if BY_NAME[name].load:
            one.release()
        else:
            one.prepare(name)
        answer = getattr(one, name)()()
        assert BY_NAME[name].check(graph, answer) is None, name


def test_a_disturbed_run_is_not_quotable(graph: graphs.BenchGraph):
    def text(others: float) -> str:
        outcome = systems.MeasureResult([0.1, 0.2], others=others)
        standing = systems.SystemResult("ours", "ours", "", outcomes={"load_text": outcome})
        results = Results(MACHINE, ["bench", "batch"], Sizes())
        results.graphs.append(OnGraph(replace(graph, scale=20), [standing]))
        return document.markdown(SUITE.document(results))

    assert "⚠ 45%" in text(0.45)
    assert "Not to be quoted" in text(0.45)
    assert "| reached |" not in text(0.45)
    assert "⚠" not in text(0.02)
    assert "| reached |" in text(0.02)


def test_tables_and_charts_say_the_same(graph: graphs.BenchGraph):
    def standing(system: str, times: float, unavailable: str | None = None) -> systems.SystemResult:
        outcomes = {
            name: systems.MeasureResult([0.1 * times, 0.2 * times, 0.4 * times])
            for name in ("load_text", "pagerank", "components")
        }
        return systems.SystemResult(system, system, "", {}, unavailable, outcomes, 1 << 30)

    results = Results(MACHINE, ["bench", "batch"], Sizes())
    small = replace(graph, scale=20, edges=2_000_000, vertices=1_000_000)
    everyone = [standing("ours", 1), standing("other", 10), standing("none", 1, "nobody has it")]
    more = replace(small, name="more", edges=4_000_000)
    results.graphs = [OnGraph(small, everyone), OnGraph(more, everyone[1:])]
    section, _, against = SUITE.document(results).sections
    assert "- none: not available: nobody has it" in section.text
    tables = {part.title: part for part in section.parts if isinstance(part, Table)}
    assert tables["Seconds"].head == ["", "ours", "other"]
    assert tables["Seconds"].rows[1][1:] == [
        "**0.200** (3, 0.100 to 0.400)",
        "**2.00** (3, 1.00 to 4.00) 10×",
    ]
    assert tables["Processed per second, in millions"].rows[1][1:] == ["10 / 15", "1 / 1.5"]
    limits = {row[0]: row[1:] for row in tables["What remains to C++"].rows}
    reached = ["0.088", "0.200", "2.273 ×", "≤ 3", "reached"]
    assert limits["PageRank, 10 iterations"] == reached
    assert limits["connected components"][-1] == "**not reached**"
    bars = [part for part in section.parts if isinstance(part, Chart)]
    assert [bar.title for bar in bars] == [row[0] for row in tables["Seconds"].rows]
    assert (bars[1].categories, bars[1].series[0].values) == (["ours", "other"], [0.2, 2.0])
    table, _, lines, _ = against.parts
    assert isinstance(table, Table)
    assert isinstance(lines, Chart)
    assert ["PageRank, 10 iterations: other", "2.00 (1e+03)", "2.00 (500)", "2.00"] in table.rows
    assert lines.x == [2e6, 4e6]
    assert {line.name: line.values for line in lines.series} == {
        "ours": [0.2, None],
        "other": [2.0, 2.0],
    }


EDGES = [(7, 3, 4), (3, 9, 5), (3, 3, 6)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("blanks.txt", "# a comment\n7 3 4\n3  9 5 # another\n\n3 3 6"),
        ("tabs.tsv", "7\t3\t4\n3\t9\t5\n3\t3\t6\n"),
        ("commas.csv", "source,target,value\n7,3,4.0\n3,9,5\n3,3,6\n"),
        ("more.txt", "7 3 4 99\n3 9 5 99\n3 3 6 99\n"),
    ],
)
def test_edge_files_of_every_form(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text)
    columns = edge_files.read(edge_files.files_of(str(tmp_path / name)))
    assert list(zip(*columns, strict=True)) == EDGES


def test_edge_files_in_a_folder_of_parquet(tmp_path: Path):
    for k, edge in enumerate(EDGES):
        columns = dict(zip(("source", "target", "value"), np.array([edge]).T, strict=True))
        pq.write_table(pa.table(columns), tmp_path / f"part-{k}.parquet")
    (tmp_path / "_SUCCESS").touch()
    files = edge_files.files_of(str(tmp_path))
    assert list(zip(*edge_files.read(files), strict=True)) == EDGES
    assert edge_files.files_of(str(tmp_path / "part-*.parquet")) == files


def test_values_that_are_no_lengths_are_drawn(cache: Path, tmp_path: Path):
    for k, text in enumerate(
        ("1 2\n2 3 4\n", "1 2 -1\n2 3 4\n", "1 2 0.5\n2 3 4\n", "1 2 x\n2 3 4\n")
    ):
        (tmp_path / f"{k}.txt").write_text(text)
        assert edge_files.read([tmp_path / f"{k}.txt"])[2] is None
    drawn = graphs.of_file(str(tmp_path / "1.txt"), cache)
    assert drawn.values == graphs.DRAWN
    assert np.loadtxt(drawn.text, dtype=int)[:, 2].tolist() == rmat.values(0, 2).tolist()
    (tmp_path / "given.txt").write_text("1 2 70\n2 3 400\n")
    given = graphs.of_file(str(tmp_path / "given.txt"), cache)
    assert (given.name, given.values) == ("given.txt", graphs.GIVEN)
    assert given.answer("shortest_paths").tolist() == [0, 70, 470]


def test_a_bad_edge_file_is_refused_in_a_line(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for text in ("", "1 2\n3\n", "1 b\n", f"1 {1 << 63}\n"):
        (tmp_path / "bad.txt").write_text(text)
        with pytest.raises(ValueError, match=r"^bad\.txt:.*"):
            edge_files.read([tmp_path / "bad.txt"])
    assert SUITE.main(["--edges", str(tmp_path / "bad.txt"), "--cache", str(cache)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


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
    limits = systems.Limits(seconds=5, memory=4 << 30, repeats=1, budget=1, cores=1)

    def run(system: str) -> systems.SystemResult:
        bigger = graphs.of_scale(9, cache)
        return systems.run(system, bigger, graph, list(BY_NAME), limits, tmp_path, print)

    outcomes = run("slow_peer:Slow").outcomes
    assert outcomes["load_text"].problem is not None
    assert "wrong answer" in outcomes["load_text"].problem
    assert outcomes["components"].problem == "did not finish in 5 s"
    assert outcomes["shortest_paths"].problem == "RuntimeError: cannot"
    assert outcomes["bfs"].problem is None
    assert run("slow_peer:Absent").unavailable == "nobody has it"


def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    none = ["--edges", str(tmp_path / "none"), "--cache", str(tmp_path)]
    for bad in (["--systems", "nobody"], ["--measures", "nothing"], none):
        assert SUITE.main(bad) == 2
    with pytest.raises(SystemExit) as stop:
        SUITE.main(["--scale", "x", "--cache", str(tmp_path)])
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
