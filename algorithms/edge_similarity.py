"""Similarity of the two ends of every edge, by common neighbours."""

import math

import numpy as np
from numpy.typing import NDArray

from vertexsdk import Sum, Vertex, state
from vertexsdk.program.vertex import Delta


class EdgeSimilarity(Vertex):
    """Similarity of the neighbours of an edge's two ends; for a vertex, the mean over its edges.

    Definition: N(v) is the set of neighbours of v, edges taken both ways, without v. For an edge
        between u and v, common = |N(u) ∩ N(v)|, jaccard = common / |N(u) ∪ N(v)|,
        overlap = common / min(|N(u)|, |N(v)|), and
        adamic_adar = Σ over w in N(u) ∩ N(v) of 1 / log |N(w)|. `Result.edges` has them, each edge
        once, from the end with more neighbours (the larger id where they have as many) to the
        other; edges whose ends have nothing in common have no row. `similarity` is the mean of
        jaccard over a vertex's edges.
    How: as `TriangleCount`.
    Converges to: that, after one iteration.
    Cost: Σ over edges of the smaller of the two degrees, O(m·√m) at worst.
    Source: Jaccard (1901); Adamic and Adar, "Friends and neighbors on the Web", Social Networks
        25(3), 2003; Satuluri, Parthasarathy and Ruan, "Local graph sparsification for scalable
        clustering", SIGMOD 2011.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 2, 3, 4], [2, 3, 1, 3])
        >>> with run("edge_similarity", graph, backend="memory://docs") as result:
        ...     result.edges().select(["source", "target", "overlap"]).to_pylist()[0]
        {'source': 2, 'target': 1, 'overlap': 0.5}
    """

    similarity: float = state(0.0)
    counted: float = state(0.0)  # similarities of edges that it computed itself
    note: NDArray[np.float64] = state(0.0, size=4)

    messages = Sum(float, size=4)
    edge_values = ("common", "jaccard", "overlap", "adamic_adar")
    direction = "undirected"
    max_iterations = 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        degree = len(self.targets)
        self.similarity = (self.counted + delta.value[1]) / degree if degree > 0 else 0.0

    def scatter(self, iteration: int) -> None:
        if iteration == 0:
            degree = len(self.targets)
            for target in self.targets:
                other = len(target.targets)
                if other < degree or (other == degree and target.id < self.id):
                    common, weight = 0, 0.0
                    for third in target.targets:
                        if self.edges_to(third) > 0:
                            common += 1
                            weight += 1.0 / math.log(len(third.targets))
                    self.note[0] = common
                    self.note[1] = common / (degree + other - common)
                    self.note[2] = common / min(degree, other)
                    self.note[3] = weight
                    self.counted += self.note[1]
                    self.emit(target, self.note)
