"""The task which carries out commands on a partition of a loop, where it is, and reports."""

from __future__ import annotations

import pickle
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.process_memory import peak_memory
from vertexsdk.arrays.raw_columns import decode
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._processor import load_topology
from vertexsdk.engine.bounded._auto_bound import BoundChoice
from vertexsdk.engine.loop._arena import Arena
from vertexsdk.engine.loop._commands import CreatePartition, LoopCommand, LoopReport
from vertexsdk.engine.loop._incremental_partition import IncrementalPartition
from vertexsdk.engine.loop._loop_partition import LoopPartition
from vertexsdk.engine.loop._new_partition import partition_of
from vertexsdk.engine.loop._recomputed_partition import RecomputedPartition
from vertexsdk.engine.supersteps import Steps
from vertexsdk.errors import LostError, RunError
from vertexsdk.graph.checkpoint import put_adjacency
from vertexsdk.state import SegmentRef
from vertexsdk.state.version_writer import store_of_run
from vertexsdk.transport.transport import DRIVER, Blocks

_partitions: dict[tuple[str, int], tuple[int, LoopPartition]] = {}  # and their versions
_lock = threading.Lock()


class LoopTask:
    """The callable which an `Exchange` runs.

    Args:
        plan: of the loop.
        layout: of the adjacency.
        key: of the loop's partitions in each process.
        choice: the delay bound of a program that is computed anew; None for one that is not.
    """

    def __init__(
        self, plan: Plan, layout: str, key: str, choice: BoundChoice | None = None
    ) -> None:
        self.plan, self.layout, self.key, self.choice = plan, layout, key, choice

    def __call__(self, partition: int, command: LoopCommand, blocks: Blocks) -> Steps[None]:
        report = LoopReport(command.version + 1)
        if command.end:
            _remove(self.key, partition)
            yield DRIVER, pickle.dumps(report)
            return
        try:
            yield from self._carry_out(partition, command, report)
        except LostError as lost:
            report.lost = str(lost)
        report.memory = peak_memory()
        yield DRIVER, pickle.dumps(report)

    def _carry_out(self, partition: int, command: LoopCommand, report: LoopReport) -> Steps[None]:
        clock = time.perf_counter()
        if command.create is not None:
            live = yield from self._create(partition, command.create)
            if command.create.code_step is not None:
                report.ranks = live.graph.names.codes // command.create.code_step - 1
        else:
            live = self._partition(partition, command)
        arena = live.arena
        report.seconds["load"] = time.perf_counter() - clock
        arena.meta["restarted"] = ""
        report.warm = live.begun
        if command.changes is not None:
            clock = time.perf_counter()
            columns = self._columns(command.changes)
            if "name.code" in columns:
                live.graph.names.add(*(columns[f"name.{n}"] for n in ("code", "offsets", "bytes")))
            report.counts, report.absent, report.work.touched = yield from live.take(
                columns["kind"], columns["source"], columns["target"], columns["value"],
                strict=command.strict,
            )  # fmt: skip
            report.refused = live.refused
            report.seconds["changes"] = time.perf_counter() - clock
        if command.iterate and not report.refused:
            clock = time.perf_counter()
            yield from live.iterate(command, report)
            report.seconds["kernel"] = time.perf_counter() - clock
        if command.write and (command.last or report.work.quiet) and report.failure is None:
            clock = time.perf_counter()
            self._write(live, report)
            report.seconds["commit"] = time.perf_counter() - clock
        if command.topology and self.plan.store is not None:
            edges = live.graph.own_edges()
            with store_of_run(self.plan.run, self.plan.store) as store:
                report.segments.append(
                    put_adjacency(store, self.plan.loop, partition, live.clock, edges)
                )
        report.restarted = str(arena.meta["restarted"])
        report.aggregates = dict(live.aggregates)
        report.clock, report.vertices = live.clock, live.graph.vertices
        report.edges = live.graph.adjacency.edges
        report.pending = live.pending
        clock = time.perf_counter()
        live.keep()
        if command.fork is not None:
            fork = self._open(arena.fork(), partition)
            fork.arena.meta["settled"] &= not self.plan.program.reads_loop  # branches do other work
            fork.refresh()
            live.refresh()
            _put(command.fork, partition, 1, fork)
        _put(self.key, partition, report.version, live)  # what a command left unfinished is lost
        report.seconds["save"] = time.perf_counter() - clock

    def _partition(self, partition: int, command: LoopCommand) -> LoopPartition:
        """Take the partition, or where the command says so, that of a fork in its place."""
        version, live = _remove(self.key, partition)
        if live is None or version != command.version:
            raise LostError("the graph is not on this host any more")
        fork = command.adopt and _remove(command.adopt, partition)[1]
        if command.adopt and fork is None:
            raise LostError("the fork is not on this host any more")
        arena = (fork or live).arena
        if fork or live.plan is not self.plan:  # a loop that was loaded may become a branch
            live = self._open(arena, partition)
            live.refresh()
        if fork:
            arena.meta["whole"] = True
        return live

    def _create(self, partition: int, create: CreatePartition) -> Steps[LoopPartition]:
        t = load_topology(create.topologies[partition], partition)
        value = self.plan.program.value_dtype
        part = yield from partition_of(t, self.layout, create.named, create.code_step, value)
        if create.names is not None and create.code_step is not None:
            codes = np.arange(1, len(create.names[0])) * create.code_step
            part = replace(part, names=(codes, *create.names))
        live = self._open(Arena(), partition)
        live.create(part)
        return live

    def _open(self, arena: Arena, partition: int) -> LoopPartition:
        if self.choice is None:
            return IncrementalPartition(self.plan, self.layout, arena, partition)
        return RecomputedPartition(self.plan, self.layout, arena, partition, self.choice)

    def _columns(self, changes: bytes | SegmentRef) -> dict[str, NDArray[Any]]:
        if isinstance(changes, bytes):
            return decode(changes, trusted=True)[0]
        if self.plan.store is None:
            raise RunError("a segment without a store")
        with store_of_run(self.plan.run, self.plan.store) as store:
            table = store.table(changes)
            return {name: table.column(name) for name in ("kind", "source", "target", "value")}

    def _write(self, live: LoopPartition, report: LoopReport) -> None:
        written = live.written()
        if written is None or self.plan.store is None:
            return
        kind, columns = written
        kind_: Any = kind
        with store_of_run(self.plan.run, self.plan.store) as store:
            report.segments = [
                store.put_segment(self.plan.loop, live.graph.partition, live.clock, kind_, columns)
            ]


def _remove(key: str, partition: int) -> tuple[int, LoopPartition | None]:
    """Remove a partition from those of this process; return its version, and None if it is none."""
    with _lock:
        return _partitions.pop((key, partition), (0, None))


def _put(key: str, partition: int, version: int, live: LoopPartition) -> None:
    with _lock:
        _partitions[key, partition] = version, live
