"""A partition whose graph changes, of a program whose every answer begins with `init`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.compile.plan import Plan
from vertexsdk.compile.vertex_arrays import default_column
from vertexsdk.engine._arena_partition import UNWRITTEN, ArenaPartition
from vertexsdk.engine.auto_bound import BoundChoice
from vertexsdk.engine.commands import LoopCommand, LoopReport
from vertexsdk.engine.iterations import Iterations, make_master
from vertexsdk.engine.new_partition import NewPartition
from vertexsdk.engine.partition_graph import ResolvedChanges
from vertexsdk.engine.processor import Processor, with_classes
from vertexsdk.engine.supersteps import Steps, SuperstepEnd, end_superstep
from vertexsdk.graph.load.build_topology import NO_GHOSTS, NO_KIND, Inbound, Variant, build_topology
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.state.version_writer import DeltaLayers

Array = NDArray[Any]


class RecomputedPartition(ArenaPartition):
    """The graph of a partition, and the iterations that compute an answer for it as it is.

    Args:
        plan: plan of the loop.
        layout: layout of the adjacency.
        partition: its number.
        choice: the delay bound of the iterations.
        columns: other arrays with an entry for each place.
    """

    def __init__(
        self,
        plan: Plan,
        layout: str,
        partition: int,
        choice: BoundChoice,
        columns: Mapping[str, tuple[DTypeLike, Any]] | None = None,
    ) -> None:
        super().__init__(plan, layout, partition, {"kind": (np.uint8, NO_KIND), **(columns or {})})
        self.choice = choice
        self._iterations: Iterations | None = None  # of the answer to the graph as it is

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
        return Iterations(processor, make_master(plan, total), self.choice)

    def _topology(self) -> Steps[tuple[Topology, int]]:
        """The graph as a run takes it, and how many vertices all partitions have."""
        plan, graph, program = self.plan, self.graph, self.plan.program
        partition = graph.partition
        placement = graph.mirrors.placement
        ghosts = "each" if plan.each else "combined"
        variant = Variant(program.direction, program.value_dtype, ghosts)
        rows = graph.local_rows(program.direction, each=plan.each)
        blocks = [
            (p, encode_bytes(rows.ghosts_of(p).to_columns()))
            for p in range(len(plan.topologies))
            if p != partition
        ]
        self.bytes_sent += sum(len(block) for _, block in blocks)
        end = SuperstepEnd(vertices=graph.vertices)
        received, ends = yield from end_superstep(blocks, end)
        inbound = [NO_GHOSTS] * len(plan.topologies)
        for p, block in received:
            inbound[p] = Inbound.from_columns(decode(block, trusted=True)[0])
        topology = build_topology(
            rows, inbound, variant, partition=partition, placement=placement, threads=plan.threads
        )
        if len(program.classes) > 1:
            topology = replace(topology, kind=self.arena["kind"][graph.in_order()])
        if "name.code" in self.arena:
            topology = replace(topology, names=graph.names.packed(topology.ids))
        for array in topology.to_columns()[0].values():
            array.flags.writeable = False  # as those that were loaded, or kernels compile twice
        return with_classes(topology, plan), sum(e.vertices for e in ends)

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

    Among its columns are `dirty`, and `state.NAME` for each field that is a single number.
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
        graph, direction = self.graph, self.plan.program.direction
        ranks, _, reverse, lengths = graph.arrange(
            places, graph.index.rank, direction, incoming=incoming
        )
        if reverse is None:
            reverse = np.zeros(len(ranks), np.bool_)
        return lengths, graph.index.order[ranks], reverse

    def states(self) -> dict[str, Array]:
        """The columns of all fields, by place; vectors are always at their defaults."""
        n, arena = self.graph.index.n, self.arena
        return {
            name: arena[f"state.{name}"] if f.size is None else default_column(n, f)
            for name, f in self.plan.program.states().items()
        }

    def follow(self, report: LoopReport) -> Steps[str]:
        """Compute the answer from the last one; return why it has to begin with `init`, or ""."""
        raise NotImplementedError

    def take_over(self) -> Steps[None]:
        """Keep what iterations from `init` came to, and follow changes from there."""
        assert self._iterations is not None
        states, places = self._iterations.processor.v.states, self.graph.in_order()
        for name, f in self.plan.program.states().items():
            if f.size is None:
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
            yield from self.take_over()

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
