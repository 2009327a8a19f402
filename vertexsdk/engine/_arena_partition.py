"""The base of the partitions of loops with declared messages: a graph in an arena."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vertexsdk.compile.methods import Methods
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._loop_partition import LoopPartition
from vertexsdk.engine.arena import Arena
from vertexsdk.engine.commands import CreatePartition
from vertexsdk.engine.new_partition import NewPartition, partition_of
from vertexsdk.engine.partition_graph import PartitionGraph
from vertexsdk.engine.processor import methods_of
from vertexsdk.engine.snapshot_writer import SNAPSHOT_LAYERS, WriteSnapshot
from vertexsdk.engine.snapshots import SnapshotRequest
from vertexsdk.engine.supersteps import Steps
from vertexsdk.graph.checkpoint import put_adjacency
from vertexsdk.state import SegmentRef, Store
from vertexsdk.state.reading import NAME_COLUMNS, TOMBSTONE
from vertexsdk.state.version_writer import DeltaLayers

Array = NDArray[Any]
UNWRITTEN = np.uint8(1)  # bit of a column "dirty": since the last layer was written


class ArenaPartition(LoopPartition):
    """A partition of a loop whose graph is in an arena; what its subclasses have in common.

    Args:
        plan: plan of the loop.
        layout: layout of the adjacency.
        partition: its number.
        columns: dtype and default of every array with an entry for each place, by name.
    """

    def __init__(
        self,
        plan: Plan,
        layout: str,
        partition: int,
        columns: Mapping[str, tuple[DTypeLike, Any]],
    ) -> None:
        self.plan, self.layout, self.partition, self._columns = plan, layout, partition, columns
        self._place(Arena())

    def _place(self, arena: Arena) -> None:
        """Have what is in an arena."""
        self.arena = arena
        self.graph = self._graph_in(arena)
        self.__dict__.pop("class_methods", None)  # those of a fork are its own

    def _graph_in(self, arena: Arena) -> PartitionGraph:
        return PartitionGraph(
            arena, self.layout, self.partition, len(self.plan.topologies), self.plan.threads,
            self._columns, self.plan.program.value_dtype,
        )  # fmt: skip

    @cached_property
    def class_methods(self) -> list[Methods]:
        """The methods of each class of the program."""
        return methods_of(self.plan, 0, self.graph.id_codec)

    @property
    def methods(self) -> Methods:
        """The methods of the program's first class, as its only one."""
        return self.class_methods[0]

    def create(self, create: CreatePartition) -> Steps[None]:
        """Make the partition from the loaded graph, before iteration 0."""
        new = yield from partition_of(self.plan, self.layout, self.partition, create)
        self.begin(new)

    def begin(self, new: NewPartition) -> None:
        """Begin with a graph, before iteration 0."""
        self.graph.create(new)

    def keep(self) -> None:
        """Leave in the arena what a fork needs to know."""

    def refresh(self) -> None:
        """Take the arrays of the arena again, after they were moved or made longer."""

    def expect_changes(self, count: int) -> None:
        """Prepare for so many changes of the graph."""
        self.keep()
        if self.arena.expect_writes(count):
            self.refresh()

    def fork(self) -> Self:
        self.keep()
        other = copy.copy(self)
        other._place(self.arena.fork())
        other.arena.meta["settled"] &= not self.plan.program.reads_loop  # branches do other work
        other.refresh()
        self.refresh()
        return other

    def enter(self, plan: Plan) -> None:
        self.keep()
        self.plan = plan
        self.__dict__.pop("class_methods", None)
        self.refresh()

    def supersede(self, other: Self) -> None:
        self.arena.meta["layers"] = None  # the store has what the other one wrote
        ours, theirs = (x.arena.meta.get(SNAPSHOT_LAYERS) for x in (self, other))
        if ours is None or theirs is None or ours[0] != theirs[0]:  # a snapshot since the fork
            self.arena.meta[SNAPSHOT_LAYERS] = None

    def take_dirty(
        self, bit: np.uint8, layers: DeltaLayers | None
    ) -> tuple[Array, DeltaLayers | None]:
        """Return the places at which a bit of "dirty" is set, and set it no more.

        Args:
            layers: those that were written; None where a base is due.

        Returns:
            The places, and the layers with a delta of them; None if a base is due.
        """
        dirty = self.arena["dirty"]
        rows = np.flatnonzero((dirty & bit).view(np.bool_))  # ten times as fast as of ints
        dirty[rows] &= ~bit
        return rows, layers and layers.add(len(rows), self.graph.vertices)

    def written_layer(self, states: Mapping[str, Array]) -> tuple[str, dict[str, Array]] | None:
        """Return the columns of a base, or of a delta of the rows that are dirty, if any are.

        Args:
            states: a column of all places for each field.
        """
        a, meta = self.arena, self.arena.meta
        alive = a["alive"]
        rows, layers = self.take_dirty(UNWRITTEN, meta["layers"])
        if meta["layers"] is not None and not len(rows):
            return None
        is_base = layers is None
        if is_base:
            rows = self.graph.in_order()
        else:
            rows = rows[np.argsort(a["ids"][rows])]
        meta["layers"] = layers or DeltaLayers()
        columns = {"id": a["ids"][rows], **{n: x[rows] for n, x in states.items()}}
        if "name.code" in a:
            columns |= dict(zip(NAME_COLUMNS, self.graph.names.packed(columns["id"]), strict=True))
        if not is_base and not alive[rows].all():
            columns[TOMBSTONE] = alive[rows] == 0
        return ("base" if is_base else "delta"), columns

    def close(self) -> None:
        arena = self.arena
        self.__dict__.clear()  # an exception may still refer to this
        arena.close()

    @property
    def vertices(self) -> int:
        return self.graph.vertices

    @property
    def edges(self) -> int:
        return self.graph.adjacency.edges

    @property
    def clock(self) -> int:
        """The number of iterations; with `messages` the level of what changes now."""
        return int(self.arena.meta["clock"])

    def add_names(self, codes: Array, offsets: Array, data: Array) -> None:
        self.graph.names.add(codes, offsets, data)

    def capture(self, request: SnapshotRequest) -> tuple[bool, WriteSnapshot]:
        """Take the graph for a snapshot, without a state."""
        if not request.graph:
            return False, lambda store: []
        graph = self.graph
        if not request.waits:
            self.keep()
            graph = self._graph_in(self.arena.fork())
            self.refresh()
        return False, partial(self._put_graph, graph, self.clock)

    def _put_graph(self, graph: PartitionGraph, clock: int, store: Store) -> list[SegmentRef]:
        return [put_adjacency(store, self.plan.loop, self.partition, clock, graph.own_edges())]
