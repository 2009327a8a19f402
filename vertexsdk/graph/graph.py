"""A graph: the source of its edges, and what was loaded from it.

`Graph.read` only checks that the files are there. A program needs the graph in one *variant*
(which way edges are followed, with which values); `materialise` loads a variant once, into memory
that all workers of a host share.
"""

from __future__ import annotations

import atexit
import dataclasses
import difflib
import functools
import importlib
import inspect
import itertools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypedDict, TypeVar, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.id_hash import KEY_GROUPS
from vertexsdk.errors import InputError, RunError, excerpt
from vertexsdk.graph._vertex_attributes import VertexAttributes
from vertexsdk.graph.load import sources
from vertexsdk.graph.load.build_topology import NO_KIND, Variant, VertexTable
from vertexsdk.graph.load.condition import Condition
from vertexsdk.graph.load.csv import CsvOptions
from vertexsdk.graph.load.lines import NotIntegers
from vertexsdk.graph.load.load_task import Edges, LoadSpec, PartitionReport, load
from vertexsdk.graph.partitioner import Partitioner, assign
from vertexsdk.graph.topology.placement import Placement
from vertexsdk.graph.topology.string_ids import StringIds
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.graph.vertex_file import (
    VertexInput,
    integer_id,
    resolve,
    vertices_at,
    vertices_of,
    with_ids,
)
from vertexsdk.notebook.card import card, size_text, summary_line
from vertexsdk.program.program import Program
from vertexsdk.transport.select import transport_for
from vertexsdk.transport.transport import Workers, close_unused, is_dataframe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


__all__ = ["NO_KIND", "Graph", "Variant", "VariantInfo"]

_log = logging.getLogger("vertexsdk")
_numbers = itertools.count()
_ESTIMATES = "vertexsdk.loops.estimate"  # by name: it runs programs, and so is above this room

VariantKey = Variant | tuple[str, str | None, str]


class GraphOptions(TypedDict, total=False):
    """Options that every way to make a `Graph` takes; `Graph.read` describes them."""

    undirected: bool
    multi: bool
    partitions: int | None
    partitioner: Any
    slack: float


class TableOptions(GraphOptions, total=False):
    """Options of graphs from tables; `Graph.from_pandas` describes those that are added."""

    spark: SparkSession | None
    source: str
    target: str
    value: str


_P = ParamSpec("_P")
_G = TypeVar("_G")


def _constructor(function: Callable[_P, _G]) -> Callable[_P, _G]:
    """Have a function that makes a graph refuse unknown keywords, with the nearest known one."""
    known: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            known.append(name)
        else:
            table = "TableOptions" in str(parameter.annotation)
            known += (TableOptions if table else GraphOptions).__annotations__

    @functools.wraps(function)
    def make(*args: _P.args, **keywords: _P.kwargs) -> _G:
        for name in keywords:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                meant = f"did you mean {near[0]}=? " if near else ""
                raise InputError(
                    f"{function.__qualname__}: no argument {name}=; {meant}its arguments are "
                    f"{', '.join(known[1:])}"
                )
        return function(*args, **keywords)

    return make


class Graph:
    """Edges and the vertices that they join, on Spark or in this process.

    Make one with `read` or one of the `from_` methods. Nothing is loaded until a program or a
    property needs it. A graph without a Spark session, or with a remote one (Spark Connect), is
    held in this process, and programs run on it here: nothing starts a JVM.

    Attributes:
        transport: runs the tasks of this graph's programs.
        undirected: each edge stands for both directions.
        multi: duplicate edges are kept.
        partitions: number of partitions.
        partitioner: how vertices are assigned to partitions.
        placement: a broadcast of the `Placement`; None before loading, or where the hash
            of the id decides.
        key: prefix of the shared-memory keys of everything loaded for this graph.
        vertex_input: the vertices listed apart from the edges, or None.
        string_table: the string ids in order of their codes; None before loading, or where ids
            are integers.
        string_broadcast: a broadcast of `string_table`, or None.
        silent: nothing is said of its edges, as it is not the user's.
        title: what has its processors, where that is not the user's graph.
        requires_edges: files without edges are refused, as they are not the right ones.

    Example:
        >>> graph = Graph.from_arrays([1, 2, 3], [2, 3, 1])
        >>> graph.num_vertices
        3
    """

    def __init__(
        self,
        spark: SparkSession | None,
        edges: Edges,
        vertices: VertexInput | None = None,
        *,
        undirected: bool = False,
        multi: bool = False,
        partitions: int | None = None,
        partitioner: Any = "hash",
        slack: float = 0.05,
    ) -> None:
        if partitions is not None and not 1 <= partitions <= KEY_GROUPS:
            raise InputError(
                f"partitions is {partitions}; it must be from 1 to {KEY_GROUPS:,}, the number of "
                "key groups"
            )
        self.transport = transport_for(spark)
        self._edges = edges
        self.vertex_input = vertices
        self.undirected = undirected
        self.multi = multi
        self.partitions = partitions or min(self.transport.default_partitions(), KEY_GROUPS)
        self.partitioner = Partitioner.of(partitioner, slack)
        self.placement: Any = None
        application = self.transport.application
        self.key = f"{application}/graph-{next(_numbers)}"
        self._infos: dict[Variant, VariantInfo] = {}
        self.string_table: StringIds | None = None
        self.string_broadcast: Any = None
        self._lock = threading.RLock()  # what several threads use is loaded once
        self._workers: Workers | None = None
        self._closer: weakref.finalize[Any, Any] | None = None  # of the workers
        self._by_jobs = False
        self._held_by_jobs: Graph | None = None
        self._initial: dict[tuple[type, ...], Any] = {}
        self.requires_edges = False
        self.silent = False
        self.title = ""
        self._remarks: set[str] = set()
        shared_memory.claim(application)
        shared_memory.release_at_exit(application)

    @property
    def spark(self) -> SparkSession | None:
        """The Spark session; None for a graph in this process."""
        return self.transport.spark

    @classmethod
    @_constructor
    def read(
        cls,
        spark: SparkSession | str | Sequence[str] | None,
        edges: str | Sequence[str] | None = None,
        vertices: str | None = None,
        undirected: bool = False,
        multi: bool = False,
        partitions: int | None = None,
        format: str | None = None,
        partitioner: Any = "hash",
        slack: float = 0.05,
        *,
        separator: str | None = None,
        source: str | None = None,
        target: str | None = None,
        value: str | None = None,
    ) -> Graph:
        """Read edges from files.

        Args:
            spark: the session (`vertexsdk.session`). Without one, as in
                `Graph.read("edges.txt")`, the graph is read and held in this process.
            edges: a file, directory or glob, or several. Text lines `source target [value]`
                separated by blanks, tabs or commas, lines that begin with `#` are comments; or
                Parquet, or CSV (`.csv` or `.tsv`, packed or not), with columns
                `source,target[,value]` or `src,dst[,weight]`. CSV without a header has them in
                this order.
            vertices: a file with a vertex id per line, and optionally the name of its class; or
                CSV or Parquet with columns `id`, optionally `kind`, and vertex attributes.
            undirected: each edge stands for both directions.
            multi: keep duplicate edges; otherwise the last line for an edge counts.
            partitions: number of partitions, at most 4,096; the default is one per executor.
            format: "text", "csv", "parquet" or "graphml"; the default is to detect it. GraphML
                needs NetworkX, and says itself whether edges have a direction.
            partitioner: how vertices are assigned to partitions. "hash": by the hash of the id.
                "ldg", "fennel", "metis": so that few edges join two partitions; reads the graph
                once more, into one task. A function `f(structure, partitions)` that returns the
                partition of each vertex. Or a table: a DataFrame (Spark, pandas) with columns
                `id` and `partition`, an array of shape (n, 2), two arrays, or a mapping.
            slack: how far a partition may exceed its share of vertices and edges under "ldg",
                "fennel" and "metis"; 0.05 is 5 %.
            separator: between the cells of CSV files; the default is a comma, in `.tsv` a tab.
            source, target, value: the columns of CSV files, where they have other names.

        Raises:
            InputError: no such file, the file is empty, or its columns are not those of edges.

        Example:
            >>> graph = Graph.read(spark, ["a.txt", "more/"], undirected=True)  # doctest: +SKIP
        """
        if isinstance(spark, (str, Sequence)):
            spark, edges = None, spark
        if edges is None:
            raise InputError("no edge file was given; give a file, a directory or a glob")
        paths = [edges] if isinstance(edges, str) else list(edges)
        options: dict[str, Any] = {
            "partitions": partitions, "partitioner": partitioner, "slack": slack,
        }  # fmt: skip
        if format == "graphml" or (format is None and paths and paths[0].endswith(".graphml")):
            return _of_graphml(cls, spark, paths, vertices, undirected, options)
        graph = cls(
            spark,
            sources.edges_at(spark, paths, format, CsvOptions(separator, source, target, value)),
            None if vertices is None else vertices_at(spark, vertices, separator),
            undirected=undirected,
            multi=multi,
            **options,
        )
        graph.requires_edges = True
        return graph

    @classmethod
    @_constructor
    def empty(
        cls,
        ids: type = int,
        *,
        spark: SparkSession | None = None,
        **options: Unpack[GraphOptions],
    ) -> Graph:
        """Make a graph without vertices, from which a main loop can start.

        Args:
            ids: the type of the ids that changes will bring, int or str.
            spark: the session, or None to hold the graph in this process.
            options: `undirected`, `partitions`, `partitioner`, `slack`, as for `read`.

        Raises:
            InputError: `ids` is neither int nor str.

        Example:
            >>> Graph.empty(str).num_vertices
            0
        """
        if ids not in (int, str):
            raise InputError(f"ids is {ids!r}; the ids of a graph are int or str")
        graph = cls.from_arrays([], [], spark=spark, **options)
        if ids is str:
            graph.use_string_ids(StringIds.of())
        return graph

    @classmethod
    @_constructor
    def from_dataframe(
        cls, edges: Any, vertices: Any = None, **options: Unpack[TableOptions]
    ) -> Graph:
        """Make a graph from DataFrames.

        Args:
            edges: a Spark DataFrame, or a table for `from_pandas`, `from_polars` or `from_arrow`.
                Columns `source,target[,value]` or `src,dst[,weight]`; ids are integers or
                strings, values are numbers. Of other columns, those are read that a program
                declares as edge attributes.
            vertices: a column `id`, and optionally `kind`, the name of the vertex's class. Each
                other column is a vertex attribute: its values are what a state field of that
                name has before `init`. A null leaves the field's default.
            options: `source`, `target` and `value`, the names of these columns where they have
                others; `undirected`, `multi`, `partitions`, `partitioner`, `slack`, as for `read`;
                and `spark`, the session, where the edges are not Spark's.

        Raises:
            InputError: a required column is missing.

        Example:
            >>> edges = spark.createDataFrame([(1, 2), (2, 3)], ["source", "target"])
            >>> Graph.from_dataframe(edges, undirected=True).num_vertices
            3
        """
        if not is_dataframe(edges):
            return cls._from_tables(edges, vertices, options)
        from vertexsdk.graph.load.dataframes import edges_of

        rest: dict[str, Any] = {**options, "spark": edges.sparkSession}
        columns = {role: rest.pop(role, None) for role in ("source", "target", "value")}
        more = None if vertices is None else vertices_of(vertices)
        return cls(rest.pop("spark"), edges_of(edges, columns), more, **rest)

    @classmethod
    @_constructor
    def from_pandas(
        cls, edges: Any, vertices: Any = None, **options: Unpack[TableOptions]
    ) -> Graph:
        """Make a graph from pandas DataFrames.

        Args:
            edges: columns `source,target[,value]` or `src,dst[,weight]`; ids are integers or
                strings, values are numbers. Of other columns, those are read that a program
                declares as edge attributes.
            vertices: a column `id`, and optionally `kind` and vertex attributes; see
                `from_dataframe`.
            options: `source`, `target` and `value`, the names of these columns where they have
                others; `spark`, the session; and the options of `from_arrays`.

        Raises:
            InputError: a column is missing or of another type, or an id or a value is missing.

        Example:
            >>> import pandas as pd
            >>> trips = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"], "km": [1.5, 2.0]})
            >>> Graph.from_pandas(trips, source="from", target="to", value="km").num_edges
            2
        """
        return cls._from_tables(edges, vertices, options)

    @classmethod
    @_constructor
    def from_polars(
        cls, edges: Any, vertices: Any = None, **options: Unpack[TableOptions]
    ) -> Graph:
        """Make a graph from Polars DataFrames or LazyFrames; arguments as of `from_pandas`."""
        return cls._from_tables(edges, vertices, options)

    @classmethod
    @_constructor
    def from_arrow(cls, edges: Any, vertices: Any = None, **options: Unpack[TableOptions]) -> Graph:
        """Make a graph from Arrow tables; arguments as of `from_pandas`.

        A table is a `pyarrow.Table`, or any object with `__arrow_c_stream__`, as those of DuckDB,
        DataFusion and Ibis are.

        Example:
            >>> import pyarrow as pa
            >>> table = pa.table({"source": [1, 2], "target": [2, 3]})
            >>> Graph.from_arrow(table, undirected=True).num_vertices
            3
        """
        return cls._from_tables(edges, vertices, options)

    @classmethod
    def _from_tables(cls, edges: Any, vertices: Any, options: TableOptions) -> Graph:
        rest: dict[str, Any] = {**options}
        columns = {role: rest.pop(role, None) for role in ("source", "target", "value")}
        more = None if vertices is None else vertices_of(vertices)
        return cls(rest.pop("spark", None), sources.table_edges(edges, columns), more, **rest)

    @classmethod
    @_constructor
    def from_graphframe(cls, graph: Any, **options: Unpack[GraphOptions]) -> Graph:
        """Make a graph from a GraphFrames `GraphFrame`.

        Args:
            graph: its `vertices` and `edges` are read as by `from_dataframe`.
            options: as those of `from_dataframe`.
        """
        return cls.from_dataframe(graph.edges, graph.vertices, **options)

    @classmethod
    @_constructor
    def from_arrays(
        cls,
        source: ArrayLike,
        target: ArrayLike,
        value: ArrayLike | Mapping[str, ArrayLike] | None = None,
        *,
        spark: SparkSession | None = None,
        vertices: ArrayLike | Mapping[str, ArrayLike] | None = None,
        **options: Unpack[GraphOptions],
    ) -> Graph:
        """Make a graph from arrays.

        Args:
            source: ids of the sources, integers or strings, shape (m,).
            target: ids of the targets, shape (m,).
            value: edge values, numbers, shape (m,); the default is 1 for every edge. Or a mapping
                of such arrays by name: several edge attributes.
            spark: the session (`vertexsdk.session`); without one the graph is held in this
                process.
            vertices: ids of further vertices, shape (n,); needed only for those without edges. Or
                a mapping of arrays by name, or a DataFrame: `id`, and vertex attributes.
            options: `undirected`, `multi`, `partitions`, `partitioner`, `slack`, as for `read`.

        Raises:
            InputError: lengths differ, or ids are neither integers nor strings.

        Example:
            >>> graph = Graph.from_arrays([1, 2], [2, 3])
            >>> graph.num_vertices
            3
        """
        return cls(
            spark,
            sources.ArrayEdges.of(source, target, value),
            None if vertices is None else VertexInput.of(vertices),
            **options,
        )

    @classmethod
    @_constructor
    def from_networkx(
        cls,
        graph: Any,
        *,
        spark: SparkSession | None = None,
        weight: str | Sequence[str] = "weight",
        **options: Any,
    ) -> Graph:
        """Make a graph from a NetworkX graph.

        Args:
            graph: its type gives `undirected` and `multi`. Node labels are the ids: all
                integers, or else the `str` of each. Node data are vertex attributes.
            spark: the session, or None to hold the graph in this process.
            weight: edge attribute with the value; an edge without it has value 1. Or the names of
                several edge attributes.
            options: as those of `from_arrays`.

        Raises:
            InputError: two nodes have the same `str`, or an id is beyond int64.
        """
        from vertexsdk.graph.load.sources import arrays_of_networkx

        arrays, kind = arrays_of_networkx(graph, weight)
        return cls.from_arrays(*arrays, spark=spark, **{**kind, **options})

    @classmethod
    @_constructor
    def from_scipy(cls, matrix: Any, *, spark: SparkSession | None = None, **options: Any) -> Graph:
        """Make a graph from a SciPy sparse matrix.

        Args:
            matrix: shape (n, n); a stored entry [i, j] is an edge i -> j with that value. The
                vertices are 0 to n - 1.
            spark: the session, or None to hold the graph in this process.
            options: as those of `from_arrays`.

        Raises:
            InputError: the matrix is not square.
        """
        from vertexsdk.graph.load.sources import arrays_of_scipy

        arrays, kind = arrays_of_scipy(matrix)
        return cls.from_arrays(*arrays, spark=spark, **{**kind, **options})

    def materialise(self, variant: VariantKey = ("out", None, "combined")) -> VariantInfo:
        """Load a variant, unless it is loaded already.

        Args:
            variant: which way edges are followed, and with which values.

        Returns:
            Counts of vertices and edges, and the shared-memory key of each partition.

        Raises:
            InputError: bad input, with the file and line where there is one.
            RunError: Spark failed, or memory ran out.
        """
        if not isinstance(variant, Variant):
            variant = Variant(*variant)
        with self._lock:
            workers = self.workers
            if variant not in self._infos:
                with workers.described(f"load a graph into {self.partitions} partitions"):
                    info = self._infos[variant] = self._load(variant, workers)
                    counts = f"{info.num_vertices:,} vertices and {info.num_edges:,} edges"
                    workers.title = self.title or f"a graph of {counts}"
            return self._infos[variant]

    @property
    def workers(self) -> Workers:
        """The processors that hold the partitions, so that tasks run there.

        If one was lost, there are new ones, and the graph is loaded again when needed.
        """
        with self._lock:
            if self._workers is not None and not self._workers.intact():
                self.unpersist()
            if self._workers is None:
                self._workers = self.transport.workers(self.partitions, by_jobs=self._by_jobs)
                _open_workers.add(self._workers)
                self._workers.title = self.title
                self._closer = weakref.finalize(self, close_unused, self._workers, self.key)
                self._closer.atexit = False
            return self._workers

    def initial_state(self, program: Program) -> Any:
        """Return a broadcast of the `VertexAttributes` that fill fields of a program.

        None where no attribute does. The graph must be loaded.

        Raises:
            InputError: an attribute is not of its field's type.
        """
        classes = tuple(spec.cls for spec in program.classes)
        if classes not in self._initial:
            attributes = VertexAttributes.of(self.vertex_input, self.string_table, program)
            self._initial[classes] = attributes and self.transport.broadcast(attributes)
        return self._initial[classes]

    def is_new(self, remark: str) -> bool:
        """Return whether a remark on these edges is new, and note it."""
        new = not self.silent and remark not in self._remarks
        self._remarks.add(remark)
        return new

    def use_string_ids(self, table: StringIds) -> None:
        """Read the ids of the edges as codes in `table`, instead of collecting string ids."""
        self.string_table = table
        self.string_broadcast = self.transport.broadcast(table)

    def _load(self, variant: Variant, workers: Workers) -> VariantInfo:
        began = time.perf_counter()
        if self.string_table is None and self._edges.strings:
            self._collect_string_ids()
        try:
            spec, reports, kinds = self._load_placed(variant, workers)
        except NotIntegers:
            self._collect_string_ids()
            spec, reports, kinds = self._load_placed(variant, workers)
        for remark in self._edges.remarks(variant.value is not None):
            if self.is_new(remark):
                _log.warning(remark)
        if not sum(r.vertices for r in reports) and self.requires_edges:
            raise InputError("there is no edge in the input; a line is `source target [value]`")
        given, duplicates = sum(r.edges_read for r in reports), sum(r.duplicates for r in reports)
        return VariantInfo(
            variant=variant,
            num_vertices=sum(r.vertices for r in reports),
            num_edges=given if self.multi else given - duplicates,
            given=given,
            duplicates=0 if self.multi else duplicates,
            self_loops=sum(r.self_loops for r in reports),
            valued=sum(r.valued for r in reports),
            string_ids=self.string_table is not None,
            mixed_ids=self.string_table is not None and self.string_table.mixed,
            kinds=kinds,
            sizes=tuple((r.vertices, r.entries, r.ghosts) for r in reports),
            keys=tuple(spec.key_of(p) for p in range(self.partitions)),
            bytes=sum(r.bytes for r in reports),
            seconds=time.perf_counter() - began,
            boundary=sum(r.boundary for r in reports),
            remote=sum(r.remote for r in reports),
        )

    def _load_placed(
        self, variant: Variant, workers: Workers
    ) -> tuple[LoadSpec, list[PartitionReport], tuple[str, ...]]:
        vertices, kinds = resolve(self.vertex_input, self.string_table)
        if self.placement is None and self.placed:
            self.placement = self.transport.broadcast(self._place(vertices))
        spec = LoadSpec(
            f"{self.key}/{variant.name}", variant, self.partitions, self.undirected, self.multi,
            threads=self.transport.threads(self.partitions), table=self.placement,
            table_key=f"{self.key}/placement" if self.placed else None,
        )  # fmt: skip
        names = self.string_broadcast
        reports = load(self.transport, workers, self._edges, spec, vertices, names)
        return spec, reports, kinds

    @property
    def placed(self) -> bool:
        """True if vertices are placed otherwise than by the hash of their ids."""
        return self.partitions > 1 and self.partitioner.name != "hash"

    def _place(self, vertices: VertexTable | None) -> Placement:
        """Assign each vertex to a partition."""
        how = self.partitioner
        if how.function is None:
            return self._table_placement()
        variant = Variant("undirected")
        spec = LoadSpec(
            f"{self.key}/whole", variant, 1, self.undirected, self.multi,
            threads=self.transport.threads(1),
        )  # fmt: skip
        workers = self.transport.workers(1, by_jobs=self._by_jobs)
        try:
            load(self.transport, workers, self._edges, spec, vertices, self.string_broadcast)
            args = (how.function, spec.key_of(0), self.partitions, how.slack, self.string_broadcast)
            assigned = workers.run(partial(assign, *args))[0]
        finally:
            workers.forget(spec.key)
            workers.close()
        if isinstance(assigned, InputError):
            raise assigned
        return Placement.of_table(*assigned, self.partitions, self.string_table)

    def _table_placement(self) -> Placement:
        if self.string_table is None and self.partitioner.strings:
            table = self._collect_string_ids()
            if table.integers == len(table) and not self._edges.strings:
                self.string_table = self.string_broadcast = None
                raise InputError(
                    "partitioner: the graph's ids are integers; give the table integer ids"
                )
        return self.partitioner.of_table(self.partitions, self.string_table)

    def _collect_string_ids(self) -> StringIds:
        """Collect all string ids; the code of an id is its rank among them."""
        self.placement = None
        table = StringIds.of(
            self._edges.distinct_ids(self.workers),
            None if self.vertex_input is None else self.vertex_input.strings(),
        )
        self.use_string_ids(table)
        if self._edges.text and (what := table.taken_as_strings) and self.is_new(what):
            _log.warning(what)
        return table

    def topology_key(self, variant: VariantKey, partition: int) -> str:
        """The resident key of one partition's topology in a variant that is loaded."""
        return self.materialise(variant).keys[partition]

    def _any(self) -> VariantInfo:
        return next(iter(self._infos.values()), None) or self.materialise()

    @property
    def num_vertices(self) -> int:
        """The number of vertices; loads the graph if no variant is loaded."""
        return self._any().num_vertices

    @property
    def num_edges(self) -> int:
        """The number of edges, those without direction once; loads the graph if need be."""
        return self._any().num_edges

    def degrees(self, direction: Literal["out", "in"] = "out") -> dict[Any, int]:
        """Return the number of edges out of, or into, each vertex, by id.

        Args:
            direction: the same for both where edges have no direction.

        Example:
            >>> Graph.from_arrays([1, 1], [2, 3]).degrees()
            {1: 2, 2: 0, 3: 0}
        """
        ids, degrees = self._collected(Variant(direction), degrees_only=True)
        order = np.argsort(ids)
        named = self._named(ids[order]).to_pylist()
        return dict(zip(named, degrees[order].tolist(), strict=True))

    def to_arrow(self) -> pa.Table:
        """Return the edges as a table `source,target,value`, ascending by source and target.

        An edge without direction is there once, from its smaller id to its larger one.

        Example:
            >>> Graph.from_arrays([2, 1], [3, 2], [0.5, 1.5]).to_arrow().to_pydict()
            {'source': [1, 2], 'target': [2, 3], 'value': [1.5, 0.5]}
        """
        source, target, value = self._collected(Variant("out", "float64"))
        order = np.lexsort((target, source))
        if self.undirected:
            order = order[source[order] <= target[order]]
        ends = {"source": source, "target": target}
        columns = {name: self._named(codes[order]) for name, codes in ends.items()}
        return pa.table({**columns, "value": value[order]})

    def edge_table(
        self, parts: Sequence[tuple[NDArray[Any], ...]], names: Sequence[str]
    ) -> pa.Table:
        """Return numbers along edges as a table `source,target` and a column for each number.

        Args:
            parts: for each partition, the codes of both ends (int64[k]), and the numbers, (k,) or
                (k, len(names)).
            names: the columns' names.
        """
        source, target, numbers = map(np.concatenate, zip(*parts, strict=True))
        order = np.lexsort((target, source))
        columns = numbers.reshape(len(source), len(names))[order].T
        ends = {"source": self._named(source[order]), "target": self._named(target[order])}
        return pa.table({**ends, **dict(zip(names, columns, strict=True))})

    def _collected(self, variant: Variant, *, degrees_only: bool = False) -> list[NDArray[Any]]:
        keys = self.materialise(variant).keys
        return collect(self.workers, EdgesOf(keys, degrees_only))

    def _named(self, codes: NDArray[np.int64]) -> pa.Array:
        """Return ids as a user has them."""
        column = pa.array(codes)
        return column if self.string_table is None else self.string_table.sorted.take(column)

    @property
    def string_ids(self) -> bool:
        """True if ids are strings; loads the graph if no variant is loaded."""
        return self._any().string_ids

    def code_of(self, ids: Sequence[str | int]) -> NDArray[np.int64]:
        """Return the codes (int64) of ids: of strings, their ranks; an integer is its own.

        Raises:
            InputError: an id that is not in the graph.
        """
        self._any()
        if self.string_table is not None:
            codes = self.string_table.find([str(i) for i in ids])
            missing = np.flatnonzero(codes < 0)
        else:
            codes = np.array([integer_id(i) for i in ids], np.int64)
            missing = np.flatnonzero(~self._present(codes))
        if len(missing):
            raise InputError(f"vertex {excerpt(ids[missing[0]])} is not in the graph; check the id")
        return codes

    def contains(self, ids: Sequence[str | int]) -> NDArray[np.bool_]:
        """Return for each id whether the graph has such a vertex (bool, shape (n,))."""
        self._any()
        if self.string_table is not None:
            return np.asarray(self.string_table.find([str(i) for i in ids]) >= 0)
        return self._present(np.array([integer_id(i) for i in ids], np.int64))

    def _present(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        parts = self._present_by_partition(codes)
        if any(p is None for p in parts):  # an executor has gone with its host's memory
            loaded = list(self._infos)
            self.unpersist()
            for variant in loaded:
                self.materialise(variant)
            parts = self._present_by_partition(codes)
        present = np.zeros(len(codes), np.bool_)
        for part in parts:
            if part is None:
                raise RunError(
                    "executors are lost again and again, with their part of the graph; see the logs"
                )
            present |= part
        return present

    def _present_by_partition(self, codes: NDArray[np.int64]) -> list[NDArray[np.bool_] | None]:
        """Return for each partition which codes are its vertices, or None if it was lost."""
        keys = self._any().keys
        look = partial(_present_in, keys, codes)
        here = [look(p) for p in range(len(keys))]
        return here if all(h is not None for h in here) else self.workers.run(look)

    def topology(self, variant: VariantKey, partition: int) -> Topology:
        """Open one partition's topology on this host; loads the variant if need be.

        Raises:
            InputError: the partition is kept on another host.
        """
        stored = shared_memory.load(self.topology_key(variant, partition))
        if stored is None:
            raise InputError(f"partition {partition} is on another host; read it in a task there")
        return Topology.from_columns(*stored)

    def sample(self, count: int) -> tuple[Graph, float]:
        """Return a graph of about so many of the edges, and which share of all they are.

        The edges follow each other in the source; vertex attributes are left out. Nothing else of
        the source is read, except that the rows of a Spark DataFrame are counted.

        Args:
            count: the number of edges; all are taken where there are fewer.
        """
        edges, share = self._edges.sample(count)
        part = Graph(
            self.spark, edges, undirected=self.undirected, multi=self.multi,
            partitions=self.partitions,
        )  # fmt: skip
        part.silent = True
        return part, share

    def estimate(
        self,
        program: Any,
        params: Mapping[str, Any] | None = None,
        *,
        max_iterations: int | None = None,
        compiled: bool | Literal["require"] = True,
        **parameters: Any,
    ) -> Any:
        """Estimate the memory and the time of a run, without loading the graph.

        It runs the program on samples of up to a million edges, which takes a few seconds at most,
        and extrapolates from what these need; `docs/notebooks.md` says how exact that is.

        Args:
            program: as for `run`.
            params: values of the program's parameters. In place of a vertex that is not in the
                sample, the program gets the one with the most edges there.
            max_iterations, compiled: as for `run`.
            parameters: values of the program's parameters too.

        Returns:
            An `Estimate`: `bytes_per_processor`, `seconds`, `iterations`, `edges`, `vertices`.

        Raises:
            InputError: wrong arguments.
            RunError: the program fails on a sample.

        Example:
            >>> graph = Graph.from_arrays([1, 2], [2, 3])
            >>> graph.estimate("pagerank").edges
            2
        """
        estimates = importlib.import_module(_ESTIMATES)
        options = {"max_iterations": max_iterations, "compiled": compiled}
        return estimates.estimate(program, self, params, options, parameters)

    def _facts(self) -> dict[str, Any]:
        """Return what a notebook shows; loads nothing."""
        place = "this process" if self.spark is None else "Spark"
        facts = {"partitions": self.partitions, "held by": place, "undirected": self.undirected}
        info = next(iter(self._infos.values()), None)
        if info is None:
            return {"loaded": "when first needed", **facts}
        ids = "strings" if info.string_ids else "integers"
        counts = {"vertices": info.num_vertices, "edges": info.num_edges, "ids": ids}
        memory = sum(info.bytes for info in self._infos.values())
        return {**counts, **facts, "memory": size_text(memory)}

    def __repr__(self) -> str:
        return summary_line("Graph", self._facts())

    def _repr_html_(self) -> str:
        return card("Graph", self._facts())

    def forget(self, prefix: str) -> None:
        """Drop the arrays under a resident key, wherever this graph's partitions are."""
        if self._workers is not None:
            self._workers.forget(prefix)
        else:
            shared_memory.drop(prefix)

    def with_vertices(self, vertices: VertexInput | None) -> Graph:
        """Return a graph of the same edges, loaded anew, with these vertices named apart."""
        graph = Graph(
            self.spark,
            self._edges,
            vertices,
            undirected=self.undirected,
            multi=self.multi,
            partitions=self.partitions,
        )
        graph.partitioner, graph.placement = self.partitioner, self.placement
        graph.requires_edges, graph._remarks = self.requires_edges, self._remarks
        if self.string_table is not None:
            table = self.string_table
            if vertices is not None:
                table = table.including(vertices.strings())
            if table is not self.string_table:
                graph.placement = None  # it is by codes
            graph.use_string_ids(table)
        return graph

    def where(self, condition: pc.Expression) -> Graph:
        """Return a graph of the edges for which a condition on their columns holds.

        Nothing is read before it is needed, and then of a table only the columns that are. The
        condition is for the rows of the source. Of duplicate edges the last one counts for which
        it holds, and a row of an undirected graph stands for both directions. Where it is null it
        does not hold. Vertices without an edge that is left stay only if they were named apart, as
        vertices or by attributes. What a main loop takes in later is not filtered.

        Args:
            condition: an expression of `pyarrow.compute`, such as `pc.field("amount") > 100`.
                It may read
                `source`, `target`, `value` and all other columns of the source, by the names that
                they have there; of lines of text only `value`, which is 1 where there is none. The
                cells of CSV are text, and numbers where they are compared with numbers.

        Raises:
            InputError: it reads a column that is not there, or types do not fit.

        Example:
            >>> import pyarrow.compute as pc
            >>> trips = {"source": [1, 2, 3], "target": [2, 3, 1], "kind": ["bus", "car", "bus"]}
            >>> graph = Graph.from_arrow(pa.table(trips))
            >>> graph.where(pc.field("kind") == "bus").num_edges
            2
        """
        edges = self._edges.where(Condition.of(condition))
        graph = Graph(
            self.spark, edges, self.vertex_input, undirected=self.undirected, multi=self.multi,
            partitions=self.partitions,
        )  # fmt: skip
        graph.partitioner, graph._remarks = self.partitioner, self._remarks
        graph.silent = self.silent
        if self.string_table is not None and not len(self.string_table):
            graph.use_string_ids(self.string_table)  # of an empty graph
        return graph

    def held_by_jobs(self) -> Graph:
        """Return a graph of the same edges that no processors hold: its runs are Spark jobs.

        It is loaded apart from this one; `unpersist` frees both. Without Spark it is this one.
        """
        if self.transport.name != "spark" or self._by_jobs:
            return self
        with self._lock:
            if self._held_by_jobs is None:
                self._held_by_jobs = self.with_vertices(self.vertex_input)
                self._held_by_jobs._by_jobs = True
            return self._held_by_jobs

    @_constructor
    def with_attributes(
        self,
        vertices: Any,
        *,
        replace: bool = False,
        add_vertices: bool = False,
    ) -> Graph:
        """Return a graph of the same edges whose vertices have attributes too; loads this one.

        Args:
            vertices: arrays by name: `id`, and attributes; or a DataFrame or table of such
                columns, as for `from_arrays`. A vertex that is not
                among them has none. The graph has no attributes or classes of vertices yet.
            replace: leave out those that it has.
            add_vertices: add the vertices that are not in the graph.

        Raises:
            InputError: the column `id` is missing, lengths differ, the graph has attributes, or an
                id is not in the graph.

        Example:
            >>> graph = Graph.from_arrays(["a", "b"], ["b", "c"])
            >>> graph = graph.with_attributes({"id": ["a"], "jump": [1.0]})
        """
        old = self.vertex_input
        if not (replace or old is None or (old.kinds is None and old.attributes is None)):
            raise InputError(
                "the graph has attributes or classes of vertices: make it with all of them"
            )
        new = VertexInput.of(vertices)
        if self.string_ids:
            column = new.strings()
        elif pa.types.is_integer(new.column.type):
            column = pc.cast(new.column, pa.int64())
        else:
            column = pa.array([integer_id(i) for i in new.column.to_pylist()], pa.int64())
        if not (add_vertices or (there := self._there(column)).all()):
            first = excerpt(column[int(np.argmin(there))].as_py())
            raise InputError(
                f"vertex {first} is not in the graph; check the id, or add it: add_vertices=True"
            )
        ids = [] if old is None else old.column.to_pylist()
        return self.with_vertices(with_ids(dataclasses.replace(new, column=column), ids))

    def _there(self, ids: pa.Array) -> NDArray[np.bool_]:
        """Return which ids, of the graph's type, it has (bool[n])."""
        if self.string_table is not None:
            return np.asarray(self.string_table.find(ids.to_pylist()) >= 0)
        return self._present(np.asarray(ids))

    def unpersist(self) -> None:
        """Free the memory of all variants; they are loaded again when needed."""
        if self._held_by_jobs is not None:
            self._held_by_jobs.unpersist()
        self.forget(self.key)
        self._infos.clear()
        if self._workers is not None:
            self._workers.close()
            self._workers = None
        if self._closer is not None:
            self._closer.detach()


def _of_graphml(
    cls: type[Graph],
    spark: Any,
    paths: Sequence[str],
    vertices: str | None,
    undirected: bool,
    options: dict[str, Any],
) -> Graph:
    from vertexsdk.graph.load.sources import read_graphml

    if len(paths) > 1 or vertices is not None:
        raise InputError(f"{paths[0]}: GraphML is one file, which names the vertices too")
    directedness: dict[str, Any] = {"undirected": True} if undirected else {}
    return cls.from_networkx(read_graphml(paths[0]), spark=spark, **options, **directedness)


def _present_in(
    keys: Sequence[str], codes: NDArray[np.int64], partition: int
) -> NDArray[np.bool_] | None:
    """Return which codes are ids of a partition (bool[n]), or None if it is on another host."""
    stored = shared_memory.load(keys[partition])
    if stored is None:
        return None
    ids = stored[0]["ids"]
    at = np.searchsorted(ids, codes)
    present = np.asarray(at < len(ids))
    present[present] = ids[at[present]] == codes[present]
    return present


_open_workers: weakref.WeakSet[Workers] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for workers in list(_open_workers):
        workers.close()


Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class EdgesOf:
    """A task: one partition's edges as codes of their ends, and their values.

    Attributes:
        keys: the resident key of each partition.
        degrees_only: return the vertices and their degrees instead.
    """

    keys: Sequence[str]
    degrees_only: bool = False

    def __call__(self, partition: int) -> tuple[Array, ...] | None:
        """Return (sources, targets, values), or (ids, degrees); None if the partition was lost."""
        stored = shared_memory.load(self.keys[partition])
        if stored is None:
            return None
        topology = Topology.from_columns(*stored)
        degrees = np.diff(topology.start)
        if self.degrees_only:
            return np.array(topology.ids), degrees
        slots = np.asarray(topology.target, np.int64)
        ends = np.concatenate([topology.ids, topology.ghost_ids])[slots]
        values = np.ones(len(slots)) if topology.value is None else np.array(topology.value)
        return np.repeat(topology.ids, degrees), ends, values


def collect(workers: Workers, task: EdgesOf) -> list[Array]:
    """Run a task on every partition, and join the columns of what they return.

    Raises:
        RunError: a partition was lost.
    """
    here = [task(p) for p in range(len(task.keys))]
    parts = here if all(part is not None for part in here) else workers.run(task)
    if any(part is None for part in parts):
        raise RunError("an executor was lost with its part of the graph; try again")
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


@dataclass(frozen=True, slots=True)
class VariantInfo:
    """Counts taken while a variant was loaded.

    `num_edges` counts edges of the input, without duplicates unless the graph keeps them; an edge
    of an undirected graph counts once. `valued` of the `given` lines had a value (the others
    have value 1). `sizes` has (vertices, adjacency entries, ghosts) of each partition, `keys`
    their resident keys, `kinds` the class names that codes in `Topology.kind` stand for.
    `self_loops` counts vertices with an edge to themselves. `boundary` counts vertices with a
    consumer in another partition, `remote` the adjacency entries that lead to another one.
    """

    variant: Variant
    num_vertices: int
    num_edges: int
    given: int
    duplicates: int
    self_loops: int
    valued: int
    string_ids: bool
    mixed_ids: bool
    kinds: tuple[str, ...]
    sizes: tuple[tuple[int, int, int], ...]
    keys: tuple[str, ...]
    bytes: int
    seconds: float
    boundary: int = 0
    remote: int = 0

    @property
    def boundary_share(self) -> float:
        """The share of vertices with a consumer in another partition, 0 to 1."""
        return self.boundary / max(self.num_vertices, 1)

    @property
    def cut(self) -> float:
        """The share of adjacency entries that lead to another partition, 0 to 1."""
        return self.remote / max(sum(entries for _, entries, _ in self.sizes), 1)

    @property
    def imbalance(self) -> float:
        """The vertices and adjacency entries of the largest partition over those of the mean."""
        loads = [vertices + entries for vertices, entries, _ in self.sizes]
        return max(loads) * len(loads) / max(sum(loads), 1)


# By the package that defines an object's class, or one of its bases.
_CONVERTERS: dict[str, Callable[[Any], Graph]] = {
    "graphframes": Graph.from_graphframe,
    "networkx": Graph.from_networkx,
    "pandas": Graph.from_pandas,
    "polars": Graph.from_polars,
    "pyarrow": Graph.from_arrow,
    "pyspark": Graph.from_dataframe,
    "scipy": Graph.from_scipy,
}


def as_graph(source: Any) -> Graph:
    """Return a graph of edges in any form that a `Graph` can be made of without options.

    Args:
        source: a `Graph`, which is returned as it is; a DataFrame of Spark, pandas or Polars, an
            Arrow table, a NetworkX graph, a SciPy sparse matrix, a GraphFrame; or a path of an
            edge file, or several.

    Raises:
        InputError: it is something else, or not the edges of a graph.

    >>> import networkx as nx
    >>> as_graph(nx.path_graph(4)).undirected
    True
    """
    if isinstance(source, Graph):
        return source
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    texts = isinstance(source, Sequence) and all(isinstance(x, str) for x in source)
    if isinstance(source, str) or (texts and len(source)):
        return Graph.read(source)
    for base in type(source).__mro__:
        converter = _CONVERTERS.get(base.__module__.split(".")[0])
        if converter is not None:
            return converter(source)
    if hasattr(source, "__arrow_c_stream__"):
        return Graph.from_arrow(source)
    raise InputError(
        f"{type(source).__name__} is not a graph; give a vertexsdk.Graph, a DataFrame with "
        "columns source and target, an Arrow table, a NetworkX graph, a SciPy matrix, or a path"
    )
