"""`str.split()` of packed strings, without Python's strings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.packed_strings import HashedStrings
from vertexsdk.arrays.unaligned import load_8, store_8

_MULTIPLIER, _ONE = np.uint64(0x9E3779B97F4A7C15), np.uint64(1)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_POWERS = np.array([pow(int(_MULTIPLIER), k, 1 << 64) for k in range(9)], np.uint64)
_SUMS = np.append(np.uint64(0), np.cumsum(_POWERS[:8]))  # of so many powers
_MASKS = np.array([(1 << 8 * k) - 1 for k in range(9)], np.uint64)  # of so many bytes
_BYTE = np.uint64(0xFF)
_zeros: Any = trailing_zeros
_PRINTED, _HIGH = np.uint64(0x2121212121212121), np.uint64(0x8080808080808080)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


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
def _terms(x: Any) -> Any:
    """Return the sum of the bytes of a number, the lowest first, times the powers of the hash."""
    total = (x & _BYTE) * _POWERS[0]
    for k in range(1, 8):
        total += ((x >> np.uint64(8 * k)) & _BYTE) * _POWERS[k]
    return total


@njit
def _split(offsets: Any, data: Any, ends: Any, words: Any, hashes: Any, counts: Any) -> int:
    """Copy the words, with the end and the hash of each (`hash_strings`); return their number.

    Bytes of ASCII are taken up to eight at a time; `words` has room for eight more than there are.
    """
    count, at, ends[0] = 0, 0, 0
    for line in range(len(counts)):
        words_before = count
        i, end = offsets[line], offsets[line + 1]
        while i < end:
            space = _space(data, i, end)
            if space > 0:
                i += space
                continue
            start, total, power = at, np.uint64(0), _ONE
            while i < end:
                k: Any = 0
                if i + 8 <= len(data):
                    x = load_8(data, i)
                    other = ((x - _PRINTED) | x) & _HIGH  # by the lowest byte that is not ASCII
                    k = min(np.int64(_zeros(other)) >> 3, end - i)
                    x &= _MASKS[k]
                    store_8(words, at, x)
                    total += (_terms(x) + _SUMS[k]) * power
                    power *= _POWERS[k]
                    at += k
                    i += k
                if i == end or _space(data, i, end) > 0:
                    break
                if k == 8:
                    continue
                while True:
                    words[at] = data[i]
                    total += (np.uint64(data[i]) + _ONE) * power
                    power *= _MULTIPLIER
                    at += 1
                    i += 1
                    if i == end or data[i] < 0x80 or _space(data, i, end) > 0:
                        break
            x = total ^ np.uint64(at - start)
            x = (x ^ (x >> _30)) * _FIRST
            x = (x ^ (x >> _27)) * _SECOND
            hashes[count] = x ^ (x >> _31)
            count += 1
            ends[count] = at
        counts[line] = count - words_before
    return count


def split_words(
    offsets: NDArray[np.int64], utf8: NDArray[np.uint8]
) -> tuple[HashedStrings, NDArray[np.int64]]:
    """Return the words of packed strings, and how many each string has (int64[n]).

    Example:
        >>> from vertexsdk.arrays.packed_strings import pack_strings, unpack_strings
        >>> words, counts = split_words(*pack_strings(["to be", " ", "or"]))
        >>> unpack_strings(*words), counts.tolist()
        (['to', 'be', 'or'], [2, 0, 1])
    """
    size = int(offsets[-1] - offsets[0])
    most = (size + len(offsets)) // 2
    ends, hashes = np.empty(most + 1, np.int64), np.empty(most, np.uint64)
    words, counts = np.empty(size + 8, np.uint8), np.empty(len(offsets) - 1, np.int64)
    count = _split(offsets, utf8, ends, words, hashes, counts)
    return HashedStrings(ends[: count + 1], words[: ends[count]], hashes[:count]), counts
