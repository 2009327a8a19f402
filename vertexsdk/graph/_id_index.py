"""From int64 vertex ids to dense indices, in ascending order of the ids.

Where the ids lie close together a bitmap over their range with a count per word gives the
index of an id (its *rank*, Jacobson 1989) in two reads; else an open-addressing hash table
does, divided into regions which one thread each fills. Both give the same indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.buffers import allocate
from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.threads import map_threaded

_MOST_REGIONS = 64
_EMPTY = np.int64(-0x8000000000000000)  # not an id in the table: kept apart


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
def _ranks(words: NDArray[np.uint64], before: NDArray[np.int32]) -> Any:
    """Fill `before` with the number of ones before each word; return their total."""
    total: Any = 0
    for k in range(len(words)):
        before[k] = total
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
    before: NDArray[np.int32],
    base: int,
    ids: NDArray[Any],
    out: NDArray[np.int32],
) -> None:
    """Set out[i] to the rank of ids[i]; all ids are members. `out` may be `ids`."""
    for i in range(len(ids)):
        k = np.uint64(np.int64(ids[i]) - base)
        w = k >> np.uint64(6)
        below = words[w] & ((np.uint64(1) << (k & np.uint64(63))) - np.uint64(1))
        out[i] = before[w] + _count(below)


@njit
def _hash(x: Any) -> np.uint64:
    h = np.uint64(x) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    return h ^ (h >> np.uint64(32))


@njit
def _insert(
    table: NDArray[np.int64], ids: NDArray[Any], region: int, regions: int, used: int
) -> tuple[int, int]:
    """Put the ids of one region into its table; return (used slots, position reached).

    Stops early when the table is half full: the caller doubles it and goes on from there.
    """
    mask = np.uint64(len(table) - 1)
    for i in range(len(ids)):
        x = np.int64(ids[i])
        h = _hash(x)
        if np.int64(h >> np.uint64(58)) % regions != region or x == _EMPTY:
            continue
        k = h & mask
        while table[k] != _EMPTY and table[k] != x:
            k = (k + np.uint64(1)) & mask
        if table[k] == _EMPTY:
            if 2 * used >= len(table):
                return used, i
            table[k] = x
            used += 1
    return used, len(ids)


@njit
def _assign(table: NDArray[np.int64], rank: NDArray[np.int32], ids: NDArray[np.int64]) -> None:
    """Set the rank of every id in one region's table by binary search in all sorted ids."""
    for k in range(len(table)):
        if table[k] != _EMPTY:
            rank[k] = np.searchsorted(ids, table[k])


@njit
def _probe(
    tables: NDArray[np.int64],
    ranks: NDArray[np.int32],
    starts: NDArray[np.int64],
    ids: NDArray[Any],
    out: NDArray[np.int32],
) -> None:
    for i in range(len(ids)):
        x = np.int64(ids[i])
        if x == _EMPTY:
            out[i] = 0  # the least of all ids
            continue
        h = _hash(x)
        region = np.int64(h >> np.uint64(58)) % (len(starts) - 1)
        first = starts[region]
        mask = np.uint64(starts[region + 1] - first - 1)
        k = h & mask
        while tables[first + np.int64(k)] != x:
            k = (k + np.uint64(1)) & mask
        out[i] = ranks[first + np.int64(k)]


class Index:
    """The distinct ids of some arrays, ascending, and the way from an id to its position.

    >>> index = Index.build([np.array([30, 10]), np.array([10, 20])])
    >>> index.ids, index.of(np.array([20, 30]))
    (array([10, 20, 30]), array([1, 2], dtype=int32))
    """

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self.ids = ids
        self._bitmap: tuple[NDArray[np.uint64], NDArray[np.int32], int] | None = None
        self._table: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]] | None = None

    @classmethod
    def build(cls, arrays: Sequence[NDArray[Any]], threads: int = 1) -> Index:
        """Index the ids in `arrays` (int32 or int64, any lengths)."""
        arrays = [a for a in arrays if len(a)]
        if not arrays:
            return cls(np.empty(0, np.int64))
        bounds = list(map_threaded(_bounds, arrays, threads))
        least, most = min(b[0] for b in bounds), max(b[1] for b in bounds)
        words = (most - least) // 64 + 1
        total = sum(map(len, arrays))
        workers = min(threads, len(arrays), max(1, 2 * total // words))
        # A bitmap per thread, of at most 4 bytes per id all together.
        if words * 8 <= max(4 * total, 1 << 20):
            return cls._of_bitmap(arrays, least, words, workers)
        return cls._of_table(arrays, threads)

    @classmethod
    def _of_bitmap(
        cls, arrays: Sequence[NDArray[Any]], base: int, words: int, workers: int
    ) -> Index:
        def mark(k: int) -> NDArray[np.uint64]:
            own = allocate(words, np.uint64)
            for array in arrays[k::workers]:
                _mark(own, base, array)
            return own

        bitmap, *rest = map_threaded(mark, range(workers), workers)
        for other in rest:
            bitmap |= other
        before = allocate(words, np.int32)
        ids = np.empty(_ranks(bitmap, before), np.int64)
        _members(bitmap, base, ids)
        index = cls(ids)
        index._bitmap = bitmap, before, base
        return index

    @classmethod
    def _of_table(cls, arrays: Sequence[NDArray[Any]], threads: int) -> Index:
        regions = min(threads, _MOST_REGIONS)

        def fill(region: int) -> NDArray[np.int64]:
            table = np.full(1 << 10, _EMPTY)
            used = 0
            for array in arrays:
                done = 0
                while done < len(array):
                    used, step = _insert(table, array[done:], region, regions, used)
                    done += step
                    if done < len(array):
                        larger = np.full(4 * len(table), _EMPTY)
                        _insert(larger, table, region, regions, 0)
                        table = larger
            return table

        tables = list(map_threaded(fill, range(regions), threads))
        members = [t[t != _EMPTY] for t in tables]
        if any((a == _EMPTY).any() for a in arrays):
            members.append(np.array([_EMPTY]))
        index = cls(np.sort(np.concatenate(members)))
        starts = np.concatenate([[0], np.cumsum([len(t) for t in tables])])
        ranks = np.empty(starts[-1], np.int32)

        def rank(region: int) -> None:
            _assign(tables[region], ranks[starts[region] : starts[region + 1]], index.ids)

        list(map_threaded(rank, range(regions), threads))
        index._table = np.concatenate(tables), ranks, starts
        return index

    def of(self, ids: NDArray[Any], out: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
        """Return the position (int32) of each id; all of them must be in the index.

        Writes into `out` if given, which may be `ids` itself.
        """
        if out is None:
            out = allocate(len(ids), np.int32)
        if self._bitmap is not None:
            words, before, base = self._bitmap
            if len(self.ids) == len(words) * 64 and base == 0 and out is ids:
                return out
            _look(words, before, base, ids, out)
        elif self._table is not None:
            _probe(*self._table, ids, out)
        return out
