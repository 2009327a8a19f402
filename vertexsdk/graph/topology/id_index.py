"""From int64 vertex ids to dense indices, in ascending order of the ids.

Where the ids lie close together a bitmap over their range with a count per word gives the
index of an id (its *rank*, Jacobson 1989) in two reads; else Arrow's hash table does, which one
thread fills. Both give the same indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.buffers import allocate
from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.threads import map_threaded


@njit
def _bounds(ids: NDArray[Any]) -> tuple[Any, Any]:
    least, most = ids[0], ids[0]
    for x in ids:
        least = min(least, x)
        most = max(most, x)
    return np.int64(least), np.int64(most)


@njit
def _mark(words: NDArray[np.uint64], base: int, ids: NDArray[Any]) -> None:
    for x in ids:
        k = np.uint64(np.int64(x) - base)
        words[k >> np.uint64(6)] |= np.uint64(1) << (k & np.uint64(63))


@njit
def _count(x: np.uint64) -> np.int32:
    """Return the number of ones in a word."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int32((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit
def _ranks(words: NDArray[np.uint64], preceding_ones: NDArray[np.int32]) -> Any:
    """Fill `preceding_ones` with the number of ones before each word; return their total."""
    total: Any = 0
    for k in range(len(words)):
        preceding_ones[k] = total
        total += _count(words[k])
    return total


@njit
def _members(words: NDArray[np.uint64], base: int, out: NDArray[np.int64]) -> None:
    n = 0
    for k in range(len(words)):
        w = words[k]
        for bit in range(64):
            if w == 0:
                break
            if w & np.uint64(1):
                out[n] = base + (k << 6) + bit
                n += 1
            w >>= np.uint64(1)


@njit
def _look(
    words: NDArray[np.uint64],
    preceding_ones: NDArray[np.int32],
    base: int,
    ids: NDArray[Any],
    out: NDArray[np.int32],
) -> None:
    """Set out[i] to the rank of ids[i]; all ids are members. `out` may be `ids`."""
    for i in range(len(ids)):
        k = np.uint64(np.int64(ids[i]) - base)
        w = k >> np.uint64(6)
        below = words[w] & ((np.uint64(1) << (k & np.uint64(63))) - np.uint64(1))
        out[i] = preceding_ones[w] + _count(below)


def replace_ids(
    arrays: list[NDArray[Any]], extra: Sequence[NDArray[Any]] = (), threads: int = 1
) -> NDArray[np.int64]:
    """Replace ids by their positions among all distinct ids, ascending, and return those.

    Args:
        arrays: ids (int32 or int64, any lengths), each replaced by positions (int32), perhaps in
            place.
        extra: more ids.
        threads: the result does not depend on it.

    >>> arrays = [np.array([30, 10]), np.array([10, 20])]
    >>> replace_ids(arrays), arrays
    (array([10, 20, 30]), [array([2, 0], dtype=int32), array([0, 1], dtype=int32)])
    """
    some = [a for a in (*arrays, *extra) if len(a)]
    if not some:
        arrays[:] = [np.empty(0, np.int32) for _ in arrays]
        return np.empty(0, np.int64)
    bounds = list(map_threaded(_bounds, some, threads))
    least, most = min(b[0] for b in bounds), max(b[1] for b in bounds)
    words = (most - least) // 64 + 1
    total = sum(map(len, some))
    # A bitmap per thread, of at most 4 bytes per id all together.
    if words * 8 > max(4 * total, 1 << 20):
        return _by_table(arrays, extra)
    workers = min(threads, len(some), max(1, 2 * total // words))

    def mark(k: int) -> NDArray[np.uint64]:
        bitmap_part = allocate(words, np.uint64)
        for array in some[k::workers]:
            _mark(bitmap_part, least, array)
        return bitmap_part

    bitmap, *rest = map_threaded(mark, range(workers), workers)
    some.clear()
    for other in rest:
        bitmap |= other
    preceding_ones = allocate(words, np.int32)
    ids = np.empty(_ranks(bitmap, preceding_ones), np.int64)
    _members(bitmap, least, ids)

    def look(k: int) -> None:
        given = arrays[k]
        in_place = given.dtype == np.int32 and given.flags.writeable
        arrays[k] = given if in_place else allocate(len(given), np.int32)
        # ids that are all of 0..n-1 are their positions
        if not (in_place and least == 0 and len(ids) == words * 64):
            _look(bitmap, preceding_ones, least, given, arrays[k])

    list(map_threaded(look, range(len(arrays)), threads))
    return ids


def _by_table(arrays: list[NDArray[Any]], extra: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Do the work of `replace_ids` with an Arrow dictionary instead of bitmaps."""
    lengths = [len(a) for a in arrays]
    chunks = [pa.array(a.astype(np.int64, copy=False)) for a in (*arrays, *extra) if len(a)]
    arrays.clear()
    coded = pa.chunked_array(chunks).dictionary_encode().chunks  # with the same dictionary
    del chunks
    ids = np.asarray(coded[0].dictionary)
    order = np.argsort(ids)
    rank = np.empty(len(ids), np.int32)
    rank[order] = np.arange(len(ids), dtype=np.int32)
    codes = map(np.asarray, (chunk.indices for chunk in coded))
    arrays += [rank[next(codes)] if n else np.empty(0, np.int32) for n in lengths]
    return ids[order]
