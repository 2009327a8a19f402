"""The transposed adjacency of a partition, dealt and sorted as `order` does with edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.buffers import allocate
from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.threads import map_threaded
from vertexsdk.graph.load._radix_sort import BUCKET, by_bucket, cell_shift, merge_cells, places

__all__ = ["transpose"]


@njit
def _count_slots(slots: NDArray[np.int32], shift: int, cells: int) -> NDArray[np.int64]:
    counts = np.zeros(cells, np.int64)
    for s in slots:
        counts[s >> shift] += 1
    return counts


@njit
def _deal_rows(
    start: NDArray[np.int64],
    target: NDArray[np.int32],
    begin: int,
    end: int,
    bucket_of: NDArray[np.int32],
    shift: int,
    place: NDArray[np.int64],
    slot_out: NDArray[np.int32],
    row_out: NDArray[np.int32],
) -> None:
    for u in range(begin, end):
        for e in range(start[u], start[u + 1]):
            b = bucket_of[target[e] >> shift]
            p = place[b]
            place[b] = p + 1
            slot_out[p] = target[e]
            row_out[p] = u


@njit
def _deal_inbound(
    inbound: NDArray[np.int32],
    n: int,
    bucket_of: NDArray[np.int32],
    shift: int,
    place: NDArray[np.int64],
    slot_out: NDArray[np.int32],
    row_out: NDArray[np.int32],
) -> None:
    for j in range(len(inbound)):
        b = bucket_of[inbound[j] >> shift]
        p = place[b]
        place[b] = p + 1
        slot_out[p] = inbound[j]
        row_out[p] = n + j


@njit
def _sort_slots(
    slots: NDArray[np.int32],
    first: int,
    last: int,
    rows: NDArray[np.int32],
    degree: NDArray[np.int64],
) -> None:
    """Sort `rows` by slot, stably and in place; add to `degree` at slot + 1."""
    counts = np.zeros(last - first + 1, np.int32)
    for s in slots:
        counts[s - first + 1] += 1
    for k in range(last - first):
        degree[first + k + 1] = counts[k + 1]
        counts[k + 1] += counts[k]
    old = rows.copy()
    for i in range(len(slots)):
        k = slots[i] - first
        rows[counts[k]] = old[i]
        counts[k] += 1


def transpose(
    start: NDArray[np.int64],
    target: NDArray[np.int32],
    slots: int,
    inbound: NDArray[np.int32],
    threads: int = 1,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return (in_start int64[slots + 1], in_source int32[m + b]) of an adjacency.

    The row of slot s has the local sources u ascending, then n + j for each inbound[j] == s.
    """
    n, m, b = len(start) - 1, len(target), len(inbound)
    shift = cell_shift(slots)
    cells = max(1, -(-slots >> shift) if slots else 1)
    pieces = min(8 * threads, m // BUCKET + 1)
    cuts = np.searchsorted(start, np.linspace(0, m, pieces + 1).astype(np.int64))
    cuts[0], cuts[-1] = 0, n
    edges = start[cuts]
    parts = [target[edges[k] : edges[k + 1]] for k in range(pieces)] + [inbound]
    counts = list(map_threaded(lambda a: _count_slots(a, shift, cells), parts, threads))
    bucket_of, first = merge_cells(np.sum(counts, axis=0), shift, slots)
    place, bounds = places(by_bucket(counts, bucket_of, len(first) - 1))
    slot, row = allocate(m + b, np.int32), allocate(m + b, np.int32)

    def deal(k: int) -> None:
        if k < pieces:
            a, z = cuts[k], cuts[k + 1]
            _deal_rows(start, target, a, z, bucket_of, shift, place[k], slot, row)
        else:
            _deal_inbound(inbound, n, bucket_of, shift, place[k], slot, row)

    list(map_threaded(deal, range(pieces + 1), threads))
    in_start = np.zeros(slots + 1, np.int64)

    def sort(k: int) -> None:
        r = slice(bounds[k], bounds[k + 1])
        _sort_slots(slot[r], first[k], first[k + 1], row[r], in_start)

    list(map_threaded(sort, range(len(first) - 1), threads))
    np.cumsum(in_start, out=in_start)
    return in_start, row
