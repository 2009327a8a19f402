"""Bridges: edges without which a component would fall apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk import INT_MAX, Latest, Vertex, VertexId, state
from vertexsdk.algorithms._edge_arrays import edge_arrays, local_graph
from vertexsdk.algorithms.khop import KHop
from vertexsdk.algorithms.wcc import ConnectedComponents
from vertexsdk.program.vertex import Delta

DRAWN, SUM = 0, 1  # what a message is


def mixed(a: int, b: int) -> int:
    """Return a number that follows from two others, and looks as if drawn at random.

    >>> mixed(1, 2) == -mixed(2, 1)
    True
    """
    x = max(a, b) * -7046029254386353131 + min(a, b)
    x = (x ^ (x >> 31)) * -4658895280553007687
    x = (x ^ (x >> 29)) * -7723592293110705685
    x = x ^ (x >> 32)
    return x if a < b else -x


class Bridges(Vertex):
    """Tells whether the edge from a vertex to its parent in a spanning forest is a bridge.

    Definition: a bridge is an edge that is on no cycle. Edges are taken both ways, so one in each
        direction is one edge, and self-loops do not count; parallel edges of a graph that keeps
        them are a cycle. `parent` is a neighbour on a shortest
        path to the smallest id of the component, the smallest such neighbour, and the vertex
        itself where it is that; every bridge leads from a vertex to its parent.
    How: each edge adds a number drawn at random to one of its ends, and takes it from the other.
        The sum over the vertices below an edge of the forest is then the sum over edges that leave
        them: if this is the edge alone, nothing else does.
    Converges to: that, up the forest; an edge that is not a bridge is taken for one with a chance
        of 2⁻⁶³ or so.
    Cost: one iteration for each edge on the longest shortest path; each vertex is looked at where a
        sum below it changed. Before it, components and distances; all edges pass through the
        driver.
    Source: Pritchard and Thurimella, "Fast computation of small cuts via cycle space sampling", ACM
        Trans. Algorithms 7(4), 2011, section 3.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 2, 3, 3], [2, 3, 1, 4])
        >>> with run("bridges", graph, backend="memory://docs") as result:
        ...     result.to_dict()
        {1: False, 2: False, 3: False, 4: True}
    """

    bridge: bool = state(False)
    parent: VertexId = state()
    found: bool = state(False)  # else the vertex has no edges
    doubled: bool = state(False)  # the edge to its parent has parallel ones
    drawn: int = state(0)
    own: int = state(0)  # what its edges add to it
    up: int = state(0)  # of that, what the edge to its parent does
    sum: int = state(0)
    note: NDArray[np.int64] = state(0, size=2)

    messages = Latest(int, size=2)
    direction = "undirected"

    @classmethod
    def prepare(
        cls, graph: Any, params: Mapping[str, Any], run: Callable[..., Any], seed: int
    ) -> Mapping[str, Any] | None:
        """Find a spanning forest on the driver, before the run."""
        if not graph.num_edges:
            return None
        both = edge_arrays(graph)[:2]
        ends = np.concatenate(both), np.concatenate(both[::-1])
        undirected = local_graph(graph, *both)
        with run(ConnectedComponents, undirected) as result:
            component = result.values()[1]
        roots = np.unique(component)
        sources = {"id": roots, "source": np.ones(len(roots), np.int64)}
        with run(KHop, undirected.with_attributes(sources, replace=True), k=INT_MAX - 1) as result:
            ids, depth = result.values()
        if ids.dtype == object:
            ids = ids.astype(str)
        order = np.argsort(ids)
        ids, depth = ids[order], depth[order]
        child, above = (np.searchsorted(ids, end) for end in ends)
        tree = depth[above] + 1 == depth[child]
        parent = np.arange(len(ids))
        parent[depth > 0] = len(ids)
        np.minimum.at(parent, child[tree], above[tree])
        up, first = parent[child] == above, np.arange(len(child)) < len(both[0])
        there, back = (np.bincount(child[up & way], minlength=len(ids)) for way in (first, ~first))
        doubled = (there + back if graph.undirected else np.maximum(there, back)) > 1
        has_edges = np.ones(len(ids), np.bool_)
        return {
            "id": ids, "parent": ids[parent], "found": has_edges,
            "doubled": doubled & graph.multi,
        }  # fmt: skip

    def init(self) -> None:
        self.drawn = int(self.random() * 4611686018427387904)
        self.note[0] = DRAWN
        self.note[1] = self.drawn
        if not self.found:
            self.parent = self.id

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        # All neighbours have sent in iteration 0, so values are in the order of targets.
        below = 0
        k = 0
        for target in self.targets:
            if iteration == 1:
                number = mixed(self.drawn, delta.values[k, 1])
                self.own += number
                if target.id == self.parent:
                    self.up = number
            elif delta.values[k, 0] == SUM:
                below += delta.values[k, 1]
            k += 1
        self.sum = self.own + below
        alone = self.parent != self.id and not self.doubled
        self.bridge = alone and self.sum == self.up

    def scatter(self, iteration: int) -> None:
        if iteration > 0:
            self.note[0] = SUM
            self.note[1] = self.sum
        for target in self.targets:
            if iteration == 0 or target.id == self.parent:
                self.emit(target, self.note)
