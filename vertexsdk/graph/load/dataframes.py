"""Edges that Spark reads: rows of DataFrames, which tasks get as Arrow record batches.

The tasks send blocks of edges on (`DataFrame.mapInArrow`, for which PySpark wants pandas). Rows of
a remote session (Spark Connect) come to this process as a table. Columns are named by their frame's
methods: the functions of `pyspark.sql` work only with the kind of session that was made first.
"""

from __future__ import annotations

import contextlib
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import RDD, TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as T

from vertexsdk.errors import InputError, RunError
from vertexsdk.graph.load.adjacency_rows import Chunk
from vertexsdk.graph.load.arrow import (
    EdgeColumns,
    attribute_columns,
    batch_chunk,
    edge_columns,
    joined,
)
from vertexsdk.graph.load.blocks import Fault
from vertexsdk.graph.load.condition import Condition
from vertexsdk.graph.load.csv import CsvLayout, CsvOptions
from vertexsdk.graph.load.files import (
    Form,
    check_headers,
    csv_chunk,
    csv_columns,
    edges_layout,
)
from vertexsdk.graph.load.lines import Codes, DistinctIds, NotIntegers
from vertexsdk.graph.load.load_task import (
    DivisibleEdges,
    Edges,
    LoadSpec,
    RoutedEdges,
    lines_chunk,
    lookup,
    route_chunks,
    without_fault,
)
from vertexsdk.graph.load.tables import chosen_columns
from vertexsdk.graph.load.text import LINE_BYTES
from vertexsdk.graph.topology.string_ids import merged
from vertexsdk.transport.spark_failures import spark_failure
from vertexsdk.transport.transport import Block, BlockSource, Workers, is_remote

_ROWS = 1 << 19  # of a remote DataFrame, which are read together
_ROLES = ("source", "target", "value")
_HEAD_LINES = 50  # among which a file's first row and its header are


def select(
    frame: DataFrame, columns: Iterable[str], place: str, others: Sequence[str] = ()
) -> DataFrame:
    """Select columns of a DataFrame: integers as long, other numbers as double, or strings.

    Args:
        others: columns that may be of other types too.

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
        elif name in others:
            chosen.append(frame[f"`{name}`"])
            continue
        else:
            raise InputError(
                f"{place}, column {name}: {kind.simpleString()}; ids are integers or strings, "
                "values are numbers: cast the column"
            )
        chosen.append(frame[f"`{name}`"].cast(wanted).alias(name))
    return frame.select(*chosen)


def fetched(frame: DataFrame, columns: Iterable[str], place: str) -> list[pa.Array]:
    """Bring columns of a DataFrame to this process."""
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
        """Call a function with each part's number and blocks, in tasks."""
        return in_tasks(self.frame, partial(_through, self.route, function))

    def rdd(self, spark: SparkSession) -> RDD[Block]:
        """Return the blocks as an RDD."""
        function = partial(_block_rows, self.route)
        with spark_failure():
            rows = _mapped(self.frame, function, "destination int, block binary").rdd
        return rows.map(_block_of)


def _through(route: Any, function: Any, part: int, batches: Any) -> Iterable[Any]:
    results: Iterable[Any] = function(part, route(part, batches))
    return results


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


def whole_files(spark: SparkSession, path: str) -> dict[str, bytes]:
    """Return the contents of files by their names, as Spark reads them."""
    with readable(path):
        rows = spark.read.format("binaryFile").load(path).select("path", "content").collect()
    return {row[0]: bytes(row[1]) for row in sorted(rows)}


def text_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines of text files as Spark reads them; lines that are too long are truncated."""
    lines = spark.read.text(list(paths))
    return lines.select(lines["value"].substr(1, LINE_BYTES + 1).alias("value"))


def csv_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The lines of CSV files, each with its file and the byte where its part of it begins."""
    frame = spark.read.text(list(paths))
    return frame.selectExpr(
        f"substr(value, 1, {LINE_BYTES + 1}) value", "_metadata.file_path path",
        "_metadata.file_block_start start",
    )  # fmt: skip


def csv_layouts(lines: DataFrame, options: CsvOptions) -> dict[str, CsvLayout]:
    """Return the layout of each CSV file, by its path."""
    with spark_failure():
        first = lines.where("start = 0")
        rows = _mapped(first, _heads, "path string, head binary").collect()
    layouts = {path: edges_layout(bytes(head), path, options) for path, head in rows}
    check_headers(layouts)
    return layouts


def _heads(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first lines of each file whose beginning is in a task's rows."""
    heads: dict[str, bytes] = {}
    for batch in batches:
        for path, lines in _by_file(batch):
            if path not in heads:
                heads[path] = _joined_lines(lines.slice(0, _HEAD_LINES))
    columns = [pa.array([*heads], pa.string()), pa.array([*heads.values()], pa.binary())]
    yield pa.record_batch(columns, ["path", "head"])


def _by_file(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    """The lines of a batch, by the file that they come from."""
    runs = pc.run_end_encode(batch.column("path"))
    begin = 0
    for path, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield path, batch.column("value").slice(begin, end - begin)
        begin = end


def _joined_lines(lines: pa.Array) -> bytes:
    return "\n".join(lines.to_pylist()).encode() + b"\n"


def csv_chunks(
    batches: Iterable[pa.RecordBatch],
    layouts: Mapping[str, CsvLayout],
    options: CsvOptions,
    value: str | None,
    codes: Codes,
    condition: Condition | None = None,
) -> Iterator[Chunk]:
    """Read the lines of `csv_lines` as edges; a file's first ones come with `start` 0."""
    begun: set[str] = set()
    for batch in batches:
        offset = 0
        for path, lines in _by_file(batch):
            data, layout = _joined_lines(lines), layouts[path]
            if path not in begun and batch.column("start")[offset].as_py() == 0:
                data = data[layout.begin :]  # after a byte-order mark, comments and a header
            begun.add(path)
            offset += len(lines)
            names = csv_columns(layout, path, options)._replace(condition=condition)
            yield csv_chunk(data, layout, names, value, codes, path, lambda: 1)


@contextlib.contextmanager
def readable(place: str) -> Iterator[None]:
    """Turn Spark's exceptions while it opens files into an `InputError` that names them."""
    try:
        with spark_failure():
            yield
    except RunError as error:
        raise InputError(f"{place}: Spark cannot read it: {error}") from None


def edges_by_spark(spark: SparkSession, paths: Sequence[str], form: Form) -> Edges:
    """Return edges in files whose lines Spark reads, or whose columns if they are Parquet."""
    columnar = all(p.rstrip("/").endswith(".parquet") for p in paths)
    with readable(", ".join(paths)):
        if form.format == "parquet" or (form.format is None and columnar):
            return edges_of(spark.read.parquet(*paths))
        if all(map(form.is_csv, paths)):
            lines = csv_lines(spark, paths)
            return _edges(lines, CsvRows(csv_layouts(lines, form.options), form.options))
        return _edges(text_lines(spark, paths), TextRows())


def edges_of(frame: DataFrame, columns: Mapping[str, str | None] | None = None) -> Edges:
    """Return the rows of a DataFrame as edges.

    Args:
        frame: the rows.
        columns: as for `chosen_columns`.

    Raises:
        InputError: a column is missing or of another type, or the DataFrame cannot be read.
    """
    with readable("the edges"):
        if columns and any(columns.values()):
            names = chosen_columns(frame.columns, columns)
            roles = {new: old for new, old in zip(_ROLES, names, strict=True) if old is not None}
            others = [n for n in frame.columns if n not in names and n not in _ROLES]
            chosen = [frame[f"`{old}`"].alias(new) for new, old in roles.items()]
            frame = frame.select(*chosen, *(frame[f"`{n}`"] for n in others))
            aliases = tuple((old, new) for new, old in roles.items())
            return _edges(frame, TableRows(tuple(frame.columns), names=aliases))
        return _edges(frame, TableRows(tuple(frame.columns)))


def _edges(frame: DataFrame, rows: Rows) -> Edges:
    return (RemoteEdges if is_remote(frame.sparkSession) else FrameEdges)(frame, rows)


def _arrow_schema(frame: DataFrame) -> pa.Schema:
    """The types in which tasks get the columns of a DataFrame that a condition can read."""
    plain = {
        T.BooleanType: pa.bool_(), T.DateType: pa.date32(), T.TimestampNTZType: pa.timestamp("us"),
        T.TimestampType: pa.timestamp("us", "UTC"),
    }  # fmt: skip
    fields: list[tuple[str, pa.DataType]] = []
    for column in frame.schema:
        kind: Any = column.dataType
        if isinstance(kind, T.NumericType):
            integral = isinstance(kind, T.IntegralType)
            fields.append((column.name, pa.int64() if integral else pa.float64()))
        elif isinstance(kind, (T.StringType, T.VarcharType, T.CharType)):
            fields.append((column.name, pa.string()))
        elif type(kind) in plain:
            fields.append((column.name, plain[type(kind)]))
    return pa.schema(fields)


class Rows(ABC):
    """The rows of a DataFrame, read as edges; picklable.

    Attributes:
        text: whether they are text.
    """

    text = True

    @abstractmethod
    def where(self, condition: Condition, frame: DataFrame) -> Rows:
        """Return those of a frame's rows for which a condition holds."""

    @property
    def others(self) -> Sequence[str]:
        """Columns that are read as they are."""
        return ()

    @abstractmethod
    def columns(self, value: str | None) -> list[str]:
        """The columns that are read for a program with such edge values."""

    @abstractmethod
    def chunks(
        self, batches: Iterable[pa.RecordBatch], value: str | None, codes: Codes
    ) -> Iterator[Chunk]:
        """Read batches of rows in order."""


@dataclass(frozen=True)
class TextRows(Rows):
    """Edge lines."""

    condition: Condition | None = None

    def where(self, condition: Condition, frame: DataFrame) -> TextRows:
        """Return the lines for whose value a condition holds."""
        condition.columns({"value": pa.float64()}, "the edges")
        return TextRows(condition.also(self.condition))

    def columns(self, value: str | None) -> list[str]:
        """Return the column of the lines."""
        return ["value"]

    def chunks(
        self, batches: Iterable[pa.RecordBatch], value: str | None, codes: Codes
    ) -> Iterator[Chunk]:
        """Yield the edges of the lines."""
        for batch in batches:
            yield lines_chunk(batch.column(0), value, codes, self.condition)


@dataclass(frozen=True)
class CsvRows(Rows):
    """Lines of CSV files, with the columns of `csv_lines`."""

    layouts: Mapping[str, CsvLayout]
    options: CsvOptions
    condition: Condition | None = None

    def where(self, condition: Condition, frame: DataFrame) -> CsvRows:
        """Return the lines for which a condition holds."""
        for path, layout in self.layouts.items():
            names = csv_columns(layout, path, self.options)._replace(condition=condition)
            names.condition_columns(layout.schema, path)
        return replace(self, condition=condition.also(self.condition))

    def columns(self, value: str | None) -> list[str]:
        """Return the columns of the lines, their files and their places."""
        return ["value", "path", "start"]

    def chunks(
        self, batches: Iterable[pa.RecordBatch], value: str | None, codes: Codes
    ) -> Iterator[Chunk]:
        """Yield the edges of the lines."""
        return csv_chunks(batches, self.layouts, self.options, value, codes, self.condition)


@dataclass(frozen=True)
class TableRows(Rows):
    """Rows with a column for each end, the value and each attribute."""

    present: tuple[str, ...]
    condition: Condition | None = None
    read: tuple[str, ...] = ()  # by the condition
    names: tuple[tuple[str, str], ...] = ()  # as in `Condition`
    text = False

    def where(self, condition: Condition, frame: DataFrame) -> TableRows:
        """Return the rows for which a condition holds."""
        condition = replace(condition, names=self.names)
        ends = self.ends._replace(condition=condition)
        read = ends.condition_columns(_arrow_schema(frame), "the edges")
        both = condition.also(self.condition)
        return replace(self, condition=both, read=tuple({*self.read, *read}))

    @property
    def others(self) -> Sequence[str]:
        """The further columns that the condition reads."""
        return [name for name in self.read if name not in self.columns(None)[:3]]

    @property
    def ends(self) -> EdgeColumns:
        """The columns of the ends and the value."""
        return edge_columns(self.present, "the edges")._replace(condition=self.condition)

    def columns(self, value: str | None) -> list[str]:
        """Return the columns of the ends, the values and the condition."""
        attributes = attribute_columns(self.present, value, "the edges")
        ends = [n for n in self.ends[:3] if n is not None]
        return [*dict.fromkeys([*ends, *attributes, *self.read])]

    def chunks(
        self, batches: Iterable[pa.RecordBatch], value: str | None, codes: Codes
    ) -> Iterator[Chunk]:
        """Yield the edges of the rows."""
        for batch in batches:
            yield batch_chunk(batch, self.ends, value, "the edges", codes)


class FrameEdges(RoutedEdges):
    """The rows of a Spark DataFrame."""

    def __init__(self, frame: DataFrame, rows: Rows) -> None:
        self._frame, self._rows = frame, rows
        self.text = rows.text
        select(frame, rows.columns(None), "the edges", rows.others)
        kinds = [frame.schema[n].dataType for n in rows.columns(None)[:2]]
        self.strings = not self.text and any(isinstance(k, T.StringType) for k in kinds)

    def _chosen(self, value: str | None) -> DataFrame:
        return select(self._frame, self._rows.columns(value), "the edges", self._rows.others)

    def where(self, condition: Condition) -> FrameEdges:
        """Return the edges for which a condition holds."""
        return FrameEdges(self._frame, self._rows.where(condition, self._frame))

    def blocks(self, spec: LoadSpec, names: Any) -> FrameBlocks:
        """Return the edges as blocks, made in tasks of Spark."""
        route = partial(_route, spec, names, self._rows)
        return FrameBlocks(self._chosen(spec.variant.value), route)

    def sample(self, count: int) -> tuple[FrameEdges, float]:
        """Return about so many of the rows, and their share."""
        frame, share = _limited(self._frame, count)
        return FrameEdges(frame, self._rows), share

    def distinct_ids(self, workers: Workers) -> Any:
        """Return the distinct ids, collected in tasks of Spark."""
        function = partial(_distinct_ids, self._rows)
        return merged(without_fault(in_tasks(self._chosen(None), function)))


def _route(
    spec: LoadSpec, names: Any, rows: Rows, part: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[Block]:
    chunks = rows.chunks(joined(batches), spec.variant.value, lookup(names))
    return route_chunks(spec, chunks, part, batches)


def _limited(frame: DataFrame, count: int) -> tuple[DataFrame, float]:
    """Return so many rows of a DataFrame, and which share of all they are."""
    with spark_failure():
        rows = frame.count()
    return frame.limit(count), min(count / max(rows, 1), 1.0)


class RemoteEdges(DivisibleEdges):
    """The rows of a remote session's DataFrame, fetched to be read here.

    They stay between two readings where ids turn out to be strings, else only while they are read.
    """

    def __init__(self, frame: DataFrame, rows: Rows) -> None:
        self._frame, self._rows = frame, rows
        self.text = rows.text
        select(frame, rows.columns(None), "the edges", rows.others)
        self._table: pa.Table | None = None

    def where(self, condition: Condition) -> RemoteEdges:
        """Return the edges for which a condition holds."""
        return RemoteEdges(self._frame, self._rows.where(condition, self._frame))

    def sample(self, count: int) -> tuple[RemoteEdges, float]:
        """Return about so many of the rows, and their share."""
        frame, share = _limited(self._frame, count)
        return RemoteEdges(frame, self._rows), share

    def parts(self, tasks: int) -> list[RemoteEdges]:
        """Return the edges as one part."""
        return [self]

    def read(self, value: str | None, codes: Codes, threads: int) -> Iterator[Chunk]:
        """Yield the edges; their rows are fetched first."""
        columns = self._rows.columns(value)
        if self._table is None or not {*columns} <= {*self._table.column_names}:
            with spark_failure():
                others = self._rows.others
                self._table = select(self._frame, columns, "the edges", others).toArrow()
        stay = isinstance(codes, DistinctIds)
        try:
            yield from self._rows.chunks(self._table.to_batches(_ROWS), value, codes)
        except NotIntegers:
            stay = True
            raise
        finally:
            if not stay:
                self._table = None


def _distinct_ids(rows: Rows, part: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    ids = DistinctIds()
    try:
        for _ in rows.chunks(batches, None, ids):
            pass
        yield ids.sorted()
    except InputError as error:
        yield Fault((0, 0), error)
        for _ in batches:
            pass
