"""Maximal independent set."""

from vertexsdk import Latest, Vertex, state
from vertexsdk.program.vertex import Delta


class MaximalIndependentSet(Vertex):
    """Membership of a vertex in a maximal set of vertices of which no two are joined.

    Definition: vertices have an order that is drawn at random, from the run's seed. Taken in this
        order, a vertex is selected unless it is joined to one that was selected before. Edges are
        taken both ways, and self-loops do not count.
    Converges to: that set, whatever vertices are assumed to be selected at first; after i
        iterations it is right where the longest chain of neighbours that come ever earlier in the
        order has i vertices.
    Cost: O(log² n) iterations with high probability; a vertex is looked at where a neighbour has
        changed.
    Source: Luby, "A simple parallel algorithm for the maximal independent set problem", SIAM J.
        Comput. 15(4), 1986; that the order makes it unique, and the number of iterations: Blelloch,
        Fineman and Shun, "Greedy sequential maximal independent set and matching are parallel on
        average", SPAA 2012.

    Example:
        >>> from vertexsdk import Graph, run
        >>> star = Graph.from_arrays([1, 1, 1], [2, 3, 4])
        >>> with run("mis", star, backend="memory://docs") as result:
        ...     sum(result.to_dict().values()) in (1, 3)
        True
    """

    selected: bool = state(True)
    order: int = state(0)

    messages = Latest(int)
    direction = "undirected"

    def init(self) -> None:
        self.order = int(self.random() * 4611686018427387904)
        self.selected = True

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        # All neighbours send, so values are in the order of targets.
        selected = True
        k = 0
        for target in self.targets:
            order = delta.values[k] >> 1
            earlier = order < self.order or (order == self.order and target.id < self.id)
            if earlier and delta.values[k] & 1 == 1:
                selected = False
            k += 1
        self.selected = selected

    def scatter(self, iteration: int) -> None:
        self.emitAll(2 * self.order + (1 if self.selected else 0))
