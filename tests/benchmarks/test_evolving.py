"""The benchmark of changing graphs at the smallest size: its changes, checks, tables, one run."""

from __future__ import annotations

import json
import subprocess
import sys
from copy import copy
from pathlib import Path

import numpy as np
import pytest

from benchmarks import answers, document
from benchmarks.evolving import instants
from benchmarks.evolving.beside import MODULE
from benchmarks.evolving.sizes import Sizes
from benchmarks.evolving.stream import ADD, REMOVE, EdgeStream, blocks_after
from benchmarks.processes import Limits
from benchmarks.runner import CaseResult, run_case
from benchmarks.suites import evolving, soak
from benchmarks.suites.evolving import Results

ROOT = Path(__file__).parents[2]
MACHINE = {"versions": {}, "date": "2026-11-21", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


def test_changes_remove_edges_that_are_there_and_add_ones_that_are_not(cache: Path):
    stream = EdgeStream(8, cache)
    edges = dict(zip(*_pairs(stream), strict=True))
    for count in (1, 2, 501, 1500):
        before = copy(stream)
        batch = stream.take(count)
        assert len(batch) == count
        assert int((batch.kind == REMOVE).sum()) == count // 2
        columns = (batch.kind, batch.source, batch.target, batch.value)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for kind, source, target, value in rows:
            if kind == ADD:
                assert (source, target) not in edges
                edges[source, target] = value
            else:
                assert edges.pop((source, target)) == value
        assert dict(zip(*_pairs(stream), strict=True)) == edges
        assert before.edges == stream.edges - count % 2  # a copy stays as it was
    blocks = zip(*blocks_after(8, cache, (1, 2, 501, 1500)), strict=True)
    again = [np.concatenate(column) for column in blocks]
    assert all(map(np.array_equal, again, stream.columns()))


def _pairs(stream: EdgeStream) -> tuple[list[tuple[int, int]], list[int]]:
    source, target, value = (column.tolist() for column in stream.columns())
    return list(zip(source, target, strict=True)), value


def test_a_wrong_answer_is_seen(cache: Path):
    stream = EdgeStream(8, cache)
    stream.take(100)
    graph = instants.graph_after(8, cache, [100])
    ids = graph.answer("ids")
    assert graph.origin == stream.origin
    for program, right in (
        ("shortest_paths", graph.answer("shortest_paths")),
        ("components", ids[graph.answer("components").astype(int)]),
        ("pagerank", graph.answer("pagerank_converged")),
    ):
        turned = np.random.default_rng(1).permutation(ids.size)
        answers.check(program, stream, {"id": ids[turned], "x": right[turned]})
        wrong = np.array(right)
        wrong[np.flatnonzero(np.isfinite(right))[-1]] += 1
        with pytest.raises(answers.Wrong):
            answers.check(program, stream, {"id": ids, "x": wrong})
        with pytest.raises(answers.Wrong, match="vertices are not the graph's"):
            answers.check(program, stream, {"id": ids[1:], "x": right[1:]})
    later = copy(stream)
    later.take(100)
    with pytest.raises(answers.Wrong):
        answers.check("shortest_paths", later, {"id": ids, "x": graph.answer("shortest_paths")})


def test_graphx_is_given_the_iterations_that_its_definition_needs(cache: Path):
    graph = instants.graph_after(8, cache, [100])
    ranks = graph.answer("pagerank_undistributed_enough")
    assert float(ranks.sum()) == pytest.approx(1)
    assert 10 < int(graph.answer("iterations_enough")[0]) < 90


def test_aims_are_judged_at_their_sizes_on_a_quiet_machine_only():
    def text(sizes: Sizes | None = None, others: float = 0.0, problem: str | None = None) -> str:
        results = Results(MACHINE, ["bench", "evolving"], sizes or Sizes())
        figures = {"query": [0.1] * 28 + [0.2, 0.5], "touched": [3.0]}
        case = CaseResult("a-components", figures, problem, 5, 1, others)
        results.cases["a-components"] = case
        return document.markdown(evolving.SUITE.document(results))

    whole = text()
    assert "Fewer queries" not in whole
    assert "a-components, 30; its time" in text(Sizes(queries=40))
    assert "components, median | 100 ms | ≤ 150 | reached |" in whole
    assert "components, 99th percentile | 500 ms | ≤ 400 | **not reached** |" in whole
    for other in (text(Sizes(scale=19)), text(others=0.3), text(Sizes(queries=2))):
        assert "| reached |" not in other
        assert "| **not reached** |" not in other
    wrong = text(problem="wrong answer: 3 of 5 components differ")
    assert "wrong answer: 3 of 5" in wrong
    assert "100 ms" not in wrong
    assert len({target.title for target in evolving.SUITE.targets}) == len(evolving.SUITE.targets)


def test_memory_that_grows_is_not_flat():
    def found(per_change: float) -> CaseResult:
        done = [float(n) for n in range(0, 1001, 10)]
        figures = {"done": done, "heap bytes": done}
        held = [dict.fromkeys(soak._KINDS, 0) for _ in done]
        for at, one in zip(done, held, strict=True):
            one["jvm own"] = 10**6
            one["workers own"] = int(1e6 + per_change * at + (5e5 if at < 100 else 0))
        memory = list(zip(done, held, strict=True))
        return CaseResult("g", figures, memory=memory)

    assert soak.flat(found(0))
    assert soak.flat(found(-10))
    assert not soak.flat(found(100))
    grown = found(0)
    grown.figures["heap bytes"] = [1e6 * at for at in grown.figures["done"]]
    assert not soak.flat(grown)


def test_smoke_run(cache: Path, tmp_path: Path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "benchmarks", "evolving", "--scale", "8"]
    command += ["--queries", "2", "--every", "50", "--warm", "1", "--systems", "", "--peers", ""]
    command += ["--parts", "a-shortest_paths", "--out", str(out), "--cache", str(cache)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.json")
    case = json.loads(path.read_text())["cases"]["a-shortest_paths"]
    assert len(case["figures"]["query"]) == 2
    assert len(case["figures"]["checked"]) == 2
    assert case["peak"] > 0
    assert document.opened(json.loads(path.read_text())["document"]).suite == "evolving"
    text = path.with_suffix(".md").read_text()
    assert "shortest paths" in text
    assert str(tmp_path) not in text + path.read_text()


def test_a_case_that_fails_or_hangs_is_told(cache: Path, tmp_path: Path):
    sizes = Sizes(scale=8, cores=1)
    limits = Limits(seconds=60, memory=4 << 30)
    found = run_case(MODULE, "no-such-case", sizes, cache, tmp_path / "a", limits, print)
    assert found.problem is not None
    assert "KeyError" in found.problem
    limits = Limits(seconds=0.5, memory=4 << 30)
    found = run_case(MODULE, "a-components", sizes, cache, tmp_path / "b", limits, print)
    assert found.problem is not None
    assert "did not finish in 0 s" in found.problem


def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert soak.SUITE.main(["evolving", "--changes", "5", "--every", "10"]) == 2
    for bad in (
        "--parts=a,z",
        "--shares=2",
        "--systems=nobody",
        "--scale=40",
        "--peers=x",
    ):
        with pytest.raises(SystemExit) as stop:
            evolving.SUITE.main([bad, "--cache", str(tmp_path)])
        assert stop.value.code == 2
    assert evolving.SUITE.main(["--edges=x", "--cache", str(tmp_path)]) == 2
    assert "Traceback" not in capsys.readouterr().err
