"""The transposed adjacency of a partition, by the radix sort that orders edges."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.buffers import allocate
from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.radix_sort import order_of_ids
from vertexsdk.arrays.threads import map_threaded
from vertexsdk.graph.load.adjacency_rows import BUCKET, by_bucket, cell_shift, merge_cells, places


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
    offset: int,
) -> None:
    """Write target and row + offset of each edge of rows begin..end-1 to its target's bucket."""
    for u in range(begin, end):
        for e in range(start[u], start[u + 1]):
            b = bucket_of[target[e] >> shift]
            p = place[b]
            place[b] = p + 1
            slot_out[p] = target[e]
            row_out[p] = u + offset


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
    """Transpose an adjacency of n rows and m edges.

    Args:
        start: int64[n + 1], the bounds of the rows.
        target: int32[m], the slot of each edge's target.
        slots: number of slots.
        inbound: int32[b], the slots that have a producer in another partition.
        threads: the result does not depend on it.

    Returns:
        in_start int64[slots + 1] and in_source int32[m + b]: the row of slot s has the local
        sources u ascending, then n + j for each inbound[j] == s.
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
            _deal_rows(start, target, a, z, bucket_of, shift, place[k], slot, row, 0)
        else:  # a row for each inbound slot
            ends = np.arange(b + 1)
            _deal_rows(ends, inbound, 0, b, bucket_of, shift, place[k], slot, row, n)

    list(map_threaded(deal, range(pieces + 1), threads))
    in_start = np.zeros(slots + 1, np.int64)

    def sort(k: int) -> None:
        r = slice(bounds[k], bounds[k + 1])
        _sort_slots(slot[r], first[k], first[k + 1], row[r], in_start)

    list(map_threaded(sort, range(len(first) - 1), threads))
    np.cumsum(in_start, out=in_start)
    return in_start, row


@njit
def order_rows(in_start, in_source, in_index, ids, producers):  # type: ignore[no-untyped-def]
    """Order every row of the transposed adjacency by its producers' ids, in place.

    `in_source` names local vertices, then inbound ghosts, whose producers' ids are given.
    """
    n = ids.shape[0]
    for s in range(in_start.shape[0] - 1):
        lo, hi = in_start[s], in_start[s + 1]
        if hi - lo < 2 or in_source[hi - 1] < n:
            continue  # local producers alone are in order
        key = np.empty(hi - lo, np.int64)
        for k in range(lo, hi):
            u = in_source[k]
            key[k - lo] = ids[u] if u < n else producers[u - n]
        order = np.argsort(key, kind="mergesort")
        sources = in_source[lo:hi].copy()
        places = in_index[lo:hi].copy()
        for k in range(hi - lo):
            in_source[lo + k] = sources[order[k]]
            in_index[lo + k] = places[order[k]]


def order_producers(
    ids: NDArray[np.int64],
    in_start: NDArray[np.int64],
    in_source: NDArray[np.int32],
    producers: NDArray[np.int64],
    inbound_start: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Order by producers' ids what a ghost per edge brings.

    Args:
        ids: the ids of the partition's vertices.
        in_start, in_source: the transposed adjacency.
        producers: the ids behind inbound ghosts.
        inbound_start: the bounds of each other partition's ghosts.

    Returns:
        `in_source` with the rows ordered, and the ghosts of each other partition ordered.
    """
    ordered = in_source.copy()
    reorder: Any = order_rows
    reorder(in_start, in_source.copy(), ordered, ids, producers)
    return ordered, order_inbound(producers, inbound_start)


def order_inbound(
    producers: NDArray[np.int64], inbound_start: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Order the ghosts of each other partition by their producers' ids.

    Args:
        producers: the ids behind inbound ghosts.
        inbound_start: the bounds of each other partition's ghosts.
    """
    by_producer = [
        np.int32(first) + order_of_ids(producers[first:end])
        for first, end in itertools.pairwise(inbound_start.tolist())
    ]
    return np.concatenate([np.empty(0, np.int32), *by_producer])
