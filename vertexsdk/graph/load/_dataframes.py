"""Edges that Spark reads, and Spark DataFrames as RDDs of Arrow record batches.

Spark converts rows to Arrow (`Dataset.toArrowBatchRdd`, which its own Python API uses too), and the
batches travel as opaque bytes, without Python rows or pandas.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from vertexsdk.errors import InputError, RunError
from vertexsdk.graph.edge_attributes import attribute_types
from vertexsdk.graph.load._blocks import Block, Fault
from vertexsdk.graph.load._jobs import Edges, LoadSpec, lines_chunk, route_batches, without_fault
from vertexsdk.graph.load._lines import DistinctIds
from vertexsdk.graph.load._text import LINE_BYTES
from vertexsdk.graph.load.arrow import attribute_columns, edge_columns, read_batches
from vertexsdk.graph.string_ids import merged
from vertexsdk.transport.jvm import spark_failure
from vertexsdk.transport.transport import Transport
from vertexsdk.transport.wire import Frames


@dataclass(frozen=True)
class ArrowBatches:
    """Some columns of a DataFrame: integers as int64, other numbers as float64, or strings."""

    rdd: RDD[bytes]
    schema: bytes

    @classmethod
    def of(cls, frame: DataFrame, columns: Iterable[str], place: str) -> ArrowBatches:
        """Select columns of a DataFrame.

        Raises:
            InputError: a column that is neither of numbers nor of strings.
        """
        sc = frame.sparkSession.sparkContext
        large = frame.sparkSession.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false")
        string = pa.large_string() if large == "true" else pa.string()
        chosen: list[Column] = []
        fields: list[tuple[str, pa.DataType]] = []
        for name in columns:
            kind = frame.schema[name].dataType
            column = F.col(f"`{name}`")
            if isinstance(kind, T.IntegralType):
                chosen.append(column.cast("long").alias(name))
                fields.append((name, pa.int64()))
            elif isinstance(kind, T.NumericType):
                chosen.append(column.cast("double").alias(name))
                fields.append((name, pa.float64()))
            elif isinstance(kind, (T.StringType, T.VarcharType, T.CharType)):
                chosen.append(column.cast("string").alias(name))
                fields.append((name, string))
            else:
                raise InputError(
                    f"{place}, column {name}: {kind.simpleString()}; ids are integers or strings, "
                    "values are numbers: cast the column"
                )
        with spark_failure():
            batches = frame.select(*chosen)._jdf.toArrowBatchRdd().toJavaRDD()
        return cls(RDD(batches, sc, Frames()), pa.schema(fields).serialize().to_pybytes())

    def collect(self) -> list[pa.Array]:
        """Bring the columns to the driver."""
        schema = pa.ipc.read_schema(pa.BufferReader(self.schema))
        with spark_failure():
            batches = list(self.reader()(self.rdd.collect()))
        return [c.combine_chunks() for c in pa.Table.from_batches(batches, schema)]

    def reader(self) -> Any:
        """Return a picklable function that decodes a partition's records in a task, as `read`."""
        return partial(read_batches, self.schema)


def collected(frame: DataFrame) -> tuple[pa.Table, dict[str, str]]:
    """Bring the columns of numbers, bools, strings and arrays to the driver.

    Returns:
        A table of them; and of each other column, by name, why it is not among them.
    """
    kinds = (T.NumericType, T.BooleanType, T.StringType, T.ArrayType)
    usable = [f.name for f in frame.schema if isinstance(f.dataType, kinds)]
    with spark_failure():
        table = frame.select(*(f"`{n}`" for n in usable)).toArrow()
    others = {f.name: f.dataType for f in frame.schema if f.name not in usable}
    return table, {n: f"its type is {kind.simpleString()}" for n, kind in others.items()}


def text_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines of text files as Spark reads them; lines that are too long are truncated."""
    value = F.substring("value", 1, LINE_BYTES + 1).alias("value")
    return spark.read.text(list(paths)).select(value)


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
        self._batches = self._chosen([])

    def _chosen(self, attributes: Sequence[str]) -> ArrowBatches:
        chosen = dict.fromkeys(n for n in (*self._names, *attributes) if n is not None)
        return ArrowBatches.of(self._frame, chosen, "the edges")

    def blocks(self, transport: Transport, spec: LoadSpec, names: Any) -> RDD[Block]:
        """See `Edges`."""
        columns, batches = None if self._lines else self._names, self._batches
        if columns is not None and attribute_types(spec.variant.value):
            batches = self._chosen(
                attribute_columns(self._frame.columns, spec.variant.value, "the edges")
            )
        task = partial(route_batches, spec, names, batches.reader(), columns)
        return batches.rdd.mapPartitionsWithIndex(task)

    def distinct_ids(self, transport: Transport) -> Any:
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


def _distinct_in_lines(read: Any, records: Iterable[bytes]) -> Iterator[Any]:
    ids = DistinctIds()
    try:
        for batch in read(records):
            lines_chunk(batch.column(0), None, ids)
        yield ids.sorted()
    except InputError as error:
        yield Fault((0, 0), error)
        list(records)
