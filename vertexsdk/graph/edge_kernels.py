"""The kernel which takes changes into a sorted set of edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.graph.edge_attributes import defaults, left_out

__all__ = ["COUNTS", "apply_changes"]

COUNTS = ("added", "removed", "changed", "unchanged", "absent")
_ADD, _REMOVE = 0, 1


def _bits(values: NDArray[Any]) -> NDArray[np.int64]:
    """The bits of values, int64[m, k]; k is 0 where there are none."""
    if values.ndim == 2:
        return values
    if values.itemsize < 8:
        return np.empty((len(values), 0), np.int64)
    return np.ascontiguousarray(values).view(np.int64).reshape(-1, 1)


@njit
def _apply(edges, where, kind, changes, out, absent, counts, missing, default):  # type: ignore[no-untyped-def]
    source, target, value = edges
    to_source, to_target, to_value = changes
    out_source, out_target, out_value = out
    m, k, width = source.shape[0], where.shape[0], value.shape[1]
    now = np.zeros(width, np.int64)
    i = n = c = 0
    while c < k:
        a, b = to_source[where[c]], to_target[where[c]]
        while i < m and (source[i] < a or (source[i] == a and target[i] < b)):
            out_source[n], out_target[n] = source[i], target[i]
            for w in range(width):
                out_value[n, w] = value[i, w]
            i += 1
            n += 1
        there = i < m and source[i] == a and target[i] == b
        if there:
            for w in range(width):
                now[w] = value[i, w]
            i += 1
        while c < k and to_source[where[c]] == a and to_target[where[c]] == b:
            at = where[c]
            c += 1
            if kind[at] == _ADD and not there:
                counts[0] += 1
                there = True
                for w in range(width):
                    gap = to_value[at, w] == missing[w]
                    now[w] = default[w] if gap else to_value[at, w]
            elif not there:
                counts[4] += 1
                absent[at] = True
            elif kind[at] == _REMOVE:
                counts[1] += 1
                there = False
            else:
                changed = False
                for w in range(width):
                    gap = to_value[at, w] == missing[w]
                    if not gap and now[w] != to_value[at, w]:
                        changed = True
                        now[w] = to_value[at, w]
                counts[2 if changed else 3] += 1
        if there:
            out_source[n], out_target[n], out_value[n] = a, b, now
            n += 1
    while i < m:
        out_source[n], out_target[n] = source[i], target[i]
        for w in range(width):
            out_value[n, w] = value[i, w]
        i += 1
        n += 1
    return n


def apply_changes(
    edges: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    kind: NDArray[np.uint8],
    changes: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    value: str | None = None,
) -> tuple[tuple[NDArray[Any], NDArray[Any], NDArray[Any]], NDArray[np.bool_], dict[str, int]]:
    """Return the edges after some changes.

    Args:
        edges: sources, targets, values; ascending by (source, target), no pair twice.
        kind: of each change, 0 add, 1 remove, 2 change the value.
        changes: sources, targets and values, in the order in which they happen.
        value: the value dtype of a program, if it has several attributes.

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
    kept, given = _bits(edges[2]), _bits(changes[2])
    if edges[2].ndim == 1:
        value = edges[2].dtype.name if kept.shape[1] else None
    ends = [np.empty(room, np.int64) for _ in range(2)]
    out = (*ends, np.empty((room, kept.shape[1]), np.int64))
    absent = np.zeros(len(source), np.bool_)
    counts = np.zeros(len(COUNTS), np.int64)
    kernel: Any = _apply
    n = kernel(
        (*edges[:2], kept), where, kind, (source, target, given), out, absent, counts,
        left_out(value), defaults(value),
    )  # fmt: skip
    a, b, bits = (x[:n] for x in out)
    c = bits
    if edges[2].ndim == 1:
        c = bits.reshape(-1).view(edges[2].dtype) if kept.shape[1] else np.zeros(n, edges[2].dtype)
    return (a, b, c), absent, dict(zip(COUNTS, counts.tolist(), strict=True))
