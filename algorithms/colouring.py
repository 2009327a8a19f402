"""Greedy colouring."""

import numpy as np

from vertexsdk import Latest, Vertex, state
from vertexsdk.program.vertex import Delta


class GreedyColouring(Vertex):
    """A colour for every vertex, from 0, such that no two neighbours have the same.

    Definition: vertices have an order that is drawn at random, from the run's seed. Taken in this
        order, a vertex gets the smallest colour that no neighbour has yet; so at most one colour
        more than the largest degree. Edges are taken both ways, and self-loops do not count.
    Converges to: these colours, whatever they are at first; after i iterations they are right where
        the longest chain of neighbours that come ever earlier in the order has i vertices.
    Cost: O(log n) iterations with high probability where degrees are bounded; a vertex is looked at
        where a neighbour's colour has changed.
    Source: Jones and Plassmann, "A parallel graph coloring heuristic", SIAM J. Sci. Comput. 14(3),
        1993.

    Example:
        >>> from vertexsdk import Graph, run
        >>> triangle = Graph.from_arrays([1, 2, 3], [2, 3, 1])
        >>> with run("colouring", triangle, backend="memory://docs") as result:
        ...     sorted(result.to_dict().values())
        [0, 1, 2]
    """

    colour: int = state(0)
    order: int = state(0)

    messages = Latest(int)
    direction = "undirected"

    def init(self) -> None:
        self.order = int(self.random() * 4294967296)
        self.colour = 0

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        # All neighbours send, so values are in the order of targets.
        degree = len(self.targets)
        taken = np.zeros(degree + 1, np.int64)
        k = 0
        for target in self.targets:
            order, colour = delta.values[k] >> 31, int(delta.values[k] & 2147483647)
            earlier = order < self.order or (order == self.order and target.id < self.id)
            if earlier and colour <= degree:
                taken[colour] = 1
            k += 1
        colour = 0
        while taken[colour] == 1:
            colour += 1
        self.colour = colour

    def scatter(self, iteration: int) -> None:
        self.emitAll((self.order << 31) + self.colour)
