"""The versions of a loop, and the engine that computes the next one.

The result of each command of an engine is committed as one version. Changes are durable before they
are acknowledged: a small batch is stored in the step that commits its version, a large one while
the engine takes it in. An answer can be computed again, so it is written behind: a thread stores
it, in the meantime it is read from memory, and the next version waits for it.

If the engine or a commit fails, the engine is restored from the newest version before its next
command, so that the executors never have state that the store lacks.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from vertexsdk.arrays.json_values import as_json
from vertexsdk.engine.answer_checks import check_answer
from vertexsdk.engine.batch_run import TRIES
from vertexsdk.engine.commands import (
    Budget,
    Command,
    CommandResult,
    WorkDone,
)
from vertexsdk.engine.loop_engine import MUCH_MEMORY
from vertexsdk.engine.phases import PhaseTimer
from vertexsdk.engine.snapshots import SnapshotPart, SnapshotRequest
from vertexsdk.errors import InputError, LostError, RunError, StateError, first_line
from vertexsdk.graph.changes.cast import cast_changes
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.changes.deltas import edges_only
from vertexsdk.loops.arguments import check_partitions
from vertexsdk.loops.change_log import ChangeLog
from vertexsdk.loops.edge_times import EdgeTimes
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.result import Result
from vertexsdk.loops.snapshot_policy import SnapshotNumbers, SnapshotPolicy
from vertexsdk.loops.snapshot_thread import SnapshotThread
from vertexsdk.loops.streams.counters import LoopCounters
from vertexsdk.loops.turns import Turns
from vertexsdk.program.program import Program
from vertexsdk.state import (
    EncodedSegment,
    Manifest,
    SegmentRef,
    Store,
    open_store,
)
from vertexsdk.state.address import Address
from vertexsdk.state.version_history import ClosedError, VersionHistory
from vertexsdk.state.version_writer import MAX_DELTAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from vertexsdk.engine.loop_engine import LoopEngine


_log = logging.getLogger("vertexsdk")

_SHARED = 1 << 12  # changes from which a batch is stored first, and tasks read it from the store
_NONE = {
    "iterations": 0, "hops": 0, "updates": 0, "prepares": 0, "acknowledges": 0, "messages": 0,
    "bytes": 0, "seconds": 0.0, "total_seconds": 0.0,
}  # fmt: skip


class Restore(Protocol):
    """Makes an engine with the graph and snapshot of a version."""

    def __call__(
        self, store: Store, manifest: Manifest, partitions: int | None = None
    ) -> LoopEngine:
        """Return it; `partitions` is by default what the version says."""


@dataclass(frozen=True)
class HistoryConfig:
    """The configuration that a loop and all its forks share.

    Attributes:
        program: whose state it is.
        spark: the session that results use, if any.
        backend: URL of the store, as the user passed it.
        address: URL of the store, as it opened.
        restore: makes an engine with the graph and snapshot of a version.
        snapshots: when they are taken.
        retain: newest versions that are kept.
        trusted: read fields that are Python objects.
        turns: the turns of the loop and its forks.
        known: what was said of their answers (`check_answer`).
    """

    program: Program
    spark: SparkSession | None
    backend: Address
    address: Address
    restore: Restore
    snapshots: SnapshotPolicy
    retain: int
    trusted: bool
    turns: Turns
    known: set[str] = field(default_factory=set)


_T = TypeVar("_T")
_LogWrite: TypeAlias = Future[tuple[SegmentRef, ChangeLog]]


@dataclass(frozen=True)
class _LazyFork:
    """The engine of a fork of a loop at its fixed point, created when it is first needed.

    The answer is in the store already, so a fork that is only read needs no engine.

    Attributes:
        integers, value: as in `LoopEngine`.
        create: creates the engine, with the graph and state of the fork.
        outcome: the result of a command without changes.
    """

    integers: bool
    value: str | None
    create: Callable[[], LoopEngine]
    outcome: CommandResult

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of vertices and edges."""
        return self.outcome.num_vertices, self.outcome.num_edges


class LoopRecord(NamedTuple):
    """The record of a version: its counters, and its log."""

    ledger: Ledger
    log: ChangeLog


class LoopHistory(VersionHistory[LoopRecord]):
    """The versions of one loop, and the engine that computes the next one.

    Attributes:
        lock: held while the engine works, and while a version is committed.
        integers, value: as in `LoopEngine`.
        spent: seconds by phase, without those of the engine.
        counters: what this loop does and has done in this process.
        on_changes: called with the changes of each version, after it is committed.
        catch_up: commits what another loop has committed, if this one follows it.
    """

    def __init__(
        self,
        config: HistoryConfig,
        store: Store,
        loop: str,
        engine: LoopEngine | _LazyFork,
        current: tuple[Manifest, Ledger],
        log: ChangeLog,
    ) -> None:
        super().__init__(store, loop, (current[0], LoopRecord(current[1], log)), config.retain)
        self.config = config
        self._engine = engine
        self.integers, self.value = engine.integers, engine.value
        self.lock = threading.RLock()
        self.statistics = {k: v for k, v in current[0].statistics.items() if k != "main"}
        self.aggregates = current[0].aggregates
        self.spent = PhaseTimer()
        self.counters = LoopCounters()
        self._iteration = 0  # of the engine
        self._behind_since = time.monotonic() if current[1].behind else None
        self.on_changes: list[Callable[[Changes], None]] = []
        self.catch_up: Callable[[], None] | None = None
        self._branch = False
        self._forked_after = 0  # snapshots of the loop that this was forked from
        # With the number of received changes after which they hold.
        self._edge_times: tuple[int, EdgeTimes] | None = None
        self.snapshots = Snapshots(self, config.snapshots)

    @property
    def engine(self) -> LoopEngine:
        """The engine; a lazy one is created."""
        if isinstance(self._engine, _LazyFork):
            self._engine = self._engine.create()
        return self._engine

    @property
    def ledger(self) -> Ledger:
        """The counters of the newest version."""
        return self.newest[1].ledger

    @property
    def log(self) -> ChangeLog:
        """The log of the newest version."""
        return self.newest[1].log

    def turn(self, lock: threading.RLock | None = None) -> AbstractContextManager[None]:
        """Work for a branch within, when it is its turn."""
        return self.config.turns.branch(self._worker_seconds, lock)

    def _worker_seconds(self) -> float:
        return 0.0 if isinstance(self._engine, _LazyFork) else self._engine.worker_seconds

    def cast(
        self, changes: Changes | DataFrame | Iterable[Sequence[Any]], time: str | None = None
    ) -> Changes:
        """Return changes with the ids, values and edge direction of this loop's graph.

        Args:
            time: the column of a DataFrame with the times.
        """
        undirected = self.ledger.undirected
        return cast_changes(
            changes, integers=self.integers, value=self.value, undirected=undirected, time=time
        )

    def result(
        self,
        loop: str,
        statistics: Mapping[str, Any],
        current: tuple[Manifest, LoopRecord] | None = None,
    ) -> Result:
        """Open a version of loop `loop`, this one or a fork of it, for reading."""
        unwritten = self._unwritten  # another thread may replace it
        manifest, (ledger, _) = current or self.newest
        config = self.config
        store, parent = open_store(config.backend, create=False), None
        if unwritten is not None and unwritten.manifest is manifest:
            parent = unwritten.previous[0]
            store.expect(manifest, unwritten.refs, unwritten.segments)
        statistics = {
            **statistics, "changes": ledger.ingested, "version": manifest.iteration,
            "behind": ledger.behind, "residual": ledger.residual,
        }  # fmt: skip
        return Result(
            config.backend, loop, manifest, statistics, config.spark, config.trusted,
            config.program.schema(), store=store, lease=False, parent=parent,
        )  # fmt: skip

    def progress(self) -> dict[str, Any]:
        """Return what `MainLoop.progress` does, without its branches; does not wait."""
        manifest, (ledger, _) = self.newest
        vertices, edges = self._engine.size
        return {
            "loop": self.loop, "version": manifest.iteration, "changes": ledger.ingested,
            "changes_per_second": self.counters.rate.per_second(), "behind": ledger.behind,
            "behind_seconds": self._behind_seconds(),
            "vertices": int(vertices), "edges": int(edges), **self.counters.numbers(),
            "commits": self._commits, "commit_seconds": self.spent.seconds["commit"],
            **self.snapshots.last.progress(),
            **({} if self.closed_by is None else {"state": "closed"}),
        }  # fmt: skip

    def _behind_seconds(self) -> float:
        since = self._behind_since  # another thread may set it
        return 0.0 if since is None else time.monotonic() - since

    def execute(
        self,
        changes: Changes | None = None,
        *,
        strict: bool = False,
        budget: Budget | None = None,
        offsets: Mapping[str, Any] | None = None,
        window: dict[str, Any] | None = None,
        **counters: int,
    ) -> CommandResult:
        """Have the engine apply changes and iterate, and commit the outcome as a version.

        Args:
            changes: as `cast` returns them.
            strict: apply none of them if one removes or changes an absent edge.
            budget: the limits of the iterations after the changes; None for no iterations.
            offsets: the offset of each source, committed with the version.
            window: the ledger's, from this version on; None leaves it as it is.
            counters: amounts to add to counters of the ledger, by name.

        Raises:
            InputError: the changes do not fit the graph; no version was committed.
            RunError, StateError: no version was committed.
        """
        with self.lock:
            self.recover()
            changes = None if changes is None else edges_only(self.config.program, changes)
            batch = changes if changes is not None and len(changes) else None
            if batch is not None or window is not None:
                self._refuse_to_follow()
            if batch is not None:
                await_memory(self.loop, self.engine)
            (ref, log), log_write = (None, self.log), None
            unwritten: list[EncodedSegment] = []
            if batch is not None and len(batch) >= _SHARED:
                log_write = self._write_log(batch)
            elif batch is not None:
                ref, log = log.write(
                    self.store, self.loop, self.manifest.iteration + 1, batch, unwritten.append
                )
            if budget is not None:
                budget = self._with_snapshots(self.counters.counting(budget), batch)
            try:
                out = self._outcome(batch, log_write, strict, budget)
            except BaseException:
                # An engine is unchanged after it has refused changes, but not after iterations.
                self.stale = self.stale or budget is not None
                self._discard(log_write)
                raise
            if strict and out.absent:
                self._discard(log_write)
                return out
            if log_write is not None:
                ref, log = self._wait_for_log(log_write)
            if batch is None:
                log = self.log  # a snapshot may have been committed meanwhile
            ledger = self.ledger.after(out, len(batch or ()), iterated=budget is not None)
            more = {name: getattr(ledger, name) + n for name, n in counters.items()}
            ledger = replace(ledger, window=window or ledger.window, **more)
            if budget is None:
                self.counters.add_sent(out.work.bytes)
            if budget is not None and out.work.quiet:
                program = self.config.program
                check_answer(
                    program, program.bind(self.ledger.params), out.work, out.not_finite,
                    out.num_edges, out.num_vertices, from_init=out.start == "init",
                    known=self.config.known,
                )  # fmt: skip
            if out.segments or budget is not None:
                self._update_statistics(out)
            if ref is not None or out.segments or offsets or ledger != self.ledger:
                segments = [*([ref] if ref is not None else []), *out.segments]
                answer = batch is None and not offsets and counters.keys() <= {"queries"}
                self._commit(
                    segments, log, ledger, out.iteration, offsets,
                    unwritten=[*unwritten, *out.unwritten], behind=answer, has_bases=out.whole,
                )  # fmt: skip
            if batch is not None:
                for hear in self.on_changes:
                    hear(batch)
            if not isinstance(self._engine, _LazyFork):
                try:
                    self.snapshots.begin_if_due()
                except (RunError, StateError) as error:  # the log has the changes
                    self.stale = True
                    _log.warning("%s: no snapshot was taken: %s", self.loop, first_line(error))
            return out

    def _with_snapshots(self, budget: Budget, batch: Changes | None) -> Budget:
        """Return a budget between whose slices snapshots are taken.

        One that has changes which are not acknowledged yet is committed after these are.
        """
        windowed = self.ledger.window is not None  # whose times are of the newest version
        if self.config.snapshots.by_default or windowed or isinstance(self._engine, _LazyFork):
            return budget
        report = budget.report
        received = None if batch is None else self.ledger.received + len(batch)

        def also(work: WorkDone) -> None:
            if report is not None:
                report(work)
            self.snapshots.begin_if_due(received)

        return replace(budget, report=also)

    def _refuse_to_follow(self) -> None:
        if self.catch_up is not None:
            raise InputError(
                f"loop {self.loop!r} follows another one: ingest into the MainLoops that it is of, "
                "or apply changes to a fork"
            )

    def _outcome(
        self,
        batch: Changes | None,
        log_write: _LogWrite | None,
        strict: bool,
        budget: Budget | None,
    ) -> CommandResult:
        """Return the outcome of a command."""
        if isinstance(self._engine, _LazyFork) and batch is None:
            return copy.deepcopy(self._engine.outcome)
        ref = None if log_write is None else self._wait_for_log(log_write)[0]
        if ref is not None and ref.rows != len(batch or ()):  # earlier batches are in it too
            ref = None
        command = Command(batch, ref, strict, budget, write=budget is not None)
        return self.on_engine(lambda engine: engine.execute(command))

    def _write_log(self, batch: Changes) -> _LogWrite:
        """Begin to write a large batch to the log."""
        log, number = self.log, self.manifest.iteration + 1
        return self.write_behind(lambda: log.write(self.store, self.loop, number, batch))

    def _wait_for_log(self, write: _LogWrite) -> tuple[SegmentRef, ChangeLog]:
        """Wait until a batch is in the log; return its segment, and the log with it."""
        try:
            with self.spent.timed("commit"):
                return write.result()
        except BaseException:
            self.stale = True  # the engine may have taken it in
            raise

    def _update_statistics(self, out: CommandResult) -> None:
        work = out.work
        counts = {
            "iterations": work.iterations, "updates": work.updates,
            "messages": work.messages, "bytes": work.bytes, "seconds": work.seconds,
            "reason": work.reason,
            "num_vertices": out.num_vertices, "num_edges": out.num_edges,
        }  # fmt: skip
        start = {"start": out.start, "start_reason": out.start_reason, "touched": work.touched}
        result = {"result": self.config.program.result}
        self.statistics = {**_NONE, **counts, **result, **out.statistics, **start}
        self.aggregates = as_json(out.aggregates)

    def _commit(
        self,
        segments: list[SegmentRef],
        log: ChangeLog,
        ledger: Ledger,
        iteration: int | None = None,
        offsets: Mapping[str, Any] | None = None,
        content: Manifest | None = None,
        unwritten: Sequence[EncodedSegment] = (),
        behind: bool = False,
        has_bases: bool = False,
        replaces: bool = False,
    ) -> None:
        """Commit the engine's state as the next version.

        Args:
            unwritten: those of the segments that are not in the store yet.
            behind: return before it is in the store.
            has_bases: the segments have bases.
            replaces: the version before, as it has the same answer.
        """
        began = time.perf_counter()
        steps = 1 if iteration is None else max(iteration - self._iteration, 1)
        previous = self.ledger
        self.commit(
            LoopRecord(ledger, log), segments, steps=0 if replaces else steps, put=unwritten,
            offsets=offsets, behind=behind, content=content, aggregates=self.aggregates,
            statistics={**self.statistics, **ledger.statistics()},
            partitions=self._engine_partitions if has_bases else None,
        )  # fmt: skip
        self._iteration = self._iteration if iteration is None else iteration
        self.counters.rate.add(ledger.received - previous.received)
        if not ledger.behind:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = time.monotonic()
        self.spent.add("commit", time.perf_counter() - began)

    def read_record(self, manifest: Manifest, store: Store | None = None) -> LoopRecord:
        """Return the ledger and the log of a version in the store."""
        include_sent, ledger = self.config.program.algebra is None, Ledger.read(manifest)
        return LoopRecord(ledger, ChangeLog.of(
            store or self.store, manifest, include_sent=include_sent, undirected=ledger.undirected
        ))  # fmt: skip

    def _enter(self) -> None:
        """Tell the engine of a branch its loop's name, if the program reads it."""
        if self._branch and not isinstance(self._engine, _LazyFork):
            self._engine.enter(self.loop)

    def _discard(self, write: _LogWrite | None) -> None:
        if write is not None:
            with contextlib.suppress(StateError):
                ref, _ = write.result()
                self.settle()
                self.store.backend.delete_unreferenced([ref.key])

    def recover(self) -> None:
        """Restore the engine from the newest version if something failed; the lock is held."""
        if self.closed_by is not None:
            raise self.closed_by
        if self.catch_up is not None:
            self.catch_up()
        if self.stale:
            self.snapshots.drop()
            self.refresh()
            self._close_engine()
            with self.counters.doing("restore"):
                self._engine = self.config.restore(
                    self.store, self.manifest, self.ledger.partitions
                )
            self.counters.restarts += 1
            self._iteration, self.stale = 0, False
            self._enter()

    def _close_engine(self) -> None:
        if not isinstance(self._engine, _LazyFork):
            with contextlib.suppress(Exception):
                self._engine.close()

    @property
    def usable(self) -> bool:
        """True if the engine is there and has the state of the newest version."""
        ready = self.closed_by is None and not self.stale
        return ready and not isinstance(self._engine, _LazyFork)

    def on_engine(self, work: Callable[[LoopEngine], _T]) -> _T:
        """Call `work` with the engine; restore it and try again when an executor is lost."""
        for retries in reversed(range(TRIES)):
            try:
                return work(self.engine)
            except InputError:
                raise
            except BaseException as error:
                self.stale = True
                if not retries or not isinstance(error, LostError):
                    raise
                _log.warning("%s: %s; restoring from the store", self.loop, first_line(error))
                self.recover()
        raise AssertionError("unreachable")

    @property
    def _engine_partitions(self) -> int | None:
        """The number of partitions of the engine; after a rescale the store still has another."""
        engine = self._engine
        return None if isinstance(engine, _LazyFork) else engine.graph.partitions

    def rescale(self, partitions: int) -> None:
        """Continue with another number of partitions, from a snapshot.

        Raises:
            InputError: no such number, or the cluster has too few slots; the loop is as before.
        """
        check_partitions(partitions)
        with self.lock, self.counters.doing("rescale"):
            self.recover()
            if partitions == self.engine.graph.partitions:
                return
            self.snapshots.take()
            previous = self.ledger
            try:
                self._rescaled(replace(previous, partitions=partitions))
            except (RunError, InputError):
                self._rescaled(previous)
                raise
            self._commit([], self.log, self.ledger)

    def _rescaled(self, ledger: Ledger) -> None:
        self.newest, self.stale = (self.manifest, LoopRecord(ledger, self.log)), True
        self.recover()

    def take_snapshot(self) -> None:
        """Take a snapshot with the edges, and return when it is committed."""
        with self.lock, self.counters.doing("snapshot"):
            self.recover()
            self.snapshots.take()

    def commit_snapshot(self, segments: list[SegmentRef], log: ChangeLog, ledger: Ledger) -> None:
        """Have the newest version refer to a snapshot; the lock is held.

        It is replaced, but in a loop with a window: the events of its last batch are in its log.

        Args:
            segments: those of the snapshot, and of the changes since its cut if it has the edges.
            log: the changes since the edges were stored.
            ledger: which says where the cut was.
        """
        self._commit(segments, log, ledger, replaces=ledger.window is None)

    def follow(
        self,
        segments: list[SegmentRef],
        log: ChangeLog,
        ledger: Ledger,
        offsets: Mapping[str, Any],
    ) -> None:
        """Commit a version with another loop's checkpoint and log; the engine has its changes."""
        with self.lock:
            self._commit(segments, log, ledger, offsets=offsets)

    def edge_times(self) -> EdgeTimes:
        """The event times of the newest version's edges, of a loop with a window."""
        if self._edge_times is None or self._edge_times[0] != self.ledger.received:
            self.settle()
            times = EdgeTimes.of_version(
                self.store, self.manifest, integers=self.integers, value=self.value,
                undirected=self.ledger.undirected,
            )  # fmt: skip
            self._edge_times = self.ledger.received, times
        return self._edge_times[1]

    def keep_edge_times(self, times: EdgeTimes | None, received: int = 0) -> None:
        """Use event times once so many changes were received; None reads them anew."""
        self._edge_times = None if times is None else (received, times)

    def fork(self, name: str, at: int | None = None) -> LoopHistory:
        """Fork the newest version, or version `at`, as a new loop.

        Raises:
            StateInputError: there is a loop of that name, or no such version.
        """
        store = open_store(self.config.address, create=False)
        try:
            if at is None:
                with self.lock:
                    self.recover()
                    self._require_memory_for_fork()
                    self.settle()
                    with self._writes.lock:
                        forked = self.store.fork(self.loop, name)  # compacted, it is another name
                    current, log = (forked, self.ledger), self.log
                    forked_after = self.snapshots.last.number
                    try:
                        engine = self._fork_engine(forked)
                    except BaseException:
                        store.delete(name)
                        raise
            else:
                manifest = store.fork(self.loop, name, at)
                forked_after = -1
                try:
                    engine = self.config.restore(store, manifest)
                except BaseException:
                    store.delete(name)
                    raise
                ledger, log = self.read_record(manifest, store)
                current = manifest, ledger
            if not isinstance(engine, _LazyFork) and engine.reads_loop:
                current = current[0], replace(current[1], exact=False)  # its answer may be another
            main = self.ledger.branch_of or self.loop
            current = current[0], replace(current[1], branch_of=main)
            fork = LoopHistory(self.config, store, name, engine, current, log)
            fork._iteration = self._iteration if at is None else 0
            fork._forked_after = forked_after
            fork._branch = True
            fork._enter()
            return fork
        except BaseException:
            store.close()
            raise

    def _require_memory_for_fork(self) -> None:
        if not isinstance(self._engine, _LazyFork):
            require_memory(self.loop, self._engine.used_memory(), "be forked")

    def _fork_engine(self, forked: Manifest) -> LoopEngine | _LazyFork:
        """Return an engine for a fork: a lazy one where this loop is at its fixed point."""
        engine = self._engine
        late = isinstance(engine, _LazyFork) or not engine.reads_loop
        if not (late and self.ledger.state and self.ledger.exact):
            return self.on_engine(lambda engine: engine.fork())
        manifest, statistics = self.manifest, self.statistics
        outcome = CommandResult(
            work=WorkDone(residual=self.ledger.residual, quiet=True, reason="quiet"),
            iteration=self._iteration,
            start="warm",
            start_reason="the loop that it was forked from was at its fixed point",
            num_vertices=statistics.get("num_vertices", 0),
            num_edges=statistics.get("num_edges", 0),
            aggregates=dict(self.aggregates),
        )

        def create() -> LoopEngine:
            with self.lock:
                if self.closed_by is None and self.manifest.iteration == manifest.iteration:
                    self.recover()
                    return self.on_engine(lambda engine: engine.fork())
            with open_store(self.config.address, create=False) as store:
                return self.config.restore(store, forked)

        return _LazyFork(self.integers, self.value, create, outcome)

    def refuse_merge(self, branch: str, received: int) -> None:
        """Raise InputError if changes arrived since a branch was forked."""
        arrived = self.ledger.received - received
        if arrived:
            raise InputError(
                f"{arrived:,} changes came to loop {self.loop!r} since {branch!r} was forked from "
                "it: fork again, so that none of them is lost"
            )

    def merge(self, branch: LoopHistory, received: int) -> None:
        """Replace the state by that of a fork, if this loop received nothing since the fork.

        With this loop at iteration τ, the fork's result is written at τ+B, B being the delay bound:
        no update of this loop can be of so late an iteration, so messages in transit are dropped
        (section 5.2). Changes that the fork received become part of this loop.

        Args:
            received: `Ledger.received` of this loop when it was forked.

        Raises:
            InputError: changes arrived since; nothing was merged.
        """
        with self.lock, branch.lock, self.counters.doing("merge"):
            self.recover()
            branch.recover()
            branch.settle()
            if branch.ledger.received != received:
                self._refuse_to_follow()
            self.refuse_merge(branch.loop, received)
            ledger = replace(
                branch.ledger,
                branch_of=self.ledger.branch_of,
                partitions=self.ledger.partitions,
                queries=max(self.ledger.queries, branch.ledger.queries),
                bad=self.ledger.bad,
                repeated=self.ledger.repeated,
                window=self.ledger.window,
            )
            self.statistics, self.aggregates = branch.statistics, branch.aggregates
            bound = int(branch.statistics.get("delay_bound") or 1)
            later = self._iteration + bound
            if isinstance(branch._engine, _LazyFork):  # its state and edges are this one's
                ledger = replace(ledger, graph=self.ledger.graph, snapshot=self.ledger.snapshot)
                self._commit([], self.log, ledger, later)
                self._iteration, branch.stale = branch._iteration, True
            else:
                self._commit([], branch.log, ledger, later, content=branch.manifest)
                if (
                    branch.snapshots.last.number
                    or branch._forked_after != self.snapshots.last.number
                ):
                    self.snapshots.drop()  # the version no longer has the snapshot before
                self.stale = branch.stale = True
                try:
                    self.engine.adopt(branch._engine)
                    self.stale, self._iteration = False, branch._iteration
                except LostError:  # the next command tries to restore this again
                    with contextlib.suppress(RunError, StateError):
                        self.recover()
            branch.closed_by = InputError(
                f"{branch.loop!r} was merged into {self.loop!r}: fork again; its result can be read"
            )

    def close(self, *, tidy: bool = False) -> None:
        """Close the engine and the store; may be called twice.

        Args:
            tidy: first commit a checkpoint if replaying the log would take long.
        """
        with self.lock:
            self.snapshots.close()
            if tidy and self.usable and self.snapshots.worth_taking:
                with contextlib.suppress(RunError, StateError):
                    self.take_snapshot()
            if not isinstance(self.closed_by, ClosedError):
                try:
                    self.settle()
                except Exception as error:
                    _log.warning("%s: the newest answer is not in the store: %s", self.loop, error)
                self.end_writes()
                self.closed_by = ClosedError(f"loop {self.loop!r} was closed; resume it")
                self._close_engine()
                self.store.close()


# The snapshots of a loop: when they are taken, and what becomes of them.
#
# A snapshot is of an instant between two supersteps, its *cut*. The partitions store it while the
# loop continues; when all have, a version that refers to it is committed. A process that restores
# the loop reads the snapshot and the changes after its cut. One that fails, or is not complete
# when the engine is lost, is dropped: what it has stored is garbage that a later collection sweeps.
#
# The state is stored more often than the edges, which are in the store with the change log: they
# are stored anew when the log has a quarter as many changes as there are edges.

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

    def __init__(self, history: LoopHistory, policy: SnapshotPolicy) -> None:
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
    def _loop(self) -> LoopHistory:
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


FULL = 0.95  # share of the limit from which on changes and branches are refused
_WAIT_SECONDS = 10.0
_LOOK_SECONDS = 0.2


def await_memory(loop: str, engine: LoopEngine) -> None:
    """Wait for some seconds while a worker has used much of its memory.

    Raises:
        RunError: it has used nearly all of it.
    """
    used = engine.used_memory()
    if used < MUCH_MEMORY:
        return
    _log.warning("%s: %.0f %% of the memory limit is used; changes wait", loop, 100 * used)
    end = time.monotonic() + _WAIT_SECONDS
    while used >= MUCH_MEMORY and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        used = engine.used_memory()
    require_memory(loop, used, "take in more changes")


def require_memory(loop: str, used: float, what: str) -> None:
    """Refuse `what` where nearly all memory is used.

    Raises:
        RunError: so it is.
    """
    if used >= FULL:
        raise RunError(
            f"loop {loop!r} cannot {what}: {used:.0%} of the memory limit of its container is "
            "used; close branches, use more partitions, or raise the limit (on a cluster "
            "spark.executor.memoryOverhead)"
        )
