"""The cells of a sparse matrix as columns, which a product with a vector goes through at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_FEW = 1 << 12  # cells that are looked up in a dict sooner than columns are made


class _Cells(NamedTuple):
    """Cells of rows, in the order of rows and within them of columns.

    Attributes:
        columns: int64[n], numbers of the columns' keys.
        values: float64[n].
    """

    columns: NDArray[np.int64]
    values: NDArray[np.float64]


class CellColumns:
    """The cells of a matrix as columns.

    Sums have the same bits as those of a loop over the cells of each row in the order of columns.

    Args:
        rows: the cells of each row, by column.

    Attributes:
        stale: keys of rows that may have changed since the last product.

    Example:
        >>> rows = {7: {1: 5.0, 3: 0.5}}
        >>> CellColumns(rows).multiply(rows, [(1, 2.0)])
        {7: 10.0}
    """

    def __init__(self, rows: dict[Any, dict[Any, float]]) -> None:
        self.stale: set[Any] = set(rows)
        self._numbers: dict[Any, int] = {}  # of columns, by key
        self._rows: dict[Any, _Cells] = {}
        self._keys: list[Any] = []
        self._row_numbers = np.empty(0, np.int64)
        self._cells = _Cells(np.empty(0, np.int64), np.empty(0))

    def multiply(
        self, rows: dict[Any, dict[Any, float]], vector: list[tuple[Any, float]]
    ) -> dict[Any, float]:
        """Return the product of the matrix and a vector, by row; rows without a term have none.

        Args:
            rows: the cells of each row, by column.
            vector: the keys of columns, ascending, and their numbers.
        """
        if len(rows) * len(vector) <= _FEW:
            return _multiply(rows, vector)
        self._refresh(rows)
        factors, present = np.zeros(len(self._numbers)), np.zeros(len(self._numbers), np.bool_)
        for key, value in vector:
            number = self._numbers.get(key)
            if number is not None:
                factors[number], present[number] = value, True
        chosen = np.flatnonzero(present[self._cells.columns])
        terms = self._cells.values[chosen] * factors[self._cells.columns[chosen]]
        of = self._row_numbers[chosen]
        sums = np.bincount(of, terms, minlength=len(self._keys)).tolist()
        there = np.zeros(len(self._keys), np.bool_)
        there[of] = True
        return {self._keys[row]: sums[row] for row in np.flatnonzero(there).tolist()}

    def _refresh(self, rows: dict[Any, dict[Any, float]]) -> None:
        """Read the rows that have changed."""
        if not self.stale:
            return
        numbers = self._numbers
        for key in self.stale:
            if not rows.get(key):
                self._rows.pop(key, None)
                continue
            cells, count = rows[key], len(rows[key])
            new = cells.keys() - numbers.keys()
            numbers |= zip(new, range(len(numbers), len(numbers) + len(new)), strict=True)
            columns = np.fromiter(map(numbers.__getitem__, cells), np.int64, count)
            values = np.fromiter(cells.values(), np.float64, count)
            keys = list(cells)
            if isinstance(keys[0], str):
                order = np.array(sorted(range(count), key=keys.__getitem__))
            else:
                order = np.argsort(np.array(keys, np.int64))
            self._rows[key] = _Cells(columns[order], values[order])
        self.stale.clear()
        parts = list(self._rows.values()) or [_Cells(np.empty(0, np.int64), np.empty(0))]
        self._keys = list(self._rows)
        counts = [len(part.columns) for part in self._rows.values()]
        self._row_numbers = np.repeat(np.arange(len(counts)), counts)
        self._cells = _Cells(*map(np.concatenate, zip(*parts, strict=True)))


def _multiply(
    rows: dict[Any, dict[Any, float]], vector: list[tuple[Any, float]]
) -> dict[Any, float]:
    """Return the product, cell by cell."""
    product: dict[Any, float] = {}
    for key, cells in rows.items():
        total, there = 0.0, False
        for column, value in vector:
            if column in cells:
                total, there = total + cells[column] * value, True
        if there:
            product[key] = total
    return product
