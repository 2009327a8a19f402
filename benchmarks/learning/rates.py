"""Fixed rates of descent and the bold driver: the objective, and the time of a branch."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case_process import CaseProcess
from benchmarks.learning.data import (
    ALPHA,
    SMALL,
    bags_of_words,
    best_hinge,
    best_logistic,
    check_objective,
    linear_objective,
    two_classes,
)
from benchmarks.learning.learners import warm
from benchmarks.learning.sizes import Sizes
from benchmarks.timing import timed
from vertexsdk.algorithms.learning import LinearSVM, LogisticSGD

RATES = {f"rate {rate:g}": rate for rate in (0.5, 0.1, 0.05, 0.01)}
BOLD = "bold driver"
BRANCHES = 4  # points of the stream at which there is one
_SAME = 1e-3


def svm(process: CaseProcess, sizes: Sizes) -> None:
    """A support vector machine (Tornado, figure 6)."""
    _rates(process, sizes, LinearSVM, "hinge", *two_classes(sizes.stream))


def words(process: CaseProcess, sizes: Sizes) -> None:
    """Logistic regression on bags of words (figure 7)."""
    _rates(process, sizes, LogisticSGD, "log", *bags_of_words(sizes.stream, sizes.columns))


def _rates(
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
            took, _ = timed(
                lambda learner=learner, part=part: learner.partial_fit(*part, classes=[0, 1])
            )
            process.note(f"{name} seconds", took)
            whole = X[:last], y[:last]
            process.note(
                f"{name} objective",
                linear_objective(loss, *whole, learner.coef_, learner.intercept_),
            )
            if number in marks:  # in a fork, as the learner would go on from the answer
                with learner.fork() as fork:
                    took, model = timed(fork.solve)
                process.note(f"{name} branch", took)
                best.append(linear_objective(loss, *whole, model.coef_, model.intercept_))
        if best:
            process.note("best objective", min(best))
            check_objective(f"{last} instances", max(best), min(best), _SAME)
    for learner in learners.values():
        learner.close()
    _check(kind, loss, X[:SMALL], y[:SMALL])


def _check(kind: Any, loss: str, X: Any, y: np.ndarray[Any, Any]) -> None:
    """Compare the best model of a few instances with that of scikit-learn.

    Raises:
        Wrong: its objective is higher.
    """
    with kind(alpha=ALPHA) as learner:
        model = learner.partial_fit(X, y).solve()
    found = linear_objective(loss, X, y, model.coef_, model.intercept_)
    right = best_hinge(X, y) if loss == "hinge" else best_logistic(X, y)
    check_objective("a few instances", found, right, _SAME)
