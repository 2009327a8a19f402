"""The table of a state element on one partition: an index from keys to rows, and dense columns.

A row has a byte of flags. A row without `PRESENT` is the place of a key that was looked for or
removed; it is dropped when the table would have to grow. A row with `DIRTY` was changed since the
last snapshot, one with `STORED` is in it, and one with `MARKED` is still to be copied for it.

Snapshots name rows by an "id": an integer key itself, or for a string a number that no other key of
the table has, in whichever partition: its key group, and above it how many came before.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.arrays.hash_index import BytesIndex, IntIndex
from vertexsdk.arrays.id_hash import KEY_GROUPS
from vertexsdk.arrays.jit import njit
from vertexsdk.engine.keyed.calls import (
    Values,
    join_values,
    one_value,
    python_values,
    stored_values,
    take_values,
)
from vertexsdk.errors import InputError, excerpt
from vertexsdk.program.keyed import ABSENT, DEFAULTS, DTYPES, TableSpec
from vertexsdk.program.keyed_state import Journal, RowsState, state_in_memory
from vertexsdk.state.reading import NAME_COLUMNS, TOMBSTONE

# The flags of a row.
PRESENT, DIRTY, STORED, MARKED = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)
SLICE = 1 << 16  # rows that are looked at while no call can write


@njit
def _number_rows(rows: Any, numbers: Any, unique: Any, places: Any) -> int:
    """Number the different rows in the order in which they come first; return how many.

    Args:
        rows: int64[n], -1 for none, whose place is -1.
        numbers: int32 for every row of the table, all -1 before and after.
        unique, places: int64[n], filled with the different rows, and the number of each one.
    """
    count = 0
    for i in range(len(rows)):
        row = rows[i]
        if row < 0:
            places[i] = -1
            continue
        if numbers[row] < 0:
            numbers[row] = count
            unique[count] = row
            count += 1
        places[i] = numbers[row]
    for k in range(count):
        numbers[unique[k]] = -1
    return count


@njit
def _mark(flags: Any, all_rows: bool) -> int:
    """Mark the rows of a snapshot, stored and not dirty from now on; return their number."""
    count = 0
    for row in range(len(flags)):
        flag = flags[row]
        if all_rows:
            chosen = flag & 1 != 0
            flag &= 0xF1
        else:
            chosen = flag & 2 != 0 and flag & 5 != 0
            flag &= 0xFD
        if chosen:
            count += 1
            flag |= 8
            flag = (flag | 4) if flag & 1 else (flag & 0xFB)
        flags[row] = flag
    return count


class KeyedTable:
    """The rows of one state element whose keys a partition owns.

    One thread calls it, and another one `copy_slice`.

    Args:
        spec: the types of its keys and fields.

    Attributes:
        flags: a byte for each row.
        columns: the values of each field.

    Example:
        >>> from vertexsdk import Map
        >>> table = KeyedTable(TableSpec("values", Map(int, float)))
        >>> rows, places = table.find(np.array([7, 8, 7]), np.array([True, False, True]))
        >>> rows.tolist(), places.tolist()
        ([0], [0, -1, 0])
        >>> table.write(rows, [2.5])
        >>> table.read(rows)
        [2.5]
    """

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self._index: Any = IntIndex() if spec.key == "int" else BytesIndex()
        self._next_id = 0
        self._lock = threading.Lock()  # of what is written, and of where it is
        self._capture: TableCapture | None = None
        self._dtypes = [np.dtype(DTYPES[kind]) for kind in spec.fields.values()]
        self._quick = self._dtypes[0].kind in "if"  # what is ABSENT cannot become a number
        self._allocate(0)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.flags[: self.size] & PRESENT))

    @property
    def size(self) -> int:
        """The number of rows, including those that are not present."""
        return int(self._index.rows)

    @property
    def changed(self) -> int:
        """The number of rows that a delta would have."""
        flags = self.flags[: self.size]
        return int(np.count_nonzero((flags & DIRTY != 0) & (flags & (PRESENT | STORED) != 0)))

    def _allocate(self, used: int) -> None:
        """Give all columns the capacity of the index, with the first `used` rows."""
        capacity = self._index.capacity

        def column(dtype: Any, fill: Any, old: NDArray[Any] | None) -> NDArray[Any]:
            new = np.full(capacity, fill, dtype)
            if old is not None:
                new[:used] = old[:used]
            return new

        old = self.__dict__
        self.flags = column(np.uint8, 0, old.get("flags"))
        self._numbers = column(np.int32, -1, None)
        self._ids = column(np.int64, -1, old.get("_ids")) if self.spec.key == "str" else None
        columns = old.get("columns", {})
        self.columns = {
            name: column(DTYPES[kind], DEFAULTS[kind], columns.get(name))
            for name, kind in self.spec.fields.items()
        }

    def _make_room(self, key: Any, rows: int) -> bool:
        """Make room for a key: drop rows without a value where they are many, or grow.

        Args:
            key: a column with this key alone.
            rows: how many there were before the keys that are being added.

        Returns:
            Whether rows have other places now.
        """
        with self._lock:
            index, moved = self._index, False
            if index.rows == index.capacity:
                while self._capture is not None:  # rows may be about to have other places
                    self._copy_slice()
                flags = self.flags[:rows]
                needed = np.flatnonzero((flags & PRESENT != 0) | (flags & (DIRTY | STORED) == 6))
                moved = 2 * len(needed) < rows
            if moved:
                index.keep(needed)
                ids = [] if self._ids is None else [self._ids]
                empty = [0, *(-1 for _ in ids), *(DEFAULTS[k] for k in self.spec.fields.values())]
                columns = [self.flags, *ids, *self.columns.values()]
                for values, none in zip(columns, empty, strict=True):
                    values[: len(needed)] = values[needed]
                    values[len(needed) : rows] = none
            if index.reserve(key):
                self._allocate(index.rows)
            return moved

    def find(
        self, keys: Any, add: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the rows of keys.

        Args:
            keys: int64[n], or packed strings.
            add: bool[n]: the key gets a row if it has none.

        Returns:
            The different rows, int64[m], and for each key the place of its row among them, -1
            where it has none. They hold until the next call.
        """
        return self.different(self.locate(keys, add))

    def locate(self, keys: Any, add: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the row (int64[n]) of each key, -1 where it has none; until the next call.

        Args:
            keys, add: as for `find`.
        """
        rows, rows_before, first = np.empty(len(add), np.int64), self._index.rows, 0
        while (first := self._index.find_from(first, keys, add, rows)) < len(rows):
            if self._make_room(one_value(keys, first), rows_before):
                rows_before, first = self._index.rows, 0
        if self._ids is not None and rows_before < self._index.rows:
            new_rows = np.arange(rows_before, self._index.rows)
            ids = np.arange(self._next_id, self._next_id + len(new_rows))
            self._ids[new_rows] = ids * KEY_GROUPS + self._index.groups(new_rows)
            self._next_id += len(new_rows)
        return rows

    def different(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the different ones of some rows, and for each row its place among them, or -1."""
        unique, places = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        count = _number_rows(rows, self._numbers, unique, places)
        return unique[:count], places

    def read(self, rows: NDArray[np.int64]) -> list[Any]:
        """Return the value of each row, a tuple where there are named fields, or `ABSENT`."""
        columns = [column[rows].tolist() for column in self.columns.values()]
        values = columns[0] if self.spec.single else list(zip(*columns, strict=True))
        for k in np.flatnonzero(self.flags[rows] & PRESENT == 0).tolist():
            values[k] = ABSENT
        return values

    def write(self, rows: NDArray[np.int64], values: list[Any]) -> None:
        """Set the values of different rows; `ABSENT` removes one."""
        flags = np.full(len(rows), PRESENT | DIRTY, np.uint8)
        columns: list[Any] = []
        if self.spec.single and self._quick:
            with suppress(TypeError):  # one is ABSENT
                columns = [_filled(values, *self._dtypes)]
        if not columns:
            absent = [k for k, value in enumerate(values) if value is ABSENT]
            values = list(values)
            for k in absent:
                values[k] = self.spec.default
            flags[absent] = DIRTY
            parts = [values] if self.spec.single else list(zip(*values, strict=True))
            columns = [_filled(x, dtype) for x, dtype in zip(parts, self._dtypes, strict=False)]
        with self._lock:
            if self._capture is not None:
                self._capture.copy_before_write(rows)
            for column, new in zip(self.columns.values(), columns, strict=False):
                column[rows] = new
            self.flags[rows] = (self.flags[rows] & STORED) | flags

    @contextmanager
    def changing(
        self, rows: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.uint8], dict[str, NDArray[Any]]]]:
        """Yield the flags and the columns, in which a kernel may change rows meanwhile.

        A row that is not present has the defaults in its columns.

        Args:
            rows: int64[n], -1 for none.
        """
        with self._lock:
            if self._capture is not None:
                self._capture.copy_before_write(self.different(rows)[0])
            yield self.flags, self.columns

    def saved(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint8], list[NDArray[Any]]]:
        """Return which different rows are present, and their values, for `put_back`."""
        return self.flags[rows] & PRESENT, [column[rows] for column in self.columns.values()]

    def put_back(self, keys: Values, saved: tuple[NDArray[np.uint8], list[NDArray[Any]]]) -> None:
        """Set the rows of different keys to what they were.

        Args:
            keys: keys of the rows.
            saved: what `saved` returned of them.
        """
        present, values = saved
        rows = self.locate(keys, np.ones(len(present), np.bool_))
        with self.changing(rows) as (flags, columns):
            for column, old in zip(columns.values(), values, strict=True):
                column[rows] = old
            flags[rows] = (flags[rows] & STORED) | DIRTY | present

    def keys(self, rows: NDArray[np.int64]) -> Values:
        """Return the keys of rows."""
        keys: Values = self._index.keys(rows)
        return keys

    def row_ids(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of rows, as a snapshot has them."""
        ids: NDArray[np.int64] = self._index.keys(rows) if self._ids is None else self._ids[rows]
        return ids

    def sync(self) -> None:
        """Have all rows in the table."""

    def present(self) -> NDArray[np.int64]:
        """Return the rows (int64[n]) that are present."""
        rows: NDArray[np.int64] = np.flatnonzero(self.flags[: self.size] & PRESENT)
        return rows

    def all_rows(self) -> RowsState:
        """Return a copy of all rows, as the state element of a plain object."""
        state = state_in_memory(self.spec, Journal())
        rows = self.present()
        state.rows = dict(zip(python_values(self.keys(rows)), self.read(rows), strict=True))
        return state

    def capture(self, *, whole: bool) -> TableCapture:
        """Begin to copy the rows to store in a snapshot, as they are now: `copy_slice` does it.

        They are taken to be stored from now on. No other capture may be under way.

        Args:
            whole: all rows, for a base; else those changed since the last snapshot, for a delta.
        """
        with self._lock:
            self._capture = TableCapture(self, whole=whole)
            return self._capture

    def copy_slice(self) -> bool:
        """Copy some more rows of a capture; return whether there may be more."""
        with self._lock:
            self._copy_slice()
            return self._capture is not None

    def _copy_slice(self) -> None:
        if self._capture is not None and not self._capture.copy_slice():
            self._capture = None

    def fork(self, journal: Journal) -> KeyedTable:
        """Return a copy, with nothing in common; its next snapshot has all rows.

        Args:
            journal: takes what calls change.
        """
        other = copy.copy(self)
        other._lock, other._capture = threading.Lock(), None
        with self._lock:
            other._index = self._index.fork()
            other._numbers = self._numbers.copy()
            other._ids = None if self._ids is None else self._ids.copy()
            other.columns = {name: column.copy() for name, column in self.columns.items()}
            other.flags = self.flags & ~MARKED
        return other

    def restore(self, columns: dict[str, Column], mine: NDArray[np.bool_]) -> None:
        """Add the stored rows of a snapshot that are this partition's.

        Args:
            columns: as `capture` returned them, without rows that are gone.
            mine: bool[n], those to add.
        """
        chosen = np.flatnonzero(mine)
        ids = columns["id"][chosen]
        keys: Any = take_values(stored_keys(self.spec, columns), chosen)
        with self._lock:
            if self._index.reserve(keys):
                self._allocate(self._index.rows)
        rows = self._index.find(keys, np.ones(len(chosen), np.bool_))
        if self._ids is not None:
            self._ids[rows] = ids
            self._next_id = max(self._next_id, int(ids.max(initial=-1)) // KEY_GROUPS + 1)
        for name, column in self.columns.items():
            column[rows] = columns[name][chosen]
        self.flags[rows] = PRESENT | STORED


class TableCapture:
    """The rows of a table at an instant.

    Args:
        table: which has them.
        whole: all rows; else those changed since the capture before.
    """

    def __init__(self, table: KeyedTable, *, whole: bool) -> None:
        self.whole = whole
        self._table = table
        self._next, self._end = 0, table.size
        count = _mark(table.flags[: self._end], whole)
        self._count = 0
        self._names: list[Any] = []
        self._columns: dict[str, NDArray[Any]] = {"id": np.empty(count, np.int64)}
        for name, column in table.columns.items():
            self._columns[name] = np.empty(count, column.dtype)
        self._removed = np.zeros(count, np.bool_)

    def copy_slice(self) -> bool:
        """Copy the marked rows among the next ones; return whether there may be more.

        The caller has the lock of the table.
        """
        low, self._next = self._next, min(self._next + SLICE, self._end)
        flags = self._table.flags[low : self._next]
        self._copy(low + np.flatnonzero(flags & MARKED))
        return self._next < self._end

    def copy_before_write(self, rows: NDArray[np.int64]) -> None:
        """Copy the marked rows among those that will change; the caller has the lock."""
        self._copy(rows[self._table.flags[rows] & MARKED != 0])

    def _copy(self, rows: NDArray[np.int64]) -> None:
        if not len(rows):
            return
        table = self._table
        place = slice(self._count, self._count + len(rows))
        self._count += len(rows)
        self._columns["id"][place] = table.row_ids(rows)
        if table.spec.key == "str":
            self._names.append(table.keys(rows))
        for name, column in table.columns.items():
            self._columns[name][place] = column[rows]
        self._removed[place] = table.flags[rows] & PRESENT == 0
        table.flags[rows] &= ~MARKED

    def result(self) -> dict[str, Column]:
        """Return the rows, when all are copied."""
        columns: dict[str, Column] = {"id": self._columns.pop("id")}
        if self._table.spec.key == "str":
            empty = np.zeros(1, np.int64), np.empty(0, np.uint8)
            columns |= zip(NAME_COLUMNS, join_values([empty, *self._names]), strict=True)
        columns |= self._columns
        if self._removed.any():
            columns[TOMBSTONE] = self._removed
        return columns


class StoredTable(KeyedTable):
    """The rows of a state element in memory, as they go to the store.

    Args:
        spec: the types of its keys and fields.
        journal: takes what calls change.

    Attributes:
        state: the state element.
    """

    def __init__(self, spec: TableSpec, journal: Journal) -> None:
        super().__init__(spec)
        self.state = state_in_memory(spec, journal)

    def sync(self) -> None:
        """Write the rows that have changed to the columns of the table."""
        changed = list(self.state.changed)
        values = list(map(self._stored, changed))  # if it raises, they are still to be stored
        self.state.changed.clear()
        if changed:
            keys = stored_values(self.spec.key, changed)
            rows, _ = self.find(keys, np.ones(len(changed), np.bool_))
            self.write(rows, values)

    def _stored(self, key: Any) -> Any:
        """Return a row as it is stored, of the types that are declared."""
        value, spec = self.state.stored(key), self.spec
        if value is ABSENT:
            return value
        fields = (value,) if spec.single else value
        try:
            fields = tuple(c(x) for c, x in zip(spec.converters, fields, strict=True))
        except (InputError, TypeError, ValueError) as error:
            raise InputError(
                f"{spec.name}: {type(self.state).__name__}.to_fields returns {excerpt(value)}, and "
                f"the fields are {', '.join(map(': '.join, spec.fields.items()))} ({error})"
            ) from None
        return fields[0] if spec.single else fields

    def fork(self, journal: Journal) -> KeyedTable:
        """Return a copy, with nothing in common; its next snapshot has all rows."""
        other = super().fork(journal)
        assert isinstance(other, StoredTable)
        other.state = self.state.fork(journal)
        return other

    def restore(self, columns: dict[str, Column], mine: NDArray[np.bool_]) -> None:
        """Add the stored rows of a snapshot; a key that already has a row has both combined."""
        super().restore(columns, mine)
        chosen = np.flatnonzero(mine)
        keys = stored_keys(self.spec, columns)
        fields = [columns[name][chosen].tolist() for name in self.spec.fields]
        values = fields[0] if self.spec.single else list(zip(*fields, strict=True))
        self.state.restore_all(python_values(take_values(keys, chosen)), values)


def stored_keys(spec: TableSpec, columns: Mapping[str, Column]) -> Values:
    """Return the keys of stored rows."""
    if spec.key == "str":
        return columns[NAME_COLUMNS[0]], columns[NAME_COLUMNS[1]]
    return columns["id"]


def _filled(values: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values, which are of the type already, as an array."""
    return np.fromiter(values, dtype, len(values))
