"""Spark DataFrames as RDDs of Arrow record batches.

Spark turns rows into Arrow by itself (`Dataset.toArrowBatchRdd`, which its own Python API uses
too); the batches then travel as opaque bytes, so that neither rows nor pandas are involved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from vertexsdk.errors import InputError, RunError
from vertexsdk.graph.load._text import LINE_BYTES
from vertexsdk.transport.jvm import spark_failure
from vertexsdk.transport.wire import Frames

__all__ = ["ArrowBatches", "readable", "text_lines"]

_ROWS = 1 << 19  # rows, and bytes, of batches which are read together
_BYTES = 1 << 26


@dataclass(frozen=True)
class ArrowBatches:
    """Some columns of a DataFrame: integers as int64, other numbers as float64, or strings."""

    rdd: RDD[bytes]
    schema: bytes

    @classmethod
    def of(cls, frame: DataFrame, columns: Iterable[str], place: str) -> ArrowBatches:
        """Take columns of a DataFrame.

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

    def read(self, records: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """Decode the records of a partition, joined into batches of about half a million rows."""
        schema = pa.ipc.read_schema(pa.BufferReader(self.schema))
        pending: list[pa.RecordBatch] = []
        for record in records:
            pending.append(pa.ipc.read_record_batch(pa.BufferReader(record), schema))
            if (
                sum(b.num_rows for b in pending) >= _ROWS
                or sum(b.nbytes for b in pending) >= _BYTES
            ):
                yield from pa.Table.from_batches(pending).combine_chunks().to_batches()
                pending = []
        if pending:
            yield from pa.Table.from_batches(pending).combine_chunks().to_batches()

    def collect(self) -> list[pa.Array]:
        """Bring the columns to the driver."""
        schema = pa.ipc.read_schema(pa.BufferReader(self.schema))
        with spark_failure():
            batches = list(self.read(self.rdd.collect()))
        table = pa.Table.from_batches(batches, schema).combine_chunks()
        return [pa.concat_arrays(c.chunks) if c.chunks else pa.array([], c.type) for c in table]

    def reader(self) -> Any:
        """Return what decodes a partition's records in a task: it can be pickled."""
        return ArrowBatches(None, self.schema).read  # type: ignore[arg-type]


def text_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines of text files as Spark reads them; of one that is too long the beginning."""
    value = F.substring("value", 1, LINE_BYTES + 1).alias("value")
    return spark.read.text(list(paths)).select(value)


@contextlib.contextmanager
def readable(place: str) -> Iterator[None]:
    """Turn what Spark raises while it opens files into an `InputError` which names them."""
    try:
        with spark_failure():
            yield
    except RunError as error:
        raise InputError(f"{place}: Spark cannot read it: {error}") from None
