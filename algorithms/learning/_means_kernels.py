"""Which centre is nearest to each row, and the sums that centres are means of.

Sums, not means: what partitions return is added. Distances are sums of squared differences, so that
they keep their digits where rows are far from the origin; of sparse rows they are made of squares
and products, as most of their numbers are 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk.algorithms.learning._linear_kernels import SUMMED
from vertexsdk.algorithms.learning._rows import Floats, Ints, Rows, SparseRows
from vertexsdk.arrays.jit import njit


class Assigned(NamedTuple):
    """What `assign` sums over rows; entry by entry, partitions' sums are added.

    Attributes:
        sums: float64[k, d], of the rows that are nearest to each centre.
        counts: int64[k], how many these are.
        inertia: the sum of squared distances from the nearest centres.
    """

    sums: Floats
    counts: Ints
    inertia: float


@njit(fastmath=SUMMED)
def _nearest_dense(X, transposed, labels, distances):  # type: ignore[no-untyped-def]
    n, d = X.shape
    k = transposed.shape[1]
    own = np.empty(k)
    for i in range(n):
        own[:] = 0.0
        for j in range(d):
            x = X[i, j]
            for c in range(k):
                away = x - transposed[j, c]
                own[c] += away * away
        best = 0
        for c in range(1, k):
            if own[c] < own[best]:
                best = c
        labels[i], distances[i] = best, own[best]


@njit(fastmath=SUMMED)
def _nearest_sparse(indptr, indices, values, transposed, squares, labels, distances):  # type: ignore[no-untyped-def]
    k = transposed.shape[1]
    own = np.empty(k)
    for i in range(len(indptr) - 1):
        own[:] = squares
        for at in range(indptr[i], indptr[i + 1]):
            j, x = indices[at], values[at]
            for c in range(k):
                own[c] += x * (x - 2.0 * transposed[j, c])
        best = 0
        for c in range(1, k):
            if own[c] < own[best]:
                best = c
        labels[i], distances[i] = best, max(own[best], 0.0)


@njit
def _add_dense(X, labels, sums):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        own = sums[labels[i]]
        for j in range(X.shape[1]):
            own[j] += X[i, j]


@njit
def _add_sparse(indptr, indices, values, labels, sums):  # type: ignore[no-untyped-def]
    for i in range(len(labels)):
        own = sums[labels[i]]
        for at in range(indptr[i], indptr[i + 1]):
            own[indices[at]] += values[at]


def nearest(rows: Rows, centres: Floats) -> tuple[NDArray[np.int32], Floats]:
    """Return the nearest centre of each row, int32[n], and its squared distance, float64[n].

    Args:
        rows: float64[n, d], or sparse rows.
        centres: float64[k, d]; of two that are equally near, the first is taken.

    >>> labels, distances = nearest(np.array([[0.0], [9.0]]), np.array([[1.0], [8.0]]))
    >>> labels.tolist(), distances.tolist()
    ([0, 1], [1.0, 1.0])
    """
    transposed = np.ascontiguousarray(centres.T)
    n = len(rows.indptr) - 1 if isinstance(rows, SparseRows) else len(rows)
    labels, distances = np.empty(n, np.int32), np.empty(n)
    if isinstance(rows, SparseRows):
        squares = (centres * centres).sum(axis=1)
        _nearest_sparse(
            rows.indptr, rows.indices, rows.values, transposed, squares, labels, distances
        )
    else:
        _nearest_dense(rows, transposed, labels, distances)
    return labels, distances


def assign(rows: Rows, centres: Floats) -> Assigned:
    """Return the sums of the rows that are nearest to each centre.

    Args:
        rows: float64[n, d], or sparse rows.
        centres: float64[k, d].

    >>> assign(np.array([[0.0], [9.0]]), np.array([[1.0], [8.0]])).sums.tolist()
    [[0.0], [9.0]]
    """
    labels, distances = nearest(rows, centres)
    sums = np.zeros(centres.shape)
    if isinstance(rows, SparseRows):
        _add_sparse(rows.indptr, rows.indices, rows.values, labels, sums)
    else:
        _add_dense(rows, labels, sums)
    return Assigned(sums, np.bincount(labels, minlength=len(centres)), float(distances.sum()))


def farthest(rows: Rows, centres: Floats, count: int) -> tuple[Floats, NDArray[np.int32], Floats]:
    """Return the rows that are farthest from their nearest centres, the farthest first.

    Args:
        rows: float64[n, d], or sparse rows.
        centres: float64[k, d].
        count: how many at most.

    Returns:
        Their squared distances, their nearest centres, and float64[m, d].

    >>> farthest(np.array([[0.0], [5.0]]), np.array([[1.0]]), 1)[2].tolist()
    [[5.0]]
    """
    labels, distances = nearest(rows, centres)
    chosen = np.argsort(-distances, kind="stable")[:count]
    if not isinstance(rows, SparseRows):
        return distances[chosen], labels[chosen], rows[chosen]
    dense = np.zeros((len(chosen), rows.dimension))
    for place, i in enumerate(chosen.tolist()):
        cells = slice(rows.indptr[i], rows.indptr[i + 1])
        dense[place, rows.indices[cells]] = rows.values[cells]
    return distances[chosen], labels[chosen], dense


def moments(rows: Rows, dimension: int) -> tuple[int, Floats, Floats]:
    """Return how many rows there are, and the sums of their numbers and of their squares.

    Args:
        rows: float64[n, d], or sparse rows.
        dimension: d.

    >>> moments(np.array([[1.0], [3.0]]), 1)
    (2, array([4.]), array([10.]))
    """
    if isinstance(rows, SparseRows):
        columns, values = rows.indices, rows.values
        sums = np.bincount(columns, values, minlength=dimension)
        return len(rows.indptr) - 1, sums, np.bincount(columns, values**2, minlength=dimension)
    return len(rows), rows.sum(axis=0), np.einsum("ij,ij->j", rows, rows)
