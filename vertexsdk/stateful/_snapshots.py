"""The snapshots of a stateful class: when they are due, and what becomes of them."""

from __future__ import annotations

import logging
import time
import weakref
from typing import NamedTuple, Protocol

from vertexsdk.engine.keyed.keyed_engine import KeyedEngine
from vertexsdk.engine.snapshots import SnapshotPart
from vertexsdk.errors import StateError
from vertexsdk.loops.snapshot_policy import SnapshotNumbers, SnapshotPolicy
from vertexsdk.loops.snapshot_thread import POLL_SECONDS, SnapshotThread
from vertexsdk.stateful._history import CallHistory

_log = logging.getLogger("vertexsdk")
_LONGEST_LOG = 1 << 22  # calls, where nothing says when there is a snapshot


class SnapshotLoop(Protocol):
    """What snapshots need of a `StatefulLoop`."""

    partitions: int
    _history: CallHistory
    _engine: KeyedEngine | None

    def _look_at_snapshots(self) -> None:
        """Call `begin_if_due` with the lock, if the loop can be used."""


class _Cut(NamedTuple):
    """The instant of a snapshot that is being stored."""

    calls: int  # until then
    iteration: int  # of the newest version then
    began: float


class CallSnapshots:
    """The snapshots of one loop.

    Every method but `look` and `close` is called with the loop's lock.

    Args:
        loop: whose they are.
        policy: when they are due.

    Attributes:
        thread: calls `look`.
        last: what they came to; any thread may read it.
    """

    def __init__(self, loop: SnapshotLoop, policy: SnapshotPolicy) -> None:
        self._loop = weakref.ref(loop)
        self._policy = policy
        self._cut: _Cut | None = None
        self._whole = True  # there is nothing to lay changes over
        self._calls = loop._history.record.snapshot  # at the newest cut
        self._begun = self._polled = time.monotonic()
        self.last = SnapshotNumbers()
        self.thread = SnapshotThread(self)
        if policy.seconds is not None:
            self.thread.start()

    @property
    def _open_loop(self) -> SnapshotLoop:
        loop = self._loop()
        assert loop is not None
        return loop

    @property
    def _engine(self) -> KeyedEngine:
        engine = self._open_loop._engine
        assert engine is not None
        return engine

    def begin_if_due(self) -> None:
        """Commit a snapshot that is stored, and begin one if it is due.

        Raises:
            RunError, StateError: it could not be taken; the log has the calls.
        """
        if self._cut is not None and time.monotonic() - self._polled >= POLL_SECONDS:
            self.collect()
        if self._cut is None and self._is_due():
            self._begin(waits=self._policy.waits)

    def take(self) -> None:
        """Take a snapshot, and return when it is committed.

        Raises:
            RunError, StateError: it could not be stored; the log has the calls.
        """
        self.collect(waits=True)
        self._begin(waits=True)

    def drop(self) -> None:
        """Let go of a snapshot that is being stored; the next one has all rows."""
        self._cut, self._whole = None, True

    def collect(self, *, waits: bool = False) -> None:
        """Commit the snapshot if all partitions have stored it.

        Args:
            waits: wait until they have.

        Raises:
            RunError, StateError: it could not be stored, and is dropped.
        """
        if self._cut is not None:
            self._polled = time.monotonic()
            try:
                self._commit(self._engine.poll_snapshot(waits=waits))
            except BaseException:
                self.drop()
                raise

    @property
    def pause(self) -> float | None:
        """Seconds until something may be to do; None while nothing is, before other calls."""
        return self._policy.pause(self._begun, storing=self._cut is not None)

    def look(self) -> None:
        """Do what is to do, if the loop can be used; called by the thread."""
        loop = self._loop()
        if loop is not None:
            loop._look_at_snapshots()

    def close(self) -> None:
        """End the thread; a snapshot that is not complete is dropped."""
        self.thread.close()

    def _is_due(self) -> bool:
        calls = self._open_loop._history.record.calls - self._calls
        if self._policy.seconds is not None:
            return calls > 0 and time.monotonic() - self._begun >= self._policy.seconds
        return calls >= (self._policy.changes or _LONGEST_LOG)

    def _begin(self, *, waits: bool) -> None:
        loop = self._open_loop
        if not waits:
            loop._history.end_tail()
        calls, iteration = loop._history.record.calls, loop._history.manifest.iteration
        whole, self._whole = self._whole, False
        self._begun = self._polled = time.monotonic()
        self._calls, self._cut = calls, _Cut(calls, iteration, self._begun)
        try:
            self._commit(self._engine.snapshot(iteration + 1, whole=whole, waits=waits))
        except BaseException:
            self.drop()
            raise
        if self._cut is not None:
            self.thread.start()
            self.thread.wake()

    def _commit(self, parts: list[SnapshotPart] | None) -> None:
        """Commit the snapshot; without parts it is not stored yet."""
        loop, cut = self._open_loop, self._cut
        if parts is None or cut is None:
            return
        failures = [part.failure for part in parts if part.failure]
        if failures:
            raise StateError(failures[0])
        refs = [ref for part in parts for ref in part.segments]
        loop._history.cut(refs, loop.partitions, cut.calls, cut.iteration)
        self._cut = None
        self.last = SnapshotNumbers(
            self.last.number + 1, cut.began, max(part.pause for part in parts),
            max(part.seconds for part in parts), sum(ref.bytes for ref in refs),
        )  # fmt: skip
        loop._history.store.show(loop._history.loop)
