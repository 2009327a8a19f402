"""Katz centrality."""

from vertexsdk import Sum, Vertex, aggregate, param, state
from vertexsdk.algorithms._edge_weights import EdgeWeights
from vertexsdk.program.vertex import Aggregates, Delta


class KatzCentrality(Vertex):
    """Number of walks that lead to a vertex, where a walk of k edges counts alpha^k.

    Definition: score(v) = beta + alpha·Σ over u→v of score(u), not divided by its length. With
        `weight="value"` it is beta + alpha·Σ of value(u→v)·score(u); by default edge values do not
        count.
    Parameters: `alpha`, below 1/λ for the largest eigenvalue λ of the adjacency matrix, which is
        at most the largest in-degree (with weights: sum of values of edges in); `beta`; `epsilon`:
        stop when Σ |change of score| in an iteration is at most this.
    Converges to: the only fixed point, by a factor of about alpha·λ in each iteration. With a
        larger alpha scores grow until the run fails.
    Cost: O(m + n) each.
    Source: Katz, "A new status index derived from sociometric analysis", Psychometrika 18, 1953.

    Example:
        >>> from tests.support.reference import reference
        >>> reference(KatzCentrality, [(1, 2), (2, 3)], params={"alpha": 0.5}).values("score")
        {1: 1.0, 2: 1.5, 3: 1.75}
    """

    alpha: float = param(0.1)
    beta: float = param(1.0)
    epsilon: float = param(1e-9)
    weight: str | None = param(None)  # "value"; None: all edges alike
    score: float = state(0.0)

    messages = Sum(float)
    change = aggregate(Sum(float))

    def init(self) -> None:
        self.score = self.beta
        self.change.contribute(abs(self.beta))

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        score = self.beta + self.alpha * delta.value
        self.change.contribute(abs(score - self.score))
        self.score = score

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.score)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        if aggregates.change != aggregates.change:
            raise ValueError(
                f"scores grow beyond all bounds: alpha is {self.alpha}, make it less than 1 "
                "divided by the largest eigenvalue of the graph (the largest in-degree, or sum of "
                "values of edges in, is enough)"
            )
        return bool(aggregates.change <= self.epsilon)


class WeightedKatzCentrality(KatzCentrality, EdgeWeights, when={"weight": "value"}):
    """Katz centrality, where a walk counts alpha^k times the product of its k edges' values.

    Definition: score(v) = beta + alpha·Σ over u→v of value(u→v)·score(u). An edge without a value
        counts 1; negative values are refused.
    Cost: O(m + n) each.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 2], [2, 3], [2.0, 1.0])
        >>> options = {"alpha": 0.5, "weight": "value", "backend": "memory://docs"}
        >>> with run("katz", graph, **options) as result:
        ...     result.to_dict()
        {1: 1.0, 2: 2.0, 3: 2.0}
    """

    def init(self) -> None:
        self.edge_total()  # which refuses values
        self.score = self.beta
        self.change.contribute(abs(self.beta))

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.score * target.value)
