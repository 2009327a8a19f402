"""PageRank, and PageRank personalised for one vertex."""

from vertexsdk import Sum, Vertex, VertexId, aggregate, param, state
from vertexsdk.algorithms._edge_weights import EdgeWeights
from vertexsdk.program.vertex import Aggregates, Delta


class PageRank(Vertex):
    """Share of time which a random walker spends at every vertex; all shares add up to 1.

    Definition: with probability `damping` the walker follows one of the n(u) edges out of u, all
        alike, else it jumps to any vertex; from a vertex without edges it always jumps:
        rank(v) = (1-d)·jump(v) + d·(Σ over u→v of rank(u)/n(u) + dangling·jump(v)),
        where jump(v) = 1/n, and `dangling` is the rank of all vertices without edges out.
        With `personalise` every jump leads to that vertex. The result is linear in `jump`: for a
        set of vertices, take the mean of their personalised ranks. An undirected edge leads both
        ways. With `weight="value"` the walker follows an edge with the probability of its value
        divided by the sum of those out of u, in the place of 1/n(u), and a vertex where they add
        up to 0 is as one without edges; by default edge values do not count.
    Parameters: `iterations` to do exactly so many from rank = jump, as LDBC Graphalytics does; or,
        where that is 0, `epsilon`: stop when Σ |change of rank| in an iteration is at most this.
    Converges to: the only fixed point, by a factor of at least `damping` in each iteration.
    Cost: O(m + n) each; about log(epsilon)/log(damping) iterations, 140 with the defaults.
    Source: Page, Brin, Motwani and Winograd (1999); PR of LDBC Graphalytics.

    Example:
        >>> from tests.support.reference import reference
        >>> ranks = reference(PageRank, [(1, 2), (2, 1), (3, 1)]).values("rank")
        >>> [round(rank, 3) for rank in ranks.values()]
        [0.486, 0.464, 0.05]
    """

    damping: float = param(0.85, bounds="(0, 1)")
    iterations: int = param(0)
    epsilon: float = param(1e-10)
    personalise: VertexId | None = param(None)  # an id; None: all vertices alike
    weight: str | None = param(None)  # "value"; None: all edges alike
    rank: float = state(0.0)

    messages = Sum(float)
    dangling = aggregate(Sum(float))
    change = aggregate(Sum(float))

    def jump(self) -> float:
        if self.personalise is None:
            return 1.0 / self.num_vertices
        return 1.0 if self.id == self.personalise else 0.0

    def stuck(self) -> bool:
        return len(self.targets) == 0

    def init(self) -> None:
        self.rank = self.jump()
        if self.stuck():
            self.dangling.contribute(self.rank)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        jump = self.jump()
        followed = delta.value + self.dangling.value * jump
        rank = (1.0 - self.damping) * jump + self.damping * followed
        self.change.contribute(abs(rank - self.rank))
        if self.stuck():
            self.dangling.contribute(rank)
        self.rank = rank

    def scatter(self, iteration: int) -> None:
        if len(self.targets) > 0:
            self.emitAll(self.rank / len(self.targets))

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        if self.iterations > 0:
            return iteration >= self.iterations
        return bool(aggregates.change <= self.epsilon)


class WeightedPageRank(PageRank, EdgeWeights, when={"weight": "value"}):
    """PageRank whose walker follows an edge with the probability of its value.

    Definition: as `PageRank`, with value(u→v) / Σ over edges out of u of their values in the place
        of 1/n(u). An edge without a value counts 1; negative values are refused.
    Cost: O(m + n) each.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 1, 2, 3], [2, 3, 1, 1], [3.0, 1.0, 1.0, 1.0])
        >>> with run("pagerank", graph, weight="value", backend="memory://docs") as result:
        ...     {v: round(rank, 3) for v, rank in result.to_dict().items()}
        {1: 0.486, 2: 0.36, 3: 0.153}
    """

    def stuck(self) -> bool:
        return self.edge_total() == 0.0

    def scatter(self, iteration: int) -> None:
        total = self.edge_total()
        if total > 0.0:
            for target in self.targets:
                self.emit(target, self.rank * (target.value / total))
