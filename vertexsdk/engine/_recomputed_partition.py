"""A partition whose graph changes, of a program whose every answer begins with `init`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.compile.plan import Plan
from vertexsdk.compile.vertex_arrays import default_column
from vertexsdk.engine._arena_partition import UNWRITTEN, ArenaPartition
from vertexsdk.engine.adjacency import distinct, in_parts
from vertexsdk.engine.commands import AnswerStart, LoopCommand, LoopReport
from vertexsdk.engine.iterations import Iterations, make_master
from vertexsdk.engine.new_partition import NewPartition
from vertexsdk.engine.partition_graph import PartitionGraph, ResolvedChanges
from vertexsdk.engine.processor import Processor, with_classes
from vertexsdk.engine.supersteps import Steps, SuperstepEnd, end_superstep
from vertexsdk.graph.load.build_topology import (
    NO_GHOSTS,
    NO_KIND,
    Inbound,
    Variant,
    build_topology,
)
from vertexsdk.graph.load.transpose import order_inbound
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.state.version_writer import DeltaLayers

Array = NDArray[Any]
MUCH = "the changes are at much of the graph"  # why an answer begins with `init`
_PARTS = 64  # batches of changes
_FEW = 4  # a topology is patched where less than a fourth of its entries is at changed edges


@dataclass(slots=True)
class _Arranged:
    """The topology of a graph as it was for an answer, and where edges have changed since.

    Attributes:
        topology: as built, without names and classes.
        changed: ids of the ends of changed edges (int64), in parts.
    """

    topology: Topology
    changed: list[Array] = field(default_factory=list)

    def add(self, ends: Array, vertices: int) -> bool:
        """Add ends of changed edges; return False where they are much of the graph.

        Args:
            ends: ids (int64), distinct.
            vertices: the number of vertices of the graph.
        """
        self.changed.append(ends)
        if len(self.changed) >= _PARTS:
            self.changed = [np.unique(np.concatenate(self.changed))]
        return sum(map(len, self.changed)) <= vertices // 2 + _PARTS

    def places(self, graph: PartitionGraph) -> Array:
        """Places (int32) of the ends of changed edges, ascending by id."""
        index = graph.index
        places = index.find(np.concatenate([np.zeros(0, np.int64), *self.changed]))
        places = distinct(places[places >= 0], index.n)
        return places[np.argsort(index.rank[places])]


class _Patch:
    """The topology of a graph, where rows at changed edges are new and all others are copied.

    Args:
        old: the topology as it was.
        graph: the graph as it is now.
        places: places of the ends of edges that have changed, ascending by id.
        direction: in which the program follows edges.
        each: whether ghosts are one per remote edge.
        threads: the result does not depend on it.
    """

    def __init__(
        self,
        old: Topology,
        graph: PartitionGraph,
        places: Array,
        direction: str,
        *,
        each: bool,
        threads: int,
    ) -> None:
        self.old, self.graph, self.each, self.threads = old, graph, each, threads
        self.direction = direction
        arena, index = graph.arena, graph.index
        mine = graph.in_order()
        self.id_of = arena["ids"]
        self.ids, self.n = self.id_of[mine], len(mine)
        self.moved = _moved(old.ids, self.ids)
        self.slot = np.full(index.n, -1, np.int32)
        self.slot[mine] = np.arange(self.n)
        local = graph.mirrors.are_local(places)
        self.rows = places[local & (self.slot[places] >= 0)]
        self.changed = np.zeros(old.n, np.bool_)  # local vertices as they were numbered
        known = _moved(self.id_of[places[local]], old.ids)
        self.changed[known[known >= 0]] = True
        self.changed |= self.moved < 0
        self.mirrors = places[~local]

    def topology(self) -> Topology:
        """The topology of the graph as it is now."""
        old, slot, rows = self.old, self.slot, self.slot[self.rows]
        graph, direction = self.graph, self.direction
        lengths, targets, pick, reverse = graph.rows_of(self.rows, direction)
        degrees, sources, _, _ = graph.rows_of(self.rows, direction, incoming=True)
        row, source = np.repeat(rows, degrees), slot[sources]
        here = source >= 0
        parts: dict[str, Any] = {}
        target, moved, inbound_moved = slot[targets], self.moved, np.zeros(0, np.int32)
        to_ghosts = [np.zeros(0, np.int32)] * 2
        if not graph.alone:
            ghosts, target, to_ghosts = self._ghosts(np.repeat(rows, lengths), targets)
            inbound, arrivals = self._inbound(row[~here], sources[~here])
            parts = {
                "ghost_ids": self.ghost_ids, "ghost_start": ghosts.start,
                "inbound": inbound.column(self.moved[old.inbound], arrivals),
                "inbound_start": inbound.start,
            }  # fmt: skip
            if old.producers is not None:
                parts["producers"] = inbound.column(old.producers, inbound.others)
            moved = np.concatenate([moved, _after(self.n, ghosts.moved)])
            inbound_moved = _after(self.n, inbound.moved)
            row = np.concatenate([row[here], to_ghosts[0], arrivals])
            source = np.concatenate([source[here], to_ghosts[1], self.n + inbound.places])
        out = _Splice(old.start, self.moved, self.n, rows, lengths, self.threads)
        values = graph.adjacency.values_at(pick)
        value = old.value
        if values is not None and value is not None:
            value = out.column(value, values)
        turned = old.reverse
        if reverse is not None and turned is not None:
            turned = out.column(turned, reverse)
        now = replace(
            old, ids=self.ids, start=out.start, value=value,
            target=out.mapped(old.target, moved, target),
            reverse=turned, **parts,
        )  # fmt: skip
        slots = np.unique(np.concatenate([rows, to_ghosts[0]]))
        entries = np.concatenate([self.moved, inbound_moved])
        return self._with_in_rows(now, moved, slots, row, source, entries)

    def _ghosts(self, row: Array, targets: Array) -> tuple[_Merged, Array, list[Array]]:
        """The ghosts as they are now.

        Args:
            row: the row of each new entry.
            targets: the place of its target.

        Returns:
            The ghosts, the slot of each target, and rows and sources of edges to new ghosts.
        """
        old, index, n = self.old, self.graph.index, self.n
        owner = self.graph.arena["owner"]
        slots = self.slot[targets]
        if self.each:
            away = np.flatnonzero(slots < 0)
            source = old.in_source[old.in_start[old.n : -1]]
            given = owner[targets[away]], self.id_of[targets[away]], self.ids[row[away]]
            ghosts = _Merged(
                old.ghost_start, old.ghost_ids, old.ids[source], ~self.changed[source], *given
            )
            self.ghost_ids = ghosts.column(old.ghost_ids, given[1])
            slots[away] = n + ghosts.places
            return ghosts, slots, [slots[away], row[away]]
        lengths, sources, _, _ = self.graph.rows_of(self.mirrors, self.direction, incoming=True)
        used = self.mirrors[lengths > 0]
        at = index.find(old.ghost_ids)
        changed = np.zeros(index.n, np.bool_)
        changed[self.mirrors] = True
        kept = (at >= 0) & ~changed[at]
        none = np.zeros(old.ghosts, np.int64), np.zeros(len(used), np.int64)
        ghosts = _Merged(
            old.ghost_start, old.ghost_ids, none[0], kept, owner[used], self.id_of[used], none[1]
        )
        self.ghost_ids = ghosts.column(old.ghost_ids, self.id_of[used])
        self.slot[index.find(self.ghost_ids)] = n + np.arange(len(self.ghost_ids))
        ghosts.moved = np.where(at < 0, -1, np.maximum(self.slot[at] - n, -1)).astype(np.int32)
        edges = [np.repeat(self.slot[used], lengths[lengths > 0]), self.slot[sources]]
        return ghosts, self.slot[targets], edges

    def _inbound(self, row: Array, sources: Array) -> tuple[_Merged, Array]:
        """The ghosts in other partitions of vertices of this one.

        Args:
            row: rows of new entries that come from other partitions.
            sources: the places of their sources.

        Returns:
            These ghosts, and the row of each new one.
        """
        old, owner = self.old, self.graph.arena["owner"][sources]
        others: Array = np.zeros(len(old.inbound), np.int64)
        producer = np.zeros(len(row), np.int64)
        if self.each and old.producers is not None:
            others, producer = old.producers, self.id_of[sources]
        else:
            order = np.lexsort((row, owner))
            first = np.ones(len(row), np.bool_)
            first[1:] = (np.diff(row[order]) != 0) | (np.diff(owner[order]) != 0)
            row, owner, producer = row[order[first]], owner[order[first]], producer[first]
        kept = ~self.changed[old.inbound]
        ids = old.ids[old.inbound]
        return _Merged(old.inbound_start, ids, others, kept, owner, self.ids[row], producer), row

    def _with_in_rows(
        self, now: Topology, moved: Array, rows: Array, row: Array, source: Array, entries: Array
    ) -> Topology:
        """The topology with its transposed adjacency.

        Args:
            now: the topology but for that.
            moved: the new slot of each old one, -1 for one that went.
            rows: the slots whose rows are new, ascending.
            row, source: the entries of these, in any order.
            entries: the new number of each old source.
        """
        old, count = self.old, self.n + now.ghosts
        lengths = np.bincount(np.searchsorted(rows, row), minlength=len(rows))
        into = _Splice(old.in_start, moved, count, rows, lengths, self.threads)
        fresh = source[np.lexsort((source, row))].astype(np.int32)
        in_source = into.mapped(old.in_source, entries, fresh)
        now = replace(now, in_start=into.start, in_source=in_source)
        if now.producers is None or old.in_order is None:
            return now
        producer = now.ids[np.minimum(source, self.n - 1)]
        producer[source >= self.n] = now.producers[source[source >= self.n] - self.n]
        fresh = source[np.lexsort((source, producer, row))].astype(np.int32)
        in_order = into.mapped(old.in_order, entries, fresh)
        return replace(
            now, in_order=in_order, inbound_order=order_inbound(now.producers, now.inbound_start)
        )


class _Merged:
    """Ghosts by partition, id and producer, of which some went and others came.

    Attributes:
        start: int64[P + 1], the bounds of each partition's.
        moved: the new number (int32) of each one before, -1 for those that went.
        places: the number of each new one.
        others: the producers of the new ones.

    Args:
        start, ids, others: as they were.
        kept: which of these there still are.
        group, fresh, producer: partition, id and producer of the new ones, in any order.
    """

    def __init__(
        self, start: Array, ids: Array, others: Array, kept: Array, group: Array, fresh: Array,
        producer: Array,
    ) -> None:  # fmt: skip
        order = np.lexsort((producer, fresh, group))
        self.others = producer
        self.moved = np.empty(len(ids), np.int32)
        places = np.empty(len(order), np.int64)
        merge: Any = _merge
        merge(
            start, ids, others, kept, group[order], fresh[order], producer[order], self.moved,
            places,
        )  # fmt: skip
        self.places = np.empty(len(order), np.int64)
        self.places[order] = places
        counts = np.bincount(group, minlength=len(start) - 1)
        counts += [np.count_nonzero(kept[a:z]) for a, z in itertools.pairwise(start.tolist())]
        self.start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def column(self, old: Array, fresh: Array) -> Array:
        """A value for each, from those before and those of the new ones."""
        out = np.empty(int(self.start[-1]), old.dtype)
        fill: Any = _fill
        fill(self.moved, old, out)
        out[self.places] = fresh
        return out


@njit
def _merge(start, ids, others, kept, group, fresh, producer, moved, places):  # type: ignore[no-untyped-def]
    """Number what is kept, and each new (group, id, producer) behind all that are not above it."""
    count, k = 0, 0
    for i in range(len(ids)):
        while k < len(fresh) and (
            i >= start[group[k] + 1]
            or (
                i >= start[group[k]]
                and (fresh[k] < ids[i] or (fresh[k] == ids[i] and producer[k] < others[i]))
            )
        ):
            places[k] = count
            count += 1
            k += 1
        moved[i] = -1
        if kept[i]:
            moved[i] = count
            count += 1
    for j in range(k, len(fresh)):
        places[j] = count
        count += 1


@njit
def _fill(moved, old, out):  # type: ignore[no-untyped-def]
    for i in range(len(moved)):
        if moved[i] >= 0:
            out[moved[i]] = old[i]


class _Splice:
    """Rows of which some are new, and all others are those of before.

    Attributes:
        start: int64[count + 1], the bounds of the rows.

    Args:
        start: the bounds of the rows before.
        moved: the new number (int32) of each of these, -1 for one that is left out.
        count: the number of rows.
        rows: numbers of the new rows.
        lengths: how many entries each has.
        threads: the result does not depend on it.
    """

    def __init__(
        self, start: Array, moved: Array, count: int, rows: Array, lengths: Array, threads: int
    ) -> None:
        self._threads, self._old = threads, start
        self._origin = np.zeros(count, np.int64)  # of an old row, or -1 - number of a new one
        self._fresh = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.start = np.zeros(count + 1, np.int64)
        place: Any = _place_rows
        place(start, moved, rows, self._fresh, self._origin, self.start)

    def column(self, old: Array, fresh: Array) -> Array:
        """The values of all entries, from those of the rows before and of the new ones."""
        return self._spliced(_splice, old, fresh)

    def mapped(self, old: Array, table: Array, fresh: Array) -> Array:
        """Entries of all rows (int32): those of before by a table (int32), and new ones."""
        return self._spliced(_splice_mapped, old, fresh.astype(np.int32, copy=False), table)

    def _spliced(self, kernel: Any, old: Array, fresh: Array, *table: Array) -> Array:
        out = np.empty((int(self.start[-1]), *old.shape[1:]), old.dtype)
        arrays = self._origin, self.start, self._old, old, self._fresh, fresh, out, *table
        in_parts(len(self._origin), self._threads, lambda a, b: kernel(a, b, *arrays))
        return out


@njit
def _place_rows(old_start, moved, rows, fresh_start, origin, start):  # type: ignore[no-untyped-def]
    for k in range(len(moved)):
        if moved[k] >= 0:
            origin[moved[k]] = k
            start[moved[k] + 1] = old_start[k + 1] - old_start[k]
    for j in range(len(rows)):
        origin[rows[j]] = -1 - j
        start[rows[j] + 1] = fresh_start[j + 1] - fresh_start[j]
    for r in range(len(origin)):
        start[r + 1] += start[r]


@njit
def _splice(first, last, origin, start, old_start, old, fresh_start, fresh, out):  # type: ignore[no-untyped-def]
    for r in range(first, last):
        k = origin[r]
        begin = old_start[k] if k >= 0 else fresh_start[-1 - k]
        for e in range(start[r], start[r + 1]):
            out[e] = old[begin] if k >= 0 else fresh[begin]
            begin += 1


@njit
def _splice_mapped(  # type: ignore[no-untyped-def]
    first, last, origin, start, old_start, old, fresh_start, fresh, out, table
):
    for r in range(first, last):
        k = origin[r]
        begin = old_start[k] if k >= 0 else fresh_start[-1 - k]
        for e in range(start[r], start[r + 1]):
            out[e] = table[old[begin]] if k >= 0 else fresh[begin]
            begin += 1


def _moved(old: Array, now: Array) -> Array:
    """The place (int32) of each old id among those of now, all ascending; -1 if it went."""
    if np.array_equal(old, now):
        return np.arange(len(old), dtype=np.int32)
    at = np.searchsorted(now, old)
    there = at < len(now)
    there[there] = now[at[there]] == old[there]
    return np.where(there, at, -1).astype(np.int32)


def _after(first: int, places: Array) -> Array:
    """Places (int32) behind `first` others; -1 stays."""
    return np.where(places < 0, places, places + np.int32(first))


@dataclass(slots=True)
class _ArrangedEnd(SuperstepEnd):
    """The report of a partition that arranges its graph.

    Attributes:
        built: it has no topology of before, or most of it differs.
    """

    built: bool = False


class RecomputedPartition(ArenaPartition):
    """The graph of a partition, and the iterations that compute an answer for it as it is.

    Args:
        plan: plan of the loop.
        layout: layout of the adjacency.
        partition: its number.
        start: the start of the loop's answers.
        columns: other arrays with an entry for each place.
    """

    def __init__(
        self,
        plan: Plan,
        layout: str,
        partition: int,
        start: AnswerStart,
        columns: Mapping[str, tuple[DTypeLike, Any]] | None = None,
    ) -> None:
        super().__init__(plan, layout, partition, {"kind": (np.uint8, NO_KIND), **(columns or {})})
        self.start = start
        self._iterations: Iterations | None = None  # of the answer to the graph as it is
        self._arranged: _Arranged | None = None

    def begin(self, new: NewPartition) -> None:
        """Begin with a graph, before iteration 0."""
        super().begin(new)
        if new.kind is not None:
            self.arena["kind"][...] = new.kind
        self.arena.meta |= {"clock": 0, "aggregates": {}, "settled": False, "unwritten": False}

    def fork(self) -> RecomputedPartition:
        """Return a copy, in which iterations that have not ended begin again."""
        other = super().fork()
        other._iterations = None
        if self._arranged is not None:
            other._arranged = replace(self._arranged, changed=list(self._arranged.changed))
        return other

    @property
    def begun(self) -> bool:
        """False: every answer begins with `init`."""
        return False

    @property
    def aggregates(self) -> dict[str, Any]:
        return dict(self.arena.meta["aggregates"])

    @property
    def pending(self) -> int:
        return 0 if self.arena.meta["settled"] else self.graph.vertices

    def take(
        self, columns: Mapping[str, Array], *, strict: bool
    ) -> Steps[tuple[dict[str, int], list[int], int]]:
        """Take in changes, in order."""
        self.expect_changes(len(columns["kind"]))
        changes = self.graph.resolve(columns)
        counts, absent = changes.counts, changes.absent
        self.refused = False
        if strict:
            end = SuperstepEnd(vertices=len(absent))
            _, ends = yield from end_superstep([], end)
            self.refused = any(e.vertices for e in ends)
        if self.refused or (self.graph.alone and not len(changes.edits)):
            return counts, absent, 0
        self.arena.meta["settled"], self._iterations = False, None
        if self._arranged is not None:
            places = np.concatenate([changes.edits.row, changes.edits.key])
            ids = self.arena["ids"][distinct(places, self.graph.index.n)]
            if not self._arranged.add(ids, self.graph.vertices):
                self._arranged = None
        touched = yield from self.edit(changes, columns)
        return counts, absent, touched

    def edit(self, changes: ResolvedChanges, columns: Mapping[str, Array]) -> Steps[int]:
        """Make changes, which were resolved from these columns; return how many vertices follow.

        No vertex is touched before the next answer.
        """
        del columns
        self.graph.edit(changes)
        self.graph.tidy()
        yield from ()
        return 0

    def iterate(self, command: LoopCommand, report: LoopReport) -> Steps[None]:
        """Iterate, from `init` after changes; where nothing has changed the answer stands."""
        meta, work = self.arena.meta, report.work
        report.warm = False
        if meta["settled"]:
            work.reason, work.quiet = "nothing changed", True
            return
        if self._iterations is None:
            self._iterations = yield from self._begin()
        run = self._iterations
        iterations_before = run.iterations
        report.failure = yield from run.run(work, command.seconds, command.iterations)
        work.iterations = run.iterations - iterations_before
        meta["clock"] += work.iterations
        report.statistics = run.statistics
        meta["aggregates"] = run.master.aggregates
        meta["unwritten"] = True
        work.reason, work.quiet = run.master.reason, run.master.reason is not None
        meta["settled"] = work.quiet

    def _begin(self) -> Steps[Iterations]:
        """Arrange the graph as it is for iterations."""
        plan, graph = self.plan, self.graph
        topology, total = yield from self._topology()
        processor = Processor(plan, graph.partition, total, topology, graph.id_codec)
        return Iterations(processor, make_master(plan, total), self.start.choice)

    def _topology(self) -> Steps[tuple[Topology, int]]:
        """The graph as a run takes it, and how many vertices all partitions have."""
        graph, (arranged, self._arranged) = self.graph, (self._arranged, None)
        end = _ArrangedEnd(vertices=graph.vertices, built=arranged is None)
        if arranged is not None:
            places = arranged.places(graph)
            end.built = _FEW * int(graph.degrees(places).sum()) > arranged.topology.m
        _, ends = yield from end_superstep([], end)
        if arranged is None or any(e.built for e in ends):
            topology = yield from self._build()
        else:
            plan = self.plan
            topology = _Patch(
                arranged.topology, graph, places, plan.program.direction,
                each=plan.each, threads=plan.threads,
            ).topology()  # fmt: skip
        for array in topology.to_columns()[0].values():
            array.flags.writeable = False  # as those that were loaded, or kernels compile twice
        self._arranged = _Arranged(topology)
        if self.plan.kinds:
            topology = replace(topology, kind=self.arena["kind"][graph.in_order()])
        if "name.code" in self.arena:
            topology = replace(topology, names=graph.names.packed(topology.ids))
        return with_classes(topology, self.plan), sum(e.vertices for e in ends)

    def _build(self) -> Steps[Topology]:
        """Arrange the graph as it is."""
        plan, graph, program = self.plan, self.graph, self.plan.program
        partitions, placement = len(plan.topologies), graph.mirrors.placement
        variant = Variant(
            program.direction, program.value_dtype, "each" if plan.each else "combined"
        )
        rows = graph.local_rows(program.direction, each=plan.each)
        blocks = [
            (p, encode_bytes(rows.ghosts_of(p).to_columns()))
            for p in range(partitions)
            if p != graph.partition
        ]
        self.bytes_sent += sum(len(block) for _, block in blocks)
        received, _ = yield from end_superstep(blocks, SuperstepEnd())
        inbound = [NO_GHOSTS] * partitions
        for p, block in received:
            inbound[p] = Inbound.from_columns(decode(block, trusted=True)[0])
        return build_topology(
            rows, inbound, variant, partition=graph.partition, placement=placement,
            threads=plan.threads,
        )  # fmt: skip

    def written(self) -> tuple[str, dict[str, Array]] | None:
        """The columns of a base, if there were iterations since the last call."""
        if not self.arena.meta["unwritten"] or self._iterations is None:
            return None
        self.arena.meta["unwritten"] = False
        columns = self._iterations.processor.result()
        if self.arena.meta["settled"]:
            self._iterations = None
        return "base", columns


class FollowingPartition(RecomputedPartition):
    """A partition of a loop whose answer may follow from the last one.

    Among its columns are `dirty`, and `state.NAME` for each field whose value is kept.
    """

    def begin(self, new: NewPartition) -> None:
        """Begin with a graph, before iteration 0."""
        super().begin(new)
        self.arena.meta |= {"follows": False, "layers": None, "reason": None, "restart": ""}

    @property
    def begun(self) -> bool:
        """True if the next answer follows from the last one."""
        return bool(self.arena.meta["follows"])

    def recompute(self, reason: str) -> None:
        """Have the next answer begin with `init`."""
        self.arena.meta |= {"follows": False, "restart": reason}

    def forget(self, removed: Array) -> None:
        """Have the vertices that went at their defaults, should they return."""
        self.arena["dirty"][removed] = UNWRITTEN
        for name, (_, default) in self._columns.items():
            if name != "dirty":
                self.arena[name][removed] = default

    def rows_of(self, places: Array, *, incoming: bool = False) -> tuple[Array, Array, Array]:
        """The targets of vertices as the program has them, or with `incoming` their sources.

        Returns:
            How many each vertex has, their places (int32) in the order of ids, and whether each
            entry of the source's row is of an edge against its direction (bool).
        """
        direction = self.plan.program.direction
        lengths, targets, _, reverse = self.graph.rows_of(places, direction, incoming=incoming)
        return lengths, targets, np.zeros(len(targets), np.bool_) if reverse is None else reverse

    def states(self) -> dict[str, Array]:
        """The columns of all fields, by place; those that are not kept are at their defaults."""
        n, arena = self.graph.index.n, self.arena
        return {
            name: arena[f"state.{name}"] if f"state.{name}" in arena else default_column(n, f)
            for name, f in self.plan.program.states().items()
        }

    def follow(self, report: LoopReport) -> Steps[str]:
        """Compute the answer from the last one; return why it has to begin with `init`, or ""."""
        raise NotImplementedError

    def take_over(self, report: LoopReport) -> Steps[None]:
        """Keep what iterations from `init` came to, and follow changes from there.

        Args:
            report: takes statistics of what is kept.
        """
        del report
        assert self._iterations is not None
        states, places = self._iterations.processor.v.states, self.graph.in_order()
        for name in states:
            if f"state.{name}" in self.arena:
                self.arena[f"state.{name}"][places] = states[name]
        self.arena["dirty"][...] = 0
        reason = self._iterations.master.reason
        self.arena.meta |= {"follows": True, "layers": None, "reason": reason, "restart": ""}
        yield from ()

    def iterate(self, command: LoopCommand, report: LoopReport) -> Steps[None]:
        """Have the answer follow from the last one, or compute it from `init`."""
        meta, work = self.arena.meta, report.work
        if self.begun and not meta["settled"]:
            reason = yield from self.follow(report)
            if not reason:
                meta["settled"] = meta["unwritten"] = True
                return
            self.recompute(reason)
        elif self.begun:
            work.reason, work.quiet = "nothing changed", True
            return
        self.restarted = meta["restart"]
        yield from super().iterate(command, report)
        if work.quiet and report.failure is None and work.reason != "nothing changed":
            yield from self.take_over(report)

    def written(self) -> tuple[str, dict[str, Array]] | None:
        """The columns of a base, or of a delta of what changed since the last call, if any."""
        meta = self.arena.meta
        if not self.begun or self._iterations is not None:
            base = super().written()
            if base is not None:
                meta["layers"] = DeltaLayers()
            return base
        if not meta["unwritten"]:
            return None
        meta["unwritten"] = False
        return self.written_layer(self.states())
