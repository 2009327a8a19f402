"""Threads inside a partition: kernels release the GIL and own disjoint ranges."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["run_all"]

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def run_all(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run the calls side by side, the last one on this thread; return their results in order."""
    if len(calls) <= 1:  # none: a partition without vertices
        return [call() for call in calls]
    key = (os.getpid(), len(calls) - 1)  # a forked child must not use its parent's threads
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(len(calls) - 1, thread_name_prefix="vertexsdk")
    futures = [_pools[key].submit(c) for c in calls[:-1]]
    last = calls[-1]()
    return [*(f.result() for f in futures), last]
