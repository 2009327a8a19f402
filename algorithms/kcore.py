"""Coreness: the largest k such that a vertex belongs to the k-core."""

import numpy as np
from numpy.typing import NDArray

from vertexsdk import Latest, Vertex, state
from vertexsdk.program.vertex import Delta


def h_index(values: NDArray[np.int64]) -> int:
    """Return the largest h such that at least h of the values are h or more.

    >>> h_index(np.array([5, 3, 1, 3]))
    3
    """
    n = len(values)
    counts = np.zeros(n + 1, np.int64)
    for value in values:
        counts[min(value, n)] += 1
    at_least = 0
    for h in range(n, 0, -1):
        at_least += counts[h]
        if at_least >= h:
            return h
    return 0


class Coreness(Vertex):
    """Coreness of every vertex: the largest k for which it is in the k-core.

    Definition: the k-core is the largest part of the graph in which every vertex has k neighbours
        or more. Edges are taken both ways; duplicates and self-loops do not count.
    Converges to: coreness, from the degrees downwards; a vertex's next value is the h-index of its
        neighbours' values.
    Cost: O(m) for the first iteration, later ones look at the neighbours of vertices whose value
        fell; the number of iterations is at most n, and some tens on real graphs.
    Source: Montresor, De Pellegrini and Miorandi, "Distributed k-core decomposition", TPDS 24(2),
        2013; Lü, Zhou, Zhang and Stanley, "The H-index of a network node", Nature
        Communications 7, 2016, theorem 1.

    Example:
        >>> from tests.support.reference import reference
        >>> edges = [(1, 2), (2, 3), (3, 1), (3, 4)]
        >>> reference(Coreness, edges).values("core")
        {1: 2, 2: 2, 3: 2, 4: 1}
    """

    core: int = state(0)

    messages = Latest(int)
    direction = "undirected"
    asynchronous = True  # theorem 2 of Montresor et al.: values only fall, in whatever order

    def init(self) -> None:
        self.core = len(self.targets)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.core = h_index(delta.values)

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.core)
