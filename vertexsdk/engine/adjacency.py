"""The adjacency of a partition whose graph changes: rows with room to grow, in an arena.

Out-rows and in-rows are kept apart where edges have a direction. Where methods follow edges both
ways, or the graph is undirected, one set of rows of neighbours serves as both. In rows of
neighbours of a directed graph each entry says which way its edges go; their values are not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.radix_sort import order_of_pairs
from vertexsdk.arrays.threads import run_all
from vertexsdk.compile.adjacency_kernels import edge_index, entries_of
from vertexsdk.engine import _row_kernels as kernels
from vertexsdk.engine._row_kernels import BACKWARD, DELETE, FORWARD
from vertexsdk.engine.arena import Arena
from vertexsdk.graph.changes.changes import COUNTS
from vertexsdk.graph.topology.edge_attributes import (
    NO_FLOAT,
    NO_INT,
    defaults,
    is_left_out,
    left_out,
)
from vertexsdk.graph.topology.topology import Topology

Array = NDArray[Any]
PARALLEL_EDITS = 256  # below which one thread is quicker: each is some 100 entries
PARALLEL = 1 << 14  # entries below which one thread is quicker


def in_parts(
    count: int, threads: int, call: Callable[[int, int], Any], least: int = PARALLEL
) -> list[Any]:
    """Call a kernel on ranges which make up `range(count)`, in threads if there are `least`."""
    return run_all(parts_of(count, threads if count >= least else 1, call))


def parts_of(count: int, parts: int, call: Callable[[int, int], Any]) -> list[Callable[[], Any]]:
    """The calls of a kernel on ranges which make up `range(count)`."""
    cuts = [count * k // parts for k in range(parts + 1)]
    return [partial(call, a, b) for a, b in zip(cuts, cuts[1:], strict=False)]


def distinct(places: Array, n: int) -> NDArray[np.int32]:
    """The distinct places, ascending; by marks where they are many.

    >>> distinct(np.array([3, 1, 3]), 4)
    array([1, 3], dtype=int32)
    """
    if 16 * len(places) < n:
        return np.unique(places).astype(np.int32)
    marks = np.zeros(n, np.bool_)
    marks[places] = True
    return np.flatnonzero(marks).astype(np.int32)


class Edits:
    """Entries to be inserted, deleted or set, ascending by (row, key); arrays of equal length."""

    __slots__ = ("key", "new", "old", "row", "what")

    def __init__(self, row: Array, key: Array, what: Array, old: Array, new: Array) -> None:
        self.row, self.key, self.what, self.old, self.new = row, key, what, old, new

    def __len__(self) -> int:
        return len(self.row)

    def where(self, chosen: Array) -> Edits:
        """Those for which a mask holds."""
        return Edits(*(getattr(self, n)[chosen] for n in ("row", "key", "what", "old", "new")))

    def turned(self) -> Edits:
        """The same entries in the other direction's rows."""
        order = order_of_pairs(self.key, self.row)
        return Edits(
            self.key[order], self.row[order], self.what[order], self.old[order], self.new[order]
        )


class RowPool:
    """The rows of every vertex, under names with a prefix (`_row_kernels`).

    Args:
        arena: where they are, or will be.
        prefix: prefix of their names.
        threads: for large batches of edits.
    """

    def __init__(self, arena: Arena, prefix: str, threads: int) -> None:
        self.arena, self.prefix, self.threads = arena, prefix, threads

    def _name(self, name: str) -> str:
        return f"{self.prefix}.{name}"

    def array(self, name: str) -> Array:
        """`start`, `stop` (int64[n]), `room` (int64[n]), `key` (int32) or `value`."""
        array = self.arena[self._name(name)]
        return array.reshape(-1, *self.shape) if name == "value" else array

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the value of an entry: () for a number, (k,) for the bits of k attributes."""
        return tuple(self.arena.meta.get(self._name("shape"), ()))

    @property
    def width(self) -> int:
        """The number of numbers in the value of an entry."""
        return prod(self.shape)

    def read(self, name: str) -> Array:
        """The array as kernels of methods take it."""
        return self.arena.read(self._name(name))

    @property
    def valued(self) -> bool:
        """True if entries have a value."""
        return self._name("value") in self.arena

    @property
    def tail(self) -> int:
        """The end of the pool."""
        return int(self.arena.meta[self._name("tail")])

    def create(self, lengths: Array, value: Any, shape: tuple[int, ...] = ()) -> None:
        """Make rows for so many entries each, with room, and no entries yet.

        Args:
            lengths: int64[n].
            value: dtype of the values, or None.
            shape: shape of the value of an entry.
        """
        self.arena.meta[self._name("shape")] = shape
        n = len(lengths)
        room = lengths + lengths // 8 + 2
        for name, values in (("start", np.cumsum(room) - room), ("stop", None), ("room", room)):
            self.arena.resize(self._name(name), n, np.int64)
            self.array(name)[...] = self.array("start") if values is None else values
        tail = int(room.sum())
        self.arena.meta[self._name("tail")] = tail
        self.arena.resize(self._name("key"), tail, np.int32)
        if value is not None:
            self.arena.resize(self._name("value"), tail * self.width, value)

    def grow(self, n: int) -> None:
        """Have rows, empty ones, for n vertices."""
        for name in ("start", "stop", "room"):
            previous = self.arena.length(self._name(name))
            self.arena.resize(self._name(name), n)[previous:] = 0

    def values(self) -> Array:
        """The values, or something to pass on where there are none."""
        return self.array("value") if self.valued else np.zeros(0, np.int64)

    def find(self, row: Array, key: Array) -> Array:
        """Return the places of entries in the pool (int64), -1 for those not in it."""
        places = np.empty(len(row), np.int64)
        find: Any = kernels.find_edges
        names = ("start", "stop", "key")
        start, stop, pool = (self.array(name) for name in names)
        in_parts(
            len(row), self.threads,
            lambda a, b: find(a, b, row, key, start, stop, pool, places), PARALLEL_EDITS,
        )  # fmt: skip
        return places

    def edit(self, edits: Edits, parts: int) -> list[Callable[[], Any]]:
        """Find room for edits; return the calls that insert, delete and set, side by side."""
        group = np.empty(len(edits) + 1, np.int64)
        dest = np.empty(len(edits), np.int64)
        place: Any = kernels.place_rows
        start, stop, room = (self.array(name) for name in ("start", "stop", "room"))
        count, tail = place(edits.row, edits.what, start, stop, room, self.tail, group, dest)
        self.arena.meta[self._name("tail")] = int(tail)
        pool = self.arena.resize(self._name("key"), int(tail))
        if self.valued:
            self.arena.resize(self._name("value"), int(tail) * self.width)
        value = self.values()
        new = edits.new.astype(value.dtype, copy=False) if self.valued else value
        edit: Any = kernels.edit_rows
        valued = self.valued
        return parts_of(
            int(count), parts,
            lambda a, b: edit(
                a, b, group, dest, edits.row, edits.key, edits.what, new, start, stop, pool, value,
                valued,
            ),
        )  # fmt: skip

    def entries(self) -> int:
        """The number of entries."""
        return int((self.array("stop") - self.array("start")).sum())

    def wasteful(self, entries: int) -> bool:
        """Return whether more than half of the pool is room, or rows that have moved away."""
        n = self.arena.length(self._name("start"))
        return self.tail > 2 * entries + 8 * n + (1 << 16)

    def compact(self) -> None:
        """Copy the rows close together into another pool."""
        self._rewrite(self.array("stop") - self.array("start"), kernels.spread)

    def renumber(self, places: Array, new: Array) -> None:
        """Keep the rows at `places` only, in this order; keys become `new[key]`."""
        renumber: Any = kernels.renumber
        self._rewrite(
            (self.array("stop") - self.array("start"))[places],
            lambda a, b, *arrays: renumber(a, b, places, new, *arrays),
        )

    def _rewrite(self, lengths: Array, copy: Any) -> None:
        """Have another pool, with rows of these lengths.

        Args:
            copy: copies a range of rows: of it, of the rows before, and of those to be filled.
        """
        previous = self.array("start").copy(), self.array("stop").copy(), self.array("key")
        value = self.values()
        self.create(lengths, None, self.shape)
        pool = self.arena.replace(self._name("key"), self.tail)
        if self.valued:
            self.arena.replace(self._name("value"), self.tail * self.width)
        arrays = (
            *previous, value, self.array("start"), self.array("stop"), pool, self.values(),
            self.valued,
        )  # fmt: skip
        in_parts(len(lengths), self.threads, lambda a, b: copy(a, b, *arrays))


class RowTopology:
    """The arrays of an adjacency, in the form of a `Topology` for methods and messages.

    Attributes:
        reached: which partitions have mirrors of each place (bool[P, n]), where that is known.
    """

    reached: Array | None = None
    _cuts = np.zeros(0, np.int64)
    partition, partitions, ghosts = 0, 1, 0
    kind = names = producers = in_order = None
    reverse: Array | None = None
    ghost_ids = np.zeros(0, np.int64)
    inbound = np.zeros(0, np.int32)

    def __init__(self, ids: Array, out: RowPool, into: RowPool, m: int, valued: bool) -> None:
        self.ids, self.n, self.m = ids, len(ids), m
        self.start, self.stop, self.target = out.read("start"), out.read("stop"), out.read("key")
        self.value = out.read("value") if valued else None
        self.in_start, self.in_stop = into.read("start"), into.read("stop")
        self.in_source = into.read("key")
        self.in_value = into.read("value") if valued else self.in_source

    @classmethod
    def of_rows(
        cls, ids: Array, start: Array, stop: Array, target: Array, reverse: Array | None
    ) -> RowTopology:
        """The rows of some vertices, which are not in an arena, without rows of sources."""
        self = cls.__new__(cls)
        self.ids, self.n, self.m = ids, len(ids), len(target)
        self.start, self.stop, self.target, self.reverse = start, stop, target, reverse
        self.value = None
        self.in_start, self.in_stop, self.in_source, self.in_value = start, start, target, target
        return self

    def in_cuts(self, parts: int) -> NDArray[np.int64]:
        """Cut the vertices into ranges with about equal numbers of in-edges."""
        if len(self._cuts) != parts + 1:
            inner = np.zeros(0, np.int64)
            if parts > 1:
                ends = np.cumsum(self.in_stop - self.in_start)
                inner = np.searchsorted(ends, np.linspace(0, ends[-1], parts + 1)[1:-1])
            self._cuts = np.concatenate([[0], inner, [self.n]]).astype(np.int64)
        return self._cuts


RowTopology.ghost_ids.flags.writeable = False
RowTopology.inbound.flags.writeable = False


class Adjacency:
    """Rows of all vertices, by their places; edges are added, removed, and given other values.

    Args:
        arena: where it is.
        layout: "directed", "undirected" (edges without direction) or "neighbours".
        threads: for large batches.
        value_type: value dtype of the program (`edge_attributes`).
    """

    def __init__(self, arena: Arena, layout: str, threads: int, value_type: str | None) -> None:
        self.arena, self.layout, self.threads = arena, layout, threads
        self.value_type = value_type
        self.out = RowPool(arena, "out", threads)
        self.into = RowPool(arena, "in", threads) if layout == "directed" else self.out

    @property
    def bits(self) -> bool:
        """True if values of entries are ways of edges."""
        return self.layout == "neighbours"

    @property
    def edges(self) -> int:
        """The number of edges; one without direction counts once."""
        return int(self.arena.meta["edges"])

    def topology(self, ids: Array) -> RowTopology:
        """The arrays as they are now."""
        valued = self.out.valued and not self.bits
        return RowTopology(ids, self.out, self.into, int(self.arena.meta["entries"]), valued)

    def create(self, t: Topology, edges: int) -> None:
        """Begin with a graph of one partition, loaded with its edges in their direction."""
        self.arena.meta["edges"] = edges
        if self.bits:
            self._neighbours(t)
        else:
            kind = None if t.value is None else t.value.dtype
            shape = () if t.value is None else t.value.shape[1:]
            none = np.zeros(0, np.int64)
            self.out.create(np.diff(t.start), kind, shape)
            self._fill(self.out, t.start, t.target, none if t.value is None else t.value)
            if self.into is not self.out:
                self.into.create(np.diff(t.in_start), kind, shape)
                values = none
                if t.value is not None:
                    index = edge_index(t.start, t.target, t.in_start, t.inbound)
                    values = t.value[index]
                self._fill(self.into, t.in_start, t.in_source, values)
        self.arena.meta["entries"] = self.out.entries()

    def _fill(self, rows: RowPool, start: Array, pool: Array, value: Array) -> None:
        spread: Any = kernels.spread
        arrays = [rows.array(name) for name in ("start", "stop", "key")]
        valued = rows.valued
        into = rows.values()
        in_parts(
            len(start) - 1, self.threads,
            lambda a, b: spread(a, b, start, start[1:], pool, value, *arrays, into, valued),
        )  # fmt: skip

    def _neighbours(self, t: Topology) -> None:
        merge: Any = kernels.both_ways
        counts = np.zeros(t.n, np.int64)
        none, no_bits = np.zeros(0, np.int32), np.zeros(0, np.uint8)
        given = t.start, t.target, t.in_start, t.in_source
        zeros = np.zeros(t.n, np.int64)
        in_parts(
            t.n, self.threads,
            lambda a, b: merge(a, b, *given, zeros, counts, none, no_bits, False),
        )  # fmt: skip
        self.out.create(counts, np.uint8)
        arrays = [self.out.array(name) for name in ("start", "stop", "key", "value")]
        in_parts(t.n, self.threads, lambda a, b: merge(a, b, *given, *arrays, True))

    def grow(self, n: int) -> None:
        """Have n vertices."""
        self.out.grow(n)
        if self.into is not self.out:
            self.into.grow(n)

    def resolve(
        self, kind: Array, source: Array, target: Array, value: Array
    ) -> tuple[Edits, dict[str, int], Array]:
        """Resolve changes, in order; nothing is changed yet.

        Args:
            kind: uint8[k], as in `Changes`.
            source, target: int32[k] places, -1 for vertices that have none; an edge without
                direction has one spelling (`cast`).
            value: [k] or [k, w]; see `edge_attributes` for changes without one.

        Returns:
            One edit per edge, counts by the names of `COUNTS`, and which changes were absent.
        """
        absent = (source < 0) | (target < 0)
        here = np.flatnonzero(~absent)
        a, b = source[here], target[here]
        order = order_of_pairs(a, b)
        here, a, b = here[order], a[order], b[order]
        place = self.out.find(a, b)
        if self.bits:
            known = np.flatnonzero(place >= 0)
            place[known[(self.out.array("value")[place[known]] & FORWARD) == 0]] = -1
        pool = self._value_bits(self.out.values())
        given = value[here]
        if self.out.valued and not self.bits:
            given = given if self.out.shape else _of_type(given, self.out.values().dtype)
        bits = self._value_bits(given)
        k, width = bits.shape
        what, head, missing = np.empty(k, np.uint8), np.empty(k, np.int64), np.zeros(k, np.bool_)
        old, new = np.empty((2, k, width), np.int64)
        numbers = np.zeros(len(COUNTS), np.int64)
        resolve: Any = kernels.resolve
        count = resolve(
            a, b, kind[here], bits, place, pool, *self._gaps(width), what, old, new, head, numbers,
            missing,
        )  # fmt: skip
        absent[here] = missing
        numbers[COUNTS.index("absent")] += len(absent) - k
        at = head[:count]
        values = (self._of_bits(x[:count]) for x in (old, new))
        edits = Edits(a[at], b[at], what[:count], *values)
        return edits, dict(zip(COUNTS, numbers.tolist(), strict=True)), absent

    def _value_bits(self, values: Array) -> Array:
        """Values of edges as bits, int64[k, w]."""
        if not self.out.valued or self.bits:
            return np.empty((len(values), 0), np.int64)
        return np.ascontiguousarray(values).view(np.int64).reshape(len(values), self.out.width)

    def _of_bits(self, bits: Array) -> Array:
        """The values of which these are the bits."""
        if not bits.shape[1]:
            return np.zeros(len(bits), np.uint8)
        return bits if self.out.shape else bits.reshape(-1).view(self.out.values().dtype)

    def _gaps(self, width: int) -> tuple[Array, Array]:
        """The bits of what changes leave out, and of what a new edge then has."""
        value = self.value_type if width else None
        return left_out(value), defaults(value)

    def edit(self, edits: Edits, counted: Array) -> Edits:
        """Make edits of edges; return the edits of out-rows that this comes to.

        Args:
            counted: bool[k], which of them count in `edges`.
        """
        self.arena.meta["edges"] += _added(edits.what[counted])
        if self.layout == "neighbours":
            edits = self._net(edits)
        elif self.layout == "undirected":
            edits = _both(edits)
        self.arena.meta["entries"] += _added(edits.what)
        if self.into is self.out:
            calls = self.out.edit(edits, self.threads)
        else:
            half = (self.threads + 1) // 2
            calls = [*self.out.edit(edits, half), *self.into.edit(edits.turned(), half)]
        if len(edits) >= PARALLEL_EDITS:
            run_all(calls)
        else:
            for call in calls:
                call()
        return edits

    def _net(self, edits: Edits) -> Edits:
        """Edits of entries with bits; those that only change which way edges go are made too."""
        row = np.concatenate([edits.row, edits.key])
        key = np.concatenate([edits.key, edits.row])
        order = order_of_pairs(row, key)
        way = np.repeat(np.array([FORWARD, BACKWARD], np.uint8), len(edits))[order]
        what = np.concatenate([edits.what, edits.what])[order]
        k = len(row)
        out_row, out_key = np.empty(k, np.int32), np.empty(k, np.int32)
        out_what, bits = np.empty(k, np.uint8), np.empty(k, np.uint8)
        net: Any = kernels.net_bits
        arrays = [self.out.array(name) for name in ("start", "stop", "key", "value")]
        count = net(row[order], key[order], what, way, *arrays, out_row, out_key, out_what, bits)
        return Edits(out_row[:count], out_key[:count], out_what[:count], bits[:count], bits[:count])

    def entries(self) -> tuple[Array, Array]:
        """Every edge once: its row, and the place of its entry in the pool of out-rows."""
        start, stop = self.out.array("start"), self.out.array("stop")
        at, row = entries_of(np.arange(len(start)), start, stop)
        if self.layout == "directed":
            return row, at
        if self.bits:
            chosen = (self.out.array("value")[at] & FORWARD) != 0
        else:
            ids = self.arena["ids"]
            chosen = ids[row] <= ids[self.out.array("key")[at]]
        return row[chosen], at[chosen]

    def values_at(self, pick: Array) -> Array | None:
        """The values of entries; None where edges have none.

        Args:
            pick: places in the pool of out-rows, or -1 - places in that of in-rows.
        """
        if not self.out.valued or self.bits:
            return None
        values, into = self.out.array("value")[np.maximum(pick, 0)], np.flatnonzero(pick < 0)
        values[into] = self.into.array("value")[-1 - pick[into]]
        return values

    def arrange(
        self, places: Array, rank: Array, ways: int, *, as_set: bool
    ) -> tuple[Array, Array, Array, Array]:
        """The rows of vertices one after the other, as `_row_kernels.arrange` has them.

        Returns:
            Ranks of targets (int32[m]), see `values_at`, whether each entry is of an in-row, and
            how many entries each vertex has.
        """
        pools = [
            tuple(rows.array(name) for name in ("start", "stop", "key"))
            for rows in (self.out, self.into)
        ]
        n, arrange = len(places), cast(Any, kernels.arrange)
        start = np.zeros(n + 1, np.int64)
        target, pick, reverse = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.bool_)

        def run(into: Array, fill: bool) -> None:
            given = places, rank, *pools, ways, as_set, into, target, pick, reverse, fill
            in_parts(n, self.threads, lambda a, b: arrange(a, b, *given))

        if as_set:
            run(start[1:], False)
        else:
            for pool, way in zip(pools, (FORWARD, BACKWARD), strict=True):
                if ways & way:
                    start[1:] += pool[1][places] - pool[0][places]
        lengths = start[1:].copy()
        np.cumsum(start, out=start)
        m = int(start[-1])
        target, pick, reverse = np.empty(m, np.int32), np.empty(m, np.int64), np.empty(m, np.bool_)
        run(start, True)
        return target, pick, reverse, lengths

    def renumber(self, places: Array, new: Array) -> None:
        """Keep the vertices at `places` only, in this order; `new` has their places by old ones."""
        for rows in {id(r): r for r in (self.out, self.into)}.values():
            rows.renumber(places, new)

    def compact(self) -> None:
        """Copy rows close together where much of a pool is not used."""
        entries = int(self.arena.meta["entries"])
        for rows in {id(r): r for r in (self.out, self.into)}.values():
            if rows.wasteful(entries):
                rows.compact()


def _added(what: Array) -> int:
    """Return how many more entries there are after edits of these kinds."""
    return int((what == kernels.INSERT).sum() - (what == DELETE).sum())


def _of_type(values: Array, dtype: np.dtype[Any]) -> Array:
    """Values of changes as edges have them; what is left out stays so."""
    if values.dtype == dtype:
        return values
    missing = is_left_out(values)
    typed = np.where(missing, 0, values).astype(dtype)
    typed[missing] = NO_FLOAT if dtype.kind == "f" else NO_INT
    return typed


def _both(edits: Edits) -> Edits:
    """Each edge without direction as two entries, one at a loop."""
    there = edits.row != edits.key
    parts = [
        np.concatenate([x, y[there]])
        for x, y in (
            (edits.row, edits.key),
            (edits.key, edits.row),
            (edits.what, edits.what),
            (edits.old, edits.old),
            (edits.new, edits.new),
        )
    ]
    order = order_of_pairs(parts[0], parts[1])
    return Edits(*(p[order] for p in parts))
