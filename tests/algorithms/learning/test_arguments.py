"""Arguments of learners: each is used as it comes, or refused before anything changes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

from tests.support.seeds import seed
from vertexsdk import InputError
from vertexsdk.algorithms.learning import KMeans, Learner, LinearSGD, LinearSVM, LogisticSGD

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [3.0, 2.0]])
Y = np.array([0, 0, 1, 1])
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("cls", "parameters"),
    [
        *((LogisticSGD, {"alpha": value}) for value in (-1, NAN, INF, "x", None)),
        *((LinearSVM, {"rate": value}) for value in (0, -1, NAN)),
        *((LinearSGD, {"passes": value}) for value in (-1, 1.5)),
        *((KMeans, {"sample": value}) for value in (0, -5, 2.5)),
        *((cls, {"tol": value}) for cls in (LinearSGD, KMeans) for value in (-1, NAN)),
        *((cls, {"max_iter": value}) for cls in (LinearSGD, KMeans) for value in (-1, 0.5)),
        (LinearSGD, {"loop": 5}),
    ],
)
def test_parameters_that_cannot_be(cls: type[Learner], parameters: dict[str, Any]) -> None:
    """They are refused by name, also where they are set later, and the learner stays as it is."""
    (name,) = parameters
    options = {"n_clusters": 2} if cls is KMeans else {}
    for call in ("fit", "partial_fit"):
        with pytest.raises(InputError, match=f"The '{name}' parameter of {cls.__name__} must be"):
            getattr(cls(**parameters, **options), call)(X, Y)
    with cls(**options).partial_fit(X, Y) as model:
        before = model._flow.progress()["version"]
        with pytest.raises(InputError, match=f"The '{name}' parameter"):
            model.set_params(**parameters).partial_fit(X, Y)
        assert model._flow.progress()["version"] == before


@pytest.mark.parametrize("cls", [LogisticSGD, LinearSVM, LinearSGD])
@pytest.mark.parametrize("alpha", [1.0, 1e4, 1e9])
def test_alpha_may_be_large(cls: type[Any], alpha: float) -> None:
    """No step is so long that it shrinks weights beyond 0, whatever the rate was or becomes."""
    for rate in (None, 1e6):
        with cls(alpha=alpha, rate=rate, passes=3) as model:
            for _ in range(5):
                model.partial_fit(X * 1e-3, Y, ids=range(4))
            assert model.objective_ < 1.5 * model.solve().objective_ + 0.1
    with cls(alpha=0.0) as model:
        model.partial_fit(X, Y)
        model.set_params(alpha=alpha).partial_fit(X, Y)


class Session:
    """As a Spark session, it cannot be copied."""

    def __reduce__(self) -> Any:
        raise TypeError("a session is only on the driver")


def test_a_session_is_shared() -> None:
    """By learners with the same parameters; one that goes to another process has none."""
    model = KMeans(3, spark=Session(), init=X[:3])
    assert clone(model).spark is model.spark
    assert clone(model).init is not model.init
    assert pickle.loads(pickle.dumps(model)).spark is None


@pytest.mark.timeout(300)
def test_linear_models_on_executors(spark: Any) -> None:
    rng = np.random.default_rng(seed())
    features = rng.normal(size=(200, 3))
    targets = np.where(features[:, 0] + rng.normal(size=200) > 0, "a", "b")
    ids = [f"visit-{k}" for k in range(200)]
    with LogisticSGD(spark=spark, partitions=2, alpha=0.01) as model:
        model.partial_fit(features, targets, ids=ids)
        with LogisticSGD(alpha=0.01) as here:
            here.partial_fit(features, targets, ids=ids)
            assert model.solve().objective_ == pytest.approx(here.solve().objective_, rel=1e-4)
            with model.fork() as what_if:
                assert what_if.forget(ids[:50]).forgotten == 50
            assert model.forget(ids[:100])[0] == here.forget(ids[:100])[0] == 100
            assert model.solve().objective_ == pytest.approx(here.solve().objective_, rel=1e-4)


@pytest.mark.timeout(300)
def test_means_on_executors(spark: Any) -> None:
    features = np.random.default_rng(seed()).normal(size=(200, 3))
    with KMeans(3, spark=spark, partitions=2) as means, KMeans(3) as here:
        means.partial_fit(features)
        assert means.solve().inertia_ == pytest.approx(here.fit(features).inertia_, rel=0.05)


@pytest.mark.parametrize("cls", [LogisticSGD, KMeans])
def test_features_that_are_too_large(cls: type[Any]) -> None:
    with pytest.raises(InputError, match="features are too large for their squares: scale them"):
        cls().partial_fit(X * 1e300, Y)
    with pytest.raises(InputError, match="init has numbers that are not finite"):
        KMeans(2, init=X[:2] * NAN).partial_fit(X)


IDS = {
    "int": [-5, 0, -(2**63), 2**63 - 1],
    "str": ["", "a\0b", "\U0001f600", "e\u0301"],
}


@pytest.mark.parametrize("kind", ["int", "str"])
@pytest.mark.parametrize("form", [list, tuple, iter, np.array, pa.array, pa.chunked_array])
def test_ids_as_they_come(kind: str, form: Any) -> None:
    own = IDS[kind]
    given = form([own]) if form is pa.chunked_array else form(own)
    with LogisticSGD().partial_fit(X, Y, ids=given) as model:
        gone = form([own[1:3]]) if form is pa.chunked_array else form(own[1:3])
        assert model.forget(gone).forgotten == 2
        assert model.forget(own).forgotten == 2


def test_ids_that_cannot_be() -> None:
    with LogisticSGD(backend=f"memory://ids-{seed()}") as model:
        model.partial_fit(X, Y, ids=["visit-7", "a", "b", "c"])
        with pytest.raises(InputError, match=r"ids is 'visit-7': give several, as \['visit-7'\]"):
            model.forget("visit-7")
        with pytest.raises(InputError, match=r"ids is 7: give several, as \[7\]"):
            model.forget(7)
        with pytest.raises(InputError, match="surrogates"):
            model.partial_fit(X[:1], Y[:1], ids=["\ud800"])
        assert model.partial_fit(X, Y, ids=list("abcd")).forget(list("abcd")).forgotten == 4
    with LogisticSGD().partial_fit(X, Y, ids=IDS["int"]) as model:
        with pytest.raises(InputError, match="give ids: those after 9223372036854775807 have over"):
            model.partial_fit(X, Y)
        model.partial_fit(X, Y, ids=range(4))


def test_classes_as_they_come() -> None:
    """Arrays of objects have the types of the objects; what is only in withdrawn instances goes."""
    for classes in ([2, 1, 0], np.array([0, 1, 2, 1], object)):
        with LogisticSGD().partial_fit(X, Y, ids=range(4), classes=classes) as model:
            assert model.classes_.tolist() == [0, 1, 2]
            model.partial_fit(X[:1], [7], ids=[9])
            assert model.classes_.tolist() == [0, 1, 2, 7]
            model.forget([9])
            assert model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="all numbers or all str"):
        LogisticSGD().partial_fit(X, Y, classes=np.array(["a", 1], object))
    with LogisticSGD().partial_fit(X, Y) as model:
        with pytest.raises(InputError, match="all numbers or all str: the earlier ones are as"):
            model.partial_fit(X, np.array(["a", "b"])[Y])
        assert model.partial_fit(X, Y).classes_.tolist() == [0, 1]
