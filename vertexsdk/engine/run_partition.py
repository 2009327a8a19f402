"""A partition of a run: a graph that is loaded and stays as it is, and iterations from `init`."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.compile.adjacency_kernels import entries_of
from vertexsdk.compile.delivery import Delivery
from vertexsdk.compile.methods import Edges
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._events_partition import PICKLED, EventPartition
from vertexsdk.engine.answer_checks import not_finite
from vertexsdk.engine.auto_bound import BoundChoice
from vertexsdk.engine.commands import BeginRun, Counts, LoopCommand, LoopReport, Version, WorkDone
from vertexsdk.engine.iterations import Iterations, make_master
from vertexsdk.engine.loop_names import loop_of_snapshots
from vertexsdk.engine.master import IterationStats
from vertexsdk.engine.processor import Processor
from vertexsdk.engine.snapshot_writer import SnapshotWriter, WriteSnapshot
from vertexsdk.engine.snapshots import SnapshotRequest
from vertexsdk.engine.supersteps import RunPosition, Steps, SuperstepEnd, end_superstep
from vertexsdk.errors import InputError, LostError, RunError
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.program.algebra import Algebra
from vertexsdk.state import CorruptError, SegmentRef, Store
from vertexsdk.state.stored_columns import Described, accepted_values
from vertexsdk.state.stored_pickles import unpickle
from vertexsdk.state.version_writer import Writer, store_of_run
from vertexsdk.transport.transport import Blocks


class RunPartition:
    """The partition of a run that a `LoopTask` iterates.

    Args:
        plan: plan of the run.
        partition: its number.
        vertices: number of vertices of the graph, in all partitions.
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
        """Report the graph's checksum, or continue from a snapshot if there are segments."""
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

    def capture(self, request: SnapshotRequest) -> tuple[bool, WriteSnapshot]:
        """Copy the state as it is now, once what was sent here has been delivered."""
        del request
        self.iterations.deliver()
        self.processor.settle()
        columns, meta = captured(self.iterations, self._loaded)
        at = loop_of_snapshots(self.plan.loop), self.partition, self.iterations.iterations
        return True, lambda store: [store.put_segment(*at, "snapshot", columns, meta)]

    def iterate(
        self,
        command: LoopCommand,
        report: LoopReport,
        blocks: Blocks,
        snapshots: SnapshotWriter | None,
    ) -> Steps[None]:
        """Iterate as far as the command allows, and write the versions which are due.

        Args:
            blocks: what the superstep before sent here, where tasks do not stay.
            snapshots: stores snapshots, if the run takes some.
        """
        plan, run, work = self.plan, self.iterations, report.work
        master, iterations_before = run.master, run.iterations
        if command.position is not None:
            iterations_before = max(command.position.iteration - 1, 0)
        attempt = command.attempts[self.partition] if command.attempts else None
        with Writer(plan.run, plan.store, plan.loop, self.partition, attempt) as writer:
            versions = _DueVersions(self, command, writer, work, iterations_before)
            run.after_each = versions.write_if_due
            work.hops += run.alone
            if command.position is not None:
                run.resume(command.position, blocks, work)
            if snapshots is not None and command.snapshot is not None and master.reason is None:
                snapshots.take(command.snapshot, self.capture)
                report.cut = replace(work, iterations=run.iterations - iterations_before)
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
            if snapshots is not None:
                if master.reason is not None:
                    snapshots.close()
                report.snapshots = snapshots.finished()
            report.seconds["commit"] = time.perf_counter() - clock
        work.iterations = run.iterations - iterations_before
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
        writer: writes them, while iterations continue.
        work: that the command has done so far.
        iterations_before: iterations before the command.

    Attributes:
        not_finite: counts of the last version, if the run has ended.
    """

    def __init__(
        self,
        part: RunPartition,
        command: LoopCommand,
        writer: Writer,
        work: WorkDone,
        iterations_before: int,
    ) -> None:
        self._part, self._every, self._newest = part, command.every, command.after
        self._writer, self._work, self._iterations_before = writer, work, iterations_before
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
        work.iterations = iteration - self._iterations_before
        self._versions.append(
            Version(
                iteration, [], dict(run.master.aggregates), work, processor.count,
                reason, run.statistics,
            )
        )  # fmt: skip


Array = NDArray[Any]
Columns = dict[str, Array]
_AGGREGATE = "aggregate."
_META: dict[str, type] = {
    "all_pending": bool, "changed": bool, "iteration": int, "vertices": int, "placed": int,
    "python": list, "round": int, "begins": bool,
}  # fmt: skip
_NOBODY = np.empty(0, np.int32)


def graph_of(run: Iterations) -> Topology:
    """The partition's graph, as it was loaded if nothing has run yet."""
    part = run.processor
    topology: Topology = part.v.topology if isinstance(part, Processor) else part.topology
    return topology


def captured(run: Iterations, loaded: Array) -> tuple[Columns, dict[str, Any]]:
    """Return copies of what `restore` takes, as the columns and the meta of a segment.

    What was sent to the partition has been delivered, and settled.

    Args:
        loaded: int64[n], the vertices of the partition's graph as it was loaded.
    """
    master = run.master
    columns, meta = run.processor.captured()
    python = []
    for name, value in master.aggregates.items():
        column = np.empty(1, object)
        column[0] = value
        if run.plan.program.aggregators[name].dtype != object:
            column = np.array([value])
        columns[_AGGREGATE + name] = column
        if not isinstance(value, np.ndarray | np.generic):
            python.append(name)
    meta |= {
        "iteration": master.iteration, "vertices": run.vertices, "placed": zlib.crc32(loaded.data),
        "python": python, "round": master.round, "begins": master.begins,
    }  # fmt: skip
    return columns, meta


def restore(
    run: Iterations, store: Store, refs: Sequence[SegmentRef], *, alike: bool, trusted: bool
) -> Steps[None]:
    """Continue from a snapshot of the same graph, in a partition that has not begun.

    Args:
        refs: segments of all partitions that there were.
        alike: the graph is divided as it was then.
        trusted: pickled objects may be read.

    Raises:
        InputError: the graph is divided otherwise, and messages are not kept for each vertex.
        CorruptError: the snapshot does not fit the graph.
    """
    part = run.processor
    events = isinstance(part, EventPartition)
    used = [ref for ref in refs if ref.key.partition == part.partition] if alike else refs
    aggregates = run.plan.program.aggregators
    described = _described(part, aggregates)
    read = [_read(store, ref, described, trusted=trusted) for ref in used]
    columns, meta = read[0]
    if alike and meta["placed"] != zlib.crc32(graph_of(run).ids.data):
        raise InputError(
            f"{run.plan.program.name}: vertices are in other partitions than when the snapshot "
            "was taken; give the partitioner that the run had, or leave out resume=True"
        )
    if events:
        part.clear()
        for ref, (pickled, _) in zip(used, read, strict=True):
            with store.naming_segment(ref):
                content = unpickle(pickled["pickle"].tobytes(), *PICKLED)
                part.take_over(*content)
    elif alike:
        part.restore(columns, meta)
    else:
        yield from _divided(part, read)
    values = {
        name: _value(columns[_AGGREGATE + name], python=name in meta["python"])
        for name in aggregates
    }
    position = RunPosition(
        meta["iteration"], values, meta["vertices"], meta["round"], meta["begins"]
    )
    run.resume(position, [], WorkDone())


def _described(
    part: Processor | EventPartition, aggregators: Mapping[str, Algebra]
) -> dict[str, Described]:
    """Return what the segments of a snapshot must have."""
    if isinstance(part, EventPartition):
        return {"pickle": Described(np.uint8, rows="")}
    described = part.described()
    for name, one in aggregators.items():
        shape = () if one.size is None else (one.size,)
        described[_AGGREGATE + name] = Described(one.dtype, shape, rows="aggregate")
    return described


def _read(
    store: Store, ref: SegmentRef, described: Mapping[str, Described], *, trusted: bool
) -> tuple[Columns, dict[str, Any]]:
    """The columns and the meta of a segment; places are within its vertices."""
    columns = store.segment(ref, described=described, trusted=trusted)
    with store.naming_segment(ref):
        meta = accepted_values(store.table(ref).meta, _META)
        n = len(columns["id"]) if "id" in columns else 0
        for name in ("pending", "moved", "once.vertex"):
            places = columns.get(name, _NOBODY)
            if len(places) and not 0 <= places.min() <= places.max() < n:
                raise CorruptError(f"column {name!r} has a vertex that is not there")
        if len(columns.get("gathered", columns.get("id", _NOBODY))) < n:
            raise CorruptError("column 'gathered' is too short")
    return columns, meta


def _value(column: Array, *, python: bool) -> Any:
    value = column[0]
    if not python or column.dtype == object:
        return value.copy() if isinstance(value, np.ndarray) else value
    return value.item() if column.ndim == 1 else tuple(value.tolist())


def _divided(part: Processor, read: Sequence[tuple[Columns, dict[str, Any]]]) -> Steps[None]:
    """Take the rows of this partition's vertices from the segments of all that there were."""
    v, plan = part.v, part.plan
    why = _undivided(part, read)
    if why is not None:
        raise InputError(
            f"{plan.program.name}: {why}, so it continues with {len(read)} partitions only "
            f"(partitions={len(read)})"
        )
    ids, n = v.topology.ids, v.topology.n
    restored = np.zeros(n, np.bool_)
    waiting, same = {"pending": [ids[:0]], "moved": [ids[:0]]}, np.zeros(n, np.bool_)
    for columns, meta in read:
        then = columns["id"]
        rows = np.flatnonzero(np.isin(then, ids))
        at = np.searchsorted(ids, then[rows])
        restored[at] = True
        for name, values in v.states.items():
            values[at] = columns[f"state.{name}"][rows]
        for name, values in v.tracked.items():
            values[at] = columns[f"tracked.{name}"][rows]
        if plan.shape == "uniform":
            v.msg[at] = columns["msg"][rows]
        if v.gathered is not None:
            v.gathered[at] = columns["gathered"][rows]
            same[at] = _equal(columns["gathered"], columns["agg"])[rows]
        for name, some in waiting.items():
            some.append(then[columns[name]])
        if "once.vertex" in columns:
            for k, vertex in enumerate(then[columns["once.vertex"]].tolist()):
                there = int(np.searchsorted(ids, vertex))
                if there < n and ids[there] == vertex:
                    v.once[there] = columns["once.value"][k]
        v.all_pending = bool(meta["all_pending"])
    if not restored.all():
        raise InputError(
            f"{plan.program.name}: the snapshot lacks {np.count_nonzero(~restored):,} vertices of "
            "the graph; resume with the graph of which it is"
        )
    if plan.shape == "edge":
        t = v.topology
        edges, sources = entries_of(np.arange(n, dtype=np.int32), t.start[:n], t.stop)
        v.msg[edges] = part.methods[0].offers(
            replace(v, tracked=v.states), sources, Edges.numbered(t, edges)
        )
    yield from _combine(part)
    for name, some in waiting.items():
        here = np.intersect1d(np.concatenate(some), ids)
        setattr(v, name, np.searchsorted(ids, here).astype(np.int32))
    if v.gathered is not None:
        v.gathered[:n][same] = v.agg[:n][same]
        v.gathered[n:] = v.agg[n:]


def _undivided(part: Processor, read: Sequence[tuple[Columns, dict[str, Any]]]) -> str | None:
    """Why rows of a snapshot cannot be taken by other partitions; None if they can."""
    follow = part.plan.shape == "edge" and part.plan.program.classes[0].facts.edge_messages
    if part.plan.shape not in ("uniform", "derived") and not follow:
        return "its messages are kept for each edge"
    if any(meta["changed"] for _, meta in read):
        return "it has changed the graph"
    if part.plan.reaches:
        return "it reads the targets of targets"
    return None


def _combine(part: Processor) -> Steps[None]:
    """Combine the messages of all vertices, of this partition and others."""
    v, t, delivery = part.v, part.v.topology, part.delivery
    ghosts = np.arange(t.n, t.n + t.ghosts, dtype=np.int32)
    combines = part.algebra.kind != "latest"
    if combines:
        _recompute(delivery, ghosts, v.msg, v.agg)
    part.outgoing = {}
    part.send(ghosts)
    received, _ = yield from end_superstep(part.blocks(), SuperstepEnd())
    part.receive(received)
    if combines:
        _recompute(delivery, np.arange(t.n, dtype=np.int32), v.msg, v.agg)


def _recompute(delivery: Delivery, slots: Array, msg: Array, agg: Array) -> None:
    if len(slots):
        delivery.recompute(slots, msg, agg)
        delivery.finish(msg, agg)


def _equal(a: Array, b: Array) -> Array:
    """Return which rows have the same values."""
    rows = min(len(a), len(b))
    a, b = a[:rows], b[:rows]
    same: Array = (a == b) | ((a != a) & (b != b))
    if same.ndim > 1:
        same = np.logical_and.reduce(same, axis=1)
    return same


def graph_checksum(t: Topology) -> int:
    """The sum modulo 2^64 of the hashes of a partition's vertices and out-edges.

    Added up over all partitions it is the same for equal graphs, whatever their number. Of a vertex
    counts its class, of an edge its value.

    >>> from vertexsdk import Graph
    >>> sums = set()
    >>> for partitions in (1, 3):
    ...     graph = Graph.from_arrays([1, 2, 3], [2, 3, 1], partitions=partitions)
    ...     parts = [graph_checksum(graph.topology(("out", None, "combined"), p))
    ...              for p in range(partitions)]
    ...     sums.add(sum(parts) % (1 << 64))
    >>> len(sums)
    1
    """
    kinds = np.zeros(t.n, np.uint8) if t.kind is None else t.kind
    if t.value is None:
        values = np.zeros((len(t.target), 0), np.uint64)
    else:
        wide = t.value if t.value.dtype.itemsize == 8 else t.value.astype(np.float64)
        values = wide.view(np.uint64)
        values = values[:, None] if values.ndim == 1 else values
    slots = np.concatenate([t.ids, t.ghost_ids]).view(np.uint64)
    total: Any = _sum
    return int(total(slots, t.n, t.start, t.target, kinds, values))


@njit
def _mixed(x: Any) -> Any:
    """Splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    x += np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit
def _sum(slots, n, start, target, kinds, values):  # type: ignore[no-untyped-def]
    total = np.uint64(0)
    for v in range(n):
        source = _mixed(slots[v])
        total += _mixed(source + np.uint64(kinds[v]))
        for e in range(start[v], start[v + 1]):
            edge = source ^ (slots[target[e]] * np.uint64(3))
            for k in range(values.shape[1]):
                edge = _mixed(edge) ^ values[e, k]
            total += _mixed(edge)
    return total
