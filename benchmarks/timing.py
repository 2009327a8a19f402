"""Seconds that something takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Do it; its seconds, and what it returned."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result
