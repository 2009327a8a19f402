"""Programs with a history: any changes refine every iteration to that of a run from scratch."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from tests.support.drawn_loops import check_drawn_loops, graph_of, name, rows_of
from tests.support.example_modules import example_module
from tests.support.recorded_iterations import same_iterations
from tests.support.seeds import seed
from tests.support.simulated_histories import Cores, Prioritised
from vertexsdk import (
    Algebra,
    Graph,
    InputError,
    Latest,
    MainLoop,
    Max,
    Min,
    RunError,
    Sum,
    Vertex,
    VertexId,
    param,
    run,
    state,
)
from vertexsdk.algorithms import (
    Coreness,
    GreedyColouring,
    LabelPropagation,
    PageRank,
    StronglyConnectedComponents,
)
from vertexsdk.engine import _history_partition
from vertexsdk.program.analysis.incremental_rules import why_no_history
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Aggregates, Delta
from vertexsdk.program.warn import InterpretedWarning


class Memory(Vertex):
    """Reads its state, the iteration and the order of messages; a rule ends it."""

    x: int = state(3)
    last: int = state(0)
    rounds: int = param(6)
    messages = Latest(int)

    def init(self) -> None:
        self.x = len(self.targets) * 3 + 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        total = 0
        for k in range(len(delta.values)):
            total = total * 3 + delta.values[k]
        self.x = (self.x * 2 + total + iteration) % 7
        if total % 2 == 0:
            self.last = iteration

    def scatter(self, iteration: int) -> None:
        if self.x != 2:
            self.emitAll(self.x // 2)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        return iteration >= self.rounds


class Against(Memory):
    """Sends against the direction of edges."""

    direction = "in"


class Ways(Memory):
    """Sends both ways, and counts the edges that lead here."""

    direction = "both"

    def scatter(self, iteration: int) -> None:
        count = 0
        for target in self.targets:
            if target.reverse:
                count += 1
        self.emitAll(self.x // 2 + count)


class Mean(Vertex):
    """Floats, rounded in the order of neighbours, for five iterations."""

    mean: float = state(0.0)
    times: int = state(0)
    messages = Latest(float)
    direction = "undirected"
    max_iterations = 5

    def init(self) -> None:
        self.mean = 0.7 * len(self.targets)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        total = 0.0
        for k in range(len(delta.values)):
            total += delta.values[k] * 0.3
        self.mean = total / (1 + len(delta.values))
        self.times += 1

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.mean)


class Second(Vertex):
    """Falls to the second smallest of what neighbours have, until nothing changes."""

    v: VertexId = state()
    messages = Latest(VertexId)
    direction = "both"

    def init(self) -> None:
        self.v = self.id

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if len(delta.values) > 1 and iteration < 9:
            ordered = np.sort(delta.values)
            if ordered[1] < self.v:
                self.v = ordered[1]

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.v)


class Votes(Vertex):
    """Integer sums, which cancel out now and then, and its own state."""

    x: int = state(0)
    same: int = state(0)
    messages = Sum(int)
    max_iterations = 7

    def init(self) -> None:
        self.x = len(self.targets) % 2 + 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.same += 1
        if (delta.value + self.x) % 3 != 0:
            self.x = (delta.value + self.x) % 3 - 1

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.x * len(self.targets))


class Ahead(Vertex):
    """Stays one ahead of the least neighbour, whichever way that goes."""

    x: int = state(0)
    messages = Min(int)
    direction = "undirected"
    asynchronous = False

    def init(self) -> None:
        self.x = len(self.targets)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if delta.value < 9 and iteration < 12:
            self.x = delta.value + 1

    def scatter(self, iteration: int) -> None:
        if self.x != 4:
            self.emitAll(self.x % 7)


class Loudest(Vertex):
    """Follows from the greatest message alone."""

    x: int = state(0)
    messages = Max(int)
    direction = "in"
    max_iterations = 9

    def init(self) -> None:
        self.x = len(self.targets)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.x = 0 - delta.value if delta.value > -100 else 5

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.x)


class Signs(Vertex):
    """Sends zeros of both signs, which are equal and are not the same."""

    x: float = state(0.0)
    s: float = state(0.0)
    messages = Latest(float)
    max_iterations = 6

    def init(self) -> None:
        self.x = 0.0 if len(self.targets) % 2 == 0 else -0.0

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        total = 0.0
        for k in range(len(delta.values)):
            total += math.copysign(1.0, delta.values[k]) + delta.values[k]
        self.s = total
        if total > 1.0:
            self.x = -0.0
        elif total < 0.0:
            self.x = 1.0
        else:
            self.x = 0.0

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.x)


class Fussy(Vertex):
    """Refuses vertices with four neighbours."""

    share: int = state(0)
    messages = Latest(int)
    direction = "undirected"

    def init(self) -> None:
        self.share = len(self.targets)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.share = 12 // (4 - len(delta.values))

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.share)


class Heaviest(Vertex):
    """Sends along each edge what depends on the edge; remembers."""

    x: int = state(1)
    start: int = state(2)
    count: int = state(0)
    messages = Max(int)
    edge = int
    max_iterations = 6

    def init(self) -> None:
        self.x = self.start
        for target in self.targets:
            self.x += target.value

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.x = (self.x + delta.value + iteration) % 11
        self.count += self.start

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.x * target.value % 7)


class Opinions(Vertex):
    """Takes in what comes along edges and against them in order, as two ways between a pair."""

    opinion: VertexId = state()
    total: int = state(0)
    messages = Latest(int)
    direction = "both"
    edge = int
    max_iterations = 5

    def init(self) -> None:
        self.opinion = self.id

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        total = 0
        for k in range(len(delta.values)):
            total = total * 2 + delta.values[k]
        self.total = (self.total + total) % 7
        if total % 3 == 0:
            self.opinion = self.id

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, 5 if target.reverse and self.opinion != target.id else target.value)


class Signed(Vertex):
    """Sums of integers, of one sign along edges and another one against them."""

    x: int = state(2)
    y: int = state(0)
    messages = Sum(int)
    direction = "both"
    edge = int
    max_iterations = 4

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.y = delta.value % 5
        self.x = (self.x + self.y) % 4

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, -self.x if target.reverse else self.y + target.value)


class Strengths(Vertex):
    """Sums of floats along edges, which depend on the order of addition, over three hops."""

    x: float = state(0.0)
    times: int = state(0)
    messages = Sum(float)
    edge = float
    max_iterations = 3

    def init(self) -> None:
        self.x = 1.0 / (1 + len(self.targets))

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.x = 0.1 + delta.value * 0.3
        self.times += 1

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.x / target.value)


class Shares(Vertex):
    """Sums of floats, the same to all neighbours, of very different sizes."""

    x: float = state(0.0)
    messages = Sum(float)
    direction = "undirected"
    max_iterations = 4

    def init(self) -> None:
        self.x = 1e16 if len(self.targets) % 3 == 0 else 0.1 * len(self.targets)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.x = delta.value if iteration < 3 else delta.value - self.x

    def scatter(self, iteration: int) -> None:
        self.emitAll(-self.x if len(self.targets) % 2 == 0 else self.x / 3.0)


class Features(Vertex):
    """Vectors that neighbours add up, for two hops."""

    x: float = state(0.0, size=3)
    norm: float = state(0.0)
    messages = Sum(float, size=3)
    direction = "both"
    max_iterations = 2

    def init(self) -> None:
        self.x[0] = 0.1 * len(self.targets)
        self.x[1] = 1.0
        self.x[2] = 0.7

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        total = 0.0
        for k in range(3):
            self.x[k] = (self.x[k] + delta.value[k]) * 0.3
            total += self.x[k]
        self.norm = total

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.x)


class Landmarks(Vertex):
    """Hops from the vertices of each of four degrees."""

    hops: float = state(math.inf, size=4)
    messages = Min(float, size=4)
    next: float = state(0.0, size=4)

    def init(self) -> None:
        for k in range(4):
            self.hops[k] = 0.0 if len(self.targets) == k else math.inf
            self.next[k] = self.hops[k] + 1.0

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        for k in range(4):
            self.hops[k] = min(self.hops[k], delta.value[k])
            self.next[k] = self.hops[k] + 1.0

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.next)


class Pairs(Vertex):
    """Hears vectors of each neighbour in order, and keeps a vector of its own."""

    x: int = state(1, size=2)
    c: int = state(0)
    messages = Latest(int, size=2)
    direction = "in"
    max_iterations = 6

    def init(self) -> None:
        self.x[0] = len(self.targets)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        total = 0
        for k in range(len(delta.values)):
            total = total * 3 + delta.values[k][0] - delta.values[k][1]
        self.x[1] = (self.x[0] + total) % 5
        self.x[0] = total % 3
        self.c += 1

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.x)


class Least(Vertex):
    """Float minima of zeros of both signs, which count as one; counts what it gathers."""

    x: float = state(0.0)
    sign: float = state(0.0)
    times: int = state(0)
    messages = Min(float)
    max_iterations = 5

    def init(self) -> None:
        self.x = 0.0 if len(self.targets) % 2 == 0 else -0.0

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.sign = math.copysign(1.0, delta.value)
        self.times += 1
        self.x = -0.0 if iteration % 2 == 0 or delta.value > 5.0 else 1.0

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.x)


def either(a: int, b: int) -> int:
    return a | b


class Bits(Vertex):
    """Which of the vertices are near, as bits: an algebra without an inverse."""

    near: int = state(0)
    messages = Algebra(int, combine=either, identity=0)
    max_iterations = 3

    def init(self) -> None:
        self.near = 1 << (len(self.targets) % 5)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.near = self.near | delta.value

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.near)


class Lanes(Vertex):
    """Costs along edges that are wide enough, of several attributes."""

    cost: float = state(math.inf)
    start: int = state(0)  # an attribute, which no method sets
    messages = Min(float)
    edge = {"length": float, "lanes": int}  # noqa: RUF012

    def init(self) -> None:
        self.cost = 0.0 if len(self.targets) > 4 else math.inf

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.cost = min(self.cost, delta.value)

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            if target.lanes >= 2 and self.start < 7:
                self.emit(target, self.cost + 0.1 * target.length)


class Routes(Lanes):
    """As `Lanes`, with conditions in several statements."""

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            if target.lanes < 2:
                continue
            if self.start >= 7 or target.length > 3.0:
                continue
            if target.id != self.id:
                if target.lanes != 3 or target.length < 2.0:
                    self.emit(target, self.cost + 0.1 * target.length)


class Relations(Vertex):
    """Hears, in order, whom it knows in one way, and whom in another."""

    x: int = state(1)
    messages = Latest(int)
    direction = "both"
    edge = {"type": int, "since": int}  # noqa: RUF012
    max_iterations = 5

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        total = 0
        for k in range(len(delta.values)):
            total = total * 3 + delta.values[k]
        self.x = (self.x + total) % 6

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            if target.type < 3 if target.reverse else target.type > 1:
                self.emit(target, self.x + target.since)


class Trust(Vertex):
    """Adds up floats along edges of a kind, where there are more than one number."""

    x: float = state(0.3)
    messages = Sum(float)
    direction = "undirected"
    edge = {"type": int, "share": float}  # noqa: RUF012
    max_iterations = 3

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.x = 0.3 + 0.7 * delta.value

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            if target.type != 2:
                self.emit(target, self.x * (0.1 + target.share))


PROGRAMS = [
    Lanes,
    Routes,
    Relations,
    Trust,
    Strengths,
    Shares,
    Features,
    Landmarks,
    Pairs,
    Least,
    Bits,
    Heaviest,
    Opinions,
    Signed,
    Coreness,
    LabelPropagation,
    Memory,
    Against,
    Ways,
    Mean,
    Second,
    Votes,
    Ahead,
    Loudest,
    Signs,
    StronglyConnectedComponents,
    Cores,
    Prioritised,
    example_module("linkage").Linkage,
]


@pytest.mark.sample(13)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("cls", PROGRAMS, ids=lambda cls: cls.__name__)
def test_any_changes_have_the_iterations_of_runs_from_scratch(
    cls: type[Vertex], partitions: int
) -> None:
    starts = check_drawn_loops(cls, partitions, 3, same_iterations)
    assert starts["warm"] >= 3


@pytest.mark.sample(4)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("cls", PROGRAMS, ids=lambda cls: cls.__name__)
def test_any_changes_have_their_answers_where_attempts_are_given_up(
    cls: type[Vertex], partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are on larger graphs; what was recorded becomes a history later, or never."""
    monkeypatch.setattr(_history_partition, "_FEW", 0)
    starts = check_drawn_loops(cls, partitions, 3)
    assert starts["init"] >= 3


class Givers(Vertex):
    """Send what they have, and remember."""

    x: int = state(2)
    messages = Latest(int)
    direction = "both"
    max_iterations = 6

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        total = iteration
        for k in range(len(delta.values)):
            total = total * 3 + delta.values[k]
        self.x = (self.x + total) % 7

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.x)


class Takers(Givers):
    """Have other fields, and send what depends on their targets."""

    x: int = state(5)
    most: float = state(0.5, size=2)

    def init(self) -> None:
        self.most[0] = 0.1 * len(self.targets)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        for k in range(len(delta.values)):
            self.most[1] = max(self.most[1], 0.5 * delta.values[k])
        self.x = (self.x + len(delta.values)) % 5

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.x + len(self.targets) % 3)


class Quiet(Shares):
    """Adds up, and sends nothing."""

    heard: float = state(0.0)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.heard += delta.value

    def scatter(self, iteration: int) -> None:
        self.emitAll(0.0)


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize(
    "program", [Program(Givers, Takers), Program(Takers, Givers), Program(Shares, Quiet)]
)
def test_vertices_of_several_classes(program: Program, partitions: int) -> None:
    assert why_no_history(program) is None
    assert check_drawn_loops(program, partitions, 3, same_iterations)["warm"] >= 3


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize(
    ("program", "options"), [("similarity", {}), ("sssp", {"max_iterations": 3})]
)
def test_built_in_algorithms_of_floats(
    program: str, options: dict[str, Any], partitions: int
) -> None:
    chance = random.Random(seed())
    edges = {(a, b): 0.1 * chance.randint(1, 9) for a in range(30) for b in (a + 1, a * 7 % 30)}
    settings: dict[str, Any] = {"params": {"origin": 3}, **options}

    def graph() -> Graph:
        ends = ([edge[k] for edge in edges] for k in (0, 1))
        return Graph.from_arrays(*ends, [*edges.values()], partitions=partitions)

    url = f"memory://floats-{program}-{partitions}"
    with MainLoop(program, graph(), backend=url, **settings) as main:
        main.query()
        for turn in range(8):
            edge, value = (chance.randrange(30), chance.randrange(30)), 0.1 * chance.randint(1, 9)
            if turn % 2:
                edge = chance.choice(sorted(edges))
                del edges[edge]
                main.ingest([("-", *edge)])
            else:
                edges[edge] = value
                main.ingest([("+", *edge, value)])
            answer = main.query()
            assert answer.statistics["start"] == "warm"
            scratch = run(program, graph(), backend=f"{url}-{turn}", **settings)
            assert rows_of(answer) == rows_of(scratch)


@pytest.mark.parametrize("partitions", [1, 3])
def test_changes_at_much_of_the_graph_begin_with_init(
    partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_history_partition, "_FEW", 0)
    edges = {(v, (v + k) % 997) for v in range(997) for k in range(1, 5)}
    options: dict[str, Any] = {"undirected": False, "strings": False, "partitions": partitions}
    url = f"memory://history-much-{partitions}"
    with MainLoop(Coreness, graph_of(edges, **options), backend=url) as main:
        main.query()
        for count, start in ((1, "warm"), (400, "init"), (1, "warm")):
            added = {(k, k + 7) for k in range(count)}
            main.ingest([("+", *(name(v, strings=False) for v in edge)) for edge in sorted(added)])
            edges |= added
            answer = main.query()
            assert answer.statistics["start"] == start
            assert ("much of the graph" in answer.statistics["start_reason"]) == (start == "init")
            scratch = run(
                Coreness, graph_of(edges, **options), backend=f"{url}-again", replace=True
            )
            assert rows_of(answer) == rows_of(scratch)
            main.ingest([("-", *(name(v, strings=False) for v in edge)) for edge in sorted(added)])
            edges -= added
            main.query()


@pytest.fixture
def attempted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """An entry for each iteration that is refined, however few messages there are."""
    monkeypatch.setattr(_history_partition, "_FEW", 0)
    step = _history_partition.RefinedIterations.step
    refined: list[bool] = []

    def counted(self: Any, iteration: int) -> Any:
        refined.append(True)
        return step(self, iteration)

    monkeypatch.setattr(_history_partition.RefinedIterations, "step", counted)
    return refined


def start_of_branch(main: MainLoop, graph: Graph, edges: list[tuple[int, int]]) -> str:
    """How the answer of a branch with more edges starts; it is that of a run on the graph."""
    with main.fork() as branch:
        branch.apply([("+", *(name(v, strings=False) for v in edge)) for edge in edges])
        answer = branch.start().result()
        scratch = run(Coreness, graph, backend="memory://history-branch", replace=True)
        assert rows_of(answer) == rows_of(scratch)
        return str(answer.statistics["start"])


@pytest.mark.parametrize("partitions", [1, 3])
def test_attempts_that_are_given_up_become_rare(partitions: int, attempted: list[bool]) -> None:
    """Answers after as many changes begin with `init` at once, and few of them are recorded."""
    edges = {(v, (v + k) % 997) for v in range(997) for k in range(1, 5)}
    options: dict[str, Any] = {"undirected": False, "strings": False, "partitions": partitions}
    attempts, recorded, many = set(), set(), [(k, k + 7) for k in range(400)]
    with MainLoop(
        Coreness, graph_of(edges, **options), backend=f"memory://history-rare-{partitions}"
    ) as main:
        main.query()
        for turn in range(26):
            sign, some = "+-"[turn % 2], many if turn < 20 else many[:1]
            main.ingest([(sign, *(name(v, strings=False) for v in edge)) for edge in some])
            answer = main.query()
            assert answer.statistics["start"] == ("init" if turn < 21 else "warm")
            if "history_bytes" in answer.statistics:
                recorded.add(turn)
            if attempted:
                attempts.add(turn)
            attempted.clear()
            if turn == 20:  # the iterations are recorded, and the history is for few changes
                for some, start in ((many[1:], "init"), (many[1:2], "warm")):
                    graph = graph_of(edges | {many[0], *some}, **options)
                    assert start_of_branch(main, graph, some) == start
        scratch = run(Coreness, graph_of(edges, **options), backend="memory://history-rare")
        assert rows_of(answer) == rows_of(scratch)
    assert attempts == {0, 1, 4, 11, *range(21, 26)}
    assert recorded == {*range(8), 10, *range(20, 26)}


@pytest.mark.parametrize("partitions", [1, 3])
def test_where_one_change_is_too_much_more_changes_are_too(
    partitions: int, attempted: list[bool]
) -> None:
    """Attempts become rare for all numbers of changes, and only what they need is recorded."""
    edges = {(a, b) for a in range(30) for b in range(30) if a != b}
    options: dict[str, Any] = {"undirected": False, "strings": False, "partitions": partitions}
    attempts, recorded = set(), set()
    url = f"memory://history-one-{partitions}"
    with MainLoop(Features, graph_of(edges, **options), backend=url) as main:
        main.query()
        for turn in range(13):
            sign = "-+"[turn % 2]
            some = {(3, b) for b in range(20, 29 if turn // 2 % 2 else 21)}
            main.ingest([(sign, *(name(v, strings=False) for v in e)) for e in sorted(some)])
            edges = edges - some if sign == "-" else edges | some
            answer = main.query()
            if "history_bytes" in answer.statistics:
                recorded.add(turn)
            if attempted:
                attempts.add(turn)
            attempted.clear()
        scratch = run(Features, graph_of(edges, **options), backend=f"{url}-run")
        assert rows_of(answer) == rows_of(scratch)
    assert attempts == {0, 1, 4, 11, 12}
    assert recorded == {0, 3, 10, 11}


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_history_that_is_too_large_is_not_kept(
    partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_history_partition, "_LEAST", 0)
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4], partitions=partitions)
    url = f"memory://history-large-{partitions}"
    for cls, most, start in ((Coreness, 0, "init"), (Wide, 192, "init"), (Wide, 2000, "warm")):
        monkeypatch.setattr(_history_partition, "_MOST", most)
        with MainLoop(cls, graph, backend=f"{url}-{most}") as main:
            main.query()
            main.ingest([("+", 4, 1)])
            answer = main.query()
            assert answer.statistics["start"] == start
            if start == "init":
                reason = "the history of iterations is too large"
                assert answer.statistics["start_reason"] == reason
            scratch = run(
                cls,
                Graph.from_arrays([1, 2, 3, 4], [2, 3, 4, 1], partitions=partitions),
                backend=f"{url}-{most}-run",
            )
            assert rows_of(answer) == rows_of(scratch)


@pytest.mark.parametrize("partitions", [1, 2])
def test_the_history_takes_so_many_bytes_at_most(partitions: int) -> None:
    """One that grows beyond them is given up, and the answer says so."""
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4], partitions=partitions)
    changes = [("+", a, b) for a in range(1, 12) for b in range(a)]
    reasons = []
    sizes = []
    for bytes_allowed in (None, 1, 300):
        url = f"memory://history-bytes-{partitions}-{bytes_allowed}"
        with MainLoop(Coreness, graph, backend=url, history_bytes=bytes_allowed) as main:
            sizes.append(main.query().statistics.get("history_bytes"))
            main.ingest([("+", 4, 1)])
            assert main.query().to_dict() == dict.fromkeys([1, 2, 3, 4], 2)
            main.ingest(changes)
            answer = main.query()
            assert answer.to_dict() == {0: 11, **dict.fromkeys(range(1, 12), 11)}
            main.ingest([("+", 12, 1)])
            reasons.append(main.query().statistics["start_reason"])
    assert sizes[0]
    assert sizes == [sizes[0], None, sizes[0]]
    assert "history" not in reasons[0]
    text = "the history of iterations takes more than history_bytes="
    assert reasons[1:] == [f"{text}1", f"{text}300"]


def test_no_history_is_kept_where_it_is_not_wanted() -> None:
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4])
    with MainLoop(Coreness, graph, backend="memory://no-history", history=False) as main:
        main.query()
        main.ingest([("+", 4, 1)])
        answer = main.query()
        assert answer.statistics["start"] == "init"
        assert answer.statistics["start_reason"] == "no history is kept, history=False"
        assert answer.to_dict() == dict.fromkeys([1, 2, 3, 4], 2)
    with pytest.raises(InputError, match="history_bytes is 0; it must be an integer from 1"):
        MainLoop(Coreness, graph, backend="memory://no-history-0", history_bytes=0)


@pytest.mark.parametrize("compiled", ["require", False])
@pytest.mark.parametrize("partitions", [1, 2])
def test_an_error_of_a_method_is_reported_and_passes(partitions: int, compiled: Any) -> None:
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4], undirected=True, partitions=partitions)
    url = f"memory://history-fussy-{partitions}-{compiled}"
    with MainLoop(Fussy, graph, backend=url, compiled=compiled) as main:
        main.query()
        main.ingest([("+", 1, 5), ("+", 1, 6), ("+", 1, 7)])
        with pytest.raises(RunError, match=r"test_history.py:\d+: .*ZeroDivisionError.*vertex 1"):
            main.query()
        main.ingest([("-", 1, 7)])
        assert main.query().to_dict() == {1: 12, 2: 6, 3: 6, 4: 4, 5: 4, 6: 4}
        main.ingest([("+", 4, 5)])
        answer = main.query()
        assert answer.to_dict() == {1: 12, 2: 6, 3: 6, 4: 6, 5: 6, 6: 4}
        assert answer.statistics["start"] == "warm"


def test_programs_have_a_history_or_say_why_not() -> None:
    assert {why_no_history(Program(cls)) for cls in PROGRAMS} == {None}
    assert why_no_history(Program(GreedyColouring)) is None
    assert "random numbers follow from names" in str(
        why_no_history(Program(GreedyColouring), strings=True)
    )
    assert "has aggregators" in str(why_no_history(Program(PageRank)))
    for cls in (SometimesSilent, SilentToMany):
        assert "does not send the same to all targets" in str(why_no_history(Program(cls)))
    assert "counts iterations through all" in str(why_no_history(Program(Cores), max_iterations=9))


class Wide(Vertex):
    """Entries of its history are of 645 bytes."""

    x: float = state(0.0, size=40)
    messages = Sum(float, size=40)
    max_iterations = 2

    def init(self) -> None:
        self.x[0] = 1.0

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        for k in range(40):
            self.x[k] += delta.value[k]

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.x)


class SometimesSilent(Trust):
    """Its targets keep the message before, where it sends nothing more."""

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            if self.x < target.share:
                self.emit(target, self.x)


class SilentToMany(Trust):
    """Likewise, once it has more targets."""

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            if len(self.targets) < target.type:
                self.emit(target, self.x)


def count_vertices(vertex: Any) -> int:
    return int(vertex.num_vertices)


class Unseen(Mean, abstract=True):
    """Reads what its own source does not name."""

    @property
    def wide(self) -> int:
        return self.num_vertices

    @classmethod
    def count(cls, vertex: Any) -> int:
        return int(vertex.num_vertices)


class Function(Unseen):
    def init(self) -> None:
        self.mean = float(count_vertices(self))


class Property(Unseen):
    def init(self) -> None:
        self.mean = float(self.wide)


class Another(Unseen):
    def init(self) -> None:
        me = self
        self.mean = float(me.num_vertices)


class OfClass(Unseen):
    def init(self) -> None:
        self.mean = float(self.count(self))


class Named(Unseen):
    def init(self) -> None:
        self.mean = float(getattr(self, "num_vertices"))  # noqa: B009


class Given(Unseen):
    def init(self) -> None:
        for target in self.targets:
            self.mean += len(str(target))


class Listed(Unseen):
    def init(self) -> None:
        self.mean = float(len(list(self.targets)))


class Inherited(Unseen):
    def init(self) -> None:
        super().init()


UNSEEN = {
    Function: "Function.init uses self itself", Property: "Property.init reads self.wide",
    Another: "Another.init uses self itself", OfClass: "OfClass.init uses self itself",
    Named: "Named.init calls getattr", Given: "Given.init uses target, a target, itself",
    Listed: "Listed.init uses self.targets other than in a loop or by len",
    Inherited: "Inherited.init calls super",
}  # fmt: skip


@pytest.mark.parametrize("cls", UNSEEN, ids=lambda cls: cls.__name__)
def test_reads_that_the_source_does_not_name_have_no_history(cls: type[Vertex]) -> None:
    assert why_no_history(Program(cls)) == UNSEEN[cls]


class Alias(Vertex):
    """Sends by another name of `emit`."""

    x: int = state(0)
    messages = Sum(int)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.x = delta.value

    def scatter(self, iteration: int) -> None:
        send = self.emit
        for target in self.targets:
            send(target, target.id)


def test_a_method_of_another_name_sends_each_target_its_own() -> None:
    graph = Graph.from_arrays([1, 1, 1], [2, 3, 4])
    with pytest.warns(InterpretedWarning):
        answer = run(Alias, graph, backend="memory://alias")
    assert answer.to_dict() == {1: 0, 2: 2, 3: 3, 4: 4}
