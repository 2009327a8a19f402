"""Shortest paths of an answer: read off the distances and the edges that they were computed from.

The parent of a vertex is a producer whose distance and edge add up to the vertex's own. So parents
need not be sent, stored or kept up as the graph changes: they are exact where distances are. Of
several such producers it is the one that is fewest edges away from the origin, and of these the
smallest; so edges of length 0 make no circles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.errors import InputError, shorten
from vertexsdk.graph.changes.changes import ADD, CHANGE, Changes
from vertexsdk.graph.checkpoint import stored_edges, stored_graph
from vertexsdk.graph.graph import Graph, as_graph
from vertexsdk.graph.topology.edge_attributes import is_left_out
from vertexsdk.loops.change_log import ChangeLog
from vertexsdk.loops.ledger import Ledger
from vertexsdk.program.algebra import INT_MAX
from vertexsdk.state import Manifest, Store

Array = NDArray[Any]
Edges = tuple[Array, Array, Array]  # sources, targets, values; one way each


def tree_of(
    distances: tuple[Array, Array],
    store: Store,
    manifest: Manifest,
    run_on: tuple[Any, Any] | None,
    *,
    weighted: bool,
) -> ShortestPathTree:
    """The shortest-path tree of a version.

    Args:
        distances: the vertices, and the distance of each.
        store, manifest: the version's store and manifest.
        run_on: the graph, and the origin or None; None: the version knows both.
        weighted: whether an edge counts by its value; else each counts 1.

    Raises:
        InputError: the version is of a run, which stores no graph.
    """
    if run_on is not None:
        edges, origin = edges_of_graph(as_graph(run_on[0])), run_on[1]
    else:
        if Ledger.of(manifest) is None:
            raise InputError(
                f"loop {manifest.loop!r} was written by a run, which stores no graph: give path() "
                "the graph, as graph="
            )
        ledger = Ledger.read(manifest)
        edges = _both_ways(*edges_of_version(store, manifest), undirected=ledger.undirected)
        origin = ledger.params.get("origin")
    return ShortestPathTree(*distances, edges, origin, weighted=weighted)


def graph_of_version(spark: Any, store: Store, manifest: Manifest) -> Graph:
    """The graph of a main loop's version.

    Raises:
        InputError: the version is of a run, which stores no graph.
    """
    undirected, partitions = Ledger.read(manifest).undirected, manifest.partitions
    stored = stored_graph(spark, store, manifest, undirected=undirected, partitions=partitions)
    options: Any = {"spark": spark, "undirected": undirected, "partitions": partitions}
    edges = edges_of_version(store, manifest)
    if len(edges[0]):
        graph = Graph.from_arrays(*edges, **options)
    else:
        graph = Graph.empty(str if manifest.ids == "str" else int, **options)
    return graph if stored.vertex_input is None else graph.with_vertices(stored.vertex_input)


def edges_of_graph(graph: Graph) -> Edges:
    """The edges of a graph; those without direction both ways."""
    table = graph.to_arrow()
    source, target = (_ids(table[name].to_numpy()) for name in ("source", "target"))
    return _both_ways(source, target, table["value"].to_numpy(), undirected=graph.undirected)


def edges_of_version(store: Store, manifest: Manifest) -> Edges:
    """The edges of a main loop's version: those of its checkpoint, and the changes since.

    Those without direction are there once.
    """
    ledger = Ledger.read(manifest)
    source, target, value = stored_edges(store, manifest)
    batches = [*ChangeLog.replay(store, manifest, include_sent=False, undirected=ledger.undirected)]
    place = _named_in(batches, source, target)
    logged: dict[tuple[Any, Any], float | None] = {}  # None: it is gone
    for batch in batches:
        ends = zip(batch.source.to_pylist(), batch.target.to_pylist(), strict=True)
        left_out = is_left_out(batch.value).tolist()
        rows = zip(ends, batch.kind.tolist(), batch.value.tolist(), left_out, strict=True)
        for edge, kind, x, none in rows:
            base = float(value[place[edge]]) if edge in place else None
            now = logged.get(edge, base)
            if kind == ADD:
                logged[edge] = (1.0 if now is None else now) if none else float(x)
            elif kind == CHANGE:
                logged[edge] = None if now is None else float(x)
            else:
                logged[edge] = None
    if logged:
        kept = np.ones(len(source), np.bool_)
        kept[[place[e] for e in logged if e in place]] = False
        new = [(*e, x) for e, x in logged.items() if x is not None]
        ends_of = (_ids(np.array([e[k] for e in new], source.dtype)) for k in (0, 1))
        source, target = (
            np.concatenate([old[kept], more])
            for old, more in zip((source, target), ends_of, strict=True)
        )
        value = np.concatenate([value[kept], np.array([e[2] for e in new], np.float64)])
    return source, target, value


def _named_in(batches: list[Changes], source: Array, target: Array) -> dict[tuple[Any, Any], int]:
    """The places of edges whose two ends are among those of changes."""
    if not batches:
        return {}
    may = np.ones(len(source), np.bool_)
    for column, name in ((source, "source"), (target, "target")):
        ends = [np.asarray(getattr(batch, name).to_pylist(), column.dtype) for batch in batches]
        may &= np.isin(column, np.unique(np.concatenate(ends)))
    places = np.flatnonzero(may)
    edges = zip(source[places].tolist(), target[places].tolist(), strict=True)
    return dict(zip(edges, places.tolist(), strict=True))


def _both_ways(source: Array, target: Array, value: Array, *, undirected: bool) -> Edges:
    if not undirected:
        return source, target, value
    return (
        np.concatenate([source, target]),
        np.concatenate([target, source]),
        np.concatenate([value, value]),
    )


def _ids(ids: Array) -> Array:
    """Ids as int64, or as objects (str)."""
    return ids.astype(np.int64 if ids.dtype.kind == "i" else object, copy=False)


class ShortestPathTree:
    """The parent of every vertex on a shortest path.

    Args:
        ids: the ids of all vertices, int64[n] or str as objects.
        distance: the distance of each, (n,); `inf` or `INT_MAX` where there is none.
        edges: the graph's edges, both ways where they have no direction.
        origin: where paths begin; None: where the distance is 0.
        weighted: whether an edge counts by its value; else each counts 1.
    """

    def __init__(
        self, ids: Array, distance: Array, edges: Edges, origin: Any, *, weighted: bool
    ) -> None:
        names = ids.astype(str) if ids.dtype == object else ids
        order = np.argsort(names, kind="stable")
        self._ids, self._names = ids[order], names[order]
        distance = distance[order]
        self._reached = distance < (np.inf if distance.dtype.kind == "f" else INT_MAX)
        source, target = (self._places(ids) for ids in edges[:2])
        length = edges[2] if weighted else np.int64(1)
        tight = self._reached[source]
        tight &= distance[source] + length == distance[target]
        source, target = source[tight], target[tight]
        source, target = (x[np.argsort(source, kind="stable")] for x in (source, target))
        roots = np.flatnonzero(distance == 0)
        if origin is not None:
            roots = np.array([self._place(origin)])
        elif weighted and len(roots) > 1:
            raise InputError(
                "several vertices have distance 0, and a stored run does not say which of them is "
                "the origin: ask for the path where the run was made"
            )
        start = np.searchsorted(source, np.arange(len(ids) + 1))
        grow: Any = _parents
        self._parent: Array = grow(start, target, roots)
        self._origin = origin

    def _place(self, vertex: Any) -> int:
        name = np.array([int(vertex) if self._names.dtype.kind == "i" else str(vertex)])
        return int(self._places(name)[0])

    def _places(self, ids: Array) -> Array:
        names = ids.astype(str) if self._names.dtype.kind == "U" else ids
        places = np.searchsorted(self._names, names)
        unknown = np.append(self._names, self._names[:1])[places] != names
        if unknown.any():
            raise InputError(f"there is no vertex {shorten(str(ids[unknown][0]))}")
        return places.astype(np.int64)

    def path(self, to: Any) -> list[Any]:
        """Return the vertices of the path to `to`, its two ends included.

        Raises:
            InputError: no such vertex, no path, or the distances are not exact.
        """
        k = self._place(to)
        if not self._reached[k]:
            origin = "any source" if self._origin is None else shorten(str(self._origin))
            raise InputError(f"there is no path from {origin} to {shorten(str(to))}")
        places = []
        while k >= 0:
            places.append(k)
            k = int(self._parent[k])
        if k == _NONE:
            raise InputError(
                f"the distance of {shorten(str(to))} does not follow from the edges: it is an "
                "approximation, or the graph is another one; ask for the path of an exact answer"
            )
        path: list[Any] = self._ids[places[::-1]].tolist()
        return path


_ROOT, _NONE = -1, -2


@njit
def _parents(start, target, roots):  # type: ignore[no-untyped-def]
    """The parent of each vertex by breadth-first search along tight edges; -1 of roots, -2 none."""
    n = start.shape[0] - 1
    parent = np.full(n, -2, np.int64)
    hops = np.full(n, n + 1, np.int64)
    queue = np.empty(n, np.int64)
    last = 0
    for root in roots:
        parent[root] = -1
        hops[root] = 0
        queue[last] = root
        last += 1
    first = 0
    while first < last:
        u = queue[first]
        first += 1
        for e in range(start[u], start[u + 1]):
            v = target[e]
            if hops[v] > n:
                hops[v] = hops[u] + 1
                parent[v] = u
                queue[last] = v
                last += 1
            elif hops[v] == hops[u] + 1 and u < parent[v]:
                parent[v] = u
    return parent
