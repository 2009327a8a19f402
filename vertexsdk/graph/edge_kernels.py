"""The kernel which takes changes into a sorted set of edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit

__all__ = ["COUNTS", "apply_changes"]

COUNTS = ("added", "removed", "changed", "unchanged", "absent")
_ADD, _REMOVE = 0, 1


@njit
def _apply(source, target, value, where, kind, to_source, to_target, to_value, out, absent, counts):  # type: ignore[no-untyped-def]
    out_source, out_target, out_value = out
    m, k = source.shape[0], where.shape[0]
    i = n = c = 0
    while c < k:
        a, b = to_source[where[c]], to_target[where[c]]
        while i < m and (source[i] < a or (source[i] == a and target[i] < b)):
            out_source[n], out_target[n], out_value[n] = source[i], target[i], value[i]
            i += 1
            n += 1
        there = i < m and source[i] == a and target[i] == b
        now = to_value[where[c]]
        if there:
            now = value[i]
            i += 1
        while c < k and to_source[where[c]] == a and to_target[where[c]] == b:
            at = where[c]
            c += 1
            if kind[at] == _ADD and not there:
                counts[0] += 1
                there, now = True, to_value[at]
            elif not there:
                counts[4] += 1
                absent[at] = True
            elif kind[at] == _REMOVE:
                counts[1] += 1
                there = False
            elif now != to_value[at]:
                counts[2] += 1
                now = to_value[at]
            else:
                counts[3] += 1
        if there:
            out_source[n], out_target[n], out_value[n] = a, b, now
            n += 1
    while i < m:
        out_source[n], out_target[n], out_value[n] = source[i], target[i], value[i]
        i += 1
        n += 1
    return n


def apply_changes(
    edges: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    kind: NDArray[np.uint8],
    changes: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
) -> tuple[tuple[NDArray[Any], NDArray[Any], NDArray[Any]], NDArray[np.bool_], dict[str, int]]:
    """Return the edges after some changes.

    Args:
        edges: sources, targets, values; ascending by (source, target), no pair twice.
        kind: of each change, 0 add, 1 remove, 2 change the value.
        changes: sources, targets and values, in the order in which they happen.

    Returns:
        The edges, ordered alike; which changes met no edge to remove or change; and how many
        edges were `added`, `removed`, `changed`, left `unchanged`, and how many were `absent`.

    >>> one = (np.array([1]), np.array([2]), np.array([0.5]))
    >>> apply_changes(one, np.array([1], np.uint8), one)[2]["removed"]
    1
    """
    source, target, _ = changes
    where = np.lexsort((target, source))  # stable, so changes of one edge stay in order
    room = len(edges[0]) + len(source)
    out = tuple(np.empty(room, a.dtype) for a in edges)
    absent = np.zeros(len(source), np.bool_)
    counts = np.zeros(len(COUNTS), np.int64)
    kernel: Any = _apply
    n = kernel(*edges, where, kind, *changes, out, absent, counts)
    a, b, c = (x[:n] for x in out)
    return (a, b, c), absent, dict(zip(COUNTS, counts.tolist(), strict=True))
