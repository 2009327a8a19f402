"""Communities by the Leiden method: each of them is connected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vertexsdk import Sum, Vertex, VertexId, param, state
from vertexsdk.algorithms.louvain import (
    LEVELS,
    Array,
    Level,
    best_moves,
    by_smallest,
    moved,
    numbered,
)
from vertexsdk.program.vertex import Delta

ROUNDS = 12  # of refinement, in which most vertices have found others


class Leiden(Vertex):
    """The community of every vertex, by modularity; each is connected. Its smallest id.

    Definition: as `Louvain`, but before communities become vertices each is refined: its vertices
        begin alone again, and those that are alone join others of their community, to which they
        have an edge and by which modularity grows. What has come together so becomes one vertex
        of the next level, which begins with the communities before. Edge values are weights.
    Parameters: `resolution`: a larger one makes smaller communities.
    How: as `Louvain`. In refinement those who join and those who are joined are different vertices
        in each round, drawn at random, so that no vertex joins one that leaves.
    Converges to: communities that are connected, and which no single vertex, at any level, could
        improve by much. Of the guarantees of the sequential method this is the one that holds.
    Cost: some twenty rounds of O(m) for each of a few levels, on the driver.
    Source: Traag, Waltman and van Eck, "From Louvain to Leiden: guaranteeing well-connected
        communities", Scientific Reports 9, 5233, 2019.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 2, 3, 4, 5, 6, 3], [2, 3, 1, 5, 6, 4, 4])
        >>> with run("leiden", graph, backend="memory://docs") as result:
        ...     result.to_dict()
        {1: 1, 2: 1, 3: 1, 4: 4, 5: 4, 6: 4}
    """

    resolution: float = param(1.0)
    community: VertexId = state()
    found: bool = state(False)  # else the vertex has no edges

    messages = Sum(int)

    @classmethod
    def prepare(
        cls, graph: Any, params: Mapping[str, Any], run: Callable[..., Any], seed: int
    ) -> Mapping[str, Any] | None:
        """Find the communities on the driver, before the run."""
        if not graph.num_edges:
            return None
        resolution = float(params["resolution"])
        level, ids = Level.of(graph)
        group = np.arange(len(ids))  # the vertex of the level, for each of the graph
        community = np.arange(len(ids))  # of each vertex of the level
        rng = np.random.default_rng([seed & (2**64 - 1), 1])
        for _ in range(LEVELS):
            if not level.degree.sum():
                break
            loaded = level.loaded(graph)
            community, number = numbered(best_moves(level, loaded, community, resolution, rng, run))
            if number == len(community):
                break
            parts, count = numbered(refined(level, loaded, community, resolution, rng, run))
            if count == len(community):  # nothing was refined: every community becomes a vertex
                parts, count = community, number
            _, first = np.unique(parts, return_index=True)
            group, community = parts[group], community[first]
            level = level.contracted(parts, count)
        return by_smallest(ids, connected(Level.of(graph)[0], community[group]))

    def init(self) -> None:
        if not self.found:
            self.community = self.id

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        pass

    def scatter(self, iteration: int) -> None:
        pass


def refined(
    level: Level, graph: Any, community: Array, resolution: float, rng: np.random.Generator,
    run: Callable[..., Any],
) -> Array:  # fmt: skip
    """Divide communities into parts that are connected."""
    n = len(community)
    parts = np.arange(n)  # the first vertex of a part never leaves it
    for _ in range(ROUNDS):
        alone = np.bincount(parts, minlength=n)[parts] == 1
        moves = alone & (rng.random(n) < 0.5)
        previous = parts
        parts = moved(level, graph, parts, moves, ~moves, community, resolution, run)
        if (parts == previous).all() and not alone.any():
            break
    return parts


def connected(level: Level, community: Array) -> Array:
    """Divide communities that are not connected: a vertex may have left that joined two parts."""
    label = np.arange(len(community))
    inside = community[level.source] == community[level.target]
    source, target = level.source[inside], level.target[inside]
    while True:
        least = label.copy()
        np.minimum.at(least, source, label[target])
        np.minimum.at(least, target, label[source])
        least = least[least]
        if (least == label).all():
            return label
        label = least
