"""A branch that goes on from an earlier answer ends where a run from scratch does."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.engine.programs import Alternating, Widest
from tests.support.inprocess import InProcess
from vertexsdk import Min, Sum, Vertex, inf, state
from vertexsdk.algorithms import (
    BreadthFirstSearch,
    ConnectedComponents,
    Coreness,
    Degree,
    LabelPropagation,
    PageRank,
    ShortestPaths,
    StronglyConnectedComponents,
)
from vertexsdk.arrays import shared_memory
from vertexsdk.compile.plan import ResidentAnswer
from vertexsdk.program.analysis.warm_start import why_from_init
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Delta
from vertexsdk.testing.oracles import disagreements, expected

Edges = dict[tuple[int, int], float]


def change(rng: random.Random, edges: Edges, vertices: int, undirected: bool) -> None:
    """Make one change at random: as often a removal as an insertion, values small and equal."""
    a, b = rng.randrange(vertices), rng.randrange(vertices)
    if undirected:
        a, b = min(a, b), max(a, b)
    if rng.random() < 0.5 and edges:
        del edges[rng.choice(sorted(edges))]
    else:
        edges[a, b] = float(rng.choice([0, 1, 1, 2, 5]))


def answers(
    program: type[Vertex], params: dict[str, Any], seed: int, compiled: Any, partitions: int = 1
) -> Any:
    """Yield, for a graph after some changes again and again, a warm and a cold run's states."""
    rng = random.Random(seed)
    undirected = bool(seed % 2)
    vertices, edges = rng.choice([6, 15, 40]), {}
    for _ in range(rng.choice([1, 2, 3]) * vertices):
        change(rng, edges, vertices, undirected)
    edges = edges or {(0, 1): 1.0}
    kept: ResidentAnswer | None = None
    for _ in range(8):
        rows = [(a, b, x) for (a, b), x in edges.items()]
        names = [params["origin"]] if "origin" in params else []
        runs = InProcess(Program(program), rows, names, undirected=undirected)
        options: Any = {"partitions": partitions, "compiled": compiled}
        warm, done, _ = runs.run(params, warm=kept, keep=True, **options)
        cold, _, _ = runs.run(params, **options)
        if kept is not None:
            shared_memory.drop(kept.key)
        kept = runs.kept
        yield rows, undirected, warm, cold, done
        for _ in range(rng.choice([0, 1, 1, 4])):
            change(rng, edges, vertices, undirected)
        edges = edges or {(0, 1): 1.0}
    assert kept is not None
    shared_memory.drop(kept.key)


@pytest.mark.parametrize("compiled", ["require", False], ids=["compiled", "interpreted"])
@pytest.mark.parametrize(
    ("program", "params", "name"),
    [
        (ShortestPaths, {"origin": 0}, "sssp"),
        (BreadthFirstSearch, {"origin": 0}, "bfs"),
        (ConnectedComponents, {}, "wcc"),
        (Widest, {"origin": 0}, None),
    ],
)
def test_min_and_max_are_trimmed(program: Any, params: Any, name: Any, compiled: Any) -> None:
    for seed in range(16):
        for rows, undirected, warm, cold, _ in answers(program, params, seed, compiled):
            assert warm == cold, seed
            if name is not None:
                names = list(params.values())
                wanted = expected(name, rows, names, params, undirected=undirected)
                assert not disagreements(wanted, warm, 0.0)


@pytest.mark.parametrize("partitions", [1, 2])  # 7 in place: tests/engine/incremental
def test_a_sum_contracts(partitions: int) -> None:
    params = {"epsilon": 1e-13}
    for seed in range({1: 3, 2: 1}[partitions]):
        runs = answers(PageRank, params, seed, "require", partitions)
        for number, (_, _, warm, cold, _) in enumerate(runs):
            for vertex, row in cold.items():
                assert warm[vertex]["rank"] == pytest.approx(row["rank"], abs=1e-12), number


def test_less_is_done_where_little_changes() -> None:
    path = [(k, k + 1, 1.0) for k in range(200)]
    program = Program(ShortestPaths)
    first = InProcess(program, path)
    _, cold, iterations = first.run({"origin": 0}, keep=True)
    again = InProcess(program, [*path[:150], *path[151:]])
    state, warm, fewer = again.run({"origin": 0}, warm=first.kept, keep=True)
    assert state[150] == {"length": 150.0}
    assert state[151] == {"length": inf}
    assert iterations == 200
    assert fewer <= 2
    assert warm.messages < cold.messages
    for runs in (first, again):
        shared_memory.drop(runs.kept.key)  # type: ignore[union-attr]


def test_vertices_on_a_cycle_do_not_support_each_other() -> None:
    """The edge into a cycle of length 0 goes: all its values are equal, and none is founded."""
    cycle = [(1, 2, 0.0), (2, 3, 0.0), (3, 1, 0.0)]
    program = Program(ShortestPaths)
    first = InProcess(program, [(0, 1, 4.0), *cycle])
    first.run({"origin": 0}, keep=True)
    again = InProcess(program, [(0, 9, 1.0), *cycle])
    state, _, _ = again.run({"origin": 0}, warm=first.kept, keep=True)
    assert [state[v]["length"] for v in (0, 1, 2, 3, 9)] == [0, inf, inf, inf, 1]
    for runs in (first, again):
        shared_memory.drop(runs.kept.key)  # type: ignore[union-attr]


class Counts(Vertex):
    paths: int = state(0)
    messages = Sum(int)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.paths = delta.value

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.paths)


class Remembers(Vertex):
    least: float = state(inf)
    messages = Min(float)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.least = min(self.least, delta.value)

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.least + 1)


class Sometimes(Vertex):
    least: float = state(inf)
    messages = Min(float)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if delta.value < 7:
            self.least = delta.value

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.least + 1)


class Aged(Sometimes):
    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.least = delta.value

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.least + iteration)


class Limited(ShortestPaths):
    max_iterations = 3


@pytest.mark.parametrize(
    ("program", "params", "partitions", "reason"),
    [
        (LabelPropagation, {}, 1, "whose fixed point depends on the start"),
        (Coreness, {}, 1, "whose fixed point depends on the start"),
        (Degree, {}, 1, "has no rule of convergence"),
        (StronglyConnectedComponents, {}, 1, "gather reads self.stage of before"),
        (PageRank, {"iterations": 3}, 1, "converged reads the iteration"),
        (Counts, {}, 1, "has no rule of convergence"),
        (Remembers, {}, 1, "gather reads self.least of before"),
        (Sometimes, {}, 1, "gather does not set self.least in every case"),
        (Aged, {}, 1, "scatter reads the iteration"),
        (Limited, {"origin": 1}, 1, "ends after a number of iterations"),
        (Alternating, {"origin": 1}, 1, "says asynchronous = False"),
        (ConnectedComponents, {}, 2, "there are several partitions"),
        (PageRank, {}, 2, None),
        (ConnectedComponents, {}, 1, None),
    ],
)
def test_why_a_branch_begins_with_init(
    program: type[Vertex], params: dict[str, Any], partitions: int, reason: str | None
) -> None:
    whole = Program(program)
    found = why_from_init(whole, whole.bind(params), 0.0, partitions)
    assert (found is None) == (reason is None)
    assert reason is None or reason in str(found)
