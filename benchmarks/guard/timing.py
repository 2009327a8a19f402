"""Sides that are measured in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def in_turns(rounds: int, sides: Sequence[Callable[[], float]]) -> list[float]:
    """The least seconds of each side; each tells its own. All have their turn in every round."""
    taken = [[side() for side in sides] for _ in range(rounds)]
    return [min(times) for times in zip(*taken, strict=True)]


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
