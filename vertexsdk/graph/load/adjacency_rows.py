"""Sorts edges in file order into adjacency rows, by a stable two-level radix sort.

Edges are first distributed to buckets of neighbouring rows, chunk by chunk, and each chunk is freed
then. Each bucket is sorted by (row, target) within the cache, and its duplicates are merged in
place. Every step is stable, and every thread writes ranges of its own, so the result depends only
on the order of the edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.buffers import allocate
from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.radix_sort import bits, radix_sort
from vertexsdk.arrays.threads import map_threaded

FORWARD, BACKWARD, BOTH, SYMMETRIC = range(4)  # which way edges are followed

_CELLS = 4096  # rows are counted in at most this many cells, which are merged into buckets
BUCKET = 1 << 16  # edges that a bucket should have: their keys fit the second-level cache


@dataclass(slots=True)
class Chunk:
    """Some edges in file order.

    Attributes:
        source: dense indices (int32) or vertex ids (int32, int64).
        target: as `source`.
        value: float64 or int64; None if values are not needed.
        valued: number of edges whose line had a value.
        left_out: number of rows that a condition left out.
    """

    source: NDArray[Any]
    target: NDArray[Any]
    value: NDArray[Any] | None = None
    valued: int = 0
    left_out: int = 0

    def first(self, count: int) -> Chunk:
        """Return the first edges, or all."""
        value = None if self.value is None else self.value[:count]
        return Chunk(self.source[:count], self.target[:count], value, min(self.valued, count))


@dataclass(slots=True)
class AdjacencyRows:
    """Adjacency rows ascending by (target, reverse), and counts of the edges."""

    start: NDArray[np.int64]
    target: NDArray[np.int32]
    value: NDArray[Any] | None
    reverse: NDArray[np.bool_] | None
    edges_read: int  # each counted by the partition that owns its row when followed forward
    duplicates: int  # of those, edges that are repeated later
    self_loops: int  # vertices with an edge to themselves


@njit
def _count_cells(
    mode: int,
    owned: NDArray[np.bool_],
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    shift: int,
    cells: int,
) -> NDArray[np.int64]:
    """Count the entries per cell of rows, and, last, the edges that this partition counts."""
    counts = np.zeros(cells + 1, np.int64)
    every = len(owned) == 0
    for i in range(len(source)):
        s, t = source[i], target[i]
        if mode != BACKWARD and (every or owned[s]):
            counts[s >> shift] += 1
        if (mode in (BACKWARD, BOTH) or (mode == SYMMETRIC and s != t)) and (every or owned[t]):
            counts[t >> shift] += 1
        counts[cells] += every or owned[t if mode == BACKWARD else s]
    return counts


@njit
def _deal(
    mode: int,
    owned: NDArray[np.bool_],
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    value: NDArray[np.int64],
    bucket_of: NDArray[np.int32],
    shift: int,
    place: NDArray[np.int64],
    row_out: NDArray[np.int32],
    key_out: NDArray[np.uint32],
    value_out: NDArray[np.int64],
) -> None:
    """Write row and target * 2 + reverse of each edge to the next place of its bucket."""
    valued, every = len(value) > 0, len(owned) == 0
    for i in range(len(source)):
        s, t = source[i], target[i]
        if mode != BACKWARD and (every or owned[s]):
            b = bucket_of[s >> shift]
            p = place[b]
            place[b] = p + 1
            row_out[p] = s
            key_out[p] = np.uint32(t) << np.uint32(1)
            if valued:
                value_out[p] = value[i]
        if (mode in (BACKWARD, BOTH) or (mode == SYMMETRIC and s != t)) and (every or owned[t]):
            b = bucket_of[t >> shift]
            p = place[b]
            place[b] = p + 1
            row_out[p] = t
            key_out[p] = np.uint32(s) << np.uint32(1) | np.uint32(mode != BACKWARD)
            if valued:
                value_out[p] = value[i]


@njit
def _sort_bucket(
    mode: int,
    pairs: bool,
    keep_all: bool,
    drop_loops: bool,
    rows: NDArray[np.int32],
    first: int,
    last: int,
    slots: int,
    keys_out: NDArray[np.uint32],
    values: NDArray[np.int64],
    reverse: NDArray[np.bool_],
    degree: NDArray[np.int64],
    report: NDArray[np.int64],
) -> None:
    """Sort one bucket (rows first..last-1) in place and merge its duplicates.

    `keys_out` ends with the targets, `report` with (entries, duplicates, self-loops).
    """
    m = len(rows)
    target_bits = bits(max(1, 2 * slots - 1))
    shift = np.uint64(target_bits)
    low = 0 if mode == BOTH else 1
    valued = len(values) > 0
    keys = np.empty(m, np.uint64)
    for i in range(m):
        keys[i] = np.uint64(rows[i] - first) << shift | np.uint64(keys_out[i])
    place = np.arange(m if valued else 0).astype(np.int32)
    keys, place = radix_sort(keys, place, low, target_bits + bits(last - first - 1))
    old = values.copy()
    mask = (np.uint64(1) << shift) - np.uint64(1)
    out, duplicates, loops = 0, 0, 0
    i = 0
    while i < m:
        j, forward = i, 0
        while j < m and keys[j] >> np.uint64(low) == keys[i] >> np.uint64(low):
            forward += (keys[j] & np.uint64(1)) == 0
            j += 1
        row = first + np.int64(keys[i] >> shift)
        target: Any = np.int64((keys[i] & mask) >> np.uint64(1))
        if pairs:
            duplicates += j - i - 1 if row <= target else 0
            loops += row == target
        elif forward > 0:
            duplicates += forward - 1
            loops += row == target
        if not (drop_loops and row == target):
            begin, end = (i if keep_all else j - 1), j
            if drop_loops and not pairs:
                backward = np.uint64(row > target)
                while begin > i and keys[begin] & np.uint64(1) != backward:
                    begin -= 1
                if keys[begin] & np.uint64(1) != backward:
                    begin = j - 1
                end = begin + 1
            degree[row + 1] += end - begin
            for k in range(begin, end):
                keys_out[out] = target
                if valued:
                    values[out] = old[place[k]]
                if len(reverse) > 0:
                    reverse[out] = keys[k] & np.uint64(1)
                out += 1
        i = j
    report[0], report[1], report[2] = out, duplicates, loops


def merge_cells(
    counts: NDArray[np.int64], shift: int, rows: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Merge neighbouring cells into buckets: each cell's bucket, each bucket's first row."""
    bucket_of = np.empty(len(counts), np.int32)
    first, size = [0], 0
    for cell, count in enumerate(counts.tolist()):
        if size and size + count > BUCKET:
            first.append(cell << shift)
            size = 0
        size += count
        bucket_of[cell] = len(first) - 1
    return bucket_of, np.array([*first, rows], np.int64)


def places(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """From counts (chunk, bucket): where each chunk writes in each bucket; bucket bounds."""
    bounds = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    place = np.cumsum(counts, axis=0) - counts + bounds[:-1]
    return place, bounds


def by_bucket(
    cells: list[NDArray[np.int64]], bucket_of: NDArray[np.int32], buckets: int
) -> NDArray[np.int64]:
    summed = [np.bincount(bucket_of, weights=c, minlength=buckets) for c in cells]
    return np.array(summed).astype(np.int64).reshape(-1, buckets)


def cell_shift(rows: int) -> int:
    return max(0, (max(rows, 1) - 1).bit_length() - (_CELLS - 1).bit_length())


def arrange(
    chunks: list[Chunk],
    rows: int,
    mode: int,
    *,
    owned: NDArray[np.bool_] | None = None,
    pairs: bool = False,
    keep_all: bool = False,
    drop_loops: bool = False,
    threads: int = 1,
) -> AdjacencyRows:
    """Build the adjacency rows of some edges.

    Args:
        chunks: edges between dense indices 0..rows-1, in file order; emptied.
        rows: number of vertices.
        mode: FORWARD: an entry per edge, at its source; BACKWARD: at its target; BOTH: at both,
            the second one flagged as reverse; SYMMETRIC: at both without a flag (one for a
            self-loop).
        owned: bool[rows], the rows to build; None for all.
        pairs: count an edge and its reverse as duplicates.
        keep_all: keep duplicates; otherwise the last one.
        drop_loops: neighbours as a set, without self-loops (they are still counted); of edges both
            ways between a pair, the one from its first vertex counts.
        threads: the result does not depend on it.
    """
    wanted = np.empty(0, np.bool_) if owned is None else owned
    kind = next((c.value.dtype for c in chunks if c.value is not None), None)
    shift = cell_shift(rows)
    cells = max(1, -(-rows >> shift) if rows else 1)

    def count(c: Chunk) -> NDArray[np.int64]:
        return _count_cells(mode, wanted, c.source, c.target, shift, cells)

    counts = list(map_threaded(count, chunks, threads))
    edges_read = sum(int(c[-1]) for c in counts)
    per_chunk = [c[:-1] for c in counts]
    total = np.sum(per_chunk, axis=0) if per_chunk else np.zeros(cells, np.int64)
    bucket_of, first = merge_cells(total, shift, rows)
    place, bounds = places(by_bucket(per_chunk, bucket_of, len(first) - 1))
    m = int(total.sum())
    row, key = allocate(m, np.int32), allocate(m, np.uint32)
    bits = allocate(m if kind is not None else 0, np.int64)
    nothing = np.empty(0, np.int64)

    def deal(k: int) -> None:
        c = chunks[k]
        value = nothing if c.value is None else c.value.view(np.int64)
        _deal(
            mode, wanted, c.source, c.target, value, bucket_of, shift, place[k], row, key, bits
        )  # fmt: skip
        chunks[k] = Chunk(nothing, nothing)

    list(map_threaded(deal, range(len(chunks)), threads))
    chunks.clear()
    reverse = allocate(m if mode == BOTH else 0, np.bool_)
    start = np.zeros(rows + 1, np.int64)
    report = np.zeros((len(first) - 1, 3), np.int64)

    def sort(b: int) -> None:
        r = slice(bounds[b], bounds[b + 1])
        _sort_bucket(
            mode, pairs, keep_all, drop_loops, row[r], first[b], first[b + 1], rows,
            key[r], bits[r], reverse[r], start, report[b],
        )  # fmt: skip

    list(map_threaded(sort, range(len(first) - 1), threads))
    row = key[:0].view(np.int32)  # frees the rows
    np.cumsum(start, out=start)
    arrays = [a for a in (key, bits, reverse) if len(a)]
    entries = _close_gaps(arrays, bounds, report[:, 0])
    return AdjacencyRows(
        start=start,
        target=key[:entries].view(np.int32),
        value=None if kind is None else bits[:entries].view(kind),
        reverse=reverse[:entries] if mode == BOTH else None,
        edges_read=edges_read,
        duplicates=int(report[:, 1].sum()),
        self_loops=int(report[:, 2].sum()),
    )


def _close_gaps(
    arrays: list[NDArray[Any]], bounds: NDArray[np.int64], sizes: NDArray[np.int64]
) -> int:
    """Move the entries of each bucket to the end of the previous one; return their number."""
    end = 0
    for begin, n in zip(bounds.tolist(), sizes.tolist(), strict=False):
        if end != begin and n:
            for array in arrays:
                array[end : end + n] = array[begin : begin + n]
        end += n
    return end
