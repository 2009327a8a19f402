"""The built-in state elements, `Map`, `Value`, `Array` and `Matrix`, and their rows in memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError, ProgramError, excerpt
from vertexsdk.program.keyed import ABSENT, CONVERTERS, MapAccess, TableSpec, to_float
from vertexsdk.program.keyed_state import (
    Journal,
    RowsState,
    SparseVector,
    StateElement,
    kind_of_type,
)


def choose_element(of: str, elements: Collection[str], element: str | None) -> str:
    """Return the name of a state element; None names the only one.

    Args:
        of: what has the elements, for the error.
        elements: their names.
        element: as the user named it.

    Raises:
        InputError: no such element, or there are several and none was named.
    """
    if element is None and len(elements) == 1:
        return next(iter(elements))
    if element is None or element not in elements:
        raise InputError(
            f"{of} has the state elements {', '.join(elements)}: give one of them as element="
        )
    return element


class MapState(RowsState, MapAccess):
    """A map.

    Example:
        >>> from vertexsdk.program.keyed_state import Journal, TableSpec
        >>> counts = MapState(TableSpec("counts", Map(str, int)), Journal())
        >>> counts["be"] += 2
        >>> counts, counts["or"], len(counts)
        ({'be': 2}, 0, 1)
    """

    indexed = True

    def load(self, key: Any) -> Any:
        """Return the value of a key, a tuple where it has named fields, or `ABSENT`."""
        return self.row_of(key, ABSENT)

    def store(self, key: Any, value: Any) -> None:
        """Set the value of a key; `ABSENT` removes it."""
        if value is ABSENT:
            self.remove(key)
        else:
            self.put(key, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def keys(self) -> list[Any]:
        """Return the keys that have a row."""
        return list(self.rows)

    def values(self) -> list[Any]:
        """Return the values or rows."""
        return [self[key] for key in self.rows]

    def items(self) -> list[tuple[Any, Any]]:
        """Return the keys that have a row, each with its value or row."""
        return [(key, self[key]) for key in self.rows]

    def __repr__(self) -> str:
        return repr(dict(self.items()))


class Map(StateElement):
    """A map from keys to values, or to rows of named fields.

    A key that has no row reads as 0, 0.0, False, "" or b"". `get`, `pop`, `setdefault`, `in` and
    `del` are those of a dict.

    Args:
        key: the type of the keys: `int` (64 bits) or `str`.
        value: the type of the values: `int` (64 bits), `float`, `bool`, `str` or `bytes`.
        fields: in place of one value, the type of each field: `self.users[user].visits += 1`.

    Raises:
        ProgramError: a type that is not supported, or a field that cannot be called so.

    Example:
        >>> Map(str, int)
        Map(str, int)
        >>> Map(int, visits=int, last=float)
        Map(int, visits=int, last=float)
    """

    state = MapState
    reads = ("__getitem__", "get", "__contains__", "items", "keys", "values", "__iter__", "__len__")
    writes = ("pop", "setdefault", "__setitem__", "__delitem__")
    without_key = ("items", "keys", "values", "__iter__", "__len__")

    def __init__(self, key: type, value: type | None = None, /, **fields: type) -> None:
        if (value is None) == (not fields):
            raise ProgramError(
                "Map takes the type of its values, as Map(int, float), or named fields, as "
                "Map(int, count=int, last=float)"
            )
        super().__init__(key, **(fields if value is None else {"value": value}))
        self.single = not fields
        if fields:
            self.row_methods = ("__getitem__", "get", "setdefault")

    def __repr__(self) -> str:
        values = self.fields.items()
        shown = [kind if self.single else f"{name}={kind}" for name, kind in values]
        return f"Map({', '.join([self.key, *shown])})"


class ValueAccess:
    """One value, `self.total.value`.

    Args:
        rows: a map that has it at key 0.
    """

    def __init__(self, rows: MapAccess) -> None:
        self.rows = rows

    @property
    def value(self) -> Any:
        """The value; 0, 0.0, False, "" or b"" until it is set."""
        return self.rows[0]

    @value.setter
    def value(self, value: Any) -> None:
        self.rows[0] = value

    def __repr__(self) -> str:
        return repr(self.value)


class ValueState(MapState):
    """A map that has one value, at key 0."""

    indexed, view = True, ValueAccess


class Value(StateElement):
    """One value: `self.total.value += 1`.

    Args:
        value: its type: `int` (64 bits), `float`, `bool`, `str` or `bytes`.

    Raises:
        ProgramError: a type that is not supported.

    Example:
        >>> Value(int)
        Value(int)
    """

    state, keyed = ValueState, False
    reads, writes = ("value",), ("value",)

    def __init__(self, value: type) -> None:
        super().__init__(int, value=value)

    def __repr__(self) -> str:
        return f"Value({self.fields['value']})"


class ArrayState(MapState):
    """Numbers at the places 0, 1, ... size - 1.

    Example:
        >>> from vertexsdk.program.keyed_state import Journal, TableSpec
        >>> sums = ArrayState(TableSpec("sums", Array(float, size=2)), Journal())
        >>> sums[1] += 0.5
        >>> list(sums), len(sums)
        ([0.0, 0.5], 2)
    """

    indexed = True

    def __len__(self) -> int:
        return self.element.size  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return iter([self.rows.get(k, self.spec.default) for k in range(len(self))])

    def values(self) -> list[Any]:
        """Return the numbers."""
        return list(self)

    def keys(self) -> list[Any]:
        """Return the places."""
        return list(range(len(self)))

    def items(self) -> list[tuple[Any, Any]]:
        """Return the places with their numbers."""
        return list(enumerate(self))

    def __repr__(self) -> str:
        return repr(list(self))


class Array(StateElement):
    """Numbers at the places 0, 1, ... size - 1.

    Args:
        value: their type: `int` (64 bits) or `float`.
        size: how many.

    Raises:
        ProgramError: a type or size that is not supported.

    Example:
        >>> Array(float, size=28)
        Array(float, size=28)
    """

    state = ArrayState
    reads = ("__getitem__", "items", "keys", "values", "__iter__", "__len__")
    writes = ("__setitem__", "__delitem__")
    without_key = ("items", "keys", "values", "__iter__", "__len__")

    def __init__(self, value: type, *, size: int) -> None:
        kind_of_type(value, ("int", "float"), "Array: a value of type")
        super().__init__(int, value=value)
        if not isinstance(size, int) or size < 1:
            raise ProgramError(f"Array: size is {excerpt(size)}; give the number of places")
        self.size = self.number_of_keys = size

    def __repr__(self) -> str:
        return f"Array({self.fields['value']}, size={self.size})"


class MatrixState(RowsState):
    """A sparse matrix of floats.

    Example:
        >>> from vertexsdk.program.keyed_state import Journal, TableSpec
        >>> ratings = MatrixState(TableSpec("ratings", Matrix()), Journal())
        >>> ratings[7, 1] = 5
        >>> ratings[7, 3] += 0.5
        >>> ratings.row(7), ratings.column(3), ratings[8, 1]
        (SparseVector({1: 5.0, 3: 0.5}), SparseVector({7: 0.5}), 0.0)
        >>> ratings.multiply(SparseVector({1: 2.0}))
        SparseVector({7: 10.0})
    """

    def __init__(self, spec: TableSpec, journal: Journal) -> None:
        super().__init__(spec, journal)
        self._columns: CellColumns | None = None  # from the first product on

    def touch(self, row: Any) -> None:
        """Mark a row as changed in the columns that products use."""
        if self._columns is not None:
            self._columns.stale.add(row)

    def _place(self, at: Any) -> tuple[Any, Any]:
        if not isinstance(at, tuple) or len(at) != 2:
            name = self.spec.name
            raise InputError(f"{name}[{excerpt(at)}]: give row and column, {name}[row, column]")
        major, minor = reversed(at) if self.element.by_column else at
        return self.spec.convert_key(major), self._minor(minor)

    def _minor(self, key: Any) -> Any:
        return CONVERTERS[self.element.minor](key)

    def __getitem__(self, at: Any) -> float:
        major, minor = self._place(at)
        value: float = self.rows.get(major, {}).get(minor, 0.0)
        return value

    def __setitem__(self, at: Any, value: Any) -> None:
        (major, minor), number = self._place(at), to_float(value)
        if major not in self.rows:
            self.note(self.rows, major, major)
            self.rows[major] = {}
        self.note(self.rows[major], minor, major)
        self.rows[major][minor] = number

    def __delitem__(self, at: Any) -> None:
        major, minor = self._place(at)
        cells = self.rows.get(major, {})
        if minor not in cells:
            raise KeyError(at)
        self.note(cells, minor, major)
        del cells[minor]
        if not cells:
            self.remove(major)

    def __contains__(self, at: Any) -> bool:
        major, minor = self._place(at)
        return minor in self.rows.get(major, {})

    def _along(self, key: Any) -> SparseVector:
        return SparseVector(self.row_of(key, {}))

    def _across(self, key: Any) -> SparseVector:
        minor = self._minor(key)
        column = [(major, cells[minor]) for major, cells in self.rows.items() if minor in cells]
        return SparseVector(column)

    def row(self, key: Any) -> SparseVector:
        """Return a copy of a row."""
        return self._across(key) if self.element.by_column else self._along(key)

    def column(self, key: Any) -> SparseVector:
        """Return a copy of a column."""
        return self._along(key) if self.element.by_column else self._across(key)

    def clear(self, key: Any) -> None:
        """Remove a row; of a matrix that is divided by column, a column."""
        self.remove(key)

    def multiply(self, vector: SparseVector) -> SparseVector:
        """Return the product of the matrix and a vector of as many places as it has columns."""
        if self.element.by_column:
            parts = (self._along(key) * value for key, value in vector)
            return sum(parts, SparseVector())
        if self._columns is None:
            self._columns = CellColumns(self.rows)
        return SparseVector(self._columns.multiply(self.rows, vector.items()))

    def items(self) -> list[tuple[Any, SparseVector]]:
        """Return all rows; of a matrix that is divided by column, all columns."""
        return [(key, SparseVector(cells)) for key, cells in self.rows.items()]

    def fork(self, journal: Journal) -> RowsState:
        """Return a copy for a fork, without the columns that products use."""
        other = super().fork(journal)
        assert isinstance(other, MatrixState)
        other._columns = None
        return other

    def copy_row(self, row: Any) -> Any:
        """Return a copy of the cells of a row, which are changed in place."""
        return dict(row)

    def to_fields(self, row: Any) -> str:
        """Return a row as JSON."""
        return json.dumps(sorted(row.items()))

    def from_fields(self, fields: Any) -> Any:
        """Return the row of JSON."""
        return dict(json.loads(fields))

    def describe(self, key: Any) -> dict[str, Any]:
        """Return a row as lookups show it: a dict of its cells."""
        return {"cells": dict(self.rows[key])}

    def combine(self, one: Any, other: Any) -> Any:
        """Return one row for two: cells that both have are combined."""
        combine = self.spec.combine
        both = {k: to_float(combine(one[k], other[k])) if k in one else other[k] for k in other}
        return one | both

    def __repr__(self) -> str:
        return repr({key: dict(cells) for key, cells in self.rows.items()})


class Matrix(StateElement):
    """A sparse matrix of floats: `self.ratings[user, item]`, `self.ratings.row(user)`.

    Where a cell has no value it reads as 0.0. `row` and `column` return a `SparseVector`,
    `multiply` takes and returns one; `clear` removes a row. `Matrix` by itself is
    `Matrix(int, int)`.

    Args:
        row, column: the types of their keys: `int` (64 bits) or `str`.
        by: "row", or "column" where columns are accessed in place of rows.

    Raises:
        ProgramError: a type that is not supported, or another `by`.

    Example:
        >>> Matrix(str, int)
        Matrix(str, int)
    """

    state = MatrixState
    reads = ("__getitem__", "row", "column", "__contains__", "items", "multiply", "__len__")
    writes = ("clear", "__setitem__", "__delitem__")

    def __init__(self, row: type = int, column: type = int, *, by: str = "row") -> None:
        if by not in ("row", "column"):
            raise ProgramError(f"Matrix: by={excerpt(by)}: give 'row' or 'column'")
        self.by_column = by == "column"
        key, minor = (column, row) if self.by_column else (row, column)
        super().__init__(key, cells=str)
        self.minor = kind_of_type(minor, ("int", "str"), "Matrix: a key of type")
        self.brackets = ("row", "key") if self.by_column else ("key", "column")
        across = "row" if self.by_column else "column"
        self.without_key = (across, "items", "multiply", "__len__")
        self.instead = {
            across: "it would be accessed by row and by column: keep the same cells in a second "
            f"Matrix, with by='{across}'"
        }

    def __repr__(self) -> str:
        shown = f"{self.minor}, {self.key}, by='column'" if self.by_column else None
        return f"Matrix({shown or f'{self.key}, {self.minor}'})"


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
