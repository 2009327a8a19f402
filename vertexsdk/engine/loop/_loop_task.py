"""The task which carries out commands on a partition of a loop, where it is, and reports."""

from __future__ import annotations

import pickle
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.process_memory import peak_memory
from vertexsdk.arrays.raw_columns import decode
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._processor import load_topology
from vertexsdk.engine.bounded._auto_bound import BoundChoice
from vertexsdk.engine.loop import _partition_copies as copies
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

_held: dict[tuple[str, int], LoopPartition] = {}  # what other processes did is noticed
_HELD = 8  # partitions of which other processes may have newer versions
_lock = threading.Lock()


class LoopTask:
    """The callable which an `Exchange` runs.

    Args:
        plan: of the loop.
        layout: of the adjacency.
        key: the partitions' resident prefix.
        choice: the delay bound of a program that is computed anew; None for one that is not.
    """

    def __init__(
        self, plan: Plan, layout: str, key: str, choice: BoundChoice | None = None
    ) -> None:
        self.plan, self.layout, self.key, self.choice = plan, layout, key, choice

    def __call__(self, partition: int, command: LoopCommand, blocks: Blocks) -> Steps[None]:
        report = LoopReport(command.version + 1)
        if command.end:
            with _lock:
                live = _held.pop((self.key, partition), None)
            if live is not None:
                live.arena.close()
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
        else:
            live = self._partition(partition, command)
        arena = live.arena
        report.seconds["load"] = time.perf_counter() - clock
        if command.create is not None and command.create.code_step is not None:
            report.ranks = live.graph.names.codes // command.create.code_step - 1
        shared = not self.plan.resident  # with other processes; else nobody else has the arrays
        if shared:
            arena.begin()
        if command.thaw:
            arena.meta |= {"frozen": [0, 0], "shared": []}
        arena.meta["restarted"] = ""
        report.warm = live.begun
        if command.adopt is not None:
            with _lock:
                fork = _held.get((command.adopt, partition))
            if fork is not None and fork.plan.resident:
                fork.arena.publish()
            copies.adopt(live, shared_memory.directory(f"{command.adopt}/{partition}"))
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
            copies.fork(
                live,
                shared_memory.directory(f"{command.fork}/{partition}", 100 * live.graph.index.n),
            )
        for path in arena.unused():
            if str(path) not in arena.meta["shared"]:  # forks may read it still
                path.unlink()
        if shared:
            arena.commit(report.version)
        else:
            arena.version = report.version
        self._hold(live)  # only now: what a command left unfinished is lost
        report.seconds["save"] = time.perf_counter() - clock

    def _hold(self, live: LoopPartition) -> None:
        """Have the partition for the next command; where tasks move, only a few of them."""
        with _lock:
            _held[self.key, live.graph.partition] = live
            moving = [key for key, other in _held.items() if not other.plan.resident]
            given_up = [_held.pop(key) for key in moving[:-_HELD]]
        for other in given_up:
            other.arena.close()

    def _partition(self, partition: int, command: LoopCommand) -> LoopPartition:
        with _lock:
            live = _held.pop((self.key, partition), None)
        if live is None:
            path = shared_memory.directory(f"{self.key}/{partition}")
            live = self._open(Arena(path), partition)
            live.refresh()
        elif not self.plan.resident and live.arena.refresh():
            live.refresh()
        if live.arena.version != command.version:
            raise LostError(f"the graph is at version {live.arena.version}, not {command.version}")
        live.plan = self.plan  # a loop that was loaded becomes a branch, see `CanReadLoop.enter`
        return live

    def _create(self, partition: int, create: CreatePartition) -> Steps[LoopPartition]:
        t = load_topology(create.topologies[partition], partition)
        key = f"{self.key}/{partition}"
        shared_memory.drop(key)
        value = self.plan.program.value_dtype
        part = yield from partition_of(t, self.layout, create.named, create.code_step, value)
        if create.names is not None and create.code_step is not None:
            codes = np.arange(1, len(create.names[0])) * create.code_step
            part = replace(part, names=(codes, *create.names))
        each = 16 if t.value is not None else 8
        path = shared_memory.directory(key, 2 * each * part.topology.m + 100 * part.topology.n)
        live = self._open(Arena(path, fresh=True), partition)
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
