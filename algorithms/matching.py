"""Maximal matching."""

from vertexsdk import Latest, Vertex, VertexId, state
from vertexsdk.program.vertex import Delta

MATCHED = -1


class MaximalMatching(Vertex):
    """The vertex with which a vertex is paired; itself if it is alone.

    Definition: pairs are joined, no vertex is in two, and no two joined vertices are alone. Edges
        have an order that follows from numbers drawn at random for their ends, from the run's seed.
        Taken in this order, an edge pairs its ends unless one of them is in a pair. Edges are taken
        both ways, and self-loops do not count.
    How: in turns. A vertex that is not in a pair sends its number; then the number of the neighbour
        to which the edge comes first. Two that name each other are a pair.
    Converges to: that matching, if no two vertices that share a neighbour draw the same 62 bits.
    Cost: O(log² n) iterations with high probability, each looks at the neighbours of those who are
        not in a pair.
    Source: Israeli and Itai, "A fast and simple randomized parallel algorithm for maximal
        matching", Inf. Process. Lett. 22(2), 1986; with an order of edges, Blelloch, Fineman and
        Shun, "Greedy sequential maximal independent set and matching are parallel on average",
        SPAA 2012.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 3], [2, 3])
        >>> with run("matching", graph, backend="memory://docs") as result:
        ...     result.to_dict()
        {1: 2, 2: 1, 3: 3}
    """

    mate: VertexId = state()
    matched: bool = state(False)
    number: int = state(0)
    wanted: int = state(MATCHED)  # the number of the neighbour to which the first edge leads
    candidate: VertexId = state()  # this neighbour

    messages = Latest(int)
    direction = "undirected"

    def init(self) -> None:
        self.number = int(self.random() * 4611686018427387904)
        self.mate = self.id
        self.candidate = self.id

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if self.matched:
            return
        # All neighbours send, so values are in the order of targets.
        k = 0
        if iteration % 2 == 1:
            best = 0
            self.wanted = MATCHED
            for target in self.targets:
                other = int(delta.values[k])
                if other != MATCHED:
                    place = ((self.number ^ other) * -7046029254386353131) & 9223372036854775807
                    if self.wanted == MATCHED or place < best:
                        best = place
                        self.wanted = other
                        self.candidate = target.id
                k += 1
        else:
            for target in self.targets:
                if target.id == self.candidate and delta.values[k] == self.number:
                    self.matched = True
                    self.mate = self.candidate
                k += 1

    def scatter(self, iteration: int) -> None:
        if self.matched:
            self.emitAll(MATCHED)
        elif iteration % 2 == 0:
            self.emitAll(self.number)
        else:
            self.emitAll(self.wanted)
