"""Versions on their way to the store, while the loop goes on: a task's end, and the driver's.

A task copies the state at the end of an iteration that is to be committed; a thread writes it
while the next iterations are computed. `Writer.finish` waits for that, so a report never names a
segment that is not durable. The driver's `Committer` makes versions of what was reported, in
order, beside the hops that follow.

Where few vertices changed a delta is written. It holds what is different from the segment that
this process wrote before; the driver's command says by its attempt which segment was committed
last, so a process that wrote another one, or none, writes a base. Deltas never hold more rows
together than the base below them, and are at most `MAX_DELTAS`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import take_strings
from vertexsdk.errors import StateError, StateInputError
from vertexsdk.state import Manifest, SegmentRef, Store, open_store
from vertexsdk.state.address import Address

__all__ = ["MAX_DELTAS", "Committer", "DeltaLayers", "Writer", "changed_rows", "store_of_run"]

MAX_DELTAS = 64  # deltas over one base
_WAITING = 2  # copies of the state that wait to be written
_PATIENCE = 15.0  # seconds for a server to come back
_NAMES = ("name.offsets", "name.bytes")
_CONSTANT = ("id", "kind", *_NAMES)  # never changed in place

Array = NDArray[Any]
Columns = dict[str, Array]


class DeltaLayers(NamedTuple):
    """What lies over a partition's base: deltas, and rows in all of them together."""

    deltas: int = 0
    rows: int = 0

    def add(self, rows: int, count: int) -> DeltaLayers | None:
        """The layers with a delta of `rows` more; None where a base of `count` rows is due."""
        if self.deltas >= MAX_DELTAS or self.rows + rows > count:
            return None
        return DeltaLayers(self.deltas + 1, self.rows + rows)


@dataclass(frozen=True, slots=True)
class _Written:
    """What this process wrote last of a partition, and what lies over its base."""

    attempt: str
    columns: Columns
    layers: DeltaLayers


_written: dict[tuple[str, int], _Written] = {}  # (run, partition) ->
_stores: dict[str, Store] = {}  # by run, as the directory may be another one in the next


class Writer:
    """Writes the versions of one partition that one hop completes; a context manager.

    Args:
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
        before = _written.get(self._place)
        self._before = before if before and before.attempt == committed else None
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: dict[int, Future[SegmentRef | None]] = {}

    def add(self, iteration: int, columns: Columns) -> None:
        """Write this state, which is copied, as that of the end of `iteration`.

        Raises:
            StateError: an earlier one could not be written.
        """
        if self._address is None:
            return
        kept = {n: a if n in _CONSTANT else a.copy() for n, a in columns.items()}
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "vertexsdk-writer")
        pending = list(self._waiting.values())
        if len(pending) >= _WAITING:
            pending[-_WAITING].result()
        self._waiting[iteration] = self._thread.submit(self._write, iteration, kept)

    def __contains__(self, iteration: int) -> bool:
        return iteration in self._waiting

    def finish(self) -> dict[int, SegmentRef | None]:
        """Iteration → its durable segment, or None where nothing changed since the one before.

        Raises:
            StateError: one could not be written.
        """
        return {iteration: future.result() for iteration, future in self._waiting.items()}

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def _write(self, iteration: int, columns: Columns) -> SegmentRef | None:
        before, layers = self._before, None
        rows = None if before is None else changed_rows(before.columns, columns)
        if before is not None and rows is not None:
            if not len(rows):
                return None
            layers = before.layers.add(len(rows), len(columns["id"]))
        if layers is not None and rows is not None:
            ref = self._put(iteration, "delta", _taken(columns, rows))
        else:
            ref = self._put(iteration, "base", columns)
        self._before = _Written(ref.key.attempt, columns, layers or DeltaLayers())
        for place in [k for k in _written if k[0] != self._place[0]]:
            del _written[place]  # of an earlier run
        _written[self._place] = self._before
        return ref

    def _put(self, iteration: int, kind: Any, columns: Columns) -> SegmentRef:
        run, partition = self._place
        assert self._address is not None
        store = store_of_run(run, self._address)
        return store.put_segment(self._loop, partition, iteration, kind, columns)


def store_of_run(run: str, address: str | Address) -> Store:
    """The store, opened once by each process for a run."""
    if run not in _stores:
        for other in list(_stores):
            _stores.pop(other).close()
        _stores[run] = _opened(address)
    return _stores[run]


def _opened(address: str | Address) -> Store:
    """The store; its server answered the driver, so if it is away just now it is waited for."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return open_store(address)
        except StateError as error:
            if isinstance(error, StateInputError) or time.monotonic() > end:
                raise
            time.sleep(0.2)


def changed_rows(before: Columns, after: Columns) -> NDArray[np.int64] | None:
    """The rows in which any bit is different; None where rows cannot be compared one by one.

    Args:
        before, after: "id" (int64[n], ascending) and columns of n rows.
    """
    ids, old = after["id"], before["id"]
    if ids is not old and not np.array_equal(ids, old):
        return None
    if before.keys() != after.keys():
        return None
    changed = np.zeros(len(ids), np.bool_)
    for name, values in after.items():
        former = before[name]
        if values is former or name in _NAMES:
            continue  # names belong to ids
        if values.dtype != former.dtype or values.dtype.hasobject or values.shape != former.shape:
            return None
        different = _bits(values) != _bits(former)
        changed |= different if different.ndim == 1 else different.any(axis=1)
    return np.flatnonzero(changed)


def _bits(values: Array) -> Array:
    """As unsigned integers, so that NaN equals itself and -0.0 is not 0.0."""
    width = values.dtype.itemsize
    return values.view(f"u{width}") if width in (1, 2, 4, 8) else values


def _taken(columns: Columns, rows: NDArray[np.int64]) -> Columns:
    taken = {n: values[rows] for n, values in columns.items() if n not in _NAMES}
    if "name.offsets" in columns:
        names = take_strings(columns["name.offsets"], columns["name.bytes"], rows)
        taken["name.offsets"], taken["name.bytes"] = names
    return taken


class Committer:
    """Commits in the order given, in a thread; a context manager that ends with the last.

    Args:
        commit: given what `add` was, and the manifest before; returns the new one, durable.
        newest: the version to build on, if any.
        rest: called when nothing waits any more.
    """

    def __init__(
        self,
        commit: Callable[[Any, Manifest | None], Manifest],
        newest: Manifest | None,
        rest: Callable[[], object] = lambda: None,
    ) -> None:
        self._commit, self._rest = commit, rest
        self._newest = newest
        self._added = self._made = 0
        self._last: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, "vertexsdk-committer")

    def add(self, version: Any) -> None:
        """Commit a version after those added before.

        Raises:
            StateError: one of those failed.
        """
        if self._last is not None and self._last.done():
            self._last.result()
        self._added += 1
        self._last = self._thread.submit(self._next, version, self._last)

    def finish(self) -> Manifest | None:
        """Wait for all; the newest version that is acknowledged.

        Raises:
            StateError: one failed; those before it stay.
        """
        if self._last is not None:
            self._last.result()
        return self._newest

    def _next(self, version: Any, before: Future[None] | None) -> None:
        if before is not None:
            before.result()  # what is built on a failure fails too
        self._newest = self._commit(version, self._newest)
        self._made += 1
        if self._made == self._added:
            self._rest()

    def __enter__(self) -> Committer:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(wait=True)
