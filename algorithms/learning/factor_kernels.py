"""Sums over ratings that factors are computed from, and factors from sums.

For each user, or item, the factors v of what it has ratings of and the ratings' differences d from
the mean are rows (v, d). The sums are the products of their columns: those of v with v and with d
are the normal equations, and that of d with d is the squared error of no factors. So one pass gives
the factors, and the squared error that they leave. Sums of partitions are added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vertexsdk import InputError
from vertexsdk.algorithms.learning.rows import Floats, Ints
from vertexsdk.arrays.jit import njit_without_refcounts as kernel

TILE = 128  # ratings of one user that are multiplied at once
LANES = 8  # of a vector unit: tiles have a multiple of them, with zeros at the end
SUMMED = {"reassoc", "contract"}  # sums in any order; infinities and NaN stay what they are
BLOCK = 4096  # users whose equations are solved at once


class Ratings(NamedTuple):
    """Ratings of each user, or of each item, one after the other.

    Attributes:
        indptr: int64[count + 1], where those of each begin.
        others: int64[n], the items of users, or the users of items.
        ratings: float64[n].
    """

    indptr: Ints
    others: Ints
    ratings: Floats


class Factors(NamedTuple):
    """The factors that `solve_equations` returns.

    Attributes:
        there: int64[m], the users or items that have ratings.
        factors: float64[m, k], of these.
        error: the sum of squared errors of these factors.
        penalty: the squared lengths of these factors, each times the number of its ratings.
    """

    there: Ints
    factors: Floats
    error: float
    penalty: float


def by_code(codes: Ints, others: Ints, ratings: Floats, count: int) -> Ratings:
    """Return ratings in the order of users, or of items.

    Args:
        codes: int64[n], users or items.
        others: int64[n], items or users.
        ratings: float64[n].
        count: `codes` are 0 to count - 1.

    >>> by_code(np.array([1, 0]), np.array([5, 6]), np.array([0.5, 0.25]), 2).others.tolist()
    [6, 5]
    """
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes, minlength=count)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return Ratings(indptr, others[order], ratings[order])


@kernel(fastmath=SUMMED)
def _add_products(indptr, others, ratings, mean, factors, tile, sums):  # type: ignore[no-untyped-def]
    k = factors.shape[1]
    for c in range(len(indptr) - 1):
        into = sums[c]
        into[-1] += indptr[c + 1] - indptr[c]
        for begin in range(indptr[c], indptr[c + 1], TILE):
            size = min(TILE, indptr[c + 1] - begin)
            padded = (size + LANES - 1) // LANES * LANES
            for i in range(size):
                row = factors[others[begin + i]]
                for j in range(k):
                    tile[j, i] = row[j]
                tile[k, i] = ratings[begin + i] - mean
            for i in range(size, padded):
                for j in range(k + 1):
                    tile[j, i] = 0.0
            p = 0
            for a in range(k + 1):
                s = tile[a]
                for b in range(a, k + 1):
                    t = tile[b]
                    total = 0.0
                    for i in range(padded):
                        total += s[i] * t[i]
                    into[p] += total
                    p += 1


def sum_equations(ratings: Ratings, mean: float, factors: Floats) -> Floats:
    """Return the sums of each user, or item.

    Args:
        ratings: the ratings of each user, or item.
        mean: the mean of all ratings.
        factors: float64[others, k].

    Returns:
        float64[count, (k + 1)(k + 2) / 2 + 1]: the upper triangle of the products, row by row, and
        the number of ratings.

    >>> one = by_code(np.array([0]), np.array([0]), np.array([5.0]), 1)
    >>> sum_equations(one, 2.0, np.array([[10.0]])).tolist()
    [[100.0, 30.0, 9.0, 1.0]]
    """
    k = factors.shape[1]
    sums = np.zeros((len(ratings.indptr) - 1, (k + 1) * (k + 2) // 2 + 1))
    tile = np.empty((k + 1, TILE))
    _add_products(ratings.indptr, ratings.others, ratings.ratings, mean, factors, tile, sums)
    return sums


def solve_equations(sums: Floats, n_factors: int, alpha: float) -> Factors:
    """Return the factors with the smallest objective, where those of the others stay.

    Args:
        sums: the sums of `sum_equations`.
        n_factors: k.
        alpha: the factor of the regulariser.

    Raises:
        InputError: alpha is too small for equations that have one solution.
    """
    k = n_factors
    there = np.flatnonzero(sums[:, -1])
    factors, error = np.empty((len(there), k)), 0.0
    upper, diagonal = np.triu_indices(k + 1), np.arange(k)
    for begin in range(0, len(there), BLOCK):
        batch = sums[there[begin : begin + BLOCK]]
        products = np.empty((len(batch), k + 1, k + 1))
        products[:, upper[0], upper[1]] = products[:, upper[1], upper[0]] = batch[:, :-1]
        matrix, vector = products[:, :k, :k], products[:, :k, k]
        regularised = matrix.copy()
        regularised[:, diagonal, diagonal] += alpha * batch[:, -1:]
        try:
            solved = np.linalg.solve(regularised, vector[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            raise InputError(f"alpha is {alpha}, too small for these ratings; give more") from None
        factors[begin : begin + len(batch)] = solved
        explained = 2 * vector - np.einsum("nij,nj->ni", matrix, solved)
        error += float(np.sum(products[:, k, k] - np.einsum("ni,ni->n", explained, solved)))
    penalty = float(sums[there, -1] @ np.einsum("ni,ni->n", factors, factors))
    return Factors(there, factors, max(error, 0.0), penalty)
