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

from vertexsdk.engine.keyed.table import KeyedTable, TableCapture
from vertexsdk.engine.snapshots import SnapshotPart
from vertexsdk.errors import first_line
from vertexsdk.state import SegmentRef


class PartitionSnapshot:
    """A snapshot of one partition that is being stored.

    Args:
        tables: to store, with whether all of their rows are.
        write: stores what was captured, by the name of the table.
        waits: it is stored when this returns; else a thread does it.
    """

    def __init__(
        self,
        tables: Mapping[str, tuple[KeyedTable, bool]],
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
