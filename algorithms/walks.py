"""Random walks from all vertices, or from one."""

import numpy as np

from vertexsdk import Sum, Vertex, VertexId, aggregate, param, state
from vertexsdk.program.vertex import Aggregates, Delta


class RandomWalks(Vertex):
    """Number of visits to a vertex by walkers that follow edges at random.

    Definition: `walks` walkers start at each vertex, or at `origin` only. A walker follows one of
        the edges out of the vertex where it is, all alike, `length` times, and ends earlier at a
        vertex without edges out. `visits` counts arrivals, the start included. The walks follow
        from the run's seed.
    Converges to: that, after `length` iterations.
    Cost: a random number for each step of each walker, and O(m + n) for each iteration; walkers at
        one vertex are counted, not kept apart.
    Source: Fogaras, Rácz, Csalogány and Sarlós, "Towards scaling fully personalized PageRank",
        Internet Mathematics 2(3), 2005.

    Example:
        >>> from vertexsdk import Graph, run
        >>> path = Graph.from_arrays([1, 2], [2, 3])
        >>> with run("walks", path, length=5, backend="memory://docs") as result:
        ...     result.to_dict()
        {1: 10, 2: 20, 3: 30}
    """

    walks: int = param(10)
    length: int = param(10)
    origin: VertexId | None = param(None)  # an id; None: all vertices
    visits: int = state(0)
    walkers: int = state(0)

    messages = Sum(int)
    always = True
    walking = aggregate(any)

    def init(self) -> None:
        if self.origin is None or self.id == self.origin:
            self.walkers = self.walks
        self.visits = self.walkers
        self.walking.contribute(self.walkers > 0)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.walkers = delta.value
        self.visits += delta.value
        self.walking.contribute(self.walkers > 0)

    def scatter(self, iteration: int) -> None:
        degree = len(self.targets)
        if degree > 0:
            going = np.zeros(degree, np.int64)
            for _ in range(self.walkers):
                going[int(self.random() * degree)] += 1
            k = 0
            for target in self.targets:
                self.emit(target, going[k])
                k += 1

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        return iteration >= self.length or not aggregates.walking
