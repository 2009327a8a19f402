"""Seconds that something takes, and learners whose kernels are compiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["timed", "warm"]

Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Do it; its seconds, and what it returned."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def warm(learner: Any, *instances: Any) -> None:
    """Have a learner do everything once with a few instances, and close it."""
    with learner:
        learner.set_params(passes=2).partial_fit(*instances)
        learner.solve()
        learner.partial_fit(*instances)
        with learner.fork() as branch:
            branch.solve()
