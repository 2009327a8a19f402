"""Local clustering coefficient, and the number of triangles."""

from typing import Any

from vertexsdk import Latest, Vertex, state
from vertexsdk.program.vertex import Delta


class ClusteringCoefficient(Vertex):
    """How many of the edges that are possible among a vertex's neighbours are there.

    Definition: N(v) is the set of vertices joined to v in either direction, without v; then
        coefficient(v) = number of edges u→w with u, w in N(v) / (|N(v)|·(|N(v)|-1)), and 0 where
        |N(v)| < 2; an undirected edge counts in both directions. `triangles` is the number of
        pairs in N(v) that are joined in either direction: every triangle counts once at each of
        its corners.
    Converges to: that, after one iteration.
    Cost: every vertex sends one message, its neighbours, to all of them; comparing them takes
        Σ min(d(u), d(w)) look-ups over the edges, for degrees d. Messages are sets, so this
        runs interpreted.
    Source: Watts and Strogatz (1998); LCC of LDBC Graphalytics.

    Example:
        >>> from tests.support.reference import reference
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
        last = self.id
        for sender, consumers, others in delta.values:
            # Neighbours joined in both directions send twice, one after the other.
            if sender != self.id and sender != last:
                found = len(consumers & mine)
                edges += found
                joined += found + len(others & mine)
            last = sender
        possible = len(mine) * (len(mine) - 1)
        self.coefficient = edges / possible if possible > 0 else 0.0
        self.triangles = joined // 2

    def scatter(self, iteration: int) -> None:
        consumers = frozenset({target.id for target in self.targets if not target.reverse})
        others = frozenset(self.neighbours() - consumers)
        self.emitAll((self.id, consumers - {self.id}, others))
