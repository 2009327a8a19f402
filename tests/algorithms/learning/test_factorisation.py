"""A matrix factorisation whose ratings arrive and are withdrawn: after anything, as if only those
that are left had ever been seen."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tests.support.seeds import draws, seed
from vertexsdk import InputError
from vertexsdk.algorithms.learning import MatrixFactorisation
from vertexsdk.algorithms.learning.labels import as_pairs, first_factors


def ratings(
    rng: np.random.Generator, n: int, users: int = 20, items: int = 15
) -> tuple[list[tuple[Any, Any]], np.ndarray]:
    """Return pairs of an int and a str, and ratings with two factors and noise."""
    u, i = rng.integers(users, size=n), rng.integers(items, size=n)
    y = 3 + np.sin(u) * np.cos(i) + np.cos(3 * u) * np.sin(2 * i) + 0.1 * rng.normal(size=n)
    return [(int(a) - 3, f"item {b}") for a, b in zip(u, i, strict=True)], y


class Streamed:
    """A data frame by the interface that Polars has."""

    def __init__(self, table: pa.Table) -> None:
        self.__arrow_c_stream__ = table.__arrow_c_stream__


def by_definition(X: Any, y: Any, k: int, alpha: float, rounds: int) -> tuple[Any, Any, float]:
    """Return the factors of users and items in the order of their labels, and the objective."""
    users, u = np.unique([a for a, _ in X], return_inverse=True)
    items, i = np.unique([b for _, b in X], return_inverse=True)
    W, V, d = np.zeros((len(users), k)), first_factors(items, k), y - np.mean(y)
    for _ in range(rounds):
        for own, others, codes, across in ((W, V, u, i), (V, W, i, u)):
            for c in range(len(own)):
                rows = codes == c
                A = others[across[rows]]
                ridge = alpha * rows.sum() * np.eye(k)
                own[c] = np.linalg.solve(A.T @ A + ridge, A.T @ d[rows])
    squares = (W[u] ** 2).sum(axis=1) + (V[i] ** 2).sum(axis=1)
    errors = (d - (W[u] * V[i]).sum(axis=1)) ** 2
    return W, V, float((errors + alpha * squares).mean())


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_fit_is_its_definition(partitions: int) -> None:
    X, y = ratings(np.random.default_rng(seed()), 300)
    with MatrixFactorisation(3, alpha=0.02, partitions=partitions).fit(X, y) as model:
        W, V, objective = by_definition(X, y, 3, 0.02, model.passes + model.n_iter_)
        assert model.users_.tolist() == sorted({user for user, _ in X})
        assert model.items_.tolist() == sorted({item for _, item in X})
        np.testing.assert_allclose(model.user_factors_, W, rtol=0, atol=1e-8)
        np.testing.assert_allclose(model.item_factors_, V, rtol=0, atol=1e-8)
        assert model.objective_ == pytest.approx(objective, rel=1e-9)
        *_, later = by_definition(X, y, 3, 0.02, model.passes + model.n_iter_ + 1)
        assert 0 <= objective - later < 2e-4 * objective
        errors = model.predict(X) - y
        assert model.score(X, y) == pytest.approx(1 - errors @ errors / (np.var(y) * len(y)))
        assert model.score(X, y) > 0.9


@pytest.mark.sample(3)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("users", [int, str])
@pytest.mark.parametrize("ids", [int, str])
def test_drawn_histories(ids: type, users: type, partitions: int, tmp_path: Path) -> None:
    """The model is that of a learner which only saw what is left, whatever came before."""
    rng, chance = np.random.default_rng(seed()), random.Random(seed())
    backend = chance.choice([f"lmdb://{tmp_path}/learning", f"memory://factors-{seed()}"])
    options: dict[str, Any] = {"alpha": 0.05, "sample": chance.choice([40, 1000])}
    model = MatrixFactorisation(3, backend=backend, partitions=partitions, **options)
    left: dict[Any, tuple[Any, float]] = {}
    for step in range(draws(3, 6)):
        X, y = ratings(rng, chance.randint(1, 80))
        X = [(users(user), item) for user, item in X]
        own = [ids(chance.randrange(150)) for _ in y]
        model.partial_fit(X, y, ids=own)
        left |= dict(zip(own, zip(X, y.tolist(), strict=True), strict=True))
        gone = [ids(chance.randrange(150)) for _ in range(chance.randint(0, 60))]
        there = {one for one in gone if left.pop(one, None) is not None}
        assert model.forget(gone).forgotten == len(there)
        draw = chance.random()
        if draw < 0.2:
            model.snapshot()
        if draw < 0.5:
            model.close()
            model = MatrixFactorisation.resume(backend=backend, partitions=chance.choice([1, 2, 7]))
        elif draw < 0.7:
            with model.fork() as what_if:
                what_if.partial_fit([(users(99), "other")], [1.0], ids=[ids(1000)])
                what_if.forget(list(left))
                assert what_if.users_.tolist() == [users(99)]
        if step % 3 != 2 or not left:
            continue
        X, y = [pair for pair, _ in left.values()], np.array([own for _, own in left.values()])
        with MatrixFactorisation(3, partitions=1, **options) as never:
            never.partial_fit(X[::-1], y[::-1], ids=list(left)[::-1])
            for one in (model, never):
                one.partial_fit([(users(77), "other")], [9.0], ids=[ids(2000)])
                one.forget([ids(2000)])
            exact, expected = model.solve(), never.solve()
            assert exact.objective_ == pytest.approx(expected.objective_, rel=1e-9)
            assert exact.users_.tolist() == expected.users_.tolist()
            assert exact.items_.tolist() == expected.items_.tolist()
            everything = [(user, item) for user in exact.users_ for item in exact.items_]
            np.testing.assert_allclose(
                exact.predict(everything), expected.predict(everything), rtol=0, atol=1e-6
            )
    model.close()


def test_labels_without_ratings_leave_no_trace() -> None:
    """Neither in the attributes nor in what is stored, and others get their places."""
    X = [("Ann", 1), ("Bob", 1), ("Bob", 2), ("Cid", 3)]
    with MatrixFactorisation(2, alpha=0.01) as model:
        model.partial_fit(X, [1, 2, 3, 4.0], ids=range(4))
        codes = model._model["users"].tolist()
        model.forget([0])
        model.partial_fit([("Bob", 2)], [5.0], ids=[3])  # takes the place of Cid's
        assert (model.users_.tolist(), model.items_.tolist()) == (["Bob"], [1, 2])
        stored = model._flow.load()
        for label in ("Ann", "Cid"):
            assert label.encode("utf-32-le") not in stored
        assert "Bob".encode("utf-32-le") in stored
        assert model.predict([("Ann", 1), ("Bob", 3)]).tolist() == [10 / 3] * 2
        model.partial_fit([("Dan", 7), ("Eve", 1)], [1.0, 2.0], ids=[5, 6])
        assert model.users_.tolist() == ["Bob", "Dan", "Eve"]
        assert model._model["users"].tolist() == ["Dan", "Bob", "Eve"] != codes
        model.forget(range(7))
        assert (model.users_.tolist(), model.items_.tolist()) == ([], [])
        assert model.solve().objective_ == 0
        model.partial_fit([("Ann", 1)], [2.0])
        assert model.predict([("Ann", 1)]).tolist() == [2.0]


def test_what_is_not_in_the_sample_has_the_mean() -> None:
    """The first factors of an item say nothing of its ratings."""
    X = [(k, k) for k in range(40)]
    with MatrixFactorisation(2, sample=10, alpha=0.01) as model:
        model.partial_fit(X, np.arange(40.0))
        learnt = (model.item_factors_ != 0).any(axis=1)
        assert 0 < learnt.sum() < 30
        everyone = [(int(user), int(item)) for user in model.users_ for item in model.items_]
        predicted = model.predict(everyone).reshape(40, 40)
        assert np.all(predicted[:, ~learnt] == 19.5)
        assert np.all(model.solve(tol=0.1).item_factors_.any(axis=1))


def test_another_number_of_factors() -> None:
    rng = np.random.default_rng(seed())
    X, y = ratings(rng, 200)
    backend = f"memory://factors-{seed()}"
    with MatrixFactorisation(2, alpha=0.02, backend=backend) as model:
        model.partial_fit(X[:150], y[:150])
    with MatrixFactorisation.resume(backend=backend, n_factors=4, passes=3) as model:
        model.partial_fit(X[150:], y[150:])
        W, V, objective = by_definition(X, y, 4, 0.02, 3)
        np.testing.assert_allclose(model.user_factors_, W, rtol=0, atol=1e-8)
        np.testing.assert_allclose(model.item_factors_, V, rtol=0, atol=1e-8)
        assert model.objective_ == pytest.approx(objective, rel=1e-9)


def test_frames_tables_arrays_and_lists() -> None:
    X, y = ratings(np.random.default_rng(seed()), 100)
    users, items = ([abs(u) for u, _ in X], [i for _, i in X])
    X = list(zip(users, items, strict=True))
    columns = {"user": users, "item": items}
    objects = np.empty((100, 2), object)
    objects[:, 0], objects[:, 1] = users, items
    frame = pd.DataFrame(columns, index=np.arange(100) * 2)
    given = [
        X, objects, frame, frame.astype({"user": "uint8", "item": "category"}),
        Streamed(pa.table(columns)), pa.table(columns), pa.RecordBatch.from_pydict(columns),
    ]  # fmt: skip
    for one in given:
        pairs = as_pairs(one)
        assert (pairs.users.dtype, pairs.users.tolist()) == (np.int64, users)
        assert (pairs.items.dtype.kind, pairs.items.tolist()) == ("U", items)
    assert as_pairs(np.array(X)).users.tolist() == [str(user) for user in users]
    assert as_pairs(np.array(X, object)[:, [1, 0]]).items.tolist() == users
    with MatrixFactorisation(2).fit(frame, y) as model:
        np.testing.assert_array_equal(model.predict(frame), model.predict(X))


def test_recommendations_are_the_highest_predictions() -> None:
    X, y = ratings(np.random.default_rng(seed()), 200)
    model = MatrixFactorisation(2, alpha=0.01).fit(X, y)
    model.close()
    items, scores = model.recommend(4, n=3)
    every = model.predict([(4, str(item)) for item in model.items_])
    np.testing.assert_allclose(scores, np.sort(every)[::-1][:3])
    assert items.tolist() == model.items_[np.argsort(-every)[:3]].tolist()
    assert len(model.recommend(4, n=100)[0]) == 15
    with pytest.raises(InputError, match="user 99 has no ratings; give one of users_"):
        model.recommend(99)
    with pytest.raises(InputError, match="users of earlier ratings are int; give int"):
        model.recommend("4")


def test_parameters_copies_and_pickles() -> None:
    """`check_estimator` gives numbers as features, which these are not."""
    X, y = ratings(np.random.default_rng(seed()), 50)
    model = MatrixFactorisation(3, alpha=0.5)
    assert model.get_params() == clone(model).get_params()
    assert model.get_params()["n_factors"] == 3
    model.fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    with pytest.raises(InputError, match="has a model and no instances"):
        copy.forget([1])
    assert not hasattr(clone(model), "users_")
    model.close()


def test_what_cannot_be_done_is_said() -> None:
    X, y = [(1, "a"), (2, "b")], [1.0, 2.0]
    with pytest.raises(InputError, match="n_factors is 0; give 1 or more"):
        MatrixFactorisation(0).fit(X, y)
    with pytest.raises(InputError, match="alpha is 0; give a number above 0"):
        MatrixFactorisation(alpha=0).fit(X, y)
    model = MatrixFactorisation(2)
    with pytest.raises(ValueError, match="not fitted yet"):
        model.predict(X)
    for bad, message in (
        ([(1, "a"), 2], r"X\[1\] is 2; give a user and an item for each rating"),
        ([(1, "a", 3), (1, "b", 3)], "give a user and an item for each rating"),
        (np.zeros((2, 3), int), r"shape \(2, 3\); give a user and an item"),
        ([(1.5, "a"), (2, "b")], "users are all int, of 64 bits, or all str"),
        ([(1, "a"), (2, None)], "items are all int, of 64 bits, or all str"),
        ([(1, "a"), (2, 3)], "items are all int, of 64 bits, or all str"),
        ([(True, "a"), (2, "b")], "users are all int"),
        ([(2**63, "a"), (2, "b")], "users are all int"),
        ([(1, "a\0"), (2, "b")], "ends with the character 0"),
        ([], "no ratings are given; give at least one"),
    ):
        with pytest.raises(InputError, match=message):
            model.partial_fit(bad, y)
    for wrong in ([1.0], [1.0, np.nan], ["x", "y"]):
        with pytest.raises(ValueError, match=r"inconsistent|NaN|could not convert"):
            model.partial_fit(X, wrong)
    model.partial_fit(X, y)
    with pytest.raises(InputError, match="the items of earlier ratings are str; give str"):
        model.partial_fit([(1, 2)], [1.0])
    with pytest.raises(InputError, match="the users of earlier ratings are int; give int"):
        model.predict([("1", "a")])
    assert model.predict([]).tolist() == []
    assert model.users_.tolist() == [1, 2]
    model.set_params(max_iter=1)
    with pytest.warns(ConvergenceWarning, match="still falls after 1 rounds"):
        model.solve(tol=0)
    model.close()
