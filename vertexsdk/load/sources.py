"""Where edges and vertices come from: files, DataFrames, arrays. See `spark.Edges`.

Files that this machine can open are read by our own parser, in tasks. What Spark alone can read
(other file systems, compressed or quoted files, directories of partitions) goes through
`spark.read`; a test holds the two to the same result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray
from pyspark import RDD, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from vertexsdk.errors import InputError, RunError
from vertexsdk.jvm import spark_failure
from vertexsdk.load import files, text
from vertexsdk.load.arrow import as_strings, batch_chunk, edge_columns, id_array
from vertexsdk.load.blocks import Block, Fault, edge_blocks
from vertexsdk.load.build import NO_KIND, Vertices
from vertexsdk.load.files import LineError
from vertexsdk.load.frames import Batches
from vertexsdk.load.names import Names, merged, parse_named, tokens
from vertexsdk.load.order import Chunk
from vertexsdk.load.spark import Edges, FileEdges, Plan, lookup, without_fault

__all__ = ["ArrayEdges", "FrameEdges", "VertexInput", "edges_at", "resolve", "vertices_at"]
__all__ += ["vertices_of"]

_ROWS = 1 << 19  # rows of arrays which are sent together


def edges_at(spark: SparkSession, paths: Sequence[str], format: str | None = None) -> Edges:
    """Find out how to read the edges at `paths`.

    Raises:
        InputError: nothing is there, it is empty, or the format is not known.
    """
    if format not in (None, "text", "csv", "parquet"):
        raise InputError(f"format {format!r} is not known; use text, csv or parquet")
    if not paths:
        raise InputError("no edge file was given; give a file, a directory or a glob")
    if not _on_this_machine(spark, paths):
        return _by_spark(spark, paths, format)
    found = files.expand([p for p in map(files.local_path, paths) if p is not None])
    if found == []:
        return _by_spark(spark, paths, format)
    kinds = {files.file_format(f) for f in found if not _empty(f)}
    plain = not kinds - {"text", "parquet"} or all(
        files.plain_header(f) for f in found if not _empty(f) and files.file_format(f) == "csv"
    )
    if format is not None and kinds and not kinds <= {format, "packed"}:
        raise InputError(
            f"{found[0]}: looks like {kinds.pop()}, not {format}; leave out the format"
        )
    if "packed" in kinds or not plain or ("parquet" in kinds and len(kinds) > 1):
        return _by_spark(spark, paths, "csv" if "csv" in kinds else format)
    files.plan(found, 1)
    return FileEdges(tuple(found))


def _empty(path: str) -> bool:
    with open(path, "rb") as file:
        return not file.read(1)


def _on_this_machine(spark: SparkSession, paths: Sequence[str]) -> bool:
    if any(files.local_path(p) is None for p in paths):
        return False
    if all(p.startswith("file:") for p in paths):
        return True
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    return str(configuration.get("fs.defaultFS", "file:///")).startswith("file:")


def _by_spark(spark: SparkSession, paths: Sequence[str], format: str | None) -> Edges:
    if format is None:
        format = "parquet" if all(p.rstrip("/").endswith(".parquet") for p in paths) else "text"
        if all(p.endswith((".csv", ".csv.gz")) for p in paths):
            format = "csv"
    with _readable(", ".join(paths)):
        if format == "text":
            return FrameEdges(spark.read.text(list(paths)), lines=True)
        if format == "csv":
            return FrameEdges(spark.read.csv(list(paths), header=True))
        return FrameEdges(spark.read.parquet(*paths))


@contextlib.contextmanager
def _readable(place: str) -> Iterator[None]:
    try:
        with spark_failure():
            yield
    except RunError as error:
        raise InputError(f"{place}: Spark cannot read it: {error}") from None


class FrameEdges:
    """The rows of a Spark DataFrame, or its lines of text."""

    def __init__(self, frame: DataFrame, lines: bool = False) -> None:
        self._frame = frame
        self._lines = lines
        self._names = (
            ("value", "value", None) if lines else edge_columns(frame.columns, "the edges")
        )
        chosen = dict.fromkeys(n for n in self._names if n is not None)
        self._batches = Batches.of(frame, chosen, "the edges")

    def blocks(self, sc: SparkContext, plan: Plan, names: Any) -> RDD[Block]:
        """See `Edges`."""
        columns = None if self._lines else self._names
        task = partial(_route_batches, plan, names, self._batches.reader(), columns)
        return self._batches.rdd.mapPartitionsWithIndex(task)

    def distinct_names(self, sc: SparkContext) -> Any:
        """See `Edges`."""
        if self._lines:
            task = partial(_distinct_in_lines, self._batches.reader())
            with spark_failure():
                found = self._batches.rdd.mapPartitions(task).collect()
            return merged(without_fault(found))
        ends = [
            self._frame.select(F.col(f"`{n}`").cast("string").alias("n")) for n in self._names[:2]
        ]
        distinct = ends[0].union(ends[1]).dropna().distinct()
        return merged(Batches.of(distinct, ["n"], "the edges").collect())


def _route_batches(
    plan: Plan,
    names: Any,
    read: Any,
    columns: tuple[str, str, str | None] | None,
    order: int,
    records: Iterable[bytes],
) -> Iterator[Block]:
    codes, value = lookup(names), plan.variant.value

    def chunks() -> Iterator[Chunk]:
        for batch in read(records):
            if columns is None:
                yield _lines_chunk(batch.column(0), value, codes)
            else:
                yield batch_chunk(batch, columns, value, "the edges", codes)

    yield from edge_blocks(order, chunks(), plan.partitions, plan.mode)
    for _ in records:  # after bad input: Spark ends a worker which has not read its own
        pass


def _lines_chunk(lines: pa.Array, value: str | None, codes: Any) -> Chunk:
    buffer = np.frombuffer("\n".join(lines.to_pylist()).encode() + b"\n", np.uint8)
    try:
        if codes is not None:
            return parse_named(buffer, 0, len(buffer), value, codes)
        return files.parse_chunk(buffer, 0, len(buffer), value)
    except LineError as error:
        raise error.said("a line of the edges", buffer) from None


def _distinct_in_lines(read: Any, records: Iterable[bytes]) -> Iterator[Any]:
    found: list[pa.Array] = []

    def collect(names: pa.Array) -> NDArray[np.int64]:
        found.append(pc.unique(names))
        return np.zeros(len(names), np.int64)

    try:
        for batch in read(records):
            _lines_chunk(batch.column(0), None, collect)
        yield merged(found)
    except InputError as error:
        yield Fault((0, 0), error)
        list(records)


@dataclass(frozen=True)
class ArrayEdges:
    """Edges held by the driver."""

    table: pa.Table

    @classmethod
    def of(cls, source: ArrayLike, target: ArrayLike, value: ArrayLike | None) -> ArrayEdges:
        """Take arrays of ids, integers or strings, and of values.

        Raises:
            InputError: lengths differ, or ids are neither.
        """
        columns = {"source": _id_column(source), "target": _id_column(target)}
        if value is not None:
            columns["value"] = pa.array(np.asarray(value))
        lengths = {k: len(c) for k, c in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"lengths differ: {lengths}; each edge needs all of them")
        return cls(pa.table(columns))

    def blocks(self, sc: SparkContext, plan: Plan, names: Any) -> RDD[Block]:
        """See `Edges`."""
        pieces = [
            (k, _to_bytes(self.table.slice(a, _ROWS)))
            for k, a in enumerate(range(0, max(len(self.table), 1), _ROWS))
        ]
        return sc.parallelize(pieces, len(pieces)).mapPartitions(
            partial(_route_pieces, plan, names)
        )

    def distinct_names(self, sc: SparkContext) -> Any:
        """See `Edges`."""
        return merged(
            as_strings(c, "the edges") for n in ("source", "target") for c in self.table[n].chunks
        )


def _id_column(ids: ArrayLike) -> pa.Array:
    array = np.asarray(ids)
    if array.dtype.kind in "iuUT" or array.size == 0:
        return pa.array(
            array.tolist()
            if array.dtype.kind in "UT"
            else array.astype(array.dtype if array.size else np.int64)
        )
    if array.dtype.kind == "O":
        return pa.array([str(i) for i in array.tolist()], pa.string())
    raise InputError(f"ids are {array.dtype}; use integers or strings")


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _route_pieces(plan: Plan, names: Any, pieces: Iterable[tuple[int, bytes]]) -> Iterator[Block]:
    codes = lookup(names)
    for order, piece in pieces:
        table = pa.ipc.open_stream(piece).read_all()
        columns = edge_columns(table.column_names, "the edges")
        chunks = (
            batch_chunk(b, columns, plan.variant.value, "the edges", codes)
            for b in table.to_batches()
        )
        yield from edge_blocks(order, chunks, plan.partitions, plan.mode)


@dataclass(frozen=True)
class VertexInput:
    """Vertices named apart from the edges, and perhaps their classes."""

    column: pa.Array
    kinds: pa.Array | None
    place: str

    @classmethod
    def of(cls, ids: ArrayLike, kinds: Sequence[str] | None = None) -> VertexInput:
        """Take arrays."""
        named = None if kinds is None else pa.array(list(kinds), pa.string())
        return cls(_id_column(ids), named, "the vertices")

    def strings(self) -> pa.Array:
        """The ids as strings."""
        return as_strings(self.column, self.place)


def vertices_of(frame: DataFrame) -> VertexInput:
    """Take a DataFrame with columns `id` and perhaps `kind`."""
    by_name = {n.lower(): n for n in frame.columns}
    if "id" not in by_name:
        raise InputError(f"the vertices: columns are {', '.join(frame.columns)}; name one `id`")
    wanted = [by_name[n] for n in ("id", "kind") if n in by_name]
    columns = Batches.of(frame, wanted, "the vertices").collect()
    return VertexInput(columns[0], columns[1] if len(columns) > 1 else None, "the vertices")


def vertices_at(spark: SparkSession, path: str) -> VertexInput:
    """Read a vertex file: an id per line, and perhaps a class name.

    Raises:
        InputError: nothing is there, or a bad line.
    """
    local = files.local_path(path)
    if local is None:
        with _readable(path):
            lines = Batches.of(spark.read.text(path), ["value"], path).collect()[0].to_pylist()
        return _vertex_lines(np.frombuffer("\n".join(lines).encode(), np.uint8), path)
    found = files.expand([local])
    if files.file_format(found[0]) == "parquet":
        return vertices_of(spark.read.parquet(path))
    parts = [np.fromfile(f, np.uint8) for f in found]
    newline = np.frombuffer(b"\n", np.uint8)
    joined = [b for p in parts for b in (p, newline)]
    return _vertex_lines(np.concatenate(joined), ", ".join(found))


def _vertex_lines(buffer: NDArray[np.uint8], place: str) -> VertexInput:
    begin = 3 if bytes(buffer[:3]) == b"\xef\xbb\xbf" else 0
    lines = text.count_lines(buffer, begin, len(buffer)) + 1
    ids, report = np.empty(lines, np.int64), np.zeros(7, np.int64)
    text.parse_ids(buffer, begin, len(buffer), ids, report)
    at, size = np.empty((lines, 3), np.int32), np.empty((lines, 3), np.int32)
    rows = text.tokenize(buffer, begin, len(buffer), at, size)
    at, size = at[:rows], size[:rows]
    try:
        if report[0] == text.ID_RANGE:
            raise LineError(text.ID_RANGE, int(report[1]))
        column = tokens(buffer, at[:, 0].copy(), size[:, 0].copy())
        if rows and column[0].as_py() == "id":
            at, size, column = at[1:], size[1:], column[1:]
        classed = at[:, 1] >= 0
        kinds = None
        if classed.any():
            found = tokens(buffer, at[classed, 1].copy(), size[classed, 1].copy())
            order = np.where(classed, np.cumsum(classed) - 1, -1)
            kinds = found.take(pa.array(order, mask=~classed))
    except LineError as error:
        line = 1 + int(text.count_lines(buffer, 0, error.position))
        raise error.said(f"{place}, line {line}", buffer) from None
    return VertexInput(column, kinds, place)


def resolve(
    found: VertexInput | None, names: Names | None
) -> tuple[Vertices | None, tuple[str, ...]]:
    """Return the vertices by int64 id or code, and the class names in order of their codes.

    Raises:
        NotIntegers: an id is a string, and `names` was not given.
        InputError: too many classes.
    """
    if found is None:
        return None, ()
    ids = id_array(found.column, found.place) if names is None else names.codes(found.strings())
    # The last line for an id counts, as with edges.
    ids, last = np.unique(ids[::-1], return_index=True)
    if found.kinds is None:
        return Vertices(ids), ()
    classes = merged([found.kinds.drop_null()])
    if len(classes) >= NO_KIND:
        raise InputError(
            f"{found.place}: {len(classes)} classes; at most {NO_KIND - 1} can be used"
        )
    codes = pc.fill_null(pc.index_in(pc.cast(found.kinds, pa.large_string()), classes), NO_KIND)
    kind = np.asarray(codes).astype(np.uint8)[::-1][last]
    return Vertices(ids, kind), tuple(classes.to_pylist())
