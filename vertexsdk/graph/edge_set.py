"""The current edges of a changing graph, sorted, in the shared memory of the executors.

Partition p has the edges out of the vertices that it owns. A batch of changes makes a new version
of every partition; a `Graph` of a version reads it where it is. An edge of an undirected graph is
stored in both directions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.errors import InputError, RunError
from vertexsdk.graph._key_references import RefCountedKeys
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.checkpoint import put_edges, put_names
from vertexsdk.graph.edge_attributes import no_values
from vertexsdk.graph.edge_kernels import COUNTS, apply_changes
from vertexsdk.graph.graph import Graph
from vertexsdk.graph.load._blocks import Block, edge_blocks
from vertexsdk.graph.load._jobs import Edges, LoadSpec
from vertexsdk.graph.load._radix_sort import Chunk
from vertexsdk.graph.placement import Placement
from vertexsdk.graph.string_ids import StringIds
from vertexsdk.graph.topology import Topology
from vertexsdk.graph.vertex_file import VertexInput
from vertexsdk.state import SegmentRef, open_store
from vertexsdk.state.address import Address
from vertexsdk.transport.transport import Transport

__all__ = ["EdgeSet", "ResidentEdges", "refuse_parallel"]

_AT_ONCE = 1 << 22  # edges in a block
_GONE = "an executor was lost with the edges it held; resume the loop from its store"


@dataclass(frozen=True, slots=True)
class _Part:
    """What one partition says of a batch."""

    counts: dict[str, int]
    absent: NDArray[np.int64]  # changes of the batch, by number


class EdgeSet:
    """The edges of `graph`, to be changed; a fork shares them until one of the two changes.

    Args:
        graph: where they begin; it must not keep parallel edges.
        value: dtype of the edge values a program reads, or None.

    Raises:
        InputError: the graph keeps parallel edges.
    """

    def __init__(self, graph: Graph, value: str | None) -> None:
        refuse_parallel(graph)
        self.base, self.value, self.undirected = graph, value, graph.undirected
        info = graph.materialise(("out", value, "combined"))
        self.partitions, self.workers = graph.partitions, graph.workers
        self.keys = RefCountedKeys(graph)
        self.key = self.keys.fresh("edges")
        self.workers.run(partial(_first, info.keys, self.key, value))
        self.names: StringIds | None = graph.string_table
        self.placement: Any = graph.placement  # a broadcast, or None
        self.num_edges = info.num_edges
        self.renamed = 0  # how often ids were given other codes
        for key in info.keys:
            graph.forget(key)

    def fork(self) -> EdgeSet:
        """Return a set of the same edges, to be changed by itself."""
        self.keys.hold(self.key)
        return copy(self)

    def close(self) -> None:
        """Free the edges, unless a fork has them too; the last one frees the graph."""
        if self.key:
            self.keys.drop(self.key)
        self.key = ""

    def _become(self, key: str) -> None:
        self.keys.drop(self.key)
        self.key = key

    def apply(self, changes: Changes, *, strict: bool) -> tuple[dict[str, int], list[int]]:
        """Take in a batch; return counts, see `apply_changes`, and the absent edges' changes.

        With `strict` a batch which has any of those is not taken in.

        Raises:
            InputError: string ids for a graph of integers.
            RunError: an executor was lost.
        """
        codes = self._codes(changes)
        kind = changes.kind
        order = np.arange(len(kind))
        value = changes.value if self.value is not None else np.zeros(len(kind), np.uint8)
        columns: list[NDArray[Any]] = [order, kind, *codes, value]
        if self.undirected:
            there = codes[0] != codes[1]
            back: list[NDArray[Any]] = [order, kind, codes[1], codes[0], value]
            columns = [np.concatenate([a, b[there]]) for a, b in zip(columns, back, strict=True)]
        new = self.keys.fresh("edges")
        task = partial(_apply, self.key, new, self.value)
        parts: list[_Part | None] = self.workers.run(
            partial(task, self.partitions, self.placement, self.undirected, tuple(columns))
        )
        reports = [p for p in parts if p is not None]
        if len(reports) < len(parts):
            self.keys.drop(new)
            raise RunError(_GONE)
        absent = sorted({int(k) for p in reports for k in p.absent})
        counts = {name: sum(p.counts[name] for p in reports) for name in COUNTS}
        if strict and absent:
            self.keys.drop(new)
        else:
            self._become(new)
            self.num_edges += counts["added"] - counts["removed"]
        return counts, absent

    def _codes(self, changes: Changes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self.names is None:
            if not changes.are_integers:
                raise InputError("the graph's ids are integers; so must be those of its changes")
            return np.asarray(changes.source), np.asarray(changes.target)
        source, target = changes.strings()
        self.learn(source, target)
        assert self.names is not None
        return self.names.codes(source), self.names.codes(target)

    def learn(self, *more: Any) -> None:
        """Give new string ids their codes, by rank among all, and the known ones theirs."""
        assert self.names is not None
        names = StringIds.of(self.names.sorted, *more)
        if len(names) == len(self.names):
            return
        moved = names.codes(self.names.sorted)
        new = self.keys.fresh("edges")
        placement = self._recode(moved)
        recode = partial(_recoded, self.key, moved, self.partitions, placement)
        try:
            with self.workers.watched():
                blocks = self.workers.records().mapPartitionsWithIndex(recode)
                self.workers.route(blocks).mapPartitionsWithIndex(partial(_joined, new)).collect()
        except BaseException:
            self.keys.drop(new)
            raise
        self._become(new)
        self.names, self.placement = names, placement
        self.renamed += 1

    def _recode(self, moved: NDArray[np.int64]) -> Any:
        """The placement, by new codes."""
        if self.placement is None:
            return None
        old: Placement = self.placement.value
        if old.ids is None:
            return self.placement
        new = Placement(self.partitions, moved[old.ids], old.table)  # codes keep their order
        return self.base.transport.broadcast(new)

    def graph(self, vertices: VertexInput | None) -> Graph:
        """Return the graph of these edges, which lives until the next batch is taken in."""
        graph = Graph(
            self.base.spark,
            ResidentEdges(self.key, self.workers.records()),
            vertices,
            undirected=self.undirected,
            partitions=self.partitions,
        )
        graph.use_workers(self.workers)
        if self.names is not None:
            graph.use_string_ids(self.names)
        graph.use_placement(self.base, self.placement)
        return graph

    def checkpoint(self, address: str | Address, loop: str, iteration: int) -> list[SegmentRef]:
        """Write the edges, and the names of string ids, to the store at `address`."""
        valued = self.value is not None
        task = partial(_write, self.key, address, loop, iteration, valued, self.undirected)
        refs = self.workers.run(task)
        if self.names is not None:
            with open_store(address, create=False) as store:
                refs.append(put_names(store, loop, iteration, self.names.sorted))
        return refs


def refuse_parallel(graph: Graph) -> None:
    """Raise InputError if the graph keeps parallel edges: a change would not say which it means."""
    if graph.multi:
        raise InputError("a graph with parallel edges cannot be changed; leave out multi")


@dataclass(frozen=True)
class ResidentEdges(Edges):
    """The edges of an `EdgeSet`'s version. See `Edges`."""

    key: str
    records: Any  # a dataset of the workers where they are

    def local(self) -> _LocalEdges:
        """See `Edges`."""
        return _LocalEdges(self.key)

    def blocks(self, transport: Transport, spec: LoadSpec, names: Any) -> Any:
        """See `Edges`."""
        return self.records.mapPartitionsWithIndex(partial(_blocks, self.key, spec))


@dataclass(frozen=True)
class _LocalEdges:
    """The edges of a set with one partition, read by the task which is where they are."""

    key: str

    def chunks(self, spec: LoadSpec, names: Any, threads: int) -> Iterator[Chunk]:
        """See `LocalEdges`."""
        yield from _chunks(self.key, spec, 0)


def _open(key: str, partition: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None:
    stored = shared_memory.load(f"{key}/{partition}")
    if stored is None:
        return None
    return stored[0]["source"], stored[0]["target"], stored[0]["value"]


def _save(key: str, partition: int, edges: tuple[NDArray[Any], ...]) -> None:
    columns = dict(zip(("source", "target", "value"), edges, strict=True))
    shared_memory.save(f"{key}/{partition}", columns, None)


def _first(keys: tuple[str, ...], key: str, dtype: str | None, partition: int) -> None:
    stored = shared_memory.load(keys[partition])
    if stored is None:
        raise RunError(_GONE)
    t = Topology.from_columns(*stored)
    slots = np.concatenate([t.ids, t.ghost_ids])
    source, target = np.repeat(t.ids, np.diff(t.start)), slots[t.target]
    value = no_values(t.m, dtype) if t.value is None else t.value  # a part without edges has none
    _save(key, partition, (source, target, value))


def _apply(
    key: str,
    new: str,
    named: str | None,
    partitions: int,
    placement: Any,
    undirected: bool,
    columns: tuple[NDArray[Any], ...],
    partition: int,
) -> _Part | None:
    edges = _open(key, partition)
    if edges is None:
        return None
    mine = _owners(columns[2], partitions, placement) == partition
    number, kind, source, target, value = (c[mine] for c in columns)
    changed = source, target, value.astype(edges[2].dtype)
    after, absent, counts = apply_changes(edges, kind, changed, named)
    _save(new, partition, after)
    if undirected:  # every edge is here twice, but for loops; count it where source <= target
        once = source <= target
        forward = source[once], target[once], changed[2][once]
        counts = apply_changes(edges, kind[once], forward, named)[2]
        absent &= once
    return _Part(counts, number[absent])


def _owners(ids: NDArray[np.int64], partitions: int, placement: Any) -> NDArray[np.int32]:
    placed: Placement = Placement(partitions) if placement is None else placement.value
    return placed.of(ids)


def _recoded(
    key: str,
    moved: NDArray[np.int64],
    partitions: int,
    placement: Any,
    partition: int,
    records: Iterable[bytes],
) -> Iterator[Block]:
    """The edges by their new codes, each to the partition that owns its source now."""
    for _ in records:
        pass  # Spark ends a worker which has not read its input
    edges = _open(key, partition)
    if edges is None:
        raise RunError(_GONE)
    source = moved[edges[0]]
    columns = {"source": source, "target": moved[edges[1]], "value": edges[2]}
    owners = _owners(source, partitions, placement)
    for p in range(partitions):
        mine = owners == p
        yield p, encode_bytes({n: c[mine] for n, c in columns.items()}, {})


def _joined(new: str, partition: int, blocks: Iterable[bytes]) -> Iterator[bool]:
    parts = [decode(block)[0] for block in blocks]
    columns = [np.concatenate([p[n] for p in parts]) for n in ("source", "target", "value")]
    order = np.lexsort((columns[1], columns[0]))
    _save(new, partition, tuple(c[order] for c in columns))
    yield True


def _write(
    key: str,
    address: str | Address,
    loop: str,
    iteration: int,
    valued: bool,
    undirected: bool,
    partition: int,
) -> SegmentRef:
    edges = _open(key, partition)
    if edges is None:
        raise RunError(_GONE)
    source, target, value = edges
    if undirected:
        once = source <= target
        source, target, value = source[once], target[once], value[once]
    with open_store(address, create=False) as store:
        columns = source, target, value if valued else None
        return put_edges(store, loop, partition, iteration, columns)


def _blocks(key: str, spec: LoadSpec, partition: int, records: Iterable[bytes]) -> Iterator[Block]:
    for _ in records:
        pass  # Spark ends a worker which has not read its input
    chunks = _chunks(key, spec, partition)
    yield from edge_blocks(partition, chunks, spec.placement, spec.mode)


def _chunks(key: str, spec: LoadSpec, partition: int) -> Iterator[Chunk]:
    edges = _open(key, partition)
    if edges is None:
        raise RunError(_GONE)
    source, target, value = edges
    valued = spec.variant.value is not None
    for k in range(0, len(source), _AT_ONCE):
        columns = tuple(c[k : k + _AT_ONCE] for c in (source, target, value))
        if spec.undirected:
            once = columns[0] <= columns[1]
            columns = tuple(c[once] for c in columns)
        yield Chunk(columns[0], columns[1], columns[2] if valued else None)
