"""Weights in blocks: the models that there are without them, of the blocks that samples touch."""

from __future__ import annotations

import pickle
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.support.seeds import draws, seed
from vertexsdk import InputError
from vertexsdk.algorithms.learning import LinearModel, LinearSGD, LinearSVM, LogisticSGD
from vertexsdk.algorithms.learning.blocks import Weights
from vertexsdk.testing.state_elements import StateElementSuite

MODELS: list[type[LinearModel]] = [LinearSVM, LogisticSGD, LinearSGD]


def instances(
    cls: type[LinearModel], rng: np.random.Generator, n: int, d: int, classes: int
) -> tuple[Any, Any]:
    """Return features, of which most are 0, and targets."""
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2)
    if cls is LinearSGD:
        return X, X[:, 0] + rng.normal(size=n)
    return X, np.array(["a", "b", "c"])[rng.integers(classes, size=n)]


def assert_same(model: LinearModel, other: LinearModel, X: Any) -> None:
    """Both have one approximate model."""
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-12)
    scale = max(np.abs(other.coef_).max(), 1.0)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-12, atol=1e-13 * scale)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-12, atol=1e-13 * scale)
    np.testing.assert_allclose(model._scores(X), other._scores(X), rtol=1e-10, atol=1e-12 * scale)
    if hasattr(other, "classes_"):
        assert model.classes_.tolist() == other.classes_.tolist()


@pytest.mark.sample(5)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("ids", [int, str])
@pytest.mark.parametrize("cls", MODELS)
def test_drawn_histories(
    cls: type[LinearModel], ids: type, partitions: int, tmp_path: Path
) -> None:
    """After anything, the approximate and the exact model are those without blocks."""
    rng, chance = np.random.default_rng(seed()), random.Random(seed())
    d, is_sparse = chance.choice([3, 17, 40]), chance.random() < 0.7
    rate, passes = chance.choice([None, None, 20.0]), chance.choice([1, 3])
    options = {
        "alpha": chance.choice([0.01, 0.0]), "sample": chance.choice([30, 1000]), "rate": rate,
        "fit_intercept": chance.random() < 0.8, "passes": passes,
    }  # fmt: skip
    stores = [f"lmdb://{tmp_path}/blocks", f"memory://blocks-{cls.__name__}-{seed()}"]
    blocks, backends = chance.choice([1, 4, 17, 100]), [chance.choice(stores), "memory://whole"]
    backends[1] += f"-{cls.__name__}-{seed()}"
    pair = [
        cls(blocks=size, backend=backend, partitions=partitions, **options)
        for size, backend in zip([blocks, None], backends, strict=True)
    ]
    for step in range(draws(4, 8)):
        X, y = instances(cls, rng, 40, d, min(1 + step, 3))
        X = sparse.csr_array(X) if is_sparse else X
        own = [ids(chance.randrange(200)) for _ in y]
        for model in pair:
            model.partial_fit(X, y, ids=own)
        assert_same(*pair, X)
        draw, number = chance.random(), chance.choice([1, 2, 7])
        gone = [ids(k) for k in range(200) if chance.random() < 0.1]
        if draw < 0.3:
            pair = [resumed(model, number) for model in pair]
        elif draw < 0.6:
            assert pair[0].forget(gone).forgotten == pair[1].forget(gone).forgotten
        elif draw < 0.8:
            with pair[0].fork() as one, pair[1].fork() as other:
                for model in (one, other):
                    model.partial_fit(X, y, ids=own)
                    model.forget(gone)
                assert_same(one, other, X)
        else:
            pair[0].snapshot()
        assert_same(*pair, X)
    copies = [pickle.loads(pickle.dumps(model)) for model in pair]
    for model in pair:
        model.close()
    assert_same(*copies, X)
    assert_same(*pair, X)  # the models stay


def resumed(model: LinearModel, partitions: int) -> LinearModel:
    """Return what goes on from the store of a model."""
    model.close()
    assert model.backend is not None
    return type(model).resume(backend=model.backend, partitions=partitions)


@pytest.mark.sample(3)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("cls", MODELS)
def test_exact_solutions(cls: type[LinearModel], partitions: int) -> None:
    """`solve` and `fit` have the model that there is without blocks, and the main loop goes on."""
    rng = np.random.default_rng(seed())
    X, y = instances(cls, rng, 200, 9, 3)
    options = {"alpha": 0.01, "partitions": partitions, "tol": 1e-3}
    with cls(blocks=4, **options) as model, cls(**options) as whole:
        for one in (model, whole):
            one.partial_fit(X, y)
        solved, expected = model.solve(), whole.solve()
        np.testing.assert_allclose(solved.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(model.coef_, solved.coef_)  # it goes on from there
        np.testing.assert_array_equal(model.predict(X), solved.predict(X))
        model.partial_fit(X[:1], y[:1])
        assert model.objective_ < 2 * solved.objective_
        whole.fit(X, y)
        np.testing.assert_allclose(model.fit(X, y).coef_, whole.coef_, rtol=1e-6, atol=1e-9)
        assert np.shape(model.intercept_) == np.shape(whole.intercept_)


def test_a_pass_touches_the_blocks_of_its_sample() -> None:
    """Others are not stored, not sent, and not changed."""
    rng = np.random.default_rng(seed())
    rows, columns = np.repeat(np.arange(40), 2), rng.integers(100, 200, 80)
    X = sparse.coo_array((rng.normal(size=80), (rows, columns)), shape=(40, 100_000)).tocsr()
    with LinearSGD(blocks=10, partitions=2, rate=0.01, bold_driver=False) as model:
        model.partial_fit(X, rng.normal(size=40), ids=range(40))
        flow = model._flow
        touched = {*np.unique(X.indices // 10).tolist(), 10_000}  # and the intercept
        assert {key for part in flow.stored_blocks() for key in part} == touched
        stored = flow.lookup(sorted(touched), "weights")
        assert {len(row["weights"]) for row in stored.values()} == {80, 8}
        model.forget(range(40))
        assert [key for part in flow.stored_blocks() for key in part] == []
        other = sparse.coo_array(([1.0], ([0], [70_005])), shape=(1, 100_000)).tocsr()
        model.partial_fit(other, [1.0], ids=[1])
        before = flow.lookup([7000], "weights")[7000]["weights"]
        assert set(flow.lookup([*touched, 7000], "weights")) == {7000, 10_000}
        model.partial_fit(X[:1], [1.0], ids=[1])  # in its place: the block is not touched now
        assert flow.lookup([7000], "weights")[7000]["weights"] == before
        assert 0 < model.coef_[70_005] < np.frombuffer(before)[5]  # but regularised


def test_predictions_fetch_the_blocks_that_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed())
    X = sparse.random_array((50, 3000), density=0.01, rng=rng, format="csr")
    y = rng.integers(3, size=50)
    with LogisticSGD(blocks=100, partitions=2) as model, LogisticSGD(partitions=2) as whole:
        for one in (model, whole):
            one.partial_fit(X, y)
        np.testing.assert_allclose(
            model.predict_proba(X[:1]), whole.predict_proba(X[:1]), rtol=1e-10
        )
        fetched = set(model._reader._blocks)
        expected = {*np.unique(X[:1].indices // 100).tolist(), 30}
        assert fetched == {code * 31 + block for code in range(3) for block in expected}
        assert "coef_" not in vars(model)
        assert model.coef_ is model.coef_
        np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-12, atol=1e-15)


def test_what_cannot_be_done_is_said() -> None:
    X, y = np.eye(3), [1.0, 2.0, 3.0]
    for wrong in (0, -1, 2.5, "4"):
        with pytest.raises(InputError, match="give the number of weights in a block"):
            LinearSGD(blocks=wrong).partial_fit(X, y)
    backend = f"memory://blocks-said-{seed()}"
    with LinearSGD(blocks=2, backend=backend) as model:
        assert not hasattr(model, "coef_")
        model.partial_fit(X, y)
    with pytest.raises(InputError, match="was begun with blocks=2, which cannot be changed"):
        LinearSGD.resume(backend=backend, blocks=3)
    with LinearSGD.resume(backend=backend) as model:
        assert model.blocks == 2


class TestWeights(StateElementSuite):
    key_types = (int,)
    combine = max

    def element(self, key: type) -> Weights:
        return Weights(key)

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        weights = np.array([chance.randrange(9)], np.float64).tobytes()
        if method == "average":
            return weights, 0.5, chance.choice([-1.0, 0.0, 0.5]), 0.0, 0.0
        return {"set": (weights, 0.0), "read": (0.0,), "squares": (0.0, 4)}.get(method, ())


@pytest.mark.full
def test_ten_million_columns() -> None:
    """What is stored grows with the columns that instances have, and not with the width."""
    rng, width, n = np.random.default_rng(seed()), 10_000_000, 5000
    columns = rng.choice(rng.integers(width, size=300), n * 60)
    cells = sparse.coo_array(
        (np.ones(n * 60), (np.repeat(np.arange(n), 60), columns)), shape=(n, width)
    ).tocsr()
    with LogisticSGD(blocks=1024, partitions=2) as model:
        model.partial_fit(cells, rng.integers(2, size=n))
        keys = [key for part in model._flow.stored_blocks() for key in part]
        row = -(-width // 1024) + 1  # blocks of the weights of a class, the last has the intercept
        assert {key // row for key in keys} == {1}  # of two classes the larger one
        assert {key % row for key in keys} == {*np.unique(cells.indices // 1024).tolist(), row - 1}
        tracemalloc.start()
        model.partial_fit(cells[:100], rng.integers(2, size=100))
        model.predict(cells[:100])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert "coef_" not in vars(model)
        assert peak < 8 * width
