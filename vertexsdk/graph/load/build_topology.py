"""Builds the `Topology` of a partition from its edges, in two steps.

`sort_edges` sorts the partition's own edges into `LocalRows`, whose ghosts are then sent to the
partitions that own them. `build_topology` adds the ghosts that the partition received: the vertices
of its own that are ghosts elsewhere. With one partition nothing is sent between the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.radix_sort import order_of_pairs
from vertexsdk.errors import RunError
from vertexsdk.graph.load.adjacency_rows import (
    BACKWARD,
    BOTH,
    FORWARD,
    SYMMETRIC,
    AdjacencyRows,
    Chunk,
    arrange,
)
from vertexsdk.graph.load.transpose import order_producers, transpose
from vertexsdk.graph.topology.edge_attributes import no_values
from vertexsdk.graph.topology.id_index import replace_ids
from vertexsdk.graph.topology.placement import Placement
from vertexsdk.graph.topology.topology import Topology

__all__ = [
    "NO_GHOSTS", "NO_KIND", "AdjacencyRows", "Chunk", "Inbound", "LocalRows", "Variant",
    "VertexTable", "build_topology", "edge_mode", "sort_edges", "with_ghosts",
]  # fmt: skip

NO_KIND = 255  # the class code of a vertex for which the vertex file names no class

_MOST_SLOTS = 2**31 - 1
_ALONE = Placement(1)


@dataclass(frozen=True, slots=True)
class Variant:
    """The part of a graph that a program reads.

    Attributes:
        direction: "out", "in", "both" or "undirected".
        value: None, "float64", "int64", or the types of several attributes (`edge_attributes`).
        ghosts: "combined" (one per remote target) or "each" (one per remote edge).
        parallel: whether parallel edges are kept, of a graph that has them.
    """

    direction: str = "out"
    value: str | None = None
    ghosts: str = "combined"
    parallel: bool = True

    @property
    def name(self) -> str:
        """A short name, usable as a file name."""
        name = f"{self.direction}-{self.value}-{self.ghosts}"
        return name if self.parallel else f"{name}-once"


@dataclass(frozen=True, slots=True)
class VertexTable:
    """Vertices of a vertex file: their ids, and the code of each one's class."""

    ids: NDArray[np.int64]
    kind: NDArray[np.uint8] | None = None

    def owned_by(self, partition: int, placement: Placement) -> VertexTable:
        """Return the vertices that a partition owns."""
        here = placement.of(self.ids) == partition
        return VertexTable(self.ids[here], None if self.kind is None else self.kind[here])

    def kinds_of(self, ids: NDArray[np.int64]) -> NDArray[np.uint8] | None:
        """Return the class code of each of `ids`, which ascend and contain these vertices."""
        if self.kind is None:
            return None
        kinds = np.full(len(ids), NO_KIND, np.uint8)
        kinds[np.searchsorted(ids, self.ids)] = self.kind
        return kinds


def edge_mode(direction: str, undirected: bool) -> int:
    """Return the direction in which edges are followed: FORWARD, BACKWARD, BOTH or SYMMETRIC."""
    if undirected:
        return SYMMETRIC
    return {"out": FORWARD, "in": BACKWARD, "both": BOTH, "undirected": SYMMETRIC}[direction]


class Inbound(NamedTuple):
    """Ghosts of another partition whose vertices this one owns.

    Attributes:
        ids: int64[k], the vertices.
        producers: int64[k], the source of the edge of each, where there is one per edge.
    """

    ids: NDArray[np.int64]
    producers: NDArray[np.int64] | None = None

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, for `from_columns`."""
        return {name: array for name, array in self._asdict().items() if array is not None}

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]]) -> Inbound:
        """Build it from what `to_columns` returned."""
        return cls(columns["ids"], columns.get("producers"))


NO_GHOSTS = Inbound(np.empty(0, np.int64))


@dataclass(slots=True)
class LocalRows:
    """The adjacency rows of a partition, over the ids of its edges.

    Attributes:
        ids: int64, ascending, without duplicates.
        rows: adjacency over positions in `ids`.
        ghost: positions in `ids` of the targets that other partitions own, by owner, then id (one
            per remote edge if ghosts are "each").
        ghost_start: int64[partitions + 1], the bounds of each owner's ghosts.
        producer: positions in `ids` of the sources, if ghosts are "each".
        edges: then also the positions in `rows` of the edges to them.
    """

    ids: NDArray[np.int64]
    rows: AdjacencyRows
    ghost: NDArray[np.int32]
    ghost_start: NDArray[np.int64]
    producer: NDArray[np.int32] | None = None
    edges: NDArray[np.int64] | None = None

    def ghosts_of(self, partition: int) -> Inbound:
        """Return the ghosts that `partition` owns, in order."""
        a, z = self.ghost_start[partition], self.ghost_start[partition + 1]
        producers = None if self.producer is None else self.ids[self.producer[a:z]]
        return Inbound(self.ids[self.ghost[a:z]], producers)


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
    """Sort the edges of one partition.

    Args:
        chunks: the edges between ids, in file order; emptied. With several partitions, all edges
            that add an entry to a row of this one.
        variant: the part of the graph to build.
        partition: the number of the partition.
        placement: the owner of each vertex.
        extra: ids of vertices that may have no edges.
        undirected: each edge stands for both directions.
        multi: keep duplicate edges.
        threads: the result does not depend on it.

    Raises:
        RunError: more vertices and ghosts than an int32 can number.
    """
    partitions = placement.partitions
    ends = [a for c in chunks for a in (c.source, c.target)]
    for chunk in chunks:
        del chunk.source, chunk.target  # so that they are freed one by one
    ids = replace_ids(ends, extra, threads)
    if len(ids) > _MOST_SLOTS // 2:
        raise RunError(
            f"partition {partition} would have {len(ids)} vertices and ghosts, more than "
            f"{_MOST_SLOTS // 2}; use more partitions"
        )
    for k, chunk in enumerate(chunks):
        chunk.source, chunk.target = ends[2 * k : 2 * k + 2]
    del ends
    attributes = _numbered(chunks)
    as_set = variant.direction == "undirected"
    owners = None if partitions == 1 else placement.of(ids)
    rows = arrange(
        chunks,
        len(ids),
        edge_mode(variant.direction, undirected),
        owned=None if owners is None else owners == partition,
        pairs=undirected,
        keep_all=multi and variant.parallel and not as_set,
        drop_loops=as_set,
        threads=threads,
    )
    if attributes is not None and rows.value is not None:
        rows.value = attributes[rows.value]
    if owners is None:
        return LocalRows(ids, rows, np.empty(0, np.int32), np.zeros(2, np.int64))
    return with_ghosts(ids, rows, partition, partitions, owners, variant.ghosts == "each")


def _numbered(chunks: list[Chunk]) -> NDArray[np.int64] | None:
    """Return the attributes of all edges (int64[m, k]), and put their rows in place of them."""
    parts = [c.value for c in chunks if c.value is not None and c.value.ndim > 1]
    if not parts:
        return None
    first = 0
    for c in chunks:
        c.value = np.arange(first, first + len(c.source))
        first += len(c.source)
    return np.concatenate(parts)


def with_ghosts(
    ids: NDArray[np.int64],
    rows: AdjacencyRows,
    partition: int,
    partitions: int,
    owners: NDArray[np.int32],
    each_edge: bool,
) -> LocalRows:
    """Return rows with the ghosts among their targets.

    Args:
        ids, rows: as in `LocalRows`.
        partition, partitions: the number of this partition, and how many there are.
        owners: int32[n], the partition that owns each id.
        each_edge: a ghost per remote edge.
    """
    edges = producer = None
    if each_edge:
        edges = _remote_edges(rows, owners, partition)
        ghost = rows.target[edges]
        sources = np.arange(len(ids), dtype=np.int32)
        producer = np.repeat(sources, np.diff(rows.start))[edges]
    else:
        remote = np.flatnonzero(owners != partition).astype(np.int32)
        used = np.zeros(len(ids), np.bool_)
        used[rows.target] = True
        remote = remote[used[remote]]
        ghost = remote[np.argsort(owners[remote], kind="stable")]
    sizes = np.bincount(owners[ghost], minlength=partitions)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return LocalRows(ids, rows, ghost, starts, producer, edges)


def _remote_edges(
    rows: AdjacencyRows, owners: NDArray[np.int32], partition: int
) -> NDArray[np.int64]:
    """Return the positions of the edges to other partitions, by owner, target and source."""
    edges = np.flatnonzero(owners[rows.target] != partition)
    targets = rows.target[edges]
    return edges[order_of_pairs(owners[targets], targets)]


@njit
def _to_slots(target: NDArray[np.int32], slot_of: NDArray[np.int32]) -> None:
    for e in range(len(target)):
        target[e] = slot_of[target[e]]


def build_topology(
    local_rows: LocalRows,
    ghosts: Sequence[Inbound],
    variant: Variant,
    *,
    partition: int = 0,
    placement: Placement | None = None,
    vertices: VertexTable | None = None,
    threads: int = 1,
) -> Topology:
    """Build the topology; `local_rows.rows` is used up.

    Args:
        local_rows: this partition's rows.
        ghosts: for each partition those of its ghosts that this partition owns.
        variant: the part of the graph to build.
        partition: the number of this partition.
        placement: the owner of each vertex; None is by the hash of its id.
        vertices: those of the vertex file that this partition owns.
        threads: the result does not depend on it.
    """
    partitions, rows = len(ghosts), local_rows.rows
    ids, start, inbound_ids = local_rows.ids, rows.start, [g.ids for g in ghosts]
    if partitions > 1:
        owners = (placement or Placement(partitions)).of(local_rows.ids)
        ids, start = _to_local(local_rows, inbound_ids, variant, partition, owners, vertices)
    value = rows.value
    if value is None and variant.value is not None and not len(rows.target):
        value = no_values(0, variant.value)  # edges may come
    inbound = [np.searchsorted(ids, some).astype(np.int32) for some in inbound_ids]
    all_inbound = np.concatenate(inbound)
    slots = len(ids) + len(local_rows.ghost)
    in_start, in_source = transpose(start, rows.target, slots, all_inbound, threads)
    inbound_start = np.concatenate([[0], np.cumsum([len(i) for i in inbound])]).astype(np.int64)
    producers = in_order = inbound_order = None
    if variant.ghosts == "each" and partitions > 1:
        producers = np.concatenate([NO_GHOSTS.ids, *(g.producers for g in ghosts if len(g.ids))])
        in_order, inbound_order = order_producers(
            ids, in_start, in_source, producers, inbound_start
        )
    return Topology(
        partition=partition,
        partitions=partitions,
        ids=ids,
        start=start,
        target=rows.target,
        ghost_ids=local_rows.ids[local_rows.ghost],
        ghost_start=local_rows.ghost_start,
        inbound=all_inbound,
        inbound_start=inbound_start,
        in_start=in_start,
        in_source=in_source,
        producers=producers,
        in_order=in_order,
        inbound_order=inbound_order,
        kind=None if vertices is None else vertices.kinds_of(ids),
        value=value,
        reverse=rows.reverse,
        placement=placement,
    )


def _to_local(
    local_rows: LocalRows,
    inbound_ids: Sequence[NDArray[np.int64]],
    variant: Variant,
    partition: int,
    owners: NDArray[np.int32],
    vertices: VertexTable | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Replace the targets of the rows by slots, in place.

    Returns:
        This partition's ids, and the bounds of their rows.

    Raises:
        RunError: more slots than an int32 can number.
    """
    rows = local_rows.rows
    mine = local_rows.ids[owners == partition]
    named = [] if vertices is None else [vertices.ids]
    ids = np.concatenate([mine, *map(_once, inbound_ids), *named])
    ids.sort(kind="stable")  # which merges what ascends, as all of these do
    ids = _once(ids)
    n, g = len(ids), len(local_rows.ghost)
    if n + g > _MOST_SLOTS:
        raise RunError(
            f"partition {partition} would have {n + g} vertices and ghosts, more than "
            f"{_MOST_SLOTS}; use more partitions"
        )
    local = np.flatnonzero(owners == partition)
    slot_of = np.full(len(local_rows.ids), -1, np.int32)
    slot_of[local] = np.searchsorted(ids, mine)
    if variant.ghosts == "each":
        edges = local_rows.edges
        if edges is None:
            edges = _remote_edges(rows, owners, partition)
        _to_slots(rows.target, slot_of)
        rows.target[edges] = n + np.arange(g, dtype=np.int32)
    else:
        slot_of[local_rows.ghost] = n + np.arange(g, dtype=np.int32)
        _to_slots(rows.target, slot_of)
    start = np.zeros(n + 1, np.int64)
    start[slot_of[local] + 1] = np.diff(rows.start)[local]
    return ids, np.cumsum(start, out=start)


def _once(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ascending ids without repetitions."""
    first = np.ones(len(ids), np.bool_)
    np.not_equal(ids[1:], ids[:-1], out=first[1:])
    distinct: NDArray[np.int64] = ids[first]
    return distinct
