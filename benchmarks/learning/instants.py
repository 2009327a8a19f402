"""The time from an instant to the best model of all instances that had arrived by then."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.learning import spark_ml
from benchmarks.learning.data import (
    ALPHA,
    CENTRES,
    SMALL,
    best_hinge,
    check_objective,
    clouds,
    inertia,
    linear_objective,
    two_classes,
)
from benchmarks.learning.learners import warm
from benchmarks.learning.sizes import Sizes
from benchmarks.timing import timed
from vertexsdk.algorithms.learning import KMeans, LinearSVM

KINDS = {"approximating": 1, "batch": 0}  # passes of each `partial_fit`
_SAME = 1e-3  # by which objectives of the same instances may differ
_CONVERGENCE = 300  # iterations, more than there are until MLlib's own
_INERTIA = 0.01  # by which that of k-means may be above MLlib's


@dataclass(frozen=True)
class _Problem:
    """Instances in the order in which they arrive, and their best model.

    ``base``: how many are there at first. ``objective``: of a model, of the first so many.
    ``iterations``: of MLlib, at most, for an objective. ``fit``: its seconds, objective and
    iterations.
    """

    instances: tuple[Any, ...]
    sizes: Sizes
    learner: Callable[[int], Any]
    objective: Callable[[Any, int], float]
    iterations: Callable[[Any, float], int]
    fit: Callable[[Any, int], tuple[float, float, int]]
    within: float

    @property
    def base(self) -> int:
        return self.sizes.instances * 100 // (100 + sum(self.sizes.shares))

    def ends(self) -> list[int]:
        """How many are there at each instant."""
        percents = 100 + np.cumsum(self.sizes.shares)
        return [int(self.base * percent // 100) for percent in percents]

    def part(self, first: int, last: int) -> tuple[Any, ...]:
        return tuple(column[first:last] for column in self.instances)


Beside = Callable[[CaseProcess, _Problem, list[float]], None]
"""Notes the figures of another system, given our objective of each instant."""


def by_mllib(process: CaseProcess, problem: _Problem, objectives: list[float]) -> None:
    """Note seconds and objective of MLlib, from scratch at each instant."""
    sizes = problem.sizes
    spark = spark_ml.session_on(sizes.cores)
    paths, first = [], 0
    X, y = problem.instances[0], problem.instances[-1]
    labels = y if y.ndim == 1 else np.zeros(len(X))
    for last in [problem.base, *problem.ends()]:
        path = process.scratch / f"{last}.parquet"
        paths.append(spark_ml.written(path, X[first:last], labels[first:last]))
        first = last
    for number, share in enumerate(sizes.shares):
        frame = spark_ml.cached(spark, *paths[: number + 2])
        most = problem.iterations(frame, objectives[number])
        answers = [problem.fit(frame, most) for _ in range(sizes.turns)]
        for seconds, objective, iterations in answers:
            process.note(f"mllib {share}", seconds)
            process.note(f"mllib objective {share}", objective)
            process.note(f"mllib iterations {share}", iterations)
        frame.unpersist(blocking=True)
        theirs = statistics.median(objective for _, objective, _ in answers)
        check_objective(f"{share} % more", objectives[number], theirs, problem.within)


def svm(process: CaseProcess, sizes: Sizes, beside: Beside = by_mllib) -> None:
    """Support vector machines; MLlib has as few iterations as lead to our objective."""
    X, y = two_classes(sizes.instances)

    def learner(passes: int) -> Any:
        return LinearSVM(alpha=ALPHA, passes=passes)

    def objective(model: Any, n: int) -> float:
        return linear_objective("hinge", X[:n], y[:n], model.coef_, model.intercept_)

    def iterations(frame: Any, wanted: float) -> int:
        return spark_ml.least_iterations("hinge", frame, (1 + _SAME) * wanted)

    def fit(frame: Any, most: int) -> tuple[float, float, int]:
        took, model = timed(lambda: spark_ml.linear("hinge", most).fit(frame))
        return took, model.summary().objectiveHistory[-1], most

    with learner(0) as small:
        few = X[:SMALL], y[:SMALL]
        exact = small.partial_fit(*few).solve()
        right = best_hinge(*few)
    check_objective("the support vector machine", objective(exact, SMALL), right, _SAME)
    _instants(process, _Problem((X, y), sizes, learner, objective, iterations, fit, _SAME), beside)


def kmeans(process: CaseProcess, sizes: Sizes, beside: Beside = by_mllib) -> None:
    """k-means; MLlib goes on until its own convergence."""
    points = clouds(sizes.instances)
    seeds = iter(range(1, 1 << 30))

    def learner(passes: int) -> Any:
        return KMeans(CENTRES, passes=passes)

    def objective(model: Any, n: int) -> float:
        return inertia(points[:n], model.cluster_centers_)

    def fit(frame: Any, most: int) -> tuple[float, float, int]:
        from pyspark.ml.clustering import KMeans as MeansOfMLlib

        estimator = MeansOfMLlib(k=CENTRES, seed=next(seeds), maxIter=most)
        took, model = timed(lambda: estimator.fit(frame))
        return took, model.summary.trainingCost / frame.count(), model.summary.numIter

    def iterations(frame: Any, wanted: float) -> int:
        return _CONVERGENCE

    _instants(
        process, _Problem((points,), sizes, learner, objective, iterations, fit, _INERTIA), beside
    )


def _instants(process: CaseProcess, problem: _Problem, beside: Beside) -> None:
    """Note seconds of the answers, of learners that take turns, and of what arrives before."""
    sizes = problem.sizes
    warm(problem.learner(1), *problem.part(0, min(1000, problem.base)))
    objectives: list[float] = []
    for turn in range(sizes.turns):
        learners = {kind: problem.learner(passes) for kind, passes in KINDS.items()}
        for learner in learners.values():
            learner.partial_fit(*problem.part(0, problem.base))
            learner.solve()
        first = problem.base
        for share, last in zip(sizes.shares, problem.ends(), strict=True):
            found = {}
            for kind in list(learners)[:: 1 if turn % 2 == 0 else -1]:
                seconds, model = _answer(process, problem, learners[kind], (first, last), share)
                process.note(f"{kind} arriving {share}", seconds[0])
                process.note(f"{kind} {share}", seconds[1])
                process.note(f"{kind} iterations {share}", model.n_iter_)
                found[kind] = problem.objective(model, last)
                if abs(found[kind] - model.objective_) > 1e-6 * found[kind]:
                    raise Wrong(f"an objective is {found[kind]:.6g}, not {model.objective_:.6g}")
            if turn == 0:
                objectives.append(max(found.values()))
                process.note(f"objective {share}", objectives[-1])
            first = last
        for learner in learners.values():
            learner.close()
    beside(process, problem, objectives)


def _answer(
    process: CaseProcess, problem: _Problem, learner: Any, which: tuple[int, int], share: int
) -> tuple[tuple[float, float], Any]:
    """Seconds in which instances arrive, one percent after the other, and of the answer; it."""
    edges = np.linspace(*which, share + 1).astype(int).tolist()
    parts = [problem.part(a, b) for a, b in zip(edges, edges[1:], strict=False)]
    arriving = sum(timed(lambda part=part: learner.partial_fit(*part))[0] for part in parts)
    answering, model = timed(learner.solve)
    return (arriving, answering), model
