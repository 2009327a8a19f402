"""The snapshots of a loop: when they are taken, and what becomes of them.

A snapshot is of an instant between two supersteps, its *cut*. The partitions store it while the
loop continues; when all have, a version that refers to it is committed. A process that restores
the loop reads the snapshot and the changes after its cut. One that fails, or is not complete
when the engine is lost, is dropped: what it has stored is garbage that a later collection sweeps.

The state is stored more often than the edges, which are in the store with the change log: they are
stored anew when the log has a quarter as many changes as there are edges.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from vertexsdk.engine.loop_engine import LoopEngine
from vertexsdk.engine.snapshots import SnapshotPart, SnapshotRequest
from vertexsdk.errors import RunError, StateError
from vertexsdk.loops.change_log import ChangeLog
from vertexsdk.loops.edge_times import EdgeTimes
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.snapshot_policy import SnapshotNumbers, SnapshotPolicy
from vertexsdk.loops.snapshot_thread import SnapshotThread
from vertexsdk.state import Manifest, SegmentRef, Store
from vertexsdk.state.version_writer import MAX_DELTAS

_log = logging.getLogger("vertexsdk")

_T = TypeVar("_T")
_LOGGED = 1 << 20  # changes in the log, at least, for a snapshot where none is asked for
_LONG = 8  # when a loop is closed, this fraction of them makes one


@dataclass(frozen=True)
class _Cut:
    """The instant of a snapshot that is being stored.

    Attributes:
        request: what the partitions were asked for.
        received: changes that the loop had received then.
        segments: what the driver has stored of it.
        began: by `time.monotonic`.
    """

    request: SnapshotRequest
    received: int
    segments: list[SegmentRef]
    began: float


class SnapshotLoop(Protocol):
    """The part of a `LoopHistory` that snapshots need."""

    loop: str
    lock: threading.RLock
    store: Store
    stale: bool

    @property
    def log(self) -> ChangeLog:
        """The changes since the edges were stored."""

    @property
    def engine(self) -> LoopEngine:
        """The engine."""

    @property
    def ledger(self) -> Ledger:
        """The counters of the newest version."""

    @property
    def manifest(self) -> Manifest:
        """The newest version."""

    @property
    def usable(self) -> bool:
        """True if the engine has the state of the newest version."""

    def settle(self) -> None:
        """Wait until everything is in the store."""

    def edge_times(self) -> EdgeTimes:
        """The event times of the newest version's edges."""

    def on_engine(self, work: Callable[[LoopEngine], _T]) -> _T:
        """Call `work` with the engine, again after a loss."""

    def commit_snapshot(self, segments: list[SegmentRef], log: ChangeLog, ledger: Ledger) -> None:
        """Commit a version that refers to a snapshot."""


class Snapshots:
    """The snapshots of one loop.

    Every method but `look` and `close` is called with the loop's lock.

    Args:
        history: the loop's history.
        policy: when they are due.

    Attributes:
        thread: calls `look`.
        last: what they came to, for `MainLoop.progress`; any thread may read it.
    """

    def __init__(self, history: SnapshotLoop, policy: SnapshotPolicy) -> None:
        self._history = weakref.ref(history)
        self.policy = policy
        self.last = SnapshotNumbers()
        self._begun = 0
        self._cut: _Cut | None = None
        self._failure: str | None = None  # of the newest
        self._needs_base = True  # nothing to lay changes over
        self._names = 0  # segments of names since the last whole snapshot
        self._received = history.ledger.received  # at the last cut
        self._version: str | None = None  # that was newest at the last cut
        self._time = time.monotonic()  # of the last cut
        self.thread = SnapshotThread(self)

    @property
    def _loop(self) -> SnapshotLoop:
        history = self._history()
        assert history is not None
        return history

    def begin_if_due(self, received: int | None = None) -> None:
        """Begin a snapshot if one is due, and commit one that is stored.

        Args:
            received: changes that the engine has taken in; by default those of the newest version.
        """
        if received is None:
            self.collect()
        history = self._loop
        received = history.ledger.received if received is None else received
        if self._cut is None and self._due(received):
            self._begin(received)

    @property
    def worth_taking(self) -> bool:
        """True if resuming the loop would replay many changes without another snapshot."""
        history = self._loop
        if self.policy.by_default:
            return history.log.size > max(_LOGGED, history.engine.size[1] // 4) // _LONG
        return history.ledger.received > self._received

    def take(self) -> None:
        """Take a snapshot with the edges, and return when it is committed.

        Raises:
            RunError: an executor was lost.
            StateError: it cannot be stored.
        """
        self.drop()
        received = self._loop.ledger.received
        self._loop.on_engine(lambda _: self._begin(received, waits=True, graph=True))
        if self._failure is not None:
            raise StateError(self._failure)

    def drop(self) -> None:
        """Let go of a snapshot that is being stored; the next one is whole."""
        self._cut, self._needs_base = None, True

    def collect(self, *, poll: bool = False) -> None:
        """Commit the snapshot if it is stored by all partitions.

        Args:
            poll: ask them; else only what they have said is known.
        """
        history, cut = self._loop, self._cut
        if cut is None:
            return
        engine = history.engine
        number, partitions = cut.request.number, engine.graph.partitions
        if poll and len(engine.snapshot_parts.get(number, ())) < partitions:
            engine.poll()
        parts = engine.snapshot_parts.get(number, [])
        if len(parts) < partitions:
            return
        del engine.snapshot_parts[number]
        failures = [part.failure for part in parts if part.failure]
        if failures:
            self.drop()
            stored = [ref.key for part in parts for ref in part.segments]
            with contextlib.suppress(StateError):
                history.store.backend.delete_unreferenced(stored)
            self._failure = failures[0]
            _log.warning("%s: a snapshot was dropped: %s", history.loop, failures[0])
            return
        self._commit(cut, parts)

    def _commit(self, cut: _Cut, parts: list[SnapshotPart]) -> None:
        history, graph = self._loop, cut.request.graph
        history.settle()
        ledger = history.ledger
        if (ledger.graph or 0) > cut.received:  # a branch that was merged has stored later edges
            self.drop()
            return
        names: list[SegmentRef] = []
        if all(part.state for part in parts):
            ledger = replace(ledger, snapshot=cut.received)
            if not history.engine.saves_with_graph:
                names = history.engine.put_state_names(whole=cut.request.whole)
                self._names = 0 if cut.request.whole else self._names + len(names)
        elif graph:
            ledger = replace(ledger, snapshot=None)
        segments = [*cut.segments, *(ref for part in parts for ref in part.segments), *names]
        log, same = history.log, self._version == history.manifest.name
        if graph:
            ledger = replace(ledger, graph=cut.received)
            segments += history.engine.put_names()
            segments += log.after(history.store, history.manifest, cut.received)
            log = replace(log, size=ledger.received - cut.received)
        self._cut = None
        history.commit_snapshot(segments, log, ledger)
        # Only now: other threads read them, and resume the loop from a snapshot that is counted.
        self._needs_base = False
        self.last = SnapshotNumbers(
            self.last.number + 1, cut.began, max(part.pause for part in parts),
            max(part.seconds for part in parts), sum(ref.bytes for ref in segments),
        )  # fmt: skip
        if same:
            self._version = history.manifest.name

    def _due(self, received: int) -> bool:
        """Return whether a snapshot is due, and would have anything new."""
        history, policy = self._loop, self.policy
        if policy.by_default:
            return self._logged(received) > max(_LOGGED, history.engine.size[1] // 4)
        if not history.engine.saves_state:
            return self._graph_due(received) and received > self._received
        if policy.changes is not None:
            return received - self._received >= policy.changes
        assert policy.seconds is not None
        changed = received > self._received or history.manifest.name != self._version
        return changed and time.monotonic() - self._time >= policy.seconds

    def _logged(self, received: int) -> int:
        history = self._loop
        return history.log.size + received - history.ledger.received

    def _graph_due(self, received: int) -> bool:
        logged = self._logged(received)
        return logged > 0 and logged >= self._loop.engine.size[1] // 4

    def _begin(self, received: int, *, waits: bool | None = None, graph: bool = False) -> None:
        history = self._loop
        engine = history.engine
        self._begun += 1
        request = SnapshotRequest(
            self._begun,
            uuid.uuid4().hex[:12],
            graph=graph or engine.saves_with_graph or self._graph_due(received),
            whole=self._needs_base or self._names >= MAX_DELTAS,
            waits=self.policy.waits if waits is None else waits,
        )
        segments, began = [], time.monotonic()
        if request.graph and history.ledger.window is not None:
            times = history.edge_times()
            segments.append(times.put(history.store, history.loop, history.manifest.iteration + 1))
        engine.snapshot(request)
        self._cut, self._failure = _Cut(request, received, segments, began), None
        self._received, self._time = received, began
        self._version = history.manifest.name
        if received != history.ledger.received:
            return  # changes are to be acknowledged first
        if request.waits:
            self.collect()
        else:
            self.thread.start()
            self.thread.wake()

    @property
    def pause(self) -> float | None:
        """Seconds until something may be to do; None while nothing is, before other calls."""
        return self.policy.pause(self._time, storing=self._cut is not None)

    def look(self) -> None:
        """Do what is to do, if the loop can be used; called by the thread."""
        history = self._history()
        if history is None:
            return
        with history.lock:
            if self.thread.closed or not history.usable:
                return
            try:
                self.collect(poll=True)
                self.begin_if_due()
            except (RunError, StateError):  # the next command says it
                history.stale = True

    def close(self) -> None:
        """End the thread; a snapshot that is not complete is dropped."""
        self.thread.close()
