"""Loads a graph's edges as topologies into the memory of hosts, in the tasks of a transport.

With one partition and local files, one task reads them with threads. Otherwise there are three
stages: read the edges and route them to the partitions in which they have rows; sort the rows and
send ghosts to the partitions that own them; build and store the topology. Every stage is a pure
function of the one before, but for the last, which stores its result on the anchor's host.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.threads import default_threads
from vertexsdk.errors import InputError, RunError
from vertexsdk.graph.load import _files as files
from vertexsdk.graph.load._adjacency_rows import Chunk
from vertexsdk.graph.load._blocks import (
    Block,
    Fault,
    edge_blocks,
    fault_block,
    join_rows,
    read_edges,
    row_blocks,
)
from vertexsdk.graph.load._lines import Codes, DistinctIds, LineError, Split, parse_chunk
from vertexsdk.graph.load.arrow import batch_chunk
from vertexsdk.graph.load.build_topology import (
    LocalRows,
    Variant,
    VertexTable,
    build_topology,
    edge_mode,
    sort_edges,
)
from vertexsdk.graph.placement import Placement
from vertexsdk.graph.string_ids import merged
from vertexsdk.transport.transport import Transport, Workers


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """The parameters of a load, for its tasks; picklable."""

    key: str  # resident key; each partition's is this and its number
    variant: Variant
    partitions: int
    undirected: bool
    multi: bool
    table: Any = None  # broadcast of a `Placement`; None is the hash
    table_key: str | None = None  # its resident key

    @property
    def placement(self) -> Placement:
        """The owner of each vertex."""
        if self.table is None:
            return Placement(self.partitions)
        placed: Placement = self.table.value
        return placed

    @property
    def mode(self) -> int:
        """The direction in which edges are followed; see `edge_mode`."""
        return edge_mode(self.variant.direction, self.undirected)

    def key_of(self, partition: int) -> str:
        """The resident key of one partition's topology."""
        return f"{self.key}/{partition}"


class Edges(ABC):
    """A source of edges. `names` is a broadcast of all string ids, or None for integers."""

    @abstractmethod
    def blocks(self, transport: Transport, spec: LoadSpec, names: Any) -> Any:
        """Return a dataset of (destination partition, block), see `edge_blocks`."""

    @abstractmethod
    def distinct_ids(self, transport: Transport) -> Any:
        """Return all ids as a sorted Arrow array of distinct strings.

        Called only if the string ids are not known yet.
        """


class LocalEdges(Edges):
    """Edges that one task can read, in order; picklable."""

    @abstractmethod
    def read(self, value: str | None, codes: Codes, threads: int) -> Iterator[Chunk]:
        """Yield all edges; see `read_chunks`.

        Raises:
            InputError: bad input; names the file and line where there is one.
        """


class DivisibleEdges(LocalEdges):
    """Edges that one task can read, or several tasks in parts."""

    @abstractmethod
    def parts(self, tasks: int) -> Sequence[DivisibleEdges]:
        """Divide the edges, in order, for about so many tasks."""

    def distinct_ids(self, transport: Transport) -> Any:
        """See `Edges`."""
        parts = transport.parallelize(self.parts(transport.cores)).map(_distinct_ids_of)
        return merged(without_fault(transport.collect(parts)))

    def blocks(self, transport: Transport, spec: LoadSpec, names: Any) -> Any:
        """See `Edges`."""
        parts = list(enumerate(self.parts(transport.cores)))
        return transport.parallelize(parts).mapPartitions(partial(_read_parts, spec, names))


def _distinct_ids_of(part: DivisibleEdges) -> Any:
    ids = DistinctIds()
    try:
        for _ in part.read(None, ids, 1):
            pass
    except InputError as error:
        return Fault((0, 0), error)
    return ids.sorted()


def _read_parts(
    spec: LoadSpec, names: Any, parts: Iterable[tuple[int, LocalEdges]]
) -> Iterator[Block]:
    for order, part in parts:
        # Several of these tasks share the machine's cores.
        chunks = part.read(spec.variant.value, lookup(names), 1)
        yield from edge_blocks(order, chunks, spec.placement, spec.mode)


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """Counts of one partition; picklable."""

    vertices: int
    entries: int
    ghosts: int
    edges_read: int
    duplicates: int
    self_loops: int
    valued: int
    bytes: int
    boundary: int  # vertices with a consumer in another partition
    remote: int  # entries that lead to other partitions


def load(
    transport: Transport,
    workers: Workers,
    edges: Edges,
    spec: LoadSpec,
    vertices: VertexTable | None = None,
    names: Any = None,
) -> list[PartitionReport]:
    """Load the topologies of `spec` into shared memory where the workers are.

    Returns:
        A report of each partition.

    Raises:
        NotIntegers: ids are strings, and `names` was not given.
        InputError: bad input; names the file and line where there is one.
        RunError: a task failed.
    """
    sent = transport.broadcast(vertices) if vertices is not None else None
    with workers.watched():
        if spec.partitions == 1 and isinstance(edges, LocalEdges):
            task = partial(_load_alone, edges, spec, sent, names)
            results = workers.records().mapPartitions(task).collect()
        else:
            routed = workers.route(edges.blocks(transport, spec, names))
            if spec.partitions == 1:
                ready = routed.mapPartitions(partial(_build_one, spec, sent, names))
            else:
                rows = routed.mapPartitionsWithIndex(partial(_sort_rows, spec))
                build = partial(_build, spec, sent, names)
                ready = workers.route(rows).mapPartitionsWithIndex(build)
            results = ready.collect()
    outcomes = [pickle.loads(r) for r in results]
    faults = [o for o in outcomes if isinstance(o, Fault)]
    if faults:
        workers.forget(spec.key)
        raise min(faults, key=lambda f: f.order).error
    if len(outcomes) != spec.partitions:
        raise RunError(f"{len(outcomes)} of {spec.partitions} partitions were loaded; run again")
    return outcomes


@dataclass(frozen=True, slots=True)
class FileEdges(DivisibleEdges):
    """Files that every task can open: on this machine, or in a directory shared by all machines."""

    files: tuple[str, ...]
    part: Split | None = None  # of the files; None is all of them

    def parts(self, tasks: int) -> list[FileEdges]:
        """See `DivisibleEdges`."""
        return [FileEdges((s.path,), s) for s in files.plan(self.files, tasks)]

    def read(self, value: str | None, codes: Codes, threads: int) -> Iterator[Chunk]:
        """See `DivisibleEdges`."""
        for split in files.plan(self.files, 1) if self.part is None else [self.part]:
            yield from files.read_chunks(split, value, threads, codes)


def without_fault(parts: list[Any]) -> list[Any]:
    """Return the results of tasks; raise the error of the first `Fault` among them."""
    for part in parts:
        if isinstance(part, Fault):
            raise part.error
    return parts


def lookup(names: Any) -> Codes:
    """Return a broadcast's function from string ids to codes; None for integer ids."""
    return None if names is None else names.value.codes


def route_batches(
    spec: LoadSpec,
    names: Any,
    read: Any,
    columns: tuple[str, str, str | None] | None,
    order: int,
    records: Iterable[bytes],
) -> Iterator[Block]:
    """Route the edges of Arrow batches; without `columns` their first one has lines of text."""
    codes, value = lookup(names), spec.variant.value

    def chunks() -> Iterator[Chunk]:
        for batch in read(records):
            if columns is None:
                yield lines_chunk(batch.column(0), value, codes)
            else:
                yield batch_chunk(batch, columns, value, "the edges", codes)

    yield from edge_blocks(order, chunks(), spec.placement, spec.mode)
    for _ in records:  # after bad input: Spark ends a worker which has not read its own
        pass


def lines_chunk(lines: pa.Array, value: str | None, codes: Any) -> Chunk:
    """Parse edge lines."""
    buffer = np.frombuffer("\n".join(lines.to_pylist()).encode() + b"\n", np.uint8)
    try:
        return parse_chunk(buffer, 0, len(buffer), value, codes)
    except LineError as error:
        raise error.at_line("a line of the edges", buffer) from None


def _load_alone(
    edges: LocalEdges, spec: LoadSpec, vertices: Any, names: Any, items: Iterable[bytes]
) -> Iterator[bytes]:
    list(items)  # Spark ends a worker that has not read its input
    try:
        chunks: list[Chunk] = []
        valued = 0
        for chunk in edges.read(spec.variant.value, lookup(names), default_threads()):
            chunks.append(chunk)
            valued += chunk.valued
            chunk = None  # type: ignore[assignment]  # so that sorting can free it
    except InputError as error:
        yield pickle.dumps(Fault((0, 0), error))
        return
    yield _finish_one(spec, vertices, names, chunks, valued)


def _build_one(
    spec: LoadSpec, vertices: Any, names: Any, blocks: Iterable[bytes]
) -> Iterator[bytes]:
    try:
        chunks, valued = read_edges(blocks)
    except Fault as fault:
        yield pickle.dumps(fault)
        return
    yield _finish_one(spec, vertices, names, chunks, valued)


def _finish_one(
    spec: LoadSpec, vertices: Any, names: Any, chunks: list[Chunk], valued: int
) -> bytes:
    threads = default_threads()  # one partition has the machine
    table: VertexTable | None = vertices.value if vertices is not None else None
    own = _sorted(spec, chunks, 0, threads, [] if table is None else [table.ids])
    return _store_topology(spec, 0, own, [np.empty(0, np.int64)], table, names, valued, threads)


def _sorted(
    spec: LoadSpec,
    chunks: list[Chunk],
    partition: int,
    threads: int,
    extra: Sequence[NDArray[np.int64]] = (),
) -> LocalRows:
    return sort_edges(
        chunks, spec.variant, partition=partition, placement=spec.placement, extra=extra,
        undirected=spec.undirected, multi=spec.multi, threads=threads,
    )  # fmt: skip


def _sort_rows(spec: LoadSpec, partition: int, blocks: Iterable[bytes]) -> Iterator[Block]:
    try:
        chunks, valued = read_edges(blocks)
    except Fault as fault:
        yield fault_block(fault.order, fault.error)
        return
    own = _sorted(spec, chunks, partition, 1)
    yield from row_blocks(partition, own, spec.partitions, valued)


def _build(
    spec: LoadSpec, vertices: Any, names: Any, partition: int, blocks: Iterable[bytes]
) -> Iterator[bytes]:
    try:
        own, inbound_ids, valued = join_rows(blocks, spec.partitions)
    except Fault as fault:
        yield pickle.dumps(fault)
        return
    table = None
    if vertices is not None:
        table = vertices.value.owned_by(partition, spec.placement)
    yield _store_topology(spec, partition, own, inbound_ids, table, names, valued, 1)


def _store_topology(
    spec: LoadSpec,
    partition: int,
    own: LocalRows,
    inbound_ids: Sequence[NDArray[np.int64]],
    vertices: VertexTable | None,
    names: Any,
    valued: int,
    threads: int,
) -> bytes:
    rows = own.rows
    counts = (rows.edges_read, rows.duplicates, rows.self_loops)  # building uses up the rows
    placement = None if spec.table_key is None else spec.placement.keep(spec.table_key)
    topology = build_topology(
        own, inbound_ids, spec.variant, partition=partition, placement=placement,
        vertices=vertices, threads=threads,
    )  # fmt: skip
    if names is not None:
        topology = replace(topology, names=names.value.packed(topology.ids))
    columns, meta = topology.to_columns()
    size = shared_memory.save(spec.key_of(partition), columns, meta)
    sizes = (topology.n, topology.m, topology.ghosts)
    boundary = (len(topology.boundary), topology.remote)
    return pickle.dumps(PartitionReport(*sizes, *counts, valued, size, *boundary))
