"""Threads inside a task: kernels release the GIL and write to disjoint ranges."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def default_threads() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_threaded(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Apply `function` to all items in `threads` threads; results and errors in item order.

    Example:
        >>> list(map_threaded(abs, [-1, 2, -3], threads=2))
        [1, 2, 3]
    """
    if threads <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            for k, future in enumerate(futures):
                yield future.result()
                futures[k] = None  # type: ignore[call-overload]  # the result may be large
        finally:
            for future in futures:
                if future is not None:
                    future.cancel()


def run_all(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run each call in a thread of its own, the last in this one; return the results in order."""
    if len(calls) <= 1:  # none: a partition without vertices
        return [call() for call in calls]
    key = (os.getpid(), len(calls) - 1)  # a forked child must not use its parent's threads
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(len(calls) - 1, thread_name_prefix="vertexsdk")
    futures = [_pools[key].submit(c) for c in calls[:-1]]
    last = calls[-1]()
    return [*(f.result() for f in futures), last]


def spread(calls: Sequence[Callable[[], Any]], threads: int) -> None:
    """Run the calls in `threads` threads; each takes the next call as it finishes one."""
    left = list(reversed(calls))

    def work() -> None:
        while left:
            try:
                call = left.pop()
            except IndexError:  # another thread took the last one
                return
            call()

    run_all([work] * min(threads, len(calls)))
