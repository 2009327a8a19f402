"""Local programs: after any changes, in branches too, an answer is that of a run from scratch."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tests.support.drawn_loops import check_drawn_loops, graph_of, name, rows_of
from vertexsdk import Graph, MainLoop, RunError, Sum, Vertex, run, state
from vertexsdk.algorithms import ClusteringCoefficient, Degree, TriangleCount
from vertexsdk.engine import _local_partition
from vertexsdk.loops.find_program import load_program
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Delta
from vertexsdk.program.warn import InterpretedWarning


class Reached(Vertex):
    """How many vertices are two steps away, loops and repetitions counted; a field is scratch."""

    steps: int = state(0)
    told: int = state(0)
    messages = Sum(int)
    max_iterations = 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.steps = delta.value + self.told

    def scatter(self, iteration: int) -> None:
        if iteration == 0:
            wide = len(self.targets) > 2
            for target in self.targets:
                others = len(target.targets)
                self.told += others
                if wide:
                    self.emit(target, others)


class Sent(Vertex):
    """What a vertex says to all, against the direction of edges."""

    total: int = state(7)
    messages = Sum(int)
    direction = "in"
    max_iterations = 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.total = delta.value * 10 + len(self.targets)

    def scatter(self, iteration: int) -> None:
        degree = len(self.targets)
        self.emitAll(degree * degree)


class Fussy(Vertex):
    """Refuses vertices with four edges."""

    degree: int = state(0)
    share: int = state(0)
    messages = Sum(int)
    direction = "undirected"
    max_iterations = 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.degree = delta.value
        self.share = 12 // (4 - delta.value)

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, 1)


PROGRAMS = [Degree, TriangleCount, ClusteringCoefficient, Reached, Sent]


@pytest.mark.sample(7)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("cls", PROGRAMS, ids=lambda cls: cls.__name__)
def test_any_history_has_the_answers_of_runs_from_scratch(
    cls: type[Vertex], partitions: int
) -> None:
    starts = check_drawn_loops(cls, partitions, 4)
    assert starts["warm"] >= 4


def test_programs_are_local_or_say_why_not() -> None:
    facts = {cls.__name__: Program(cls).classes[0].facts for cls in PROGRAMS}
    assert {f.not_local for f in facts.values()} == {None}
    assert facts["Reached"].counters == {"told"}
    assert facts["ClusteringCoefficient"].counters == {"counted", "edges", "neighbours", "reversed"}


@pytest.mark.parametrize("partitions", [1, 3])
def test_changes_at_much_of_the_graph_begin_with_init(
    partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_local_partition, "_FEW", 0)
    edges = {(v, (v * 5 + k) % 97) for v in range(97) for k in range(4)}
    options: dict[str, Any] = {"undirected": False, "strings": False, "partitions": partitions}
    with MainLoop(
        TriangleCount, graph_of(edges, **options), backend=f"memory://much-{partitions}"
    ) as main:
        main.query()
        for count, start in ((1, "warm"), (60, "init"), (1, "warm")):
            added = {(200 + k, k) for k in range(count)} | {(200 + k, k + 1) for k in range(count)}
            main.ingest([("+", *(name(v, strings=False) for v in edge)) for edge in sorted(added)])
            edges |= added
            answer = main.query()
            assert answer.statistics["start"] == start
            assert ("much of the graph" in answer.statistics["start_reason"]) == (start == "init")
            scratch = run(
                TriangleCount,
                graph_of(edges, **options),
                backend="memory://much-again",
                replace=True,
            )
            assert rows_of(answer) == rows_of(scratch)


@pytest.mark.parametrize("compiled", ["require", False])
@pytest.mark.parametrize("partitions", [1, 2])
def test_an_error_of_a_method_is_reported_and_passes(partitions: int, compiled: Any) -> None:
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4], undirected=True, partitions=partitions)
    url = f"memory://fussy-{partitions}-{compiled}"
    with MainLoop(Fussy, graph, backend=url, compiled=compiled) as main:
        main.query()
        main.ingest([("+", 1, 5), ("+", 1, 6), ("+", 1, 7)])
        with pytest.raises(RunError, match=r"test_local.py:\d+: .*ZeroDivisionError.*vertex 1"):
            main.query()
        main.ingest([("-", 1, 7)])
        assert degrees(main.query()) == {1: 3, 2: 2, 3: 2, 4: 1, 5: 1, 6: 1}
        main.ingest([("+", 4, 5)])
        answer = main.query()
        assert degrees(answer) == {1: 3, 2: 2, 3: 2, 4: 2, 5: 2, 6: 1}
        assert answer.statistics["start"] == "warm"


def degrees(result: Any) -> dict[int, int]:
    ids, values = result.values("degree")
    return dict(zip(ids.tolist(), values.tolist(), strict=True))


def twice(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(self: Any, iteration: int, source: int, delta: Delta) -> None:
        function(self, iteration, source, delta)
        self.degree *= 2

    return wrapper


class Decorated(Fussy):
    """Does more than the source of its gather."""

    gather = twice(Fussy.gather)


def test_a_decorated_method_is_not_the_method_in_it() -> None:
    assert Program(Decorated).classes[0].facts.not_local == "its source cannot be read"
    graph = Graph.from_arrays([1, 2], [2, 3], undirected=True)
    with pytest.warns(InterpretedWarning, match="source of gather cannot be read"):
        answer = run(Decorated, graph, backend="memory://decorated")
    assert degrees(answer) == {1: 2, 2: 4, 3: 2}


class Weighted(Sent):
    """Has a vector that begins as an array."""

    weights: int = state(np.array([1, 2]), size=2)


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_vector_may_begin_as_an_array(partitions: int) -> None:
    graph = Graph.from_arrays([1, 2], [2, 3], partitions=partitions)
    with MainLoop(Weighted, graph, backend=f"memory://weighted-{partitions}") as main:
        main.query()
        main.ingest([("+", 3, 1)])
        answer = main.query()
        assert answer.statistics["start"] == "warm"
        assert [row["weights"] for row in answer.to_arrow().to_pylist()] == [[1, 2]] * 3


HEAD = """
import numpy as np
from numpy.typing import NDArray
from vertexsdk import *
def abs(x): return SEEN[0]
class Some(Vertex):
    n: int = state(0)
    rest: float = state(0.0)
    note: NDArray[np.int64] = state(0, size=2)
    messages = Sum(int)
    max_iterations = 1
    @property
    def rest_of(self):
        return self.n
    def gather(self, iteration, source, delta):
        {gather}
    def scatter(self, iteration):
        {scatter}
"""
ADDS = "if iteration == 0:\n            for t in self.targets:\n                {}"
LOOP = "k = 0\n        for t in self.targets:\n            {}\n            self.emit(t, k)"
REFUSED = {
    "for t in self.targets: self.n += 1": "adds to fields in every iteration",
    ADDS.format("self.rest += 1"): "adds to self.rest, which is not an integer",
    ADDS.format("self.n *= 2"): "does more than add to fields",
    ADDS.format("self.n = 2"): "sets more than variables",
    ADDS.format("self.n += len(t.targets) / 2"): "more than integers",
    ADDS.format("self.n += self.num_vertices"): "scatters by self.num_vertices",
    ADDS.format("self.n += OUTSIDE"): "scatters by OUTSIDE",
    ADDS.format("self.emit(3, 1)"): "sends to others",
    ADDS.format("x = 1 if self.n else 2"): "scatters by self.n",
    ADDS.format("self.note[0] = 1; self.emit(t, self.note)"): "carries self.note",
    ADDS.format("self.note[0] = 1"): "leaves self.note as it happens",
    LOOP.format("for t in t.targets: k = 1"): "sets t more than once",
    LOOP.format("t = self.id"): "sets t more than once",
    ADDS.format("self.n += 12 // len(t.targets)"): "more than integers",
    "iteration = iteration + 1\n        self.emitAll(iteration)": "sets its argument iteration",
    "self.emitAll(value=self.n)": "sends in several statements",
    "if 0 == iteration == 0:\n            self.emitAll(1)": "does not scatter in a loop",
    ADDS.format("for u in self.targets: self.n += 1"): "goes over its targets for each",
    ADDS.format("for u in t.targets: self.n += len(u.targets)"): "scatters by u.targets",
    ADDS.format("break"): "scatters by break",
    LOOP.format("k += 1"): "carries k",
    LOOP.format("if t.id > 3: k = 1"): "carries k",
    "for t in self.targets: self.emit(t, iteration)": "scatters by iteration",
    "self.emitAll(self.n)": "scatters by self.n",
    "self.emitAll(abs(3))": "scatters by a call",
}


@pytest.mark.parametrize("scatter", REFUSED)
def test_a_scatter_that_is_not_local_says_why(scatter: str, tmp_path: Any) -> None:
    assert REFUSED[scatter] in (reason(scatter, "self.n = delta.value", tmp_path) or "it is local")


@pytest.mark.parametrize(
    ("gather", "why"),
    [
        ("self.n = delta.value + iteration", "reads iteration in gather"),
        ("me = self; me.n = me.n + delta.value", "reads self in gather"),
        ("setattr(self, 'n', 1)", "gathers by expr"),
        ("self.n = vars(self)['n']", "calls vars in gather"),
        ("self.n = self.rest_of", "reads self.rest_of in gather"),
        ("self.n = SEEN", "reads SEEN in gather"),
        ("for t in self.targets: self.n = t.edge", "reads t.edge in gather"),
        ("for t in self.targets: t = 1", "sets t more than once in gather"),
        ("self.n += delta.value", "gathers by self.n of before"),
        ("if delta.value: self.n = 1", "does not set self.n in every case"),
        ("self.n = self.num_vertices", "reads self.num_vertices in gather"),
        ("for t in self.targets: self.n = len(t.targets)", "reads t.targets in gather"),
    ],
)
def test_a_gather_that_is_not_local_says_why(gather: str, why: str, tmp_path: Any) -> None:
    assert why in (reason("self.emitAll(1)", gather, tmp_path) or "it is local")


def reason(scatter: str, gather: str, directory: Any) -> str | None:
    """Return why a class with these methods is not local."""
    file = directory / "some.py"
    file.write_text(HEAD.format(scatter=scatter, gather=gather))
    return load_program(f"{file}:Some").classes[0].facts.not_local
