"""The number of cycles of length four at every vertex."""

import numpy as np

from vertexsdk import Sum, Vertex, state
from vertexsdk.program.vertex import Delta


class SquareCount(Vertex):
    """Number of cycles of four edges through a vertex.

    Definition: a square is four different vertices a, b, c, d with edges a-b, b-c, c-d and d-a, in
        either direction; duplicates and self-loops do not count, edges a-c and b-d do not matter.
        The sum over all vertices is four times the number of squares of the graph.
    How: k ways of two edges to the same vertex make k·(k-1)/2 squares.
    Converges to: that number, after one iteration.
    Cost: Σ over vertices of the square of the degree: long where some have very many neighbours.
    Source: Harary and Manvel, "On the number of cycles in a graph", Matematický časopis 21(1),
        1971.

    Example:
        >>> from tests.support.reference import reference
        >>> edges = [(1, 2), (2, 3), (3, 4), (4, 1), (1, 3)]
        >>> reference(SquareCount, edges).values("squares")
        {1: 1, 2: 1, 3: 1, 4: 1}
    """

    squares: int = state(0)

    messages = Sum(int)
    direction = "undirected"
    max_iterations = 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        most = 0
        for target in self.targets:
            most += len(target.targets)
        size = 2
        while size < 2 * min(most, self.num_vertices):
            size *= 2
        free = self.id  # marks a free place, as no way leads back
        names = [free] * size
        ways = np.zeros(size, np.int64)
        for target in self.targets:
            for other in target.targets:
                if other.id != self.id:
                    name = other.id
                    number = hash(name)
                    place = (number ^ (number >> 9) ^ (number >> 23)) & (size - 1)
                    while names[place] != name and names[place] != free:
                        place = (place + 1) & (size - 1)
                    names[place] = name
                    self.squares += ways[place]
                    ways[place] += 1

    def scatter(self, iteration: int) -> None:
        pass
