"""Local clustering coefficient, and the number of triangles."""

import numpy as np
from numpy.typing import NDArray

from vertexsdk import Sum, Vertex, aggregate, state
from vertexsdk.program.vertex import Delta


class ClusteringCoefficient(Vertex):
    """Share of the possible edges among a vertex's neighbours that exist.

    Definition: N(v) is the set of vertices joined to v in either direction, without v; then
        coefficient(v) = number of edges u→w with u, w in N(v) / (|N(v)|·(|N(v)|-1)), and 0 where
        |N(v)| < 2; an undirected edge counts in both directions. `triangles` is the number of
        pairs in N(v) that are joined in either direction: every triangle counts once at each of
        its corners. Parallel edges count once.
    How: as `TriangleCount`; a third vertex comes with the edges that join it to the two others.
    Converges to: that, after two iterations.
    Cost: Σ over edges of the smaller of the two degrees, O(m·√m) at worst.
    Source: Watts and Strogatz (1998); LCC of LDBC Graphalytics.

    Example:
        >>> from tests.support.reference import reference
        >>> edges = [(1, 2), (2, 3), (3, 1), (3, 4)]
        >>> reference(ClusteringCoefficient, edges).values("coefficient")[1]
        0.5
    """

    coefficient: float = state(0.0)
    triangles: int = state(0)
    counted: int = state(0)  # triangles of its edges that it counted itself
    edges: int = state(0)  # between the other corners of these
    neighbours: int = state(0)
    note: NDArray[np.int64] = state(0, size=2)  # what a neighbour is told: triangles, and edges

    messages = Sum(int, size=2)
    direction = "both"
    parallel_edges = False
    max_iterations = 2
    directed = aggregate(any)

    def init(self) -> None:
        for target in self.targets:
            self.directed.contribute(target.reverse)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if iteration == 1:
            self.directed.contribute(self.directed.value)
            return
        self.triangles = (self.counted + int(delta.value[0])) // 2
        # Each edge was counted with both of its ends; one without direction leads both ways.
        edges = (self.edges + int(delta.value[1])) // 2 * (1 if self.directed.value else 2)
        possible = self.neighbours * (self.neighbours - 1)
        self.coefficient = edges / possible if possible > 0 else 0.0

    def scatter(self, iteration: int) -> None:
        if iteration == 1:
            degree = len(self.targets)
            last = self.id
            for target in self.targets:
                # One who is joined in both directions comes twice, one after the other.
                if target.id != self.id and target.id != last:
                    self.neighbours += 1
                    other = len(target.targets)
                    if other < degree or (other == degree and target.id < self.id):
                        count, mine, theirs = 0, 0, 0
                        if self.directed.value:
                            previous = self.id
                            for third in target.targets:
                                links = self.edges_to(third)
                                if links > 0 and third.id != self.id and third.id != target.id:
                                    mine += 1
                                    if third.id != previous:
                                        count += 1
                                        theirs += links
                                    previous = third.id
                        else:
                            for third in target.targets:
                                if third.id != self.id and third.id != target.id:
                                    count += self.edges_to(third)
                            mine, theirs = count, count
                        self.counted += count
                        self.edges += mine
                        self.note[0] = count
                        self.note[1] = theirs
                        self.emit(target, self.note)
                last = target.id
