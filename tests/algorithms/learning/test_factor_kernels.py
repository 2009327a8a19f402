"""Sums over ratings, and factors of sums, are what NumPy has one user at a time."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk import InputError
from vertexsdk.algorithms.learning.factor_kernels import (
    BLOCK,
    TILE,
    by_code,
    solve_equations,
    sum_equations,
)


@pytest.mark.parametrize(
    ("n", "users", "k"), [(0, 3, 2), (9, 5, 1), (3 * TILE + 5, 2, 10), (7000, BLOCK + 5, 4)]
)
def test_factors_are_the_solutions_of_ridge_regressions(n: int, users: int, k: int) -> None:
    rng = np.random.default_rng(seed())
    own, others = rng.integers(users, size=n), rng.integers(20, size=n)
    ratings, items, alpha, mean = rng.normal(3, 1, n), rng.normal(size=(20, k)), 0.3, 2.5
    sums = sum(
        sum_equations(by_code(own[at], others[at], ratings[at], users), mean, items)
        for at in np.array_split(np.arange(n), 3)
    )
    answer = solve_equations(sums, k, alpha)
    assert answer.there.tolist() == np.unique(own).tolist()
    error = penalty = 0.0
    for user, factors in zip(answer.there[:500], answer.factors, strict=False):
        rows = own == user
        V, d = items[others[rows]], ratings[rows] - mean
        expected = np.linalg.solve(V.T @ V + alpha * len(d) * np.eye(k), V.T @ d)
        np.testing.assert_allclose(factors, expected, atol=1e-10)
        error += np.sum((d - V @ expected) ** 2)
        penalty += len(d) * (expected @ expected)
    if len(answer.there) <= 500:
        np.testing.assert_allclose((answer.error, answer.penalty), (error, penalty), rtol=1e-9)


def test_equations_without_one_solution() -> None:
    sums = sum_equations(by_code(np.array([0]), np.array([0]), np.ones(1), 1), 0.0, np.ones((1, 2)))
    with pytest.raises(InputError, match=r"alpha is 0.0, too small for these ratings"):
        solve_equations(sums, 2, 0.0)
