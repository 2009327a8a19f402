"""Personalised PageRank for a set of vertices."""

from vertexsdk import Sum, Vertex, aggregate, param, state
from vertexsdk.algorithms._edge_weights import EdgeWeights
from vertexsdk.program.vertex import Aggregates, Delta


class PersonalisedPageRank(Vertex):
    """Share of time which a random walker spends at a vertex, who jumps to some vertices only.

    Definition: rank(v) = (1-d)·jump(v) + d·(Σ over u→v of rank(u)/n(u) + dangling·jump(v)), for
        damping d, as in `PageRank`; but `jump` is a vertex attribute, the probability of each
        vertex to be jumped to. It is 0 for vertices without one, and adds up to 1. With
        `weight="value"` an edge is followed with the probability of its value, as in `PageRank`.
    Parameters: `damping`; `epsilon`: stop when Σ |change of rank| in an iteration is at most this.
    Converges to: the only fixed point, by a factor of at least `damping` in each iteration.
    Cost: O(m + n) each; about log(epsilon)/log(damping) iterations, 140 with the defaults.
    Source: Haveliwala, "Topic-sensitive PageRank", WWW 2002.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 2, 3], [2, 1, 1])
        >>> graph = graph.with_attributes({"id": [1, 2], "jump": [0.5, 0.5]})
        >>> with run("ppr", graph, backend="memory://docs") as result:
        ...     result.histogram(1)["count"].to_pylist(), round(result.to_dict()[1], 3)
        ([3], 0.5)
    """

    damping: float = param(0.85, bounds="(0, 1)")
    epsilon: float = param(1e-10)
    weight: str | None = param(None)  # "value"; None: all edges alike
    rank: float = state(0.0)
    jump: float = state(0.0, bounds="[0, 1]")

    messages = Sum(float)
    dangling = aggregate(Sum(float))
    change = aggregate(Sum(float))
    jumps = aggregate(Sum(float))

    def stuck(self) -> bool:
        return len(self.targets) == 0

    def init(self) -> None:
        self.rank = self.jump
        self.jumps.contribute(self.jump)
        self.change.contribute(1.0)
        if self.stuck():
            self.dangling.contribute(self.rank)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        followed = delta.value + self.dangling.value * self.jump
        rank = (1.0 - self.damping) * self.jump + self.damping * followed
        self.change.contribute(abs(rank - self.rank))
        self.jumps.contribute(self.jump)
        if self.stuck():
            self.dangling.contribute(rank)
        self.rank = rank

    def scatter(self, iteration: int) -> None:
        if len(self.targets) > 0:
            self.emitAll(self.rank / len(self.targets))

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        given = self.num_vertices > 0 and aggregates.jumps < 1e300
        if given and abs(aggregates.jumps - 1.0) > 1e-6:
            raise ValueError(
                f"the vertex attribute jump adds up to {aggregates.jumps:g}: make it add up to 1, "
                'e.g. graph.with_attributes({"id": ids, "jump": [1 / len(ids)] * len(ids)})'
            )
        return bool(aggregates.change <= self.epsilon)


class WeightedPersonalisedPageRank(PersonalisedPageRank, EdgeWeights, when={"weight": "value"}):
    """Personalised PageRank whose walker follows an edge with the probability of its value.

    Definition: as `PersonalisedPageRank`, with value(u→v) / Σ over edges out of u of their values
        in the place of 1/n(u). An edge without a value counts 1; negative values are refused.
    Cost: O(m + n) each.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 1, 2, 3], [2, 3, 1, 1], [3.0, 1.0, 1.0, 1.0])
        >>> graph = graph.with_attributes({"id": [1], "jump": [1.0]})
        >>> with run("ppr", graph, weight="value", backend="memory://docs") as result:
        ...     {v: round(rank, 3) for v, rank in result.to_dict().items()}
        {1: 0.541, 2: 0.345, 3: 0.115}
    """

    def stuck(self) -> bool:
        return self.edge_total() == 0.0

    def scatter(self, iteration: int) -> None:
        total = self.edge_total()
        if total > 0.0:
            for target in self.targets:
                self.emit(target, self.rank * (target.value / total))
