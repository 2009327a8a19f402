"""The graph of one partition, in an arena: its vertices and edges, changed in place.

A vertex that goes keeps its place, in case it returns, until most places are of vertices that went.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vertexsdk.arrays.packed_strings import take_strings, unpack_strings
from vertexsdk.engine import _row_kernels as kernels
from vertexsdk.engine._mirrors import Mirrors
from vertexsdk.engine._row_kernels import BACKWARD, FORWARD
from vertexsdk.engine.adjacency import Adjacency, Edits, distinct, in_parts
from vertexsdk.engine.arena import Arena
from vertexsdk.engine.new_partition import NewPartition
from vertexsdk.graph.load.build_topology import AdjacencyRows, LocalRows, with_ghosts
from vertexsdk.graph.topology.id_codec import IdCodec

Array = NDArray[Any]
SPARE = 1 << 16  # places of vertices that went which are always kept


@dataclass(slots=True)
class ResolvedChanges:
    """The result of a batch of changes in one partition; nothing is changed yet.

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
        layout: layout of the adjacency.
        partition, partitions: the partition's number, and how many there are.
        threads: number of threads that kernels may use.
        columns: dtype and default of every other array with an entry for each place, by name.
        value: value dtype of the program (`edge_attributes`).
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
        all_places = np.arange(t.n)
        alive = (self.degrees(all_places) > 0) | new.named
        self.arena["alive"][...] = alive & self.mirrors.are_local(all_places)
        self.arena.meta["vertices"] = int(self.arena["alive"].sum())

    @property
    def id_codec(self) -> IdCodec | None:
        """The names of string ids; None where ids are integers."""
        return IdCodec(self.names) if "name.code" in self.arena else None

    @property
    def vertices(self) -> int:
        """The number of vertices of the partition."""
        return int(self.arena.meta["vertices"])

    def present_places(self) -> Array:
        """Return the places (int32, ascending) of all vertices that are there."""
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
        number, owned = np.arange(len(kind)), mirrors.owns(source)
        if not self.alone:
            number = np.flatnonzero(owned | mirrors.owns(target))
            kind, source, target, value = (x[number] for x in (kind, source, target, value))
            owned = owned[number]
        a, b = self._places(kind, source, target)
        edits, counts, absent = self.adjacency.resolve(kind, a, b, value)
        if not self.alone:
            counts = self.adjacency.resolve(kind[owned], a[owned], b[owned], value[owned])[1]
            absent &= owned
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
            previous_size = self.index.n
            self.index.add(np.unique(ids))
            self._grow(previous_size)
            a, b = self.index.find(source), self.index.find(target)
        return a, b

    def _grow(self, previous_size: int) -> None:
        n = self.index.n
        self.adjacency.grow(n)
        self.mirrors.grow(self.arena["ids"])
        for name, (_, default) in self._columns.items():
            self.arena.resize(name, n)[previous_size:] = default

    def degrees(self, places: Array) -> Array:
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
        there = (self.degrees(places) > 0) | a["named"][places]
        was = a["alive"][places] != 0
        fresh: Array = places[there & ~was]
        dropped = places[was & ~there]
        a["alive"][places] = there
        a.meta["vertices"] += len(fresh) - len(dropped)
        return fresh.astype(np.int32), dropped

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
        order, all_places = self.index.order, np.arange(self.index.n)
        used_mirrors = (self.degrees(all_places) > 0) & ~self.mirrors.are_local(all_places)
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
        used = order[alive | (self.degrees(order) > 0)]
        local = np.flatnonzero(self.mirrors.are_local(used))
        rank = np.empty(self.index.n, np.int32)
        rank[used] = np.arange(len(used), dtype=np.int32)
        target, pick, reverse, lengths = self.arrange(used[local], rank, direction)
        start = np.zeros(len(used) + 1, np.int64)
        start[local + 1] = lengths
        rows = AdjacencyRows(
            np.cumsum(start), target, self.adjacency.values_at(pick), reverse, 0, 0, 0
        )
        ids = self.arena["ids"][used]
        if self.alone:
            return LocalRows(ids, rows, np.empty(0, np.int32), np.zeros(2, np.int64))
        owners = self.arena["owner"][used].astype(np.int32)
        return with_ghosts(ids, rows, self.partition, self.mirrors.partitions, owners, each)

    def arrange(
        self, places: Array, rank: Array, direction: str, *, incoming: bool = False
    ) -> tuple[Array, Array, Array | None, Array]:
        """The rows of vertices one after the other, as a program has them (`Adjacency.arrange`).

        Args:
            places: places of the vertices, ascending by id.
            rank: the rank of each place, by which rows are in order.
            direction: in which the program follows edges, as in `Variant`.
            incoming: in place of the targets of each vertex, the vertices that have it as one.

        Returns:
            Ranks of targets (int32[m]), places of entries, whether each edge is followed against
            its direction where a program is told, and how many entries each vertex has.
        """
        symmetric = self.layout == "undirected"
        ways = {"out": FORWARD, "in": BACKWARD}.get(direction, FORWARD | BACKWARD)
        if incoming and ways != FORWARD | BACKWARD:
            ways ^= FORWARD | BACKWARD
        target, pick, reverse, lengths = self.adjacency.arrange(
            places, rank, FORWARD if symmetric else ways, as_set=direction == "undirected"
        )
        if symmetric or direction != "both":
            return target, pick, None, lengths
        if incoming:  # of two between a pair, that along its direction comes first in both ways
            reverse = ~reverse
            row = np.repeat(np.arange(len(places)), lengths)
            twice = (target[1:] == target[:-1]) & (row[1:] == row[:-1])
            at = np.flatnonzero(twice & reverse[:-1] & ~reverse[1:])
            for column in (pick, reverse):
                column[at], column[at + 1] = column[at + 1], column[at]
        return target, pick, reverse, lengths

    def rows_of(
        self, places: Array, direction: str, *, incoming: bool = False
    ) -> tuple[Array, Array, Array, Array | None]:
        """The rows of vertices one after the other, each in the order of ids.

        Args:
            places, direction, incoming: as for `arrange`.

        Returns:
            How many entries each vertex has, the places (int32[m]) of their other ends, places of
            entries, and directions, as from `arrange`.
        """
        index = self.index
        ranks, pick, reverse, lengths = self.arrange(
            places, index.rank, direction, incoming=incoming
        )
        return lengths, index.order[ranks], pick, reverse

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
            local = self.mirrors.are_local(row)
            row, target = row[local], target[local]
            value = None if value is None else value[local]
        count = np.bincount(row, minlength=self.index.n)
        return self.arena["ids"], count, target, value


_DENSE = 8  # entries of a table per vertex, at most


class VertexIndex:
    """The ids of vertices (int64[n], by place), their order, and a table where ids are dense.

    Places never change; a vertex which comes gets the next one. Where there is a table, the order
    of those that came last is found only when it is asked for.
    """

    def __init__(self, arena: Arena, threads: int) -> None:
        self.arena, self.threads = arena, threads
        self._rank = np.empty(0, np.int32)  # as it was asked for last

    def create(self, ids: Array) -> None:
        """Begin with these ids, ascending."""
        self._rank = np.empty(0, np.int32)
        self.arena.put("ids", ids.astype(np.int64))
        self.arena.put("ordered", np.arange(len(ids), dtype=np.int32))
        self._tabulate()

    @property
    def order(self) -> Array:
        """All places (int32), ascending by id."""
        ids, order = self.arena["ids"], self.arena["ordered"]
        if len(order) < self.n:
            new = np.arange(len(order), self.n, dtype=np.int32)
            new = new[np.argsort(ids[new])]
            at = np.searchsorted(ids[order], ids[new])
            self.arena.put("ordered", np.insert(order, at, new))
        return self.arena["ordered"]

    @property
    def rank(self) -> Array:
        """The number (int32) of each place in the order of ids."""
        if len(self._rank) < self.n:
            self._rank = np.empty(self.n, np.int32)
            self._rank[self.order] = np.arange(self.n, dtype=np.int32)
        return self._rank

    @property
    def ascending(self) -> bool:
        """True if places ascend by id, as they do in a graph as it is loaded."""
        order = self.order
        return bool((order[1:] > order[:-1]).all())

    def renumber(self, places: Array) -> Array:
        """Keep these places only, in this order, ascending by id.

        Returns:
            The new place of each old one (int32), -1 for those which are not kept.
        """
        new = np.full(self.n, -1, np.int32)
        new[places] = np.arange(len(places), dtype=np.int32)
        self.create(self.arena["ids"][places])
        return new

    @property
    def n(self) -> int:
        """The number of places."""
        return self.arena.length("ids")

    def _tabulate(self) -> None:
        ids = self.arena["ids"]
        low, high = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
        span = high - low + 1
        dense = span <= _DENSE * len(ids) + (1 << 20)
        self.arena.meta["table"] = low if dense else None
        if dense:
            table = self.arena.resize("table", span + span // 2, np.int32)
            table[...] = 0
            table[ids - low] = np.arange(1, len(ids) + 1)
        else:
            self.arena.put("sorted", ids[self.order])

    def find(self, ids: Array) -> Array:
        """The places of ids (int32), -1 for those which have none."""
        places = np.empty(len(ids), np.int32)
        base = self.arena.meta["table"]
        if base is not None:
            table, look_up = self.arena["table"], kernels.look_up
            call: Any = look_up
            in_parts(len(ids), self.threads, lambda a, b: call(a, b, ids, table, base, places))
            return places
        known = self.arena["sorted"]
        at = np.minimum(np.searchsorted(known, ids), max(len(known) - 1, 0))
        places[:] = -1
        if len(known):
            here = known[at] == ids
            places[here] = self.order[at[here]]
        return places

    def add(self, ids: Array) -> None:
        """Give places to ids which have none; distinct, ascending."""
        n, count = self.n, len(ids)
        if not count:
            return
        self.arena.resize("ids", n + count)[n:] = ids
        base = self.arena.meta["table"]
        if base is None:
            self.arena.put("sorted", self.arena["ids"][self.order])
        elif base <= int(ids[0]) and int(ids[-1]) - base < self.arena.length("table"):
            self.arena["table"][ids - base] = np.arange(n + 1, n + count + 1)
        else:
            self._tabulate()


class VertexNames:
    """Packed names in the order in which they came, and their codes in order."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena

    def create(self, codes: Array, offsets: Array, data: Array) -> None:
        """Begin with the names of some codes (int64[n], ascending)."""
        self.arena.put("name.code", codes)
        self.arena.put("name.place", np.arange(len(codes), dtype=np.int32))
        self.arena.put("name.offsets", offsets)
        self.arena.put("name.bytes", data)

    @property
    def codes(self) -> Array:
        """The codes of all names, ascending."""
        return self.arena["name.code"]

    def add(self, codes: Array, offsets: Array, data: Array) -> None:
        """Add names, each with a code that none has yet; in any order."""
        if not len(codes):
            return
        arena = self.arena
        count, start = arena.length("name.code"), arena.length("name.bytes")
        order = np.argsort(codes)
        at = np.searchsorted(arena["name.code"], codes[order])
        arena.put("name.code", np.insert(arena["name.code"], at, codes[order]))
        places = (count + order).astype(np.int32)
        arena.put("name.place", np.insert(arena["name.place"], at, places))
        arena.resize("name.offsets", count + len(codes) + 1)[count + 1 :] = offsets[1:] + start
        arena.resize("name.bytes", start + len(data))[start:] = data

    def packed(self, codes: Array) -> tuple[Array, Array]:
        """The names of some codes, packed."""
        arena = self.arena
        places = arena["name.place"][np.searchsorted(arena["name.code"], codes)]
        return take_strings(arena["name.offsets"], arena["name.bytes"], places.astype(np.int64))

    def name(self, code: int) -> str:
        """The name of a code."""
        return unpack_strings(*self.packed(np.array([code])))[0]

    def code(self, name: str) -> int:
        """The code of a name, -1 where it has none; codes order as names do by code point."""
        codes = self.codes
        at = bisect_left(range(len(codes)), name, key=lambda k: self.name(int(codes[k])))
        known = at < len(codes) and self.name(int(codes[at])) == name
        return int(codes[at]) if known else -1
