"""Similarity of all vertices to one, by common neighbours."""

import math

import numpy as np
from numpy.typing import NDArray

from vertexsdk import Sum, Vertex, VertexId, param, state
from vertexsdk.program.vertex import Delta


class Similarity(Vertex):
    """Similarity of a vertex's neighbours to those of `origin`.

    Definition: N(v) is the set of neighbours of v, edges taken both ways, without v; then
        common(v) = |N(v) ∩ N(origin)|, jaccard = common / |N(v) ∪ N(origin)|,
        overlap = common / min(|N(v)|, |N(origin)|), and
        adamic_adar = Σ over w in N(v) ∩ N(origin) of 1 / log |N(w)|.
        Each is 0 where nothing is common, and of `origin` itself they are those of equal sets.
    How: the neighbours of `origin` know of its degree in iteration 1, theirs in iteration 2.
    Converges to: that, after two iterations.
    Cost: one message along every edge of `origin` and of its neighbours.
    Source: Liben-Nowell and Kleinberg, "The link prediction problem for social networks", CIKM
        2003; Adamic and Adar, "Friends and neighbors on the Web", Social Networks 25(3), 2003.

    Example:
        >>> from tests.support.reference import reference
        >>> edges = [(1, 2), (1, 3), (4, 2), (4, 3), (4, 5)]
        >>> reference(Similarity, edges, params={"origin": 1}).values("jaccard")
        {1: 1.0, 2: 0.0, 3: 0.0, 4: 0.6666666666666666, 5: 0.0}
    """

    origin: VertexId = param()
    jaccard: float = state(0.0)
    overlap: float = state(0.0)
    adamic_adar: float = state(0.0)
    common: int = state(0)
    # What is sent: (0, degree of `origin`, 0) by `origin`; by its neighbours (1, that, 1/log |N|).
    note: NDArray[np.float64] = state(0.0, size=3)

    messages = Sum(float, size=3)
    direction = "undirected"

    def init(self) -> None:
        if self.id == self.origin:
            self.note[1] = len(self.targets)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        degree = len(self.targets)
        if iteration == 1:
            self.note[0] = 1.0 if delta.value[1] > 0.0 else 0.0
            self.note[1] = delta.value[1]
            self.note[2] = 1.0 / math.log(degree) if delta.value[1] > 0.0 and degree > 1 else 0.0
        elif iteration == 2:
            self.common = int(delta.value[0])
            if self.common > 0:
                other = delta.value[1] / delta.value[0]
                self.jaccard = self.common / (degree + other - self.common)
                self.overlap = self.common / min(degree, other)
                self.adamic_adar = delta.value[2]

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.note)
