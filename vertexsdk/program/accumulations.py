"""Values of an accumulator's rows, made of all cells, or of the last result and what changed.

Sums of floats are rounded once, so they are the same in any order, and whichever way was taken.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.program.algebra import Algebra
from vertexsdk.program.keyed import ABSENT
from vertexsdk.program.table_columns import Column, VectorColumn

Cells = Mapping[Any, Any]


class Accumulation:
    """The value of the cells of a row: the base, which combines them one by one.

    Args:
        algebra: the algebra of the values.
        value: the column of the values.

    Attributes:
        incremental: `begin`, `change` and `end` can be used in place of `total`.

    Example:
        >>> from vertexsdk import Sum
        >>> sums = accumulation(Sum(float), Column("value", "float", 0.0))
        >>> running = sums.begin({"a": 0.1, "b": 1e100})
        >>> sums.change(running, 1e100, 0.25)
        >>> sums.end(running, {"a": 0.1, "b": 0.25})
        0.35
    """

    def __init__(self, algebra: Algebra, value: Column) -> None:
        self.algebra, self.value = algebra, value
        self.incremental = algebra.by_difference and not isinstance(value, VectorColumn)

    def total(self, cells: Cells) -> Any:
        """Return the value of some cells; `ABSENT` where there are none and that has no value."""
        result: Any = self.value.show(self.value.convert(self.algebra.identity))
        for column in sorted(cells, key=_place):
            result = self.algebra.combined(result, self.value.show(cells[column]))
        return result

    def begin(self, cells: Cells) -> list[Any]:
        """Return what `change` changes, for some cells."""
        return [self.total(cells)]

    def change(self, running: list[Any], old: Any, new: Any) -> None:
        """Take in that a cell has another value.

        Args:
            running: from `begin`.
            old, new: its values; `ABSENT` for none.
        """
        algebra, inverse = self.algebra, self.algebra.inverse
        assert inverse is not None
        if old is not ABSENT:
            running[0] = algebra.combined(running[0], inverse(old))
        if new is not ABSENT:
            running[0] = algebra.combined(running[0], new)

    def end(self, running: list[Any], cells: Cells) -> Any:
        """Return what `total` does.

        Args:
            running: from `begin`, with all changes since.
            cells: as they are now.
        """
        return running[0]


def _place(column: Any) -> tuple[bool, Any]:
    """Return what columns are sorted by."""
    return isinstance(column, str), column


class _Ints(Accumulation):
    """The sum of ints, which wraps around."""

    def total(self, cells: Cells) -> Any:
        return self.algebra.combined(sum(cells.values()), 0)

    def begin(self, cells: Cells) -> list[Any]:
        return [sum(cells.values())]

    def change(self, running: list[Any], old: Any, new: Any) -> None:
        running[0] += (0 if new is ABSENT else new) - (0 if old is ABSENT else old)

    def end(self, running: list[Any], cells: Cells) -> Any:
        return self.algebra.combined(running[0], 0)


class _Floats(Accumulation):
    """The sum of floats. What is kept are floats of which the sum is exact (Shewchuk 1997)."""

    def __init__(self, algebra: Algebra, value: Column) -> None:
        super().__init__(algebra, value)
        self.incremental = True

    def total(self, cells: Cells) -> Any:
        return _exact_sum(cells.values())

    def begin(self, cells: Cells) -> list[Any]:
        partials: list[Any] = []
        for value in cells.values():
            _add(partials, value)
        return partials

    def change(self, running: list[Any], old: Any, new: Any) -> None:
        if old is not ABSENT:
            _add(running, -old)
        if new is not ABSENT:
            _add(running, new)

    def end(self, running: list[Any], cells: Cells) -> Any:
        if running and not math.isfinite(running[-1]):  # an infinity, which cannot be taken back
            running[:] = self.begin(cells)
            return self.total(cells)
        return _exact_sum(running)


def _add(partials: list[Any], value: float) -> None:
    """Add a float to floats that do not overlap, the smallest first, so that the sum is exact."""
    if partials and not math.isfinite(partials[-1]):
        return
    kept = 0
    for partial in partials:
        if abs(value) < abs(partial):
            value, partial = partial, value
        high = value + partial
        low = partial - (high - value)
        if low:
            partials[kept] = low
            kept += 1
        value = high
    partials[kept:] = [value]
    if not math.isfinite(value):
        partials[:] = [math.inf]


def _exact_sum(values: Collection[float]) -> float:
    """Return the sum of floats, rounded once."""
    try:
        return math.fsum(values)
    except (ValueError, OverflowError):  # infinities, or what is too large on the way
        values = list(values)
        special = [value for value in values if not math.isfinite(value)]
        if special:
            return float(sum(special))
        total = sum(map(Fraction, values), Fraction())
        try:
            return float(total)
        except OverflowError:
            return math.inf if total > 0 else -math.inf


class _IntMean(_Ints):
    """The mean of ints; none without cells."""

    def __init__(self, algebra: Algebra, value: Column) -> None:
        super().__init__(algebra, value)
        self.incremental = True

    def total(self, cells: Cells) -> Any:
        return sum(cells.values()) / len(cells) if cells else ABSENT

    def end(self, running: list[Any], cells: Cells) -> Any:
        return running[0] / len(cells) if cells else ABSENT


class _Mean(_Floats):
    """The mean of floats; none without cells."""

    def total(self, cells: Cells) -> Any:
        return super().total(cells) / len(cells) if cells else ABSENT

    def end(self, running: list[Any], cells: Cells) -> Any:
        if running and not math.isfinite(running[-1]):
            running[:] = self.begin(cells)
            return self.total(cells)
        return _exact_sum(running) / len(cells) if cells else ABSENT


class _Extreme(Accumulation):
    """The smallest or the largest value."""

    def __init__(self, algebra: Algebra, value: Column) -> None:
        super().__init__(algebra, value)
        self.incremental = True

    def total(self, cells: Cells) -> Any:
        best = min if self.algebra.kind == "min" else max
        if any(value != value for value in cells.values()):
            return math.nan
        return best(cells.values(), default=self.algebra.identity)

    def change(self, running: list[Any], old: Any, new: Any) -> None:
        if not running:
            return
        if new != new or running[0] != running[0]:  # NaN
            running.clear()
            return
        combine = self.algebra.combine
        better = running[0] if new is ABSENT else combine(running[0], new)
        if old == running[0] and (new is ABSENT or better != new):
            running.clear()  # what was the best is gone
        else:
            running[0] = better

    def end(self, running: list[Any], cells: Cells) -> Any:
        if not running:
            running.append(self.total(cells))
        return running[0]


class _Vectors(Accumulation):
    """The sum or the mean of vectors, in the order of columns."""

    def __init__(self, algebra: Algebra, value: Column) -> None:
        super().__init__(algebra, value)
        self.incremental = False

    def _stacked(self, cells: Cells) -> NDArray[Any]:
        assert isinstance(self.value, VectorColumn)
        stacked = b"".join([cells[column] for column in sorted(cells, key=_place)])
        dtype = self.value.show(self.value.default).dtype
        return np.frombuffer(stacked, dtype).reshape(-1, self.value.size)

    def total(self, cells: Cells) -> Any:
        if self.algebra.kind == "mean":
            return self._stacked(cells).mean(axis=0) if cells else ABSENT
        return self._stacked(cells).sum(axis=0)


class _Latest(Accumulation):
    """All values, by column."""

    def total(self, cells: Cells) -> Any:
        return {column: self.value.show(cells[column]) for column in sorted(cells, key=_place)}


def accumulation(algebra: Algebra, value: Column) -> Accumulation:
    """Return how the cells of an accumulator become one value.

    Args:
        algebra: the algebra of the values.
        value: the column of the values.
    """
    kind = algebra.kind
    if isinstance(value, VectorColumn) and kind in ("sum", "mean"):
        return _Vectors(algebra, value)
    if kind == "sum":
        return (_Ints if value.kind == "int" else _Floats)(algebra, value)
    if kind == "mean" and value.kind == "int":
        return _IntMean(algebra, value)
    if kind in ("min", "max") and not isinstance(value, VectorColumn):
        return _Extreme(algebra, value)
    return {"mean": _Mean, "latest": _Latest}.get(kind, Accumulation)(algebra, value)
