"""One direction of a changing adjacency: rows with room to grow, in an arena."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.radix_sort import order_of_pairs
from vertexsdk.arrays.threads import run_all
from vertexsdk.engine import _row_kernels as kernels
from vertexsdk.engine.arena import Arena

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
