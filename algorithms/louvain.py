"""Communities by the Louvain method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk import InputError, Sum, Vertex, VertexId, param, state
from vertexsdk.algorithms._edge_arrays import edge_arrays, local_graph, numbered_ends
from vertexsdk.program.vertex import Delta

ROUNDS, LEVELS = 60, 40  # at most
PATIENCE = 4  # rounds in which too little is gained, before a level ends
LEAST = 1e-5  # of modularity

Array = NDArray[Any]


def place_of(table: NDArray[np.int64], wanted: int) -> int:
    """Return where a number is in a hash table with linear probing, or the free place for it.

    >>> place_of(np.full(4, -1), 6) == place_of(np.array([-1, -1, 6, -1]), 6) == 2
    True
    """
    place = (wanted ^ (wanted >> 9)) & (len(table) - 1)
    while table[place] != wanted and table[place] != -1:
        place = (place + 1) & (len(table) - 1)
    return place


class LocalMoves(Vertex):
    """The community to which a vertex moves: that by which modularity grows most.

    The ids of vertices and the numbers of communities are 0, 1, ...; all parameters but `share`
    are arrays by one of them.

    Converges to: one move of every vertex, all at once.
    Cost: O(m).
    Source: Blondel et al., as of `Louvain`.
    """

    community: int = state(0)
    of: NDArray[np.int64] = param()  # the community of each vertex
    total: NDArray[np.float64] = param()  # the degrees of a community's vertices, added up
    degree: NDArray[np.float64] = param()
    part: NDArray[np.int64] = param()  # whose vertices a vertex may join
    moves: NDArray[np.bool_] = param()  # which vertices may move
    open: NDArray[np.bool_] = param()  # which communities they may join
    share: float = param()  # resolution / sum of all degrees

    messages = Sum(int)
    max_iterations = 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        current = self.of[self.id]
        self.community = current
        if not self.moves[self.id]:
            return
        size = 4
        while size < 2 * len(self.targets):
            size *= 2
        names = np.full(size, -1)
        weights = np.zeros(size)
        for target in self.targets:
            if target.id != self.id and self.part[target.id] == self.part[self.id]:
                place = place_of(names, self.of[target.id])
                names[place] = self.of[target.id]
                weights[place] += target.value
        degree = self.degree[self.id]
        place = place_of(names, current)
        best = weights[place] - (self.total[current] - degree) * degree * self.share
        best += 1e-12 * (abs(best) + degree)  # a difference that may be rounding does not move it
        for place in range(size):
            name = names[place]
            if name >= 0 and name != current and self.open[name]:
                gain = weights[place] - self.total[name] * degree * self.share
                if gain > best or (gain == best and name < self.community != current):
                    best = gain
                    self.community = name

    def scatter(self, iteration: int) -> None:
        pass


@dataclass
class Level:
    """A weighted graph without direction, whose vertices are 0, 1, ...: n of them, m edges.

    Attributes:
        source, target, weight: arrays of the edges, each once, no self-loops.
        inner: twice the weight of what was contracted into each vertex.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float64]
    inner: NDArray[np.float64]

    def __post_init__(self) -> None:
        n = len(self.inner)
        self.degree = self.inner + np.bincount(self.source, self.weight, n)
        self.degree += np.bincount(self.target, self.weight, n)

    @classmethod
    def of(cls, graph: Any) -> tuple[Level, Array]:
        """The level of a graph, and the ids of its vertices that have edges, ascending.

        Raises:
            InputError: an edge value is negative or no finite number.
        """
        source, target, value = edge_arrays(graph)
        if not (np.isfinite(value) & (value >= 0)).all():
            raise InputError("communities need edge values that are finite and not negative")
        ids, source, target = numbered_ends(source, target)
        return cls._combined(source, target, value, np.zeros(len(ids))), ids

    @classmethod
    def _combined(cls, source: Array, target: Array, weight: Array, inner: Array) -> Level:
        """The level of edges among which are self-loops, and several between the same vertices."""
        n, loop = len(inner), source == target
        inner = inner + 2 * np.bincount(source[loop], weight[loop], n)
        low, high = np.minimum(source, target)[~loop], np.maximum(source, target)[~loop]
        keys, place = np.unique(low * n + high, return_inverse=True)
        weights: Array = np.bincount(place, weight[~loop], len(keys))
        return cls(keys // n, keys % n, weights, inner)

    def contracted(self, group: Array, count: int) -> Level:
        """The level of which each group is a vertex."""
        inner = np.bincount(group, self.inner, count)
        return Level._combined(group[self.source], group[self.target], self.weight, inner)

    def modularity(self, community: Array, resolution: float) -> float:
        """The modularity of communities (int64[n])."""
        all_degrees = self.degree.sum()
        if not all_degrees:
            return 0.0
        inside = community[self.source] == community[self.target]
        within = self.inner.sum() + 2 * self.weight[inside].sum()
        total = np.bincount(community, self.degree)
        return float(within / all_degrees - resolution * np.square(total / all_degrees).sum())

    def loaded(self, graph: Any) -> Any:
        """The level as a graph of the same class as another one."""
        vertices = np.arange(len(self.inner))
        return local_graph(graph, self.source, self.target, self.weight, vertices=vertices)


def numbered(community: Array) -> tuple[Array, int]:
    """Return communities with numbers 0, 1, ... in place of theirs, and how many there are.

    >>> numbered(np.array([7, 3, 7]))[0].tolist()
    [1, 0, 1]
    """
    names, numbers = np.unique(community, return_inverse=True)
    return numbers.reshape(-1), len(names)


def best_moves(
    level: Level, graph: Any, community: Array, resolution: float, rng: np.random.Generator,
    run: Callable[..., Any],
) -> Array:  # fmt: skip
    """Move vertices to better communities until modularity stands; return the best communities.

    In each round half of the vertices may move, drawn at random, so that neighbours do not change
    places for ever.
    """
    n = len(level.inner)
    best, highest, idle = community, level.modularity(community, resolution), 0
    for number in range(ROUNDS):
        moves = rng.random(n) < 0.5
        everything = np.ones(n, np.bool_), np.zeros(n, np.int64)
        community = moved(level, graph, community, moves, *everything, resolution, run)
        reached = level.modularity(community, resolution)
        idle = 0 if reached > highest + LEAST else idle + 1
        if reached > highest:
            best, highest = community, reached
        if idle >= PATIENCE and number >= PATIENCE:
            break
    return best


def moved(
    level: Level, graph: Any, community: Array, moves: Array, open: Array, part: Array,
    resolution: float, run: Callable[..., Any],
) -> Array:  # fmt: skip
    """Run `LocalMoves` once; return the new communities."""
    share = resolution / level.degree.sum()
    total = np.bincount(community, level.degree, len(level.inner))
    with run(
        LocalMoves, graph, of=community, total=total, degree=level.degree, part=part, moves=moves,
        open=open, share=share,
    ) as result:  # fmt: skip
        after: Array = result.values("community")[1]
    return after


class Louvain(Vertex):
    """The community of every vertex, by modularity: the smallest id of its members.

    Definition: communities are found in levels. In each one vertices move to the neighbouring
        community by which modularity grows most, until it does not grow any more; then every
        community becomes a vertex, and edges between two communities one edge. Modularity is
        Σ over communities of inside / all - resolution·(total / all)², where inside is the sum
        over members of their edges to members, total of all their edges, and all is the sum over
        all vertices. Edge values are weights; edges are taken both ways, and those of opposite
        directions count as two.
    Parameters: `resolution`: a larger one makes smaller communities.
    How: all vertices decide at once by the communities before, in each round half of them, drawn
        from the run's seed: so the answer is the same for any number of partitions.
    Converges to: communities which no single vertex, at any level, could improve by much. The
        largest modularity is not found; sequential methods come to within a few percent of this.
    Cost: some ten rounds of O(m) for each of a few levels, on the driver.
    Source: Blondel, Guillaume, Lambiotte and Lefebvre, "Fast unfolding of communities in large
        networks", J. Stat. Mech. P10008, 2008; in rounds, Lu, Halappanavar and Kalyanaraman,
        "Parallel heuristics for scalable community detection", Parallel Computing 47, 2015.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 2, 3, 4, 5, 6, 3], [2, 3, 1, 5, 6, 4, 4])
        >>> with run("louvain", graph, backend="memory://docs") as result:
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
        community = np.arange(len(ids))
        rng = np.random.default_rng([seed & (2**64 - 1), 0])
        for _ in range(LEVELS):
            alone = np.arange(len(level.inner))
            if not level.degree.sum():
                break
            moves = best_moves(level, level.loaded(graph), alone, resolution, rng, run)
            group, count = numbered(moves)
            community = group[community]
            if count == len(alone):
                break
            level = level.contracted(group, count)
        return by_smallest(ids, community)

    def init(self) -> None:
        if not self.found:
            self.community = self.id

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        pass

    def scatter(self, iteration: int) -> None:
        pass


def by_smallest(ids: Array, community: Array) -> dict[str, Any]:
    """Return attributes `id`, `community`, `found`; a community is named by its smallest id.

    >>> by_smallest(np.array([4, 5, 9]), np.array([1, 0, 0]))["community"].tolist()
    [4, 5, 5]
    """
    _, first, group = np.unique(community, return_index=True, return_inverse=True)
    names = ids[first][group.reshape(-1)]  # ids ascend
    return {"id": ids, "community": names, "found": np.ones(len(ids), np.bool_)}
