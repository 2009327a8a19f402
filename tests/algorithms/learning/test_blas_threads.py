"""Second derivatives and Newton steps by one thread of BLAS, whatever else runs meanwhile."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.support.seeds import seed
from vertexsdk.algorithms.learning import LogisticSGD, blas_threads, linear_kernels
from vertexsdk.algorithms.learning.blas_threads import one_blas_thread


def threads() -> set[int]:
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_newton_steps_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[int]] = {}

    def noted(name: str, function: Any) -> Any:
        def run(*args: Any) -> Any:
            seen.setdefault(name, set()).update(threads())
            return function(*args)

        return run

    monkeypatch.setattr(np.linalg, "eigh", noted("eigh", np.linalg.eigh))
    curvatures = noted("hessian", linear_kernels._curvatures)
    monkeypatch.setattr(linear_kernels, "_curvatures", curvatures)
    X = np.random.default_rng(seed()).normal(size=(50, 3))
    with threadpool_limits(2, "blas"), LogisticSGD(alpha=0.1, partitions=2) as model:
        model.fit(X, X[:, 0] > 0)
        assert seen == {"eigh": {1}, "hessian": {1}}
        assert threads() == {2}


def test_those_who_leave_first_leave_one_thread_to_others() -> None:
    with threadpool_limits(2, "blas"):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads() == {1}
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            raise ZeroDivisionError
        assert threads() == {1}
        second.__exit__(None, None, None)
        assert threads() == {2}


def test_executors_need_no_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    blas_threads._controller.cache_clear()
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    X = np.ones((2, 1))
    with one_blas_thread():
        assert linear_kernels.hessian(X, np.ones(2), np.zeros(2), "squared")[1, 1] == 2
    monkeypatch.undo()
    blas_threads._controller.cache_clear()
