"""A graph as a run takes it: where its edges come from, loaded when a program needs them.

`Graph.read` only looks at what is there. A program needs the graph in one *variant* (which way
edges are followed, with which values); `materialise` loads it, once, into memory that all
workers of a host share. Its anchor says on which host each partition is, for all variants.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pyspark.sql import DataFrame, SparkSession

from vertexsdk.arrays import shared_memory
from vertexsdk.errors import InputError, RunError, excerpt
from vertexsdk.graph._placement import Placement
from vertexsdk.graph.load import _sources as sources
from vertexsdk.graph.load._build_topology import NO_KIND, Variant, Vertices
from vertexsdk.graph.load._jobs import Edges, Plan, Report, load
from vertexsdk.graph.load._lines import NotIntegers
from vertexsdk.graph.partitioners._partitioner import Partitioner, assign
from vertexsdk.graph.string_ids import Names
from vertexsdk.graph.topology import Topology
from vertexsdk.graph.vertex_file import VertexInput, resolve, vertices_at, vertices_of
from vertexsdk.transport.locality import Anchor

__all__ = ["NO_KIND", "Graph", "Variant", "VariantInfo"]

_log = logging.getLogger("vertexsdk")
_numbers = itertools.count()

VariantKey = Variant | tuple[str, str | None, str]


@dataclass(frozen=True, slots=True)
class VariantInfo:
    """What loading a variant found.

    `num_edges` counts edges as given, without duplicates unless the graph keeps them; an edge
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


class Graph:
    """Edges, and the vertices they join. Make one with `read` or one of the `from_` methods.

    >>> graph = Graph.read(spark, "edges.txt")  # doctest: +SKIP
    >>> graph.num_vertices  # doctest: +SKIP
    4
    """

    def __init__(
        self,
        spark: SparkSession,
        edges: Edges,
        vertices: VertexInput | None = None,
        *,
        undirected: bool = False,
        multi: bool = False,
        partitions: int | None = None,
        partitioner: Any = "hash",
        slack: float = 0.05,
    ) -> None:
        if partitions is not None and partitions < 1:
            raise InputError(f"partitions is {partitions}; it must be at least 1")
        self.spark = spark
        self._edges = edges
        self._vertices = vertices
        self.undirected = undirected
        self.multi = multi
        self.partitions = partitions or _default_partitions(spark)
        self.partitioner = Partitioner.of(partitioner, slack)
        self._placement: Any = None  # a broadcast, once it is known
        application = shared_memory.application(spark.sparkContext.applicationId)
        self._key = f"{application}/graph-{next(_numbers)}"
        self._infos: dict[Variant, VariantInfo] = {}
        self._names: Names | None = None
        self._names_sent: Any = None
        self._anchor: Anchor | None = None
        self.may_be_empty = False  # as a graph may be from which edges were removed
        shared_memory.claim(application)
        shared_memory.release_at_exit(application)

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        edges: str | Sequence[str],
        vertices: str | None = None,
        undirected: bool = False,
        multi: bool = False,
        partitions: int | None = None,
        format: str | None = None,
        partitioner: Any = "hash",
        slack: float = 0.05,
    ) -> Graph:
        """Read edges from files.

        Args:
            spark: the session, see `vertexsdk.session`.
            edges: a file, directory or glob, or several. Text lines `source target [value]`
                separated by blanks, tabs or commas, with `#` comments; or CSV or Parquet with
                columns `source,target[,value]` or `src,dst[,weight]`.
            vertices: a file with a vertex id per line, and perhaps the name of its class.
            undirected: each edge given stands for both directions.
            multi: keep duplicate edges; else the last one given counts.
            partitions: how many; the default is one per executor.
            format: "text", "csv" or "parquet"; the default is to look.
            partitioner: which partition owns a vertex: "hash" of its id; or so that few edges lead
                from one partition to another, "ldg", "fennel" or "metis", for which the graph is
                read once more, into one task; or a function or a table, see `_partitioner`.
            slack: by how much partitions that follow the structure may exceed their share of
                vertices and edges.

        Raises:
            InputError: nothing is there, or it is empty.
        """
        paths = [edges] if isinstance(edges, str) else list(edges)
        return cls(
            spark,
            sources.edges_at(spark, paths, format),
            None if vertices is None else vertices_at(spark, vertices),
            undirected=undirected,
            multi=multi,
            partitions=partitions,
            partitioner=partitioner,
            slack=slack,
        )

    @classmethod
    def from_dataframe(
        cls,
        edges: DataFrame,
        vertices: DataFrame | None = None,
        *,
        undirected: bool = False,
        multi: bool = False,
        partitions: int | None = None,
        partitioner: Any = "hash",
        slack: float = 0.05,
    ) -> Graph:
        """Take edges from a DataFrame with columns `source,target[,value]` (or `src,dst`).

        Other columns of `edges` are not read. `vertices` has a column `id`, and perhaps `kind`, the
        name of the vertex's class; any other is refused, as nothing would be made of it.

        Raises:
            InputError: columns that are missing, or of vertices that are not known.
        """
        return cls(
            edges.sparkSession,
            sources.FrameEdges(edges),
            None if vertices is None else vertices_of(vertices),
            undirected=undirected,
            multi=multi,
            partitions=partitions,
            partitioner=partitioner,
            slack=slack,
        )

    @classmethod
    def from_graphframe(cls, graph: Any, **options: Any) -> Graph:
        """Take a GraphFrames `GraphFrame`; `options` as those of `from_dataframe`.

        Of its vertices `id` and `kind` are read, of its edges `src`, `dst` and `weight`.
        """
        wanted = [n for n in graph.vertices.columns if n in ("id", "kind")]
        return cls.from_dataframe(graph.edges, graph.vertices.select(*wanted), **options)

    @classmethod
    def from_arrays(
        cls,
        source: ArrayLike,
        target: ArrayLike,
        value: ArrayLike | None = None,
        *,
        spark: SparkSession,
        vertices: ArrayLike | None = None,
        undirected: bool = False,
        multi: bool = False,
        partitions: int | None = None,
        partitioner: Any = "hash",
        slack: float = 0.05,
    ) -> Graph:
        """Take edges from arrays of ids (integers or strings), shape (m,), and of values."""
        return cls(
            spark,
            sources.ArrayEdges.of(source, target, value),
            None if vertices is None else VertexInput.of(vertices),
            undirected=undirected,
            multi=multi,
            partitions=partitions,
            partitioner=partitioner,
            slack=slack,
        )

    @classmethod
    def from_networkx(
        cls, graph: Any, *, spark: SparkSession, weight: str = "weight", **options: Any
    ) -> Graph:
        """Take a NetworkX graph; `undirected` and `multi` are as it is.

        Node labels are ids: integers, or all are taken by their `str`.
        """
        from vertexsdk.graph.load._convert import arrays_of_networkx

        arrays, kind = arrays_of_networkx(graph, weight)
        return cls.from_arrays(*arrays, spark=spark, **{**kind, **options})

    @classmethod
    def from_scipy(cls, matrix: Any, *, spark: SparkSession, **options: Any) -> Graph:
        """Take a square SciPy sparse matrix: entry [i, j] is an edge i -> j with that value."""
        from vertexsdk.graph.load._convert import arrays_of_scipy

        arrays, kind = arrays_of_scipy(matrix)
        return cls.from_arrays(*arrays, spark=spark, **{**kind, **options})

    def materialise(self, variant: VariantKey = ("out", None, "combined")) -> VariantInfo:
        """Load a variant unless it is loaded, and say what was found.

        Raises:
            InputError: bad input, with the file and line where there is one.
            RunError: Spark failed, or there is no room.
        """
        wanted = variant if isinstance(variant, Variant) else Variant(*variant)
        anchor = self.anchor
        if wanted not in self._infos:
            self._infos[wanted] = self._load(wanted, anchor)
        return self._infos[wanted]

    @property
    def anchor(self) -> Anchor:
        """Where the partitions are: for `Exchange`, so that hops run there.

        Made anew, and the graph loaded again when needed, if an executor has gone.
        """
        if self._anchor is not None and not self._anchor.whole():
            self.unpersist()
        if self._anchor is None:
            self._anchor = Anchor(self.spark, self.partitions)
        return self._anchor

    @property
    def names(self) -> Any:
        """A Spark broadcast of the `Names` of string ids; None before loading, or without any."""
        return self._names_sent

    @property
    def key(self) -> str:
        """The prefix of all that is resident for this graph."""
        return self._key

    @property
    def code_names(self) -> Names | None:
        """The string ids in the order of their codes; None where ids are integers."""
        return self._names

    @property
    def vertex_input(self) -> VertexInput | None:
        """The vertices named apart from the edges."""
        return self._vertices

    def use_names(self, names: Names) -> None:
        """Take the edges' ids as codes of these strings, instead of finding the strings."""
        self._names = names
        self._names_sent = self.spark.sparkContext.broadcast(names)

    def _load(self, variant: Variant, anchor: Anchor) -> VariantInfo:
        began = time.perf_counter()
        try:
            plan, reports, kinds = self._load_placed(variant, anchor)
        except NotIntegers:
            self._find_names()
            plan, reports, kinds = self._load_placed(variant, anchor)
        if not sum(r.vertices for r in reports) and not self.may_be_empty:
            raise InputError("there is no edge in the input; a line is `source target [value]`")
        given, duplicates = sum(r.given for r in reports), sum(r.duplicates for r in reports)
        return VariantInfo(
            variant=variant,
            num_vertices=sum(r.vertices for r in reports),
            num_edges=given if self.multi else given - duplicates,
            given=given,
            duplicates=0 if self.multi else duplicates,
            self_loops=sum(r.self_loops for r in reports),
            valued=sum(r.valued for r in reports),
            string_ids=self._names is not None,
            mixed_ids=self._names is not None and self._names.mixed,
            kinds=kinds,
            sizes=tuple((r.vertices, r.entries, r.ghosts) for r in reports),
            keys=tuple(plan.key_of(p) for p in range(self.partitions)),
            bytes=sum(r.bytes for r in reports),
            seconds=time.perf_counter() - began,
            boundary=sum(r.boundary for r in reports),
            remote=sum(r.remote for r in reports),
        )

    def _load_placed(
        self, variant: Variant, anchor: Anchor
    ) -> tuple[Plan, list[Report], tuple[str, ...]]:
        vertices, kinds = resolve(self._vertices, self._names)
        if self._placement is None and self.placed:
            self._placement = self.spark.sparkContext.broadcast(self._place(vertices))
        plan = Plan(
            f"{self._key}/{variant.name}", variant, self.partitions, self.undirected, self.multi,
            table=self._placement, table_key=f"{self._key}/placement" if self.placed else None,
        )  # fmt: skip
        return plan, load(anchor, self._edges, plan, vertices, self._names_sent), kinds

    @property
    def placement(self) -> Any:
        """A Spark broadcast of the `Placement`; None before loading, or by the hash alone."""
        return self._placement

    def use_placement(self, other: Graph, placement: Any = None) -> None:
        """Place vertices as another graph does, or as a broadcast of a `Placement` says."""
        self.partitioner, self._placement = other.partitioner, placement or other.placement

    @property
    def placed(self) -> bool:
        """Whether vertices are placed otherwise than by the hash of their ids."""
        return self.partitions > 1 and self.partitioner.name != "hash"

    def _place(self, vertices: Vertices | None) -> Placement:
        """Find out which partition is to own each vertex."""
        how = self.partitioner
        if how.function is None:
            return self._table_placement()
        variant = Variant("undirected")
        plan = Plan(f"{self._key}/whole", variant, 1, self.undirected, self.multi)
        whole = Anchor(self.spark, 1)
        try:
            load(whole, self._edges, plan, vertices, self._names_sent)
            args = (how.function, plan.key_of(0), self.partitions, how.slack, self._names_sent)
            found = whole.run(partial(assign, *args))[0]
        finally:
            whole.forget(plan.key)
            whole.close()
        if isinstance(found, InputError):
            raise found
        return Placement.of_table(*found, self.partitions)

    def _table_placement(self) -> Placement:
        if self._names is None and self.partitioner.strings:
            self._find_names()
            names = self.code_names
            if names is not None and names.integers == len(names):
                self._names = self._names_sent = None
                raise InputError("partitioner: the graph's ids are integers; so must be its own")
        return self.partitioner.of_table(self.partitions, self._names)

    def _find_names(self) -> None:
        """Give every string id its code, which is its rank among all."""
        self._placement = None
        sc = self.spark.sparkContext
        self._names = Names.of(
            self._edges.distinct_names(sc),
            None if self._vertices is None else self._vertices.strings(),
        )
        self._names_sent = sc.broadcast(self._names)
        if self._names.mixed:
            _log.warning(
                "%d of %d ids are integers and the others are not: all are taken as strings",
                self._names.integers,
                len(self._names),
            )

    def topology_key(self, variant: VariantKey, partition: int) -> str:
        """The resident key of one partition's topology in a variant that is loaded."""
        return self.materialise(variant).keys[partition]

    def _any(self) -> VariantInfo:
        return next(iter(self._infos.values()), None) or self.materialise()

    @property
    def num_vertices(self) -> int:
        """How many vertices there are; loads the graph if no variant is loaded."""
        return self._any().num_vertices

    @property
    def string_ids(self) -> bool:
        """Whether ids are strings; loads the graph if no variant is loaded."""
        return self._any().string_ids

    def code_of(self, ids: Sequence[str | int]) -> NDArray[np.int64]:
        """Return the codes (int64) of ids: of strings, their ranks; an integer is its own.

        Raises:
            InputError: an id that is not in the graph.
        """
        self._any()
        if self._names is not None:
            codes = self._names.find([str(i) for i in ids])
            missing = np.flatnonzero(codes < 0)
        else:
            try:
                codes = np.array([int(i) for i in ids], np.int64)
            except (ValueError, OverflowError):
                raise InputError(
                    f"ids of this graph are int64 integers, not {excerpt(list(ids))}"
                ) from None
            missing = np.flatnonzero(~self._present(codes))
        if len(missing):
            raise InputError(f"vertex {excerpt(ids[missing[0]])} is not in the graph; check the id")
        return codes

    def contains(self, ids: Sequence[str | int]) -> NDArray[np.bool_]:
        """Return for each id whether the graph has such a vertex (bool, shape (n,))."""
        self._any()
        if self._names is not None:
            return np.asarray(self._names.find([str(i) for i in ids]) >= 0)
        return self._present(np.asarray(ids, np.int64))

    def _present(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        parts = self._where(codes)
        if any(p is None for p in parts):  # an executor has gone with its host's memory
            loaded = list(self._infos)
            self.unpersist()
            for variant in loaded:
                self.materialise(variant)
            parts = self._where(codes)
        found = np.zeros(len(codes), np.bool_)
        for part in parts:
            if part is None:
                raise RunError("executors die with the graph they hold; see the cluster's logs")
            found |= part
        return found

    def _where(self, codes: NDArray[np.int64]) -> list[NDArray[np.bool_] | None]:
        """For each partition which codes are vertices in it, or None if it is not there."""
        keys = self._any().keys
        look = partial(_among, keys, codes)
        here = [look(p) for p in range(len(keys))]
        return here if all(h is not None for h in here) else self.anchor.run(look)

    def topology(self, variant: VariantKey, partition: int) -> Topology:
        """Open one partition's topology on this host; loads the variant if need be.

        Raises:
            InputError: the partition is kept on another host.
        """
        held = shared_memory.open(self.topology_key(variant, partition))
        if held is None:
            raise InputError(f"partition {partition} is on another host; read it in a task there")
        return Topology.from_columns(*held)

    def forget(self, prefix: str) -> None:
        """Drop the arrays under a resident key, wherever this graph's partitions are."""
        if self._anchor is not None:
            self._anchor.forget(prefix)
        else:
            shared_memory.drop(prefix)

    def with_vertices(self, vertices: VertexInput | None) -> Graph:
        """Return a graph of the same edges, loaded anew, with these vertices named apart."""
        made = Graph(
            self.spark,
            self._edges,
            vertices,
            undirected=self.undirected,
            multi=self.multi,
            partitions=self.partitions,
        )
        made.use_placement(self)
        made.may_be_empty = self.may_be_empty
        if self._names is not None:
            made.use_names(self._names)
        return made

    def unpersist(self) -> None:
        """Free the memory of all variants; they are loaded again when needed."""
        self.forget(self._key)
        if self._anchor is not None:
            self._anchor.close()
        self._infos.clear()
        self._anchor = None


def _among(
    keys: Sequence[str], codes: NDArray[np.int64], partition: int
) -> NDArray[np.bool_] | None:
    """Say which codes are ids of a partition (bool, shape (n,)); None if it is not here."""
    held = shared_memory.open(keys[partition])
    if held is None:
        return None
    ids = held[0]["ids"]
    at = np.searchsorted(ids, codes)
    found = np.asarray(at < len(ids))
    found[found] = ids[at[found]] == codes[found]
    return found


def _default_partitions(spark: SparkSession) -> int:
    """One per executor: its cores are used by threads."""
    sc = spark.sparkContext
    if (sc.master or "").split("[")[0] == "local":
        return 1
    return max(1, int(sc._jsc.sc().getExecutorMemoryStatus().size()) - 1)
