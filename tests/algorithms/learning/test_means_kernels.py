"""k-means has the inertia of scikit-learn's from the same centres, and keeps its digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from tests.algorithms.learning.test_linear_kernels import sparse
from tests.support.seeds import seed
from vertexsdk import InputError
from vertexsdk.algorithms.learning.means_kernels import (
    Farthest,
    assign,
    farthest,
    lloyd,
    merge_farthest,
)
from vertexsdk.algorithms.learning.rows import Floats, Ints, Rows


def clustered(rng: np.random.Generator, n: int, d: int, k: int) -> Floats:
    X = rng.normal(size=(k, d))[rng.integers(k, size=n)] * 3 + rng.normal(size=(n, d))
    return X * (rng.random((n, d)) < 0.8)


def over(parts: list[Rows]) -> Callable[[Floats], tuple[Floats, Ints, float]]:
    def assign_all(centres: Floats) -> tuple[Floats, Ints, float]:
        found = [assign(rows, centres) for rows in parts]
        sums: Any = sum(a.sums for a in found)
        counts: Any = sum(a.counts for a in found)
        return sums, counts, sum(a.inertia for a in found)

    return assign_all


def far_over(parts: list[Rows]) -> Callable[[Floats, int], Farthest]:
    return lambda centres, m: merge_farthest([farthest(rows, centres, m) for rows in parts], m)


def by_scikit_learn(X: Floats, centres: Floats, max_iter: int = 300) -> KMeans:
    with threadpool_limits(1):
        return KMeans(
            len(centres), init=centres, n_init=1, max_iter=max_iter, tol=0, algorithm="lloyd"
        ).fit(X)


@pytest.mark.parametrize(("n", "d", "k"), [(50, 1, 3), (700, 20, 10), (300, 7, 1), (129, 4, 9)])
def test_an_assignment_is_its_definition(n: int, d: int, k: int) -> None:
    rng = np.random.default_rng(seed())
    X = clustered(rng, n, d, k)
    centres = X[rng.choice(n, k, replace=False)]
    distances = ((X[:, None, :] - centres) ** 2).sum(axis=2)
    labels = distances.argmin(axis=1)
    for rows in (X, sparse(X)):
        answer = assign(rows, centres)
        chosen = distances[np.arange(n), answer.labels]
        np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-12)
        assert answer.inertia == pytest.approx(distances.min(axis=1).sum())
        assert answer.labels.dtype == np.int32
        if d > 1:  # else rows are often as far from two
            assert (answer.labels == labels).all()
        np.testing.assert_array_equal(answer.counts, np.bincount(answer.labels, minlength=k))
        for c in range(k):
            np.testing.assert_allclose(
                answer.sums[c], X[answer.labels == c].sum(axis=0), atol=1e-10
            )


@pytest.mark.parametrize("away", [1e6, 1e9])
def test_rows_far_from_the_origin_keep_their_digits(away: float) -> None:
    rng = np.random.default_rng(seed())
    near = np.round(clustered(rng, 400, 5, 4) * 8) / 8  # sums with `away` are exact
    centres = near[:4]
    wanted = assign(near, centres)
    for rows in (near + away, sparse(near + away)):
        answer = assign(rows, centres + away)
        assert answer.inertia == pytest.approx(wanted.inertia, rel=1e-9)
        assert (answer.labels == wanted.labels).mean() > 0.98  # others are as far from two
    answer = assign(sparse(np.full((5, 3), away)), np.full((1, 3), away))
    assert answer.inertia == 0.0


@pytest.mark.parametrize(("n", "d", "k"), [(300, 2, 4), (1500, 10, 7)])
@pytest.mark.parametrize("max_iter", [2, 300])
def test_the_inertia_is_that_of_scikit_learn(n: int, d: int, k: int, max_iter: int) -> None:
    rng = np.random.default_rng(seed())
    X = clustered(rng, n, d, k)
    start = X[rng.choice(n, k, replace=False)]
    model = by_scikit_learn(X, start, max_iter)
    for parts in ([X], [sparse(X)], [X[j::7] for j in range(7)]):
        centres, inertia, rounds = lloyd(over(parts), start, 0.0, max_iter)
        assert inertia == pytest.approx(model.inertia_, rel=1e-10)
        assert rounds == model.n_iter_
        np.testing.assert_allclose(centres, model.cluster_centers_, atol=1e-9)


def test_empty_clusters_move_as_in_scikit_learn_or_stay() -> None:
    rng = np.random.default_rng(seed())
    X = clustered(rng, 500, 3, 4)
    start = np.vstack([X[:4], np.full((2, 3), 1e3)])
    model = by_scikit_learn(X, start)
    for parts in ([X], [sparse(X)], [X[j::7] for j in range(7)]):
        _, inertia, rounds = lloyd(over(parts), start, 0.0, 300, far_over(parts))
        assert inertia == pytest.approx(model.inertia_, rel=1e-10)
        assert rounds == model.n_iter_
    centres, inertia, _ = lloyd(over([X]), start, 0.0, 300)
    np.testing.assert_array_equal(centres[4:], start[4:])
    assert inertia == pytest.approx(by_scikit_learn(X, start[:4]).inertia_, rel=1e-10)


def test_fewer_different_rows_than_clusters() -> None:
    X = np.repeat(np.array([[0.0, 1.0], [5.0, 5.0]]), 20, axis=0)
    start = np.array([[0.0, 0.0], [5.0, 6.0], [9.0, 9.0]])
    _, inertia, _ = lloyd(over([X]), start, 0.0, 50, far_over([X]))
    assert inertia == 0.0


def test_a_tolerance_ends_the_rounds() -> None:
    rng = np.random.default_rng(seed())
    X = clustered(rng, 1000, 5, 8)
    assert lloyd(over([X]), X[:8], 1.0, 300)[2] < lloyd(over([X]), X[:8], 0.0, 300)[2]


def test_arguments_that_do_not_fit_are_refused() -> None:
    X = np.ones((4, 2))
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: assign(X, np.ones((1, 3))), "have 2 columns and the model 3"),
        (lambda: assign(sparse(X), np.ones((0, 2))), "no centres are given"),
        (lambda: lloyd(over([X]), X, -1.0, 3), "use 0 or positive"),
    ]
    for call, words in calls:
        with pytest.raises(InputError, match=words):
            call()
