"""Vertices of other partitions as one partition knows them, where a graph changes.

A partition has a place for each end of an edge of its own vertices, and so all edges of its
vertices in both directions. The place of another partition's vertex is a *mirror*: it has that
vertex's latest message, or the state that messages follow from, and the level of both. So messages
are delivered, and support is looked for, as if all producers were the partition's own; only the
owner gathers. What a vertex sends goes to its mirrors at the end of the superstep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.engine.arena import Arena
from vertexsdk.graph.topology.placement import Placement
from vertexsdk.transport.transport import Blocks

Array = NDArray[Any]


class Mirrors:
    """The places that are mirrors, and the owners of their vertices; one partition has none.

    Args:
        arena: where it is.
        partition, partitions: the partition's number, and how many there are.
    """

    def __init__(self, arena: Arena, partition: int, partitions: int) -> None:
        self.arena, self.partition, self.partitions = arena, partition, partitions
        self.alone = partitions == 1

    def create(self, placement: Placement | None) -> None:
        """Begin with a placement; None is the hash."""
        self.arena.meta["mirrors"] = 0
        if not self.alone:
            self.arena.resize("owner", 0, np.int16)
            self.arena.resize("has_value", 0, np.bool_)
        if placement is not None and placement.ids is not None and placement.table is not None:
            self.arena.put("placement.ids", placement.ids)
            self.arena.put("placement.table", placement.table)

    @property
    def placement(self) -> Placement | None:
        """The partition of each vertex; None is the hash."""
        if "placement.ids" not in self.arena:
            return None
        table = self.arena["placement.ids"], self.arena["placement.table"]
        return Placement(self.partitions, *table)

    def owners(self, ids: Array) -> NDArray[np.int32]:
        """The partition (int32[k]) of each id."""
        return (self.placement or Placement(self.partitions)).of(ids)

    def owns(self, ids: Array) -> Array:
        """Return whether the partition owns each vertex (bool[k])."""
        if self.alone:
            return np.ones(len(ids), np.bool_)
        owned: Array = self.owners(ids) == self.partition
        return owned

    def grow(self, ids: Array) -> None:
        """Have places for ids, the last of which are new."""
        if self.alone:
            return
        previous = self.arena.length("owner")
        owners = self.owners(ids[previous:])
        self.arena.resize("owner", len(ids))[previous:] = owners
        self.arena.resize("has_value", len(ids))[previous:] = False
        self.arena.meta["mirrors"] += int((owners != self.partition).sum())

    def restart(self) -> None:
        """Have no value for any mirror."""
        if not self.alone:
            self.arena["has_value"][...] = False

    def renumber(self, places: Array) -> None:
        """Keep these places only, in this order."""
        if self.alone:
            return
        for name in ("owner", "has_value"):
            self.arena.put(name, self.arena[name][places])
        self.arena.meta["mirrors"] = int((self.arena["owner"] != self.partition).sum())

    def local(self, places: Array) -> Array:
        """Return those of some places that are not mirrors."""
        return places if self.alone else places[self.are_local(places)]

    def are_local(self, places: Array) -> Array:
        """Return whether each place is not a mirror (bool[k])."""
        if self.alone:
            return np.ones(len(places), np.bool_)
        local: Array = self.arena["owner"][places] == self.partition
        return local

    def blocks(self, places: Array, topology: Any, ids: Array, columns: dict[str, Array]) -> Blocks:
        """A block for each partition that has mirrors of some places, with their ids.

        Args:
            places: int32[k].
            topology: whose rows have the targets.
            ids: ids of all places.
            columns: what mirrors have; arrays with an entry for each place.
        """
        if self.alone or not len(places):
            return []
        reached = self._partitions_with(places, topology)
        result = []
        for p in range(self.partitions):
            some = places[reached[p]]
            if len(some):
                update = {name: column[some] for name, column in columns.items()}
                result.append((p, encode_bytes({"id": ids[some], **update})))
        return result

    def _partitions_with(self, places: Array, topology: Any) -> Array:
        """A mask of the partitions with mirrors of some places (bool[P, k])."""
        n = len(topology.stop)
        if topology.reached is None and 2 * len(places) > n:  # as in the next iterations
            topology.reached = self._find_partitions(np.arange(n, dtype=np.int32), topology)
        if topology.reached is None:
            return self._find_partitions(places, topology)
        reached: Array = topology.reached.take(places, axis=1)
        return reached

    def _find_partitions(self, places: Array, topology: Any) -> Array:
        reached = np.zeros((self.partitions, len(places)), np.bool_)
        reach: Any = _reach
        rows = topology.start, topology.stop, topology.target
        reach(places, *rows, self.arena["owner"], self.partition, reached)
        return reached

    @staticmethod
    def read(blocks: Blocks) -> dict[str, Array] | None:
        """The columns of what came from all partitions; None for nothing."""
        parts = [decode(block, trusted=True)[0] for _, block in blocks]
        if not parts:
            return None
        return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


@njit
def _reach(places, start, stop, target, owner, mine, out):  # type: ignore[no-untyped-def]
    """Mark, by partition, the places with a target there, in partitions other than `mine`."""
    for k in range(places.shape[0]):
        u = places[k]
        left = out.shape[0] - 1
        for e in range(start[u], stop[u]):
            p = owner[target[e]]
            if p != mine and not out[p, k]:
                out[p, k] = True
                left -= 1
                if left == 0:
                    break
