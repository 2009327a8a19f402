"""k-means: nearest centres of rows, in one pass, and Lloyd's rounds over what passes return.

Nearest centres are compared by |c|² - 2 x c, with the mean of the centres as the origin, so that
they are told apart far from zero too. The distance to the chosen centre is then computed from
differences, of which inertia and sums are made: neither loses digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk import InputError
from vertexsdk.algorithms.learning.rows import Floats, Ints, Rows, SparseRows, check, shape
from vertexsdk.arrays.jit import njit_without_refcounts as kernel

TILE = 128  # rows that are compared with all centres at once: a vector of distances to one centre
SUMMED = {"reassoc", "contract"}  # sums in any order; infinities and NaN stay what they are
ROUNDING = 1e-30  # squared movements up to this part of the squared centres are rounding
CANCELLED = 1e-6  # what is left of |c|² without a row's columns, below which it is computed anew


class Assignment(NamedTuple):
    """The result of `assign`; sums, counts and inertia of partitions are added.

    Attributes:
        labels: int32[n], the nearest centre of each row; of two, the first.
        sums: float64[k, d], the sum of the rows of each centre.
        counts: int64[k], the number of these rows.
        inertia: the sum of squared distances.
    """

    labels: NDArray[np.int32]
    sums: Floats
    counts: Ints
    inertia: float


class Farthest(NamedTuple):
    """The rows that are farthest from their centres, farthest first.

    Attributes:
        distances: float64[m], squared.
        labels: int32[m].
        points: float64[m, d].
    """

    distances: Floats
    labels: NDArray[np.int32]
    points: Floats


@kernel(fastmath=SUMMED)
def _assign_dense(  # type: ignore[no-untyped-def]
    X, centres, origin, shifted, norms, tile, scores, best, labels, distances, sums, counts
):
    """Write labels and distances; add differences from centres to `sums`, and to `counts`."""
    n, d = X.shape
    k = len(centres)
    for begin in range(0, n, TILE):
        size = min(TILE, n - begin)
        for i in range(size):
            x = X[begin + i]
            for j in range(d):
                tile[j, i] = x[j] - origin[j]
        label = labels[begin : begin + size]
        for i in range(size):
            best[i] = np.inf
            label[i] = 0
        for c in range(k):
            for i in range(size):
                scores[i] = norms[c]
            j = 0
            while j + 4 <= d:
                a, b = shifted[c, j], shifted[c, j + 1]
                e, f = shifted[c, j + 2], shifted[c, j + 3]
                s, t, u, v = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
                for i in range(size):
                    scores[i] += (a * s[i] + b * t[i]) + (e * u[i] + f * v[i])
                j += 4
            while j < d:
                a, s = shifted[c, j], tile[j]
                for i in range(size):
                    scores[i] += a * s[i]
                j += 1
            for i in range(size):
                nearer = scores[i] < best[i]
                best[i] = scores[i] if nearer else best[i]
                label[i] = c if nearer else label[i]
        for i in range(size):
            x, c = X[begin + i], label[i]
            centre, into = centres[c], sums[c]
            distance = 0.0
            for j in range(d):
                difference = x[j] - centre[j]
                into[j] += difference
                distance += difference * difference
            distances[begin + i] = distance
            counts[c] += 1


@kernel(fastmath=SUMMED)
def _assign_sparse(  # type: ignore[no-untyped-def]
    indptr, indices, values, centres, shifted, norms, squares, scores, row,
    labels, distances, sums, counts,
):  # fmt: skip
    """As `_assign_dense`, with `shifted` float64[d, k]; rows themselves are added to `sums`."""
    d, k = shifted.shape
    for i in range(len(labels)):
        begin, end = indptr[i], indptr[i + 1]
        for c in range(k):
            scores[c] = norms[c]
        for p in range(begin, end):
            value, weights = values[p], shifted[indices[p]]
            for c in range(k):
                scores[c] += value * weights[c]
        chosen = 0
        for c in range(1, k):
            if scores[c] < scores[chosen]:
                chosen = c
        centre, into = centres[chosen], sums[chosen]
        distance = 0.0
        rest = squares[chosen]
        for p in range(begin, end):
            weight = centre[indices[p]]
            difference = values[p] - weight
            distance += difference * difference
            rest -= weight * weight
            into[indices[p]] += values[p]
        if rest < CANCELLED * squares[chosen]:
            for p in range(begin, end):
                row[indices[p]] = 1.0
            rest = 0.0
            for j in range(d):
                rest += (1.0 - row[j]) * centre[j] * centre[j]
            for p in range(begin, end):
                row[indices[p]] = 0.0
        labels[i] = chosen
        distances[i] = distance + rest
        counts[chosen] += 1


def _assigned(rows: Rows, centres: Floats) -> tuple[Assignment, Floats]:
    """Return the assignment, and the squared distance of each row."""
    check(rows, columns=centres.shape[1])
    (n, d), k = shape(rows), len(centres)
    if k == 0:
        raise InputError("no centres are given; use at least one")
    labels, distances = np.empty(n, np.int32), np.empty(n)
    sums, counts = np.zeros((k, d)), np.zeros(k, np.int64)
    origin = centres.mean(axis=0)
    shifted = centres - origin
    norms = (shifted * shifted).sum(axis=1)
    if isinstance(rows, SparseRows):
        _assign_sparse(
            rows.indptr, rows.indices, rows.values, centres, np.ascontiguousarray(-2 * shifted.T),
            norms + 2 * shifted @ origin, (centres * centres).sum(axis=1), np.empty(k),
            np.zeros(d), labels, distances, sums, counts,
        )  # fmt: skip
    else:
        _assign_dense(
            rows, centres, origin, -2 * shifted, norms, np.empty((d, TILE)), np.empty(TILE),
            np.empty(TILE), labels, distances, sums, counts,
        )  # fmt: skip
        sums += counts[:, None] * centres
    return Assignment(labels, sums, counts, float(distances.sum())), distances


def assign(rows: Rows, centres: Floats) -> Assignment:
    """Return the nearest centre of each row, and what the next centres are made of.

    Args:
        rows: float64[n, d], or sparse rows.
        centres: float64[k, d].

    Raises:
        InputError: rows and centres have different columns, or no centres.

    >>> assign(np.array([[0.0], [1.0], [9.0]]), np.array([[0.0], [8.0]])).sums.tolist()
    [[1.0], [9.0]]
    """
    return _assigned(rows, centres)[0]


def farthest(rows: Rows, centres: Floats, m: int) -> Farthest:
    """Return the m rows, or all, that are farthest from their centres.

    Of several partitions' results, `merge_farthest` makes that of all rows.

    >>> farthest(np.array([[0.0], [1.0], [9.0]]), np.array([[0.0]]), 1).points.tolist()
    [[9.0]]
    """
    assignment, distances = _assigned(rows, centres)
    first = np.argsort(-distances, kind="stable")[:m]
    points = np.zeros((len(first), centres.shape[1]))
    if isinstance(rows, SparseRows):
        for point, i in zip(points, first, strict=True):
            chosen = slice(rows.indptr[i], rows.indptr[i + 1])
            point[rows.indices[chosen]] = rows.values[chosen]
    else:
        points[:] = rows[first]
    return Farthest(distances[first], assignment.labels[first], points)


def merge_farthest(parts: list[Farthest], m: int) -> Farthest:
    """Return the m farthest rows of several partitions; of equal ones, those of earlier ones."""
    distances, labels, points = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    first = np.argsort(-distances, kind="stable")[:m]
    return Farthest(distances[first], labels[first], points[first])


def lloyd(
    assign_all: Callable[[Floats], tuple[Floats, Ints, float]],
    centres: Floats,
    tol: float,
    max_iter: int,
    farthest_all: Callable[[Floats, int], Farthest] | None = None,
) -> tuple[Floats, float, int]:
    """Return centres that no round of k-means moves any more.

    Args:
        assign_all: takes centres, and returns sums, counts and inertia of all rows, as `assign`.
        centres: float64[k, d], where to start.
        tol: the rounds end where the centres' squared movements sum up to no more.
        max_iter: how many rounds at most.
        farthest_all: takes centres and m, and returns the m farthest of all rows. A centre without
            rows moves to such a row, as in scikit-learn; without this argument it stays.

    Returns:
        The centres, their inertia, and the number of rounds. There is one call of `assign_all` for
        each round, and one more where the centres still moved at the end.

    Raises:
        InputError: tol or max_iter is negative or not a number.

    Source: Lloyd, "Least squares quantization in PCM", 1982.
    """
    if not (tol >= 0 and max_iter >= 0):
        raise InputError(f"tol {tol} and max_iter {max_iter}: use 0 or positive numbers")
    for n_iter in range(1, max_iter + 1):
        sums, counts, inertia = assign_all(centres)
        empty = np.flatnonzero(counts == 0)
        if len(empty) and farthest_all is not None and inertia > 0:
            _relocate(sums := sums.copy(), counts := counts.copy(), empty, farthest_all, centres)
        new = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
        moved = float(((new - centres) ** 2).sum())
        if moved <= ROUNDING * float((centres * centres).sum()):
            return centres, inertia, n_iter
        centres = new
        if moved <= tol:
            break
    else:
        n_iter = max_iter
    return centres, assign_all(centres)[2], n_iter


def _relocate(
    sums: Floats,
    counts: Ints,
    empty: Ints,
    farthest_all: Callable[[Floats, int], Farthest],
    centres: Floats,
) -> None:
    """Give each empty centre one of the farthest rows, which its own centre loses."""
    _, labels, points = farthest_all(centres, len(empty))
    for c, label, point in zip(empty, labels, points, strict=False):
        sums[label] -= point
        counts[label] -= 1
        sums[c], counts[c] = point, 1
