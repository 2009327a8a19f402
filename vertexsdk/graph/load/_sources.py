"""Where edges come from: files, DataFrames, arrays. See `_jobs.Edges`.

Files that this machine can open are read by our own parser, in tasks. What Spark alone can read
(other file systems, compressed or quoted files, directories of partitions) goes through
`spark.read`; a test holds the two to the same result.
"""

from __future__ import annotations

import os
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

from vertexsdk.errors import InputError
from vertexsdk.graph.load import _files as files
from vertexsdk.graph.load._blocks import Block, Fault, edge_blocks
from vertexsdk.graph.load._dataframes import ArrowBatches, readable, text_lines
from vertexsdk.graph.load._jobs import Edges, FileEdges, LoadSpec, lookup, without_fault
from vertexsdk.graph.load._lines import LineError, parse_chunk
from vertexsdk.graph.load._radix_sort import Chunk
from vertexsdk.graph.load.arrow import as_strings, batch_chunk, edge_columns, id_column
from vertexsdk.graph.string_ids import merged
from vertexsdk.transport.jvm import spark_failure

__all__ = ["ArrayEdges", "FrameEdges", "edges_at"]

_ROWS = 1 << 19  # rows of arrays which are sent together


def edges_at(spark: SparkSession, paths: Sequence[str], format: str | None = None) -> Edges:
    """Return how to read the edges at `paths`: by this package or by Spark.

    Raises:
        InputError: no such file, a file is empty, or the format is unknown.
    """
    if format not in (None, "text", "csv", "parquet"):
        raise InputError(f"format {format!r} is not known; use text, csv or parquet")
    if not paths:
        raise InputError("no edge file was given; give a file, a directory or a glob")
    if not _on_this_machine(spark, paths):
        return _by_spark(spark, paths, format)
    # Workers, and a JVM started elsewhere, have directories of their own.
    paths = [p if p.startswith("file:") else os.path.abspath(p) for p in paths]
    names = files.expand([p for p in map(files.local_path, paths) if p is not None])
    if names == []:
        return _by_spark(spark, paths, format)
    kinds = {files.file_format(f) for f in names if not _empty(f)}
    plain = not kinds - {"text", "parquet"} or all(
        files.plain_header(f) for f in names if not _empty(f) and files.file_format(f) == "csv"
    )
    if format is not None and kinds and not kinds <= {format, "packed"}:
        raise InputError(
            f"{names[0]}: looks like {kinds.pop()}, not {format}; leave out the format"
        )
    if "packed" in kinds or not plain or ("parquet" in kinds and len(kinds) > 1):
        return _by_spark(spark, paths, "csv" if "csv" in kinds else format)
    files.plan(names, 1)
    return FileEdges(tuple(names))


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
    with readable(", ".join(paths)):
        if format == "text":
            return FrameEdges(text_lines(spark, paths), lines=True)
        if format == "csv":
            return FrameEdges(spark.read.csv(list(paths), header=True))
        return FrameEdges(spark.read.parquet(*paths))


class FrameEdges(Edges):
    """The rows of a Spark DataFrame, or its lines of text."""

    def __init__(self, frame: DataFrame, lines: bool = False) -> None:
        self._frame = frame
        self._lines = lines
        self._names = (
            ("value", "value", None) if lines else edge_columns(frame.columns, "the edges")
        )
        chosen = dict.fromkeys(n for n in self._names if n is not None)
        self._batches = ArrowBatches.of(frame, chosen, "the edges")

    def blocks(self, sc: SparkContext, spec: LoadSpec, names: Any) -> RDD[Block]:
        """See `Edges`."""
        return _route(self._batches, spec, names, None if self._lines else self._names)

    def distinct_ids(self, sc: SparkContext) -> Any:
        """See `Edges`."""
        if self._lines:
            task = partial(_distinct_in_lines, self._batches.reader())
            with spark_failure():
                parts = self._batches.rdd.mapPartitions(task).collect()
            return merged(without_fault(parts))
        ends = [
            self._frame.select(F.col(f"`{n}`").cast("string").alias("n")) for n in self._names[:2]
        ]
        distinct = ends[0].union(ends[1]).dropna().distinct()
        return merged(ArrowBatches.of(distinct, ["n"], "the edges").collect())


def _route(
    batches: ArrowBatches, spec: LoadSpec, names: Any, columns: tuple[str, str, str | None] | None
) -> RDD[Block]:
    task = partial(_route_batches, spec, names, batches.reader(), columns)
    return batches.rdd.mapPartitionsWithIndex(task)


def _route_batches(
    spec: LoadSpec,
    names: Any,
    read: Any,
    columns: tuple[str, str, str | None] | None,
    order: int,
    records: Iterable[bytes],
) -> Iterator[Block]:
    codes, value = lookup(names), spec.variant.value

    def chunks() -> Iterator[Chunk]:
        for batch in read(records):
            if columns is None:
                yield _lines_chunk(batch.column(0), value, codes)
            else:
                yield batch_chunk(batch, columns, value, "the edges", codes)

    yield from edge_blocks(order, chunks(), spec.placement, spec.mode)
    for _ in records:  # after bad input: Spark ends a worker which has not read its own
        pass


def _lines_chunk(lines: pa.Array, value: str | None, codes: Any) -> Chunk:
    buffer = np.frombuffer("\n".join(lines.to_pylist()).encode() + b"\n", np.uint8)
    try:
        return parse_chunk(buffer, 0, len(buffer), value, codes)
    except LineError as error:
        raise error.at_line("a line of the edges", buffer) from None


def _distinct_in_lines(read: Any, records: Iterable[bytes]) -> Iterator[Any]:
    distinct: list[pa.Array] = []

    def collect(names: pa.Array) -> NDArray[np.int64]:
        distinct.append(pc.unique(names))
        return np.zeros(len(names), np.int64)

    try:
        for batch in read(records):
            _lines_chunk(batch.column(0), None, collect)
        yield merged(distinct)
    except InputError as error:
        yield Fault((0, 0), error)
        list(records)


@dataclass(frozen=True)
class ArrayEdges(Edges):
    """Edges in the memory of the driver."""

    table: pa.Table

    @classmethod
    def of(cls, source: ArrayLike, target: ArrayLike, value: ArrayLike | None) -> ArrayEdges:
        """Take arrays of ids, integers or strings, and of values.

        Raises:
            InputError: lengths differ, or ids are neither.
        """
        columns = {"source": id_column(source), "target": id_column(target)}
        if value is not None:
            columns["value"] = pa.array(np.asarray(value))
        lengths = {k: len(c) for k, c in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"lengths differ: {lengths}; each edge needs all of them")
        return cls(pa.table(columns))

    def blocks(self, sc: SparkContext, spec: LoadSpec, names: Any) -> RDD[Block]:
        """See `Edges`."""
        pieces = [b.serialize().to_pybytes() for b in self.table.to_batches(_ROWS)]
        schema = self.table.schema.serialize().to_pybytes()
        batches = ArrowBatches(sc.parallelize(pieces, max(len(pieces), 1)), schema)
        columns = edge_columns(self.table.column_names, "the edges")
        return _route(batches, spec, names, columns)

    def distinct_ids(self, sc: SparkContext) -> Any:
        """See `Edges`."""
        return merged(
            as_strings(c, "the edges") for n in ("source", "target") for c in self.table[n].chunks
        )
