"""Degree: how many edges meet at a vertex."""

from vertexsdk import Sum, Vertex, state
from vertexsdk.program.vertex import Delta


class Degree(Vertex):
    """Number of edges at every vertex: `degree`, and of those into it and out of it.

    Definition: on a directed graph degree = in_degree + out_degree, and a self-loop counts in
        both. On an undirected graph all edges at a vertex count in both, and degree is their
        number, where a self-loop counts twice, as in NetworkX.
    Converges to: that, after one iteration.
    Cost: one message along every edge.
    Source: degree centrality before division, as in Freeman (1979).

    Example:
        >>> from tests.support.reference import reference
        >>> reference(Degree, [(1, 2), (1, 3), (2, 3)]).state[1]
        {'degree': 2, 'in_degree': 0, 'out_degree': 2}
    """

    degree: int = state(0)
    in_degree: int = state(0)
    out_degree: int = state(0)

    messages = Sum(int)
    direction = "both"

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.in_degree = delta.value
        self.degree = len(self.targets)
        self.out_degree = 0
        for target in self.targets:
            if not target.reverse:
                self.out_degree += 1
            if target.id == self.id:
                # A self-loop is here once on an undirected graph, twice on a directed one.
                self.degree += -1 if target.reverse else 1

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            if not target.reverse:
                self.emit(target, 1)
