"""A live partition: whatever changed, in forks too, its answer is that of a run from scratch."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

from tests.engine.programs import Widest
from tests.support.live import LiveInProcess
from tests.support.random_changes import Edges, Row, random_rows
from tests.support.reference import reference
from vertexsdk import Min, Sum, Vertex, VertexId, aggregate, inf, param, state
from vertexsdk.algorithms import (
    BreadthFirstSearch,
    ConnectedComponents,
    PageRank,
    ShortestPaths,
)
from vertexsdk.engine import incremental_partition as partition
from vertexsdk.engine import loop_task, partition_graph
from vertexsdk.errors import VertexError
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Aggregates, Delta
from vertexsdk.testing.oracles import disagreements, expected

ORIGIN = 3


class Clamped(Vertex):
    """Messages get better around a cycle, and states do not: levels cannot tell what stands."""

    origin: VertexId = param()
    length: float = state(inf)
    messages = Min(float)

    def init(self) -> None:
        self.length = 0.0 if self.id == self.origin else inf

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.length = 0.0 if self.id == self.origin else max(delta.value, -4.0)

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.length - target.value)


class Falling(Vertex):
    """Who hears of a rank passes on another one: no monotone program, each answer begins anew."""

    origin: VertexId = param()
    rank: float = state(0.0)
    messages = Min(float)

    def init(self) -> None:
        self.rank = 9.0

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.rank = 1.0 if self.id == self.origin else min(delta.value, 50.0)

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.rank + target.value)


class Standing(Vertex):
    """Two fields, neither of which adds up to the same after an iteration."""

    score: float = state(0.0)
    share: float = state(0.0)
    messages = Sum(float)
    total = aggregate(Sum(float))
    change = aggregate(Sum(float))

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        least = 1.0 + self.id % 3
        score = least + 0.5 * delta.value + 0.3 * self.total.value / self.num_vertices
        self.change.contribute(abs(score - self.score))
        self.total.contribute(0.5 * score + 1.0)
        self.score = score
        self.share = (score - least) / (1 + len(self.targets))

    def scatter(self, iteration: int) -> None:
        self.emitAll(0.4 * self.share + 0.5 * self.score / (1 + len(self.targets)))

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        return bool(aggregates.change <= 1e-11 and aggregates.total > 0.0)


BUILT_IN: dict[str, tuple[type[Vertex], dict[str, Any]]] = {
    "bfs": (BreadthFirstSearch, {"origin": ORIGIN}),
    "sssp": (ShortestPaths, {"origin": ORIGIN}),
    "wcc": (ConnectedComponents, {}),
    "pagerank": (PageRank, {"epsilon": 1e-10}),
}


@cache
def program(cls: type[Vertex]) -> Program:
    return Program(cls)


class History:
    """A random stream of changes, made to a live partition and to a model of its edges."""

    def __init__(self, cls: type[Vertex], params: dict[str, Any], seed: int, undirected: bool):
        self.rng = random.Random(seed)
        self.cls, self.params, self.undirected = cls, params, undirected
        self.size = self.rng.choice([4, 8, 14])
        self.edges: Edges = {}
        for _ in range(self.rng.randint(1, 3 * self.size)):
            self.edges[self.pair()] = self.value()
        self.named = [ORIGIN] if "origin" in params else []
        self.live = LiveInProcess(
            program(cls),
            [(a, b, x) for (a, b), x in self.edges.items()],
            self.named,
            params=params,
            undirected=undirected,
            threads=self.rng.choice([1, 2]),
            partitions=self.rng.choice([1, 2, 7]),
            compiled=self.rng.random() < 0.7,
        )

    def pair(self) -> tuple[int, int]:
        a, b = self.rng.randrange(self.size + 2), self.rng.randrange(self.size + 2)
        return (min(a, b), max(a, b)) if self.undirected else (a, b)

    def value(self) -> float:
        return float(self.rng.choice([0, 1, 1, 2, 5]))

    def changes(self, edges: Edges) -> list[Row]:
        """Make changes of any kind to `edges`, also of edges that are not there."""
        return random_rows(
            self.rng, edges, self.rng.randint(1, self.rng.choice([1, 3, 12])),
            undirected=self.undirected, vertices=range(self.size + 2), values=(0, 1, 1, 2, 5),
        )  # fmt: skip

    def check(self, live: LiveInProcess, edges: Edges) -> None:
        """The answer of `live` is that of a run from scratch on `edges`."""
        got = live.answer()
        rows = [(a, b, x) for (a, b), x in sorted(edges.items())]
        name = next((k for k, (cls, _) in BUILT_IN.items() if cls is self.cls), None)
        if not rows and not self.named:
            assert got == {}
        elif name is None:
            wanted = reference(
                self.cls, rows, self.named, params=self.params, undirected=self.undirected
            )
            assert got == wanted.state
        else:
            oracle = expected(name, rows, self.named, self.params, undirected=self.undirected)
            assert not disagreements(oracle, got, 1e-8)

    def run(self, steps: int) -> None:
        forks: list[tuple[LiveInProcess, Edges]] = []
        rng, live = self.rng, self.live
        for _ in range(steps):
            before = len(self.edges)
            counts = live.take(self.changes(self.edges))
            assert len(self.edges) - before == counts["added"] - counts["removed"]
            if rng.random() < 0.3:
                live.answer(rng.randint(0, 2))
            if rng.random() < 0.3:
                forks.append((live.fork(), dict(self.edges)))
            if rng.random() < 0.6:
                self.check(live, self.edges)
            if forks and rng.random() < 0.4:
                fork, edges = rng.choice(forks)
                fork.take(self.changes(edges))  # hypothetical
                self.check(fork, edges)
        if forks and rng.random() < 0.5:
            fork, edges = forks.pop()
            live.job(adopt=fork.key)
            self.check(live, edges)
        for fork, edges in forks:
            self.check(fork, edges)
            fork.close()
        live.close()


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.sample(2)
def test_answers_equal_the_oracle(
    name: str, undirected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls, params = BUILT_IN[name]
    for seed in range(8):
        # places are given anew at once, or never
        monkeypatch.setattr(partition_graph, "SPARE", 0 if seed % 2 else 1 << 16)
        History(cls, params, seed, undirected).run(8)


@pytest.mark.parametrize("cls", [Widest, Clamped, Falling])
@pytest.mark.sample(1)
def test_other_programs_equal_the_reference(cls: type[Vertex]) -> None:
    for seed in range(10):
        History(cls, {"origin": ORIGIN}, seed, False).run(8)


@pytest.fixture
def restarts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reasons why partitions began anew."""
    found: list[str] = []
    restart = partition.IncrementalPartition.restart

    def noted(self: partition.IncrementalPartition, reason: str) -> None:
        found.append(reason)
        restart(self, reason)

    monkeypatch.setattr(partition.IncrementalPartition, "restart", noted)
    return found


@pytest.mark.slow
def test_programs_begin_anew_only_where_they_must(restarts: list[str]) -> None:
    for seed in range(5):
        History(ShortestPaths, {"origin": ORIGIN}, seed, False).run(8)
    assert restarts == []
    for seed in range(10):
        History(Clamped, {"origin": ORIGIN}, seed, False).run(8)
    assert {*restarts} == {"levels cannot tell which values support each other"}


def test_values_do_not_support_each_other_around_a_cycle() -> None:
    edges = [(1, 2), (2, 3), (3, 4), (4, 2)]
    live = LiveInProcess(program(BreadthFirstSearch), edges, [1], params={"origin": 1})
    assert live.answer()[4] == {"depth": 3}
    live.take([("-", 1, 2)])
    assert {row["depth"] for v, row in live.answer().items() if v != 1} == {2**63 - 1}
    live.close()


def test_the_work_is_that_of_what_changed() -> None:
    edges = [(k, k + 1) for k in range(2000)]
    live = LiveInProcess(program(BreadthFirstSearch), edges, [0], params={"origin": 0})
    live.answer()
    live.take([("-", 1990, 1991)])
    assert live.last is not None
    withdrawn = live.last.work.touched
    live.answer()
    assert withdrawn + live.last.work.touched < 30
    live.close()


def test_places_of_vertices_that_went_are_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_graph, "SPARE", 10)
    live = LiveInProcess(program(ConnectedComponents), [(0, 1)])
    for k in range(1, 200):
        live.take([("+", k, k + 1), ("-", k - 1, k)])
    assert live.answer() == {199: {"component": 199}, 200: {"component": 199}}
    assert loop_task._partitions[live.key, 0][1].graph.index.n < 20
    live.close()


def test_no_iterations_are_none() -> None:
    live = LiveInProcess(program(ConnectedComponents), [(1, 2)])
    assert live.job(iterate=True, iterations=0).work.iterations == 0
    assert live.answer()[2] == {"component": 1}
    live.close()


def test_strict_takes_in_nothing_of_a_batch_with_an_absent_edge() -> None:
    live = LiveInProcess(program(ConnectedComponents), [(1, 2), (3, 4)])
    live.take([("+", 2, 3), ("-", 7, 8)], strict=True)
    assert live.last is not None
    assert live.last.absent == [1]
    assert live.answer()[4] == {"component": 3}
    live.close()


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_shares_add_up_to_one_after_changes(partitions: int) -> None:
    """What they add up to would be wrong for long: it comes right by the damping alone."""
    edges = [(k, (7 * k + 3) % 40) for k in range(30)]  # 30 to 39 have no edges out
    params = {"epsilon": 1e-12}
    live = LiveInProcess(program(PageRank), edges, params=params, partitions=partitions)
    live.answer()
    live.take([("+", 33, 1), ("+", 35, 34), ("-", 2, 17), ("+", 5, 50), ("+", 51, 35)])
    live.take([("-", 35, 34), ("+", 36, 2), ("+", 17, 2), ("+", 50, 36)])
    for _ in range(3):
        ranks = [row["rank"] for row in live.answer(1).values()]
        assert sum(ranks) == pytest.approx(1.0, abs=1e-11)
    live.close()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_vertices_that_go_leave_no_error_that_fades_slowly(partitions: int, compiled: bool) -> None:
    """What their ranks added up to is made up for in one iteration, whatever the epsilon is."""
    rng = random.Random(1)
    edges = sorted({(v, rng.randrange(300)) for v in range(300) for _ in range(5)})
    ends = [(v, 300 + v) for v in range(10)]
    options: dict[str, Any] = {"params": {"epsilon": 1e-7}, "compiled": compiled}
    live = LiveInProcess(program(PageRank), edges + ends, partitions=partitions, **options)
    live.answer()
    live.take([("-", *edge) for edge in ends])
    ranks = [row["rank"] for row in live.answer().values()]
    assert live.last is not None
    assert live.last.warm
    from_init = LiveInProcess(program(PageRank), edges, partitions=partitions, **options)
    from_init.answer()
    assert from_init.last is not None
    assert live.last.work.iterations <= from_init.last.work.iterations
    assert len(ranks) == 300
    assert sum(ranks) == pytest.approx(1.0, abs=1e-13)
    live.close()
    from_init.close()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_sums_that_iterations_change_are_scaled(
    partitions: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixed point is that of a run, with fewer iterations than without scaling."""
    edges = [(v, (v * k + 1) % 100) for v in range(100) for k in (3, 7)]
    ends = [(v, 100 + v % 20) for v in range(100)]
    fresh = LiveInProcess(program(Standing), edges)
    expected = fresh.answer()
    fresh.close()
    iterations = []
    for most in (0.0, 32.0):
        monkeypatch.setattr(partition, "_FAR", most)
        live = LiveInProcess(
            program(Standing), edges + ends, partitions=partitions, compiled=compiled
        )
        live.answer()
        live.take([("-", *edge) for edge in ends])
        answer = live.answer()
        assert live.last is not None
        assert live.last.warm
        iterations.append(live.last.work.iterations)
        live.close()
        assert answer.keys() == expected.keys()
        for v, row in answer.items():
            assert row == pytest.approx(expected[v], abs=1e-10)
    assert iterations[1] < iterations[0]


@pytest.mark.parametrize("call", [2, 3])
def test_a_method_that_fails_while_sums_are_scaled(
    call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails in one of two partitions, in the second iteration or as that is scaled."""
    edges = [(v, (v + k) % 50) for v in range(50) for k in (1, 7)]
    live = LiveInProcess(program(Standing), [*edges, (1, 99)], partitions=2, compiled=False)
    live.answer()
    live.take([("-", 1, 99)])
    part: Any = loop_task._partitions[live.key, 1][1]
    methods, calls = part.class_methods[0], []
    gather = methods.gather

    def failing(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == call:
            raise VertexError("no luck")
        return gather(*arguments)

    monkeypatch.setattr(methods, "gather", failing)
    if call == 2:
        with pytest.raises(VertexError, match="no luck"):
            live.answer()
    else:
        fresh = LiveInProcess(program(Standing), edges)
        expected = fresh.answer()
        fresh.close()
        for v, row in live.answer().items():
            assert row == pytest.approx(expected[v], abs=1e-10)
    assert len(calls) >= call
    live.close()
