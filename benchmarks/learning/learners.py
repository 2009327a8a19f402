"""Learners whose kernels are compiled."""

from __future__ import annotations

from typing import Any


def warm(learner: Any, *instances: Any) -> None:
    """Have a learner do everything once with a few instances, and close it."""
    with learner:
        learner.set_params(passes=2).partial_fit(*instances)
        learner.solve()
        learner.partial_fit(*instances)
        with learner.fork() as branch:
            branch.solve()
