"""Which programs run on a live partition: those whose messages it can follow, no others."""

from __future__ import annotations

import pytest

from tests.support.live import LiveInProcess
from tests.support.reference import reference
from vertexsdk import Min, Sum, Vertex, VertexId, aggregate, inf, param, state
from vertexsdk.algorithms import BreadthFirstSearch, ConnectedComponents, PageRank, ShortestPaths
from vertexsdk.program.analysis.incremental_rules import why_from_init
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Aggregates, Delta


class Capped(Vertex):
    """No path is taken for longer than there are vertices."""

    origin: VertexId = param()
    length: float = state(inf)
    messages = Min(float)

    def init(self) -> None:
        self.length = 0.0 if self.id == self.origin else inf

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.length = 0.0 if self.id == self.origin else min(delta.value, self.most())

    def most(self) -> float:
        return float(self.num_vertices)

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.length + target.value)


class Crowded(Vertex):
    """A vertex is the further away the more targets it has."""

    origin: VertexId = param()
    length: float = state(inf)
    messages = Min(float)

    def init(self) -> None:
        self.length = 0.0 if self.id == self.origin else inf

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.length = 0.0 if self.id == self.origin else delta.value

    def scatter(self, iteration: int) -> None:
        length = self.length
        for target in self.targets:
            length += target.value
        self.emitAll(length)


class Shared(Vertex):
    """What a vertex tells depends on how many there are."""

    rank: float = state(0.0)
    messages = Sum(float)
    change = aggregate(Sum(float))

    def init(self) -> None:
        self.rank = 1.0

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        rank = 1.0 + 0.01 * delta.value
        self.change.contribute(abs(rank - self.rank))
        self.rank = rank

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.rank / self.num_vertices)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        return bool(aggregates.change <= 1e-13)


class Weighed(Shared):
    """What a vertex tells depends on the values of its edges."""

    def scatter(self, iteration: int) -> None:
        total = 0.0
        for target in self.targets:
            total += target.value
        self.emitAll(self.rank * total)


def why(cls: type[Vertex]) -> str | None:
    program = Program(cls)
    return why_from_init(program, program.bind({"origin": 0} if hasattr(cls, "origin") else {}))


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (Capped, "Capped's messages depend on num_vertices"),
        (Shared, "Shared's messages depend on num_vertices"),
        (Crowded, "Crowded's messages depend on which targets it has"),
        *((cls, None) for cls in (BreadthFirstSearch, ConnectedComponents, PageRank)),
        *((cls, None) for cls in (ShortestPaths, Weighed)),
    ],
)
def test_messages_which_cannot_be_followed_are_told(cls: type[Vertex], reason: str | None) -> None:
    assert why(cls) == reason


def test_a_sum_follows_values_which_scatter_reads() -> None:
    live = LiveInProcess(Program(Weighed), [(0, 3, 1.0), (4, 0, 1.0)])
    live.answer(2)
    live.take([("~", 4, 0, 7.0)])  # 4 hears nothing, and so its rank never changes
    rows = [(0, 3, 1.0), (4, 0, 7.0)]
    wanted = reference(Weighed, rows).values("rank")
    got = {v: row["rank"] for v, row in live.answer().items()}
    assert got == pytest.approx(wanted, abs=1e-10)
    live.close()
