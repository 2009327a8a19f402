"""Waiting for what another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["until"]


def until(done: Callable[[], object], seconds: float = 60.0) -> bool:
    """Wait until something is so; return whether it is, in the end.

    Args:
        seconds: to wait at most; the machine may be busy.
    """
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(done())
