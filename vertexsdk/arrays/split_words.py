"""`str.split()` of packed strings, without Python's strings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit


@njit
def _space(data: Any, i: int, end: int) -> int:
    """Return how many bytes the white space at a place has, 0 for none: that of `str.split`."""
    a = data[i]
    if a < 0x80:
        return 1 if a == 0x20 or 0x09 <= a <= 0x0D or 0x1C <= a <= 0x1F else 0
    b = data[i + 1] if i + 1 < end else 0
    if a == 0xC2:
        return 2 if b == 0x85 or b == 0xA0 else 0
    c = data[i + 2] if i + 2 < end else 0
    if a == 0xE1:
        return 3 if b == 0x9A and c == 0x80 else 0
    if a == 0xE2 and b == 0x80:
        return 3 if 0x80 <= c <= 0x8A or c == 0xA8 or c == 0xA9 or c == 0xAF else 0
    if a == 0xE2:
        return 3 if b == 0x81 and c == 0x9F else 0
    return 3 if a == 0xE3 and b == 0x80 and c == 0x80 else 0


@njit
def _split(offsets: Any, data: Any, ends: Any, words: Any, counts: Any) -> int:
    """Copy the words, with the end of each; return how many."""
    count, at = 0, 0
    for line in range(len(counts)):
        before = count
        i, end = offsets[line], offsets[line + 1]
        inside = False
        while i < end:
            space = _space(data, i, end)
            if space > 0:
                if inside:
                    count += 1
                    ends[count] = at
                inside = False
                i += space
            else:
                words[at] = data[i]
                inside = True
                at += 1
                i += 1
        if inside:
            count += 1
            ends[count] = at
        counts[line] = count - before
    return count


def split_words(
    offsets: NDArray[np.int64], utf8: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
    """Return the words of packed strings, packed, and how many each string has (int64[n]).

    Example:
        >>> from vertexsdk.arrays.packed_strings import pack_strings, unpack_strings
        >>> *words, counts = split_words(*pack_strings(["to be", " ", "or"]))
        >>> unpack_strings(*words), counts.tolist()
        (['to', 'be', 'or'], [2, 0, 1])
    """
    size = int(offsets[-1] - offsets[0])
    ends = np.zeros((size + len(offsets)) // 2 + 1, np.int64)
    words, counts = np.empty(size, np.uint8), np.empty(len(offsets) - 1, np.int64)
    count = _split(offsets, utf8, ends, words, counts)
    return ends[: count + 1], words[: ends[count]], counts
