"""Loads a graph's edges as topologies into the memory of hosts: a task in steps on every partition.

The steps: read edges, and send them to the partitions in which they have rows; sort the rows, and
send ghosts to the partitions that own them; build and store the topology. Files are read by the
partitions themselves; what only Spark can read comes from tasks of a job (`BlockSource`). Every
step is a pure function of its blocks, but for the last, which stores its result where it runs. One
partition with local edges reads them with threads, in one step.
"""

from __future__ import annotations

import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.threads import default_threads, map_threaded
from vertexsdk.errors import InputError
from vertexsdk.graph.load import files
from vertexsdk.graph.load.adjacency_rows import Chunk
from vertexsdk.graph.load.arrow import string_ids
from vertexsdk.graph.load.blocks import (
    Fault,
    edge_blocks,
    fault_block,
    join_rows,
    read_edges,
    row_blocks,
)
from vertexsdk.graph.load.build_topology import (
    NO_GHOSTS,
    Inbound,
    LocalRows,
    Variant,
    VertexTable,
    build_topology,
    edge_mode,
    sort_edges,
)
from vertexsdk.graph.load.condition import Condition
from vertexsdk.graph.load.files import Form
from vertexsdk.graph.load.lines import Codes, DistinctIds, LineError, Split, parse_chunk
from vertexsdk.graph.topology.placement import Placement
from vertexsdk.graph.topology.string_ids import merged
from vertexsdk.transport.transport import (
    DRIVER,
    PEERS,
    Block,
    Blocks,
    BlockSource,
    Transport,
    Workers,
)

Step = Literal["read", "sort", "build"]
_MANY = 64  # parts, of which one is a sample
_PARTS = 4  # in which each partition has its share of files, so that shares are about equal


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """The parameters of a load, for its tasks; picklable."""

    key: str  # resident key; each partition's is this and its number
    variant: Variant
    partitions: int
    undirected: bool
    multi: bool
    threads: int = 1  # of each partition, at most
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
        """The direction in which edges are followed."""
        return edge_mode(self.variant.direction, self.undirected)

    def key_of(self, partition: int) -> str:
        """The resident key of one partition's topology."""
        return f"{self.key}/{partition}"


class Edges(ABC):
    """A source of edges: `RoutedEdges`, `LocalEdges` or both.

    Attributes:
        text: ids are read from text, so that all are strings where one is not an integer.
        strings: ids are a typed column of strings.
    """

    text = False
    strings = False

    @abstractmethod
    def distinct_ids(self, workers: Workers) -> Any:
        """Return all ids as a sorted Arrow array of distinct strings.

        Called only if the string ids are not known yet.
        """

    def remarks(self, valued: bool) -> Sequence[str]:
        """Return what is to be said of the source, if a program reads edge values or none."""
        return ()

    @abstractmethod
    def where(self, condition: Condition) -> Edges:
        """Return those of the edges for which a condition holds.

        Raises:
            InputError: it reads a column that is not there, or types do not fit.
        """

    @abstractmethod
    def sample(self, count: int) -> tuple[Edges, float]:
        """Return about so many of the edges, and which share of all they are.

        They are neighbours in the source: rows that follow each other, or a piece of a file.
        """


class RoutedEdges(Edges):
    """Edges that are sent to the partitions."""

    @abstractmethod
    def blocks(self, spec: LoadSpec, names: Any) -> BlockSource:
        """Return the edges as blocks for partitions, as `edge_blocks` makes them.

        Args:
            names: a broadcast of all string ids, or None for integers.
        """


class LocalEdges(Edges):
    """Edges that one task can read, in order; picklable."""

    @abstractmethod
    def read(self, value: str | None, codes: Codes, threads: int) -> Iterator[Chunk]:
        """Yield all edges in chunks.

        Raises:
            InputError: bad input; names the file and line where there is one.
        """


class DivisibleEdges(LocalEdges):
    """Edges that one task can read, or several tasks in parts."""

    @abstractmethod
    def parts(self, tasks: int) -> Sequence[DivisibleEdges]:
        """Divide the edges, in order, for about so many tasks."""

    def sample(self, count: int) -> tuple[Edges, float]:
        """Return one of many parts, and its share of the edges."""
        parts = self.parts(_MANY)
        return parts[len(parts) // 2], 1 / len(parts)

    def distinct_ids(self, workers: Workers) -> Any:
        """Return the distinct ids; the workers read the parts."""
        parts = tuple(self.parts(max(workers.partitions, default_threads())))
        ids_per_worker = workers.run(partial(_distinct_ids_of, parts, workers.partitions))
        return merged(without_fault([ids for share in ids_per_worker for ids in share]))


def _share(parts: Sequence[Any], partition: int, partitions: int) -> range:
    """The places of the parts that a partition reads."""
    return range(len(parts) * partition // partitions, len(parts) * (partition + 1) // partitions)


def _distinct_ids_of(parts: Sequence[DivisibleEdges], partitions: int, partition: int) -> list[Any]:
    def distinct(k: int) -> Any:
        ids = DistinctIds()
        try:
            for _ in parts[k].read(None, ids, 1):
                pass
        except InputError as error:
            return Fault((0, 0), error)
        return ids.sorted()

    share = _share(parts, partition, partitions)
    return list(map_threaded(distinct, share, max(1, default_threads() // partitions)))


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
    stays, blocks = workers.resident, None
    vertices_broadcast = transport.broadcast(vertices) if vertices is not None else None
    steps: tuple[Step, ...] = ("sort", "build") if spec.partitions > 1 else ("build",)
    task = LoadTask(spec, vertices_broadcast, names, steps)
    if spec.partitions == 1 and isinstance(edges, LocalEdges):
        task = replace(task, alone=edges)
    elif isinstance(edges, DivisibleEdges):
        parts = tuple(edges.parts(_PARTS * spec.partitions))
        task = replace(task, steps=("read", *task.steps), parts=parts)
    else:
        assert isinstance(edges, RoutedEdges)
        blocks = edges.blocks(spec, names)
    exchange = workers.exchange(task, resident=stays, blocks=blocks)
    try:
        for step in [None] if stays else task.steps:
            reports = exchange.hop(step)
    finally:
        exchange.close()
    outcomes = [pickle.loads(report) for report in reports]
    faults = [o for o in outcomes if isinstance(o, Fault)]
    if faults:
        workers.forget(spec.key)
        raise min(faults, key=lambda f: f.order).error
    return outcomes


@dataclass(frozen=True, slots=True)
class LoadTask:
    """The task that an `Exchange` runs to load a partition.

    Attributes:
        vertices: a broadcast of the vertices named apart, or None.
        names: a broadcast of all string ids, or None for integers.
        steps: the steps of the load, in order.
        alone: the edges, if the only partition reads them all.
        parts: the parts of the edges, if partitions read them.
    """

    spec: LoadSpec
    vertices: Any
    names: Any
    steps: tuple[Step, ...]
    alone: LocalEdges | None = None
    parts: tuple[DivisibleEdges, ...] = ()

    def __call__(
        self, partition: int, step: Step | None, blocks: Blocks
    ) -> Iterator[tuple[int, Any]]:
        """Take a step; None is all of them, where tasks may go through several supersteps."""
        if step is not None:
            yield from self._step(step, partition, blocks)
            return
        for step in self.steps[:-1]:
            yield from self._step(step, partition, blocks)
            blocks, _ = yield PEERS, b""  # type: ignore[misc]
        yield from self._step(self.steps[-1], partition, blocks)

    @property
    def threads(self) -> int:
        """That the partition may use here."""
        return min(self.spec.threads, default_threads())

    def _step(self, step: Step, partition: int, blocks: Blocks) -> Iterator[Block]:
        if step == "read":
            yield from self._read(partition)
        elif step == "sort":
            yield from self._sort(partition, _consumed(blocks))
        else:
            try:
                yield DRIVER, self._build(partition, _consumed(blocks))
            except Fault as fault:
                yield DRIVER, pickle.dumps(fault)

    def _read(self, partition: int) -> Iterator[Block]:
        spec = self.spec
        for order in _share(self.parts, partition, spec.partitions):
            chunks = self.parts[order].read(spec.variant.value, lookup(self.names), self.threads)
            yield from edge_blocks(order, chunks, spec.placement, spec.mode)

    def _sort(self, partition: int, blocks: Iterable[bytes]) -> Iterator[Block]:
        try:
            chunks, valued = read_edges(blocks)
        except Fault as fault:
            yield fault_block(fault.order, fault.error)
            return
        yield from row_blocks(
            partition, self._sorted(chunks, partition), self.spec.partitions, valued
        )

    def _sorted(
        self, chunks: list[Chunk], partition: int, extra: Sequence[NDArray[np.int64]] = ()
    ) -> LocalRows:
        spec = self.spec
        return sort_edges(
            chunks, spec.variant, partition=partition, placement=spec.placement, extra=extra,
            undirected=spec.undirected, multi=spec.multi, threads=self.threads,
        )  # fmt: skip

    def _build(self, partition: int, blocks: Iterable[bytes]) -> bytes:
        spec = self.spec
        table: VertexTable | None = None if self.vertices is None else self.vertices.value
        if spec.partitions == 1:
            chunks, valued = read_edges(blocks) if self.alone is None else self._read_alone()
            ghosts = [NO_GHOSTS]
            local_rows = self._sorted(chunks, 0, [] if table is None else [table.ids])
        else:
            local_rows, ghosts, valued = join_rows(blocks, spec.partitions)
            table = table and table.owned_by(partition, spec.placement)
        return self._store(partition, local_rows, ghosts, table, valued)

    def _read_alone(self) -> tuple[list[Chunk], int]:
        assert self.alone is not None
        chunks: list[Chunk] = []
        valued = 0
        try:
            for chunk in self.alone.read(self.spec.variant.value, lookup(self.names), self.threads):
                chunks.append(chunk)
                valued += chunk.valued
                chunk = None  # type: ignore[assignment]  # so that sorting can free it
        except InputError as error:
            raise Fault((0, 0), error) from None
        return chunks, valued

    def _store(
        self,
        partition: int,
        local_rows: LocalRows,
        ghosts: Sequence[Inbound],
        vertices: VertexTable | None,
        valued: int,
    ) -> bytes:
        spec, rows = self.spec, local_rows.rows
        counts = (rows.edges_read, rows.duplicates, rows.self_loops)  # building uses up the rows
        placement = None if spec.table_key is None else spec.placement.keep(spec.table_key)
        topology = build_topology(
            local_rows, ghosts, spec.variant, partition=partition, placement=placement,
            vertices=vertices, threads=self.threads,
        )  # fmt: skip
        if self.names is not None:
            topology = replace(topology, names=self.names.value.packed(topology.ids))
        columns, meta = topology.to_columns()
        size = shared_memory.save(spec.key_of(partition), columns, meta)
        sizes = (topology.n, topology.m, topology.ghosts)
        boundary = (len(topology.boundary), topology.remote)
        return pickle.dumps(PartitionReport(*sizes, *counts, valued, size, *boundary))


def _consumed(blocks: Blocks) -> Iterator[bytes]:
    """Yield the blocks in order; each is freed as soon as the caller drops it."""
    blocks.reverse()
    while blocks:
        yield blocks.pop()[1]


@dataclass(frozen=True, slots=True)
class FileEdges(DivisibleEdges):
    """Files that every task can open: on this machine, or in a directory shared by all machines."""

    files: tuple[str, ...]
    part: Split | None = None  # of the files; None is all of them
    most: int | None = None  # edges to be read; None is all of them
    form: Form = field(default_factory=Form)
    condition: Condition | None = None

    @property
    def text(self) -> bool:  # type: ignore[override]
        """True if no file is Parquet."""
        return not any(map(files.is_parquet, self.files))

    @property
    def strings(self) -> bool:  # type: ignore[override]
        """True if a Parquet file has string ids."""
        tables = filter(files.is_parquet, self.files)
        return any(string_ids(files.parquet_schema(f), f) for f in tables)

    def parts(self, tasks: int) -> list[FileEdges]:
        """Divide the files, in order, for about so many tasks."""
        if self.most is not None:
            return [self]
        splits = self._splits(tasks) if self.part is None else self.part.divided(tasks)
        return [replace(self, files=(s.path,), part=s) for s in splits]

    def remarks(self, valued: bool) -> Sequence[str]:
        """Return what is to be said of the first file."""
        return files.remarks(self.files[0], self.form, valued)

    def _splits(self, pieces: int) -> list[Split]:
        return files.plan(self.files, pieces, self.form)

    def sample(self, count: int) -> tuple[FileEdges, float]:
        """Return about so many edges of the largest file, and their share of all."""
        splits = self._splits(1)
        split = max(splits, key=lambda s: s.end - s.begin)
        piece, share = files.sample(split, count)
        sizes = [os.path.getsize(s.path) for s in splits]
        share *= os.path.getsize(split.path) / sum(sizes)
        most = count if piece.parquet or piece.whole else None
        return replace(self, files=(split.path,), part=piece, most=most), share

    def where(self, condition: Condition) -> FileEdges:
        """Return the edges for which a condition holds."""
        files.check_condition(condition, self.files, self.form)
        return replace(self, condition=condition.also(self.condition))

    def read(self, value: str | None, codes: Codes, threads: int) -> Iterator[Chunk]:
        """Yield the edges in chunks."""
        left = self.most
        for split in self._splits(1) if self.part is None else [self.part]:
            options = self.form.options
            for chunk in files.read_chunks(split, value, threads, codes, options, self.condition):
                if left is None:
                    yield chunk
                elif left > 0:
                    edges, rows = len(chunk.source), len(chunk.source) + chunk.left_out
                    yield chunk if rows <= left else chunk.first(edges * left // rows)
                    left -= rows


def without_fault(parts: list[Any]) -> list[Any]:
    """Return the results of tasks; raise the error of the first `Fault` among them."""
    for part in parts:
        if isinstance(part, Fault):
            raise part.error
    return parts


def lookup(names: Any) -> Codes:
    """Return a broadcast's function from string ids to codes; None for integer ids."""
    return None if names is None else names.value.codes


def route_chunks(
    spec: LoadSpec, chunks: Iterator[Chunk], order: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[Block]:
    """Route the edges that are read of Arrow batches."""
    yield from edge_blocks(order, chunks, spec.placement, spec.mode)
    for _ in batches:  # after bad input: Spark ends a worker which has not read its own
        pass


def lines_chunk(
    lines: pa.Array, value: str | None, codes: Any, condition: Condition | None = None
) -> Chunk:
    """Parse edge lines."""
    buffer = np.frombuffer("\n".join(lines.to_pylist()).encode() + b"\n", np.uint8)
    try:
        return parse_chunk(buffer, 0, len(buffer), value, codes, condition)
    except LineError as error:
        raise error.at_line("a line of the edges", buffer) from None
