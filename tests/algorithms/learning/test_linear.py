"""Linear models whose instances arrive and are withdrawn: after anything, as if only those that are
left had ever been seen."""

from __future__ import annotations

import gc
import math
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

from tests.support.seeds import draws, seed
from vertexsdk import InputError, StateInputError
from vertexsdk.algorithms.learning import (
    KMeans,
    LinearModel,
    LinearSGD,
    LinearSVM,
    LogisticSGD,
    linear_kernels,
)
from vertexsdk.backends import memory

MODELS: list[type[LinearModel]] = [LinearSVM, LogisticSGD, LinearSGD]


def instances(
    cls: type[LinearModel], rng: np.random.Generator, n: int, d: int = 5, classes: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Return features and targets that go together, with noise."""
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    scores = X @ np.linspace(-1, 2, d * classes).reshape(d, classes)
    scores += rng.normal(size=(n, classes))
    if cls is LinearSGD:
        return X, scores[:, 0]
    return X, np.array(["a", "b", "c"])[scores.argmax(axis=1)]


def best(cls: type[LinearModel], alpha: float, X: Any, y: Any) -> float:
    """Return the smallest objective, by scikit-learn."""
    n = len(y)
    if cls is LinearSGD:
        model = Ridge(alpha=alpha * n, tol=1e-12).fit(X, y)
        losses = (model.predict(X) - y) ** 2 / 2
    elif cls is LogisticSGD:
        model = LogisticRegression(C=1 / (n * alpha), tol=1e-10, max_iter=10_000).fit(X, y)
        losses = np.logaddexp(0, -np.where(y == model.classes_[1], 1, -1) * _scores(model, X))
    else:
        model = SVC(kernel="linear", C=1 / (n * alpha), tol=1e-8).fit(X, y)
        margins = np.where(y == model.classes_[1], 1, -1) * model.decision_function(X)
        losses = np.maximum(0, 1 - margins)
    return float(losses.mean() + alpha / 2 * np.sum(np.asarray(model.coef_) ** 2))


def _scores(model: Any, X: Any) -> Any:
    return model.decision_function(X)


@pytest.mark.sample(6)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("ids", [int, str])
@pytest.mark.parametrize("cls", MODELS)
def test_drawn_histories(
    cls: type[LinearModel], ids: type, partitions: int, tmp_path: Path
) -> None:
    """The exact model, whatever came before, is scikit-learn's of what is left."""
    rng, chance, alpha = np.random.default_rng(seed()), random.Random(seed()), 0.01
    is_sparse = chance.random() < 0.5
    backend = chance.choice([f"lmdb://{tmp_path}/learning", f"memory://{cls.__name__}-{seed()}"])
    model = cls(alpha=alpha, sample=chance.choice([50, 1000]), backend=backend, tol=1e-6,
                partitions=partitions)  # fmt: skip
    left: dict[Any, tuple[Any, Any]] = {}
    for step in range(draws(8, 12)):
        X, y = instances(cls, rng, 60 if step == 0 else chance.randint(1, 60))
        own = [ids(chance.randrange(300)) for _ in y]
        model.partial_fit(sparse.csr_array(X) if is_sparse else X, y, ids=own)
        left |= dict(zip(own, zip(X, y, strict=True), strict=True))
        gone = [ids(chance.randrange(300)) for _ in range(chance.randint(0, 20))]
        there = {one for one in gone if left.pop(one, None) is not None}
        assert model.forget(gone).forgotten == len(there)
        draw = chance.random()
        if draw < 0.2:
            model.snapshot()
        if draw < 0.4:
            model.close()
            model = cls.resume(backend=backend, partitions=chance.choice([1, 2, 7]), tol=1e-6)
        elif draw < 0.5:
            with model.fork() as what_if:
                what_if.partial_fit(X, y, ids=[ids(1000 + k) for k in range(len(y))])
                what_if.forget(list(left))
        if step % 3 == 2 and len(left) > 30:
            X, y = map(np.array, zip(*left.values(), strict=True))
            expected = best(cls, alpha, X, y)
            assert model.solve().objective_ == pytest.approx(expected, rel=1e-4)
            assert model.objective_ < 2 * expected + 0.1  # it goes on from there
    model.close()


@pytest.mark.parametrize("cls", MODELS)
def test_what_is_forgotten_has_no_trace(cls: type[LinearModel]) -> None:
    """The approximate model, too, is bit for bit that of a learner which never saw it."""
    rng = np.random.default_rng(seed())
    X, y = instances(cls, rng, 400)
    gone = [int(k) for k in rng.permutation(400)[:150]]
    left = np.setdiff1d(np.arange(400), gone)
    with cls(sample=100) as model, cls(sample=100) as never:
        for at in np.split(np.arange(400), 8):
            model.partial_fit(X[at], y[at], ids=at)
        before = model._flow.progress()["version"]
        receipt = model.forget(gone)
        assert receipt.forgotten == 150
        assert receipt.version > before
        never.partial_fit(X[left], y[left], ids=left)
        never.partial_fit(X[:1], y[:1], ids=[1000])
        never.forget([1000])
        assert model.coef_.tolist() == never.coef_.tolist()
        assert model.objective_ == never.objective_
        assert set(model._flow.lookup(list(range(400)), "instances")) == set(left.tolist())
        assert model.forget(gone) == (0, model._flow.progress()["version"])


@pytest.mark.parametrize("cls", MODELS)
def test_the_main_loop_follows_a_stream(cls: type[LinearModel]) -> None:
    """It is near the best model of what there is, and a branch from there ends sooner."""
    rng = np.random.default_rng(seed())
    X, y = instances(cls, rng, 3000)
    with cls(alpha=0.01, passes=3) as model:
        for at in np.split(np.arange(3000), 15):
            model.partial_fit(X[at], y[at])
        approximate, exact = model.objective_, model.solve()
        assert exact.objective_ <= approximate < 1.1 * exact.objective_
        again = model.solve()
        assert again.n_iter_ <= exact.n_iter_
        assert again.objective_ == pytest.approx(exact.objective_, rel=1e-4)


@pytest.mark.sample(4)
@pytest.mark.parametrize("blocks", [None, 3])
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("cls", MODELS)
def test_the_main_loop_comes_near_the_best_model(
    cls: type[LinearModel], partitions: int, blocks: int | None
) -> None:
    """It never goes away from where it is, be that the exact model or not."""
    X, y = instances(cls, np.random.default_rng(seed()), 2000)
    with cls(alpha=0.01, passes=10, partitions=partitions, blocks=blocks) as model:
        best = model.partial_fit(X, y, ids=range(2000)).solve(tol=1e-6).objective_
        with cls(alpha=0.01, passes=10, partitions=partitions, blocks=blocks) as never_solved:
            objectives = [
                never_solved.partial_fit(X, y, ids=range(2000)).objective_ for _ in range(3)
            ]
        assert objectives == sorted(objectives, reverse=True)
        assert objectives[0] < 1.01 * best  # 480 draws: 0.1 % above in the median, 0.5 % at most
        for _ in range(3):
            assert model.partial_fit(X[:1], y[:1], ids=[0]).objective_ < (1 + 1e-6) * best


def test_a_rate_that_is_changed_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many passes are not taken, or taken, it is soon a usual one again."""
    X = np.random.default_rng(seed()).normal(size=(100, 3))
    usual = LogisticSGD._step / (1 + (X**2).sum() / 100)
    with LogisticSGD() as model:
        model.partial_fit(X, X[:, 0] > 0, ids=range(100))
        assert model._model["rate"] == pytest.approx(1.1 * usual)
        for answer, times in (((1.0, None), 1 / 64), ((1.0, 1.0), 64)):
            monkeypatch.setattr(LogisticSGD, "_descend_all", lambda *_, answer=answer: answer)
            for _ in range(100):
                model._descend(model._flow, model._model, 1.0)
            assert model._model["rate"] == pytest.approx(usual * times)
        monkeypatch.undo()
        model.set_params(passes=10)
        assert model.partial_fit(X, X[:, 0] < 0, ids=range(100)).score(X, X[:, 0] < 0) > 0.9


@pytest.mark.parametrize("blocks", [None, 2])
def test_the_main_loop_computes_no_gradients(
    blocks: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the passes it needs objectives alone."""
    monkeypatch.setattr(linear_kernels, "_add_rows", lambda *_: 1 / 0)
    X, y = instances(LogisticSGD, np.random.default_rng(seed()), 50)
    with LogisticSGD(blocks=blocks, passes=3, partitions=2) as model:
        assert model.partial_fit(X, y).objective_ < 1


@pytest.mark.parametrize("partitions", [1, 2])
def test_the_main_loop_follows_instances_that_are_quite_different(partitions: int) -> None:
    """An objective that rises with new instances is no sign that the rate is too large."""
    X = np.random.default_rng(seed()).normal(size=(100, 3))
    with LinearSGD(passes=3, partitions=partitions) as model:
        model.partial_fit(X * 1e-3, np.zeros(100))
        for _ in range(10):
            model.partial_fit(X, 1000 * X[:, 0])
        assert model.solve().objective_ <= model.objective_ < 1.01 * model.solve().objective_ + 100
        assert model.coef_[0] == pytest.approx(1000, rel=0.05)
    with LinearSGD(rate=1e3, alpha=1e-6) as model:  # too large: the objective is that of zeros
        model.partial_fit(X, X[:, 0])
        assert model.objective_ == pytest.approx(np.mean(X[:, 0] ** 2) / 2)


@pytest.mark.parametrize("blocks", [None, 2])
def test_a_sample_without_instances_changes_nothing(blocks: int | None) -> None:
    X = np.arange(50.0)[:, None] / 50
    with LinearSGD(sample=1000, blocks=blocks, passes=5) as model:
        model.partial_fit(X, 2 * X[:, 0])
        before = model.coef_.tolist()
        assert before != [0.0]
        model._descend(model._flow, model._model, 1e-12)
        model._publish(model._model)
        assert model.coef_.tolist() == before


def test_classes_that_arrive_later() -> None:
    rng = np.random.default_rng(seed())
    X, y = instances(LogisticSGD, rng, 900, classes=3)
    order = np.argsort(y == "a", kind="stable")  # "a" comes last, and is the first in order
    with LogisticSGD(alpha=0.01) as model, LogisticSGD(alpha=0.01) as whole:
        for at in np.split(order, 9):
            model.partial_fit(X[at], y[at])
        assert model.classes_.tolist() == ["a", "b", "c"]
        whole.fit(X, y)
        exact = model.solve(tol=1e-8)
        np.testing.assert_allclose(exact.coef_, whole.solve(tol=1e-8).coef_, atol=1e-3)
        assert (exact.predict(X) == whole.predict(X)).mean() > 0.99
        np.testing.assert_allclose(exact.predict_proba(X).sum(axis=1), 1)


def test_classes_that_are_forgotten() -> None:
    """A class without instances is gone, unless it was declared; all may be gone."""
    rng = np.random.default_rng(seed())
    X, y = instances(LogisticSGD, rng, 300, classes=3)
    with LogisticSGD() as model, LogisticSGD() as never, LogisticSGD() as declared:
        model.partial_fit(X, y, ids=range(300))
        declared.partial_fit(X, y, ids=range(300), classes=list("abc"))
        never.fit(X[y != "b"], y[y != "b"])
        for one in (model, declared):
            assert one.forget(np.flatnonzero(y == "b")).forgotten == (y == "b").sum()
        assert model.classes_.tolist() == ["a", "c"]
        assert declared.classes_.tolist() == ["a", "b", "c"]
        np.testing.assert_allclose(
            model.solve(tol=1e-9).coef_, never.solve(tol=1e-9).coef_, atol=1e-3
        )
        model.partial_fit(X[y == "b"], y[y == "b"])
        assert model.classes_.tolist() == ["a", "b", "c"]
        np.testing.assert_allclose(
            model.solve(tol=1e-9).coef_, never.fit(X, y).solve(tol=1e-9).coef_, atol=1e-3
        )
        model.forget(range(600))
        assert model.solve().objective_ == 0
        with pytest.raises(InputError, match="no instances left"):
            model.predict(X)
        model.partial_fit(X, y)
        assert len(model.solve().predict(X)) == 300


def test_frames_tables_and_sparse_matrices() -> None:
    rng = np.random.default_rng(seed())
    X, y = instances(LogisticSGD, rng, 200)
    names = list("vwxyz")
    frame = pd.DataFrame(X, columns=names)
    given = [X, frame, pa.Table.from_pandas(frame), sparse.csr_array(X), sparse.coo_matrix(X)]
    models = [LogisticSGD().fit(one, y) for one in given]
    for model, one in zip(models, given, strict=True):
        np.testing.assert_allclose(model.coef_, models[0].coef_, atol=1e-6)
        np.testing.assert_array_equal(model.predict(one), models[0].predict(X))
        model.close()
    batch = given[2].select(names[::-1]).to_batches()[0]
    for model in models[1:3]:
        assert model.feature_names_in_.tolist() == names
        for other in (frame[names[::-1]], given[2].select(names[::-1]), batch):
            with pytest.raises(ValueError, match="must be in the same order"):
                model.predict(other)


def test_sparse_matrices_as_they_come() -> None:
    """Cells that are there twice, or not in order, and indices of 64 bits; X is not changed."""
    values, columns = np.arange(1.0, 7.0), np.array([2, 0, 0, 1, 2, 0])
    parts = values, columns, np.array([0, 3, 4, 6])
    plain = sparse.csr_array(parts, shape=(3, 3)).toarray()
    for kind in (np.int32, np.int64):
        X = sparse.csr_array((3, 3))
        X.data, X.indices, X.indptr = (part.astype(kind) for part in parts)
        X.data = X.data.astype(np.float64)
        with KMeans(2, init=plain[:2]) as means, KMeans(2, init=plain[:2]) as dense:
            assert means.fit(X).inertia_ == pytest.approx(dense.fit(plain).inertia_)
            assert means.labels_.tolist() == dense.labels_.tolist()
        with LinearSGD(alpha=1.0) as model, LinearSGD(alpha=1.0) as expected:
            model.fit(X, [1, 2, 4])
            np.testing.assert_allclose(model.coef_, expected.fit(plain, [1, 2, 4]).coef_)
        for part, own in zip(parts, (X.data, X.indices, X.indptr), strict=True):
            assert own.tolist() == part.tolist()


def test_what_cannot_be_done_is_said() -> None:
    rng = np.random.default_rng(seed())
    X, y = instances(LinearSGD, rng, 20)
    backend = f"memory://said-{seed()}"
    model = LinearSGD(backend=backend)
    with pytest.raises(ValueError, match="call fit or partial_fit"):
        model.forget([1])
    with pytest.raises(InputError, match="20 instances need as many ids; there are 2"):
        model.partial_fit(X, y, ids=[1, 2])
    with pytest.raises(InputError, match="all int, of 64 bits, or all str"):
        model.partial_fit(X, y, ids=[1.5] * 20)
    model.partial_fit(X, y, ids=range(20))
    with pytest.raises(InputError, match="earlier instances are int; give int"):
        model.forget(["a"])
    with pytest.raises(ValueError, match="expecting 5 features"):
        model.partial_fit(X[:, :2], y)
    with pytest.raises(InputError, match="resume"):
        LinearSGD(backend=backend).partial_fit(X, y)
    solved = model.solve()
    with pytest.raises(InputError, match="has a model and no instances"):
        solved.partial_fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    with pytest.raises(InputError, match="has a model and no instances"):
        copy.forget([1])
    model.close()
    with pytest.raises(InputError, match="is not of a LogisticSGD"):
        LogisticSGD.resume(backend=backend, loop="LinearSGD")
    with pytest.raises(StateInputError):
        LinearSGD.resume(backend=backend, loop="other")


def stores() -> list[Path]:
    """Return the directories of the stores in the memory of this process."""
    return [Path(place) for place in memory._owned.values()]


def test_the_memory_of_a_learner_is_free_when_it_is_closed() -> None:
    """That of its own store, closed, collected or fitted again; a fork and a branch keep it."""
    X, y = np.eye(6), np.arange(6) % 2
    before = stores()
    model = LogisticSGD().partial_fit(X, y)
    (own,) = set(stores()) - set(before)
    what_if = model.fork()
    model.close()
    assert own.exists()
    assert what_if.forget([0]).forgotten == 1
    what_if.solve()
    what_if.close()
    assert not own.exists()
    assert stores() == before
    for _ in range(2):
        model.fit(X, y)
    assert len(stores()) == len(before) + 1
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, y * math.nan)
    assert model.partial_fit(X, y).forget(range(12)).forgotten == 12  # it is as it was
    del model, what_if
    gc.collect()
    assert stores() == before
    assert str(own) not in Path("/proc/self/maps").read_text()


def test_calls_from_several_threads() -> None:
    """The first ones too, and while others close it."""
    rng = np.random.default_rng(seed())
    X, y = instances(LogisticSGD, rng, 40)
    model = LogisticSGD(alpha=0.01)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: model.partial_fit(X, y, ids=range(40 * k, 40 * k + 40)), range(4)))
        assert sum(model._flow.size()) == 160
        entered, go_on, best_of = threading.Event(), threading.Event(), LogisticSGD._best

        def slowly(self: Any, *args: Any) -> None:
            entered.set()
            assert go_on.wait(60)
            best_of(self, *args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LogisticSGD, "_best", slowly)
            solved = pool.submit(model.solve)
            assert entered.wait(60)
            assert model.forget(range(40)).forgotten == 40  # meanwhile
            model.close()
            go_on.set()
            assert len(solved.result().predict(X)) == 40
    with pytest.raises(InputError, match="has a model and no instances"):
        model.forget([1])


class Interrupted(BaseException):
    """Ends a call where a process might end."""


def interrupt(*_: Any) -> None:
    raise Interrupted


@pytest.mark.parametrize("cls", MODELS)
def test_a_call_that_ends_early_is_continued(
    cls: type[LinearModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classes and ids of instances that are in the log are there, however the call ended."""
    rng = np.random.default_rng(seed())
    X, y = instances(cls, rng, 120, classes=3)
    backend = f"memory://early-{cls.__name__}-{seed()}"
    order = np.argsort(y, kind="stable")  # of classes, one after the other

    def end_early(model: LinearModel, call: Any) -> LinearModel:
        with monkeypatch.context() as patch:
            patch.setattr(cls, "_approximate", interrupt)
            with pytest.raises(Interrupted):
                call(model)
        model.close()
        return cls.resume(backend=backend)

    model = cls(backend=backend, alpha=0.01)
    for ids in np.split(order, 4):
        model = end_early(model, lambda one, ids=ids: one.partial_fit(X[ids], y[ids], ids=ids))
    with cls(alpha=0.01) as whole:
        assert model.solve().objective_ == pytest.approx(whole.fit(X, y).objective_, rel=1e-3)
        if cls is not LinearSGD:
            assert model.classes_.tolist() == whole.classes_.tolist()
            scores = [one.solve(tol=1e-6).decision_function(X) for one in (model, whole)]
            np.testing.assert_allclose(*scores, atol=0.05)
    model.partial_fit(X[:5], y[:5])  # without ids: after all that there are
    assert sum(model._flow.size()) == 125
    model = end_early(model, lambda one: one.partial_fit(X[:5], y[:5]))
    model.partial_fit(X[:5], y[:5])  # again, and without ids: they take the place of those
    assert sum(model._flow.size()) == 130
    model = end_early(model, lambda one: one.forget(range(60)))
    assert model.forget(range(60)).forgotten == 0
    with cls(alpha=0.01) as never:
        left = np.concatenate([np.arange(60, 120), np.arange(5), np.arange(5)])
        never.partial_fit(X[left], y[left], ids=range(60, 130)).partial_fit(X[:1], y[:1], ids=[0])
        never.forget([0])
        np.testing.assert_allclose(model.coef_, never.coef_)
    model.close()


def test_a_loop_without_a_model_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, X = f"memory://without-{seed()}", np.eye(3)
    model = LinearSGD(backend=backend)
    with monkeypatch.context() as patch:
        patch.setattr(LinearSGD, "_save", interrupt)
        with pytest.raises(Interrupted):
            model.partial_fit(X, [1, 2, 3])
    model.close()
    with pytest.raises(InputError, match=r"no instances yet: begin with LinearSGD\(backend"):
        LinearSGD.resume(backend=backend)
    with LinearSGD(backend=backend) as again:
        again.partial_fit(X, [1, 2, 3])


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning", "ignore::UserWarning")
@pytest.mark.parametrize("cls", MODELS)
def test_the_checks_of_scikit_learn(cls: type[LinearModel]) -> None:
    """All of them; `array_api_support` is skipped, as it needs an environment variable."""
    results = check_estimator(cls(), on_fail=None, on_skip=None)
    assert [r for r in results if r["status"] == "failed"] == []
    assert [r["check_name"] for r in results if r["status"] == "skipped"] == [
        "check_array_api_input"
    ]
