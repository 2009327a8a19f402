"""Instances drawn from a seed, and the plainest code for the objective of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from benchmarks.answers import Wrong

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
