"""Local clustering coefficient, and the number of triangles."""

import numpy as np
from numpy.typing import NDArray

from vertexsdk import Sum, Vertex, state
from vertexsdk.program.vertex import Delta


class ClusteringCoefficient(Vertex):
    """Share of the possible edges among a vertex's neighbours that exist.

    Definition: N(v) is the set of vertices joined to v in either direction, without v; then
        coefficient(v) = number of edges u→w with u, w in N(v) / (|N(v)|·(|N(v)|-1)), and 0 where
        |N(v)| < 2; an undirected edge counts in both directions. `triangles` is the number of
        pairs in N(v) that are joined in either direction: every triangle counts once at each of
        its corners. Parallel edges count once.
    How: as `TriangleCount`; a third vertex comes with the edges that join it to the two others.
        Each end of an edge knows, or is told, whether the edge has a direction.
    Converges to: that, after one iteration.
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
    reversed: int = state(0)  # edges that lead to it
    # A neighbour is told its triangles, their edges, and whether the edge leads to it.
    note: NDArray[np.int64] = state(0, size=3)

    messages = Sum(int, size=3)
    direction = "both"
    parallel_edges = False
    max_iterations = 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.triangles = (self.counted + int(delta.value[0])) // 2
        # Each edge was counted with both of its ends; one without direction leads both ways.
        edges = (self.edges + int(delta.value[1])) // 2
        if self.reversed + int(delta.value[2]) == 0:
            edges *= 2
        possible = self.neighbours * (self.neighbours - 1)
        self.coefficient = edges / possible if possible > 0 else 0.0

    def scatter(self, iteration: int) -> None:
        if iteration == 0:
            degree = len(self.targets)
            for target in self.targets:
                back = 1 if target.reverse else 0
                self.reversed += back
                # One who is joined in both directions comes twice; once is enough.
                if target.id != self.id and (back == 0 or self.edges_to(target) == 1):
                    self.neighbours += 1
                    other = len(target.targets)
                    count = 0
                    theirs = 0
                    if other < degree or (other == degree and target.id < self.id):
                        mine = 0
                        last = self.id
                        for third in target.targets:
                            links = self.edges_to(third)
                            if links > 0 and third.id != self.id and third.id != target.id:
                                mine += 1
                                if third.id != last:
                                    count += 1
                                    theirs += links
                                last = third.id
                        self.counted += count
                        self.edges += mine
                    if count + back > 0:
                        self.note[0] = count
                        self.note[1] = theirs
                        self.note[2] = back
                        self.emit(target, self.note)
            self.note[0] = 0
            self.note[1] = 0
            self.note[2] = 0
