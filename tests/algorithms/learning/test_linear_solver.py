"""Linear models have the objective of scikit-learn's, by few passes over the rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.svm import SVC

from tests.algorithms.learning.test_linear_kernels import drawn, sparse, total
from tests.support.seeds import seed
from vertexsdk import InputError
from vertexsdk.algorithms.learning import linear_solver
from vertexsdk.algorithms.learning.linear_kernels import (
    LOSSES,
    LossSums,
    hessian,
    hessian_product,
    loss_and_gradient,
)
from vertexsdk.algorithms.learning.linear_solver import Solution, minimise
from vertexsdk.algorithms.learning.rows import Floats, Rows


class Fit:
    """Rows in partitions, how often each kind of pass was made, and where the last was."""

    def __init__(self, parts: list[tuple[Rows, Floats]], loss: str) -> None:
        self.parts, self.loss = parts, loss
        self.n = sum(len(y) for _, y in parts)
        self.passes: Counter[str] = Counter()
        self.last: tuple[bytes, float] | None = None

    def evaluate(self, w: Floats, smoothing: float) -> LossSums:
        self.passes["evaluate"] += 1
        self.last = w.tobytes(), smoothing
        sums = total([loss_and_gradient(X, y, w, self.loss, smoothing) for X, y in self.parts])
        return LossSums(*(value / self.n for value in sums))

    def hessian(self, w: Floats, smoothing: float) -> Floats:
        self.passes["hessian"] += 1
        assert self.last == (w.tobytes(), smoothing)
        sums: Any = sum(hessian(X, y, w, self.loss, smoothing) for X, y in self.parts)
        return sums / self.n  # type: ignore[no-any-return]

    def product(self, w: Floats, v: Floats, smoothing: float) -> Floats:
        self.passes["product"] += 1
        sums: Any = sum(hessian_product(X, y, w, v, self.loss, smoothing) for X, y in self.parts)
        return sums / self.n  # type: ignore[no-any-return]

    def solve(self, d: int, alpha: float, w: Floats | None = None, **options: Any) -> Solution:
        options = {"tol": 1e-6, "max_iter": 100, "fit_intercept": True, **options}
        start = np.zeros(d + 1) if w is None else w
        return minimise(
            self.evaluate, self.hessian, self.product, start,
            alpha=alpha, loss=self.loss, **options,
        )  # fmt: skip


def reference(X: Floats, y: Floats, loss: str, alpha: float, intercept: bool) -> float:
    """The optimum by scikit-learn."""
    C, n = 1 / (len(y) * alpha), len(y)
    if loss == "log":
        kind: Any = LogisticRegression(
            C=C, tol=1e-10, max_iter=1000, solver="newton-cg", fit_intercept=intercept
        )
    elif loss == "squared":
        kind = Ridge(alpha=n * alpha, fit_intercept=intercept)
    else:
        kind = SVC(kernel="linear", C=C, tol=1e-5)
    model = kind.fit(X, y)
    return objective(X, y, np.append(model.coef_, model.intercept_), loss, alpha)


def objective(X: Floats, y: Floats, w: Floats, loss: str, alpha: float) -> float:
    return loss_and_gradient(X, y, w, loss).loss / len(y) + alpha / 2 * float(w[:-1] @ w[:-1])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "d"), [(50, 3), (200, 5), (1000, 12)])
@pytest.mark.parametrize("alpha", [0.1, 0.003])
def test_the_objective_is_that_of_scikit_learn(loss: str, n: int, d: int, alpha: float) -> None:
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, n, d, loss)
    optimum = reference(X, y, loss, alpha, True)
    for rows in (X, sparse(X)):
        solution = Fit([(rows, y)], loss).solve(d, alpha)
        assert solution.converged
        assert solution.objective == pytest.approx(objective(X, y, solution.w, loss, alpha))
        assert solution.objective == pytest.approx(optimum, rel=2e-6)
        assert solution.bound <= optimum * (1 + 1e-7)
    parts = [(X[k::7], y[k::7]) for k in range(7)]
    assert Fit(parts, loss).solve(d, alpha).objective == pytest.approx(optimum, rel=2e-6)


@pytest.mark.parametrize("loss", ["log", "squared"])
def test_without_an_intercept_it_stays_zero(loss: str) -> None:
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, 200, 5, loss)
    solution = Fit([(X, y)], loss).solve(5, 0.01, np.ones(6), fit_intercept=False)
    assert solution.converged
    assert solution.w[-1] == 0.0
    assert solution.objective == pytest.approx(reference(X, y, loss, 0.01, False), rel=1e-6)


@pytest.mark.parametrize("loss", ["log", "squared"])
def test_many_weights_are_found_by_products(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_solver, "EXPLICIT", 10)
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, 300, 40, loss)
    fit = Fit([(sparse(X), y)], loss)
    solution = fit.solve(40, 0.01)
    assert solution.converged
    assert solution.objective == pytest.approx(reference(X, y, loss, 0.01, True), rel=1e-6)
    assert fit.passes["hessian"] == 0 < fit.passes["product"] < 200


@pytest.mark.parametrize("loss", LOSSES)
def test_a_few_passes_are_enough_and_fewer_from_a_solution(loss: str) -> None:
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, 2000, 10, loss, noise=2.0)
    fit = Fit([(X, y)], loss)
    cold = fit.solve(10, 0.001, tol=1e-4)
    passes = fit.passes.total()
    assert passes <= {"squared": 3, "log": 15, "hinge": 45}[loss]
    again = Fit([(X, y)], loss)
    same = again.solve(10, 0.001, cold.w, tol=1e-4)
    other = Fit([(X[20:], y[20:])], loss)
    warm = other.solve(10, 0.001, cold.w, tol=1e-4)
    assert cold.converged
    assert same.converged
    assert warm.converged
    assert other.passes.total() <= {"squared": 3, "log": 7, "hinge": 25}[loss]
    if loss != "hinge":
        assert again.passes.total() == 1
    assert fit.solve(10, 0.001, tol=1e-4).w.tobytes() == cold.w.tobytes()


def test_without_a_regulariser_there_is_a_solution_or_it_says_that_there_is_none() -> None:
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, 300, 4, "squared")
    solution = Fit([(X, y)], "squared").solve(4, 0.0)
    model = LinearRegression().fit(X, y)
    np.testing.assert_allclose(solution.w, np.append(model.coef_, model.intercept_), rtol=1e-8)
    X, y = drawn(rng, 300, 4, "log", noise=3.0)
    solution = Fit([(X, y)], "log").solve(4, 0.0)
    assert solution.converged
    assert solution.objective == pytest.approx(reference(X, y, "log", 1e-12, True), rel=1e-6)
    y = np.where(X[:, 0] + X[:, 1] > 0.1, 1.0, -1.0)  # a plane separates them
    solution = Fit([(X, y)], "log").solve(4, 0.0, max_iter=15)
    assert not solution.converged
    assert solution.objective < 1e-2
    assert solution.n_iter == 15


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 1e9])
@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_targets_that_are_fitted_exactly_are_solved_at_any_scale(
    scale: float, alpha: float
) -> None:
    """What is left is rounding, which no step takes away; small targets are not rounding."""
    generator = np.random.default_rng(seed())
    for d in (1, 2, 3, 5, 8, 13, 30):
        X = generator.normal(size=(40, d)) + 3
        y = scale * (X @ generator.normal(size=d) + 1)
        fit = Fit([(X, y)], "squared")
        solution = fit.solve(d, alpha)
        assert solution.converged
        assert solution.n_iter <= 3
        model = Ridge(alpha=len(y) * alpha).fit(X, y) if alpha else LinearRegression().fit(X, y)
        expected = np.append(model.coef_, model.intercept_)
        np.testing.assert_allclose(solution.w, expected, rtol=1e-5, atol=1e-8 * scale)
        again = fit.solve(d, alpha, solution.w)
        assert again.converged
        assert again.n_iter <= 3


@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_one_class_alone_needs_no_weights(loss: str, label: float) -> None:
    X = np.random.default_rng(seed()).normal(size=(60, 3))
    fit = Fit([(X, np.full(60, label))], loss)
    solution = fit.solve(3, 0.01)
    assert solution.converged
    assert not solution.w[:-1].any()
    assert solution.w[-1] * label >= 1
    assert solution.objective < 1e-12
    assert fit.passes.total() == 2


@pytest.mark.parametrize("loss", LOSSES)
def test_columns_that_are_constant_equal_or_huge(loss: str) -> None:
    rng = np.random.default_rng(seed())
    X, y = drawn(rng, 300, 3, loss)
    X = np.column_stack([X, X[:, 0], np.zeros(300), 1e6 * X[:, 1]])
    solution = Fit([(X, y)], loss).solve(6, 1e-3, tol=1e-4)
    assert solution.converged
    assert abs(solution.w[4]) < 1e-12
    assert solution.w[0] == pytest.approx(solution.w[3], rel=1e-6)


def test_arguments_that_are_wrong_are_refused() -> None:
    fit = Fit([(np.ones((4, 2)), np.ones(4))], "squared")
    for options, words in (
        ({"alpha": -1.0}, "alpha is -1.0"), ({"alpha": 1.0, "tol": np.nan}, "tol is nan"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            fit.solve(2, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="check the rows for NaN and inf"):
        Fit([(np.full((4, 2), np.nan), np.ones(4))], "squared").solve(2, 1.0)
    with pytest.raises(InputError, match="unknown loss 'l1'"):
        Fit([], "l1").solve(2, 1.0)
