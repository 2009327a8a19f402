"""Hubs and authorities (HITS)."""

import numpy as np
from numpy.typing import NDArray

from vertexsdk import Sum, Vertex, aggregate, param, state
from vertexsdk.program.vertex import Aggregates, Delta


class HubsAndAuthorities(Vertex):
    """How good a vertex is as a list of vertices (`hub`), and as an entry of lists (`authority`).

    Definition: authority(v) is proportional to Σ over u→v of hub(u), and hub(u) to Σ over u→v of
        authority(v); each adds up to 1. Edge values do not count. On an undirected graph both are
        the same.
    Parameters: `epsilon`: stop when Σ |change| of both in an iteration is at most this; `rounds`:
        the run fails after so many iterations.
    Converges to: the first pair of singular vectors of the adjacency matrix, by the square of the
        ratio of the two largest singular values in each iteration.
    Cost: O(m + n) each.
    Source: Kleinberg, "Authoritative sources in a hyperlinked environment", JACM 46(5), 1999.

    Example:
        >>> from tests.support.reference import reference
        >>> hubs = reference(HubsAndAuthorities, [(1, 2), (1, 3), (4, 3)]).values("hub")
        >>> {v: round(hub, 3) for v, hub in hubs.items()}
        {1: 0.618, 2: 0.0, 3: 0.0, 4: 0.382}
    """

    epsilon: float = param(1e-10)
    rounds: int = param(10_000)
    hub: float = state(0.0)
    authority: float = state(0.0)
    # Before division by their sums, which all vertices know one iteration later: (hub, 0) is
    # sent along edges and (0, authority) against them.
    forward: NDArray[np.float64] = state(0.0, size=2)
    backward: NDArray[np.float64] = state(0.0, size=2)

    messages = Sum(float, size=2)
    direction = "both"
    hubs = aggregate(Sum(float))
    authorities = aggregate(Sum(float))
    change = aggregate(Sum(float))
    directed = aggregate(any)

    def init(self) -> None:
        self.forward[0] = 1.0
        self.backward[1] = 1.0
        self.share()
        self.change.contribute(2.0)

    def share(self) -> None:
        self.hubs.contribute(self.forward[0])
        self.authorities.contribute(self.backward[1])
        for target in self.targets:
            self.directed.contribute(target.reverse)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        hubs = self.hubs.value if self.hubs.value > 0.0 else 1.0
        authorities = self.authorities.value if self.authorities.value > 0.0 else 1.0
        hub, authority = self.forward[0] / hubs, self.backward[1] / authorities
        self.change.contribute(abs(hub - self.hub) + abs(authority - self.authority))
        self.hub = hub
        self.authority = authority
        self.backward[1] = delta.value[0] / hubs
        self.forward[0] = delta.value[1] / authorities
        if not self.directed.value:
            self.forward[0] = self.backward[1]
        self.share()

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            if target.reverse:
                self.emit(target, self.backward)
            else:
                self.emit(target, self.forward)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        if aggregates.change <= self.epsilon:
            return True
        if iteration >= self.rounds:
            raise ValueError(
                f"no convergence after {self.rounds} iterations: raise epsilon or rounds"
            )
        return False
