"""`KeyedLoop`: a keyed program on partitions, with its state in a store.

It is the base of the loops of stateful classes and of triggers.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from vertexsdk.engine.keyed.calls import Calls
from vertexsdk.engine.keyed.keyed_engine import KeyedEngine
from vertexsdk.engine.snapshots import SnapshotPart
from vertexsdk.errors import CallError, InputError, LostError, RunError, StateError
from vertexsdk.loops.arguments import check_partitions
from vertexsdk.loops.loop_store import open_loop_store
from vertexsdk.loops.snapshot_policy import SnapshotNumbers, SnapshotPolicy
from vertexsdk.loops.snapshot_thread import POLL_SECONDS, SnapshotThread
from vertexsdk.loops.streams.intake import Stream
from vertexsdk.program.keyed import KeyedProgram, TableSpec
from vertexsdk.state import Manifest, Store
from vertexsdk.state.address import Address, address_or_default
from vertexsdk.state.version_history import ClosedError
from vertexsdk.stateful._history import CallHistory, counts_of
from vertexsdk.stateful.call_columns import BLOCK
from vertexsdk.stateful.call_stream import CallBatch, CallIntake, FedMethod, start_calls
from vertexsdk.transport.select import transport_for
from vertexsdk.transport.shipping import ship_by_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vertexsdk.loops.request_service import RequestService


_log = logging.getLogger("vertexsdk")
_TRIES = 3  # of a block whose processors are lost


class KeyedLoop:
    """A keyed program on partitions: its state in a store, its log, snapshots and streams.

    Calls are taken together: those that come while a block runs are part of the next one. A block
    is written to the log of the store while it runs, and is answered when it is there: what was
    answered is not lost.

    Attributes:
        program: the program that runs.
        loop: the name of the loop in the store.
        partitions: the number of partitions, which `rescale` changes.
    """

    program: KeyedProgram
    loop: str
    partitions: int
    _kind: ClassVar[str]  # of program, for messages

    def _open(
        self,
        program: KeyedProgram,
        backend: str | Address | None,
        loop: str | None,
        partitions: int | None,
        spark: SparkSession | None,
        policy: SnapshotPolicy,
        *,
        replace: bool = False,
        resume: bool = False,
    ) -> None:
        self.program = program
        self.loop = self.program.name if loop is None else loop
        self._transport = transport_for(spark)
        self.partitions = (
            self._transport.default_partitions()
            if partitions is None
            else check_partitions(partitions)
        )
        if spark is not None:
            ship_by_value(self.program.classes)
        with ExitStack() as undo:
            store = open_loop_store(
                undo, address_or_default(backend), self._transport, create=not resume
            )
            newest = self._claim(store, replace=replace, resume=resume)
            self._begin(store, newest, policy, None)
            undo.pop_all()

    def _begin(
        self,
        store: Store,
        newest: Manifest | None,
        policy: SnapshotPolicy,
        engine: KeyedEngine | None,
    ) -> None:
        """Continue from a version of the store, None for a new loop.

        Args:
            engine: which has its state; None to make one.
        """
        self._store, self._policy = store, policy
        self._lock = threading.RLock()
        self._waiting: deque[tuple[int, Sequence[Any], Future[Any]]] = deque()
        self._thread: threading.Thread | None = None
        self._work = threading.Semaphore(0)
        self._streams: list[Stream] = []
        self._service: RequestService | None = None
        self._temporary = False  # deleted from the store when it is closed
        self._history = CallHistory(store, self.loop, self.program, newest)
        self._engine, self._applied = engine, self._history.record.calls
        self._snapshots = CallSnapshots(self, policy)
        if engine is None:
            self._restore()

    def _claim(self, store: Store, *, replace: bool, resume: bool) -> Manifest | None:
        """Take over the loop; return the version to continue from, None to begin a new one."""

        def check(newest: Manifest | None) -> None:
            counts = None if newest is None else counts_of(newest)
            place = store.backend.location
            if newest is not None and counts is None:
                raise InputError(
                    f"loop {self.loop!r} in {place} is not of {self._kind}: give another loop="
                )
            if counts is not None and counts["calls"] and not (resume or replace):
                raise InputError(
                    f"loop {self.loop!r} in {place} has {counts['calls']:,} acknowledged calls: "
                    f"continue with {type(self).__name__}.resume(...), give another loop=, or drop "
                    "them with replace=True"
                )

        newest = store.head(self.loop)
        if newest is None and resume:
            raise store.unknown_loop(self.loop)
        check(newest)
        newest = store.claim(
            self.loop,
            program=self.program.name,
            schema=None if replace else self.program.schema(),
            check=check,
        )
        return newest if resume else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._history.closed_by is None else ", closed"
        return f"<{type(self).__name__} {self.loop!r}, {self.partitions} partitions{state}>"

    def _lookup(self, spec: TableSpec, keys: Any) -> dict[Any, dict[str, Any]]:
        """Return the rows of some keys of a table as they are now; those without one are left out.

        Args:
            spec: the table's specification.
            keys: a key, or several of them.
        """
        wanted = list(map(spec.convert_key, [keys] if is_one_value(keys) else keys))
        with self._lock:
            self._drain()
            self._recover()
            assert self._engine is not None
            rows = self._engine.lookup(spec.name, wanted)
        return {k: row for k, row in zip(wanted, rows, strict=True) if row is not None}

    def progress(self) -> dict[str, Any]:
        """Return the loop's version, how many calls have changed state, of them since the snapshot,
        the number of partitions, and what snapshots came to, as `MainLoop.progress` has it.
        """
        manifest, record = self._history.newest
        return {
            "loop": self.loop, "version": manifest.iteration, "calls": record.calls,
            "calls_since_snapshot": record.calls - record.snapshot, "partitions": self.partitions,
            **self._snapshots.last.progress(),
            **({} if self._history.closed_by is None else {"state": "closed"}),
        }  # fmt: skip

    def snapshot(self) -> None:
        """Write the rows that have changed to the store; calls wait for it.

        Raises:
            RunError, StateError: it could not be written; the log still has the calls.
        """
        with self._lock:
            self._recover()
            self._take_snapshot()

    def rescale(self, partitions: int) -> None:
        """Divide the rows among another number of partitions, and continue; calls wait for it.

        A snapshot is taken, and the new partitions read it, each its own key groups. Of
        `PerPartition` state new partitions have none, and what partitions had that go is combined
        with that of others by the `combine` of the state element.

        Args:
            partitions: the new number of partitions.

        Raises:
            InputError: another number than 1 to 4,096, or more than there are slots in the cluster.
            RunError, StateError: a processor or the store failed; the loop has as many partitions
                as before.

        Example:
            >>> from vertexsdk import Map, Partitioned, Stateful, StatefulLoop
            >>> class KeyValue(Stateful):
            ...     values = Partitioned(Map(int, float), key="key")
            ...     def put(self, key: int, value: float) -> None:
            ...         self.values[key] = value
            ...     def get(self, key: int) -> float:
            ...         return self.values.get(key, 0.0)
            >>> with StatefulLoop(KeyValue, backend="memory://rescale", partitions=1) as flow:
            ...     flow.put(7, 0.5)
            ...     flow.rescale(2)
            ...     flow.get(7)
            0.5
        """
        check_partitions(partitions)
        with self._lock:
            self._drain()
            self._recover()
            if partitions == self.partitions:
                return
            self._take_snapshot()
            self._lose_engine()  # its slots may be needed
            previous, self.partitions = self.partitions, partitions
            try:
                self._restore()
            except BaseException:
                self.partitions = previous
                raise

    def fork(self, name: str | None = None) -> Self:
        """Return a loop with the same state, whose calls change nothing here: a what-if.

        The state is copied in the memory of the processors. Calls of the fork are in the store, as
        those of any loop.

        Args:
            name: under which the store keeps the fork, to be resumed; by default it is
                `LOOP-fork-1`, `-2`, ..., and deleted when it is closed.

        Raises:
            StateInputError: there is a loop of that name.
            RunError, StateError: a processor or the store failed.

        Example:
            >>> from vertexsdk import Map, Partitioned, Stateful, StatefulLoop
            >>> class Balance(Stateful):
            ...     cents = Partitioned(Map(int, int), key="account")
            ...     def add(self, account: int, amount: int) -> int:
            ...         self.cents[account] += amount
            ...         return self.cents[account]
            >>> with StatefulLoop(Balance, backend="memory://what-if") as flow:
            ...     flow.add(7, 250)
            ...     with flow.fork() as what_if:
            ...         what_if.add(7, 1000)
            ...     flow.add(7, 1)
            250
            1250
            251
        """
        with self._lock, ExitStack() as undo:
            self._drain()
            self._recover()
            assert self._engine is not None
            store = open_loop_store(undo, self._store.backend.address, self._transport)
            self._history.settle()
            number, chosen = 0, name
            while chosen is None or (name is None and store.head(chosen) is not None):
                number += 1
                chosen = f"{self.loop}-fork-{number}"
            manifest = store.fork(self.loop, chosen)
            undo.callback(store.delete, chosen)
            engine = self._engine.fork(chosen)
            undo.callback(engine.close)
            flow = object.__new__(type(self))
            flow.program, flow.loop, flow.partitions = self.program, chosen, self.partitions
            flow._transport = self._transport
            flow._begin(store, manifest, self._policy, engine)
            flow._temporary = name is None
            undo.pop_all()
            return flow

    def close(self) -> None:
        """Stop streams, answer no more, take a snapshot if there are calls since the last, and end.

        A fork without a name of its own is deleted from the store. May be called twice.
        """
        for stream in self._streams:
            stream.stop()
        service, self._service = self._service, None
        if service is not None:
            service.close()
        with self._lock:
            if isinstance(self._history.closed_by, ClosedError):
                return
            usable = self._history.closed_by is None
            try:
                if usable:
                    self._drain()
                    self._recover()
                    record = self._history.record
                    if record.calls > record.snapshot and not self._temporary:
                        self._take_snapshot()
            except (RunError, StateError) as error:
                _log.warning("%s: no snapshot at the end: %s", self.loop, error)
            finally:
                self._end(ClosedError(f"loop {self.loop!r} was closed; resume it"))

    def _end(self, reason: Exception) -> None:
        self._history.closed_by = reason
        self._snapshots.close()
        self._work.release()
        while self._waiting:
            with suppress(InvalidStateError):  # cancelled by its caller
                self._waiting.popleft()[2].set_exception(reason)
        self._lose_engine()
        self._history.end_writes()
        if self._temporary:
            with suppress(StateError):
                self._store.delete(self.loop)
        self._store.close()

    def _put(self, method: int, values: Sequence[Any]) -> Future[Any]:
        """Have a call wait for the next block."""
        self._require_open()
        future: Future[Any] = Future()
        self._waiting.append((method, values, future))
        if self._history.closed_by is not None:  # meanwhile, perhaps after all that waited was told
            with suppress(InvalidStateError):
                future.set_exception(self._history.closed_by)
        return future

    def _wake(self) -> None:
        """Have the thread run what waits."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._serve, name="vertexsdk-calls", daemon=True
                    )
                    self._thread.start()
        self._work.release()

    def _serve(self) -> None:
        while self._history.closed_by is None:
            self._work.acquire()
            with suppress(Exception):  # futures have it
                self._drain()

    def _drain(self, until: Future[Any] | None = None) -> None:
        """Run all calls that wait, or until one has been answered."""
        with self._lock:
            while self._waiting and not (until is not None and until.done()):
                count = min(len(self._waiting), BLOCK)
                batch = [self._waiting.popleft() for _ in range(count)]
                batch = [one for one in batch if one[2].set_running_or_notify_cancel()]
                try:
                    calls = Calls.of(self.program, [(m, values) for m, values, _ in batch])
                    answers, errors = self._execute(calls) if batch else ([], {})
                except BaseException as error:
                    for _, _, future in batch:
                        future.set_exception(error)
                    if not isinstance(error, Exception):
                        raise
                    continue
                for number, ((_, _, future), answer) in enumerate(zip(batch, answers, strict=True)):
                    if number in errors:
                        future.set_exception(errors[number])
                    else:
                        future.set_result(answer)

    def _run(self, calls: Calls) -> tuple[list[Any], dict[int, CallError]]:
        """Run a block after the calls that wait."""
        with self._lock:
            self._require_open()
            self._drain()
            return self._execute(calls)

    def _start(
        self, name: str, number: int, method: FedMethod, stream: Any, options: Mapping[str, Any],
        take: Callable[[CallBatch], Mapping[int, CallError]] | None = None,
    ) -> Stream:  # fmt: skip
        """Start a stream of calls, which this loop stops when it is closed.

        Args:
            take: makes the calls of a batch; by default `_take`.
        """
        intake = CallIntake(take or self._take, self._offsets)
        started = start_calls(intake, name, number, method, stream, options)
        self._streams = [*(one for one in self._streams if one.isActive), started]
        return started

    def _offsets(self) -> Mapping[str, Any]:
        """Return the offset of each source that was committed last."""
        with self._lock:
            self._recover()
            return self._history.manifest.offsets

    def _take(self, batch: CallBatch) -> Mapping[int, CallError]:
        """Run the calls of a batch that are not in the log yet; return the errors by number.

        Raises:
            InputError: another stream has made some of them.
            RunError, StateError: they may have been done or not.
        """
        with self._lock:
            self._require_open()
            self._drain()
            self._recover()
            if self._history.repeats(batch.source, batch.offset):
                return {}
            committed = self._history.manifest.offsets.get(batch.source, 0)
            if batch.begin not in (None, committed):
                raise InputError(
                    f"{batch.source}: another stream has taken it in up to {committed:,}: stop "
                    "that, and start this one again"
                )
            return self._execute(batch.calls, {batch.source: batch.offset})[1]

    def _require_open(self) -> None:
        if self._history.closed_by is not None:
            raise self._history.closed_by

    def _execute(
        self, calls: Calls, offsets: Mapping[str, Any] | None = None
    ) -> tuple[list[Any], dict[int, CallError]]:
        """Make a block durable, run it, and return its answers, and the errors of calls by number.

        Args:
            offsets: the offsets of the source that has them, committed with them.

        Raises:
            RunError, StateError: calls may have been done or not.
        """
        self._recover()
        writers = calls.writers(self.program)
        if len(writers) or offsets:
            self._history.append(writers, offsets)
        for attempt in range(_TRIES):
            engine, self._engine = self._engine, None  # until it has answered
            try:
                if engine is None:
                    engine = self._restored(self._history.record.calls - len(writers))
                answers, failures = engine.run(calls)
                self._history.settle()  # the log is written meanwhile
            except BaseException as error:
                if engine is not None:
                    engine.close()
                if not isinstance(error, LostError) or attempt == _TRIES - 1:
                    raise
                _log.warning("%s: %s; starting again from the store", self.loop, error)
                continue
            self._engine, self._applied = engine, self._history.record.calls
            break
        self._take_due_snapshot()
        return answers, {number: failure.error() for number, failure in failures.items()}

    def _take_snapshot(self) -> None:
        """Take a snapshot, and return when it is in the store."""
        self._on_engine(self._snapshots.take)

    def _take_due_snapshot(self) -> None:
        """Begin a snapshot that is due, and commit one that is written."""
        try:
            self._on_engine(self._snapshots.begin_if_due)
        except (RunError, StateError) as error:
            _log.warning("%s: no snapshot: %s; the log has the calls", self.loop, error)

    def _on_engine(self, work: Callable[[], None]) -> None:
        """Have snapshots use the engine, which is given up where it may not have answered."""
        try:
            work()
        except BaseException as error:
            if isinstance(error, LostError) or not isinstance(error, Exception):
                self._lose_engine()
            raise

    def _look_at_snapshots(self) -> None:
        """Take a snapshot that is due between calls; called by the thread of snapshots."""
        with self._lock:
            history = self._history
            usable = history.closed_by is None and not history.stale and self._engine is not None
            if usable and self._applied == history.record.calls:
                self._take_due_snapshot()

    def _lose_engine(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _recover(self) -> None:
        """Have the state of the newest version, after whatever failed.

        Raises:
            RunError, StateError: not yet; nothing was done.
        """
        self._require_open()
        if self._history.stale:
            self._history.refresh()
            self._history.stale = False
        if self._engine is None or self._applied != self._history.record.calls:
            self._restore()

    def _restore(self) -> None:
        self._lose_engine()
        self._engine = self._restored(None)
        self._applied = self._history.record.calls

    def _restored(self, until: int | None) -> KeyedEngine:
        """Return an engine with the state after so many calls; None for all."""
        self._snapshots.drop()
        self._history.refresh()  # another process may have compacted it
        engine = KeyedEngine(
            self.program, self._transport, self.partitions, self._store.backend.address, self.loop,
            self._history.state(), self._history.manifest.partitions,
        )  # fmt: skip
        try:
            for calls in self._history.log(until):
                engine.run(calls)
        except BaseException:
            engine.close()
            raise
        return engine


def is_one_value(given: Any) -> bool:
    """Return whether a key or a value is given, and not several of them.

    >>> is_one_value("ab"), is_one_value(["a", "b"])
    (True, False)
    """
    if isinstance(given, np.ndarray):
        return given.ndim == 0
    return isinstance(given, str | bytes) or not isinstance(given, Iterable)


def first_of(errors: Sequence[CallError], all_of_them: str) -> CallError:
    """Return the first of some errors, which tells how many more there are.

    Args:
        errors: in their order, at least one.
        all_of_them: among how many, as "5 calls".

    >>> print(first_of([CallError("a"), CallError("b")], "5 calls"))
    a (and 1 more of 5 calls)
    """
    first = errors[0]
    if len(errors) == 1:
        return first
    error = CallError(f"{first} (and {len(errors) - 1:,} more of {all_of_them})")
    error.user_frames = first.user_frames
    return error


_LONGEST_LOG = 1 << 22  # calls, where nothing says when there is a snapshot


class SnapshotLoop(Protocol):
    """The part of a `StatefulLoop` that snapshots use."""

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
        self._all_rows = True  # there is nothing to lay changes over
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
        self._cut, self._all_rows = None, True

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
        all_rows, self._all_rows = self._all_rows, False
        self._begun = self._polled = time.monotonic()
        self._calls, self._cut = calls, _Cut(calls, iteration, self._begun)
        try:
            self._commit(self._engine.snapshot(iteration + 1, whole=all_rows, waits=waits))
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
