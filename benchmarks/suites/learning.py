"""Suite ``learning``: models of instances that arrive, beside systems that learn anew."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks import cells
from benchmarks.answers import Wrong
from benchmarks.document import Chart, Table, lines
from benchmarks.options import option
from benchmarks.runner import CaseProcess, SuiteResults
from benchmarks.suite import CaseSuite, Parts, filled, grouped
from benchmarks.targets import Target, ratio
from benchmarks.timing import timed
from vertexsdk import session
from vertexsdk.algorithms.learning import KMeans, LinearSVM, LogisticSGD


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    points: int = option(1_000_000, "of logistic regression")
    passes: int = option(10, "over them, for points/s")
    most: int = option(50, "passes to 1.01 × the best loss, at most")
    instances: int = option(300_000, "at the last instant")
    shares: tuple[int, ...] = option((1, 5, 10, 20), "percent that arrive: 1,5,10,20")
    stream: int = option(100_000, "instances of a stream, for rates")
    columns: int = option(141_000, "of the bags of words among these")
    batches: int = option(20, "of the stream")
    turns: int = option(3, "of what is timed more than once")
    cores: int = 2


ALPHA = 1e-4  # of the regulariser, in all linear models


CENTRES = 10


SMALL = 2000  # instances for which scikit-learn finds the best support vector machine soon


_FEATURES, _APART = 28, 0.75  # of HIGGS; how far the means of the classes are apart


_DIMENSIONS, _SPREAD = 20, 0.5  # of points; of their centres, where that of points is 1


_WORDS = 60  # of a document


_STRENGTH = 4.0  # of what words say about the class


Array = npt.NDArray[Any]


def two_classes(n: int) -> tuple[Array, Array]:
    """Draw instances of two classes that overlap: float64[n, 28], and 0 or 1 for each."""
    rng = np.random.default_rng(28)
    direction = rng.normal(size=_FEATURES)
    direction *= _APART / np.linalg.norm(direction)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, _FEATURES)) + (y[:, None] - 0.5) * direction, y


def clouds(n: int) -> Array:
    """Draw points around 10 centres, which overlap: float64[n, 20]."""
    rng = np.random.default_rng(20)
    centres = _SPREAD * rng.normal(size=(CENTRES, _DIMENSIONS))
    return centres[rng.integers(0, CENTRES, n)] + rng.normal(size=(n, _DIMENSIONS))


def bags_of_words(n: int, columns: int) -> tuple[Any, Array]:
    """Draw documents of 60 words by Zipf's law: a CSR matrix of rows of length 1, and 0 or 1."""
    rng = np.random.default_rng(141)
    shares = np.cumsum(1.0 / np.arange(1, columns + 1))
    words = np.searchsorted(shares, shares[-1] * rng.random(n * _WORDS)).astype(np.int32)
    first = np.arange(n + 1, dtype=np.int32) * _WORDS
    rows = sparse.csr_array((np.ones(n * _WORDS), words, first), shape=(n, columns))
    rows.sum_duplicates()
    lengths = np.sqrt(np.add.reduceat(rows.data**2, rows.indptr[:-1]))
    rows.data /= np.repeat(lengths, np.diff(rows.indptr))
    scores = _STRENGTH * (rows @ rng.normal(size=columns))
    return rows, (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(np.int64)


def linear_objective(loss: str, X: Any, y: Array, coef: Any, intercept: Any) -> float:
    """Return the mean loss, "log" or "hinge", plus ``ALPHA / 2`` times the squares of weights."""
    w = np.ravel(coef)
    margins = (2 * y - 1) * (X @ w + float(np.ravel(intercept)[0]))
    losses = np.maximum(0.0, 1 - margins) if loss == "hinge" else np.logaddexp(0.0, -margins)
    return float(losses.mean() + ALPHA / 2 * (w @ w))


def inertia(points: Array, centres: Any) -> float:
    """Return the mean of the squared distances to the nearest of the centres."""
    centres = np.asarray(centres)
    halves = (centres**2).sum(axis=1) / 2 - points @ centres.T
    return float((points**2).sum(axis=1).mean() + 2 * halves.min(axis=1).mean())


def best_logistic(X: Any, y: Array) -> float:
    """Return the objective of the best logistic regression, by scikit-learn."""
    model = LogisticRegression(C=1 / (ALPHA * len(y)), tol=1e-7, max_iter=1000).fit(X, y)
    return linear_objective("log", X, y, model.coef_, model.intercept_)


def best_hinge(X: Any, y: Array) -> float:
    """Return the objective of the best support vector machine, by scikit-learn; of `SMALL` rows."""
    model = SVC(kernel="linear", C=1 / (ALPHA * len(y)), tol=1e-4).fit(X, y)
    return linear_objective("hinge", X, y, model.coef_, model.intercept_)


def check_objective(what: str, found: float, right: float, within: float) -> None:
    """Compare an objective with that of another system; it may be lower.

    Raises:
        Wrong: it is higher by more than the part ``within``.
    """
    if not found <= (1 + within) * right:
        raise Wrong(f"the objective of {what} is {found:.6g}, and could be {right:.6g}")


def warm(learner: Any, *instances: Any) -> None:
    """Have a learner do everything once with a few instances, and close it."""
    with learner:
        learner.set_params(passes=2).partial_fit(*instances)
        learner.solve()
        learner.partial_fit(*instances)
        with learner.fork() as branch:
            branch.solve()


_HEAP = "6g"


def session_on(cores: int) -> Any:
    """Return a session on so many cores."""
    return session(f"local[{cores}]", **{"spark.driver.memory": _HEAP})


def written(path: Path, X: Any, y: Any) -> str:
    """Write instances as Parquet, for `cached`."""
    flat = pa.array(np.ascontiguousarray(X, np.float64).ravel())
    rows = pa.ListArray.from_arrays(np.arange(len(X) + 1, dtype=np.int32) * X.shape[1], flat)
    pq.write_table(pa.table({"label": pa.array(y, pa.float64()), "x": rows}), path)
    return str(path)


def cached(spark: Any, *paths: str) -> Any:
    """Return the instances of files as a DataFrame, all of it in memory."""
    from pyspark.ml.functions import array_to_vector

    cores = spark.sparkContext.defaultParallelism
    frame = spark.read.parquet(*paths).select("label", array_to_vector("x").alias("features"))
    frame = frame.repartition(cores).cache() if cores > 1 else frame.coalesce(1).cache()
    frame.count()
    return frame


def linear(loss: str, iterations: int = 100) -> Any:
    """Return the estimator of a linear model with the objective of ours; "log" or "hinge"."""
    from pyspark.ml.classification import LinearSVC, LogisticRegression

    kind = LinearSVC if loss == "hinge" else LogisticRegression
    return kind(regParam=ALPHA, standardization=False, maxIter=iterations)


def least_iterations(loss: str, frame: Any, wanted: float) -> int:
    """Return how many iterations lead to an objective, or to MLlib's own convergence."""
    model = linear(loss).fit(frame)
    summary = model.summary() if callable(model.summary) else model.summary
    history = list(summary.objectiveHistory)
    return next((k for k, value in enumerate(history) if value <= wanted), len(history) - 1)


NEAR = 1.01  # times the best loss


_EXACT = 1e-3  # of the answer of `solve`, whose own tolerance is 1e-4


_RIVER = 20_000  # points, one by one in Python


def points_by_ours(process: CaseProcess, sizes: Sizes) -> None:
    """By a `LogisticSGD` in this process, one partition, whose sample has all instances.

    What is timed with the instances there is on forks, which begin as the learner did. A call of
    `partial_fit` needs an instance: the first one is given again. BLAS has one thread, and `exact`
    is also noted with as many as it takes by itself.
    """
    X, y = two_classes(sizes.points)
    with threadpool_limits(1):
        _in_turns(process, sizes, X, y)
    with LogisticSGD(alpha=ALPHA, passes=0) as learner:
        learner.partial_fit(X, y)
        process.timed("exact, all threads", learner.solve)


def _in_turns(process: CaseProcess, sizes: Sizes, X: Any, y: Any) -> None:
    best, again = best_logistic(X, y), (X[:1], y[:1])
    warm(LogisticSGD(alpha=ALPHA), X[:1000], y[:1000])
    needed: int | None = None
    one: list[float] = []
    more: list[float] = []
    for turn in range(sizes.turns):
        with LogisticSGD(alpha=ALPHA, sample=sizes.points, passes=0) as learner:
            process.timed("ingest", lambda: learner.partial_fit(X, y))
            if turn == 0:
                needed, ratio = _passes_needed(learner, again, best, sizes.most)
                process.note("passes" if needed else "passes without success", needed or sizes.most)
                process.note("objective after passes", ratio)

            def run(passes: int, learner: Any = learner) -> float:
                with learner.fork() as branch:
                    branch.set_params(passes=passes)
                    return timed(lambda: branch.partial_fit(*again, ids=[0]))[0]

            one.append(run(1))
            more.append(run(1 + sizes.passes))
            if needed:
                process.note("there by passes", run(needed))
            with learner.fork() as branch:
                near = process.timed("there by solve", lambda: branch.solve(tol=NEAR - 1))
            exact = process.timed("exact", learner.solve)
            for model, within in ((near, NEAR - 1), (exact, _EXACT)):
                found = linear_objective("log", X, y, model.coef_, model.intercept_)
                check_objective("the logistic regression", found, best, within)
    # A call with one instance chooses the sample anew, which is no part of a pass.
    process.note("one pass", statistics.median(one))
    seconds = statistics.median(more) - statistics.median(one)
    if seconds > 0:  # else there is too little to be measured
        process.note("points", sizes.passes * sizes.points / seconds)


def _passes_needed(learner: Any, again: Any, best: float, most: int) -> tuple[int | None, float]:
    """Passes until the loss is near the best one, None if that is not so after ``most``.

    And the loss then, as a ratio to the best one.
    """
    with learner.fork() as branch:
        branch.set_params(passes=1)
        for number in range(1, most + 1):
            branch.partial_fit(*again, ids=[0])
            if branch.objective_ <= NEAR * best:
                return number, branch.objective_ / best
        return None, branch.objective_ / best


def points_by_scikit_learn(process: CaseProcess, sizes: Sizes) -> None:
    """By `SGDClassifier`, whose `partial_fit` is a pass; it has one thread."""
    X, y = two_classes(sizes.points)
    best = best_logistic(X, y)
    with threadpool_limits(1):
        _passes_of_scikit_learn(process, sizes, X, y, best)


def _passes_of_scikit_learn(
    process: CaseProcess, sizes: Sizes, X: Any, y: Any, best: float
) -> None:
    for turn in range(sizes.turns):
        model = SGDClassifier(loss="log_loss", alpha=ALPHA, random_state=turn)
        seconds, done, there = 0.0, 0, False
        while done < sizes.passes or (not there and done < sizes.most):
            seconds += timed(lambda model=model: model.partial_fit(X, y, classes=[0, 1]))[0]
            done += 1
            if not there:
                found = linear_objective("log", X, y, model.coef_, model.intercept_)
                there = found <= NEAR * best
                if there:
                    process.note("there", seconds)
                    process.note("passes", done)
        if not there:
            process.note("passes without success", done)
        process.note("points", done * sizes.points / seconds)


def points_by_mllib(process: CaseProcess, sizes: Sizes) -> None:
    """By `LogisticRegression` of a cached DataFrame, ``local[1]``.

    Its iterations are as few as lead near the best loss.
    """
    X, y = two_classes(sizes.points)
    best = best_logistic(X, y)
    spark = session_on(1)
    path = written(process.scratch / "points.parquet", X, y)
    frame = cached(spark, path)
    needed = least_iterations("log", frame, NEAR * best)
    frame.unpersist(blocking=True)
    model = linear("log", needed)
    for _ in range(sizes.turns):
        frame = process.timed("ingest", lambda: cached(spark, path))
        took, near = timed(partial(model.fit, frame))
        process.note("there", took)
        process.note("passes", needed)
        process.note("points", needed * sizes.points / took)
        found = linear_objective("log", X, y, near.coefficients.toArray(), near.intercept)
        check_objective("MLlib's logistic regression", found, best, NEAR - 1)
        frame.unpersist(blocking=True)


def points_by_river(process: CaseProcess, sizes: Sizes) -> None:
    """By River, one point after the other; where it is not installed, that is noted."""
    try:
        models: Any = importlib.import_module("river.linear_model")
    except ImportError:
        process.note("not installed", 1)
        return
    X, y = two_classes(min(sizes.points, _RIVER))
    rows = [dict(enumerate(row)) for row in X.tolist()]
    model = models.LogisticRegression(l2=ALPHA)
    began = time.perf_counter()
    for row, label in zip(rows, y.tolist(), strict=True):
        model.learn_one(row, label)
    process.note("points", len(rows) / (time.perf_counter() - began))


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
    spark = session_on(sizes.cores)
    paths, first = [], 0
    X, y = problem.instances[0], problem.instances[-1]
    labels = y if y.ndim == 1 else np.zeros(len(X))
    for last in [problem.base, *problem.ends()]:
        path = process.scratch / f"{last}.parquet"
        paths.append(written(path, X[first:last], labels[first:last]))
        first = last
    for number, share in enumerate(sizes.shares):
        frame = cached(spark, *paths[: number + 2])
        most = problem.iterations(frame, objectives[number])
        answers = [problem.fit(frame, most) for _ in range(sizes.turns)]
        for seconds, objective, iterations in answers:
            process.note(f"mllib {share}", seconds)
            process.note(f"mllib objective {share}", objective)
            process.note(f"mllib iterations {share}", iterations)
        frame.unpersist(blocking=True)
        theirs = statistics.median(objective for _, objective, _ in answers)
        check_objective(f"{share} % more", objectives[number], theirs, problem.within)


def svm_at_instants(process: CaseProcess, sizes: Sizes, beside: Beside = by_mllib) -> None:
    """Support vector machines; MLlib has as few iterations as lead to our objective."""
    X, y = two_classes(sizes.instances)

    def learner(passes: int) -> Any:
        return LinearSVM(alpha=ALPHA, passes=passes)

    def objective(model: Any, n: int) -> float:
        return linear_objective("hinge", X[:n], y[:n], model.coef_, model.intercept_)

    def iterations(frame: Any, wanted: float) -> int:
        return least_iterations("hinge", frame, (1 + _SAME) * wanted)

    def fit(frame: Any, most: int) -> tuple[float, float, int]:
        took, model = timed(lambda: linear("hinge", most).fit(frame))
        return took, model.summary().objectiveHistory[-1], most

    with learner(0) as small:
        few = X[:SMALL], y[:SMALL]
        exact = small.partial_fit(*few).solve()
        right = best_hinge(*few)
    check_objective("the support vector machine", objective(exact, SMALL), right, _SAME)
    _at_instants(
        process, _Problem((X, y), sizes, learner, objective, iterations, fit, _SAME), beside
    )


def kmeans_at_instants(process: CaseProcess, sizes: Sizes, beside: Beside = by_mllib) -> None:
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

    _at_instants(
        process, _Problem((points,), sizes, learner, objective, iterations, fit, _INERTIA), beside
    )


def _at_instants(process: CaseProcess, problem: _Problem, beside: Beside) -> None:
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


RATES = {f"rate {rate:g}": rate for rate in (0.5, 0.1, 0.05, 0.01)}


BOLD = "bold driver"


BRANCHES = 4  # points of the stream at which there is one


def rates_of_svm(process: CaseProcess, sizes: Sizes) -> None:
    """A support vector machine (Tornado, figure 6)."""
    _by_rate(process, sizes, LinearSVM, "hinge", *two_classes(sizes.stream))


def rates_of_words(process: CaseProcess, sizes: Sizes) -> None:
    """Logistic regression on bags of rates_of_words (figure 7)."""
    _by_rate(process, sizes, LogisticSGD, "log", *bags_of_words(sizes.stream, sizes.columns))


def _by_rate(
    process: CaseProcess, sizes: Sizes, kind: Any, loss: str, X: Any, y: np.ndarray[Any, Any]
) -> None:
    """Learners with each rate take turns, batch by batch of one stream."""
    told: dict[str, dict[str, Any]] = {
        name: {"rate": rate, "bold_driver": False} for name, rate in RATES.items()
    }
    learners = {
        name: kind(alpha=ALPHA, sample=sizes.stream, **options)
        for name, options in {**told, BOLD: {}}.items()
    }
    warm(kind(alpha=ALPHA), X[:500], y[:500])
    edges = np.linspace(0, sizes.stream, sizes.batches + 1).astype(int).tolist()
    marks = {sizes.batches * (k + 1) // BRANCHES for k in range(BRANCHES)}
    for number, (first, last) in enumerate(zip(edges, edges[1:], strict=False), 1):
        best = []
        for name, learner in learners.items():
            part = X[first:last], y[first:last]
            process.timed(f"{name} seconds", partial(learner.partial_fit, *part, classes=[0, 1]))
            whole = X[:last], y[:last]
            process.note(
                f"{name} objective",
                linear_objective(loss, *whole, learner.coef_, learner.intercept_),
            )
            if number in marks:  # in a fork, as the learner would go on from the answer
                with learner.fork() as fork:
                    model = process.timed(f"{name} branch", fork.solve)
                best.append(linear_objective(loss, *whole, model.coef_, model.intercept_))
        if best:
            process.note("best objective", min(best))
            check_objective(f"{last} instances", max(best), min(best), _SAME)
    for learner in learners.values():
        learner.close()
    _check_few(kind, loss, X[:SMALL], y[:SMALL])


def _check_few(kind: Any, loss: str, X: Any, y: np.ndarray[Any, Any]) -> None:
    """Compare the best model of a few instances with that of scikit-learn.

    Raises:
        Wrong: its objective is higher.
    """
    with kind(alpha=ALPHA) as learner:
        model = learner.partial_fit(X, y).solve()
    found = linear_objective(loss, X, y, model.coef_, model.intercept_)
    right = best_hinge(X, y) if loss == "hinge" else best_logistic(X, y)
    check_objective("a few instances", found, right, _SAME)


CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "points-ours": points_by_ours,
    "points-scikit-learn": points_by_scikit_learn,
    "points-mllib": points_by_mllib,
    "points-river": points_by_river,
    "instants-svm": svm_at_instants,
    "instants-kmeans": kmeans_at_instants,
    "rates-svm": rates_of_svm,
    "rates-words": rates_of_words,
}


WAYS = ("passes", "solve")  # in which ours comes near the best loss


_OTHERS = {"MLlib": ("points-mllib", 5.0), "scikit-learn": ("points-scikit-learn", 1.0)}


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def there(self) -> float | None:
        """Seconds of ours until it is near the best loss, in the way that is faster."""
        took = [self.median("points-ours", f"there by {way}") for way in WAYS]
        return _least(took)

    def from_nothing(self, case: str) -> float | None:
        """The same with what it takes to have the instances."""
        there = self.there() if case == "points-ours" else self.median(case, "there")
        return None if there is None else there + (self.median(case, "ingest") or 0.0)

    def least(self, case: str, numerator: str, denominator: str) -> float | None:
        """The smallest of the ratios of all shares; None where one is missing."""
        ratios = [
            self.ratio(case, f"{numerator} {share}", case, f"{denominator} {share}")
            for share in self.sizes.shares
        ]
        return None if None in ratios else _least(ratios)


def area(r: Results, case: str, name: str) -> float | None:
    """The mean of the objective over the stream."""
    values = r.figures(case, f"{name} objective")
    return sum(values) / len(values) if values else None


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _over(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _there(r: Results, beside: str) -> float | None:
    return _over(r.median(beside, "there"), r.there())


def _from_nothing(r: Results, beside: str) -> float | None:
    return _over(r.from_nothing(beside), r.from_nothing("points-ours"))


def _bold(r: Results, case: str) -> float | None:
    return _over(area(r, case, BOLD), _least(area(r, case, name) for name in RATES))


def _targets() -> Iterator[Target[Results]]:
    for beside, (case, bound) in _OTHERS.items():
        measure = ratio("points-ours", "points", case)
        yield Target("points/s", measure, bound, "×", True, beside)
        for title, find in (("instances there", _there), ("from an empty learner", _from_nothing)):
            title = f"time to 1.01 × the best loss, {title}"
            yield Target(title, partial(find, beside=case), bound, "×", True, beside)
    for name, case, bound in (("SVM", "instants-svm", 10.0), ("k-means", "instants-kmeans", 8.0)):
        for beside, other, least in (("MLlib", "mllib", bound), ("batch", "batch", 1.0)):
            lowest = partial(Results.least, case=case, numerator=other, denominator="approximating")
            title = f"{name}, from an instant to the answer, least of all shares"
            yield Target(title, lowest, least, "×", True, beside)
    for name, case in (("SVM", "rates-svm"), ("logistic regression", "rates-words")):
        title = f"{name}, {BOLD}: area under the objective"
        yield Target(title, partial(_bold, case=case), 1.1, beside="the best fixed rate")


def _shown(r: Results) -> Iterator[list[str]]:
    if r.figures("points-river", "not installed"):
        yield ["points/s", "River", "not installed", "–", "shown"]
    elif value := r.ratio("points-ours", "points", "points-river"):
        yield ["points/s", "River", cells.times(value), "–", "shown"]


def _notes(r: Results) -> list[str]:
    s = r.sizes
    return [
        f"The objective is the mean loss plus {ALPHA:g} / 2 times the squares of the weights, in "
        "all systems; ours is in this process, with one partition. Medians.",
        f"Logistic regression: {s.points:,} points of two Gaussian classes that overlap, 28 "
        f"features. Points/s: of {s.passes} passes of ours over all of them, each with the "
        "objective then; of passes of scikit-learn; of iterations of MLlib. *One pass* is a call "
        "of `partial_fit` with one instance, which chooses the sample anew. *There*: until the "
        "loss is at most 1.01 × the best one, which scikit-learn's `LogisticRegression` finds. "
        "Ours is there by passes of the main loop or by `solve(tol=0.01)`, and the aims are those "
        "of the faster way. BLAS has one thread, but for *all threads*. MLlib ingests Parquet into "
        "a cached DataFrame, and has as few iterations as lead there; scikit-learn has arrays.",
        f"Instants: {s.instances:,} instances in the end. So many percent more arrive, one percent "
        "with each `partial_fit`, then `solve` is timed. *Approximating*: each `partial_fit` makes "
        "a pass over the sample. *Batch*: `passes=0`, and the answer begins with the last one. "
        f"MLlib begins anew with a cached DataFrame on local[{s.cores}]: `LinearSVC` with as few "
        "iterations as lead within 0.1 % of our objective, or until its own convergence, and "
        "`KMeans` until its own.",
        f"Rates: {s.stream:,} instances in {s.batches} batches, a pass over all that are there "
        "after each; objectives are those on all that are there. Bags of words have 60 words of "
        f"{s.columns:,} by Zipf's law, and length 1. A learner with a fixed rate has "
        "`bold_driver=False`. Branches are those of forks, so that the main loop keeps its model.",
        "Objectives are computed by NumPy. Those of a few instances are as good as scikit-learn's; "
        "those of exact models as good as MLlib's, k-means within 1 %.",
    ]  # fmt: skip


def _charts(r: Results, case: str, title: str) -> list[Chart | None]:
    """Two charts with a line for each rate, over percent of the stream."""
    charts = []
    for figure, what, unit, count in (
        ("objective", "Objective on all instances", "objective", r.sizes.batches),
        ("branch", "From an instant to the answer", "s", BRANCHES),
    ):
        at = [100 * (number + 1) / count for number in range(count)]
        values = {name: r.figures(case, f"{name} {figure}") for name in (BOLD, *RATES)}
        series = {
            "ours, " + name if name == BOLD else name: list(one)
            for name, one in values.items() if len(one) == count
        }  # fmt: skip
        names = [f"{percent:g}" for percent in at]
        title_of = f"{what}, {title}"
        charts.append(lines(title_of, unit, at, names, "percent of the stream", series, log=False))
    return charts


_PEERS = {
    "points-mllib": "MLlib `LogisticRegression`, local[1]",
    "points-scikit-learn": "scikit-learn `SGDClassifier`, one thread",
}
_LEARNT = {"instants-svm": "Support vector machine", "instants-kmeans": "k-means"}
_RATED = {"rates-svm": "SVM", "rates-words": "logistic regression on bags of words"}


def _sections(r: Results) -> list[tuple[str, Parts]]:
    return [
        ("Logistic regression", [_points(r)]),
        *((f"{title}: from an instant to the answer", [_answers(r, case)])
          for case, title in _LEARNT.items()),
        *((f"Rates of descent, {title}", [_objectives(r, case), *_charts(r, case, title)])
          for case, title in _RATED.items()),
    ]  # fmt: skip


def _points(r: Results) -> Table | None:
    case, rows = "points-ours", []
    empty = r.median(case, "ingest") or 0.0
    for way in WAYS:
        own = ("points", "passes") if way == WAYS[0] else ("", "")
        took = r.median(case, f"there by {way}")
        if took is not None or r.figures(case, own[0]):
            rows.append([
                f"ours, by {way}", r.number(case, own[0]), r.middle(case, "ingest"),
                _until(r, case, f"there by {way}"),
                cells.seconds(None if took is None else empty + took), r.number(case, own[1]),
            ])  # fmt: skip
    for figure in ("one pass", "exact", "exact, all threads"):
        if r.figures(case, figure):
            rows.append([f"ours, {figure}", "–", "–", r.middle(case, figure), "–", "–"])
    for case, title in _PEERS.items():
        if r.figures(case, "points"):
            rows.append([
                title, r.number(case, "points"), r.middle(case, "ingest"),
                _until(r, case, "there"), cells.seconds(r.from_nothing(case)),
                r.number(case, "passes"),
            ])  # fmt: skip
    if r.figures("points-river", "not installed"):
        rows.append(["River", "not installed", *"––––"])
    elif r.figures("points-river", "points"):
        rows.append(["River", r.number("points-river", "points"), *"––––"])
    head = ["", "points/s", "ingest", "there", "there, from nothing", "passes"]
    return filled(head, rows)


def _until(r: Results, case: str, name: str) -> str:
    """Seconds, or how near it came."""
    most = r.median(case, "passes without success")
    if r.figures(case, name) or most is None:
        return r.middle(case, name)
    ratio = r.median(case, "objective after passes")
    return f"not in {most:.0f} passes" + (f": {cells.times(ratio)}" if ratio else "")


def _answers(r: Results, case: str) -> Table | None:
    rows = []
    for share in r.sizes.shares:
        for kind in (*KINDS, "mllib"):
            figure, theirs = f"{kind} {share}", kind == "mllib"
            if r.figures(case, figure):
                rows.append([
                    f"{share} %", f"MLlib, local[{r.sizes.cores}]" if theirs else kind,
                    r.middle(case, figure),
                    "–" if theirs else r.times(case, f"mllib {share}", case, figure),
                    r.middle(case, f"{kind} arriving {share}"),
                    r.number(case, f"{kind} iterations {share}"),
                    _objective(r.median(case, f"{'mllib ' * theirs}objective {share}")),
                ])  # fmt: skip
    head = ["more", "", "to the answer", "MLlib / ours", "arriving", "iterations", "objective"]
    return filled(head, rows)


def _objective(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"


def _objectives(r: Results, case: str) -> Table | None:
    rows = []
    for name in (BOLD, *RATES):
        objectives = r.figures(case, f"{name} objective")
        branches = r.figures(case, f"{name} branch")
        if objectives and len(branches) == BRANCHES:
            marks = [len(objectives) * (k + 1) // BRANCHES - 1 for k in range(BRANCHES)]
            rows.append([
                name, _objective(area(r, case, name)), *(_objective(objectives[k]) for k in marks),
                *map(cells.seconds, branches), r.middle(case, f"{name} seconds"),
            ])  # fmt: skip
    if best := r.figures(case, "best objective"):
        rows.append(["best model", "–", *map(_objective, best), *"–" * (BRANCHES + 1)])
    percents = [f"{100 * (k + 1) // BRANCHES} %" for k in range(BRANCHES)]
    head = ["", "mean", *(f"objective at {at}" for at in percents)]
    return filled([*head, *(f"branch at {at}, s" for at in percents), "a batch"], rows)


SUITE = CaseSuite(
    name="learning",
    title="Suite learning: models of instances that arrive",
    about="Linear models and k-means that follow their instances, beside systems that learn from "
    "all of them anew.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes, shown=_shown,
    targets=tuple(_targets()), stem=lambda s: f"learning-{s.points}", time_limit=3600,
    stated=("points", "instances", "shares", "stream", "columns", "batches"),
    groups=grouped(CASES, "points", "instants", "rates"),
    quick="--points 20000 --most 20 --instances 20000 --shares 1,10 --stream 4000 --columns 5000 "
    "--batches 8 --turns 2",  # about two minutes
)  # fmt: skip
