"""State elements in memory, as dicts: those of a plain object, and on a processor all but the maps
that are divided by key.

A `Journal` has what was changed, so that a call that raises is taken back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vertexsdk.errors import InputError, excerpt
from vertexsdk.program.keyed import (
    ABSENT,
    CONVERTERS,
    MapAccess,
    TableSpec,
    answered,
    to_float,
)


class Journal:
    """What calls have changed, to take it back.

    Attributes:
        running: a call of a plain object runs, within which others are part of it.
    """

    def __init__(self) -> None:
        self.running = False
        self._changes: list[tuple[dict[Any, Any], Any, Any]] = []

    def note(self, rows: dict[Any, Any], key: Any) -> None:
        """Remember the value of a key before it is changed."""
        if self.running:
            self._changes.append((rows, key, rows.get(key, ABSENT)))

    def mark(self) -> int:
        """Return the place to which `undo` goes back."""
        return len(self._changes)

    def undo(self, mark: int) -> None:
        """Put back what was changed since a mark."""
        for rows, key, value in reversed(self._changes[mark:]):
            rows.pop(key, None)
            if value is not ABSENT:
                rows[key] = value
        del self._changes[mark:]

    def clear(self) -> None:
        """Keep what was changed."""
        self._changes.clear()


class SparseVector:
    """Numbers by key, 0.0 where there is none; iterated as (key, number) in the order of keys.

    Args:
        cells: a dict, or (key, number) pairs.

    Example:
        >>> one, two = SparseVector({1: 2.0, 5: 1.0}), SparseVector([(5, 3.0)])
        >>> one + two
        SparseVector({1: 2.0, 5: 4.0})
        >>> list(one * 2), one[7], sum([one, two], SparseVector())[5]
        ([(1, 4.0), (5, 2.0)], 0.0, 4.0)
        >>> one.dot(two)
        3.0
    """

    __slots__ = ("_cells",)

    def __init__(self, cells: Mapping[Any, float] | Iterable[tuple[Any, float]] = ()) -> None:
        self._cells: dict[Any, float] = dict(cells)

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        return iter(sorted(self._cells.items()))

    def items(self) -> list[tuple[Any, float]]:
        """Return the keys with their numbers."""
        return list(self)

    def keys(self) -> list[Any]:
        """Return the keys that have a number, in order."""
        return sorted(self._cells)

    def values(self) -> list[float]:
        """Return the numbers, in the order of their keys."""
        return [value for _, value in self]

    def get(self, key: Any, default: float = 0.0) -> float:
        """Return the number of a key, or a default where there is none."""
        return self._cells.get(key, default)

    def __getitem__(self, key: Any) -> float:
        return self._cells.get(key, 0.0)

    def __setitem__(self, key: Any, value: float) -> None:
        self._cells[key] = to_float(value)

    def __contains__(self, key: object) -> bool:
        return key in self._cells

    def __len__(self) -> int:
        return len(self._cells)

    def __add__(self, other: SparseVector) -> SparseVector:
        if not isinstance(other, SparseVector):
            return NotImplemented
        total = SparseVector(self._cells)
        for key, value in other._cells.items():
            total._cells[key] = total[key] + value
        return total

    def __radd__(self, other: int) -> SparseVector:
        return self if other == 0 else NotImplemented  # sum() begins with 0

    def __mul__(self, factor: float) -> SparseVector:
        return SparseVector({key: value * factor for key, value in self._cells.items()})

    __rmul__ = __mul__

    def dot(self, other: SparseVector) -> float:
        """Return the sum of products of the numbers that both have."""
        return sum((value * other._cells[key] for key, value in self if key in other), 0.0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparseVector) and self._cells == other._cells

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SparseVector({dict(self)!r})"


class RowsState:
    """Rows by key: the base of the state elements in memory.

    Args:
        spec: the types of keys and values.
        journal: takes what is changed.

    Attributes:
        changed: keys whose rows have changed since they were last stored.
    """

    def __init__(self, spec: TableSpec, journal: Journal) -> None:
        self.spec, self.journal = spec, journal
        self.rows: dict[Any, Any] = {}
        self.changed: set[Any] = set()

    def note(self, rows: dict[Any, Any], key: Any, row: Any) -> None:
        """Remember a value before it is changed, and which row has it."""
        self.journal.note(rows, key)
        self.changed.add(row)

    def stored(self, key: Any) -> Any:
        """Return a row as a table has it, `ABSENT` for none."""
        return self.rows.get(key, ABSENT)

    def restore(self, key: Any, stored: Any) -> None:
        """Add a row that `stored` returned; one that is there is combined with it."""
        self.rows[key] = self.combined(self.rows[key], stored) if key in self.rows else stored
        self.changed.add(key)

    def combined(self, one: Any, other: Any) -> Any:
        """Return one row for two."""
        combine = self.spec.combine
        if self.spec.single:
            return self.spec.converters[0](combine(one, other))
        return tuple(map(combine, one, other))

    def __len__(self) -> int:
        return len(self.rows)


class MapState(RowsState, MapAccess):
    """A map.

    Example:
        >>> counts = MapState(TableSpec("counts", "str", {"value": "int"}, single=True), Journal())
        >>> counts["be"] += 2
        >>> counts, counts["or"], len(counts)
        ({'be': 2}, 0, 1)
    """

    def load(self, key: Any) -> Any:
        """Return the value of a key, a tuple where it has named fields, or `ABSENT`."""
        return self.rows.get(self.spec.convert_key(key), ABSENT)

    def store(self, key: Any, value: Any) -> None:
        """Set the value of a key; `ABSENT` removes it."""
        key = self.spec.convert_key(key)
        self.note(self.rows, key, key)
        if value is ABSENT:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value

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


class ArrayState(MapState):
    """Numbers at the places 0, 1, ... size - 1.

    Example:
        >>> spec = TableSpec("sums", "int", {"value": "float"}, single=True, form="array", size=2)
        >>> sums = ArrayState(spec, Journal())
        >>> sums[1] += 0.5
        >>> list(sums), len(sums)
        ([0.0, 0.5], 2)
    """

    def __len__(self) -> int:
        return self.spec.size or 0

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


class ValueAccess:
    """One value, `self.total.value`.

    Args:
        rows: a map that has it at key 0.
    """

    def __init__(self, rows: MapAccess) -> None:
        self.rows = rows

    @property
    def value(self) -> Any:
        """The value; 0, 0.0, False or "" until it is set."""
        return self.rows[0]

    @value.setter
    def value(self, value: Any) -> None:
        self.rows[0] = value

    def __repr__(self) -> str:
        return repr(self.value)


class MatrixState(RowsState):
    """A sparse matrix of floats.

    Example:
        >>> spec = TableSpec("ratings", "int", {"cells": "str"}, single=True, form="matrix")
        >>> ratings = MatrixState(spec, Journal())
        >>> ratings[7, 1] = 5
        >>> ratings[7, 3] += 0.5
        >>> ratings.row(7), ratings.column(3), ratings[8, 1]
        (SparseVector({1: 5.0, 3: 0.5}), SparseVector({7: 0.5}), 0.0)
        >>> ratings.multiply(SparseVector({1: 2.0}))
        SparseVector({7: 10.0})
    """

    def _place(self, at: Any) -> tuple[Any, Any]:
        if not isinstance(at, tuple) or len(at) != 2:
            name = self.spec.name
            raise InputError(f"{name}[{excerpt(at)}]: give row and column, {name}[row, column]")
        major, minor = reversed(at) if self.spec.by_column else at
        return self.spec.convert_key(major), self._minor(minor)

    def _minor(self, key: Any) -> Any:
        return CONVERTERS[self.spec.minor](key)

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
            self._remove(major)

    def __contains__(self, at: Any) -> bool:
        major, minor = self._place(at)
        return minor in self.rows.get(major, {})

    def _remove(self, major: Any) -> None:
        self.note(self.rows, major, major)
        self.rows.pop(major, None)

    def _along(self, key: Any) -> SparseVector:
        return SparseVector(self.rows.get(self.spec.convert_key(key), {}))

    def _across(self, key: Any) -> SparseVector:
        minor = self._minor(key)
        found = [(major, cells[minor]) for major, cells in self.rows.items() if minor in cells]
        return SparseVector(found)

    def row(self, key: Any) -> SparseVector:
        """Return a copy of a row."""
        return self._across(key) if self.spec.by_column else self._along(key)

    def column(self, key: Any) -> SparseVector:
        """Return a copy of a column."""
        return self._along(key) if self.spec.by_column else self._across(key)

    def clear(self, key: Any) -> None:
        """Remove a row; of a matrix that is divided by column, a column."""
        self._remove(self.spec.convert_key(key))

    def multiply(self, vector: SparseVector) -> SparseVector:
        """Return the product of the matrix and a vector of as many places as it has columns."""
        if self.spec.by_column:
            parts = (self._along(key) * value for key, value in vector)
            return sum(parts, SparseVector())
        product: dict[Any, float] = {}
        for key, cells in self.rows.items():
            terms = [cells[column] * value for column, value in vector if column in cells]
            if terms:
                product[key] = sum(terms)
        return SparseVector(product)

    def items(self) -> list[tuple[Any, SparseVector]]:
        """Return all rows; of a matrix that is divided by column, all columns."""
        return [(key, SparseVector(cells)) for key, cells in self.rows.items()]

    def stored(self, key: Any) -> Any:
        """Return a row as JSON."""
        cells = self.rows.get(key)
        return json.dumps(sorted(cells.items())) if cells else ABSENT

    def restore(self, key: Any, stored: Any) -> None:
        """Add a row that `stored` returned."""
        super().restore(key, dict(json.loads(stored)))

    def combined(self, one: Any, other: Any) -> Any:
        """Return one row for two."""
        combine = self.spec.combine
        both = {k: to_float(combine(one[k], other[k])) if k in one else other[k] for k in other}
        return one | both

    def __repr__(self) -> str:
        return repr({key: dict(cells) for key, cells in self.rows.items()})


_STATES: dict[str, type[RowsState]] = {
    "map": MapState, "value": MapState, "array": ArrayState, "matrix": MatrixState,
}  # fmt: skip


def state_in_memory(spec: TableSpec, journal: Journal) -> RowsState:
    """Return an empty state element."""
    return _STATES[spec.form](spec, journal)


def as_seen(spec: TableSpec, rows: Any) -> Any:
    """Return what a method sees as a state element."""
    return ValueAccess(rows) if spec.form == "value" else rows


class Partial:
    """A value for each partition, which `gather_all` returns as a list.

    Args:
        values: of the partitions, in order.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = list(values)


class AllInstances:
    """A state element on all partitions, for one expression: of a plain object, its only one.

    Args:
        state: the state element.
    """

    def __init__(self, state: Any) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._state, name)
        if not callable(member):
            return Partial([settled(member)])
        return lambda *args, **kwargs: Partial([settled(member(*args, **kwargs))])

    def __getitem__(self, key: Any) -> Partial:
        return Partial([settled(self._state[key])])


def on_all(element: Any) -> Any:
    """Evaluate one expression on all partitions of a state element.

    Args:
        element: `self.x`, a state element of the class.

    Returns:
        What has the methods of the state element. The value of the expression is a partial one,
        which `gather_all` makes a list of.

    Example:
        >>> from vertexsdk import Map, Partitioned, Stateful
        >>> class Scores(Stateful):
        ...     scores = Partitioned(Map(str, int), key="player")
        ...     def score(self, player: str, points: int) -> None:
        ...         self.scores[player] += points
        ...     def best(self) -> int:
        ...         parts = gather_all(on_all(self.scores).values())
        ...         return max(max(part, default=0) for part in parts)
        >>> scores = Scores()
        >>> scores.score("a", 5)
        >>> scores.best()
        5
    """
    return AllInstances(element)


def gather_all(partial: Partial) -> list[Any]:
    """Return the values of all partitions, in their order, when all of them are there.

    Args:
        partial: the value of an `on_all` expression.

    Returns:
        A value for each partition.

    Raises:
        InputError: it is another value.

    Example:
        >>> gather_all(Partial([1, 2]))
        [1, 2]
    """
    if not isinstance(partial, Partial):
        raise InputError(f"gather_all({excerpt(partial)}): give the value of on_all(self.x)...")
    return list(partial._values)


def settled(value: Any) -> Any:
    """Return a value that does not change with the state: rows are copied, iterators are lists."""
    if isinstance(value, tuple):
        return tuple(map(settled, value))
    if isinstance(value, list) or (hasattr(value, "__next__") and hasattr(value, "__iter__")):
        return list(map(settled, value))
    return answered(value)
