"""Results of a loop, read from the store: some vertices by id without a scan, or all vertices.

A vertex has the fields of its class. If a program has several classes, a vertex's row begins with
the name of its class, and a table of all vertices has nulls where a class lacks a field.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import unpack_strings
from vertexsdk.engine.loop_names import loop_of_run
from vertexsdk.errors import InputError, StateError, shorten
from vertexsdk.loops._frames import arrow_table, networkx_graph, pandas_frame, polars_frame
from vertexsdk.loops.output import with_infinities, write
from vertexsdk.notebook.card import Rows, card, seconds_text, summary_line
from vertexsdk.notebook.plots import plot_histogram, plot_top
from vertexsdk.program.fields import NO_FIELDS, Fields
from vertexsdk.state import Manifest, Store, open_store
from vertexsdk.state.address import Address
from vertexsdk.state.id_fields import IdFields
from vertexsdk.state.pins import Pin
from vertexsdk.state.reading import ascending, find_ids, name_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from vertexsdk.graph.graph import Graph
    from vertexsdk.loops.paths import ShortestPathTree

Array = NDArray[Any]

# Programs whose result is a distance, and whether an edge counts by its value.
_ANSWERS = "vertexsdk.loops.exact_versions"  # by name: it opens loops, which open results
_DISTANCES = {"bfs": False, "khop": False, "sssp": True}
_DISTANCES |= {"breadthfirstsearch": False, "shortestpaths": True}


class Result:
    """One version of a loop, readable from any process that can open the store.

    `run`, `MainLoop.query` and `read` return one. Until `close` it keeps the store open, and its
    version in the store, whatever is run or deleted meanwhile. Where this user may not write to the
    store, other processes do not know of that.

    Args:
        backend: URL of the store.
        loop: the name of the loop. That of a program is its main loop, or where the store has
            none, its run.
        at: the newest version at or before this iteration, or this one; None for the newest.
        statistics: instead of those of the version.
        spark: the session for `dataframe`.
        trusted: unpickle fields that are Python objects.
        schema: the program's; by default the version's. A column that is a number in the schema is
            never unpickled.
        store: the open store of `backend`; `close` closes it.
        lease: as for `Store.hold`.
        parent: the version's parent, if this may not be in the store; this process keeps it too.
        run_on: the graph of a run, and the parameter `origin`, for `path`.
        edges: what `edges` returns.

    Attributes:
        backend: the store's URL, which `read` takes; its text contains no password.
        loop: the name of the loop.
        iteration: the iteration of the version.
        manifest: the version's manifest.
        fields: the names of the state fields, of all classes.
        result_field: the default field: the result of the first class.
        string_ids: whether vertices are named by strings; by int64 otherwise.
        aggregates: the aggregators' last values.
        statistics: iterations, hops, updates, messages, bytes, seconds and more of the run.
        closed: `close` was called.

    Raises:
        StateInputError: no such store or loop, or no version at that iteration.

    Example:
        >>> import numpy as np
        >>> from vertexsdk.state import open_store
        >>> store = open_store("memory://results")
        >>> columns = {"id": np.array([3, 8]), "rank": np.array([0.25, 0.75])}
        >>> segment = store.put_segment("ranks", 0, 4, "base", columns)
        >>> schema = {"rank": {"type": "float"}}
        >>> version = store.commit("ranks", iteration=4, segments=[segment], schema=schema)
        >>> result = read("memory://results", "ranks")
        >>> result.iteration, result.fields
        (4, ['rank'])
        >>> result.lookup([8, 9])
        {8: {'rank': 0.75}}
        >>> result.to_dict()
        {3: 0.25, 8: 0.75}
        >>> result.close()
    """

    closed = False
    _SHOWN = 5  # vertices in a notebook,
    _SMALL = 1_000_000  # of a result with at most so many

    def __init__(
        self,
        backend: str | Address,
        loop: str,
        at: int | Manifest | None = None,
        statistics: Mapping[str, Any] | None = None,
        spark: SparkSession | None = None,
        trusted: bool = False,
        schema: Mapping[str, Any] | None = None,
        *,
        store: Store | None = None,
        lease: bool = True,
        parent: Manifest | None = None,
        run_on: tuple[Graph, Any] | None = None,
        edges: pa.Table | None = None,
    ) -> None:
        self._store, self.backend = store or open_store(backend, create=False), Address(backend)
        self.loop, self._spark, self._trusted = loop, spark, trusted
        try:
            self._pins = [self._hold(at, lease)]
            if parent is not None:
                self._pins.append(self._store.hold(loop, parent, lease=False, seconds=0))
        except BaseException:
            self._store.close()
            raise
        for pin in self._pins:
            weakref.finalize(self, pin.abandon).atexit = False
        self.manifest = self._pins[0].manifest
        self.iteration, self.aggregates = self.manifest.iteration, self.manifest.aggregates
        self.statistics: dict[str, Any] = dict(statistics or self.manifest.statistics)
        self.string_ids = self.manifest.ids == "str"
        schema = self.manifest.state_fields if schema is None else schema
        first = self.manifest.statistics.get("result") or next(iter(schema), "")
        self._fields = Fields(loop, schema, str(first))
        self.fields = self._fields.names
        results = (c.result for c in self._fields.classes.values() if c.result)
        self.result_field = next(results, "")
        self._id_fields = IdFields(self._store, self.manifest)
        self._run_on = run_on if self.manifest.program in _DISTANCES else None
        self._tree: ShortestPathTree | None = None
        self._edges = edges

    def _hold(self, at: int | Manifest | None, lease: bool) -> Pin:
        """Pin the version, in other processes too if this user may write to the store."""
        try:
            return self._store.hold(self.loop, at, lease=lease)
        except StateError:  # or the version does not exist, and this raises it again
            return self._store.hold(self.loop, at, lease=False)

    def lookup(self, ids: Any, field: str | None = None) -> dict[Any, dict[str, Any]]:
        """Return the state of some vertices, without a scan; unknown ids are skipped.

        Args:
            ids: an id, or several (a list, an array, ...).
            field: only this field.

        Returns:
            For each id its fields, by name.

        Raises:
            InputError: the loop's ids are integers and one of these is not; no such field.

        >>> result.lookup([17, 42])  # doctest: +SKIP
        {17: {'rank': 0.0021}, 42: {'rank': 0.0013}}

        of a program with classes Reader and Book:

        >>> result.lookup([3, 17])  # doctest: +SKIP
        {3: {'class': 'Reader', 'age': 31}, 17: {'class': 'Book', 'pages': 240}}
        """
        shown = self._fields.shown(field)
        wanted = None if field is None else [c for names in shown.values() for c in names.values()]
        rows = {}
        for i, (kind, row) in self._lookup(ids, wanted).items():
            rows[i] = class_of(self._fields, kind)
            rows[i] |= {k: self._python_value(c, row[c]) for k, c in shown.get(kind, {}).items()}
        return rows

    def _lookup(self, ids: Any, columns: list[str] | None) -> dict[Any, tuple[int, dict[str, Any]]]:
        """The class number and the stored row of each vertex that exists, in the order of `ids`."""
        keys: Any = [str(i) if self.string_ids else _as_integer(i) for i in _as_list(ids)]
        stored = self._store.lookup(
            self.loop, keys, at=self.manifest, trusted=self._trusted,
            objects=self._fields.objects, fields=None if columns is None else [*columns, "kind"],
        )  # fmt: skip
        several = self._fields.several
        return {i: (row.get("kind", 0) if several else 0, row) for i, row in stored.items()}

    def __getitem__(self, vertex: Any) -> dict[str, Any]:
        rows = self.lookup([vertex])
        if not rows:
            raise KeyError(vertex)
        return next(iter(rows.values()))

    def _python_value(self, name: str, value: Any) -> Any:
        value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        return self._name(value) if name in self._id_fields.names else value

    def _name(self, code: int) -> str | None:
        """The string id of a code, found in the partitions' ids."""
        wanted = np.array([code], np.int64)
        for ref in self._store.segments(self.manifest):
            if ref.kind not in ("base", "delta"):
                continue
            table = self._store.table(ref)
            with self._store.naming_segment(ref):
                row = int(find_ids(table, wanted)[0])
                if row >= 0:
                    return name_of(table, row)
        return None

    def _is_id(self, name: str) -> bool:
        return bool(self.manifest.state_fields.get(name, {}).get("type") == "VertexId")

    def partitions(self, fields: list[str] | None = None) -> Iterator[dict[str, Array]]:
        """Yield each partition's columns as stored: "id", the fields, names of string ids.

        With several classes, "kind" has each vertex's class number, and a field of a class after
        the first is a column `Class.field`.

        Args:
            fields: the columns to read; None for all.
        """
        wanted = None if fields is None else [*fields, "kind"]
        for _, columns in self._store.read(
            self.loop,
            at=self.manifest,
            fields=wanted,
            trusted=self._trusted,
            objects=self._fields.objects,
        ):
            yield columns

    def columns(self) -> dict[str, Array]:
        """Return all vertices ascending by id: "id" and the state fields, as arrays.

        String ids are an object array of str. If the program has several classes, "class" has each
        vertex's class, classes share a column if name and type are the same, and a column that not
        all vertices have is masked (`numpy.ma`), or has None among objects.
        """
        wanted = self._fields.table()
        vertices = self._vertices([c for where in wanted.values() for c in where.values()])
        return vertices.table(self._fields, wanted)

    def rows(self, field: str | None = None) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield each vertex's id and row, as `lookup` returns it, ascending by id.

        Args:
            field: only this field, of the vertices that have it.
        """
        shown = self._fields.shown(field)
        vertices = self._vertices([c for names in shown.values() for c in names.values()])
        yield from vertices.rows(self._fields, shown, every=field is None)

    def _vertices(self, columns: list[str]) -> VertexRows:
        """All vertices, with these columns."""
        parts = list(self.partitions(columns))
        if not parts:
            raise InputError(f"loop {self.loop!r} has a graph and no state yet: query it first")
        ids = np.concatenate([p["id"] for p in parts])
        order = ascending(ids)
        kinds: Array = np.zeros(len(ids), np.uint8)
        if self._fields.several and "kind" in parts[0]:
            kinds = np.concatenate([p["kind"] for p in parts])[order]
        if self.string_ids:
            names = [n for p in parts for n in unpack_strings(p["name.offsets"], p["name.bytes"])]
            ids = np.array(names, object)
        table = {}
        for name in columns:
            column = np.concatenate([p[name] for p in parts])[order]
            if name in self._id_fields.names:
                column = self._id_fields.decode(column)
            table[name] = column
        return VertexRows(ids[order], kinds, table)

    def values(self, field: str | None = None) -> tuple[Array, Array]:
        """Return one field as two arrays, ascending by id.

        Args:
            field: each class's result by default.

        Returns:
            The ids of the vertices that have the field (int64[n], or n str as objects), and its
            values, shape (n,) or (n, size).

        Raises:
            InputError: no such field, or the loop has no state yet.
        """
        where = self._fields.find(field)
        vertices = self._vertices([*where.values()])
        has, values = vertices.column(where)
        return (vertices.ids, values) if has.all() else (vertices.ids[has], values[has])

    def to_dict(self, field: str | None = None) -> dict[Any, Any]:
        """Return one field of every vertex that has it, by id.

        Args:
            field: by default each class's result.

        Raises:
            InputError: no such field, or the loop has no state yet.
        """
        ids, values = self.values(field)
        return dict(zip(ids.tolist(), values.tolist(), strict=True))

    def path(self, to: Any, graph: Any = None) -> list[Any]:
        """Return the vertices of a shortest path, from where distances are 0 to `to`.

        Of several paths it is one with the fewest edges; of these, going back from `to`, the one
        by the smallest id each time. The first call reads all distances and edges; further ones
        take as long as the path.

        Args:
            to: the id of the vertex in which the path ends.
            graph: what the distances were computed on. By default the graph of the run or, of the
                answer of a main loop, the edges at that instant; a run that was opened with `read`
                needs it.

        Raises:
            InputError: no such vertex or no path, or the program is none of shortest
                paths.

        Example:
            >>> from vertexsdk import Graph, run
            >>> graph = Graph.from_arrays(["a", "b", "a"], ["b", "c", "c"], [1.0, 1.0, 5.0])
            >>> with run("sssp", graph, origin="a", backend="memory://docs") as result:
            ...     result.path("c")
            ['a', 'b', 'c']
        """
        program = str(self.manifest.program)
        if program not in _DISTANCES:
            raise InputError(f"{program} finds no paths: bfs, khop and sssp do")
        if self._tree is None or graph is not None:
            from vertexsdk.loops.paths import tree_of  # imports a compiler

            given = self._run_on and self._run_on[1]
            self._tree = tree_of(
                self.values(), self._store, self.manifest,
                self._run_on if graph is None else (graph, given), weighted=_DISTANCES[program],
            )  # fmt: skip
        return self._tree.path(to)

    def edges(self) -> pa.Table:
        """Return the numbers along edges as a table `source,target` and a column for each.

        A run has them whose class names them, as `edge_values` or in `prepare`. They are not
        stored. Edges without a message have no row.

        Raises:
            InputError: there are none.

        Example:
            >>> from vertexsdk import Graph, run
            >>> graph = Graph.from_arrays([1, 2, 3], [2, 3, 1])
            >>> with run("edge_similarity", graph, backend="memory://docs") as result:
            ...     result.edges().slice(0, 1).select(["source", "target", "jaccard"]).to_pylist()
            [{'source': 2, 'target': 1, 'jaccard': 0.3333333333333333}]
        """
        if self._edges is None:
            raise InputError(
                f"{self.manifest.program} keeps no numbers along edges, or this result was read "
                "from a store, or is of a main loop; run edge_similarity, forest, node2vec, truss "
                "or a class with edge_values"
            )
        return self._edges

    def graph(self) -> Graph:
        """Return the graph of a main loop's answer, as it was at that instant.

        Raises:
            InputError: the result is of a run, which stores no graph.

        Example:
            >>> from vertexsdk import Graph, MainLoop
            >>> graph = Graph.from_arrays([1, 2], [2, 3])
            >>> with MainLoop("wcc", graph, backend="memory://docs") as main:
            ...     _ = main.ingest([("+", 3, 4)])
            ...     main.query().graph().num_edges
            3
        """
        from vertexsdk.loops.paths import graph_of_version  # imports a compiler

        return graph_of_version(self._spark, self._store, self.manifest)

    def check_field(self, field: str) -> None:
        """Raise InputError if the field does not exist."""
        self._fields.find(field)

    def dataframe(self, spark: SparkSession | None = None) -> DataFrame:
        """Return a Spark DataFrame: `id` and the state fields, as in `columns`.

        Args:
            spark: the session; by default the loop's, or else the active one.

        Raises:
            InputError: Spark has no session.
        """
        from pyspark.sql import SparkSession

        session = spark or self._spark or SparkSession.getActiveSession()
        if session is None:
            raise InputError("dataframe() needs a Spark session: pass one")
        return session.createDataFrame(self.to_arrow())

    def to_arrow(self) -> pa.Table:
        """Return all vertices as an Arrow table: `id` and the state fields, as in `columns`.

        >>> result.to_arrow().slice(0, 2).to_pydict()  # doctest: +SKIP
        {'id': [3, 8], 'rank': [0.25, 0.75]}
        """
        return arrow_table(self.columns())

    def arrow_schema(self) -> pa.Schema:
        """Return the names and types of `to_arrow`, without reading vertices.

        Fields of Python objects, whose types only their values tell, are strings here.
        """
        schema, wanted = self.manifest.state_fields, self._fields.table()
        types = arrow_types(self._fields, schema, wanted, string_ids=self.string_ids)
        return pa.schema([*types.items()])

    def to_pandas(self) -> Any:
        """Return all vertices as a pandas DataFrame, like `to_arrow`.

        Raises:
            InputError: pandas is not installed.
        """
        return pandas_frame(self.columns())

    def to_polars(self) -> Any:
        """Return all vertices as a Polars DataFrame, like `to_arrow`.

        Raises:
            InputError: Polars is not installed.
        """
        return polars_frame(self.columns())

    def to_networkx(self, graph: Any) -> Any:
        """Return a NetworkX graph of these edges, whose nodes have the state fields as data.

        Args:
            graph: the edges, which a result does not have: a `Graph`, or a NetworkX graph, which is
                copied.

        Raises:
            InputError: NetworkX is not installed, or `graph` is something else.
        """
        return networkx_graph(self.columns(), graph)

    def top(self, n: int = 10, field: str | None = None) -> dict[Any, Any]:
        """Return the vertices with the largest values, largest first.

        NaN, infinite values and the integers that stand for them are left out.

        Args:
            n: how many; of equal values, smaller ids come first.
            field: a field of numbers; by default each class's result.

        Raises:
            InputError: no such field, or its values are not single numbers.
        """
        ids, values = self._numbers(field)
        order = np.lexsort((np.arange(len(ids)), -values))[:n]
        return dict(zip(ids[order].tolist(), values[order].tolist(), strict=True))

    def histogram(self, bins: int = 10, field: str | None = None) -> pa.Table:
        """Return how many vertices have values in each of `bins` intervals of equal width.

        Args:
            bins: how many intervals, from the smallest to the largest finite value.
            field: a field of numbers; by default each class's result.

        Returns:
            A table `low,high,count`; the last interval contains its upper end. What `top` leaves
            out is left out.

        Raises:
            InputError: no such field, or its values are not single numbers.
        """
        counts, ends = np.histogram(self._numbers(field)[1], bins)
        return pa.table({"low": ends[:-1], "high": ends[1:], "count": counts})

    def plot(
        self,
        field: str | None = None,
        *,
        top: int | None = None,
        bins: int = 30,
        ax: Any = None,
    ) -> Any:
        """Plot how many vertices have which value, or the largest values, with matplotlib.

        Args:
            field: a field of numbers; by default each class's result. `top` leaves out the same.
            top: plot a bar for each of so many vertices, those that `top` returns; None plots a
                histogram.
            bins: number of bars of the histogram.
            ax: the Axes to draw on; None makes a figure.

        Returns:
            The Axes.

        Raises:
            InputError: no such field, its values are not single numbers, or matplotlib is
                not installed.
        """
        name = field or self.result_field
        if top is not None:
            return plot_top(self.top(top, field), name, ax=ax)
        return plot_histogram(self._numbers(field)[1], name, bins=bins, ax=ax)

    def _facts(self) -> dict[str, Any]:
        """Return what a notebook shows of this version."""
        seconds = self.statistics.get("total_seconds") or self.statistics.get("seconds")
        facts = {
            "program": self.manifest.program, "version": self.iteration,
            "vertices": self.statistics.get("num_vertices"),
            "fields": ", ".join(self.fields),
            "iterations": self.statistics.get("iterations"),
            "ended": self.statistics.get("reason"),
            "seconds": None if seconds is None else seconds_text(seconds),
            "changes not reflected": self.statistics.get("behind"),
        }  # fmt: skip
        if self.closed:
            facts["closed"] = True
        return {name: value for name, value in facts.items() if value is not None}

    def __repr__(self) -> str:
        return summary_line(f"Result {self.loop}", self._facts())

    def _repr_html_(self) -> str:
        return card(f"Result {self.loop}", self._facts(), self._shown_rows())

    def _shown_rows(self) -> Rows | None:
        """The vertices with the largest values; of other results the first ones."""
        small = self.statistics.get("num_vertices", self._SMALL) <= self._SMALL
        if self.closed or not small or not self.result_field:
            return None
        try:
            ids, values = self.values()
        except InputError:  # without a state
            return None
        if values.ndim == 1 and values.dtype.kind in "if":
            top = self.top(self._SHOWN)
            return (("id", f"largest {self.result_field}"), top.items())
        first = slice(self._SHOWN)
        pairs = zip(ids[first].tolist(), values[first].tolist(), strict=True)
        return (("id", self.result_field), pairs)

    def _numbers(self, field: str | None) -> tuple[Array, Array]:
        """Return the ids and values of a field of numbers, those that are finite."""
        ids, values = self.values(field)
        if values.ndim != 1 or values.dtype.kind not in "bif":
            raise InputError(f"{field or self.result_field} has no single numbers as values")
        if values.dtype == bool:
            values = values.astype(np.int64)
        named = any(self._is_id(name) for name in self._fields.find(field).values())
        finite = np.isfinite(values if named else with_infinities(values))
        return ids[finite], values[finite]

    def __len__(self) -> int:
        """Return the number of vertices."""
        return sum(len(part["id"]) for part in self.partitions([]))

    def __iter__(self) -> Iterator[Any]:
        """Yield the ids of all vertices, ascending; `rows` and `to_dict` have values too."""
        return iter(self._vertices([]).ids.tolist())

    def __contains__(self, vertex: Any) -> bool:
        return bool(self.lookup([vertex]))

    def to_graphframe(self, edges: DataFrame) -> Any:
        """Return a GraphFrames `GraphFrame` of the vertices with their state, and of edges.

        Args:
            edges: a DataFrame with columns `src` and `dst`.

        Raises:
            InputError: GraphFrames is not installed.
        """
        try:
            from graphframes import GraphFrame
        except ImportError:
            raise InputError(
                "to_graphframe() needs GraphFrames: pip install 'vertexsdk[graphframes]'"
            ) from None
        return GraphFrame(self.dataframe(), edges)

    def write(self, path: str, field: str | None = None, ids: Iterable[Any] | None = None) -> None:
        """Write `vertex,value` rows to a .csv or .parquet file, ascending by id.

        Args:
            path: a file, which is replaced.
            field: by default each class's result; vertices whose class lacks the field are skipped.
                If it is an int in one class and a float in another, floats are written.
            ids: only these vertices, in this order.

        Raises:
            InputError: no such field or vertex, or a path that cannot be written.
            RunError: no room.
        """
        where = self._fields.find(field)
        infinite = not any(self._is_id(name) for name in where.values())
        if ids is None:
            write(path, *self.values(field), infinite=infinite)
            return
        wanted = _as_list(ids)
        stored = self._lookup(wanted, [*where.values()])
        self._require_all(wanted, stored)
        rows = {i: (where[kind], row) for i, (kind, row) in stored.items() if kind in where}
        values = [self._python_value(column, row[column]) for column, row in rows.values()]
        objects = any(isinstance(x, (str, list, type(None))) for x in values)
        shown = np.array(values, object if objects else None)
        write(path, np.array([*rows]), shown, infinite=infinite)

    def require(self, ids: Any, field: str | None = None) -> dict[Any, dict[str, Any]]:
        """Return the state of some vertices, as `lookup`; all of them must exist.

        Args:
            ids: an id, or several.
            field: only this field; None for all.

        Raises:
            InputError: an id is not a vertex, or a vertex does not have the field.
        """
        wanted = _as_list(ids)
        rows = self.lookup(wanted, field)
        self._require_all(wanted, rows)
        for i, row in rows.items():
            if field is not None and field not in row:
                raise InputError(f"vertex {i} is a {row['class']}, which has no field {field!r}")
        return rows

    def _require_all(self, ids: list[Any], rows: Mapping[Any, Any]) -> None:
        missing = [i for i in ids if (str(i) if self.string_ids else int(i)) not in rows]
        if missing:
            raise InputError(f"no vertex {shorten(str(missing[0]))} in loop {self.loop!r}")

    def staleness(self) -> str | None:
        """Describe how far a version of a main loop, or of a fork of one, may be from exact.

        Returns:
            A line such as "wcc: version 12 after 3,000 changes, 1,000 of them not reflected yet,
            residual 0.002"; None for the result of a run.

        Raises:
            InputError: the version has no state yet.
        """
        if "main" not in self.manifest.statistics:
            return None
        from vertexsdk.loops.ledger import Ledger  # imports the engine, which takes long

        ledger = Ledger.read(self.manifest)
        if not ledger.state:
            raise InputError(
                f"loop {self.loop!r} has no answer yet at version {self.iteration}, after "
                f"{ledger.received:,} changes: wait for its first query, or have one computed: "
                f"exact=True, at={self.iteration}"
            )
        line = f"{self.loop}: version {self.iteration} after {ledger.received:,} changes, "
        if ledger.exact:
            return line + "exact"
        line += f"{ledger.behind:,} of them not reflected yet"
        return line if ledger.residual is None else f"{line}, residual {ledger.residual:g}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the version, and close the store; `with` does that at the end of its block."""
        if not self.closed:
            self.closed = True
            for pin in self._pins:
                pin.release(self._store)
        self._store.close()


@dataclass(frozen=True, slots=True)
class VertexRows:
    """Vertices of a version, ascending by id.

    Attributes:
        ids: int64[n], or n names.
        kinds: their class numbers.
        columns: as they are stored, but for names.
    """

    ids: Array
    kinds: Array
    columns: dict[str, Array]

    def table(self, fields: Fields, wanted: Mapping[str, Mapping[int, str]]) -> dict[str, Array]:
        """Return columns as `Result.columns` does; `wanted` is as from `Fields.table`."""
        result: dict[str, Array] = {"id": self.ids}
        if fields.several:
            names = [fields.classes.get(k, NO_FIELDS).name for k in range(256)]
            result["class"] = np.array(names, object)[self.kinds]
        for name, where in wanted.items():
            has, values = self.column(where)
            if not has.all() and values.dtype != object:
                mask = np.broadcast_to(~has if values.ndim == 1 else ~has[:, None], values.shape)
                values = np.ma.MaskedArray(values, mask)
            result[name] = values
        return result

    def rows(
        self, fields: Fields, shown: Mapping[int, Mapping[str, str]], *, every: bool
    ) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield each vertex's id and row.

        Args:
            shown: as from `Fields.shown`.
            every: yield vertices of classes which have none of the fields, too.
        """
        lists = {name: values.tolist() for name, values in self.columns.items()}
        for k, (vertex, kind) in enumerate(
            zip(self.ids.tolist(), self.kinds.tolist(), strict=True)
        ):
            if kind in shown or every:
                names = shown.get(kind, {})
                yield vertex, class_of(fields, kind) | {n: lists[c][k] for n, c in names.items()}

    def column(self, where: Mapping[int, str]) -> tuple[Array, Array]:
        """Return which vertices have a field, and its values; `where` is as in `Fields`."""
        has = np.isin(self.kinds, [*where])
        parts = {kind: self.columns[name] for kind, name in where.items()}
        if len(parts) == 1:
            values = next(iter(parts.values()))
            if values.dtype != object or has.all():
                return has, values
        values = _like(list(parts.values()), len(self.ids))
        for kind, part in parts.items():
            mine = self.kinds == kind
            rows = with_infinities(part[mine]) if values.dtype.kind == "f" else part[mine]
            values[mine] = rows.tolist() if values.dtype == object and rows.ndim == 1 else rows
        return has, values


def class_of(fields: Fields, kind: int) -> dict[str, Any]:
    """`{"class": name}` of a vertex, or nothing where the program has one class."""
    return {"class": fields.classes.get(kind, NO_FIELDS).name} if fields.several else {}


def arrow_types(
    fields: Fields,
    schema: Mapping[str, Any],
    wanted: Mapping[str, Mapping[int, str]],
    *,
    string_ids: bool,
) -> dict[str, pa.DataType]:
    """Return the columns' types; `wanted` is as from `Fields.table`."""
    name = pa.string() if string_ids else pa.int64()
    types = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "VertexId": name}
    result = {"id": name} | ({"class": pa.string()} if fields.several else {})
    for field, where in wanted.items():
        entry = schema[next(iter(where.values()))]
        kind = types.get(entry["type"], pa.string())
        result[field] = kind if entry.get("size") is None else pa.list_(kind)
    return result


def _like(parts: list[Array], count: int) -> Array:
    """Return an empty column for values of all parts: of numbers, or else of objects."""
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1 or any(part.dtype == object for part in parts):
        return np.full(count, None, object)
    return np.zeros((count, *shapes.pop()), np.result_type(*parts))


def _as_list(ids: Any) -> list[Any]:
    return [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else list(ids)


def _as_integer(vertex: Any) -> Any:
    """The integer that a text or a whole number is; anything else as it is."""
    try:
        number = int(vertex)
    except (TypeError, ValueError, OverflowError):
        return vertex
    return number if isinstance(vertex, str) or number == vertex else vertex


def read(
    backend: str | Address,
    loop: str,
    at: int | None = None,
    *,
    trusted: bool = False,
    exact: bool = False,
    timeout: float | None = None,
    program: Any = None,
) -> Result:
    """Open a version of a loop for reading.

    Args:
        backend: URL of the store, or "@FILE" for a file that contains it.
        loop: the name of the loop. That of a program is its main loop, or where the store has
            none, its run.
        at: the newest version at or before this iteration; None for the newest.
        trusted: unpickle state fields that are Python objects. A pickle can run code, so all who
            can write to the store must be trusted.
        exact: have the process of the main loop compute the exact answer for this instant, and
            read that. It must have called `serve_queries`, as `vertexsdk stream` does. With `at`
            this process computes the exact answer for the graph of that version, without Spark,
            and it does not matter whether the loop is open elsewhere.
        timeout: with `exact`: seconds after which its iterations are stopped.
        program: with `exact` and `at`: a class or a name as for `run`; needed where it is not a
            built-in program.

    Returns:
        The version, for the caller to close.

    Raises:
        StateInputError: no such store, loop or version.
        InputError: with `exact`: no process answers the queries of the loop; or, with `at`, it is
            not a main loop, or its program is not known.
        RunError: with `exact`: it could not compute the answer, or has ended.

    Example:
        >>> from vertexsdk import Graph, run
        >>> from vertexsdk.algorithms import Degree
        >>> graph = Graph.from_arrays([1, 1], [2, 3], spark=spark)
        >>> run(Degree, graph, backend="memory://docs", loop="degrees").close()
        >>> result = read("memory://docs", "degrees")
        >>> result.to_dict()
        {1: 2, 2: 1, 3: 1}
        >>> result.close()
    """
    if exact and at is not None:
        answers = importlib.import_module(_ANSWERS)
        options = {"trusted": trusted, "timeout": timeout}
        answer: Result = answers.answer_for_version(backend, loop, at, program, **options)
        return answer
    if exact:
        from vertexsdk.loops.request_client import ask

        loop = ask(backend, loop, timeout)
    store = open_store(backend, create=False)
    with ExitStack() as on_error:
        on_error.callback(store.close)
        if store.head(loop) is None and store.head(loop_of_run(loop)) is not None:
            loop = loop_of_run(loop)
        on_error.pop_all()
    return Result(backend, loop, at, trusted=trusted, store=store)
