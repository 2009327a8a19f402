"""From ids of vertices to their places in a partition's arrays, and places for new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine.loop import _row_kernels as kernels
from vertexsdk.engine.loop._arena import Arena
from vertexsdk.engine.loop._row_edits import in_parts

Array = NDArray[Any]
_DENSE = 8  # entries of a table per vertex, at most


class VertexIndex:
    """The ids of vertices (int64[n], by place), their order, and a table where ids are dense.

    Places never change; a vertex which comes gets the next one. Where there is a table, the order
    of those that came last is found only when it is asked for.
    """

    def __init__(self, arena: Arena, threads: int) -> None:
        self.arena, self.threads = arena, threads

    def create(self, ids: Array) -> None:
        """Begin with these ids, ascending."""
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
    def ascending(self) -> bool:
        """Whether places ascend by id, as they do in a graph as it is loaded."""
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
        """How many places there are."""
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
        found = np.empty(len(ids), np.int32)
        base = self.arena.meta["table"]
        if base is not None:
            table, look_up = self.arena["table"], kernels.look_up
            call: Any = look_up
            in_parts(len(ids), self.threads, lambda a, b: call(a, b, ids, table, base, found))
            return found
        known = self.arena["sorted"]
        at = np.minimum(np.searchsorted(known, ids), max(len(known) - 1, 0))
        found[:] = -1
        if len(known):
            here = known[at] == ids
            found[here] = self.order[at[here]]
        return found

    def add(self, ids: Array) -> None:
        """Give places to ids which have none; distinct, ascending."""
        n, count = self.n, len(ids)
        if not count:
            return
        self.arena.resize("ids", n + count)[n:] = ids
        base = self.arena.meta["table"]
        if base is None:
            self.arena.put("sorted", self.arena["ids"][self.order])
        elif base <= ids[0] and ids[-1] - base < self.arena.length("table"):
            self.arena["table"][ids - base] = np.arange(n + 1, n + count + 1)
        else:
            self._tabulate()
