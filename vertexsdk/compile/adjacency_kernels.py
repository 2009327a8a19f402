"""Kernels over the adjacency: rows counted, transposed in terms of edges, put in order.

And over marks of slots, which are listed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit


@njit
def edge_count(start, stop, vertices):  # type: ignore[no-untyped-def]
    """Return the number of edges out of the vertices."""
    edges = 0
    for k in range(vertices.shape[0]):
        u = vertices[k]
        edges += stop[u] - start[u]
    return edges


@njit
def _marked(marks, bits, out):  # type: ignore[no-untyped-def]
    count = 0
    for s in range(marks.shape[0]):
        out[count] = s
        count += (marks[s] & bits) != 0
    return count


def marked(marks: NDArray[np.uint8], bits: int = 255) -> NDArray[np.int32]:
    """The slots, ascending, whose mark has one of some bits.

    >>> marked(np.array([0, 2, 1, 3], np.uint8), 2)
    array([1, 3], dtype=int32)
    """
    out = np.empty(len(marks) + 1, np.int32)
    kernel: Any = _marked
    return out[: kernel(marks, np.uint8(bits), out)]


@njit
def _fill(start, target, fill, out, inbound):  # type: ignore[no-untyped-def]
    for u in range(start.shape[0] - 1):
        for e in range(start[u], start[u + 1]):
            s = target[e]
            out[fill[s]] = e
            fill[s] += 1
    for j in range(inbound.shape[0]):
        s = inbound[j]
        out[fill[s]] = target.shape[0] + j
        fill[s] += 1


def edge_index(
    start: NDArray[np.int64],
    target: NDArray[np.int32],
    in_start: NDArray[np.int64],
    inbound: NDArray[np.int32],
) -> NDArray[Any]:
    """Return int32[m + b] (int64 beyond 2^31): row of slot s lists its in-edges by number.

    Edges ascend by source; inbound message j follows as m + j.
    """
    entries = len(target) + len(inbound)
    out = np.empty(entries, np.int32 if entries < 2**31 else np.int64)
    fill: Any = _fill
    fill(start, target, in_start[:-1].copy(), out, inbound)
    return out


def entries_of(
    rows: NDArray[Any], start: NDArray[Any], stop: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The places (int64) of the entries of some rows, and the row of each."""
    first = start[rows]
    lengths = stop[rows] - first
    entries_before = np.cumsum(lengths) - lengths
    places = np.arange(lengths.sum()) + np.repeat(first - entries_before, lengths)
    return places, np.repeat(rows, lengths)
