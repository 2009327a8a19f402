"""One partition's graph in memory: which vertices it owns, and where their messages go.

A vertex belongs to the partition that its `Placement` says. Inside it, it has a local index;
targets which other partitions own are *ghosts*. Local vertices and ghosts together are *slots*:
slot s < n is local vertex s, slot n + k is ghost k. Messages are combined per slot before
they leave, so a hop sends at most one value per ghost.

The arrays are immutable: a program that changes the graph gets a new `Topology`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.id_hash import hash_partition
from vertexsdk.graph.topology.placement import Placement


@dataclass(frozen=True, slots=True)
class Topology:
    """The adjacency of one partition; n vertices, g ghosts, m out-edges, b inbound ghosts.

    Rows of `start`/`target` are ascending by (target id, reverse). The transposed adjacency
    `in_start`/`in_source` has a row per slot: local sources ascending, one entry per edge,
    then n + j for each inbound ghost j. Ghosts are one per remote target, or one per remote edge:
    then `producers`, `in_order` and `inbound_order` are there, until a program changes the graph.
    """

    partition: int
    partitions: int
    ids: NDArray[np.int64]  # [n] ascending
    start: NDArray[np.int64]  # [n + 1]
    target: NDArray[np.int32]  # [m] slots
    ghost_ids: NDArray[np.int64]  # [g] grouped by owner
    ghost_start: NDArray[np.int64]  # [P + 1]
    inbound: NDArray[np.int32]  # [b] local index behind each other partition's ghost
    inbound_start: NDArray[np.int64]  # [P + 1]
    in_start: NDArray[np.int64]  # [n + g + 1]
    in_source: NDArray[np.int32]  # [m + b]
    kind: NDArray[np.uint8] | None = None  # [n] vertex class
    value: NDArray[Any] | None = None  # [m] edge values
    reverse: NDArray[np.bool_] | None = None  # [m] followed against its direction
    names: tuple[NDArray[np.int64], NDArray[np.uint8]] | None = None  # string ids
    producers: NDArray[np.int64] | None = None  # [b] ids behind inbound ghosts, if one per edge
    in_order: NDArray[np.int32] | None = None  # [m + b] in_source, its rows by producers' ids
    inbound_order: NDArray[np.int32] | None = None  # [b] ghosts by other partition, producer's id
    placement: Placement | None = None  # None: every vertex is where the hash of its id says

    def owners(self, ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the partition (int32[k]) which owns each vertex id (int64[k])."""
        if self.placement is None:
            return hash_partition(ids, self.partitions)
        return self.placement.of(ids)

    @property
    def remote(self) -> int:
        """The number of out-edges to other partitions."""
        return int(self.in_start[self.n + self.ghosts] - self.in_start[self.n])

    @property
    def boundary(self) -> NDArray[np.int64]:
        """The vertices (local indices, ascending) with a consumer in another partition."""
        boundary = np.zeros(self.n, np.bool_)
        boundary[self.in_source[self.in_start[self.n] : self.in_start[self.n + self.ghosts]]] = True
        return np.flatnonzero(boundary)

    @property
    def in_value(self) -> None:
        """Values in the order of `in_source`: kept only where the graph changes."""

    @property
    def stop(self) -> NDArray[np.int64]:
        """The end of each vertex's row, [n]; rows of a graph that changes need not touch."""
        return self.start[1:]

    @property
    def in_stop(self) -> NDArray[np.int64]:
        """The end of each slot's row of the transposed adjacency, [n + g]."""
        return self.in_start[1:]

    def in_cuts(self, parts: int) -> NDArray[np.int64]:
        """Cut the slots into `parts` ranges with about equal numbers of in-edges, [parts + 1]."""
        start, rows = self.in_start, len(self.in_start) - 1
        inner = np.linspace(0, start[-1], parts + 1)[1:-1].astype(start.dtype)
        cuts = np.minimum(np.searchsorted(start, inner), rows)
        return np.concatenate([[0], cuts, [rows]]).astype(np.int64)

    @property
    def n(self) -> int:
        """The number of vertices this partition owns."""
        return len(self.ids)

    @property
    def ghosts(self) -> int:
        """The number of ghost slots."""
        return len(self.ghost_ids)

    @property
    def m(self) -> int:
        """The number of out-edges."""
        return len(self.target)

    def to_columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the arrays by name and the scalars, as `from_columns` takes them."""
        columns = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("partition", "partitions", "names", "placement")
            and getattr(self, f.name) is not None
        }
        if self.names is not None:
            columns["names.offsets"], columns["names.bytes"] = self.names
        meta: dict[str, Any] = {"partition": self.partition, "partitions": self.partitions}
        if self.placement is not None and self.placement.key is not None:
            meta["placement"] = self.placement.key  # which is resident too
        return columns, meta

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Topology:
        """Build the topology from what `to_columns` returned.

        Raises:
            RunError: it has a placement which this host has lost.
        """
        arrays: dict[str, Any] = {k: v for k, v in columns.items() if not k.startswith("names.")}
        if "names.offsets" in columns:
            arrays["names"] = (columns["names.offsets"], columns["names.bytes"])
        if "placement" in meta:
            arrays["placement"] = Placement.open(meta["placement"], meta["partitions"])
        return cls(partition=meta["partition"], partitions=meta["partitions"], **arrays)
