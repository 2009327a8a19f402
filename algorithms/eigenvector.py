"""Eigenvector centrality."""

import math

from vertexsdk import Max, Sum, Vertex, aggregate, param, state
from vertexsdk.algorithms._edge_weights import EdgeWeights
from vertexsdk.program.vertex import Aggregates, Delta


class EigenvectorCentrality(Vertex):
    """Share of a vertex in the eigenvector of the largest eigenvalue of the adjacency matrix.

    Definition: λ·score(v) = Σ over u→v of score(u), where Σ score² = 1 and no score is negative.
        With `weight="value"` it is Σ of value(u→v)·score(u); by default edge values do not count.
    How: power iteration with the matrix plus 1 on its diagonal, so that it converges on bipartite
        graphs too, from equal scores.
    Parameters: `epsilon`: stop when Σ |change of score| in an iteration is at most this times the
        number of vertices; `rounds`: the run fails after so many iterations.
    Converges to: that vector, by the ratio of the two largest eigenvalues plus 1 in each iteration.
        Where edges lead in no circle no such vector exists, and convergence is slow.
    Cost: O(m + n) each.
    Source: Bonacich, "Power and centrality: a family of measures", American Journal of Sociology
        92(5), 1987; as in NetworkX.

    Example:
        >>> from tests.support.reference import reference
        >>> scores = reference(EigenvectorCentrality, [(1, 2), (2, 1)]).values("score")
        >>> round(scores[1], 6)
        0.707107
    """

    epsilon: float = param(1e-9)
    rounds: int = param(1_000)
    weight: str | None = param(None)  # "value"; None: all edges alike
    score: float = state(0.0)
    raw: float = state(0.0)  # before division by the length, which all vertices know next time

    messages = Sum(float)
    squares = aggregate(Sum(float))
    change = aggregate(Sum(float))

    def init(self) -> None:
        self.raw = 1.0 / self.num_vertices
        self.squares.contribute(self.raw * self.raw)
        self.change.contribute(1.0 * self.num_vertices)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        length = math.sqrt(self.squares.value)
        score = self.raw / length
        self.change.contribute(abs(score - self.score))
        self.score = score
        self.raw = score + delta.value / length
        self.squares.contribute(self.raw * self.raw)

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.raw)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        if aggregates.change <= self.epsilon * self.num_vertices:
            return True
        if iteration >= self.rounds:
            raise ValueError(
                f"no convergence after {self.rounds} iterations: the graph may have no circle of "
                "edges; raise epsilon or rounds"
            )
        return False


class WeightedEigenvectorCentrality(EigenvectorCentrality, EdgeWeights, when={"weight": "value"}):
    """Share of a vertex in the eigenvector of the largest eigenvalue of the matrix of edge values.

    Definition: λ·score(v) = Σ over u→v of value(u→v)·score(u), where Σ score² = 1. An edge without
        a value counts 1; negative values are refused.
    How: as `EigenvectorCentrality`, with all values divided by the largest one.
    Cost: O(m + n) each.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 2], [2, 3], [3.0, 4.0], undirected=True)
        >>> with run("eigenvector", graph, weight="value", backend="memory://docs") as result:
        ...     {v: round(score, 3) for v, score in result.to_dict().items()}
        {1: 0.424, 2: 0.707, 3: 0.566}
    """

    scale: float = state(1.0)  # the largest value

    values = aggregate(Max(float))

    def init(self) -> None:
        self.raw = 1.0 / self.num_vertices
        self.squares.contribute(self.raw * self.raw)
        self.change.contribute(1.0 * self.num_vertices)
        if self.edge_total() > 0.0:
            for target in self.targets:
                self.values.contribute(target.value)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if iteration == 1 and self.values.value > 0.0:
            self.scale = self.values.value
        length = math.sqrt(self.squares.value)
        score = self.raw / length
        self.change.contribute(abs(score - self.score))
        self.score = score
        self.raw = score + delta.value / length / self.scale
        self.squares.contribute(self.raw * self.raw)

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.raw * target.value)
