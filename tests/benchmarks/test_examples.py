"""The benchmark of ported programs: they give the right answers, and lines are counted rightly."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import document, graphs
from benchmarks.runner import CaseResult, SuiteResults
from benchmarks.suites.examples import FILES, PROGRAMS, SUITE, Ported, Sizes, count, right, wrong
from tests.support.reference import reference
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Vertex

MACHINE = {"versions": {}, "date": "2026-11-21", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}

EDGES = [
    (7, 3, 2), (3, 9, 5), (7, 9, 9), (9, 3, 1), (9, 21, 4), (21, 7, 8), (9, 21, 4), (40, 41, 1),
    (41, 41, 3), (60, 9, 2),
]  # fmt: skip
ORIGIN = 7


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A small graph on disk, with parallel edges and a self-loop."""
    folder = tmp_path_factory.mktemp("graph")
    columns = [pa.array(column) for column in zip(*EDGES, strict=True)]
    pq.write_table(pa.table(columns, names=["source", "target", "value"]), folder / "e.parquet")
    ids = np.unique([[s, t] for s, t, _ in EDGES])
    source, target, value = (np.array(column) for column in zip(*EDGES, strict=True))
    source, target = np.searchsorted(ids, source), np.searchsorted(ids, target)
    at = int(np.searchsorted(ids, ORIGIN))
    lengths = graphs.reference.distances(source, target, value.astype(float), ids.size, at)
    answers = {
        "ids": ids,
        "shortest_paths": lengths,
        "components": graphs.reference.components(source, target, ids.size),
    }
    return SimpleNamespace(
        parquet=str(folder / "e.parquet"), origin=ORIGIN, answer=answers.__getitem__
    )


def _ours(program: Ported, monkeypatch: pytest.MonkeyPatch) -> tuple[type[Vertex], dict[str, Any]]:
    """The class of `ours.py`, and the options with which `answer` runs it."""
    module = importlib.import_module(f"benchmarks.ported.{program.name}.ours")
    (cls,) = (
        v for v in vars(module).values()
        if isinstance(v, type) and issubclass(v, Vertex) and v is not Vertex
    )  # fmt: skip
    called: dict[str, Any] = {}
    monkeypatch.setattr(
        module, "run", lambda vertex, graph, **options: called.update(options, vertex=vertex)
    )
    module.answer(None, *([ORIGIN] if program.origin else []))
    assert called.pop("vertex") is cls
    return cls, called


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_ours_gives_the_right_answer(program: Ported, graph: Any, monkeypatch: pytest.MonkeyPatch):
    cls, options = _ours(program, monkeypatch)
    found = reference(cls, EDGES, multi=True, **options)
    values = found.values(Program(cls).result)
    ids = np.array(list(values))
    value = np.array(list(values.values()), float)
    assert wrong(right(program, graph), graph.answer("ids"), ids, value) is None
    value[0] += 1
    assert "1 of 7 values differ" in str(
        wrong(right(program, graph), graph.answer("ids"), ids, value)
    )


def test_right_answers_by_hand(graph: Any):
    found = {name: right(program, graph).tolist() for name, program in PROGRAMS.items()}
    # ids: 3 7 9 21 40 41 60
    assert found["shortest_paths"][:4] == [2, 0, 7, 11]
    assert found["components"] == [3, 3, 3, 3, 40, 40, 3]
    assert found["older_followers"] == [8, 21, 60, 0, 0, 0, 0]
    assert found["two_hops"] == [1 + 3, 2, 2 + 1 + 0, 3 + 3, 0, 2, 0]
    assert found["pagerank"][6] == 0.15
    assert found["heat"][1] == 100.0
    assert found["pruning"] == [0.0] * 7


def test_the_core_is_found_where_there_is_one(monkeypatch: pytest.MonkeyPatch):
    ten = [(a, b, 1) for a in range(11) for b in range(a)]  # all know each other
    loose = [(20, 3, 1), (20, 4, 1), (21, 20, 1), *[(30, 30, 1)] * 5]
    cls, _ = _ours(PROGRAMS["pruning"], monkeypatch)
    inside = reference(cls, ten + loose, multi=True).values("inside")
    assert {v for v, stays in inside.items() if stays} == {*range(11), 30}
    source, target, _values = (np.array(c) for c in zip(*(ten + loose), strict=True))
    n = int(max(source.max(), target.max())) + 1
    found = PROGRAMS["pruning"].answer(source=source, target=target, n=n)
    assert set(np.flatnonzero(found).tolist()) == {*range(11), 30}


def test_missing_vertices_count_as_zero_and_strange_ones_are_wrong():
    ids, wanted = np.array([2, 5, 9]), np.array([0.0, 1.5, np.inf])
    assert wrong(wanted, ids, np.array([9, 5]), np.array([np.inf, 1.5 * (1 + 1e-12)])) is None
    assert "values differ" in str(wrong(wanted, ids, np.array([9, 5]), np.array([7.0, 1.5])))
    assert "values differ" in str(wrong(wanted, ids, ids, np.array([0.0, 1.5, np.nan])))
    assert "not the graph's" in str(wrong(wanted, ids, np.array([4]), np.array([0.0])))
    assert "not the graph's" in str(wrong(wanted, ids, np.array([5, 5]), np.array([1.5, 1.5])))


def test_lines_of_code_leave_out_blanks_and_comments(tmp_path: Path):
    python, scala = tmp_path / "a.py", tmp_path / "a.scala"
    python.write_text('"""Two\nlines."""\n\nx = 1  # one\n\n# none\ndef f():\n    """No."""\n'
                      '    return """two\n    lines"""\n')  # fmt: skip
    assert count(python) == 4
    scala.write_text('/** No.\n  * no /* nested */ no\n  */\nval s = "// /* text" // one\n\n// no\n'
                     "val t = 1 /* in */ + 2\n/* no */\n}\n")  # fmt: skip
    assert count(scala) == 3


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_every_program_is_there_in_every_language(program: Ported):
    for system in FILES:
        assert count(program.file(system)) > 5
    assert f"object {program.scala} {{" in program.file("graphx").read_text()
    assert "Long, Double" not in program.file("graphx").read_text()
    for system in ("ours", "graphframes"):
        tree = ast.parse(program.file(system).read_text())
        (answer,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "answer")
        assert [a.arg for a in answer.args.args] == ["graph", "origin"][: 1 + program.origin]


def test_the_document_has_lines_seconds_and_ratios():
    sizes = Sizes(("heat", "two_hops"), scale=12)
    cases = {
        "ours": CaseResult("ours", {"heat": [0.5, 0.25, 0.25], "two_hops": [0.2]}),
        "graphx": CaseResult("graphx", {"heat": [1.0]}, "its process ended with status 1"),
        "graphframes": CaseResult("graphframes", {}, "not available: no jar"),
    }
    results = SuiteResults(MACHINE, ["bench", "examples"], sizes, cases)
    text = document.markdown(SUITE.document(results))
    assert "**0.250** (3, 0.250 to 0.500) | **1.00** (1, 1.00 to 1.00) 4× |" in text
    assert (
        "| followers of followers by aggregateMessages | **0.200** (1, 0.200 to 0.200) | – |"
        in text
    )
    assert "graphframes: not available: no jar" in text
    assert "benchmarks/ported/heat/graphx.scala" in text
    counts = [count(PROGRAMS["heat"].file(system)) for system in FILES]
    assert f"by Pregel | {' | '.join(map(str, counts))} |" in text
    cases["ours"].problem = "wrong answer: heat by ours: 1 of 3 values differ"
    assert "0.250" not in document.markdown(SUITE.document(results))


def test_unknown_programs_are_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        SUITE.main(["--programs", "heat,nosuch"])
    assert ended.value.code == 2
    assert "unknown 'nosuch'; choose from shortest_paths" in capsys.readouterr().err
