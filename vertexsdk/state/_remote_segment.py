"""A large segment on a server, of which a point read fetches only the bytes it needs."""

from __future__ import annotations

import mmap

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import TRAILER, Table, aligned
from vertexsdk.state.contract import Parts

LARGE = 1 << 20  # bytes from which a segment is worth more than one round trip
_HEAD = 1 << 15  # of a large segment, with its key groups
_MAX_RANGES = 64


class RemoteTable(Table):
    """An open segment that fetches byte ranges on demand and caches the last ones.

    Args:
        read: reads byte ranges of the segment, see `CanReadParts.open_segment`.
        size: bytes of the segment.
    """

    __slots__ = ("_ranges", "_read")

    def __init__(self, read: Parts, size: int) -> None:
        self._read = read
        self.size = size
        ends = [(0, min(_HEAD, size)), (max(size - TRAILER.size, 0), size)]
        self._ranges = {end: _array(raw) for end, raw in zip(ends, read(ends), strict=True)}
        self._open()

    def _stream(self, head: int) -> pa.Buffer:
        """Memory of the segment's size, of which only the pages of the head are used."""
        whole = mmap.mmap(-1, self.size)
        whole[:head] = self._bytes(0, head).tobytes()
        return pa.py_buffer(whole)

    def _bytes(self, low: int, high: int) -> NDArray[np.uint8]:
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
