"""Arrays to write into, used again when nobody holds them any more.

Memory that is new to a process costs a page fault per 4 kB, often more than what is done with it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Space"]

_KEPT = 8


def _held(arrays: list[NDArray[Any]], k: int) -> int:
    """How often arrays[k] is referred to, by its views too."""
    return sys.getrefcount(arrays[k])


_FREE = _held([np.empty(0)], 0)  # by the list alone, as this version of Python counts


class Space:
    """The arrays of one user, who works in one thread.

    >>> space = Space()
    >>> first = space.take(3, np.dtype(np.int32))
    >>> first[:] = 7
    >>> space.take(3, np.dtype(np.int32)) is first.base
    False
    >>> del first
    >>> space.take(2, np.dtype(np.int32)).tolist()
    [7, 7]
    """

    def __init__(self) -> None:
        self._arrays: list[NDArray[Any]] = []

    def take(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an array of so many elements, with anything in it; nobody else has it."""
        for k in range(len(self._arrays)):
            if _held(self._arrays, k) == _FREE and self._arrays[k].dtype == dtype:
                if len(self._arrays[k]) < count:
                    self._arrays[k] = np.empty(count, dtype)
                return self._arrays[k][:count]
        array = np.empty(count, dtype)
        if len(self._arrays) < _KEPT:
            self._arrays.append(array)
        return array[:]
