"""Logistic regression: points per second of passes, and the time to 1.01 times the best loss."""

from __future__ import annotations

import importlib
import statistics
import time
from functools import partial
from typing import Any

from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from benchmarks.case_process import CaseProcess
from benchmarks.learning import spark_ml
from benchmarks.learning.data import (
    ALPHA,
    best_logistic,
    check_objective,
    linear_objective,
    two_classes,
)
from benchmarks.learning.learners import warm
from benchmarks.learning.sizes import Sizes
from benchmarks.timing import timed
from vertexsdk.algorithms.learning import LogisticSGD

NEAR = 1.01  # times the best loss
_EXACT = 1e-3  # of the answer of `solve`, whose own tolerance is 1e-4
_RIVER = 20_000  # points, one by one in Python


def ours(process: CaseProcess, sizes: Sizes) -> None:
    """By a `LogisticSGD` in this process, one partition, whose sample has all instances.

    What is timed with the instances there is on forks, which begin as the learner did. A call of
    `partial_fit` needs an instance: the first one is given again. BLAS has one thread, and `exact`
    is also noted with as many as it takes by itself.
    """
    X, y = two_classes(sizes.points)
    with threadpool_limits(1):
        _ours(process, sizes, X, y)
    with LogisticSGD(alpha=ALPHA, passes=0) as learner:
        learner.partial_fit(X, y)
        process.note("exact, all threads", timed(learner.solve)[0])


def _ours(process: CaseProcess, sizes: Sizes, X: Any, y: Any) -> None:
    best, again = best_logistic(X, y), (X[:1], y[:1])
    warm(LogisticSGD(alpha=ALPHA), X[:1000], y[:1000])
    needed: int | None = None
    one: list[float] = []
    more: list[float] = []
    for turn in range(sizes.turns):
        with LogisticSGD(alpha=ALPHA, sample=sizes.points, passes=0) as learner:
            process.note("ingest", timed(lambda: learner.partial_fit(X, y))[0])
            if turn == 0:
                needed, ratio = _passes(learner, again, best, sizes.most)
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
                took, near = timed(lambda: branch.solve(tol=NEAR - 1))
                process.note("there by solve", took)
            took, exact = timed(learner.solve)
            process.note("exact", took)
            for model, within in ((near, NEAR - 1), (exact, _EXACT)):
                found = linear_objective("log", X, y, model.coef_, model.intercept_)
                check_objective("the logistic regression", found, best, within)
    # A call with one instance chooses the sample anew, which is no part of a pass.
    process.note("one pass", statistics.median(one))
    seconds = statistics.median(more) - statistics.median(one)
    if seconds > 0:  # else there is too little to be measured
        process.note("points", sizes.passes * sizes.points / seconds)


def _passes(learner: Any, again: Any, best: float, most: int) -> tuple[int | None, float]:
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


def scikit_learn(process: CaseProcess, sizes: Sizes) -> None:
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


def mllib(process: CaseProcess, sizes: Sizes) -> None:
    """By `LogisticRegression` of a cached DataFrame, ``local[1]``.

    Its iterations are as few as lead near the best loss.
    """
    X, y = two_classes(sizes.points)
    best = best_logistic(X, y)
    spark = spark_ml.session_on(1)
    path = spark_ml.written(process.scratch / "points.parquet", X, y)
    frame = spark_ml.cached(spark, path)
    needed = spark_ml.least_iterations("log", frame, NEAR * best)
    frame.unpersist(blocking=True)
    model = spark_ml.linear("log", needed)
    for _ in range(sizes.turns):
        took, frame = timed(lambda: spark_ml.cached(spark, path))
        process.note("ingest", took)
        took, near = timed(partial(model.fit, frame))
        process.note("there", took)
        process.note("passes", needed)
        process.note("points", needed * sizes.points / took)
        found = linear_objective("log", X, y, near.coefficients.toArray(), near.intercept)
        check_objective("MLlib's logistic regression", found, best, NEAR - 1)
        frame.unpersist(blocking=True)


def river(process: CaseProcess, sizes: Sizes) -> None:
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
