"""The graph of one partition, in an arena: its vertices and edges, changed in place.

A vertex that goes keeps its place, in case it returns, until most places are of vertices that went.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vertexsdk.engine.loop._adjacency import Adjacency
from vertexsdk.engine.loop._arena import Arena
from vertexsdk.engine.loop._local_index import VertexIndex
from vertexsdk.engine.loop._mirrors import Mirrors
from vertexsdk.engine.loop._new_partition import NewPartition
from vertexsdk.engine.loop._row_edits import Edits, distinct
from vertexsdk.engine.loop._row_kernels import BACKWARD, FORWARD
from vertexsdk.engine.loop._vertex_names import VertexNames
from vertexsdk.graph.id_codec import IdCodec
from vertexsdk.graph.load.build_topology import AdjacencyRows, LocalRows, with_ghosts

Array = NDArray[Any]
SPARE = 1 << 16  # places of vertices that went which are always kept


@dataclass(slots=True)
class ResolvedChanges:
    """What a batch of changes comes to in one partition; nothing is changed yet.

    Attributes:
        edits: one per edge with an end here that changes.
        counted: bool[k], which of the edits are of edges out of this partition's own vertices.
        counts: by the names of `COUNTS`; a change is counted by the partition of its source.
        absent: numbers of the changes, counted here, which met no edge.
    """

    edits: Edits
    counted: Array
    counts: dict[str, int]
    absent: list[int]


class PartitionGraph:
    """The vertices of one partition, all edges at them, and what their owner keeps by place.

    Args:
        arena: where it is; `create` fills a new one.
        layout: of the adjacency.
        partition, partitions: the partition's number, and how many there are.
        threads: that kernels may use.
        columns: dtype and default of every other array with an entry for each place, by name.
        value: value dtype of the program, see `edge_attributes`.
    """

    def __init__(
        self,
        arena: Arena,
        layout: str,
        partition: int,
        partitions: int,
        threads: int,
        columns: Mapping[str, tuple[DTypeLike, Any]],
        value: str | None,
    ) -> None:
        self.arena, self.partition, self.layout = arena, partition, layout
        self.mirrors = Mirrors(arena, partition, partitions)
        self.alone = self.mirrors.alone
        self.adjacency = Adjacency(arena, layout, threads, value)
        self.index = VertexIndex(arena, threads)
        self.names = VertexNames(arena)
        self._columns = {"alive": (np.uint8, 0), "named": (np.bool_, False), **columns}

    def create(self, new: NewPartition) -> None:
        """Begin with a graph."""
        t = new.topology
        self.mirrors.create(new.placement)
        self.index.create(t.ids)
        if new.names is not None:
            self.names.create(*new.names)
        self.adjacency.create(t, new.edges)
        for name, (dtype, _) in self._columns.items():
            self.arena.resize(name, 0, dtype)
        self._grow(0)
        self.arena["named"][...] = new.named
        everyone = np.arange(t.n)
        alive = (self._degrees(everyone) > 0) | new.named
        self.arena["alive"][...] = alive & self.mirrors.are_local(everyone)
        self.arena.meta["vertices"] = int(self.arena["alive"].sum())

    @property
    def id_codec(self) -> IdCodec | None:
        """The names of string ids; None where ids are integers."""
        return IdCodec(self.names) if "name.code" in self.arena else None

    @property
    def vertices(self) -> int:
        """How many vertices the partition has."""
        return int(self.arena.meta["vertices"])

    def everyone(self) -> Array:
        """The places (int32, ascending) of all vertices that are there."""
        alive = self.arena["alive"]
        if self.vertices == len(alive):
            return np.arange(len(alive), dtype=np.int32)
        return np.flatnonzero(alive.view(np.bool_)).astype(np.int32)

    def in_order(self) -> Array:
        """The places (int32) of all vertices that are there, ascending by id."""
        order = self.index.order
        there: Array = order[self.arena["alive"][order] != 0]
        return there

    def resolve(self, columns: Mapping[str, Array]) -> ResolvedChanges:
        """Find what changes, in order, come to; vertices that are new get places.

        Args:
            columns: as those of `LoopPartition.take`.
        """
        kind, source, target, value = (columns[n] for n in ("kind", "source", "target", "value"))
        mirrors = self.mirrors
        number, own = np.arange(len(kind)), mirrors.owns(source)
        if not self.alone:
            number = np.flatnonzero(own | mirrors.owns(target))
            kind, source, target, value = (x[number] for x in (kind, source, target, value))
            own = own[number]
        a, b = self._places(kind, source, target)
        edits, counts, absent = self.adjacency.resolve(kind, a, b, value)
        if not self.alone:
            counts = self.adjacency.resolve(kind[own], a[own], b[own], value[own])[1]
            absent &= own
        return ResolvedChanges(edits, mirrors.are_local(edits.row), counts, number[absent].tolist())

    def edit(self, changes: ResolvedChanges) -> tuple[Edits, Array, Array]:
        """Make the changes; return edits of out-rows, and the vertices that came, and that went.

        Returns:
            The edits, and places (int32, ascending).
        """
        rows = changes.edits
        if len(rows):
            rows = self.adjacency.edit(rows, changes.counted)
        return rows, *self._update_presence(changes.edits)

    def tidy(self) -> Array | None:
        """Compact rows; where most places are of vertices that went, give places anew.

        Returns:
            The new place of each old one (int32), -1 for those that went; None where all stay.
        """
        self.adjacency.compact()
        places = self.index.n - int(self.arena.meta["mirrors"])
        if places <= 2 * self.vertices + SPARE:
            return None
        return self._renumber(self._used_places())

    def _places(self, kind: Array, source: Array, target: Array) -> tuple[Array, Array]:
        a, b = self.index.find(source), self.index.find(target)
        unknown = (kind == 0) & ((a < 0) | (b < 0))
        if unknown.any():
            ids = np.concatenate([source[unknown & (a < 0)], target[unknown & (b < 0)]])
            before = self.index.n
            self.index.add(np.unique(ids))
            self._grow(before)
            a, b = self.index.find(source), self.index.find(target)
        return a, b

    def _grow(self, before: int) -> None:
        n = self.index.n
        self.adjacency.grow(n)
        self.mirrors.grow(self.arena["ids"])
        for name, (_, default) in self._columns.items():
            self.arena.resize(name, n)[before:] = default

    def _degrees(self, places: Array) -> Array:
        """Edges in and out of vertices."""
        total = np.zeros(len(places), np.int64)
        for rows in (self.adjacency.out, self.adjacency.into):
            total += rows.array("stop")[places] - rows.array("start")[places]
        return total

    def _update_presence(self, edits: Edits) -> tuple[Array, Array]:
        """Note which vertices are there; return those which came, and those which went."""
        a = self.arena
        places = distinct(np.concatenate([edits.row, edits.key]), self.index.n)
        places = self.mirrors.local(places)
        there = (self._degrees(places) > 0) | a["named"][places]
        was = a["alive"][places] != 0
        fresh: Array = places[there & ~was]
        gone = places[was & ~there]
        a["alive"][places] = there
        a.meta["vertices"] += len(fresh) - len(gone)
        return fresh.astype(np.int32), gone

    def order_rows(self) -> bool:
        """Have rows, and vertices, in the order of ids, as in a graph that is loaded as it is now.

        Returns:
            Whether places were given anew.
        """
        places = self._used_places()
        if self.index.ascending and len(places) == self.index.n:
            return False
        self._renumber(places)
        return True

    def _used_places(self) -> Array:
        """The places of the vertices that are there, and of mirrors with edges, ascending by id."""
        order, everyone = self.index.order, np.arange(self.index.n)
        used_mirrors = (self._degrees(everyone) > 0) & ~self.mirrors.are_local(everyone)
        used: Array = order[(self.arena["alive"][order] != 0) | used_mirrors[order]]
        return used

    def _renumber(self, places: Array) -> Array:
        """Give places to these vertices, in this order, and to no others."""
        a = self.arena
        new = self.index.renumber(places)
        self.mirrors.renumber(places)
        self.adjacency.renumber(places, new)
        for name in self._columns:
            a.put(name, a[name][places])
        return new

    def local_rows(self, direction: str, *, each: bool) -> LocalRows:
        """The rows of the partition's vertices as they are, for `build_topology`.

        Args:
            direction: in which the program follows edges, as in `Variant`.
            each: a ghost per remote edge.
        """
        order = self.index.order
        alive = self.arena["alive"][order] != 0
        used = order[alive | (self._degrees(order) > 0)]
        own = np.flatnonzero(self.mirrors.are_local(used))
        rank = np.empty(self.index.n, np.int32)
        rank[used] = np.arange(len(used), dtype=np.int32)
        symmetric = self.layout == "undirected"
        ways = {"out": FORWARD, "in": BACKWARD}.get(direction, FORWARD | BACKWARD)
        target, pick, reverse, lengths = self.adjacency.arrange(
            used[own], rank, FORWARD if symmetric else ways, as_set=direction == "undirected"
        )
        start = np.zeros(len(used) + 1, np.int64)
        start[own + 1] = lengths
        both = direction == "both" and not symmetric
        rows = AdjacencyRows(
            np.cumsum(start), target, self.adjacency.values_at(pick), reverse if both else None,
            0, 0, 0,
        )  # fmt: skip
        ids = self.arena["ids"][used]
        if self.alone:
            return LocalRows(ids, rows, np.empty(0, np.int32), np.zeros(2, np.int64))
        owners = self.arena["owner"][used].astype(np.int32)
        return with_ghosts(ids, rows, self.partition, self.mirrors.partitions, owners, each)

    def edges(self) -> tuple[Array, Array, Array | None]:
        """Every edge with an end here, one without direction once: places of its ends, its value.

        Returns:
            Sources and targets (int32[k]), and values or None.
        """
        row, at = self.adjacency.entries()
        return row, self.adjacency.out.array("key")[at], self.adjacency.values_at(at)

    def own_edges(self) -> tuple[Array, Array, Array, Array | None]:
        """Every edge out of the partition's vertices, one without direction once.

        Returns:
            Ids of all places, how many edges are out of each, places of targets, and values or
            None.
        """
        row, target, value = self.edges()
        if not self.alone:
            own = self.mirrors.are_local(row)
            row, target = row[own], target[own]
            value = None if value is None else value[own]
        count = np.bincount(row, minlength=self.index.n)
        return self.arena["ids"], count, target, value
