"""The task which carries out commands on an incremental partition, where it is, and reports."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.process_memory import peak_memory
from vertexsdk.arrays.raw_columns import decode
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._master import Master
from vertexsdk.engine._processor import load_topology
from vertexsdk.engine._trimming import MESSAGES_WORSE
from vertexsdk.engine.engine import WorkDone
from vertexsdk.engine.incremental import _partition_copies as copies
from vertexsdk.engine.incremental._arena import Arena
from vertexsdk.engine.incremental._new_partition import partition_of
from vertexsdk.engine.incremental._partition import IncrementalPartition
from vertexsdk.engine.incremental._partition_end import Steps
from vertexsdk.engine.incremental._restart_policy import RestartPolicy
from vertexsdk.engine.task import arithmetic_of, make_master
from vertexsdk.errors import LostError, RunError, VertexError
from vertexsdk.graph.checkpoint import put_adjacency
from vertexsdk.graph.edge_kernels import COUNTS
from vertexsdk.state import SegmentRef
from vertexsdk.state.version_writer import store_of_run
from vertexsdk.transport.transport import DRIVER, Blocks

__all__ = ["CreatePartition", "IncrementalCommand", "IncrementalReport", "IncrementalTask"]


@dataclass(frozen=True, slots=True)
class CreatePartition:
    """Make the partitions of a graph which is loaded: their keys, and who is named."""

    topologies: tuple[str, ...]
    named: NDArray[np.int64]  # ids, or ranks of names, ascending
    code_step: int | None = None  # between the codes of names; None where ids are integers
    names: tuple[NDArray[np.int64], NDArray[np.uint8]] | None = None  # all; None: those it has


@dataclass(frozen=True, slots=True)
class IncrementalCommand:
    """One job: from `version`, which the partition must be at, to the next.

    `changes` are encoded columns, or the segment that has them. With `iterate` iterations run until
    the loop is quiet, for `seconds`, and at most `iterations` of them. With `write` the state goes
    to the store when they end; where they are not the `last`, only if the loop is quiet. With
    `fork` another partition is made, under that key, which stands where this one stands then.
    """

    version: int
    create: CreatePartition | None = None
    changes: bytes | SegmentRef | None = None
    strict: bool = False
    iterate: bool = False
    seconds: float = 1.0
    iterations: int | None = None
    write: bool = False
    last: bool = True
    fork: str | None = None
    adopt: str | None = None  # stand where this fork stands
    thaw: bool = False  # no fork reads the pools any more
    topology: bool = False  # write the edges to the store
    end: bool = False  # let go of the partition


@dataclass(slots=True)
class IncrementalReport:
    """What a task tells the driver; see `CommandResult`."""

    version: int
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    absent: list[int] = field(default_factory=list)
    work: WorkDone = field(default_factory=WorkDone)
    warm: bool = True
    restarted: str = ""
    aggregates: dict[str, Any] = field(default_factory=dict)
    clock: int = 0
    segments: list[SegmentRef] = field(default_factory=list)
    refused: bool = False  # the changes, because one of them met no edge
    vertices: int = 0
    edges: int = 0
    pending: int = 0
    lost: str | None = None
    failure: VertexError | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    memory: int = 0
    ranks: NDArray[np.int64] | None = None  # of a new partition's names

    @classmethod
    def total(cls, reports: Sequence[IncrementalReport]) -> IncrementalReport:
        """What all partitions tell; what they decide alike is in the report of each."""
        total = reports[0]
        for report in reports[1:]:
            for name, count in report.counts.items():
                total.counts[name] += count
            total.absent += report.absent
            total.segments += report.segments
            for name in ("vertices", "edges", "pending"):
                setattr(total, name, getattr(total, name) + getattr(report, name))
            for name in ("updates", "messages", "touched"):
                setattr(total.work, name, getattr(total.work, name) + getattr(report.work, name))
            total.lost = total.lost or report.lost
            total.memory = max(total.memory, report.memory)
            if total.ranks is not None and report.ranks is not None:
                total.ranks = np.concatenate([total.ranks, report.ranks])
            for name, value in report.seconds.items():
                total.seconds[name] = max(total.seconds.get(name, 0.0), value)
        total.absent.sort()
        return total


_held: dict[tuple[str, int], IncrementalPartition] = {}  # what other processes did is noticed
_HELD = 8  # partitions of which other processes may have newer versions
_lock = threading.Lock()


class IncrementalTask:
    """The callable which an `Exchange` runs; `key` is the partition's resident prefix."""

    def __init__(self, plan: Plan, layout: str, key: str) -> None:
        self.plan, self.layout, self.key = plan, layout, key

    def __call__(self, partition: int, command: IncrementalCommand, blocks: Blocks) -> Steps[None]:
        report = IncrementalReport(command.version + 1)
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

    def _carry_out(
        self, partition: int, command: IncrementalCommand, report: IncrementalReport
    ) -> Steps[None]:
        clock = time.perf_counter()
        if command.create is not None:
            live = yield from self._create(partition, command.create)
        else:
            live = self._partition(partition, command)
        arena = live.arena
        report.seconds["load"] = time.perf_counter() - clock
        if command.create is not None and command.create.code_step is not None:
            report.ranks = live.names.codes // command.create.code_step - 1
        shared = not self.plan.resident  # with other processes; else nobody else has the arrays
        if shared:
            arena.begin()
        if command.thaw:
            arena.meta |= {"frozen": [0, 0], "shared": []}
        arena.meta["restarted"] = ""
        report.warm = bool(arena.meta["begun"])
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
                live.names.add(*(columns[f"name.{n}"] for n in ("code", "offsets", "bytes")))
            report.counts, report.absent, report.work.touched = yield from live.take(
                columns["kind"], columns["source"], columns["target"], columns["value"],
                strict=command.strict,
            )  # fmt: skip
            report.refused = live.refused
            report.seconds["changes"] = time.perf_counter() - clock
        if command.iterate and not report.refused:
            clock = time.perf_counter()
            yield from self._iterate(live, command, report)
            report.seconds["kernel"] = time.perf_counter() - clock
        if command.write and (command.last or report.work.quiet) and report.failure is None:
            clock = time.perf_counter()
            self._write(live, report)
            report.seconds["commit"] = time.perf_counter() - clock
        if command.topology and self.plan.store is not None:
            store = store_of_run(self.plan.run, self.plan.store)
            edges = copies.edges(live)
            report.segments.append(
                put_adjacency(store, self.plan.loop, partition, live.clock, edges)
            )
        report.restarted = str(arena.meta["restarted"])
        report.aggregates = dict(live.aggregates)
        report.clock, report.vertices = live.clock, live.vertices
        report.edges = live.adjacency.edges
        report.pending = arena.length("pending")
        clock = time.perf_counter()
        live.keep()
        if command.fork is not None:
            copies.fork(
                live, shared_memory.directory(f"{command.fork}/{partition}", 100 * live.index.n)
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

    def _hold(self, live: IncrementalPartition) -> None:
        """Have the partition for the next command; where tasks move, only a few of them."""
        with _lock:
            _held[self.key, live.partition] = live
            moving = [key for key, other in _held.items() if not other.plan.resident]
            given_up = [_held.pop(key) for key in moving[:-_HELD]]
        for other in given_up:
            other.arena.close()

    def _partition(self, partition: int, command: IncrementalCommand) -> IncrementalPartition:
        with _lock:
            live = _held.pop((self.key, partition), None)
        if live is None:
            path = shared_memory.directory(f"{self.key}/{partition}")
            live = IncrementalPartition(self.plan, self.layout, Arena(path), partition)
            live.refresh()
        elif not self.plan.resident and live.arena.refresh():
            live.refresh()
        if live.arena.version != command.version:
            raise LostError(f"the graph is at version {live.arena.version}, not {command.version}")
        return live

    def _create(self, partition: int, create: CreatePartition) -> Steps[IncrementalPartition]:
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
        live = IncrementalPartition(self.plan, self.layout, Arena(path, fresh=True), partition)
        live.create(part)
        return live

    def _columns(self, changes: bytes | SegmentRef) -> dict[str, NDArray[Any]]:
        if isinstance(changes, bytes):
            return decode(changes, trusted=True)[0]
        if self.plan.store is None:
            raise RunError("a segment without a store")
        table = store_of_run(self.plan.run, self.plan.store).table(changes)
        return {name: table.column(name) for name in ("kind", "source", "target", "value")}

    def _iterate(
        self, live: IncrementalPartition, command: IncrementalCommand, report: IncrementalReport
    ) -> Steps[None]:
        began = time.monotonic()
        meta, pace = live.arena.meta, RestartPolicy(live.arena.meta)
        work = report.work
        waiting = yield from live.waiting()
        if meta["begun"] and (meta["settled"] or not (self.plan.always or waiting)):
            work.reason, work.quiet = "quiet", True
            return
        if command.iterations == 0:
            return
        sums = not live.comparing
        if sums and meta["begun"] and pace.slower:
            live.restart(pace.reason)
        master = self._master(live)
        warm = bool(meta["begun"])
        while True:
            ends = partial(_ends, master.iteration, master)
            with arithmetic_of(self.plan):
                progress, total = yield from live.step(
                    max(master.iteration, 1), dict(master.aggregates), ends,
                    lambda: time.monotonic() - began > command.seconds,
                )  # fmt: skip
            if total.failure is not None:
                report.failure = total.failure
                return
            work.add(progress)
            more = master.advance(total.progress)
            live.aggregates = dict(master.aggregates)
            fell = meta["falling"] and report.warm
            if fell or (more and sums and warm and pace.tired(1)):
                report.warm = warm = False
                live.restart(MESSAGES_WORSE if fell else pace.reason)
                master = self._master(live)
                continue
            if not more:
                work.reason, work.quiet = master.reason, True
                meta["settled"] = True
                pace.quiet(from_init=not warm, iterations=master.iteration)
                return
            if command.iterations is not None and work.iterations >= command.iterations:
                return
            if total.late:
                return

    def _master(self, live: IncrementalPartition) -> Master:
        master = make_master(self.plan, live.all_vertices)
        if live.arena.meta["begun"]:
            # With sums the first iteration reads aggregates of the graph before, and ends nothing.
            master.aggregates = dict(live.aggregates)
            master.iteration = 1 if live.comparing else 0
        return master

    def _write(self, live: IncrementalPartition, report: IncrementalReport) -> None:
        written = copies.written(live)
        if written is None or self.plan.store is None:
            return
        kind, columns = written
        store = store_of_run(self.plan.run, self.plan.store)
        kind_: Any = kind
        report.segments = [
            store.put_segment(self.plan.loop, live.partition, live.clock, kind_, columns)
        ]


def _ends(iteration: int, master: Master, aggregates: dict[str, Any]) -> bool:
    """Whether the loop ends with an iteration that contributed these aggregates."""
    return iteration > 0 and master.converged(iteration, aggregates)
