"""Memory for arrays: returned to the operating system when dropped, or reused as scratch space.

The allocator of the C library keeps freed blocks, which would count against a worker's memory
long after a load. And memory that is new to a process costs a page fault per 4 kB, often more
than the work done in it.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_MAPPED = 1 << 16  # bytes from which an array is an anonymous map of its own
_REUSED = 8  # buffers kept for reuse


def allocate(length: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array of zeros of shape (length,) whose memory is freed when it is dropped.

    Example:
        >>> allocate(3, np.int32)
        array([0, 0, 0], dtype=int32)
    """
    kind = np.dtype(dtype)
    if length * kind.itemsize < _MAPPED:
        return np.zeros(length, kind)
    return np.frombuffer(mmap.mmap(-1, length * kind.itemsize), kind, length)


def _references(arrays: list[NDArray[Any]], k: int) -> int:
    """The reference count of arrays[k]; its views count."""
    return sys.getrefcount(arrays[k])


_UNUSED = _references([np.empty(0)], 0)  # the list's own, as this version of Python counts


class ScratchBuffers:
    """A pool of uninitialised arrays for one thread; an array is reused once it is unreferenced.

    Example:
        >>> buffers = ScratchBuffers()
        >>> first = buffers.take(3, np.dtype(np.int32))
        >>> first[:] = 7
        >>> buffers.take(3, np.dtype(np.int32)) is first.base
        False
        >>> del first
        >>> buffers.take(2, np.dtype(np.int32)).tolist()
        [7, 7]
    """

    def __init__(self) -> None:
        self._arrays: list[NDArray[Any]] = []

    def take(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array of shape (count,) with arbitrary content, to which nothing else refers."""
        for k in range(len(self._arrays)):
            if _references(self._arrays, k) == _UNUSED and self._arrays[k].dtype == dtype:
                if len(self._arrays[k]) < count:
                    self._arrays[k] = np.empty(count, dtype)
                return self._arrays[k][:count]
        array = np.empty(count, dtype)
        if len(self._arrays) < _REUSED:
            self._arrays.append(array)
        return array[:]
