"""A large segment on a server, of which a point read fetches only the bytes it needs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.column_table import Table, aligned
from vertexsdk.state.contract import Parts

__all__ = ["LARGE", "RemoteTable"]

LARGE = 1 << 20  # bytes from which a segment is worth more than one round trip
_HEAD = 1 << 14
_MAX_RANGES = 64


class RemoteTable(Table):
    """An open segment that fetches byte ranges on demand and caches the last ones.

    Args:
        read: reads byte ranges of the segment, see `CanReadParts.open_segment`.
        size: bytes of the segment.
    """

    __slots__ = ("_head", "_ranges", "_read")

    def __init__(self, read: Parts, size: int) -> None:
        self._read = read
        self._ranges: dict[tuple[int, int], NDArray[np.uint8]] = {}
        self._head: NDArray[np.uint8] = _array(read([(0, min(_HEAD, size))])[0])
        self.size = size
        self._open()

    def _bytes(self, low: int, high: int) -> NDArray[np.uint8]:
        if high <= self._head.size:
            return self._head[low:high]
        for (start, end), data in reversed(self._ranges.items()):
            if start <= low and high <= end:
                return data[low - start : high - start]
        data = _array(self._read([(low, high)])[0])
        self._ranges[low, high] = data
        while len(self._ranges) > _MAX_RANGES:
            del self._ranges[next(iter(self._ranges))]
        return data


def _array(raw: bytes) -> NDArray[np.uint8]:
    return aligned(np.frombuffer(raw, np.uint8))
