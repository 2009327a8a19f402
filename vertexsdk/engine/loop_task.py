"""The task which carries out commands on a partition of a loop, where it is, and reports."""

from __future__ import annotations

import pickle
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray

from vertexsdk.arrays.memory_limit import used_memory
from vertexsdk.arrays.raw_columns import decode
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._arena_partition import ArenaPartition
from vertexsdk.engine._events_loop_partition import EventsLoopPartition
from vertexsdk.engine._history_partition import HistoryPartition
from vertexsdk.engine._local_partition import LocalPartition
from vertexsdk.engine._loop_partition import LoopPartition
from vertexsdk.engine._recomputed_partition import RecomputedPartition
from vertexsdk.engine.answer_checks import not_finite
from vertexsdk.engine.commands import AnswerStart, LoopCommand, LoopReport
from vertexsdk.engine.incremental_partition import IncrementalPartition
from vertexsdk.engine.run_partition import RunPartition
from vertexsdk.engine.snapshot_writer import SnapshotWriter
from vertexsdk.engine.snapshots import SnapshotRequest
from vertexsdk.engine.supersteps import Steps
from vertexsdk.errors import LostError, RunError
from vertexsdk.graph.changes.changes import described_changes
from vertexsdk.graph.topology.edge_attributes import require_values
from vertexsdk.state import EncodedSegment, SegmentRef
from vertexsdk.state.version_writer import forget_segments, store_of_run
from vertexsdk.transport.transport import DRIVER, Blocks

_PARTITIONS: dict[str, type[RecomputedPartition]] = {
    "init": RecomputedPartition, "local": LocalPartition, "history": HistoryPartition,
}  # fmt: skip
_SMALL = 1 << 18  # bytes of a segment that goes to the driver, to be stored with its version
# With their versions.
_partitions: dict[tuple[str, int], tuple[int, LoopPartition | RunPartition]] = {}
_writers: dict[tuple[str, int], SnapshotWriter] = {}


class LoopTask:
    """The callable which an `Exchange` runs.

    Args:
        plan: plan of the loop.
        layout: layout of the adjacency.
        key: key of the loop's partitions in each process.
        start: the start of the loop's answers.
        run: how many vertices the graph has that a run is on; None for a main loop or branch.
    """

    def __init__(
        self, plan: Plan, layout: str, key: str, start: AnswerStart, *, run: int | None = None
    ) -> None:
        self.plan, self.layout, self.key, self.start, self.run = plan, layout, key, start, run

    def __call__(self, partition: int, command: LoopCommand, blocks: Blocks) -> Steps[None]:
        report = LoopReport(command.version + 1)
        if command.end:
            self._end(partition)
            forget_segments(self.plan.run, partition)
            yield DRIVER, pickle.dumps(report)
            return
        live: LoopPartition | RunPartition
        try:
            if self.run is None:
                live = yield from self._carry_out(partition, command, report)
            else:
                live = yield from self._run(partition, command, report, blocks)
        except LostError as lost:  # at once, as the tasks of other partitions may wait for this one
            rest = "; resume the loop from its store" if self.run is None else ""
            raise LostError(f"an executor was lost: {lost}{rest}") from None
        # Only now: what a command left unfinished is lost.
        _partitions[self.key, partition] = report.version, live
        report.memory, report.used_memory = peak_memory(), used_memory()
        yield DRIVER, pickle.dumps(report)

    def _end(self, partition: int) -> None:
        """Let go of a partition, once what it stores is stored."""
        _, live = _partitions.pop((self.key, partition), (0, None))
        if (writer := _writers.pop((self.key, partition), None)) is not None:
            writer.close()
        if live is not None and not isinstance(live, RunPartition):
            live.close()

    def _run(
        self, partition: int, command: LoopCommand, report: LoopReport, blocks: Blocks
    ) -> Steps[RunPartition]:
        clock = time.perf_counter()
        part = self._run_partition(partition, command.version)
        report.seconds["load"] = time.perf_counter() - clock
        clock = time.perf_counter()
        if command.begin is not None:
            yield from part.begin(command.begin, report)
        else:
            writer = self._writer(partition, command.snapshot)
            yield from part.iterate(command, report, blocks, writer)
        beside = report.seconds.get("commit", 0.0) + report.seconds.get("save", 0.0)
        report.seconds["kernel"] = time.perf_counter() - clock - beside
        return part

    def _run_partition(self, partition: int, version: int) -> RunPartition:
        """Take the partition of a run from this process, or from what a task here saved."""
        there, part = _partitions.pop((self.key, partition), (-1, None))
        if isinstance(part, RunPartition) and there == version:
            return part
        if not self.plan.resident:
            for key, (_, other) in list(_partitions.items()):
                is_run = isinstance(other, RunPartition) and not other.plan.resident
                if is_run and key[0] != self.key:  # what an earlier run has left in this process
                    _partitions.pop(key, None)
                    _writers.pop(key, None)
        part = self._begin_run(partition)
        if version > 0:
            part.load(version)
        return part

    def _begin_run(self, partition: int) -> RunPartition:
        assert self.run is not None
        return RunPartition(self.plan, partition, self.run, self.start.choice)

    def _carry_out(
        self, partition: int, command: LoopCommand, report: LoopReport
    ) -> Steps[LoopPartition]:
        clock, create = time.perf_counter(), command.create
        if create is not None:
            live = self._new(partition)
            yield from live.create(create)
            if isinstance(live, ArenaPartition) and create.code_step and create.names is None:
                report.ranks = live.graph.names.codes // create.code_step - 1
        else:
            live = self._partition(partition, command)
        report.seconds["load"] = time.perf_counter() - clock
        live.restarted, live.bytes_sent, report.warm = "", 0, live.begun
        if command.changes is not None:
            clock = time.perf_counter()
            columns = self._columns(command.changes)
            if "name.code" in columns:
                live.add_names(*(columns[f"name.{n}"] for n in ("code", "offsets", "bytes")))
            if "kind" in columns:
                report.counts, report.absent, report.work.touched = yield from live.take(
                    columns, strict=command.strict
                )
                report.refused = live.refused
            report.seconds["changes"] = time.perf_counter() - clock
        if command.iterate and not report.refused:
            clock = time.perf_counter()
            yield from live.iterate(command, report)
            report.seconds["kernel"] = time.perf_counter() - clock
        if command.write and (command.last or report.work.quiet) and report.failure is None:
            clock = time.perf_counter()
            self._write(partition, live, report)
            report.seconds["commit"] = time.perf_counter() - clock
        if command.restore is not None:
            yield from live.restore(command.restore)
        if (writer := self._writer(partition, command.snapshot)) is not None:
            if command.snapshot is not None:
                writer.take(command.snapshot, live.capture)
            report.snapshots = writer.finished()
        report.restarted, report.names = live.restarted, live.new_names()
        report.work.bytes += live.bytes_sent
        report.aggregates = live.aggregates
        report.clock, report.pending = live.clock, live.pending
        report.vertices, report.edges = live.vertices, live.edges
        clock = time.perf_counter()
        if command.fork is not None:
            _partitions[command.fork, partition] = 1, live.fork()
        report.seconds["save"] = time.perf_counter() - clock
        return live

    def _writer(self, partition: int, request: SnapshotRequest | None) -> SnapshotWriter | None:
        """Return what stores the snapshots of a partition, if one was asked for so far."""
        key = self.key, partition
        if request is not None and self.plan.store is not None and key not in _writers:
            _writers[key] = SnapshotWriter(self.plan.store)
        return _writers.get(key)

    def _new(self, partition: int) -> LoopPartition:
        """The partition of a program of this kind, which has no graph yet."""
        if self.plan.program.algebra is None:
            return EventsLoopPartition(self.plan, partition, undirected=self.layout == "undirected")
        if self.start.strategy == "warm":
            return IncrementalPartition(self.plan, self.layout, partition)
        partition_class = _PARTITIONS[self.start.strategy]
        return partition_class(self.plan, self.layout, partition, self.start)

    def _partition(self, partition: int, command: LoopCommand) -> LoopPartition:
        """Take the partition, or where the command says so, that of a fork in its place."""
        version, live = _partitions.pop((self.key, partition), (-1, None))
        if live is None or version != command.version or isinstance(live, RunPartition):
            raise LostError("the graph is not on this host any more")
        if command.adopt is not None:
            _, fork = _partitions.pop((command.adopt, partition), (-1, None))
            if fork is None or isinstance(fork, RunPartition):
                raise LostError("the fork is not on this host any more")
            fork.supersede(live)
            live = fork
        if live.plan is not self.plan:  # of another loop before
            live.enter(self.plan)
        return live

    def _columns(self, changes: bytes | SegmentRef) -> Mapping[str, NDArray[Any]]:
        if isinstance(changes, bytes):
            return decode(changes, trusted=True)[0]
        if self.plan.store is None:
            raise RunError("a segment without a store")
        with store_of_run(self.plan.run, self.plan.store) as store:
            described = described_changes(store, changes, self.plan.program.value_dtype)
            columns = store.segment(changes, described=described)
        require_values(columns["value"], self.plan.program.value_dtype)
        return columns

    def _write(self, partition: int, live: LoopPartition, report: LoopReport) -> None:
        written = live.written()
        if written is None or self.plan.store is None:
            return
        kind, columns = written
        if report.work.quiet:
            report.not_finite = not_finite(columns)
        with store_of_run(self.plan.run, self.plan.store) as store:

            def store_large(segment: EncodedSegment) -> None:
                if segment.ref.bytes > _SMALL:
                    store.put(segment)
                else:
                    report.unwritten = [segment]

            report.segments = [
                store.put_segment(
                    self.plan.loop, partition, live.clock, cast(Any, kind), columns,
                    defer=store_large,
                )
            ]  # fmt: skip


def forget(key: str, partitions: int) -> None:
    """Free the partitions of a loop whose engine is gone, where they are in this process."""
    for partition in range(partitions):
        _partitions.pop((key, partition), None)
        _writers.pop((key, partition), None)


_STATUS = Path("/proc/self/status")
_sample = (0.0, 0)  # when it was read, and what


def peak_memory() -> int:
    """The peak resident bytes of this process; read once a second at most, as that takes long.

    >>> peak_memory() > 1_000_000
    True
    """
    global _sample
    now = time.monotonic()
    if now - _sample[0] >= 1.0 or not _sample[1]:
        _sample = (now, _peak())
    return _sample[1]


def _peak() -> int:
    try:
        status = _STATUS.read_text()
    except OSError:  # no Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024  # ru_maxrss has the parent's too
