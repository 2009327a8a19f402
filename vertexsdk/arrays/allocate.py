"""Large arrays which go back to the operating system the moment they are dropped.

The allocator of the C library keeps freed blocks for later, which would count against a
worker's memory long after a load. These arrays are anonymous maps of their own.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["allocate", "default_threads", "each"]

T = TypeVar("T")
R = TypeVar("R")

_SMALL = 1 << 16


def allocate(length: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros of shape (length,) whose memory is freed when it is dropped."""
    kind = np.dtype(dtype)
    if length * kind.itemsize < _SMALL:
        return np.zeros(length, kind)
    return np.frombuffer(mmap.mmap(-1, length * kind.itemsize), kind, length)


def default_threads() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Apply `function` to all items by `threads` threads; results and errors in item order."""
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
