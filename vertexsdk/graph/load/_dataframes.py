"""Edges that Spark reads: rows of DataFrames, which tasks get as Arrow record batches.

The tasks send blocks of edges on (`DataFrame.mapInArrow`, for which PySpark wants pandas). Rows of
a remote session (Spark Connect) come to this process as a table. Columns are named by their frame's
methods: the functions of `pyspark.sql` work only with the kind of session that was made first.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import RDD, TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as T

from vertexsdk.errors import InputError, RunError
from vertexsdk.graph.edge_attributes import attribute_types
from vertexsdk.graph.load._adjacency_rows import Chunk
from vertexsdk.graph.load._blocks import Fault
from vertexsdk.graph.load._lines import Codes, DistinctIds, NotIntegers
from vertexsdk.graph.load._load_task import (
    DivisibleEdges,
    Edges,
    LoadSpec,
    RoutedEdges,
    lines_chunk,
    route_batches,
    without_fault,
)
from vertexsdk.graph.load._text import LINE_BYTES
from vertexsdk.graph.load.arrow import (
    EdgeColumns,
    attribute_columns,
    batch_chunk,
    edge_columns,
    joined,
)
from vertexsdk.graph.string_ids import check_range, merged
from vertexsdk.transport.spark_failures import spark_failure
from vertexsdk.transport.transport import Block, BlockSource, Workers, is_remote

_ROWS = 1 << 19  # of a remote DataFrame, which are read together


def select(frame: DataFrame, columns: Iterable[str], place: str) -> DataFrame:
    """Select columns of a DataFrame: integers as long, other numbers as double, or strings.

    Raises:
        InputError: a column that is neither of numbers nor of strings.
    """
    chosen: list[Column] = []
    schema = frame.schema
    for name in columns:
        kind = schema[name].dataType
        if isinstance(kind, T.IntegralType):
            wanted = "long"
        elif isinstance(kind, T.NumericType):
            wanted = "double"
        elif isinstance(kind, (T.StringType, T.VarcharType, T.CharType)):
            wanted = "string"
        else:
            raise InputError(
                f"{place}, column {name}: {kind.simpleString()}; ids are integers or strings, "
                "values are numbers: cast the column"
            )
        chosen.append(frame[f"`{name}`"].cast(wanted).alias(name))
    return frame.select(*chosen)


def fetched(frame: DataFrame, columns: Iterable[str], place: str) -> list[pa.Array]:
    """Bring columns of a DataFrame to this process; see `select`."""
    with spark_failure():
        table = select(frame, columns, place).toArrow()
    return [c.combine_chunks() for c in table.columns]


def in_tasks(
    frame: DataFrame, function: Callable[[int, Iterator[pa.RecordBatch]], Iterable[Any]]
) -> list[Any]:
    """Call a function with each partition's number and batches; return what it yields, pickled."""
    with spark_failure():
        rows = _mapped(frame, partial(_pickled, function), "result binary").collect()
    return [pickle.loads(result) for (result,) in rows]


def _mapped(frame: DataFrame, function: Any, schema: str) -> DataFrame:
    try:
        return frame.mapInArrow(function, schema)
    except ImportError:
        raise InputError(
            "DataFrames, and files that Spark reads, need pandas on the driver and the executors: "
            "pip install 'vertexsdk[pandas]'"
        ) from None


def _pickled(function: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for result in function(_part(), batches):
        yield pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], ["result"])


def _part() -> int:
    task = TaskContext.get()
    assert task is not None
    return task.partitionId()


@dataclass(frozen=True)
class FrameBlocks(BlockSource):
    """Blocks that tasks make of a DataFrame's batches.

    Attributes:
        frame: the rows.
        route: from a partition's number and batches to blocks.
    """

    frame: DataFrame
    route: Callable[[int, Iterator[pa.RecordBatch]], Iterator[Block]]

    def collect(self, function: Callable[[int, Iterator[Block]], Iterable[Any]]) -> list[Any]:
        """See `BlockSource`."""
        return in_tasks(self.frame, partial(_through, self.route, function))

    def rdd(self, spark: SparkSession) -> RDD[Block]:
        """See `BlockSource`."""
        function = partial(_block_rows, self.route)
        with spark_failure():
            rows = _mapped(self.frame, function, "destination int, block binary").rdd
        return rows.map(_block_of)


def _through(route: Any, function: Any, part: int, batches: Any) -> Iterable[Any]:
    found: Iterable[Any] = function(part, route(part, batches))
    return found


def _block_rows(route: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for destination, block in route(_part(), batches):
        columns = [pa.array([destination], pa.int32()), pa.array([block], pa.binary())]
        yield pa.record_batch(columns, ["destination", "block"])


def _block_of(row: Any) -> Block:
    return row[0], bytes(row[1])


def collected(frame: DataFrame) -> tuple[pa.Table, dict[str, str]]:
    """Bring the columns of numbers, bools, strings and arrays to the driver.

    Returns:
        A table of them; and of each other column, by name, why it is not among them.
    """
    kinds = (T.NumericType, T.BooleanType, T.StringType, T.ArrayType)
    with spark_failure():
        schema = frame.schema
        usable = [f.name for f in schema if isinstance(f.dataType, kinds)]
        table = frame.select(*(f"`{n}`" for n in usable)).toArrow()
    others = {f.name: f.dataType for f in schema if f.name not in usable}
    return table, {n: f"its type is {kind.simpleString()}" for n, kind in others.items()}


def text_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines of text files as Spark reads them; lines that are too long are truncated."""
    lines = spark.read.text(list(paths))
    return lines.select(lines["value"].substr(1, LINE_BYTES + 1).alias("value"))


@contextlib.contextmanager
def readable(place: str) -> Iterator[None]:
    """Turn Spark's exceptions while it opens files into an `InputError` that names them."""
    try:
        with spark_failure():
            yield
    except RunError as error:
        raise InputError(f"{place}: Spark cannot read it: {error}") from None


def edges_by_spark(spark: SparkSession, paths: Sequence[str], format: str | None) -> Edges:
    """Return edges in files that Spark reads."""
    if format is None:
        format = "parquet" if all(p.rstrip("/").endswith(".parquet") for p in paths) else "text"
        if all(p.endswith((".csv", ".csv.gz")) for p in paths):
            format = "csv"
    with readable(", ".join(paths)):
        if format == "text":
            return edges_of(text_lines(spark, paths), lines=True)
        if format == "csv":
            return edges_of(spark.read.csv(list(paths), header=True), text=True)
        return edges_of(spark.read.parquet(*paths))


def edges_of(frame: DataFrame, lines: bool = False, text: bool = False) -> Edges:
    """Return the rows of a DataFrame as edges, or its lines of text, or its cells as text.

    Raises:
        InputError: a column is missing or of another type, or the DataFrame cannot be read.
    """
    with readable("the edges"):
        return (RemoteEdges if is_remote(frame.sparkSession) else FrameEdges)(frame, lines, text)


class FrameEdges(RoutedEdges):
    """The rows of a Spark DataFrame, or its lines of text."""

    def __init__(self, frame: DataFrame, lines: bool, text: bool) -> None:
        self._frame = frame
        self._lines, self._text = lines, text
        self.text = lines or text
        self._names = _names(frame.columns, lines, text)
        self._chosen([])
        kinds = [self._frame.schema[n].dataType for n in self._names[:2]]
        self.strings = not self.text and any(isinstance(k, T.StringType) for k in kinds)

    def _chosen(self, attributes: Sequence[str]) -> DataFrame:
        chosen = dict.fromkeys(n for n in (*self._names[:3], *attributes) if n is not None)
        return select(self._frame, chosen, "the edges")

    def blocks(self, spec: LoadSpec, names: Any) -> FrameBlocks:
        """See `RoutedEdges`."""
        columns, attributes = None if self._lines else self._names, list[str]()
        if columns is not None and attribute_types(spec.variant.value):
            attributes = attribute_columns(self._frame.columns, spec.variant.value, "the edges")
        route = partial(_route, spec, names, columns)
        return FrameBlocks(self._chosen(attributes), route)

    def sample(self, count: int) -> tuple[FrameEdges, float]:
        """See `Edges`."""
        frame, share = _limited(self._frame, count)
        return FrameEdges(frame, self._lines, self._text), share

    def distinct_ids(self, workers: Workers) -> Any:
        """See `Edges`."""
        if self._lines:
            return merged(without_fault(in_tasks(self._chosen([]), _distinct_in_lines)))
        ends = [
            self._frame.select(self._frame[f"`{n}`"].cast("string").alias("n"))
            for n in self._names[:2]
        ]
        ids = fetched(ends[0].union(ends[1]).dropna().distinct(), ["n"], "the edges")
        if self._text:
            check_range(ids[0], "the edges")
        return merged(ids)


def _route(
    spec: LoadSpec,
    names: Any,
    columns: EdgeColumns | None,
    part: int,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[Block]:
    return route_batches(spec, names, columns, part, joined(batches))


def _names(present: Sequence[str], lines: bool, text: bool) -> EdgeColumns:
    """The columns of a frame; of lines the only one, twice."""
    if lines:
        return EdgeColumns("value", "value", None)
    return edge_columns(present, "the edges", text=text)


def _limited(frame: DataFrame, count: int) -> tuple[DataFrame, float]:
    """Return so many rows of a DataFrame, and which share of all they are."""
    with spark_failure():
        rows = frame.count()
    return frame.limit(count), min(count / max(rows, 1), 1.0)


class RemoteEdges(DivisibleEdges):
    """The rows of a remote session's DataFrame, or its lines of text, fetched to be read here.

    They stay between two readings where ids turn out to be strings, else only while they are read.
    """

    def __init__(self, frame: DataFrame, lines: bool, text: bool) -> None:
        self._frame, self._lines, self._present = frame, lines, frame.columns
        self._text, self.text = text, lines or text
        self._names = _names(self._present, lines, text)
        select(frame, self._columns(None), "the edges")
        self._rows: pa.Table | None = None

    def _columns(self, value: str | None) -> list[str]:
        attributes = [] if self._lines else attribute_columns(self._present, value, "the edges")
        return [*dict.fromkeys(n for n in (*self._names[:3], *attributes) if n is not None)]

    def sample(self, count: int) -> tuple[RemoteEdges, float]:
        """See `Edges`."""
        frame, share = _limited(self._frame, count)
        return RemoteEdges(frame, self._lines, self._text), share

    def parts(self, tasks: int) -> list[RemoteEdges]:
        """See `DivisibleEdges`."""
        return [self]

    def read(self, value: str | None, codes: Codes, threads: int) -> Iterator[Chunk]:
        """See `DivisibleEdges`."""
        columns = self._columns(value)
        if self._rows is None or not {*columns} <= {*self._rows.column_names}:
            with spark_failure():
                self._rows = select(self._frame, columns, "the edges").toArrow()
        stay = isinstance(codes, DistinctIds)
        try:
            for batch in self._rows.to_batches(_ROWS):
                if self._lines:
                    yield lines_chunk(batch.column(0), value, codes)
                else:
                    yield batch_chunk(batch, self._names, value, "the edges", codes)
        except NotIntegers:
            stay = True
            raise
        finally:
            if not stay:
                self._rows = None


def _distinct_in_lines(part: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    ids = DistinctIds()
    try:
        for batch in batches:
            lines_chunk(batch.column(0), None, ids)
        yield ids.sorted()
    except InputError as error:
        yield Fault((0, 0), error)
        for _ in batches:
            pass
