"""The topology of a changed graph, patched from the one before, is that which is built anew."""

from __future__ import annotations

import random
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.support.drawn_loops import name
from tests.support.seeds import seed
from vertexsdk import Graph, Latest, MainLoop, Sum, Vertex, run, state
from vertexsdk.engine import _recomputed_partition
from vertexsdk.engine._recomputed_partition import RecomputedPartition
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Delta

DIRECTIONS = ("out", "in", "both", "undirected")


class Plain(Vertex):
    """Ends after a number of iterations, and takes no notice of the values of edges."""

    total: float = state(1.0)
    messages = Sum(float)
    max_iterations = 3

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.total = 0.5 * self.total + delta.value

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.total)


class Weighted(Plain):
    """Reads the value of each edge."""

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.total * target.value / len(self.targets))


class Counted(Weighted):
    """Reads values that are integers."""

    edge = int


class Named(Plain):
    """Reads two attributes of each edge."""

    edge: ClassVar[dict[str, type]] = {"weight": float, "count": int}

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.total * target.weight + target.count)


class Latests(Vertex):
    """Sends another message along each edge."""

    x: int = state(1)
    messages = Latest(int)
    max_iterations = 3

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        total = self.x
        for k in range(len(delta.values)):
            total = (total * 3 + delta.values[k]) % 11
        self.x = total

    def scatter(self, iteration: int) -> None:
        for k, target in enumerate(self.targets):
            self.emit(target, self.x + k)


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each topology was patched; each is compared with what is built anew."""
    patches: list[bool] = []
    arrange = RecomputedPartition._topology

    def compared(part: RecomputedPartition) -> Any:
        earlier = part._arranged
        topology, total = yield from arrange(part)
        kept, part._arranged = part._arranged, None
        patches.append(earlier is not None)
        expected, _ = yield from arrange(part)
        columns, others = topology.to_columns()[0], expected.to_columns()[0]
        assert columns.keys() == others.keys()
        for column, values in columns.items():
            assert values.dtype == others[column].dtype, column
            assert np.array_equal(values, others[column]), column
        part._arranged = kept
        return topology, total

    monkeypatch.setattr(RecomputedPartition, "_topology", compared)
    monkeypatch.setattr(_recomputed_partition, "_FEW", 0)
    return patches


def _drawn(chance: random.Random, edges: dict[Any, Any], draw: Any) -> list[tuple[Any, ...]]:
    """Draw changes, and make them in `edges`."""
    changes: list[tuple[Any, ...]] = []
    for _ in range(chance.choice([1, 1, 3, 10])):
        ends, value = draw()
        known = list(edges)
        if known and chance.random() < 0.6:
            ends = chance.choice(known)
        if len(edges) > 1 and ends in edges and chance.random() < 0.6:
            del edges[ends]
            changes.append(("-", *ends))
        else:
            edges[ends] = value
            changes.append(("+", *ends, value))
    return changes


def _value(cls: type[Vertex], chance: random.Random) -> Any:
    """Draw the value of an edge."""
    if cls.edge is int:
        return chance.randrange(1, 9)
    if cls is Named:
        return {"weight": chance.random(), "count": chance.randrange(5)}
    return chance.random()


def _graph(cls: type[Vertex], edges: dict[Any, Any], **options: Any) -> Graph:
    values: Any = list(edges.values())
    if cls is Named:
        values = {key: [value[key] for value in values] for key in ("weight", "count")}
    return Graph.from_arrays(*zip(*edges, strict=True), values, **options)


def _edge(
    cls: type[Vertex], chance: random.Random, size: int, *, strings: bool, undirected: bool
) -> tuple[tuple[Any, Any], Any]:
    """Draw an edge and its value."""
    a, b = (chance.randrange(size + 3) for _ in range(2))
    if undirected:
        a, b = min(a, b), max(a, b)
    ends = name(a, strings=strings), name(b, strings=strings)
    return ends, _value(cls, chance)


@pytest.mark.sample(6)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("cls", [Plain, Weighted, Counted, Named, Latests])
def test_patched_is_as_built(cls: type[Vertex], partitions: int, patched: list[bool]) -> None:
    """Drawn graphs with string ids, values, and any direction; changed and forked."""
    chance = random.Random(seed())
    for direction in DIRECTIONS:
        strings, undirected = chance.random() < 0.3, chance.random() < 0.3
        program = type(cls.__name__, (cls,), {"direction": direction})
        draw = partial(
            _edge, cls, chance, chance.choice([3, 8, 30]), strings=strings, undirected=undirected
        )
        edges = dict(draw() for _ in range(chance.choice([1, 30, 90])))
        graph = partial(_graph, cls, edges, undirected=undirected, partitions=partitions)
        url = f"memory://patched-{chance.random()}"
        main = MainLoop(program, graph(), backend=url, compiled=False, history=False)
        for _ in range(3):
            main.query().close()
            branch = main.fork() if chance.random() < 0.4 else None
            main.ingest(_drawn(chance, edges, draw))
            if branch is not None:
                branch.apply(_drawn(chance, dict(edges), draw))
                branch.result().close()
                branch.close()
            if chance.random() < 0.3:
                main.ingest(_drawn(chance, edges, draw))
        expected = run(program, graph(), backend=f"{url}-run", compiled=False).to_dict()
        answer = main.query().to_dict()
        # names have other places in partitions than in a run, so that sums differ in last bits
        assert answer == expected or (strings and partitions > 1 and cls is not Latests)
        main.close()
    assert any(patched)


class Weakest(Vertex):
    """Sums the values of edges to neighbours, each of them once."""

    total: int = state(0)
    messages = Sum(int)
    direction = "undirected"
    edge = int
    max_iterations = 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.total = delta.value

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, target.value)


@pytest.mark.parametrize("partitions", [1, 2])
def test_of_edges_both_ways_that_of_the_smaller_id_counts(partitions: int) -> None:
    """Also where it was changed, or came, last."""
    for edges in [(1, 2, 5), (2, 1, 7)], [(2, 1, 7), (1, 2, 5)]:
        columns = list(zip(*edges, strict=True))
        graph = Graph.from_arrays(*columns, partitions=partitions)
        assert run(Weakest, graph, backend="memory://both-ways").to_dict() == {1: 5, 2: 5}
        for count in range(3):
            backend = f"memory://both-ways-{partitions}-{count}"
            first = [*edges[:count], (1, 3, 1)]
            graph = Graph.from_arrays(*zip(*first, strict=True), partitions=partitions)
            with MainLoop(Weakest, graph, backend=backend, replace=True) as main:
                main.query().close()
                main.ingest([("+", *edge) for edge in edges[count:]] + [("-", 1, 3)])
                assert main.query().to_dict() == {1: 5, 2: 5}


class Fifth(Plain):
    """Another class, which no vertex is of."""

    total: float = state(5.0)


@pytest.mark.parametrize("partitions", [1, 2])
def test_without_kinds_every_vertex_is_of_the_first_class(partitions: int) -> None:
    graph = Graph.from_arrays([1, 7], [16, 16], partitions=partitions)
    program = Program(Plain, Fifth)
    url = f"memory://classes-{partitions}"
    with MainLoop(program, graph, backend=url, compiled=False) as main:
        expected = run(program, graph, backend=f"{url}-run", compiled=False).to_dict()
        assert main.query().to_dict() == expected
        assert expected.keys() == {1, 7, 16}
        main.ingest([("+", 3, 1)])
        assert main.query().to_dict().keys() == {1, 3, 7, 16}


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("low", [-(2**63), -5 * 10**18, 2**63 - 9])
@pytest.mark.parametrize("far", [2**63 - 1, 2**62, -(2**63) + 5, 0])
def test_ids_of_a_graph_may_be_far_apart(low: int, far: int, partitions: int) -> None:
    """Also further than an int64 can tell."""
    graph = Graph.from_arrays([low, low + 1], [low + 1, low + 2], partitions=partitions)
    url = f"memory://apart-{low}-{far}-{partitions}"
    with MainLoop("wcc", graph, backend=url, compiled=False, replace=True) as main:
        main.query().close()
        assert main.ingest([("+", low + 1, far)])["added"] == 1
        least = min(low, far)
        assert main.query().to_dict() == dict.fromkeys([low, low + 1, low + 2, far], least)
        assert main.ingest([("-", low + 1, far)])["removed"] == 1
        assert main.query().to_dict() == dict.fromkeys([low, low + 1, low + 2], low)
