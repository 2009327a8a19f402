"""Minimum spanning forest, by Borůvka's method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk import Sum, Vertex, VertexId, inf, param, state
from vertexsdk.algorithms._edge_arrays import (
    edge_arrays,
    edge_table,
    local_graph,
    numbered_ends,
)
from vertexsdk.program.vertex import Delta

Array = NDArray[Any]


class LightestEdge(Vertex):
    """The lightest edge of a vertex that leads to another component.

    Edges have an order: by value, then by the smaller of their two ids, then by the larger one.
    Ids are 0, 1, ...

    Converges to: that, after one iteration.
    Cost: O(m).
    Source: as of `SpanningForest`.
    """

    weight: float = state(inf)
    to: int = state(-1)
    component: NDArray[np.int64] = param()  # of each vertex

    messages = Sum(int)
    max_iterations = 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        low, high = 0, 0
        for target in self.targets:
            if self.component[target.id] != self.component[self.id]:
                first, last = min(self.id, target.id), max(self.id, target.id)
                same = target.value == self.weight and self.to >= 0
                earlier = same and (first < low or (first == low and last < high))
                if self.to < 0 or target.value < self.weight or earlier:
                    self.weight = target.value
                    self.to = target.id
                    low, high = first, last

    def scatter(self, iteration: int) -> None:
        pass


class SpanningForest(Vertex):
    """The vertex to which an edge of the minimum spanning forest leads from this one.

    Definition: for each component, the tree of edges that join all its vertices and whose values
        have the smallest sum. Of edges with equal values that with the smaller ids comes first, so
        there is one such forest. Edges are taken both ways; of two between the same vertices the
        smaller value counts. Each tree has its root in the smallest id: `parent` is the neighbour
        on the way there, and the root itself; `value` is that of the edge, 0 at the root; `root`
        is the component. `Result.edges` has the edges of the forest.
    How: every component takes its first edge to another one, until none leads to another.
    Converges to: that, after at most log₂ n rounds.
    Cost: O(m) for each round, on the driver.
    Source: Borůvka, "O jistém problému minimálním", 1926; in rounds, Chung and Condon, "Parallel
        implementation of Borůvka's minimum spanning tree algorithm", IPPS 1996.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 2, 1], [2, 3, 3], [1.0, 2.0, 5.0])
        >>> with run("forest", graph, backend="memory://docs") as result:
        ...     result.to_dict("parent"), result.to_dict("value")
        ({1: 1, 2: 1, 3: 2}, {1: 0.0, 2: 1.0, 3: 2.0})
    """

    parent: VertexId = state()
    value: float = state(0.0)
    root: VertexId = state()
    found: bool = state(False)  # else the vertex has no edges

    messages = Sum(int)

    @classmethod
    def prepare(
        cls, graph: Any, params: Mapping[str, Any], run: Callable[..., Any], seed: int
    ) -> Mapping[str, Any] | None:
        """Find the forest on the driver, before the run."""
        if not graph.num_edges:
            return None
        source, target, weight = edge_arrays(graph)
        ids, source, target = numbered_ends(source, target)
        low, high, n = np.minimum(source, target), np.maximum(source, target), len(ids)
        order = np.lexsort((weight, high, low))
        low, high, weight = low[order], high[order], weight[order]
        first = np.ones(len(low), np.bool_)
        first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        first &= low != high
        lightest = low[first], high[first], weight[first]
        simple = local_graph(graph, *lightest, vertices=np.arange(n))
        parent, value, root = _rooted(n, _forest(simple, n, run))
        return {
            "id": ids, "parent": ids[parent], "value": value, "root": ids[root],
            "found": np.ones(n, np.bool_), "edges": edge_table(ids, parent, value=value),
        }  # fmt: skip

    def init(self) -> None:
        if not self.found:
            self.parent = self.id
            self.root = self.id

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        pass

    def scatter(self, iteration: int) -> None:
        pass


def _forest(graph: Any, n: int, run: Callable[..., Any]) -> Array:
    """The edges of the forest as rows (source, target, value)."""
    component, rows = np.arange(n), list[Array]()
    while True:
        with run(LightestEdge, graph, component=component) as result:
            to, weight = (result.values(name)[1] for name in ("to", "weight"))
        (start,) = np.nonzero(to >= 0)
        if not len(start):
            return np.concatenate([np.zeros((0, 3)), *rows])
        end, weight, component_of = to[start], weight[start], component[start]
        low, high = np.minimum(start, end), np.maximum(start, end)
        order = np.lexsort((high, low, weight, component_of))
        chosen = order[np.unique(component_of[order], return_index=True)[1]]  # one per component
        hook = np.arange(n)
        hook[component_of[chosen]] = component[end[chosen]]
        mutual = hook[hook] == np.arange(n)  # two components that chose the same edge
        roots = mutual & (np.arange(n) < hook)
        hook[roots] = np.flatnonzero(roots)
        kept = chosen[~roots[component_of[chosen]]]
        rows.append(np.stack([start[kept], end[kept], weight[kept]], 1))
        while (hook[hook] != hook).any():
            hook = hook[hook]
        component = hook[component]


def _rooted(n: int, edges: Array) -> tuple[Array, Array, Array]:
    """The parent of each vertex in a forest, the value of the edge to it, and the root."""
    near: list[list[tuple[int, float]]] = [[] for _ in range(n)]
    for a, b, x in edges.tolist():
        near[int(a)].append((int(b), x))
        near[int(b)].append((int(a), x))
    parent, value, root = np.full(n, -1), np.zeros(n), np.arange(n)
    for first in range(n):
        if parent[first] >= 0:
            continue
        parent[first] = first
        queue = [first]
        for v in queue:
            for u, x in near[v]:
                if parent[u] < 0:
                    parent[u], value[u], root[u] = v, x, first
                    queue.append(u)
    return parent, value, root
