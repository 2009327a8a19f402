"""The vertices within k edges of some vertices."""

from vertexsdk import INT_MAX, Min, Vertex, param, state
from vertexsdk.program.vertex import Delta


class KHop(Vertex):
    """Number of edges from the nearest source, up to `k`; `INT_MAX` farther away.

    Definition: sources are the vertices whose attribute `source` is 1; every edge is followed in
        its direction.
    Parameters: `k`, the greatest depth that is given.
    Converges to: depth(v) = 0 for a source, else 1 + min over edges u→v of depth(u) < k.
    Cost: k iterations at most; every edge out of a vertex nearer than k carries one message.
    Source: breadth-first search from several roots, as in Then et al., "The more the merrier:
        efficient multi-source graph traversal", PVLDB 8(4), 2014.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 2, 3], [2, 3, 4])
        >>> graph = graph.with_attributes({"id": [1], "source": [1]})
        >>> with run("khop", graph, k=2, backend="memory://docs") as result:
        ...     result.top(3)
        {3: 2, 2: 1, 1: 0}
    """

    k: int = param()
    depth: int = state(INT_MAX)
    source: int = state(0)

    messages = Min(int)

    def init(self) -> None:
        self.depth = 0 if self.source == 1 else INT_MAX

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.depth = 0 if self.source == 1 else delta.value

    def scatter(self, iteration: int) -> None:
        if self.depth < self.k:
            self.emitAll(self.depth + 1)
        else:
            self.emitAll(INT_MAX)
