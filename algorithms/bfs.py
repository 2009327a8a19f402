"""Breadth-first search: the number of edges from an origin."""

from vertexsdk import INT_MAX, Min, Vertex, VertexId, param, state
from vertexsdk.program.vertex import Delta


class BreadthFirstSearch(Vertex):
    """Depth of every vertex: edges on the shortest path from `origin`, `INT_MAX` without a path.

    Converges to: depth(v) = 1 + min over edges u→v of depth(u), with depth(origin) = 0.
    Cost: as many iterations as the origin is eccentric; every edge out of a reached vertex carries
        one message, O(n + m) in total.
    Source: Moore (1959); the same as BFS of LDBC Graphalytics, which also gives the largest
        64-bit integer to a vertex that is not reached.

    Example:
        >>> from tests.support.reference import reference
        >>> reference(BreadthFirstSearch, [(1, 2), (2, 3)], params={"origin": 1}).values("depth")
        {1: 0, 2: 1, 3: 2}
    """

    origin: VertexId = param()
    depth: int = state(INT_MAX)

    messages = Min(int)

    def init(self) -> None:
        self.depth = 0 if self.id == self.origin else INT_MAX

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.depth = 0 if self.id == self.origin else delta.value

    def scatter(self, iteration: int) -> None:
        if self.depth < INT_MAX:
            self.emitAll(self.depth + 1)
        else:
            self.emitAll(INT_MAX)
