"""The history of iterations: for each vertex, when its state and its message changed, and to what.

An entry is of one vertex and one iteration after which the vertex had another state, or had sent
another message, than before. The entries of a vertex lie one after the other, ascending by
iteration. A vertex of another partition that an edge leads from has entries too, of its messages.

Source: the differences of a collection by version in "Differential dataflow" (McSherry et al.,
CIDR 2013), section 3.2, for the iterations of one epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.engine.arena import Arena

Array = NDArray[Any]
Columns = dict[str, Array]
_ROWS = ("history.start", "history.stop", "history.room")
_SPARE = 1 << 16
NEVER = (1 << 31) - 1  # an iteration that there is not


class History:
    """The entries of all places, in an arena.

    Args:
        arena: where they are.
        fields: dtype of each column beside `at` (int32) and `sent` (bool), by name.
    """

    def __init__(self, arena: Arena, fields: Mapping[str, DTypeLike]) -> None:
        self.arena = arena
        self.fields = {"at": np.int32, "sent": np.bool_, **fields}

    def create(self, place: Array, columns: Columns) -> None:
        """Begin with these entries, ascending by iteration for each place.

        Args:
            place: the place of each (int32[k]), ascending.
            columns: by name, without those that are not known of mirrors.
        """
        n = self.arena.length("ids")
        lengths = np.bincount(place, minlength=n)
        room = lengths + lengths // 4
        starts = np.cumsum(room) - room
        for name, values in zip(_ROWS, (starts, starts + lengths, room), strict=True):
            self.arena.resize(name, n, np.int64)[...] = values
        first = np.cumsum(lengths) - lengths
        at = np.arange(len(place)) + (starts - first)[place]
        self._resize(int(room.sum()))
        for name in self.fields:
            self._column(name)[at] = columns[name]
        self.arena.meta["history.entries"] = len(place)

    def _column(self, name: str) -> Array:
        return self.arena[f"history.{name}"]

    def _resize(self, tail: int) -> None:
        self.arena.meta["history.tail"] = tail
        for name, dtype in self.fields.items():
            self.arena.resize(f"history.{name}", tail, dtype)

    @property
    def rows(self) -> tuple[Array, Array]:
        """The bounds of the entries of every place (int64[n] each)."""
        return self.arena[_ROWS[0]], self.arena[_ROWS[1]]

    @property
    def entries(self) -> int:
        """The number of entries."""
        return int(self.arena.meta["history.entries"])

    @property
    def size(self) -> int:
        """The bytes that entries and their room take."""
        width = sum(np.dtype(dtype).itemsize for dtype in self.fields.values())
        return int(self.arena.meta["history.tail"]) * width

    def columns(self) -> Columns:
        """All columns, with room that is not used."""
        return {name: self._column(name) for name in self.fields}

    def grow(self, n: int) -> None:
        """Have n places."""
        for name in _ROWS:
            previous = self.arena.length(name)
            if previous < n:
                self.arena.resize(name, n)[previous:] = 0

    def entries_of(self, places: Array) -> tuple[Array, Array]:
        """The entries of some places: where they are, and the number of each one's place."""
        start, stop = self.rows
        lengths = stop[places] - start[places]
        number = np.repeat(np.arange(len(places)), lengths)
        first = np.cumsum(lengths) - lengths
        return np.arange(len(number)) + (start[places] - first)[number], number

    def replace(self, places: Array, place: Array, columns: Columns) -> None:
        """Have other entries at some places.

        Args:
            places: which (int32, ascending).
            place: the place of each new entry, ascending.
            columns: columns of these entries, by name.
        """
        start, stop, room = (self.arena[name] for name in _ROWS)
        lengths = np.bincount(np.searchsorted(places, place), minlength=len(places))
        self.arena.meta["history.entries"] += int(
            lengths.sum() - (stop[places] - start[places]).sum()
        )
        moved = places[lengths > room[places]]
        if len(moved):
            wanted = lengths[lengths > room[places]]
            wanted += wanted // 4 + 1
            tail = int(self.arena.meta["history.tail"])
            start[moved] = tail + np.cumsum(wanted) - wanted
            room[moved] = wanted
            self._resize(tail + int(wanted.sum()))
        stop[places] = start[places] + lengths
        first = np.cumsum(lengths) - lengths
        number = np.repeat(np.arange(len(places)), lengths)
        at = np.arange(len(place)) + (start[places] - first)[number]
        for name in self.fields:
            self._column(name)[at] = columns[name]
        if self.arena.meta["history.tail"] > 3 * self.entries + _SPARE:
            self._rewrite(np.arange(len(start)))

    def renumber(self, places: Array) -> None:
        """Keep these places only, in this order."""
        self._rewrite(places)

    def _rewrite(self, places: Array) -> None:
        """Have the entries of these places, which are numbered so, close together."""
        at, place = self.entries_of(places)
        kept = {name: column[at] for name, column in self.columns().items()}
        self.create(place.astype(np.int32), kept)


class Refinement:
    """The history as it becomes: new entries of some places, and the old ones of all others.

    Attributes:
        rows, old: the bounds of old entries, and their columns.
        head: for each place, 0 where its old entries hold; else the number of its latest new entry,
            from 1 on, or -1 where it has none (int64[n]).

    Args:
        history: as it is.
        n: the number of places.
    """

    def __init__(self, history: History, n: int) -> None:
        self.history = history
        self.rows, self.old = history.rows, history.columns()
        self.head, self._last = np.zeros((2, n), np.int64)
        self._since = np.zeros(n, np.int32)  # the first iteration whose old entries are not taken
        self._parts: list[Array] = []
        self._places: list[Array] = []
        self._length = 0
        self._columns = {name: np.empty(1024, dtype) for name, dtype in history.fields.items()}

    @property
    def entries(self) -> Columns:
        """The new entries, with room."""
        return self._columns

    def begin(self, places: Array, iteration: int) -> None:
        """Have places, of which the old entries hold, get new ones from an iteration on.

        Args:
            places: int32[k], distinct.
        """
        at, number = self.history.entries_of(places)
        old = self.old
        iterations = old["at"][at]
        earlier = (iterations < iteration) & (iterations >= self._since[places][number])
        at, number = at[earlier], number[earlier]
        last = self._last[places]
        self.head[places] = np.where(last > 0, last, -1)
        self._places.append(places)
        self.add(places[number], {name: column[at] for name, column in old.items()})

    def rejoin(self, places: Array, iteration: int) -> None:
        """Have the old entries of places (int32[k]) hold again after an iteration."""
        self.head[places], self._since[places] = 0, iteration + 1

    def add(self, place: Array, columns: Columns) -> None:
        """Add entries, ascending by iteration for each place.

        Args:
            place: int32[k].
            columns: columns of these entries, by name.
        """
        count = len(place)
        if not count:
            return
        stop = self._length + count
        if stop > len(self._columns["at"]):
            for name, column in self._columns.items():
                longer = np.empty(2 * stop, column.dtype)
                longer[: self._length] = column[: self._length]
                self._columns[name] = longer
        for name, column in self._columns.items():
            column[self._length : stop] = columns[name]
        self._last[place] = np.arange(self._length + 1, stop + 1)  # of several, the last one counts
        self.head[place] = self._last[place]
        self._parts.append(place)
        self._length = stop

    def latest(self, places: Array, iteration: int) -> tuple[Array, Array, Array]:
        """The entry of each place that holds after an iteration, the last one so far.

        Returns:
            Where it is among the new entries, from 1 on, or among the old ones, as -1 - its place;
            0 where there is none (int64[k]); those among the old ones alone, in the same way; and
            the iteration of the old entry after it, or `NEVER` (int32[k]).
        """
        out, old = np.empty((2, len(places)), np.int64)
        following = np.empty(len(places), np.int32)
        find: Any = _latest
        find(places, iteration, self.head, *self.rows, self.old["at"], out, old, following)
        return out, old, following

    def values(self, name: str, entry: Array, default: Any) -> Array:
        """The values of a column at entries that `latest` told; a default where there is none."""
        new, old = self._columns[name], self.old[name]
        values = np.full(len(entry), default, old.dtype)
        for chosen, column, at in (entry > 0, new, entry - 1), (entry < 0, old, -1 - entry):
            values[chosen] = column[at[chosen]]
        return values

    def places(self) -> Array:
        """The places that get new entries (int32, ascending)."""
        return np.unique(np.concatenate([*self._places, np.zeros(0, np.int32)])).astype(np.int32)

    def commit(self) -> None:
        """Have the new entries in the history."""
        places = self.places()
        at, number = self.history.entries_of(places)
        old = self.old
        later = (self.head[places] == 0)[number] & (old["at"][at] >= self._since[places][number])
        at, number = at[later], number[later]
        self.add(places[number], {name: column[at] for name, column in old.items()})
        place = np.concatenate([*self._parts, np.zeros(0, np.int32)])
        order = np.argsort(place, kind="stable")
        columns = {name: x[: self._length][order] for name, x in self._columns.items()}
        self.history.replace(places, place[order], columns)


@njit
def _latest(places, iteration, head, start, stop, at, out, old, following):  # type: ignore[no-untyped-def]
    for k in range(places.shape[0]):
        u = places[k]
        e = stop[u]
        while e > start[u] and at[e - 1] > iteration:
            e -= 1
        old[k] = -e if e > start[u] else 0
        out[k] = old[k] if head[u] == 0 else max(head[u], 0)
        following[k] = at[e] if e < stop[u] else NEVER
