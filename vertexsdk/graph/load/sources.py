"""Sources of edges: files and arrays; `dataframes` has those of Spark.

Tasks read files on this machine by themselves. Of files on other file systems, or in packings that
only Spark knows, Spark reads the lines; a test checks that both give the same result.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from vertexsdk.arrays.packed_strings import is_text
from vertexsdk.errors import InputError, first_line
from vertexsdk.graph.load import files
from vertexsdk.graph.load.adjacency_rows import Chunk
from vertexsdk.graph.load.arrow import (
    batch_chunk,
    edge_columns,
    id_column,
    string_ids,
    text_column,
    text_ids,
)
from vertexsdk.graph.load.condition import Condition
from vertexsdk.graph.load.csv import PACKED, UNPACKED, CsvOptions
from vertexsdk.graph.load.lines import Codes, DistinctIds
from vertexsdk.graph.load.load_task import (
    Edges,
    FileEdges,
    LoadSpec,
    LocalEdges,
    RoutedEdges,
    lookup,
    route_chunks,
)
from vertexsdk.graph.load.tables import EDGES, arrow_table, chosen_columns
from vertexsdk.transport.transport import LocalBlocks, Workers, is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_ROWS = 1 << 19  # rows of arrays which are sent together


def edges_at(
    spark: SparkSession | None,
    paths: Sequence[str],
    format: str | None = None,
    options: CsvOptions | None = None,
) -> Edges:
    """Return how to read the edges at `paths`: by this package or by Spark.

    Raises:
        InputError: no such file, a file is empty, or the format is unknown.
    """
    if format not in (None, "text", "csv", "parquet"):
        raise InputError(f"format {format!r} is not known; use text, csv or parquet")
    if not paths:
        raise InputError("the list of edge files is empty: name a file, a directory or a glob")
    form = files.Form(format, options or CsvOptions())
    form.options.check()
    names: list[str] = []
    if _on_this_machine(spark, paths):
        if is_remote(spark):  # its server cannot read the files of this machine
            spark = None
        # Workers, and a JVM that was started elsewhere, have other working directories.
        paths = [p if p.startswith("file:") else os.path.abspath(p) for p in paths]
        names = files.expand([p for p in map(files.local_path, paths) if p is not None])
        if all(not f.endswith(PACKED) or f.endswith(UNPACKED) for f in names):
            files.plan(names, 1, form)
            return FileEdges(tuple(names), form=form)
    if spark is None:
        raise InputError(
            f"{[*names, *paths][0]}: only Spark can read this; pass a session, see "
            "vertexsdk.session"
        )
    from vertexsdk.graph.load.dataframes import edges_by_spark

    return edges_by_spark(spark, paths, form)


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
    condition: Condition | None = None
    names: tuple[tuple[str, str], ...] = ()  # of columns that had others, as in `Condition`

    @property
    def strings(self) -> bool:  # type: ignore[override]
        """True if ids are strings."""
        return string_ids(self.table.schema, "the edges")

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
        """Yield the edges in chunks."""
        columns = edge_columns(self.table.column_names, EDGES)._replace(condition=self.condition)
        for batch in self.table.to_batches(_ROWS):
            yield batch_chunk(batch, columns, value, "the edges", codes)

    def blocks(self, spec: LoadSpec, names: Any) -> LocalBlocks:
        """Return the edges as blocks, made in this process."""
        chunks = self.read(spec.variant.value, lookup(names), 1)
        return LocalBlocks(route_chunks(spec, chunks, 0, ()))

    def sample(self, count: int) -> tuple[ArrayEdges, float]:
        """Return rows from the middle, and their share."""
        rows = self.table.num_rows
        part = self.table.slice(max(rows - count, 0) // 2, count)
        return replace(self, table=part), part.num_rows / max(rows, 1)

    def where(self, condition: Condition) -> ArrayEdges:
        """Return the edges for which a condition holds."""
        condition = replace(condition, names=self.names)
        columns = edge_columns(self.table.column_names, EDGES)._replace(condition=condition)
        columns.condition_columns(self.table.schema, EDGES)
        return replace(self, condition=condition.also(self.condition))

    def distinct_ids(self, workers: Workers) -> Any:
        """Return the distinct ids, read in this process."""
        ids = DistinctIds()
        for _ in self.read(None, ids, 1):
            pass
        return ids.sorted()


def table_edges(frame: Any, columns: Mapping[str, str | None]) -> ArrayEdges:
    """Return the rows of a table as edges.

    Args:
        frame: a DataFrame of pandas or Polars, or anything that Arrow takes as a table.
        columns: as for `chosen_columns`.

    Raises:
        InputError: a column is missing, has another type, or lacks a value.
    """
    table = arrow_table(frame, EDGES)
    names = chosen_columns(table.column_names, columns)
    for name in names[:2]:
        kind = table.schema.field(name).type
        if not (pa.types.is_integer(kind) or is_text(kind)):
            raise InputError(
                f"{EDGES}, column {name}: {kind}; ids are integers or strings, cast the column"
            )
        if table[name].null_count:
            raise InputError(f"{EDGES}, column {name}: an id is null; drop these rows")
    if names[2] is not None and table[names[2]].null_count:
        raise InputError(
            f"{EDGES}, column {names[2]}: a value is missing; drop these rows or fill in numbers"
        )
    named = {"source": names[0], "target": names[1], "value": names[2]}
    others = [n for n in table.column_names if n not in names and n not in named]
    chosen = {new: table[old] for new, old in named.items() if old is not None}
    edges = pa.table(chosen | {n: table[n] for n in others}).combine_chunks()
    aliases = tuple((old, new) for new, old in named.items() if old is not None)
    return ArrayEdges(edges, names=aliases)


def _numbers(values: Any, name: str) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        dtype = getattr(values, "dtype", None)
        kind = "mixed objects" if dtype is None or dtype == object else dtype
        hint = "; take the real part" if "complex" in str(kind) else f" ({first_line(error)})"
        raise InputError(f"{name}: {kind} are not integers or floats{hint}") from None


def arrays_of_networkx(
    graph: Any, weight: str | Sequence[str] = "weight"
) -> tuple[list[Any], dict[str, Any]]:
    """Return [source, target, value or None], and the options of `Graph.from_arrays`.

    An edge without the attribute `weight` has value 1; several names give several attributes.
    """
    nodes, data = list(graph.nodes), [node for _, node in graph.nodes(data=True)]
    integers = all(isinstance(n, (int, np.integer)) for n in nodes)
    convert = int if integers else str
    if len({convert(n) for n in nodes}) < len(nodes):
        raise InputError("two nodes of the graph have the same str(); relabel the nodes")
    names = [weight] if isinstance(weight, str) else list(weight)
    edges = list(graph.edges(data=True))
    dtype = np.int64 if integers else None
    try:
        ends = [np.array([convert(e[k]) for e in edges], dtype) for k in range(2)]
        vertices = np.array([convert(n) for n in nodes], dtype)
    except OverflowError:
        raise InputError("a node is beyond int64; relabel the nodes") from None
    columns: dict[str, list[Any]] = {n: [e[2].get(n) for e in edges] for n in names}
    value: Any = columns
    if isinstance(weight, str):
        value = None
        if any(x is not None for x in columns[weight]):
            value = np.array([1 if x is None else x for x in columns[weight]])
    fields = dict.fromkeys(name for node in data for name in node if name != "id")
    attributes = {str(name): [node.get(name) for node in data] for name in fields}
    options = {
        "vertices": {"id": vertices, **attributes} if attributes else vertices,
        "undirected": not graph.is_directed(),
        "multi": graph.is_multigraph(),
    }
    return [*ends, value], options


def arrays_of_scipy(matrix: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return [source, target, value], and the options of `Graph.from_arrays`.

    Raises:
        InputError: the matrix is not square, or its entries are not real numbers.
    """
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"the matrix has shape {matrix.shape}; an adjacency matrix is square")
    rows = matrix.tocoo().tocsr().tocoo()  # sums the entries of a place, whatever the format
    ends = [np.asarray(a, np.int64) for a in (rows.row, rows.col)]
    data = rows.data.astype(np.int64) if rows.data.dtype.kind == "b" else rows.data
    return [*ends, data], {"vertices": np.arange(matrix.shape[0])}


def read_graphml(path: str) -> Any:
    """Return the NetworkX graph in a GraphML file.

    Raises:
        InputError: no such file, it is not GraphML, or NetworkX is not installed.
    """
    try:
        import networkx as nx
    except ImportError:
        raise InputError(
            f"{path}: GraphML needs NetworkX: pip install 'vertexsdk[networkx]'"
        ) from None
    try:
        graph = nx.read_graphml(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or first_line(error)}") from None
    except Exception as error:  # of the XML parser, of NetworkX, or of a type that it does not know
        raise InputError(f"{path}: not readable as GraphML ({first_line(error)})") from None
    ids = text_ids(text_column(graph), path)  # its types are those of attributes, ids are text
    if is_text(ids.type):
        return graph
    return nx.relabel_nodes(graph, dict(zip(graph, ids.to_pylist(), strict=True)))
