"""The classes of triggers that the suite runs, besides `Words` and `Rank` of the tests."""

from __future__ import annotations

from typing import Any

from vertexsdk import Algebra, Array, Mean, Sum, Table, Triggers, accumulate, on_change

DIMENSIONS = 50


class Plain(Triggers):
    """A table without triggers."""

    rows: Any = Table(key=int, value=float, other=float)


class Silent(Plain):
    """The same with a trigger, which watches a column that is not written to."""

    @on_change(Plain.rows, "other")
    def see(self, row: Any, old: Any) -> None:
        """Do nothing; inserted rows run it."""


class WriteCount(Plain):
    """The same with a "+1" for each write."""

    counts: Any = Table(key=int, count=int)

    @on_change(Plain.rows, "value")
    def add(self, row: Any, old: Any) -> None:
        """Count the write."""
        self.counts[row.key].count += 1


class Sums(Triggers):
    """Totals of partial results, as those of PageRank."""

    parts: Any = Table(id=int, total=int, value=float)
    totals: Any = Table(id=int, value=float)

    @on_change(parts, "value")
    def put(self, part: Any, old: Any) -> None:
        """Hand over a partial result."""
        self.sums[part.total][part.id] = part.value

    @accumulate(Sum(float), synchronous=True)
    def sums(self, id: int, total: float) -> None:
        """Set the total."""
        self.totals[id].value = total


def _plus(one: float, other: float) -> float:
    return one + other


def _minus(one: float) -> float:
    return -one


class Additions(Sums):
    """The same with the algebra of a user, one addition after the other."""

    @accumulate(Algebra(float, combine=_plus, identity=0.0, inverse=_minus), synchronous=True)
    def sums(self, id: int, total: float) -> None:
        """Set the total."""
        self.totals[id].value = total


class KMeans(Triggers):
    """`KMeans` of the tests with more dimensions, whose distances NumPy computes."""

    items: Any = Table(id=int, point=Array(float, size=DIMENSIONS), cluster=-1)
    centres: Any = Table(id=int, point=Array(float, size=DIMENSIONS), broadcast=True)

    @on_change(items, "point")
    def assign(self, item: Any, old: Any) -> None:
        """Put an item to its nearest centre."""
        near = nearest(item.point, self.centres)
        if near != item.cluster:
            self.members[item.cluster].discard(item.id)
            item.cluster = near
        self.members[near][item.id] = item.point

    @accumulate(Mean(float, size=DIMENSIONS), synchronous=True)
    def members(self, cluster: int, mean: Any) -> None:
        """Move a centre."""
        if cluster >= 0:
            self.centres[cluster].point = mean

    @on_change(centres, "point")
    def again(self, centre: Any, old: Any) -> None:
        """Have all items look for their centres."""
        self.activate(self.assign)


def nearest(point: Any, centres: Any) -> int:
    """Return the id of the centre that is nearest to a point; their ids are 0, 1, 2, ..."""
    return int(((centres.values("point") - point) ** 2).sum(axis=1).argmin())
