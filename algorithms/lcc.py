"""Local clustering coefficient, and the number of triangles."""

import numpy as np
from numpy.typing import NDArray

from vertexsdk import Latest, Vertex, aggregate, state
from vertexsdk.algorithms.triangles import place_of
from vertexsdk.program.vertex import Aggregates, Delta

# A message: in its first number the sender's degree, 15 bits of which names are joined in both
# directions, and 4 bits for how many names follow.
NAMES, BITS = 15, 19


class ClusteringCoefficient(Vertex):
    """How many of the edges that are possible among a vertex's neighbours are there.

    Definition: N(v) is the set of vertices joined to v in either direction, without v; then
        coefficient(v) = number of edges u→w with u, w in N(v) / (|N(v)|·(|N(v)|-1)), and 0 where
        |N(v)| < 2; an undirected edge counts in both directions. `triangles` is the number of
        pairs in N(v) that are joined in either direction: every triangle counts once at each of
        its corners.
    How: as `TriangleCount`; each name comes with whether it is joined in both directions.
    Converges to: that, after 2 + max h(v) / 15 iterations, where h(v) is the number of v's
        neighbours of higher degree, at most √(2m).
    Cost: Σ h(v)·d(v) look-ups for degrees d, O(m·√m) at worst; each iteration looks at all edges.
    Source: Watts and Strogatz (1998); LCC of LDBC Graphalytics.

    Example:
        >>> from tests.support.reference import reference
        >>> edges = [(1, 2), (2, 3), (3, 1), (3, 4)]
        >>> reference(ClusteringCoefficient, edges).values("coefficient")[1]
        0.5
    """

    coefficient: float = state(0.0)
    triangles: int = state(0)
    edges: int = state(0)  # among the neighbours, of those triangles; at most one each way
    position: int = state(0)  # among the targets, of the next one that is to be named
    names: NDArray[np.int64] = state(0, size=16)

    messages = Latest(int, size=16)
    direction = "both"
    always = True
    naming = aggregate(any)
    directed = aggregate(any)

    def init(self) -> None:
        self.names[0] = len(self.targets) << BITS
        self.naming.contribute(True)
        for target in self.targets:
            self.directed.contribute(target.reverse)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        me = self.id
        degree = len(self.targets)
        size = 2
        while size < 2 * degree:
            size *= 2
        table = np.full(size, me)  # which is no neighbour, so it marks a free place
        k, count, both, neighbours = 0, 0, 0, 0
        last = me
        for target in self.targets:
            if target.id != me:
                # One who is joined in both directions comes twice, one after the other.
                if target.id != last:
                    neighbours += 1
                    table[place_of(table, target.id, me)] = target.id
                if k >= self.position:
                    other = delta.values[k, 0] >> BITS
                    higher = other > degree or (other == degree and target.id > me)
                    if count > 0 and target.id == self.names[count]:
                        both |= 1 << (count - 1)
                    elif higher and count < NAMES:
                        count += 1
                        self.names[count] = target.id
                last = target.id
            if k >= self.position and (count < NAMES or target.id == self.names[count]):
                self.position = k + 1
            k += 1
        self.names[0] = (degree << BITS) + (both << 4) + count
        self.naming.contribute(count > 0)
        self.count(delta.values, table)
        edges = self.edges if self.directed.value else 2 * self.triangles
        possible = neighbours * (neighbours - 1)
        self.coefficient = edges / possible if possible > 0 else 0.0

    def count(self, values: NDArray[np.int64], table: NDArray[np.int64]) -> None:
        """Count those names which are neighbours."""
        me = self.id
        k = 0
        last = me
        for target in self.targets:
            self.directed.contribute(target.reverse)
            if target.id != me and target.id != last:
                for j in range(values[k, 0] & NAMES):
                    name = values[k, j + 1]
                    if name != me and table[place_of(table, name, me)] == name:
                        self.triangles += 1
                        self.edges += 1 + ((values[k, 0] >> (4 + j)) & 1)
                last = target.id
            k += 1

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.names)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        return not aggregates.naming
