"""Writing the segments of a run's versions in the background, in its tasks.

A task copies the state at the end of an iteration that is to be committed; a thread writes the copy
while the next iterations are computed. `Writer.finish` waits for it, so a report never names a
segment that is not durable.

If few vertices changed, a delta is written: the rows that differ from the segment that this process
wrote before. The driver's command has the attempt of the segment committed last; a process that did
not write that segment writes a base. The deltas of a base have at most as many rows together as the
base, and there are at most `MAX_DELTAS` of them.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import StateError, StateInputError
from vertexsdk.state import SegmentRef, Store, open_store
from vertexsdk.state.address import Address
from vertexsdk.state.manifests import Kind
from vertexsdk.state.reading import NAME_COLUMNS, take_rows

MAX_DELTAS = 64  # deltas over one base
_MAX_PENDING = 2  # copies of the state that wait to be written
_REOPEN_SECONDS = 15.0  # for a server to come back
_CONSTANT = ("id", "kind", *NAME_COLUMNS)  # never changed in place

Array = NDArray[Any]
Columns = dict[str, Array]


class DeltaLayers(NamedTuple):
    """The deltas on a partition's base: their number, and the rows in all of them."""

    deltas: int = 0
    rows: int = 0

    def add(self, rows: int, count: int) -> DeltaLayers | None:
        """With one more delta, of `rows`; None if a base of `count` rows is due."""
        if self.deltas >= MAX_DELTAS or self.rows + rows > count:
            return None
        return DeltaLayers(self.deltas + 1, self.rows + rows)


@dataclass(frozen=True, slots=True)
class _LastSegment:
    """The segment of a partition that this process wrote last, and the deltas on its base."""

    attempt: str
    columns: Columns
    layers: DeltaLayers


@dataclass(slots=True)
class _OpenStore:
    """A store, and how many use it now."""

    store: Store
    users: int = 0


_last_segments: dict[tuple[str, int], _LastSegment] = {}  # by (run, partition)
_stores: dict[str, _OpenStore] = {}  # by run, as the directory may be another one in the next
_lock = threading.Lock()  # of both: runs without Spark may be in threads of one process


class Writer:
    """Writes the versions of one partition that one hop completes; a context manager.

    Args:
        run: names the run, whose processes open the store once.
        store: None to write nothing.
        loop, partition: what the segments belong to.
        committed: the attempt of this partition's segment that was committed last, if any.
    """

    def __init__(
        self,
        run: str,
        store: str | Address | None,
        loop: str,
        partition: int,
        committed: str | None,
    ) -> None:
        self._place, self._address, self._loop = (run, partition), store, loop
        with _lock:
            last = _last_segments.get(self._place)
        self._last = last if last and last.attempt == committed else None
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: dict[int, Future[SegmentRef | None]] = {}

    def add(self, iteration: int, columns: Columns, *, last: bool = False) -> None:
        """Copy the state at the end of `iteration`, and write the copy in the background.

        Args:
            columns: "id" (int64[n], ascending) and the fields, n rows each.
            last: the run has ended, so they are not copied.

        Raises:
            StateError: an earlier version could not be written.
        """
        if self._address is None:
            return
        copies = {n: a if last or n in _CONSTANT else copied(a) for n, a in columns.items()}
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "vertexsdk-writer")
        pending = list(self._waiting.values())
        if len(pending) >= _MAX_PENDING:
            pending[-_MAX_PENDING].result()
        self._waiting[iteration] = self._thread.submit(self._write, iteration, copies, last)

    def finish(self) -> dict[int, SegmentRef | None]:
        """Wait for all versions.

        Returns:
            iteration → its durable segment, or None if nothing changed since the one before.

        Raises:
            StateError: a version could not be written.
        """
        return {iteration: future.result() for iteration, future in self._waiting.items()}

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def _write(self, iteration: int, columns: Columns, last: bool) -> SegmentRef | None:
        last_segment, layers = self._last, None
        if last:
            with _lock:
                _last_segments.pop(self._place, None)
        rows = None if last_segment is None else changed_rows(last_segment.columns, columns)
        if last_segment is not None and rows is not None:
            if not len(rows):
                return None
            layers = last_segment.layers.add(len(rows), len(columns["id"]))
        kind: Kind = "base"
        stored = columns
        if layers is not None and rows is not None:
            kind, stored = "delta", take_rows(columns, rows)
        run, partition = self._place
        assert self._address is not None
        with store_of_run(run, self._address) as store:
            ref = store.put_segment(self._loop, partition, iteration, kind, stored)
        self._last = _LastSegment(ref.key.attempt, columns, layers or DeltaLayers())
        with _lock:
            for place in [k for k in _last_segments if k[0] != run]:
                del _last_segments[place]  # of an earlier run
            if not last:
                _last_segments[self._place] = self._last
        return ref


@contextlib.contextmanager
def store_of_run(run: str, address: str | Address) -> Iterator[Store]:
    """The store of a run, opened once by each process; those of other runs close when unused."""
    with _lock:
        if run not in _stores:
            for other in [r for r, opened in _stores.items() if not opened.users]:
                _stores.pop(other).store.close()
            _stores[run] = _OpenStore(_open_with_retry(address))
        opened = _stores[run]
        opened.users += 1
    try:
        yield opened.store
    finally:
        with _lock:
            opened.users -= 1


def _open_with_retry(address: str | Address) -> Store:
    """Open the store; its server answered the driver, so wait for it if it is down now."""
    end = time.monotonic() + _REOPEN_SECONDS
    while True:
        try:
            return open_store(address)
        except StateError as error:
            if isinstance(error, StateInputError) or time.monotonic() > end:
                raise
            time.sleep(0.2)


def changed_rows(old_columns: Columns, new_columns: Columns) -> NDArray[np.int64] | None:
    """The rows (int64[m], ascending) in which any bit differs.

    Args:
        old_columns, new_columns: "id" (int64[n], ascending) and columns of n rows.

    Returns:
        None if the ids, columns or dtypes differ, or a column holds objects.
    """
    ids, old = new_columns["id"], old_columns["id"]
    if ids is not old and not np.array_equal(ids, old):
        return None
    if old_columns.keys() != new_columns.keys():
        return None
    changed = np.zeros(len(ids), np.bool_)
    for name, values in new_columns.items():
        former = old_columns[name]
        if values is former or name in NAME_COLUMNS:
            continue  # names belong to ids
        if values.dtype != former.dtype or values.dtype.hasobject or values.shape != former.shape:
            return None
        different = _bits(values) != _bits(former)
        changed |= different if different.ndim == 1 else different.any(axis=1)
    return np.flatnonzero(changed)


def forget_segments(run: str, partition: int) -> None:
    """Free what is remembered of the last version of a run's partition."""
    with _lock:
        _last_segments.pop((run, partition), None)


def copied(values: Array) -> Array:
    """A copy of a column, also of the lists and dicts in it, which methods may still change."""
    if values.dtype.hasobject:
        with contextlib.suppress(Exception):  # such as a lock: an error of its own, when written
            return copy.deepcopy(values)
    return values.copy()


def _bits(values: Array) -> Array:
    """As unsigned integers, so that NaN equals itself and -0.0 is not 0.0."""
    width = values.dtype.itemsize
    return values.view(f"u{width}") if width in (1, 2, 4, 8) else values
