"""The number of triangles at every vertex."""

from vertexsdk import Sum, Vertex, state
from vertexsdk.program.vertex import Delta


class TriangleCount(Vertex):
    """Number of triangles that have a vertex as a corner.

    Definition: a triangle is three vertices that are joined pairwise, in either direction;
        duplicates and self-loops do not count. The sum over all vertices is three times the
        number of triangles of the graph.
    How: among two neighbours the one with more of them (of larger id where they have as many) goes
        through the other's, counts those which are its own too, and tells the other. So each edge
        knows its triangles, and a vertex has half as many as its edges have together.
    Converges to: that number, after one iteration.
    Cost: Σ over edges of the smaller of the two degrees, O(m·√m) at worst.
    Source: Chiba and Nishizeki, "Arboricity and subgraph listing algorithms", SIAM J. Comput.
        14(1), 1985.

    Example:
        >>> from tests.support.reference import reference
        >>> edges = [(1, 2), (2, 3), (3, 1), (3, 4)]
        >>> reference(TriangleCount, edges).values("triangles")
        {1: 1, 2: 1, 3: 1, 4: 0}
    """

    triangles: int = state(0)
    counted: int = state(0)  # triangles of its edges that it counted itself

    messages = Sum(int)
    direction = "undirected"
    max_iterations = 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.triangles = (self.counted + delta.value) // 2

    def scatter(self, iteration: int) -> None:
        if iteration == 0:
            degree = len(self.targets)
            for target in self.targets:
                other = len(target.targets)
                if other < degree or (other == degree and target.id < self.id):
                    count = 0
                    for third in target.targets:
                        count += self.edges_to(third)
                    self.counted += count
                    self.emit(target, count)
