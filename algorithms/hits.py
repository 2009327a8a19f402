"""Hubs and authorities (HITS)."""

from vertexsdk import Sum, Vertex, aggregate, inf, param, state
from vertexsdk.program.vertex import Aggregates, Delta


class HubsAndAuthorities(Vertex):
    """Value of a vertex as a list of vertices (`hub`), and as an entry of lists (`authority`).

    Definition: authority(v) is proportional to Σ over u→v of hub(u), and hub(u) to Σ over u→v of
        authority(v); each adds up to 1. On an undirected graph both are the same. With
        `weight="value"` an edge counts as often as its value says; by default values do not count.
    Parameters: `epsilon`: stop when Σ |change| of one of them in two iterations is at most this;
        `rounds`: the run fails after so many iterations.
    Converges to: the first pair of singular vectors of the adjacency matrix, by the ratio of the
        two largest singular values in each iteration. In turns, hubs send along edges and
        authorities against them.
    Cost: O(m + n) each.
    Source: Kleinberg, "Authoritative sources in a hyperlinked environment", JACM 46(5), 1999.

    Example:
        >>> from tests.support.reference import reference
        >>> hubs = reference(HubsAndAuthorities, [(1, 2), (1, 3), (4, 3)]).values("hub")
        >>> {v: round(hub, 3) for v, hub in hubs.items()}
        {1: 0.618, 2: 0.0, 3: 0.0, 4: 0.382}
    """

    epsilon: float = param(1e-10)
    rounds: int = param(1_000)
    weight: str | None = param(None)  # "value"; None: all edges alike
    hub: float = state(0.0)
    authority: float = state(0.0)
    raw: float = state(1.0)  # the newer of both, before division by the sum over all vertices
    directed: bool = state(False)

    messages = Sum(float)
    direction = "both"
    total = aggregate(Sum(float))
    change = aggregate(Sum(float))
    reverses = aggregate(any)

    def init(self) -> None:
        self.total.contribute(self.raw)
        self.change.contribute(1.0)
        for target in self.targets:
            self.reverses.contribute(target.reverse)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if iteration == 1:
            self.directed = self.reverses.value
        total = self.total.value if self.total.value > 0.0 else 1.0
        share = self.raw / total
        if iteration % 2 == 1:
            self.change.contribute(abs(share - self.hub))
            self.hub = share
        else:
            self.change.contribute(abs(share - self.authority))
            self.authority = share
        self.raw = delta.value / total
        self.total.contribute(self.raw)

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            away = target.reverse == (iteration % 2 == 1)
            self.emit(target, self.raw if away or not self.directed else 0.0)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        if aggregates.change <= self.epsilon:
            return True
        if iteration >= self.rounds:
            raise ValueError(
                f"no convergence after {self.rounds} iterations: raise epsilon or rounds"
            )
        return False


class WeightedHubsAndAuthorities(HubsAndAuthorities, when={"weight": "value"}):
    """Hubs and authorities, where an edge counts as often as its value says.

    Definition: authority(v) is proportional to Σ over u→v of value(u→v)·hub(u), and hub(u) to Σ
        over u→v of value(u→v)·authority(v). An edge without a value counts 1; negative values are
        refused.
    Cost: O(m + n) each.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 1, 4], [2, 3, 3], [1.0, 1.0, 3.0])
        >>> with run("hits", graph, weight="value", backend="memory://docs") as result:
        ...     {v: round(hub, 3) for v, hub in result.to_dict().items()}
        {1: 0.27, 2: 0.0, 3: 0.0, 4: 0.73}
    """

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            away = target.reverse == (iteration % 2 == 1)
            if iteration == 0 and not target.reverse and not 0.0 <= target.value < inf:
                raise ValueError("with weight='value' edge values are finite numbers from 0 up")
            followed = away or not self.directed
            self.emit(target, self.raw * target.value if followed else 0.0)
