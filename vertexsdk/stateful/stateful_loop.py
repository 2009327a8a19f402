"""`StatefulLoop`: a stateful class on partitions, with its state in a store.

Calls are taken together: whoever calls while a block runs is part of the next one. A block is
written to the log of the store while it runs, and is answered when it is there: what was answered
is not lost.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vertexsdk.compile.kernel_cache import Compiled
from vertexsdk.engine.keyed.calls import Calls, number_of_values
from vertexsdk.engine.keyed.keyed_engine import KeyedEngine
from vertexsdk.errors import CallError, InputError, LostError, RunError, StateError
from vertexsdk.loops.arguments import check_partitions
from vertexsdk.loops.loop_store import open_loop_store
from vertexsdk.loops.snapshot_policy import SnapshotEvery, SnapshotKind, SnapshotPolicy
from vertexsdk.loops.streams.intake import Stream
from vertexsdk.program.keyed import KeyedMethod
from vertexsdk.state import Manifest, Store
from vertexsdk.state.address import Address, address_or_default
from vertexsdk.state.version_history import ClosedError
from vertexsdk.stateful._analysis import compiled_program, program_of
from vertexsdk.stateful._call_service import CallAnswers
from vertexsdk.stateful._columns import BLOCK, blocks_of
from vertexsdk.stateful._explain import KeyedExplanation
from vertexsdk.stateful._history import CallHistory, counts_of
from vertexsdk.stateful._snapshots import CallSnapshots
from vertexsdk.stateful.call_stream import CallBatch, CallIntake, start_calls
from vertexsdk.stateful.elements import choose_element
from vertexsdk.stateful.stateful import Stateful, bind, without_self
from vertexsdk.transport.select import transport_for
from vertexsdk.transport.shipping import ship_by_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from vertexsdk.loops.request_service import RequestService

_log = logging.getLogger("vertexsdk")
_TRIES = 3  # of a block whose processors are lost


class MethodCalls:
    """The calls of one method of a `StatefulLoop`; `flow.count` is one.

    Args:
        loop: of which it is a method.
        name: of the method.

    Example:
        >>> from vertexsdk import Map, Partitioned, Stateful
        >>> class WordCount(Stateful):
        ...     counts = Partitioned(Map(str, int), key="word")
        ...     def add(self, line: str) -> None:
        ...         for word in line.split():
        ...             self.counts[word] += 1
        ...     def count(self, word: str) -> int:
        ...         return self.counts[word]
        >>> flow = StatefulLoop(WordCount, backend="memory://method-calls")
        >>> flow.add("to be or not to be")
        >>> flow.count.submit("be").result()
        2
        >>> flow.count.map(["to", "or", "that"])
        [2, 1, 0]
        >>> flow.close()
    """

    def __init__(self, loop: StatefulLoop, name: str) -> None:
        self._loop, self._number = loop, list(loop.program.methods).index(name)
        self._method = loop.program.methods[name]
        self._name = f"{loop.program.name}.{name}"
        function = inspect.unwrap(inspect.getattr_static(loop.program.cls, name))
        self._signature = without_self(function)
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method, and return its answer.

        Args:
            args, kwargs: as the method takes them.

        Raises:
            InputError: arguments that the method does not take.
            CallError: it raised; nothing was changed.
            RunError, StateError: a processor or the store failed: see `StatefulLoop`.
        """
        future = self._future(args, kwargs)
        self._loop._drain(future)
        return future.result()

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the method, and return a future of its answer at once; calls run in their order.

        Args:
            args, kwargs: as the method takes them.

        Raises:
            InputError: arguments that the method does not take.
        """
        future = self._future(args, kwargs)
        self._loop._wake()
        return future

    def map(self, *columns: Any, return_exceptions: bool = False) -> list[Any]:
        """Call the method many times, and return the answers in the order of the calls.

        Calls go in blocks of 65,536, fewer where arguments of type bytes are large. Each block is
        in the log before it is answered.

        Args:
            columns: for each parameter its values, an iterable, a NumPy array, an Arrow array or a
                column of pandas or Polars; or one table, an Arrow table or a data frame of pandas,
                Polars or Spark, with a column for each parameter; or one iterable of tuples. For a
                parameter of type bytes also a NumPy array of shape (n, k), whose rows are taken as
                their bytes.
            return_exceptions: a call that raised has its `CallError` as answer.

        Raises:
            InputError: columns that the method does not take; earlier blocks have run.
            CallError: a call raised, and changed nothing; all others have run.
            RunError, StateError: a processor or the store failed: see `StatefulLoop`.
        """
        answers: list[Any] = []
        failed: dict[int, CallError] = {}
        for values in blocks_of(self._name, self._method, columns):
            arguments = {(self._number, p): column for p, column in enumerate(values)}
            methods = np.full(number_of_values(values[0]), self._number, np.uint8)
            own, errors = self._loop._run(Calls(methods, arguments))
            failed |= {len(answers) + number: error for number, error in errors.items()}
            answers += own
        if return_exceptions:
            for number, error in failed.items():
                answers[number] = error
        elif failed:
            error = first = failed[min(failed)]
            if len(failed) > 1:
                error = CallError(
                    f"{error} (and {len(failed) - 1:,} more of {len(answers):,} calls)"
                )
                error.user_frames = first.user_frames
            raise error
        return answers

    def start(
        self,
        stream: DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        follow: bool | None = None,
        idle: float | None = None,
        checkpointLocation: str | None = None,
        trigger: Mapping[str, Any] | None = None,
    ) -> Stream:
        """Start to make the calls of a stream in the background, each once across restarts.

        A restarted stream goes on after the last call: how far it is, is committed with the calls.
        Answers are dropped. A call that raises changes nothing, and is counted and logged.

        Args:
            stream: files, directories and globs; or a streaming DataFrame with a column for each
                parameter. A method with one `str` takes the lines of text files. Else files are
                Parquet, or CSV whose first line has the names of the parameters; bytes are in
                Parquet files only.
            follow: for files: wait for files that grow, and for files moved into directories; by
                default the stream ends when all are read.
            idle: for files that are followed: end after so many seconds without a call.
            checkpointLocation: for a DataFrame: where Spark stores its offsets, for restarts.
            trigger: for a DataFrame: as for `DataStreamWriter.trigger`.

        Returns:
            The stream: `progress()`, `stop()`, `awaitTermination()`, `processAllAvailable()`.

        Raises:
            InputError: another kind of stream, options for the other kind, or a method that
                changes no state; nothing was started.

        Example:
            >>> stream = flow.add.start("logs/*.txt")  # doctest: +SKIP
            >>> stream.awaitTermination()  # doctest: +SKIP
            True
            >>> print(stream.progress())  # doctest: +SKIP
            1,200,000 calls · 410,000/s · 0 behind
        """
        options = {
            "follow": follow, "idle": idle, "checkpointLocation": checkpointLocation,
            "trigger": trigger,
        }  # fmt: skip
        return self._loop._start(self._name, self._number, self._method, stream, options)

    def _future(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Future[Any]:
        values = bind(self._signature, self._name, args, kwargs)
        for k, parameter in enumerate(self._method.parameters):
            try:
                values[k] = parameter.convert(values[k])
            except InputError as error:
                raise InputError(f"{self._name}(), parameter {parameter.name}: {error}") from None
        return self._loop._put(self._number, values)


class StatefulLoop:
    """A stateful class that runs on partitions, keeps its state and answers calls.

    The methods of the class are attributes: `flow.count("be")` calls one and returns its answer,
    `flow.count.submit("be")` returns a future, `flow.count.map(words)` takes many calls. Answers
    are those of an instance of the class on which the calls are made one after the other.

    Calls that change state are in the log of the store before they are answered. Where a call
    raises `StateError` or `RunError`, it may have been done or not; no other one is lost.

    Args:
        cls: a subclass of `Stateful`.
        backend: URL of the store; the default is that of `MainLoop`.
        loop: the name of the loop in the store; by default that of the class.
        partitions: among how many the rows are divided; by default one, or one per executor.
        spark: the session on whose executors the partitions are; None for this process.
        snapshot_every: write the changed rows to the store after so many calls that change state,
            or a time as "10s". `close` does, and a resumed loop repeats the calls since then.
        snapshots: "asynchronous", rows are copied while calls go on, and a thread writes them; or
            "synchronous", calls wait until they are written.
        compiled: task elements that access one row are compiled once there are many calls, which go
            on meanwhile; `explain` says which. False interprets them; "require" refuses a class in
            which one does not compile, and has the first calls wait for the compiler.
        replace: drop the calls of an earlier loop of that name.

    Attributes:
        program: what the class became.
        loop: the name of the loop in the store.
        partitions: how many there are; see `rescale`.

    Raises:
        InputError: arguments that do not fit each other, or the store has calls of this loop.
        ProgramError: the class cannot run as written; the message names the line.
        StateError: the store cannot be opened.

    Example:
        >>> from vertexsdk import Map, Partitioned, Stateful
        >>> class KeyValue(Stateful):
        ...     values = Partitioned(Map(int, float), key="key")
        ...     def put(self, key: int, value: float) -> None:
        ...         self.values[key] = value
        ...     def get(self, key: int) -> float:
        ...         return self.values.get(key, 0.0)
        >>> with StatefulLoop(KeyValue, backend="memory://stateful-loop") as flow:
        ...     flow.put(7, 0.5)
        ...     flow.get.map([7, 8])
        [0.5, 0.0]
        >>> with StatefulLoop.resume(KeyValue, backend="memory://stateful-loop") as flow:
        ...     flow.get(7)
        0.5
    """

    def __init__(
        self,
        cls: type[Stateful],
        *,
        backend: str | Address | None = None,
        loop: str | None = None,
        partitions: int | None = None,
        spark: SparkSession | None = None,
        snapshot_every: SnapshotEvery | None = None,
        snapshots: SnapshotKind = "asynchronous",
        compiled: Compiled = True,
        replace: bool = False,
    ) -> None:
        policy = SnapshotPolicy.of(snapshot_every, snapshots)
        self._open(cls, backend, loop, partitions, spark, policy, compiled, replace=replace)

    @classmethod
    def resume(
        cls,
        program: type[Stateful],
        *,
        backend: str | Address | None = None,
        loop: str | None = None,
        partitions: int | None = None,
        spark: SparkSession | None = None,
        snapshot_every: SnapshotEvery | None = None,
        snapshots: SnapshotKind = "asynchronous",
        compiled: Compiled = True,
    ) -> Self:
        """Continue a loop from its store: read the snapshot, and repeat the calls since then.

        Args:
            program: the class; its state elements are those that the loop was written with.
            backend, loop, spark, snapshot_every, snapshots, compiled: as for `StatefulLoop`.
            partitions: among how many the rows are divided from now on.

        Raises:
            StateInputError: the store has no such loop.
            InputError, ProgramError, StateError: as for `StatefulLoop`.
        """
        flow = cls.__new__(cls)
        policy = SnapshotPolicy.of(snapshot_every, snapshots)
        flow._open(program, backend, loop, partitions, spark, policy, compiled, resume=True)
        return flow

    def _open(
        self,
        cls: type[Stateful],
        backend: str | Address | None,
        loop: str | None,
        partitions: int | None,
        spark: SparkSession | None,
        policy: SnapshotPolicy,
        compiled: Compiled,
        *,
        replace: bool = False,
        resume: bool = False,
    ) -> None:
        self.program = compiled_program(program_of(cls), compiled)
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
                    f"loop {self.loop!r} in {place} is not of a stateful class: give another loop="
                )
            if counts is not None and counts["calls"] and not (resume or replace):
                raise InputError(
                    f"loop {self.loop!r} in {place} has {counts['calls']:,} acknowledged calls: "
                    "continue with StatefulLoop.resume(...), give another loop=, or drop them with "
                    "replace=True"
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

    def __getattr__(self, name: str) -> MethodCalls:
        program = self.__dict__.get("program")
        if program is None or name not in program.methods:
            known = "" if program is None else f"; its methods are {', '.join(program.methods)}"
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{known}")
        method = MethodCalls(self, name)
        self.__dict__[name] = method
        return method

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self.program.methods]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._history.closed_by is None else ", closed"
        return f"<StatefulLoop {self.loop!r}, {self.partitions} partitions{state}>"

    def lookup(self, keys: Any, element: str | None = None) -> dict[Any, dict[str, Any]]:
        """Return the rows of some keys as they are now; keys without one are left out.

        Args:
            keys: a key, or several of them (a list, an array, ...).
            element: the name of the state element, where the class has several.

        Returns:
            For each key its fields by name; a map with one value has the field `value`.

        Raises:
            InputError: keys of another type, or no such state element.
            RunError: a processor was lost.
        """
        tables = self.program.tables
        spec = tables[choose_element(self.program.name, tables, element)]
        one = isinstance(keys, str | bytes) or not isinstance(keys, Iterable)
        wanted = list(map(spec.convert_key, [keys] if one else keys))
        with self._lock:
            self._drain()
            self._recover()
            assert self._engine is not None
            rows = self._engine.lookup(spec.name, wanted)
        return {k: row for k, row in zip(wanted, rows, strict=True) if row is not None}

    def explain(self) -> KeyedExplanation:
        """Return how the methods run: their task elements by level, and the order of calls."""
        return KeyedExplanation(self.program)

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
        """Divide the rows among another number of partitions, and go on; calls wait for it.

        A snapshot is taken, and the new partitions read it, each its own key groups. Of
        `PerPartition` state new partitions have none, and what partitions had that go is combined
        with that of others by the `combine` of the state element.

        Args:
            partitions: how many there are then.

        Raises:
            InputError: another number than 1 to 4,096, or more than there are slots in the cluster.
            RunError, StateError: a processor or the store failed; the loop has as many partitions
                as before.

        Example:
            >>> from vertexsdk import Map, Partitioned, Stateful
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
            before, self.partitions = self.partitions, partitions
            try:
                self._restore()
            except BaseException:
                self.partitions = before
                raise

    def fork(self, name: str | None = None) -> StatefulLoop:
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
            >>> from vertexsdk import Map, Partitioned, Stateful
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
            flow = object.__new__(StatefulLoop)
            flow.program, flow.loop, flow.partitions = self.program, chosen, self.partitions
            flow._transport = self._transport
            flow._begin(store, manifest, self._policy, engine)
            flow._temporary = name is None
            undo.pop_all()
            return flow

    def serve(self, host: str = "127.0.0.1") -> None:
        """Answer the calls of other processes, until the loop is closed.

        They use a `StatefulClient`, or `vertexsdk call`. Whoever can read the store can call; the
        connections are encrypted.

        Args:
            host: the name or address of this host on which to listen; others than 127.0.0.1 let
                other hosts call.

        Raises:
            InputError: this process cannot listen there, or it does so already.
            StateError: the store cannot be written.

        Example:
            >>> flow.serve()  # doctest: +SKIP
            >>> with StatefulClient("WordCount") as client:  # doctest: +SKIP
            ...     client.count("be")
            2
        """
        from vertexsdk.loops.request_service import RequestService

        with self._lock:
            self._require_open()
            if self._service is not None:
                raise InputError(f"loop {self.loop!r} answers the calls of other processes already")
            answers = CallAnswers(self.program, self._submit)
            self._service = RequestService(self._store, self.loop, "calls", answers, host)

    def _submit(self, name: str, arguments: Sequence[Any]) -> Future[Any]:
        future: Future[Any] = getattr(self, name).submit(*arguments)
        return future

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
        self, name: str, number: int, method: KeyedMethod, stream: Any, options: Mapping[str, Any]
    ) -> Stream:
        """Start a stream of calls, which this loop stops when it is closed."""
        intake = CallIntake(self._take, self._offsets)
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
            offsets: of the source that has them, committed with them.

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
        """Do so while nobody calls: from the thread of snapshots."""
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
