"""The engine of a loop whose graph is edited in place: one command to all partitions."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import pickle
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.raw_columns import encode_bytes
from vertexsdk.compile.plan import Plan
from vertexsdk.engine.answer_checks import EndWatch, has_rule
from vertexsdk.engine.commands import (
    AnswerStart,
    BeginRun,
    Budget,
    Command,
    CommandResult,
    CreatePartition,
    LoopCommand,
    LoopReport,
    RestoreState,
    RunSnapshots,
    Versions,
    WorkDone,
)
from vertexsdk.engine.loop_names import loop_of_run
from vertexsdk.engine.loop_task import LoopTask, forget
from vertexsdk.engine.master import combine_aggregates
from vertexsdk.engine.phases import PhaseTimer
from vertexsdk.engine.snapshots import SnapshotPart, SnapshotRequest
from vertexsdk.engine.supersteps import RunPosition
from vertexsdk.errors import InputError, LostError, StateError, VertexError
from vertexsdk.graph.changes.deltas import INTEGER_IDS, Deltas
from vertexsdk.graph.checkpoint import STATE_NAMES, put_names, put_state_names, state_names
from vertexsdk.graph.graph import Graph
from vertexsdk.graph.topology.name_codes import NameCodes, code_step
from vertexsdk.program.analysis.convergence import residual_of
from vertexsdk.state import EncodedSegment, SegmentRef, Store, open_store
from vertexsdk.transport.transport import Exchange

MUCH_MEMORY = 0.85  # share of a worker's limit from which on changes wait
BY_SEGMENT = 1 << 16  # bytes of changes above which a task reads them from the store
_numbers = itertools.count()


class LoopEngine:
    """A changing graph with a program's state on it, on the workers of the graph; for one caller.

    Attributes:
        integers: whether ids are int64; else they are strings.
        value: dtype of the edge values which the program reads, or None.
        reads_loop: the program reads the name of the loop it runs in, so a branch may do what the
            main loop does not.
        phases: seconds by phase, of all jobs so far.
        size: number of vertices and of edges, after the last job.
        snapshot_parts: what partitions have stored, by the number of the snapshot.
        worker_seconds: CPU seconds of workers in other processes so far, the busiest of each job.

    Args:
        graph: which is loaded; only to know where it is.
        plan: plan of the loop.
        layout: layout of the adjacency.
        start: the start of the loop's answers.
        names: where ids are strings, their codes; forks share them.
        origin: the engine of which this is a fork.
        run: how many vertices the graph has, for a run on it as it is loaded.
        phases: see there.
        title: what messages call the loop; by default its name.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        layout: str,
        start: AnswerStart,
        names: NameCodes | None = None,
        *,
        origin: LoopEngine | None = None,
        run: int | None = None,
        phases: PhaseTimer | None = None,
        title: str = "",
    ) -> None:
        self.graph, self.plan, self.layout = graph, plan, layout
        self.start, self._run = start, run
        self.reads_loop = plan.program.reads_loop
        # Messages of an events program may name new vertices, which have no code before it ends.
        self._learns_names = plan.program.algebra is None and names is not None
        self.value = plan.program.value_dtype
        self.names, self.integers = names, names is None
        self._told = 0 if names is None else len(names)  # how many names the partition knows,
        self._untold = np.zeros(0, np.int64)  # but for those at these places
        self._key = f"{graph.key}/loop-{next(_numbers)}"
        self._version = 0
        self._open: set[str] = set() if origin is None else origin._open  # keys, also of forks
        self._open.add(self._key)
        weakref.finalize(self, forget, self._key, graph.partitions).atexit = False
        self._exchange = self._new_exchange()
        self.loaded: dict[str, Any] = {}  # statistics of the graph as it was loaded
        self.snapshot_parts: dict[int, list[SnapshotPart]] = {}
        self._names_put = 0  # names that are in the store with a state
        self._closed = False
        self.phases = phases or PhaseTimer()
        self.size, self.worker_seconds, self._used_memory = (0, 0), 0.0, 0.0
        # Of a run:
        self._position: RunPosition | None = None  # where tasks do not stay
        self._attempts: list[str | None] = [None] * graph.partitions  # that were committed last
        self._loop_title = title or plan.loop
        self._title = plan.program.name
        if self._loop_title not in (self._title, loop_of_run(self._title)):
            self._title += f" as {self._loop_title}"
        self._described = contextlib.ExitStack()
        self._describe: Callable[[str], None] | None = None  # where hops are Spark jobs
        if run is not None and not plan.resident:
            self._describe = self._described.enter_context(graph.workers.described(self._title))

    def _new_exchange(self) -> Exchange:
        task = LoopTask(self.plan, self.layout, self._key, self.start, run=self._run)
        stay = self._run is None or self.plan.resident
        return self.graph.workers.exchange(task, resident=stay)

    def create(
        self, topologies: Sequence[str], named: NDArray[np.int64], nodes: Sequence[SegmentRef] = ()
    ) -> None:
        """Take the graph over from where it is loaded, under the keys of its topologies.

        Args:
            named: ids (ascending) of the vertices which are there without edges too.
            nodes: segments of an events loop's checkpoint, to continue from.
        """
        create = CreatePartition(tuple(topologies), named, nodes=tuple(nodes))
        if self.names is not None:
            create = replace(create, code_step=code_step(self._told))
            if None in self.plan.kernels:  # whose methods see the names of mirrors too
                create = replace(create, names=self.names.at(np.arange(self._told))[1])
        report = self._job(LoopCommand(0, create=create))
        if report.ranks is not None:
            there = np.zeros(self._told, np.bool_)
            there[report.ranks] = True
            self._untold = np.flatnonzero(~there)  # of vertices that went before

    def begin(self, begin: BeginRun) -> int:
        """Make the partitions of a run, or put them where a snapshot was taken.

        Returns:
            The `graph_checksum` of all, of partitions that have been made.

        Raises:
            InputError: the snapshot is of a graph that is divided otherwise.
            StateError: the snapshot cannot be read.
        """
        return self._job(LoopCommand(self._version, begin=begin)).checksum

    def execute(self, command: Command) -> CommandResult:
        """Carry out a command; return what became of it.

        Raises:
            InputError: the changes do not fit the graph; nothing was taken in.
            RunError: iterations failed, or an executor was lost with what it held.
        """
        began = time.perf_counter()
        budget = command.budget
        job = LoopCommand(
            self._version,
            changes=self._changes(command),
            strict=command.strict,
            iterate=budget is not None,
            write=command.write and not self._learns_names,
        )
        if command.versions is not None:
            job = replace(job, every=command.versions.every, after=command.versions.after)
        first: LoopReport | None = None
        last: LoopReport | None = None  # of iterations
        work, segments = replace(command.before or WorkDone()), list[SegmentRef]()
        unwritten: list[EncodedSegment] = []
        seconds: dict[str, float] = {}
        jobs, ended = 0, None
        schedule: SnapshotSchedule | None = None
        if command.snapshots is not None:
            schedule = SnapshotSchedule(
                command.snapshots, self.graph.partitions, self.snapshot_parts, work,
                waits=not self.plan.resident,
            )  # fmt: skip
        watch = EndWatch(
            self._loop_title, budget, self.plan.max_iterations, self._run or self.size[0],
            self.start.choice.bound, rule=has_rule(self.plan.program.classes[0]),
        )  # fmt: skip
        done = False
        while not done:
            part = replace(self._slice(job, budget, work, began), goes_on=jobs > 0)
            if watch.most is not None and part.iterate:
                part = replace(part, iterations=max(watch.most - work.iterations, 0))
            if schedule is not None:
                part = schedule.planned(part, work)
            report = self._job(part)
            if schedule is not None:
                schedule.take(report)
            jobs += 1
            first = first or report
            last = report if part.iterate or last is None else last
            if command.versions is not None and report.versions:
                self._add_versions(command.versions, report, work)
                job = replace(job, after=report.versions[-1].iteration)
            work.add(report.work)
            bases = {s.key.partition for s in report.segments if s.kind == "base"}
            segments = [*(s for s in segments if s.key.partition not in bases), *report.segments]
            unwritten += report.unwritten
            for name, value in report.seconds.items():
                seconds[name] = seconds.get(name, 0.0) + value
            if report.failure is not None:
                try:
                    raise report.failure
                finally:
                    report.failure = None  # its traceback has this frame, which has the report
            refused = report.refused
            if budget is not None and budget.report is not None:
                work.seconds = time.perf_counter() - began
                budget.report(work)
            ended = ended or (None if budget is None else _limit_met(budget, work, began))
            if ended is None and watch.met(work, time.perf_counter() - began):
                ended = "default_limit"
            done = budget is None or report.work.quiet or refused or ended is not None
            wrote = part.write and (part.last or report.work.quiet)
            if done and command.write and not (wrote or refused):
                job, budget, done = replace(job, iterate=False, write=True), None, False
            if not done:  # else the names of other branches are not sent
                job = replace(job, changes=self._untold_names())
        if schedule is not None:
            schedule.end()
        assert first is not None
        assert last is not None
        outcome = self._outcome(report, work, segments)
        outcome.not_finite, outcome.messages = report.not_finite, report.messages
        outcome.unwritten = [s for s in unwritten if s.ref in segments]
        work.quiet = last.work.quiet
        work.reason = last.work.reason if work.quiet else ended
        outcome.counts, outcome.absent = first.counts, first.absent
        restarted = self.start.reason or report.restarted or first.restarted
        warm = first.warm and not restarted
        outcome.start = "warm" if warm else "init"
        outcome.start_reason = restarted or (
            "it continued from the previous state" if warm else "it is the first answer"
        )
        work.seconds = time.perf_counter() - began
        outcome.statistics = {
            **self.loaded, "hops": jobs, "phases": seconds, "worker_memory": report.memory,
            "partitions": self.graph.partitions, "pending": report.pending,
            "compiled": all(k is not None for k in self.plan.kernels), **last.statistics,
        }  # fmt: skip
        return outcome

    def _slice(
        self, job: LoopCommand, budget: Budget | None, work: WorkDone, began: float
    ) -> LoopCommand:
        """The next job's share of a budget, at most `Budget.slice` seconds."""
        job = replace(
            job, version=self._version, position=self._position, attempts=tuple(self._attempts)
        )
        if budget is None:
            return job
        seconds, last = budget.slice, False
        if budget.seconds is not None:
            left = budget.seconds - (time.perf_counter() - began)
            seconds, last = min(budget.slice, max(left, 0.0)), left <= budget.slice
        iterations = budget.iterations
        if iterations is not None:
            iterations = max(iterations - work.iterations, 0)
            last = True
            seconds = seconds if budget.seconds is not None else 1e9
            if budget.cancelled is not None:
                seconds, last = min(seconds, budget.slice), False
        return replace(job, seconds=seconds, iterations=iterations, last=last)

    def _add_versions(self, versions: Versions, report: LoopReport, work: WorkDone) -> None:
        """Hand on the versions that a job has written, with the work done before it."""
        for version in report.versions:
            for segment in version.segments:
                self._attempts[segment.key.partition] = segment.key.attempt
            done, aggregates = replace(work), version.aggregates
            done.add(version.work)
            if report.position is not None and report.position.ends:  # not taken in by a master yet
                algebras = self.plan.program.aggregators
                parts = [end.progress.aggregates for end in report.position.ends]
                aggregates = functools.reduce(
                    lambda a, b: combine_aggregates(a, b, algebras), parts
                )
            versions.add(replace(version, work=done, aggregates=aggregates))

    def _changes(self, command: Command) -> bytes | SegmentRef | None:
        changes = command.changes
        if changes is None or not len(changes):
            return None
        columns: dict[str, NDArray[Any]] = {"kind": changes.kind, "value": changes.value}
        if isinstance(changes, Deltas):
            changes = changes.sending(changes.sent, integers=self.integers)
            columns |= changes.columns()
        if self.names is not None:
            if isinstance(changes, Deltas):
                self.names.of(pa.array([s.vertex for s in changes.sent], pa.large_string()))
            codes = self.names.of(pa.concat_arrays(changes.strings()))
            columns["source"], columns["target"] = np.split(codes, 2)
            return encode_bytes(columns | self._new_names())
        if len(changes.kind) and not changes.are_integers:
            raise InputError(INTEGER_IDS)
        if command.ref is not None and command.ref.bytes > BY_SEGMENT:
            return command.ref
        columns["source"], columns["target"] = (
            np.asarray(x, np.int64) for x in (changes.source, changes.target)
        )
        return encode_bytes(columns)

    def _new_names(self) -> dict[str, NDArray[Any]]:
        """The names that the partition does not know yet, as columns."""
        assert self.names is not None
        known, self._told = self._told, len(self.names)
        places = np.concatenate([self._untold, np.arange(known, self._told)])
        codes, (offsets, data) = self.names.at(places)
        self._untold = places[:0]
        return {"name.code": codes, "name.offsets": offsets, "name.bytes": data}

    def _untold_names(self) -> bytes | None:
        """The names that the partition does not know yet, encoded, if there are any."""
        told = self.names is None or self._told == len(self.names)
        return None if told else encode_bytes(self._new_names())

    def used_memory(self) -> float:
        """The used share of the memory limit of the fullest worker, now; 0 without a limit."""
        if self._used_memory >= MUCH_MEMORY:  # else it was little a moment ago
            self._job(LoopCommand(self._version))
        return self._used_memory

    def fork(self) -> LoopEngine:
        """Return an engine with the same graph and state, to be changed apart from this one."""
        other = LoopEngine(self.graph, self.plan, self.layout, self.start, self.names, origin=self)
        other.loaded, other.size = self.loaded, self.size
        other._told, other._untold = self._told, self._untold
        self._job(LoopCommand(self._version, fork=other._key))
        other._version = 1
        return other

    def enter(self, loop: str) -> None:
        """Go on as the engine of the branch `loop`."""
        if self.reads_loop:
            self.plan = replace(self.plan, sees=loop, forked=True)
            self._exchange.close()
            self._exchange = self._new_exchange()

    def adopt(self, fork: LoopEngine) -> None:
        """Take the graph and state of a fork of this engine, or of a fork of that.

        What was in transit here is dropped. The fork is used up: it is only closed after this.
        """
        if fork._open is not self._open:  # other codes, or another placement
            raise LostError("the fork was loaded from the store")
        self._job(LoopCommand(self._version, adopt=fork._key))
        self._told, self._untold = fork._told, fork._untold

    @property
    def saves_state(self) -> bool:
        """True if a snapshot has a state; where an answer may begin with `init` it needs none."""
        return self.start.strategy == "warm"

    @property
    def saves_with_graph(self) -> bool:
        """True if a state is stored with the edges only."""
        return self.plan.program.algebra is None

    @property
    def restores_state(self) -> bool:
        """True if this can continue from the state of another engine."""
        return self.saves_state and not self.saves_with_graph

    def checkpoint(self) -> list[SegmentRef]:
        """Store the graph and return its segments, as `Store.commit` takes them.

        Raises:
            StateError: it cannot be stored.
        """
        self.snapshot(SnapshotRequest(0, graph=True, whole=True, waits=True))
        parts = self.snapshot_parts.pop(0)
        failure = next((part.failure for part in parts if part.failure), None)
        if failure is not None:
            raise StateError(failure)
        return [*(ref for part in parts for ref in part.segments), *self.put_names()]

    def snapshot(self, request: SnapshotRequest) -> None:
        """Have all partitions take a snapshot as they stand; `snapshot_parts` says what came of it.

        Raises:
            RunError: an executor was lost with what it held.
        """
        command = LoopCommand(self._version, changes=self._untold_names(), snapshot=request)
        self._job(command)

    def poll(self) -> None:
        """Have the partitions report what they have stored of snapshots."""
        self._job(LoopCommand(self._version))

    def put_names(self) -> list[SegmentRef]:
        """Store the names of string ids, if there are any, as `Store.commit` takes them."""
        if self.names is None or self.plan.store is None:
            return []
        with open_store(self.plan.store, create=False) as store:
            return [put_names(store, self.plan.loop, 0, *self.names.sorted())]

    def put_state_names(self, *, whole: bool) -> list[SegmentRef]:
        """Store the names and codes of string ids of which a snapshot has the state.

        Args:
            whole: all of them; else those that came since the last call.
        """
        if self.names is None or self.plan.store is None:
            return []
        first, self._names_put = 0 if whole else self._names_put, len(self.names)
        if first == self._names_put:
            return []
        codes, names = self.names.at(np.arange(first, self._names_put))
        with open_store(self.plan.store, create=False) as store:
            return [put_state_names(store, self.plan.loop, codes, names)]

    def restore(self, store: Store, refs: Sequence[SegmentRef]) -> None:
        """Go on from the state of a snapshot, which was taken of the graph as it is here.

        Args:
            store: which has the segments.
            refs: all of kind "snapshot" that the version has.
        """
        codes = None
        if self.names is not None:
            stored, names = state_names(store, [ref for ref in refs if ref.group == STATE_NAMES])
            now, order = self.names.of(names), np.argsort(stored)
            codes = None if np.array_equal(stored, now) else (stored[order], now[order])
        states = tuple(ref for ref in refs if ref.group != STATE_NAMES)
        changes = self._untold_names()
        self._job(LoopCommand(self._version, changes=changes, restore=RestoreState(states, codes)))

    def close(self) -> None:
        """Free what the workers have; the graph stays until the forks are closed too."""
        if self._closed:
            return
        self._closed = True
        with self._described, contextlib.suppress(VertexError):  # the workers may be gone
            if self._describe is not None:
                self._describe(f"{self._title}, end")
            self._exchange.hop(LoopCommand(self._version, end=True))
        self._exchange.close()
        self._open.remove(self._key)
        if not self._open and self._run is None:
            self.graph.unpersist()

    def _job(self, command: LoopCommand) -> LoopReport:
        if self._describe is not None:
            at = self._position
            step = 0 if at is None else at.iteration + bool(at.ends)
            self._describe(f"{self._title}, superstep {step}")
        reports = [pickle.loads(report) for report in self._exchange.hop(command)]
        report = LoopReport.total(reports)
        self._version, self._position = report.version, report.position
        self.size = report.vertices, report.edges
        self._used_memory = report.used_memory
        if self.names is not None and report.names:
            self.names.of(pa.array(report.names, pa.large_string()))
        for part in report.snapshots:
            self.snapshot_parts.setdefault(part.number, []).append(part)
        if self._exchange.times is not None:
            self.worker_seconds += max(stamp.worked for stamp in self._exchange.times.stamps)
            self.phases.hop(self._exchange.times, [r.seconds for r in reports])
        return report

    def _outcome(
        self, report: LoopReport, work: WorkDone, segments: list[SegmentRef]
    ) -> CommandResult:
        if report.aggregates:
            work.residual = residual_of(self.plan.program, report.aggregates)
        return CommandResult(
            work=work,
            iteration=report.clock,
            segments=segments,
            whole=any(s.kind == "base" for s in segments),
            num_vertices=report.vertices,
            num_edges=report.edges,
            aggregates=report.aggregates,
        )


def _limit_met(budget: Budget, work: WorkDone, began: float) -> str | None:
    """Return the limit of a budget that was met, if any."""
    if budget.cancelled is not None and budget.cancelled():
        return "cancelled"
    if budget.iterations is not None and work.iterations >= budget.iterations:
        return "max_iterations"
    late = budget.seconds is not None and time.perf_counter() - began >= budget.seconds
    return "seconds" if late else None


_LOOK = 0.1  # seconds of a command while a snapshot is being stored, so that it is committed soon


class SnapshotSchedule:
    """The snapshots of one run: one is taken when it is due and the one before is stored.

    Args:
        snapshots: when they are due, and who takes them.
        partitions: number of partitions of the run.
        parts: what partitions have stored, by the number of the snapshot.
        work: that was done before.
        waits: a command ends when its snapshot is stored, as tasks do not stay.
    """

    def __init__(
        self,
        snapshots: RunSnapshots,
        partitions: int,
        parts: dict[int, list[SnapshotPart]],
        work: WorkDone,
        *,
        waits: bool,
    ) -> None:
        self._snapshots, self._partitions, self._waits = snapshots, partitions, waits
        self._parts = parts
        self._iteration, self._time = work.iterations, time.perf_counter()  # of the last one
        self._number = 0
        self._cut: WorkDone | None = None  # until the one that is being stored

    def planned(self, command: LoopCommand, work: WorkDone) -> LoopCommand:
        """Return a command with a snapshot if one is due, that ends when the next one is.

        Args:
            work: done so far.
        """
        every, seconds = self._snapshots, math.inf
        done = work.iterations - self._iteration
        if every.seconds is not None:
            seconds = max(self._time + every.seconds - time.perf_counter(), 0.0)
        due = seconds == 0 if every.iterations is None else done >= every.iterations
        if due and done and self._cut is None:
            self._number += 1
            self._cut = replace(work)
            self._iteration, self._time, done = work.iterations, time.perf_counter(), 0
            request = SnapshotRequest(self._number, whole=True, waits=self._waits)
            command = replace(command, snapshot=request)
        if self._cut is not None:
            seconds = _LOOK
        if every.iterations is not None:
            most = every.iterations - done if done < every.iterations else every.iterations
            most = most if command.iterations is None else min(most, command.iterations)
            command = replace(command, iterations=most)
        return replace(command, seconds=min(command.seconds, seconds))

    def take(self, report: LoopReport) -> None:
        """Take in what a command reports; hand on a snapshot that is stored."""
        if self._cut is None:
            return
        self._cut.add(report.cut)
        parts = self._parts.get(self._number, [])
        if len(parts) < self._partitions:
            return
        failure = next((part.failure for part in parts if part.failure), None)
        if failure is None and not report.work.quiet:
            del self._parts[self._number]
            self._snapshots.add(self._cut, _segments(parts))
        else:
            self._drop(failure or "")
        self._cut = None

    def end(self) -> None:
        """Drop what is stored of a snapshot that is not complete."""
        self._drop("")

    def _drop(self, why: str) -> None:
        segments = _segments(self._parts.pop(self._number, []))
        if segments or why:
            self._snapshots.drop(segments, why)


def _segments(parts: list[SnapshotPart]) -> list[SegmentRef]:
    return [ref for part in parts for ref in part.segments]
