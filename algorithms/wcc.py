"""Weakly connected components."""

from vertexsdk import Min, Vertex, VertexId, state
from vertexsdk.program.vertex import Delta


class ConnectedComponents(Vertex):
    """Smallest id among all vertices that can be reached when edges are followed both ways.

    Two vertices are in the same component exactly if they have the same value.

    Converges to: the least fixed point of component(v) = min(v, component of every neighbour).
    Cost: as many iterations as the smallest id of a component is eccentric in it; O(m) for the
        first, later ones send along the edges of the vertices whose value fell.
    Source: label propagation as in Malewicz et al., "Pregel", SIGMOD 2010, and the same
        components as WCC of LDBC Graphalytics.

    Example:
        >>> from tests.support.reference import reference
        >>> reference(ConnectedComponents, [(4, 2), (4, 3), (8, 9)]).values("component")
        {2: 2, 3: 2, 4: 2, 8: 8, 9: 8}
    """

    component: VertexId = state()

    messages = Min(VertexId)
    direction = "undirected"

    def init(self) -> None:
        self.component = self.id

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.component = min(self.id, delta.value)

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.component)
