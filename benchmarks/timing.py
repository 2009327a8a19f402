"""Seconds that something takes, alone and in turn with something else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Do it; return its seconds, and its result."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def seconds(work: Callable[[], object]) -> float:
    """Do it; return its seconds."""
    return timed(work)[0]


def in_turns(rounds: int, sides: Sequence[Callable[[], float]]) -> list[float]:
    """Return the least seconds of each side; each returns its own, and has its turn each round."""
    taken = [[side() for side in sides] for _ in range(rounds)]
    return [min(times) for times in zip(*taken, strict=True)]
