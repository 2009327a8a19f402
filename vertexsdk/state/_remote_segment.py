"""A large segment on a server, of which only what a point read touches is fetched."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.column_table import ALIGN, Table
from vertexsdk.state.contract import Parts

__all__ = ["LARGE", "RemoteTable"]

LARGE = 1 << 20  # bytes from which a segment is worth more than one round trip
_HEAD = 1 << 14
_KEPT = 64


class RemoteTable(Table):
    """An opened segment whose bytes are read when they are needed, and the last ones kept.

    Args:
        read: reads parts of the segment.
        size: of the whole.
    """

    __slots__ = ("_head", "_kept", "_read")

    def __init__(self, read: Parts, size: int) -> None:
        self._read = read
        self._kept: dict[tuple[int, int], NDArray[np.uint8]] = {}
        self._head: NDArray[np.uint8] = _aligned(read([(0, min(_HEAD, size))])[0])
        self.size = size
        self._open()

    def _bytes(self, low: int, high: int) -> NDArray[np.uint8]:
        if high <= self._head.size:
            return self._head[low:high]
        for (start, end), data in reversed(self._kept.items()):
            if start <= low and high <= end:
                return data[low - start : high - start]
        data = _aligned(self._read([(low, high)])[0])
        self._kept[low, high] = data
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return data


def _aligned(raw: bytes) -> NDArray[np.uint8]:
    space = np.empty(len(raw) + ALIGN, np.uint8)
    skip = -space.ctypes.data % ALIGN
    data = space[skip : skip + len(raw)]
    data[:] = np.frombuffer(raw, np.uint8)
    data.flags.writeable = False
    return data
