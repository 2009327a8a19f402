"""A sum goes on from the answer before only where it has one fixed point."""

from __future__ import annotations

from typing import Any

import pytest

from vertexsdk import InputError, Max, Sum, Vertex, aggregate, param, state
from vertexsdk.algorithms import PageRank, PersonalisedPageRank
from vertexsdk.program.analysis.incremental_rules import why_from_init, why_not_linear
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Aggregates, Delta


class Katz(Vertex):
    rank: float = state(0.0)
    messages = Sum(float)
    change = aggregate(Sum(float))
    total = aggregate(Sum(float))

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        rank = 1.0 + 0.03 * self.heard(1.0) * delta.value
        rank += self.total.value / self.num_vertices / 100
        self.change.contribute(abs(rank - self.rank))
        self.total.contribute(rank)
        self.rank = rank

    def heard(self, share: float) -> float:
        return share if len(self.targets) > 0 else 0.5

    def scatter(self, iteration: int) -> None:
        share = -self.rank / 2
        self.emitAll(share)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        return bool(aggregates.change <= 1e-13)


class Core(Katz):
    """Whoever hears of k others stays: from all, the k-core; from none, none."""

    k: float = param(2.0)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        inside = 1.0 if delta.value >= self.k else 0.0
        self.change.contribute(abs(inside - self.rank))
        self.rank = inside


class Squared(Katz):
    def scatter(self, iteration: int) -> None:
        rank = self.rank
        self.emitAll(rank * self.rank)


class Least(Katz):
    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        heard = delta.value
        heard += 1.0
        self.rank = min(heard, 1.0)


class Helped(Katz):
    def scatter(self, iteration: int) -> None:
        self.emitAll(self.square())

    def square(self) -> float:
        return self.rank * self.rank


class Loudest(Katz):
    """The aggregate which gather reads is none that is added up."""

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.total.contribute(abs(delta.value))
        self.rank = delta.value + self.total.value


class Aliased(Katz):
    """The aggregate to which it contributes what is not linear is read by another name."""

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        known = self.total
        rank = 0.5 * delta.value + 0.1 * known.value
        self.change.contribute(abs(rank - self.rank))
        self.total.contribute(abs(rank))
        self.rank = rank


class Halved(Katz):
    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.rank = 1.0 / (1.0 + delta.value)


class Scaled(Katz):
    total = aggregate(Max(float))


class Whole(Katz):
    count: int = state(0)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.rank = delta.value
        self.count = 1


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (PageRank, None),
        (Katz, None),
        (Core, "Core.gather does more than add and scale"),
        (Squared, "Squared.scatter does more than add and scale"),
        (Least, "Least.gather does more than add and scale"),
        (Helped, "Helped.scatter calls a method that reads state"),
        (Loudest, "Loudest.gather does more than add and scale"),
        (Aliased, "Aliased.gather does more than add and scale"),
        (Halved, "Halved.gather does more than add and scale"),
        (Scaled, "Scaled reads total, which is not a sum"),
        (Whole, "Whole has fields that are not floats"),
    ],
)
def test_only_what_adds_and_scales_is_linear(cls: type[Vertex], reason: str | None) -> None:
    program = Program(cls)
    assert why_not_linear(program.classes[0]) == reason
    assert why_from_init(program, program.bind({})) == reason


def test_an_aggregate_is_read_where_it_has_another_name() -> None:
    assert Program(Aliased).classes[0].facts.aggregates_read == {"total"}


@pytest.mark.parametrize("cls", [PageRank, PersonalisedPageRank])
@pytest.mark.parametrize("damping", [1, 0.0, 1.5, -0.1, "nan", float("inf")])
def test_a_damping_outside_of_its_interval_is_refused(cls: type[Vertex], damping: Any) -> None:
    """An undamped rank has no single fixed point: its sum stays what it was."""
    with pytest.raises(InputError, match=r"damping=[-0-9a-z.]+ is not in \(0, 1\)"):
        Program(cls).bind({"damping": damping})
