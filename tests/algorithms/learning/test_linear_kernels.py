"""Sums and solutions of linear models: scikit-learn, SciPy and finite differences agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import SGDClassifier, SGDRegressor

from tests.support.seeds import seed
from vertexsdk import InputError
from vertexsdk.algorithms.learning.linear_kernels import (
    LOSSES,
    LossSums,
    hessian,
    hessian_product,
    loss_and_gradient,
    loss_sum,
    sgd_pass,
    weights_left,
)
from vertexsdk.algorithms.learning.rows import Floats, Rows, SparseRows

SKLEARN = {"hinge": "hinge", "log": "log_loss", "squared": "squared_error"}


def sparse(X: Floats) -> SparseRows:
    matrix = scipy.sparse.csr_array(X)
    indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return SparseRows(indptr, indices, matrix.data, X.shape[1])


def drawn(
    rng: np.random.Generator, n: int, d: int, loss: str, noise: float = 1.0
) -> tuple[Floats, Floats]:
    """Rows, a third of whose entries are 0, and labels."""
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.67)
    y = X @ rng.normal(size=d) + 0.5 + noise * rng.normal(size=n)
    return X, y if loss == "squared" else np.where(y > 0, 1.0, -1.0)


def total(parts: list[LossSums]) -> LossSums:
    return LossSums(*map(sum, zip(*parts, strict=True)))


def same(one: LossSums, other: LossSums) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("d", [1, 7, 28])
def test_a_pass_of_sgd_is_that_of_scikit_learn(loss: str, d: int) -> None:
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, 300, d, loss)
    kind = SGDRegressor if loss == "squared" else SGDClassifier
    for intercept in (True, False):
        model = kind(
            loss=SKLEARN[loss], alpha=0.01, max_iter=1, tol=None, shuffle=False,
            learning_rate="constant", eta0=0.01, fit_intercept=intercept,
        ).fit(X, y)  # fmt: skip
        wanted = np.append(model.coef_, model.intercept_)
        for rows in (X, sparse(X)):
            w = sgd_pass(rows, y, np.zeros(d + 1), 0.01, 0.01, loss, fit_intercept=intercept)
            np.testing.assert_allclose(w, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("decay", [0.3, 1.0])
def test_the_rate_falls_within_a_pass(loss: str, decay: float) -> None:
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, 60, 4, loss)
    X[:, 2] = 0
    w = before = rng.normal(size=5)
    for i in range(60):
        rate = 0.2 * (1 - decay * i / 60)
        w = sgd_pass(X[i : i + 1], y[i : i + 1], w, rate, 0.5, loss)
    for rows in (X, sparse(X)):
        after = sgd_pass(rows, y, before, 0.2, 0.5, loss, decay=decay)
        np.testing.assert_allclose(after, w, rtol=1e-10)
        assert after[2] == pytest.approx(before[2] * weights_left(60, 0.2, 0.5, decay), rel=1e-12)


def test_a_pass_of_sgd_goes_on_where_the_scale_becomes_tiny() -> None:
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, 300, 5, "log")
    w = np.zeros(6)
    for x, label in zip(X, y, strict=True):
        slope = -label / (1 + np.exp(label * (x @ w[:-1] + w[-1])))
        w = w * np.append(np.full(5, 0.1), 1.0) - 0.3 * slope * np.append(x, 1.0)
    for rows in (X, sparse(X)):
        np.testing.assert_allclose(sgd_pass(rows, y, np.zeros(6), 0.3, 3.0, "log"), w, rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("smoothing", [0.0, 0.3, 2.0])
def test_derivatives_are_finite_differences(loss: str, smoothing: float) -> None:
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, 200, 6, loss)
    w, v, h = rng.normal(size=7), rng.normal(size=7), 1e-7
    sums = loss_and_gradient(X, y, w, loss, smoothing)
    ends = [loss_and_gradient(X, y, w + t * h * v, loss, smoothing) for t in (-1, 1)]
    slope = (ends[1].smoothed - ends[0].smoothed) / (2 * h)
    assert slope == pytest.approx(sums.gradient @ v, rel=1e-5, abs=1e-4)
    if loss != "hinge" or smoothing > 0:
        bend = (ends[1].gradient - ends[0].gradient) / (2 * h)
        np.testing.assert_allclose(
            hessian(X, y, w, loss, smoothing) @ v, bend, rtol=1e-5, atol=1e-4
        )
    if loss != "hinge":
        assert (sums.smoothed, sums.excess) == (sums.loss, 0.0)


@pytest.mark.parametrize("smoothing", [0.3, 2.0])
def test_the_smoothed_hinge_is_its_definition(smoothing: float) -> None:
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, 200, 6, "hinge")
    w = rng.normal(size=7)
    z = 1 - y * (X @ w[:-1] + w[-1])
    a = (1 + z / np.hypot(z, smoothing)) / 2
    sums = loss_and_gradient(X, y, w, "hinge", smoothing)
    assert sums.loss == pytest.approx(np.maximum(z, 0).sum())
    assert sums.smoothed == pytest.approx((z + np.hypot(z, smoothing)).sum() / 2)
    assert sums.excess == pytest.approx((np.maximum(z, 0) - a * z).sum())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), [(50, 1), (2000, 40), (300, 600), (0, 3)])
def test_dense_and_sparse_rows_and_their_parts_have_the_same_sums(
    loss: str, n: int, d: int
) -> None:
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, n, d, loss)
    w, v = rng.normal(size=d + 1) / d, rng.normal(size=d + 1)
    for rows in (X, sparse(X)):
        assert loss_sum(rows, y, w, loss) == loss_and_gradient(rows, y, w, loss).loss
    whole = loss_and_gradient(X, y, w, loss, 0.5)
    matrix = hessian(X, y, w, loss, 0.5)
    product = hessian_product(X, y, w, v, loss, 0.5)
    np.testing.assert_allclose(product, matrix @ v, rtol=1e-9, atol=1e-8)
    same(loss_and_gradient(sparse(X), y, w, loss, 0.5), whole)
    np.testing.assert_allclose(hessian(sparse(X), y, w, loss, 0.5), matrix, atol=1e-9)
    np.testing.assert_allclose(hessian_product(sparse(X), y, w, v, loss, 0.5), product, atol=1e-8)
    for partitions in (2, 7):
        cuts = np.arange(n) % partitions
        parts = [(X[cuts == k], y[cuts == k]) for k in range(partitions)]
        same(total([loss_and_gradient(a, b, w, loss, 0.5) for a, b in parts]), whole)
        pieces: Any = sum(hessian(a, b, w, loss, 0.5) for a, b in parts)
        np.testing.assert_allclose(pieces, matrix, atol=1e-9)


@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_large_predictions_do_not_overflow(loss: str) -> None:
    X, y = np.array([[1e3], [-1e3], [1e3]]), np.array([1.0, 1.0, -1.0])
    sums = loss_and_gradient(X, y, np.array([5.0, 0.0]), loss, 0.1)
    assert sums.loss == pytest.approx(1e4, rel=1e-3)
    np.testing.assert_allclose(sums.gradient, [2e3, 0.0], atol=1e-9)
    assert np.isfinite(hessian(X, y, np.array([5.0, 0.0]), loss, 0.1)).all()


def test_what_is_not_a_number_stays_so() -> None:
    X, y = np.array([[1.0, np.nan], [2.0, 1.0]]), np.array([1.0, -1.0])
    for loss in LOSSES:
        assert np.isnan(loss_and_gradient(X, y, np.ones(3), loss, 0.1).loss)
        assert np.isnan(sgd_pass(X, y, np.ones(3), 0.1, 0.1, loss)).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda X, y, w: sgd_pass(X, y, w, 2.0, 0.5, "log"), "less than 1 / alpha"),
        (lambda X, y, w: sgd_pass(X, y, w, 0.0, 0.5, "log"), "positive rate"),
        (lambda X, y, w: loss_and_gradient(X, y[1:], w, "log"), "5 rows need 5 labels"),
        (lambda X, y, w: loss_and_gradient(X, y, w[1:], "log"), "have 3 columns and the model 2"),
        (lambda X, y, w: hessian(X, y, w, "l1"), "'hinge', 'log', 'squared'"),
        (lambda X, y, w: hessian(X, y, w, "hinge", -1.0), "0 or a positive number"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call: Any, words: str) -> None:
    rows: Rows
    for rows in (np.ones((5, 3)), sparse(np.ones((5, 3)))):
        with pytest.raises(InputError, match=words) as error:
            call(rows, np.ones(5), np.zeros(4))
        assert "\n" not in str(error.value)
