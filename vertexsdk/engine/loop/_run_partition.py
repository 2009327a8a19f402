"""A partition of a run: a graph that is loaded and stays as it is, and iterations from `init`."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from vertexsdk.compile.plan import Plan
from vertexsdk.engine._iterations import Iterations, make_master
from vertexsdk.engine._master import IterationStats
from vertexsdk.engine._processor import Processor
from vertexsdk.engine._run_state import captured, graph_of, restore
from vertexsdk.engine.answer_checks import not_finite
from vertexsdk.engine.bounded._auto_bound import BoundChoice
from vertexsdk.engine.commands import BeginRun, Counts, LoopCommand, LoopReport, Version, WorkDone
from vertexsdk.engine.events._events_partition import EventPartition
from vertexsdk.engine.loop._snapshot_writer import SnapshotWriter
from vertexsdk.engine.loop_names import loop_of_snapshots
from vertexsdk.engine.snapshots import SnapshotPart, SnapshotRequest
from vertexsdk.engine.supersteps import Steps
from vertexsdk.errors import LostError, RunError
from vertexsdk.graph.checksum import graph_checksum
from vertexsdk.state import SegmentRef, Store
from vertexsdk.state.version_writer import Writer, store_of_run
from vertexsdk.transport.transport import Blocks


class RunPartition:
    """What `LoopTask` runs iterations of.

    Args:
        plan: of the run.
        partition: its number.
        vertices: of the graph, in all partitions.
        choice: the delay bound.

    Raises:
        LostError: the graph is not on this host.
    """

    def __init__(self, plan: Plan, partition: int, vertices: int, choice: BoundChoice) -> None:
        self.plan, self.partition = plan, partition
        make: Any = Processor if plan.program.algebra is not None else EventPartition.of_run
        try:
            self.processor = make(plan, partition, vertices)
        except RunError as error:
            raise LostError(str(error)) from None
        self.iterations = Iterations(self.processor, make_master(plan, vertices), choice)
        self.processor.set_vertices(vertices)
        self._loaded = graph_of(self.iterations).ids
        self._snapshots: SnapshotWriter | None = None

    def load(self, version: int) -> None:
        """Have the state that a task on this host saved.

        Raises:
            LostError: there is none.
        """
        try:
            self.processor.load(version)
        except RunError as error:
            raise LostError(str(error)) from None

    def begin(self, begin: BeginRun, report: LoopReport) -> Steps[None]:
        """Report what the graph is; or go on from a snapshot, if there are segments of one."""
        plan, run = self.plan, self.iterations
        if not begin.segments:
            report.checksum = graph_checksum(graph_of(run))
        else:
            assert plan.store is not None
            with store_of_run(plan.run, plan.store) as store:
                yield from restore(
                    run, store, begin.segments, alike=begin.alike, trusted=begin.trusted
                )
            report.position = None if plan.resident else run.position
        if not plan.resident:
            self.processor.save(report.version)

    def _snapshot(self, request: SnapshotRequest) -> None:
        """Copy the state as it is now; a thread stores it while iterations go on."""
        plan = self.plan
        assert plan.store is not None
        if self._snapshots is None:
            self._snapshots = SnapshotWriter(plan.store)
        self.iterations.deliver()
        self.processor.settle()
        began, part = time.perf_counter(), SnapshotPart(request.number, state=True)
        columns, meta = captured(self.iterations, self._loaded)
        at = loop_of_snapshots(plan.loop), self.partition, self.iterations.iterations

        def write(store: Store) -> list[SegmentRef]:
            return [store.put_segment(*at, "snapshot", columns, meta)]

        self._snapshots.write(part, write, began, waits=request.waits)

    def close(self) -> None:
        """Wait for what is being stored."""
        if self._snapshots is not None:
            self._snapshots.close()

    def iterate(self, command: LoopCommand, report: LoopReport, blocks: Blocks) -> Steps[None]:
        """Iterate as far as the command allows, and write the versions which are due.

        Args:
            blocks: what the superstep before sent here, where tasks do not stay.
        """
        plan, run, work = self.plan, self.iterations, report.work
        master, before = run.master, run.iterations
        if command.position is not None:
            before = max(command.position.iteration - 1, 0)
        attempt = command.attempts[self.partition] if command.attempts else None
        with Writer(plan.run, plan.store, plan.loop, self.partition, attempt) as writer:
            versions = _DueVersions(self, command, writer, work, before)
            run.after_each = versions.write_if_due
            work.hops += run.alone
            if command.position is not None:
                run.resume(command.position, blocks, work)
            if command.snapshot is not None and master.reason is None:
                self._snapshot(command.snapshot)
                report.cut = replace(work, iterations=run.iterations - before)
            if plan.resident or run.alone:
                report.failure = yield from run.run(work, command.seconds, command.iterations)
                report.position = None if plan.resident else run.position
            elif master.reason is None:
                end = yield from run.superstep(work)
                report.position = replace(run.position, ends=(end,))
                if end.failure is None:  # in another task it might be lost
                    versions.write_if_due(master.iteration, end.progress)
            clock = time.perf_counter()
            if master.reason is not None:
                versions.write_last()
                report.not_finite = versions.not_finite
                if plan.program.classes[0].cls.edge_values:
                    report.messages = [self.processor.messages_along_edges()]
            report.versions = versions.finish()
            if self._snapshots is not None:
                if master.reason is not None:
                    self._snapshots.close()
                report.snapshots = self._snapshots.finished()
            report.seconds["commit"] = time.perf_counter() - clock
        work.iterations = run.iterations - before
        work.reason, work.quiet = master.reason, master.reason is not None
        report.statistics, report.aggregates = run.statistics, dict(master.aggregates)
        report.clock, report.vertices = run.iterations, self.processor.count
        if not plan.resident and not (run.alone and work.quiet) and report.failure is None:
            clock = time.perf_counter()
            self.processor.save(report.version)
            report.seconds["save"] = time.perf_counter() - clock


class _DueVersions:
    """The versions of one partition that a command writes.

    Args:
        part: the partition.
        command: says which versions are due.
        writer: writes them, while iterations go on.
        work: that the command has done so far.
        before: iterations before the command.

    Attributes:
        not_finite: of the last version, if the run has ended.
    """

    def __init__(
        self, part: RunPartition, command: LoopCommand, writer: Writer, work: WorkDone, before: int
    ) -> None:
        self._part, self._every, self._newest = part, command.every, command.after
        self._writer, self._work, self._before = writer, work, before
        self._versions: list[Version] = []
        self.not_finite: Counts = {}

    def write_if_due(self, iteration: int, unfinished: IterationStats | None = None) -> None:
        """Write the state at the end of an iteration, if that is due.

        Args:
            unfinished: what the iteration did here, if it is not counted yet.
        """
        if self._every is not None and iteration // self._every * self._every > self._newest:
            self._write(iteration, unfinished)

    def write_last(self) -> None:
        """Write the state at the end of the run, unless that is done."""
        last = self._part.iterations.iterations
        if not self._versions or self._versions[-1].iteration < last:
            self._write(last)

    def finish(self) -> list[Version]:
        """Wait until all are durable."""
        segments = self._writer.finish()
        return [
            replace(v, segments=[s for s in [segments.get(v.iteration)] if s is not None])
            for v in self._versions
        ]

    def _write(self, iteration: int, unfinished: IterationStats | None = None) -> None:
        run, processor = self._part.iterations, self._part.processor
        reason = run.master.reason if iteration == run.iterations else None
        self._newest = iteration
        columns = processor.result()
        if reason is not None:
            self.not_finite = not_finite(columns)
        self._writer.add(iteration, columns, last=reason is not None)
        work = replace(self._work)
        if unfinished is not None:
            work.add(unfinished)
        work.iterations = iteration - self._before
        self._versions.append(
            Version(
                iteration, [], dict(run.master.aggregates), work, processor.count,
                reason, run.statistics,
            )
        )  # fmt: skip
