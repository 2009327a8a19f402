"""Threads inside a partition: kernels release the GIL and own disjoint ranges."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["run_all", "spread"]

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


def spread(calls: Sequence[Callable[[], Any]], threads: int) -> None:
    """Run the calls on so many threads; each takes the next call when it is done with one."""
    left = list(reversed(calls))

    def work() -> None:
        while left:
            try:
                call = left.pop()
            except IndexError:  # another thread took the last one
                return
            call()

    run_all([work] * min(threads, len(calls)))
