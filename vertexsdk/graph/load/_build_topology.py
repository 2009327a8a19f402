"""The `Topology` of a partition, built from its edges in two steps.

`LocalRows` is what a partition knows from the edges which it owns alone: sorted rows between the
ids it has seen. From it come the ghosts, in the order that the other partitions are told of
them. `build_topology` then adds what the others told: which of its vertices are ghosts elsewhere.
With one partition there is nothing to tell, and the two steps follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.threads import map_threaded
from vertexsdk.errors import RunError
from vertexsdk.graph._id_index import Index
from vertexsdk.graph._placement import Placement
from vertexsdk.graph.load._radix_sort import (
    BACKWARD,
    BOTH,
    FORWARD,
    SYMMETRIC,
    AdjacencyRows,
    Chunk,
    arrange,
)
from vertexsdk.graph.load._transpose import transpose
from vertexsdk.graph.topology import Topology

__all__ = [
    "NO_KIND",
    "LocalRows",
    "Variant",
    "VertexTable",
    "build_topology",
    "edge_mode",
    "sort_edges",
]

NO_KIND = 255  # the class code of a vertex for which the vertex file names no class

_MOST_SLOTS = 2**31 - 1
_ALONE = Placement(1)


@dataclass(frozen=True, slots=True)
class Variant:
    """What of a graph a program reads.

    `direction`: "out", "in", "both" or "undirected"; `value`: None, "float64" or "int64";
    `ghosts`: "combined" (one per remote target) or "each" (one per remote edge).
    """

    direction: str = "out"
    value: str | None = None
    ghosts: str = "combined"

    @property
    def name(self) -> str:
        """A short name which is a file name too."""
        return f"{self.direction}-{self.value}-{self.ghosts}"


@dataclass(frozen=True, slots=True)
class VertexTable:
    """Vertices named by a vertex file: ids (int64), and the code of each one's class (uint8)."""

    ids: NDArray[np.int64]
    kind: NDArray[np.uint8] | None = None

    def owned_by(self, partition: int, placement: Placement) -> VertexTable:
        """Return those which a partition owns."""
        here = placement.of(self.ids) == partition
        return VertexTable(self.ids[here], None if self.kind is None else self.kind[here])

    def kinds_of(self, ids: NDArray[np.int64]) -> NDArray[np.uint8] | None:
        """Return the class code of each of `ids` (ascending, with all of these among them)."""
        if self.kind is None:
            return None
        kinds = np.full(len(ids), NO_KIND, np.uint8)
        kinds[np.searchsorted(ids, self.ids)] = self.kind
        return kinds


def edge_mode(direction: str, undirected: bool) -> int:
    """Return which way the edges of a graph are followed for a program of `direction`."""
    if undirected:
        return SYMMETRIC
    return {"out": FORWARD, "in": BACKWARD, "both": BOTH, "undirected": SYMMETRIC}[direction]


@dataclass(slots=True)
class LocalRows:
    """Rows between the ids that a partition has seen.

    `ids` ascending; `rows` indexes them; `ghost` are the positions in `ids` of the targets that
    other partitions own, by owner, then id (one per remote edge where ghosts are "each");
    `ghost_start` bounds those of each owner.
    """

    ids: NDArray[np.int64]
    rows: AdjacencyRows
    ghost: NDArray[np.int32]
    ghost_start: NDArray[np.int64]

    def told(self, partition: int) -> NDArray[np.int64]:
        """The ghost ids to tell `partition` of, in order."""
        a, z = self.ghost_start[partition], self.ghost_start[partition + 1]
        return self.ids[self.ghost[a:z]]


def sort_edges(
    chunks: list[Chunk],
    variant: Variant,
    *,
    partition: int = 0,
    placement: Placement = _ALONE,
    extra: Sequence[NDArray[np.int64]] = (),
    undirected: bool = False,
    multi: bool = False,
    threads: int = 1,
) -> LocalRows:
    """Sort the edges of one partition; `chunks` (in file order, between ids) are emptied.

    With several partitions `chunks` has every edge that gives a row to this one.
    """
    partitions = placement.partitions
    arrays = [a for c in chunks for a in (c.source, c.target)]
    index = Index.build([*arrays, *extra], threads)
    del arrays
    if len(index.ids) > _MOST_SLOTS // 2:
        raise RunError(
            f"partition {partition} would have {len(index.ids)} vertices and ghosts, more than "
            f"{_MOST_SLOTS // 2}; use more partitions"
        )

    def look(k: int) -> None:
        c = chunks[k]
        c.source = _positions(index, c.source)
        c.target = _positions(index, c.target)

    list(map_threaded(look, range(len(chunks)), threads))
    as_set = variant.direction == "undirected"
    owners = None if partitions == 1 else placement.of(index.ids)
    rows = arrange(
        chunks,
        len(index.ids),
        edge_mode(variant.direction, undirected),
        owned=None if owners is None else owners == partition,
        pairs=undirected,
        keep_all=multi and not as_set,
        drop_loops=as_set,
        threads=threads,
    )
    if owners is None:
        return LocalRows(index.ids, rows, np.empty(0, np.int32), np.zeros(2, np.int64))
    return _with_ghosts(index.ids, rows, partition, partitions, owners, variant.ghosts == "each")


def _positions(index: Index, ids: NDArray[Any]) -> NDArray[np.int32]:
    if ids.dtype == np.int32 and ids.flags.writeable:
        return index.of(ids, ids)
    return index.of(ids)


def _with_ghosts(
    ids: NDArray[np.int64],
    rows: AdjacencyRows,
    partition: int,
    partitions: int,
    owners: NDArray[np.int32],
    each_edge: bool,
) -> LocalRows:
    remote = np.flatnonzero(owners != partition).astype(np.int32)
    if each_edge:
        at = _remote_edges(rows.start, rows.target, owners, partition)
        targets = rows.target[at]
        order = np.lexsort((at, targets, owners[targets]))
        ghost = targets[order]
    else:
        used = np.zeros(len(ids), np.bool_)
        used[rows.target] = True
        remote = remote[used[remote]]
        ghost = remote[np.argsort(owners[remote], kind="stable")]
    sizes = np.bincount(owners[ghost], minlength=partitions)
    return LocalRows(ids, rows, ghost, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


@njit
def _remote_edges(
    start: NDArray[np.int64],
    target: NDArray[np.int32],
    owners: NDArray[np.int32],
    partition: int,
) -> NDArray[np.int64]:
    """Return the positions of the edges to other partitions, in order of their source."""
    count = 0
    for t in target:
        count += owners[t] != partition
    out = np.empty(count, np.int64)
    count = 0
    for e in range(len(target)):
        if owners[target[e]] != partition:
            out[count] = e
            count += 1
    return out


@njit
def _to_slots(target: NDArray[np.int32], slot_of: NDArray[np.int32]) -> None:
    for e in range(len(target)):
        target[e] = slot_of[target[e]]


def build_topology(
    own: LocalRows,
    told: Sequence[NDArray[np.int64]],
    variant: Variant,
    *,
    partition: int = 0,
    placement: Placement | None = None,
    vertices: VertexTable | None = None,
    threads: int = 1,
) -> Topology:
    """Build the topology; `own.rows` is used up.

    Args:
        own: this partition's rows.
        told: for each partition the ids (int64) of its ghosts which this partition owns.
        placement: by the hash if None.
        vertices: what the vertex file says of vertices which this partition owns.
    """
    partitions, rows = len(told), own.rows
    ids, start = own.ids, rows.start
    if partitions > 1:
        owners = (placement or Placement(partitions)).of(own.ids)
        ids, start = _to_local(own, told, variant, partition, owners, vertices)
    inbound = [np.searchsorted(ids, t).astype(np.int32) for t in told]
    all_inbound = np.concatenate(inbound)
    slots = len(ids) + len(own.ghost)
    in_start, in_source = transpose(start, rows.target, slots, all_inbound, threads)
    return Topology(
        partition=partition,
        partitions=partitions,
        ids=ids,
        start=start,
        target=rows.target,
        ghost_ids=own.ids[own.ghost],
        ghost_start=own.ghost_start,
        inbound=all_inbound,
        inbound_start=np.concatenate([[0], np.cumsum([len(i) for i in inbound])]).astype(np.int64),
        in_start=in_start,
        in_source=in_source,
        kind=None if vertices is None else vertices.kinds_of(ids),
        value=rows.value,
        reverse=rows.reverse,
        placement=placement,
    )


def _to_local(
    own: LocalRows,
    told: Sequence[NDArray[np.int64]],
    variant: Variant,
    partition: int,
    owners: NDArray[np.int32],
    vertices: VertexTable | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Turn the targets of the rows into slots, in place; return this partition's ids and `start`.

    Raises:
        RunError: more slots than an int32 can number.
    """
    rows = own.rows
    mine = own.ids[owners == partition]
    ids = np.unique(np.concatenate([mine, *told, *([] if vertices is None else [vertices.ids])]))
    n, g = len(ids), len(own.ghost)
    if n + g > _MOST_SLOTS:
        raise RunError(
            f"partition {partition} would have {n + g} vertices and ghosts, more than "
            f"{_MOST_SLOTS}; use more partitions"
        )
    local = np.flatnonzero(owners == partition)
    slot_of = np.full(len(own.ids), -1, np.int32)
    slot_of[local] = np.searchsorted(ids, mine)
    if variant.ghosts == "each":
        at = _remote_edges(rows.start, rows.target, owners, partition)
        targets = rows.target[at]
        order = np.lexsort((at, targets, owners[targets]))
        _to_slots(rows.target, slot_of)
        rows.target[at[order]] = n + np.arange(g, dtype=np.int32)
    else:
        slot_of[own.ghost] = n + np.arange(g, dtype=np.int32)
        _to_slots(rows.target, slot_of)
    start = np.zeros(n + 1, np.int64)
    start[slot_of[local] + 1] = np.diff(rows.start)[local]
    return ids, np.cumsum(start, out=start)
