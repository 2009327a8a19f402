"""A partition whose graph changes, of a program that counts along the edges at each vertex.

Where scatter adds up integers, each of one edge and the rows of its two ends (`Facts.not_local`), a
changed edge changes only what is counted along the edges at its ends. So these are counted before
the change and after it, and messages and counters take the difference, which is exact for integers.
Then the vertices whose sums or rows differ gather. The first answer, and one after changes at
much of the graph, are computed as those of any other program.

Source: the neighbourhood of a change in GraphBolt (Mariappan and Vora, EuroSys 2019) and in
"Differential dataflow" (McSherry et al., CIDR 2013), for one iteration and a group as its algebra.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.compile.delivery import Delivery, filled, message_count
from vertexsdk.compile.methods import Scope
from vertexsdk.compile.mutation_log import MutationLog
from vertexsdk.compile.plan import Plan, delivery_module
from vertexsdk.compile.vertex_arrays import VertexArrays, default_column
from vertexsdk.engine._arena_partition import UNWRITTEN
from vertexsdk.engine._recomputed_partition import MUCH, FollowingPartition
from vertexsdk.engine.adjacency import RowTopology, distinct
from vertexsdk.engine.commands import AnswerStart, LoopReport
from vertexsdk.engine.partition_graph import ResolvedChanges
from vertexsdk.engine.supersteps import Steps, SuperstepEnd, end_superstep
from vertexsdk.errors import VertexError
from vertexsdk.graph.topology.target_rows import TargetRows
from vertexsdk.transport.transport import Blocks

Array = NDArray[Any]
_DUE = np.uint8(4)  # bit of the column "dirty": the vertex is to gather
_FEW = 1 << 16  # edges that are counted sooner than a graph is arranged
_WORTH = 4  # from scratch all edges are counted once, and the graph is arranged for that


@dataclass(slots=True)
class _ChangeEnd(SuperstepEnd):
    """The report of a partition about a batch of changes.

    Attributes:
        at_ends: how many edges there are at the ends of changed edges.
        edges: how many entries the partition's rows have.
        failed: a method raised an error.
    """

    at_ends: int = 0
    edges: int = 0
    failed: bool = False


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts along some edges, at their sources and at their targets.

    Attributes:
        sources: places (int32).
        counters: what was added to each field, by its name, at these.
        targets: places (int32).
        sums: messages to these, [k] or [k, size].
    """

    sources: Array
    counters: Mapping[str, Array]
    targets: Array
    sums: Array


class _PartDelivery(Delivery):
    """Delivers messages along some of a partition's edges."""

    def dense(self, edges: int) -> bool:
        """Never: what is pulled would come along all edges."""
        return False


class LocalPartition(FollowingPartition):
    """A partition of a loop that follows changes by what is counted along the edges at their ends.

    Args:
        plan: the plan of the loop, with one class for which `why_not_local` has no reason.
        layout: the layout of the adjacency.
        partition: the partition's number.
        start: the start of the loop's answers.
    """

    def __init__(self, plan: Plan, layout: str, partition: int, start: AnswerStart) -> None:
        assert plan.program.algebra is not None
        self.algebra = plan.program.algebra
        fields = plan.program.states().items()
        self.counters = plan.program.classes[0].facts.counters
        self.module = delivery_module(self.algebra)
        self._sums = [f"sum.{k}" for k in range(self.algebra.size or 1)]
        columns: dict[str, Any] = {"dirty": (np.uint8, 0)}
        columns |= {f"state.{n}": (f.dtype, f.default) for n, f in fields if f.size is None}
        columns |= dict.fromkeys(self._sums, (self.algebra.dtype, self.algebra.identity))
        super().__init__(plan, layout, partition, start, columns)

    # Changes. -------------------------------------------------------------------------------------

    def edit(self, changes: ResolvedChanges, columns: Mapping[str, Array]) -> Steps[int]:
        """Make changes; sums and counters follow at once, states before the next answer."""
        graph = self.graph
        if not self.begun:
            return (yield from super().edit(changes, columns))
        ends = graph.index.find(np.concatenate([columns["source"], columns["target"]]))
        if graph.alone:
            ends = np.concatenate([changes.edits.row, changes.edits.key])
        ends = distinct(ends[ends >= 0], graph.index.n)
        end = _ChangeEnd(edges=int(self.arena.meta["entries"]))
        end.at_ends = int(graph.degrees(graph.mirrors.local(ends)).sum())
        _, told = yield from end_superstep([], end)
        if _WORTH * sum(e.at_ends for e in told) > max(sum(e.edges for e in told), _FEW):
            self.recompute(MUCH)
            return (yield from super().edit(changes, columns))
        earlier = yield from self._counted(ends)
        _, _, removed = graph.edit(changes)
        later = yield from self._counted(ends)
        touched = yield from self._follow(ends, earlier, later)
        self.forget(removed)
        if graph.tidy() is not None:
            self.arena.meta["layers"] = None
        return touched

    def _counted(self, ends: Array) -> Steps[_Counts | None]:
        """Count along the edges at ends of changes; None where the program fails.

        Args:
            ends: places (int32, ascending).
        """
        graph, plan = self.graph, self.plan
        local = graph.mirrors.local(ends)
        lengths, target, reverse = self.rows_of(local)
        source = np.repeat(local, lengths)
        reach = None
        if plan.reaches:
            lengths, others, back = self.rows_of(local, incoming=True)
            known = np.isin(others, ends)  # those edges are counted at their own ends
            source = np.concatenate([source, others[~known]])
            target = np.concatenate([target, np.repeat(local, lengths)[~known]])
            reverse = np.concatenate([reverse, back[~known]])
            needed = distinct(np.concatenate([local, others, target]), graph.index.n)
            reach = yield from self._target_rows(needed)
        order = np.lexsort((reverse, graph.index.rank[target], source))
        source, target, reverse = source[order], target[order], reverse[order]
        todo, lengths = np.unique(source, return_counts=True)
        topology: Any = self._topology_of(todo, lengths, target, reverse)
        if reach is not None:
            reach = replace(reach, part=topology.target)
        v, states = self._arrays(topology, reach), plan.program.states()
        fields = {n: states[n] for n in sorted(self.counters)}
        v.msg = filled(message_count(topology, plan.shape), self.algebra)
        v.states |= {n: default_column(graph.index.n, f) for n, f in fields.items()}
        delivery = self._delivery(topology)
        scope = Scope(v, delivery, 0, {}, {}, MutationLog(self.algebra, None))
        try:
            self.methods.scatter(scope, todo)
        except VertexError:
            return None
        changed = delivery.finish(v.msg, v.agg)
        counted = {n: v.states[n][todo] - f.default for n, f in fields.items()}
        return _Counts(todo, counted, changed, v.agg[changed])

    def _follow(self, ends: Array, earlier: _Counts | None, later: _Counts | None) -> Steps[int]:
        """Have sums and counters take the difference, and those gather for which it matters.

        Returns:
            How many vertices these are.
        """
        graph, arena = self.graph, self.arena
        end, parts = _ChangeEnd(failed=earlier is None or later is None), list[Any]()
        columns: dict[str, Array] = {}
        if earlier is not None and later is not None:
            columns = self._difference(earlier, later)
            owners = graph.mirrors.owners(arena["ids"][columns["place"]])
            for p in np.unique(owners[owners != graph.partition]).tolist():
                part = {n: x[owners == p] for n, x in columns.items()}
                part["id"] = arena["ids"][part.pop("place")]
                parts.append((p, part))
            columns = {n: x[owners == graph.partition] for n, x in columns.items()}
        received, told = yield from self._exchange(parts, end)
        if any(e.failed for e in told):
            self.recompute(self.arena.meta["restart"] or "a method failed")
            return 0
        due = [graph.mirrors.local(ends)]
        others = [{"place": graph.index.find(part["id"]), **part} for _, part in received]
        for part in (columns, *others):
            due.append(part["place"])
            for name in (*self._sums, *(f"state.{n}" for n in self.counters)):
                arena[name][part["place"]] += part[name]  # a place is there once
        places = distinct(np.concatenate(due), graph.index.n)
        arena["dirty"][places] |= _DUE
        return len(places)

    def _difference(self, earlier: _Counts, later: _Counts) -> dict[str, Array]:
        """Return what sums and counters change by, as columns with a row for each such place."""
        places = distinct(
            np.concatenate([earlier.sources, earlier.targets, later.sources, later.targets]),
            self.graph.index.n,
        )
        columns = {n: np.zeros(len(places), self.algebra.dtype) for n in self._sums}
        columns |= {f"state.{n}": np.zeros(len(places), np.int64) for n in sorted(self.counters)}
        for counts, sign in ((earlier, -1), (later, 1)):
            at = np.searchsorted(places, counts.sources)
            for name, values in counts.counters.items():
                columns[f"state.{name}"][at] += sign * values
            at = np.searchsorted(places, counts.targets)
            sums = counts.sums.reshape(len(at), len(self._sums))
            for k, name in enumerate(self._sums):
                columns[name][at] += sign * sums[:, k]
        kept = np.zeros(len(places), np.bool_)
        for column in columns.values():
            kept |= column != 0
        return {"place": places[kept], **{n: x[kept] for n, x in columns.items()}}

    # Rows. ----------------------------------------------------------------------------------------

    def _target_rows(self, places: Array) -> Steps[TargetRows]:
        """The rows of vertices of this partition and of others, by place; other rows are empty."""
        graph, ids = self.graph, self.arena["ids"]
        is_local = graph.mirrors.are_local(places)
        listed, n = places[is_local], graph.index.n
        lengths, target, _ = self.rows_of(listed)
        others = np.zeros(0, np.int64)
        if not graph.alone:
            rest = places[~is_local]
            owners = graph.mirrors.owners(ids[rest])
            parts = [(p, {"id": ids[rest[owners == p]]}) for p in np.unique(owners).tolist()]
            asked, _ = yield from self._exchange(parts, SuperstepEnd())
            answers = []
            for p, columns in asked:
                count, to, _ = self.rows_of(graph.index.find(columns["id"]))
                answers.append((p, {"id": columns["id"], "count": count, "target": ids[to]}))
            received, _ = yield from self._exchange(answers, SuperstepEnd())
            came = [columns for _, columns in received]
            if came:
                row, count, to = (
                    np.concatenate([c[name] for c in came]) for name in ("id", "count", "target")
                )
                there = graph.index.find(to)
                others = np.unique(to[there < 0])
                there[there < 0] = n + np.searchsorted(others, to[there < 0])
                listed = np.concatenate([listed, graph.index.find(row)])
                lengths = np.concatenate([lengths, count])
                target = np.concatenate([target, there.astype(np.int32)])
        start, stop = self._bounds(listed, lengths)
        return TargetRows.frozen(start, stop, target, others)

    def _exchange(
        self, parts: list[tuple[int, dict[str, Array]]], end: SuperstepEnd
    ) -> Steps[tuple[list[Any], list[Any]]]:
        """Send columns to other partitions; return those that came, by sender, and all ends."""
        blocks: Blocks = [(p, encode_bytes(columns)) for p, columns in parts]
        self.bytes_sent += sum(len(block) for _, block in blocks)
        received, told = yield from end_superstep(blocks, end)
        return [(p, decode(block, trusted=True)[0]) for p, block in received], told

    def _topology_of(
        self, sources: Array, lengths: Array, target: Array, reverse: Array
    ) -> RowTopology:
        """A topology that has these rows, one after the other, and no others."""
        start, stop = self._bounds(sources, lengths)
        target = target.astype(np.int32, copy=False)
        for array in (start, stop, target, reverse):
            array.flags.writeable = False  # as those of a topology, or kernels compile twice
        ids = self.arena.read("ids")
        return RowTopology.of_rows(ids, start, stop, target, reverse)

    def _bounds(self, places: Array, lengths: Array) -> tuple[Array, Array]:
        """The bounds of rows that lie one after the other, by place; other rows are empty."""
        start, stop = np.zeros((2, self.graph.index.n), np.int64)
        ends = np.cumsum(lengths)
        start[places], stop[places] = ends - lengths, ends
        return start, stop

    # Methods. -------------------------------------------------------------------------------------

    def _delivery(self, topology: Any) -> Delivery:
        delivery = _PartDelivery(
            topology, self.algebra, self.plan.shape, self.module, self.plan.threads
        )
        delivery.pulls = False
        return delivery

    def _arrays(self, topology: Any, reach: TargetRows | None) -> VertexArrays:
        none = np.zeros(0, np.int32)
        agg, msg = (filled(count, self.algebra) for count in (self.graph.index.n, 0))
        return VertexArrays(topology, self.states(), msg, agg, none, all_pending=False, reach=reach)

    def follow(self, report: LoopReport) -> Steps[str]:
        """Have the vertices gather that are due; return why `init` has to begin, or ""."""
        arena, meta, work = self.arena, self.arena.meta, report.work
        todo = np.flatnonzero(arena["dirty"] & _DUE).astype(np.int32)
        arena["dirty"][todo] &= ~_DUE
        todo = todo[arena["alive"][todo] != 0]
        lengths, target, reverse = self.rows_of(todo)
        topology = self._topology_of(todo, lengths, target, reverse)
        reach = None
        if self.plan.reaches:
            none = np.zeros(0, np.int64)
            reach = TargetRows(topology.start, topology.stop, topology.target, none)
        v = self._arrays(topology, reach)
        for k, name in enumerate(self._sums):
            (v.agg if v.agg.ndim == 1 else v.agg[:, k])[todo] = arena[name][todo]
        log = MutationLog(self.algebra, None)
        end = SuperstepEnd()
        try:
            self.methods.gather(Scope(v, self._delivery(topology), 1, {}, {}, log), todo)
        except VertexError as error:
            end.failure = error
        _, told = yield from end_superstep([], end)
        if any(e.failure is not None for e in told):
            return "a method failed"
        arena["dirty"][todo] |= UNWRITTEN
        meta["clock"] += 1
        work.iterations, work.updates, work.touched = 1, len(todo), len(todo)
        work.reason, work.quiet = meta["reason"], True
        return ""

    def take_over(self, report: LoopReport) -> Steps[None]:
        """Keep what iterations from `init` came to, and follow changes from there."""
        assert self._iterations is not None
        agg, places = self._iterations.processor.v.agg, self.graph.in_order()
        agg = agg[: len(places)].reshape(len(places), len(self._sums))
        for k, name in enumerate(self._sums):
            self.arena[name][places] = agg[:, k]
        self._arranged = None  # the next run from init is after changes at much of the graph
        yield from super().take_over(report)
