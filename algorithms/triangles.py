"""The number of triangles at every vertex."""

import numpy as np
from numpy.typing import NDArray

from vertexsdk import Latest, Vertex, aggregate, state
from vertexsdk.program.vertex import Aggregates, Delta

# A message: the sender's degree and how many ids follow, in one number, and up to 15 ids.
SLOTS = 16


def place_of(table: NDArray[np.int64], wanted: int, nothing: int) -> int:
    """Return where an id is in a hash table with linear probing, or the free place for it.

    >>> place_of(np.full(4, -1), 6, -1) == place_of(np.array([-1, -1, 6, -1]), 6, -1) == 2
    True
    """
    place = (wanted ^ (wanted >> 9) ^ (wanted >> 23)) & (len(table) - 1)
    while table[place] != wanted and table[place] != nothing:
        place = (place + 1) & (len(table) - 1)
    return place


class TriangleCount(Vertex):
    """How many triangles a vertex is a corner of.

    Definition: a triangle is three vertices that are joined pairwise, in either direction;
        duplicates and self-loops do not count. The sum over all vertices is three times the
        number of triangles of the graph.
    How: neighbours of higher degree (of higher id where degrees are equal) are named to all
        neighbours, 15 in an iteration, and everyone looks the names up among its own neighbours.
        So each triangle is seen once by each corner.
    Converges to: that number, after 2 + max h(v) / 15 iterations, where h(v) is the number of v's
        neighbours of higher degree, at most √(2m).
    Cost: Σ h(v)·d(v) look-ups for degrees d, O(m·√m) at worst; each iteration looks at all edges.
    Source: the orientation by degree of Chiba and Nishizeki, "Arboricity and subgraph listing
        algorithms", SIAM J. Comput. 14(1), 1985, as in Latapy, "Main-memory triangle computations
        for very large (sparse (power-law)) graphs", TCS 407, 2008.

    Example:
        >>> from tests.support.reference import reference
        >>> edges = [(1, 2), (2, 3), (3, 1), (3, 4)]
        >>> reference(TriangleCount, edges).values("triangles")
        {1: 1, 2: 1, 3: 1, 4: 0}
    """

    triangles: int = state(0)
    position: int = state(0)  # among the targets, of the next one that is to be named
    names: NDArray[np.int64] = state(0, size=16)

    messages = Latest(int, size=16)
    direction = "undirected"
    always = True
    naming = aggregate(any)

    def init(self) -> None:
        self.names[0] = len(self.targets) * SLOTS
        self.naming.contribute(True)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        me = self.id
        degree = len(self.targets)
        size = 2
        while size < 2 * degree:
            size *= 2
        table = np.full(size, me)  # which is no neighbour, so it marks a free place
        k, count, position = 0, 0, self.position
        for target in self.targets:
            table[place_of(table, target.id, me)] = target.id
            if k >= position and count < SLOTS - 1:
                other = delta.values[k, 0] // SLOTS
                if other > degree or (other == degree and target.id > me):
                    count += 1
                    self.names[count] = target.id
                self.position = k + 1
            k += 1
        for k in range(degree):
            for j in range(1, 1 + delta.values[k, 0] % SLOTS):
                name = delta.values[k, j]
                if name != me and table[place_of(table, name, me)] == name:
                    self.triangles += 1
        self.names[0] = degree * SLOTS + count
        self.naming.contribute(count > 0)

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.names)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        return not aggregates.naming
