"""The partition that owns each vertex: by the hash of its id, or as a table says.

A table is made by partitioning the graph by its structure, or given by the user. Ids which are not
in it go by the hash, so a vertex that comes to be later has its place too. A placement never
changes; with a table it is kept on every host under a resident key, which topologies name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.id_hash import hash_partition
from vertexsdk.errors import InputError, RunError

if TYPE_CHECKING:  # which imports a compiler
    from vertexsdk.graph.topology.string_ids import StringIds

_SPAN = 8  # ids per entry of the table up to which it is looked up without a search


@dataclass(frozen=True, eq=False)
class Placement:
    """The partition of every id; by the hash alone without a table.

    >>> Placement.of_table(np.array([5, 3]), np.array([1, 0]), 2).of(np.array([3, 5]))
    array([0, 1], dtype=int32)
    """

    partitions: int
    ids: NDArray[np.int64] | None = None  # [k] ascending
    table: NDArray[np.int32] | None = None  # [k] their partitions
    key: str | None = None  # where it is resident

    @classmethod
    def of_table(
        cls,
        ids: NDArray[np.int64],
        partition: NDArray[Any],
        partitions: int,
        names: StringIds | None = None,
    ) -> Placement:
        """Place `ids` (int64[k], in any order) as `partition` (integers[k]) says.

        Args:
            names: those of the ids, where they are codes.

        Raises:
            InputError: an id twice, or a partition which is not there.
        """
        order = np.argsort(ids, kind="stable")
        ids, owners = ids[order], np.asarray(partition)[order]
        twice = np.flatnonzero(ids[1:] == ids[:-1])
        if len(twice):
            vertex = _shown(ids[twice[0]], names)
            raise InputError(f"vertex {vertex} is placed twice; name each vertex once")
        wrong = np.flatnonzero((owners < 0) | (owners >= partitions))
        if len(wrong):
            vertex, partition = _shown(ids[wrong[0]], names), owners[wrong[0]]
            raise InputError(
                f"vertex {vertex} is placed in partition {partition}; with "
                f"{partitions} partitions they are 0 to {partitions - 1}"
            )
        return cls(partitions, ids, owners.astype(np.int32))

    @classmethod
    def open(cls, key: str, partitions: int) -> Placement:
        """Map a placement which was kept on this host.

        Raises:
            RunError: this host does not have it.
        """
        stored = shared_memory.load(key)
        if stored is None:
            raise RunError(f"this host has lost the placement {key}")
        return cls(partitions, stored[0]["ids"], stored[0]["table"], key)

    def keep(self, key: str) -> Placement:
        """Return this placement kept on this host under `key`; one without a table needs none."""
        if self.ids is None or self.table is None:
            return self
        if shared_memory.load(key) is None:
            shared_memory.save(key, {"ids": self.ids, "table": self.table}, {})
        return Placement.open(key, self.partitions)

    def of(self, ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the partition (int32[n]) which owns each vertex id (int64[n])."""
        if self.ids is None or self.table is None or not len(self.ids):
            return hash_partition(ids, self.partitions)
        ids = ids.astype(np.int64, copy=False)
        if self._direct is None:
            at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
            owners = np.where(self.ids[at] == ids, self.table[at], np.int32(-1))
        else:
            within = (ids >= self.ids[0]) & (ids <= self.ids[-1])
            owners = self._direct[np.where(within, ids, self.ids[0]) - self.ids[0]]
            owners[~within] = -1
        rest = owners < 0
        if rest.any():
            owners[rest] = hash_partition(ids[rest], self.partitions)
        return owners

    @cached_property
    def _direct(self) -> NDArray[np.int32] | None:
        """The table by id from the first one on, -1 where none is; None where that were long."""
        assert self.ids is not None
        assert self.table is not None
        span = int(self.ids[-1]) - int(self.ids[0]) + 1
        if span > _SPAN * len(self.ids) + 1024:
            return None
        direct = np.full(span, -1, np.int32)
        direct[self.ids - self.ids[0]] = self.table
        return direct

    def __reduce__(self) -> tuple[Any, ...]:
        return Placement, (self.partitions, self.ids, self.table, self.key)


def _shown(vertex: Any, names: StringIds | None) -> Any:
    return vertex if names is None else names.name(int(vertex))
