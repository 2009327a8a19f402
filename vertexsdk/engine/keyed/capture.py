"""Snapshots of a partition, which are stored while calls run.

A snapshot is of the instant between two blocks of calls. Its rows are marked, and a thread copies
them slice by slice; before a call writes a row that is marked, the row is copied. So the tables are
never copied as a whole, and no block waits for the store (Fernandez et al., "Making state explicit
for imperative big data processing", USENIX ATC 2014, section 5; the cut is that of Carbone et al.,
"Lightweight asynchronous snapshots for distributed dataflows", 2015, with one source).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.arrays.jit import njit
from vertexsdk.engine.keyed.calls import Values, join_values
from vertexsdk.engine.snapshots import SnapshotPart
from vertexsdk.errors import first_line
from vertexsdk.program.keyed import TableSpec
from vertexsdk.state import SegmentRef
from vertexsdk.state.reading import NAME_COLUMNS, TOMBSTONE

# The flags of a row.
PRESENT, DIRTY, STORED, MARKED = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)
SLICE = 1 << 16  # rows that are looked at while no call can write


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


class CapturedTable(Protocol):
    """The part of a `KeyedTable` that captures need."""

    spec: TableSpec
    flags: NDArray[np.uint8]
    columns: dict[str, NDArray[Any]]

    @property
    def size(self) -> int:
        """The number of rows, including those that are not present."""

    def keys(self, rows: NDArray[np.int64]) -> Values:
        """Return the keys of rows."""

    def row_ids(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of rows."""

    def capture(self, *, whole: bool) -> TableCapture:
        """Begin to copy the rows to store in a snapshot."""

    def copy_slice(self) -> bool:
        """Copy some more of them; return whether there may be more."""


class TableCapture:
    """The rows of a table at an instant.

    Args:
        table: which has them.
        whole: all rows; else those changed since the capture before.
    """

    def __init__(self, table: CapturedTable, *, whole: bool) -> None:
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


class PartitionSnapshot:
    """A snapshot of one partition that is being stored.

    Args:
        tables: to store, with whether all of their rows are.
        write: stores what was captured, by the name of the table.
        waits: it is stored when this returns; else a thread does it.
    """

    def __init__(
        self,
        tables: Mapping[str, tuple[CapturedTable, bool]],
        write: Callable[[Mapping[str, TableCapture]], list[SegmentRef]],
        *,
        waits: bool,
    ) -> None:
        self._began = time.perf_counter()
        self._tables = [table for table, _ in tables.values()]
        self._captures = {name: table.capture(whole=all_) for name, (table, all_) in tables.items()}
        self._write = write
        self._part = SnapshotPart(0, state=True, pause=time.perf_counter() - self._began)
        self._thread = threading.Thread(target=self._store, name="vertexsdk-snapshot", daemon=True)
        if waits:
            self._store()
        else:
            self._thread.start()

    def part(self, *, waits: bool) -> SnapshotPart | None:
        """Return what was stored, None where that is not done yet.

        Args:
            waits: wait until it is.
        """
        if waits and self._thread.ident is not None:
            self._thread.join()
        return None if self._thread.is_alive() else self._part

    def _store(self) -> None:
        try:
            for table in self._tables:
                while table.copy_slice():
                    time.sleep(0)  # let a call write that waits for the lock
            self._part.segments = self._write(self._captures)
        except BaseException as error:
            self._part.failure = first_line(error)
            if not isinstance(error, Exception) and threading.current_thread() is not self._thread:
                raise  # as Ctrl-C does, in the thread of the caller
        finally:
            self._captures = {}
            self._part.seconds = time.perf_counter() - self._began
