"""Local clustering coefficient, and the number of triangles."""

from typing import Any

from vertexsdk import Latest, Vertex, state
from vertexsdk.vertex import Delta

__all__ = ["ClusteringCoefficient"]


class ClusteringCoefficient(Vertex):
    """How many of the edges that are possible among a vertex's neighbours are there.

    Definition: N(v) is the set of vertices joined to v in either direction, without v; then
        coefficient(v) = number of edges u→w with u, w in N(v) / (|N(v)|·(|N(v)|-1)), and 0 where
        |N(v)| < 2; an undirected edge counts in both directions. `triangles` is the number of
        pairs in N(v) that are joined in either direction: every triangle counts once at each of
        its corners.
    Converges to: that, after one iteration.
    Cost: every vertex sends its neighbours to all of them, Σ d² ids in all for degrees d, and as
        many look-ups. Messages are sets, so this runs interpreted.
    Source: Watts and Strogatz (1998); LCC of LDBC Graphalytics.

    Example:
        >>> from vertexsdk.testing.reference import reference
        >>> edges = [(1, 2), (2, 3), (3, 1), (3, 4)]
        >>> reference(ClusteringCoefficient, edges).state[1]
        {'coefficient': 0.5, 'triangles': 1}
    """

    coefficient: float = state(0.0)
    triangles: int = state(0)

    messages = Latest(tuple)
    direction = "both"

    def neighbours(self) -> set[Any]:
        return {target.id for target in self.targets if target.id != self.id}

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        mine = self.neighbours()
        edges = 0
        joined = 0
        for consumers, others in delta.values:
            found = len(consumers & mine)
            edges += found
            joined += found + len(others & mine)
        possible = len(mine) * (len(mine) - 1)
        self.coefficient = edges / possible if possible > 0 else 0.0
        self.triangles = joined // 2

    def scatter(self, iteration: int) -> None:
        mine = self.neighbours()
        consumers = frozenset({t.id for t in self.targets if not t.reverse and t.id in mine})
        message = (consumers, frozenset(mine - consumers))
        last = self.id
        for target in self.targets:
            # Neighbours joined in both directions are next to each other: send once.
            if target.id != self.id and target.id != last:
                self.emit(target, message)
            last = target.id
