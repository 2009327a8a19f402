"""The rows for which task elements run: which, of what calls, with their keys and arguments.

Arguments are columns, one for each parameter of a task element, as they came: arrays, packed
strings, or lists. Rows of several task elements share these columns, and each row has its place in
those of its own, so that a selection of rows copies no argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine.keyed.calls import (
    Values,
    join_values,
    number_of_values,
    python_values,
    take_values,
)
from vertexsdk.program.keyed import KINDS, NUMBERS

Column: TypeAlias = "Values | list[Any]"


class Arguments:
    """The arguments of the rows of one task element, a column for each of its parameters.

    Args:
        columns: columns of equal length.

    Example:
        >>> Arguments([np.array([7, 8]), ["a", "b"]]).lists()
        [[7, 8], ['a', 'b']]
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = list(columns)
        self._lists: list[list[Any] | None] = [None] * len(columns)

    def __len__(self) -> int:
        """Return the number of rows of the columns; 0 without any."""
        if not self.columns or isinstance(self.columns[0], list):
            return len(self.columns and self.columns[0])
        return number_of_values(self.columns[0])

    def lists(self) -> list[list[Any]]:
        """Return the columns as Python values."""
        return list(map(self.values, range(len(self.columns))))

    def values(self, p: int) -> list[Any]:
        """Return a column as Python values."""
        values, column = self._lists[p], self.columns[p]
        if values is None:
            values = column if isinstance(column, list) else python_values(column)
            self._lists[p] = values
        return values

    def array(self, p: int, kind: str) -> NDArray[Any] | None:
        """Return a column of numbers of a type; None where it has other values.

        Args:
            p: which column.
            kind: "int", "float" or "bool".
        """
        column = self.columns[p]
        if isinstance(column, list):
            if set(map(type, column)) != {KINDS[kind]}:
                return None
            try:
                self._lists[p] = column
                column = self.columns[p] = np.array(column, NUMBERS[kind])
            except OverflowError:
                return None
        same = isinstance(column, np.ndarray) and column.dtype == NUMBERS[kind]
        return column if same else None  # type: ignore[return-value]

    def take(self, rows: NDArray[np.int64]) -> Arguments:
        """Return some rows, in this order."""
        places = rows.tolist() if any(isinstance(c, list) for c in self.columns) else []
        return Arguments([
            [c[k] for k in places] if isinstance(c, list) else take_values(c, rows)
            for c in self.columns
        ])  # fmt: skip

    @staticmethod
    def join(parts: Sequence[Arguments]) -> Arguments:
        """Return the rows of several parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        columns: list[Column] = []
        for p, same in enumerate(zip(*(part.columns for part in parts), strict=True)):
            if any(isinstance(c, list) for c in same):
                columns.append([x for part in parts for x in part.lists()[p]])
            else:
                columns.append(join_values(same))
        return Arguments(columns)

    def __reduce__(self) -> Any:
        return Arguments, (self.columns,)


class Entries(NamedTuple):
    """The rows for which task elements run, in order.

    Attributes:
        elements: uint16[n]: which task elements, by their place in the program.
        numbers, positions: int64[n]: the call of each, and the item of its loop.
        homes: int64[n]: the partition that gathers its result, or where that goes else.
        keys: keys of the rows; None where the task elements have none.
        places: int64[n]: of each row, in the arguments of its task element.
        arguments: arguments of the task elements.
    """

    elements: NDArray[np.uint16]
    numbers: NDArray[np.int64]
    positions: NDArray[np.int64]
    homes: NDArray[np.int64]
    keys: Values | None
    places: NDArray[np.int64]
    arguments: Mapping[int, Arguments]

    @classmethod
    def of_element(
        cls, e: int, numbers: Any, positions: Any, homes: Any, keys: Values | None,
        arguments: Arguments,
    ) -> Entries:  # fmt: skip
        """Return the rows of one task element."""
        n = len(numbers)
        elements = np.full(n, e, np.uint16)
        return cls(elements, numbers, positions, homes, keys, np.arange(n), {e: arguments})

    @classmethod
    def join(cls, parts: Sequence[Entries]) -> Entries:
        """Return the entries of all parts, in order of (call, item)."""
        if len(parts) == 1:
            return parts[0]
        keys = [part.keys for part in parts if part.keys is not None]
        by_element: dict[int, list[Arguments]] = {}
        places, length = [], dict[int, int]()
        for part in parts:
            if len(part.arguments) == 1:
                part = part.alone()
            moved = part.places
            for e, arguments in part.arguments.items():
                first = length.get(e, 0)
                if first:
                    moved = moved + np.where(part.elements == e, first, 0)
                length[e] = first + len(arguments)
                by_element.setdefault(e, []).append(arguments)
            places.append(moved)
        joined = cls(
            np.concatenate([part.elements for part in parts]),
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.positions for part in parts]),
            np.concatenate([part.homes for part in parts]),
            join_values(keys) if keys else None,
            np.concatenate(places),
            {e: Arguments.join(several) for e, several in by_element.items()},
        )
        return joined.take(np.lexsort((joined.positions, joined.numbers)))

    def rows(self, first: int, last: int) -> Entries:
        """Return the entries first, first + 1, ... last - 1."""
        if (first, last) == (0, len(self.numbers)):
            return self
        keys = self.keys
        if isinstance(keys, tuple):
            offsets = keys[0][first : last + 1]
            keys = offsets - offsets[0], keys[1][offsets[0] : offsets[-1]]
        elif keys is not None:
            keys = keys[first:last]
        span = slice(first, last)
        return Entries(
            self.elements[span], self.numbers[span], self.positions[span], self.homes[span], keys,
            self.places[span], self.arguments,
        )  # fmt: skip

    def calls(self, low: int, high: int) -> Entries:
        """Return the entries of the calls low, low + 1, ... high - 1."""
        first, last = np.searchsorted(self.numbers, [low, high]).tolist()
        return self.rows(first, last)

    def take(self, rows: NDArray[np.int64]) -> Entries:
        """Return some entries."""
        keys = None if self.keys is None else take_values(self.keys, rows)
        return Entries(
            self.elements[rows], self.numbers[rows], self.positions[rows], self.homes[rows], keys,
            self.places[rows], self.arguments,
        )  # fmt: skip

    def alone(self) -> Entries:
        """Return them with the arguments of these rows alone, to be sent; of one task element."""
        ((e, arguments),) = self.arguments.items()
        if len(arguments) in (0, len(self.places)):
            return self
        by_element = {e: arguments.take(self.places)}
        return self._replace(places=np.arange(len(self.places)), arguments=by_element)

    def columns(self, e: int) -> list[list[Any]]:
        """Return the arguments of a task element's rows, by parameter, in their order."""
        lists, places = self.arguments[e].lists(), self.places
        if len(self.arguments) > 1:
            places = places[self.elements == e]
        first, last = (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)
        if last - first == len(places) and (places[1:] > places[:-1]).all():
            return [values[first:last] for values in lists]
        chosen = places.tolist()
        return [[values[k] for k in chosen] for values in lists]

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """Return the arguments of each row."""
        iterators: dict[int, Iterator[tuple[Any, ...]]] = {}
        for e in self.arguments:
            columns = self.columns(e)
            iterators[e] = zip(*columns, strict=True) if columns else repeat(())
        if len(iterators) == 1:
            return islice(iterators.popitem()[1], len(self.places))
        return map(next, map(iterators.__getitem__, self.elements.tolist()))


class Growing:
    """Rows that continue to one task element, as lists.

    Attributes:
        runs: (call, first item, home, how many) of rows that are items of one call.
        keys: key of each row.
        columns: the arguments, by parameter.
    """

    def __init__(self) -> None:
        self.runs: list[tuple[int, int, int, int]] = []
        self.keys: list[Any] = []
        self.columns: list[list[Any]] = []

    def add(self, number: int, position: int, home: int, key: Any, values: Sequence[Any]) -> None:
        """Add one row."""
        self.extend((number, position, home, 1), [key], [(value,) for value in values])

    def extend(
        self, run: tuple[int, int, int, int], keys: Sequence[Any], columns: Sequence[Sequence[Any]]
    ) -> None:
        """Add the rows of items of one call."""
        if not self.runs:
            self.columns = [[] for _ in columns]
        self.runs.append(run)
        self.keys += keys
        for column, values in zip(self.columns, columns, strict=True):
            column += values

    def entries(self, e: int, keys: Values | None) -> Entries:
        """Return the rows as entries of a task element."""
        numbers, firsts, homes, counts = np.array(self.runs, np.int64).reshape(-1, 4).T
        starts = np.cumsum(counts) - counts
        positions = np.arange(len(self.keys)) + np.repeat(firsts - starts, counts)
        return Entries.of_element(
            e, np.repeat(numbers, counts), positions, np.repeat(homes, counts), keys,
            Arguments(self.columns),
        )  # fmt: skip
