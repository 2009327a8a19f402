"""What all learners have in common, where a call fails half way or others change instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk.algorithms.learning import (
    KMeans,
    Learner,
    LinearSGD,
    LogisticSGD,
    MatrixFactorisation,
)
from vertexsdk.stateful.analysis import program_of


@pytest.mark.parametrize("cls", [LogisticSGD, LinearSGD, KMeans, MatrixFactorisation])
def test_instances_are_added_and_removed_many_at_once(cls: type[Learner]) -> None:
    for program in cls._programs.values():
        methods = program_of(program).methods
        batches = [methods[name].elements[0].batch for name in ("add", "remove")]
        assert [batch and batch.name for batch in batches] == ["add_all", "discard_all"]


def test_solve_brings_no_withdrawn_instances_back() -> None:
    """What `solve` learnt of them, while somebody else withdrew them, stays with its answer."""
    rng = np.random.default_rng(seed())
    X = rng.normal(size=(60, 2))

    class Interrupted(LinearSGD):
        def _best(self, *args: Any) -> None:
            super()._best(*args)
            self.forget(range(30))

    with Interrupted(alpha=0.1) as model, LinearSGD(alpha=0.1) as never:
        y = np.where(np.arange(60) < 30, 5.0, -5.0)
        model.partial_fit(X, y)
        assert abs(model.solve().intercept_) < 1
        never.partial_fit(X[30:], y[30:], ids=range(30, 60))
        never.partial_fit(X[:1], y[:1], ids=[99])
        never.forget([99])
        assert model.coef_.tolist() == never.coef_.tolist()


@pytest.mark.parametrize("first", [True, False])
def test_a_store_has_the_classes_of_its_instances(
    first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where `partial_fit` ended after it had added them."""
    rng = np.random.default_rng(seed())
    X, y = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c"], 20)
    backend = f"lmdb://{tmp_path}/learning"
    with LogisticSGD(backend=backend) as model:
        if not first:
            model.partial_fit(X[:40], y[:40], ids=range(40))
        monkeypatch.setattr(LogisticSGD, "_approximate", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.partial_fit(X, y, ids=range(60))
        monkeypatch.undo()
    with LogisticSGD.resume(backend=backend) as model:
        assert model.solve().classes_.tolist() == ["a", "b", "c"]
        assert model.forget(range(60)).forgotten == 60
