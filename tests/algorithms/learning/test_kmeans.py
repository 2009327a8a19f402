"""k-means whose instances arrive and are withdrawn has the inertia of what is left."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.cluster
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

from tests.support.seeds import draws, seed
from vertexsdk import InputError
from vertexsdk.algorithms.learning import KMeans


def points(rng: np.random.Generator, n: int, d: int = 4) -> np.ndarray:
    centres = np.random.default_rng(5).normal(size=(6, d)) * 4
    return centres[rng.integers(0, 6, n)] + rng.normal(size=(n, d))


def by_scikit_learn(X: Any, start: Any) -> Any:
    with threadpool_limits(1):
        return sklearn.cluster.KMeans(len(start), init=start, n_init=1, tol=0).fit(X)


@pytest.mark.sample(3)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("ids", [int, str])
def test_drawn_histories(ids: type, partitions: int, tmp_path: Path) -> None:
    rng, chance = np.random.default_rng(seed()), random.Random(seed())
    is_sparse = chance.random() < 0.5
    backend = chance.choice([f"lmdb://{tmp_path}/means", f"memory://means-{seed()}"])
    model = KMeans(5, backend=backend, partitions=partitions, tol=0, sample=200)
    left: dict[Any, Any] = {}
    for step in range(draws(8, 12)):
        X = points(rng, 60 if step == 0 else chance.randint(1, 60))
        own = [ids(chance.randrange(300)) for _ in X]
        model.partial_fit(sparse.csr_array(X) if is_sparse else X, ids=own)
        left |= dict(zip(own, X, strict=True))
        gone = [ids(chance.randrange(300)) for _ in range(chance.randint(0, 20))]
        there = {one for one in gone if left.pop(one, None) is not None}
        assert model.forget(gone).forgotten == len(there)
        draw = chance.random()
        if draw < 0.2:
            model.snapshot()
        if draw < 0.4:
            model.close()
            model = KMeans.resume(backend=backend, partitions=chance.choice([1, 2, 7]))
        elif draw < 0.5:
            with model.fork() as what_if:
                what_if.partial_fit(X, ids=[ids(1000 + k) for k in range(len(X))])
                what_if.forget(list(left))
        if step % 3 == 2 and len(left) > 10:
            start = model.cluster_centers_
            exact = model.solve()
            expected = by_scikit_learn(np.array(list(left.values())), start)
            assert exact.inertia_ == pytest.approx(expected.inertia_, rel=1e-9)
            assert exact.n_iter_ <= expected.n_iter_
    model.close()


def test_what_is_forgotten_has_no_trace() -> None:
    X = points(np.random.default_rng(seed()), 400)
    gone, left = np.arange(0, 400, 3), np.setdiff1d(np.arange(400), np.arange(0, 400, 3))
    with KMeans(4) as model, KMeans(4) as never:
        model.partial_fit(X, ids=range(400))
        model.forget(gone)
        never.partial_fit(X[left], ids=left)
        never.partial_fit(X[:1], ids=[1000])
        never.forget([1000])
        np.testing.assert_allclose(model.cluster_centers_, never.cluster_centers_, atol=1e-12)
        np.testing.assert_allclose(
            model.solve().cluster_centers_, never.solve().cluster_centers_, atol=1e-9
        )


def test_the_main_loop_follows_a_stream() -> None:
    X = points(np.random.default_rng(seed()), 3000)
    with KMeans(6, passes=2, tol=0.0) as model:  # it ends where no centre moves
        for at in np.split(np.arange(3000), 15):
            model.partial_fit(X[at])
        approximate, exact = model.inertia_, model.solve()
        assert exact.inertia_ <= approximate * (1 + 1e-12)
        assert approximate < 1.05 * exact.inertia_
        assert model.solve().n_iter_ == 1


def test_what_cannot_be_done_is_said() -> None:
    X = points(np.random.default_rng(seed()), 20)
    with pytest.raises(InputError, match="give 1 or more"):
        KMeans(0).fit(X)
    with pytest.raises(InputError, match="give 3 centres of 4 features"):
        KMeans(3, init=X[:2]).fit(X)
    with pytest.raises(ValueError, match="n_samples=2 should be >= n_clusters=3"):
        KMeans(3).fit(X[:2])
    with KMeans(3) as model:
        model.partial_fit(X[:2])
        with pytest.raises(InputError, match="2 instances are too few for 3 centres"):
            model.solve()
        assert model.partial_fit(X[2:]).cluster_centers_.shape == (3, 4)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning", "ignore::UserWarning")
def test_the_checks_of_scikit_learn() -> None:
    """All of them; `check_array_api_input` is skipped, as it needs an environment variable."""
    results = check_estimator(KMeans(), on_fail=None, on_skip=None)
    assert [r for r in results if r["status"] == "failed"] == []
