"""What a partitioner sees of a graph: who is joined to whom, whichever way the edges point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit


@dataclass(frozen=True, slots=True)
class Structure:
    """The undirected adjacency of a graph, without loops and parallel edges.

    The neighbours of vertex v are `target[start[v]:start[v + 1]]`; v is an index of `ids`.
    """

    ids: NDArray[Any]  # [n] ascending; int64, or strings as objects
    start: NDArray[np.int64]  # [n + 1]
    target: NDArray[np.int32]  # [2 m]

    @property
    def n(self) -> int:
        """The number of vertices."""
        return len(self.ids)

    @property
    def weight(self) -> NDArray[np.int64]:
        """What a vertex adds to its partition (int64[n]): itself and its edges."""
        return 1 + np.diff(self.start)

    def order(self) -> NDArray[np.int32]:
        """All vertices (int32[n]), breadth first: component by component, each from its rim.

        A first search finds the vertex of each component that is last reached; the second begins
        there, so that its levels, which are put in partitions one after the other, are narrow.
        """
        search: Any = _search
        first = search(self.start, self.target, np.arange(self.n, dtype=np.int32))
        last: NDArray[np.int32] = search(self.start, self.target, first[::-1].copy())
        return last

    def load(self, partition: NDArray[np.int32], partitions: int) -> NDArray[np.int64]:
        """The weight in each partition (int64[P]) if vertex v is in `partition[v]`."""
        return np.bincount(partition, self.weight, partitions).astype(np.int64)


@njit
def _search(start, target, roots):  # type: ignore[no-untyped-def]
    """Return the vertices in breadth-first order, begun anew from the next root not reached."""
    n = len(roots)
    seen = np.zeros(n, np.bool_)
    order = np.empty(n, np.int32)
    done = reached = 0
    for root in roots:
        if seen[root]:
            continue
        seen[root] = True
        order[reached] = root
        reached += 1
        while done < reached:
            v = order[done]
            done += 1
            for e in range(start[v], start[v + 1]):
                u = target[e]
                if not seen[u]:
                    seen[u] = True
                    order[reached] = u
                    reached += 1
    return order
