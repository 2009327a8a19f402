"""Single-source shortest paths, along edge values as lengths."""

from vertexsdk import Min, Vertex, VertexId, inf, param, state
from vertexsdk.program.vertex import Delta


class ShortestPaths(Vertex):
    """Length of the shortest path from `origin` to every vertex; `inf` where there is none.

    Definition: a path's length is the sum of its edge values; an edge without a value counts 1.
    Converges to: the least fixed point of length(v) = min over edges u→v of length(u) + value,
        with length(origin) = 0. Along a cycle that is shorter than 0 there is none: the
        run ends with an error at its limit of iterations.
    Cost: one iteration per edge on the longest shortest path, each sends along the edges of the
        vertices whose length fell. O(n·m) at worst, close to O(m) on small-world graphs.
    Source: Bellman (1958), Ford (1956); in vertex form, Malewicz et al., "Pregel", SIGMOD 2010,
        section 5.2. The same as SSSP of LDBC Graphalytics.

    Example:
        >>> from tests.support.reference import reference
        >>> edges = [(1, 2, 0.5), (2, 3, 0.25), (1, 3, 9.0)]
        >>> reference(ShortestPaths, edges, params={"origin": 1}).values("length")
        {1: 0.0, 2: 0.5, 3: 0.75}
    """

    origin: VertexId = param()
    length: float = state(inf)

    messages = Min(float)

    def init(self) -> None:
        self.length = 0.0 if self.id == self.origin else inf

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        # at the origin a message below 0 has come around a cycle of negative length
        self.length = min(0.0, delta.value) if self.id == self.origin else delta.value

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.length + target.value)
