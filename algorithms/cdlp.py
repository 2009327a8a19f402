"""Community detection by synchronous label propagation."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk import INT_MAX, Latest, Vertex, VertexId, param, state
from vertexsdk.program.vertex import Aggregates, Delta


def most_frequent(labels: NDArray[np.int64]) -> Any:
    """Return the label that occurs most often, the smallest of those where several do.

    >>> int(most_frequent(np.array([7, 3, 7, 3, 9])))
    3
    """
    ordered = np.sort(labels)
    best = ordered[0]
    most = 0
    count = 0
    for k in range(len(ordered)):
        count = count + 1 if k > 0 and ordered[k] == ordered[k - 1] else 1
        if count > most:
            most = count
            best = ordered[k]
    return best


class LabelPropagation(Vertex):
    """Community label of every vertex after `iterations` rounds.

    Definition: every vertex starts with its id; in each round, all at once, it takes the label
        that is most frequent among its neighbours, the smallest one where several are. On a
        directed graph neighbours are taken both ways, and one who is joined by several edges counts
        several times. A vertex without neighbours keeps its id. The id 2**63 - 1
        is refused.
    Converges to: need not converge (two vertices may swap labels for ever), hence the rounds.
    Cost: O(m log d) each; a vertex is looked at where a neighbour's label has changed.
    Source: Raghavan, Albert and Kumara (2007), made deterministic as CDLP of LDBC Graphalytics.

    Example:
        >>> from tests.support.reference import reference
        >>> edges = [(1, 2), (2, 3), (3, 1), (4, 5), (5, 6), (6, 4)]
        >>> reference(LabelPropagation, edges).values("label")
        {1: 1, 2: 1, 3: 1, 4: 4, 5: 4, 6: 4}
    """

    iterations: int = param(10)
    label: VertexId = state()

    messages = Latest(VertexId)
    direction = "both"

    def init(self) -> None:
        if self.id == INT_MAX:  # which stands for no message
            raise ValueError("cdlp needs ids below 9223372036854775807: relabel that vertex")
        self.label = self.id

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.label = most_frequent(delta.values) if len(delta.values) > 0 else self.id

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.label)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        return iteration >= self.iterations
