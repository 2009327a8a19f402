"""Sources of edges: files and arrays; see `_load_task.Edges`, and `_dataframes` for Spark's.

Tasks read files on this machine with a parser of this package. Files that only Spark can read (on
other file systems, compressed, quoted, or in partition directories) go through `spark.read`; a test
checks that both give the same result.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from vertexsdk.errors import InputError, first_line
from vertexsdk.graph.load import _files as files
from vertexsdk.graph.load import _text as text
from vertexsdk.graph.load._adjacency_rows import Chunk
from vertexsdk.graph.load._lines import Codes, LineError, parse_chunk
from vertexsdk.graph.load._load_task import (
    DivisibleEdges,
    Edges,
    FileEdges,
    LoadSpec,
    LocalEdges,
    RoutedEdges,
    route_batches,
)
from vertexsdk.graph.load.arrow import (
    as_strings,
    batch_chunk,
    edge_columns,
    id_column,
    string_ids,
)
from vertexsdk.graph.string_ids import merged
from vertexsdk.transport.transport import LocalBlocks, Workers, is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = 1 << 19  # rows of arrays which are sent together


def edges_at(spark: SparkSession | None, paths: Sequence[str], format: str | None = None) -> Edges:
    """Return how to read the edges at `paths`: by this package or by Spark.

    Raises:
        InputError: no such file, a file is empty, or the format is unknown.
    """
    if format not in (None, "text", "csv", "parquet"):
        raise InputError(f"format {format!r} is not known; use text, csv or parquet")
    if not paths:
        raise InputError("the list of edge files is empty: name a file, a directory or a glob")
    if not _on_this_machine(spark, paths):
        return _otherwise(spark, paths, None, format)
    if is_remote(spark):  # its server cannot read the files of this machine
        spark = None
    # Workers, and a JVM that was started elsewhere, have other working directories.
    paths = [p if p.startswith("file:") else os.path.abspath(p) for p in paths]
    names = files.expand([p for p in map(files.local_path, paths) if p is not None])
    formats = {f: files.file_format(f) for f in names if os.path.getsize(f)}
    kinds = set(formats.values())
    plain = all(files.plain_header(f) for f, kind in formats.items() if kind == "csv")
    if format is not None and kinds and not kinds <= {format, "packed"}:
        raise InputError(
            f"{names[0]}: looks like {kinds.pop()}, not {format}; leave out the format"
        )
    if "packed" in kinds or not plain or ("parquet" in kinds and len(kinds) > 1):
        return _otherwise(spark, paths, names, "csv" if "csv" in kinds else format)
    files.plan(names, 1)
    return FileEdges(tuple(names))


def _otherwise(
    spark: SparkSession | None,
    paths: Sequence[str],
    names: Sequence[str] | None,
    format: str | None,
) -> Edges:
    """Return edges that this package's parsers cannot read; `names` are the files if local."""
    if spark is None:
        return _without_spark(paths, names)
    from vertexsdk.graph.load._dataframes import edges_by_spark

    return edges_by_spark(spark, paths, format)


def _on_this_machine(spark: SparkSession | None, paths: Sequence[str]) -> bool:
    if any(files.local_path(p) is None for p in paths):
        return False
    if spark is None or is_remote(spark) or all(p.startswith("file:") for p in paths):
        return True
    from vertexsdk.transport.spark import paths_are_local

    return paths_are_local(spark)


@dataclass(frozen=True)
class ArrayEdges(LocalEdges, RoutedEdges):
    """Edges in the memory of the driver."""

    table: pa.Table

    @property
    def strings(self) -> bool:  # type: ignore[override]
        """See `Edges`."""
        return string_ids(self.table.schema)

    @classmethod
    def of(
        cls, source: ArrayLike, target: ArrayLike, value: ArrayLike | Mapping[str, ArrayLike] | None
    ) -> ArrayEdges:
        """Make edges from arrays of ids, integers or strings, and of values, or several by name.

        Raises:
            InputError: lengths differ, or ids are neither integers nor strings.
        """
        columns = {"source": id_column(source), "target": id_column(target)}
        if isinstance(value, Mapping):
            columns |= {name: _numbers(x, f"edge attribute {name}") for name, x in value.items()}
        elif value is not None:
            columns["value"] = _numbers(np.asarray(value), "edge values")
        lengths = {k: len(c) for k, c in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"lengths differ: {lengths}; each edge needs all of them")
        return cls(pa.table(columns))

    def read(self, value: str | None, codes: Codes, threads: int) -> Iterator[Chunk]:
        """See `LocalEdges`."""
        columns = edge_columns(self.table.column_names, "the edges")
        for batch in self.table.to_batches(_ROWS):
            yield batch_chunk(batch, columns, value, "the edges", codes)

    def blocks(self, spec: LoadSpec, names: Any) -> LocalBlocks:
        """See `RoutedEdges`."""
        columns = edge_columns(self.table.column_names, "the edges")
        return LocalBlocks(route_batches(spec, names, columns, 0, self.table.to_batches(_ROWS)))

    def sample(self, count: int) -> tuple[ArrayEdges, float]:
        """See `Edges`."""
        rows = self.table.num_rows
        part = self.table.slice(max(rows - count, 0) // 2, count)
        return ArrayEdges(part), part.num_rows / max(rows, 1)

    def distinct_ids(self, workers: Workers) -> Any:
        """See `Edges`."""
        return merged(
            as_strings(c, "the edges") for n in ("source", "target") for c in self.table[n].chunks
        )


def _numbers(values: Any, name: str) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        dtype = getattr(values, "dtype", None)
        kind = "mixed objects" if dtype is None or dtype == object else dtype
        hint = "; take the real part" if "complex" in str(kind) else f" ({first_line(error)})"
        raise InputError(f"{name}: {kind} are not integers or floats{hint}") from None


@dataclass(frozen=True)
class PackedText(DivisibleEdges):
    """Compressed files of edge lines, each read as a whole; used without Spark."""

    paths: tuple[str, ...]
    text = True

    def parts(self, tasks: int) -> list[PackedText]:
        """See `DivisibleEdges`."""
        return [PackedText((path,)) for path in self.paths]

    def read(self, value: str | None, codes: Codes, threads: int) -> Iterator[Chunk]:
        """See `LocalEdges`."""
        for path in self.paths:
            buffer = np.frombuffer(_unpacked(path) + b"\n", np.uint8)
            try:
                yield parse_chunk(buffer, 0, len(buffer), value, codes)
            except LineError as error:
                line = 1 + text.count_lines(buffer, 0, error.position)
                raise error.at_line(f"{path}, line {line}", buffer) from None


def _unpacked(path: str) -> bytes:
    try:
        with pa.input_stream(path, compression="detect") as stream:
            return bytes(stream.read())
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be unpacked ({first_line(error)})") from None


def _without_spark(paths: Sequence[str], names: Sequence[str] | None) -> Edges:
    """Return the edges of files that need Spark otherwise."""
    if names is None:
        raise InputError(
            f"{paths[0]}: only Spark can read this; pass a session, see vertexsdk.session"
        )
    tables: list[pa.Table] = []
    for name in names:
        if files.file_format(name) == "parquet":
            tables.append(pq.read_table(name))
            continue
        head = _unpacked(name).lstrip().split(b"\n", 1)[0].decode("utf-8", "replace").lower()
        if not files.names_ends(n.strip("\"' \r") for n in head.split(",")):
            return PackedText(tuple(names))
        try:
            tables.append(csv.read_csv(name))
        except pa.ArrowException as error:
            raise InputError(f"{name}: not a readable CSV file ({first_line(error)})") from None
    chosen = [
        [n for n in edge_columns(t.column_names, "the edges")[:3] if n is not None] for t in tables
    ]
    renamed = []
    for t, c in zip(tables, chosen, strict=True):
        others = [f.name for f in t.schema if f.name not in c and _is_number(f.type)]
        named = ["source", "target", "value"][: len(c)]
        renamed.append(t.select([*c, *others]).rename_columns([*named, *others]))
    return ArrayEdges(pa.concat_tables(renamed, promote_options="permissive").combine_chunks())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
