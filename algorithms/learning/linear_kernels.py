"""Sums over rows that linear models are fitted with, and one pass of SGD.

All of them return sums, not means: what partitions return is added and divided by the number of
all rows. A model is w, float64[d + 1], whose last entry is the intercept. The losses, of a
prediction p and a label y:

| loss | value | labels |
| --- | --- | --- |
| hinge | max(0, 1 - y p) | -1, 1 |
| log | log(1 + exp(-y p)) | -1, 1 |
| squared | (p - y)² / 2 | any |

`smoothing` is for the hinge: the width g of the hyperbola (z + sqrt(z² + g²)) / 2 that stands in
the place of max(0, z), of which it is at most g / 2 above. It has a curvature everywhere, so
Newton's method goes from one width to the next in a few steps, where with a parabola in the corner
it needs several times as many (Chen and Mangasarian, "A class of smoothing functions for nonlinear
and mixed complementarity problems", 1996).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from vertexsdk import InputError
from vertexsdk.algorithms.learning.blas_threads import one_blas_thread
from vertexsdk.algorithms.learning.rows import Floats, Rows, SparseRows, check, shape
from vertexsdk.arrays.jit import njit_without_refcounts as kernel

LOSSES = {"hinge": 0, "log": 1, "squared": 2}
HINGE, LOG = 0, 1
SUMMED = {"reassoc", "contract"}  # sums in any order; infinities and NaN stay what they are
SMALLEST_SCALE = 1e-9  # below it, the scale of a model is multiplied into its weights
BLOCK = 1 << 16  # entries of a block of rows, 512 KiB: what is done to it finds it in the cache


class LossSums(NamedTuple):
    """Sums of `loss_and_gradient` over rows; entry by entry, partitions' sums are added.

    Attributes:
        loss: the loss itself.
        smoothed: the smoothed loss; the same as `loss` unless that is the hinge.
        gradient: float64[d + 1], of the smoothed loss.
        excess: by how much the loss lies above the lines that have the slopes of the smoothed loss
            and lie nowhere above the loss; 0 unless that is the hinge. A lower bound of the optimum
            is made of it.
    """

    loss: float
    smoothed: float
    gradient: Floats
    excess: float


@kernel(fastmath=SUMMED)
def _dot(x, w, d):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(d):
        total += x[j] * w[j]
    return total


@kernel(fastmath=SUMMED)
def _sparse_dot(indices, values, w):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(len(indices)):
        total += values[k] * w[indices[k]]
    return total


@kernel
def _derivative(p, y, loss, smoothing):  # type: ignore[no-untyped-def]
    if loss == HINGE:
        z = 1.0 - y * p
        if smoothing == 0.0:
            return 0.0 if z <= 0.0 else -y if z > 0.0 else z  # which is not a number
        r = math.sqrt(z * z + smoothing * smoothing)
        rest = 0.5 * smoothing * smoothing / (r * (r + abs(z)))
        return -y * (rest if z < 0.0 else 1.0 - rest)
    if loss == LOG:
        e = math.exp(-abs(p))
        return -y * (e if y * p > 0.0 else 1.0) / (1.0 + e)
    return p - y


@kernel
def _sgd_dense(X, y, v, first, decay, alpha, intercept, loss):  # type: ignore[no-untyped-def]
    """One pass over rows; v, float64[d + 1], is changed: w is `scale` v."""
    n, d = X.shape
    b, scale = v[d], 1.0
    for i in range(n):
        x = X[i]
        slope = _derivative(scale * _dot(x, v, d) + b, y[i], loss, 0.0)
        rate = first * (1.0 - decay * (i / n))
        scale *= 1.0 - rate * alpha
        if slope != 0.0:
            step = rate * slope / scale
            for j in range(d):
                v[j] -= step * x[j]
            b -= intercept * rate * slope
        if scale < SMALLEST_SCALE:
            for j in range(d):
                v[j] *= scale
            scale = 1.0
    for j in range(d):
        v[j] *= scale
    v[d] = b


@kernel
def _sgd_sparse(indptr, indices, values, y, v, first, decay, alpha, intercept, loss):  # type: ignore[no-untyped-def]
    n, d = len(y), len(v) - 1
    b, scale = v[d], 1.0
    for i in range(n):
        begin, end = indptr[i], indptr[i + 1]
        p = scale * _sparse_dot(indices[begin:end], values[begin:end], v) + b
        slope = _derivative(p, y[i], loss, 0.0)
        rate = first * (1.0 - decay * (i / n))
        scale *= 1.0 - rate * alpha
        if slope != 0.0:
            step = rate * slope / scale
            for k in range(begin, end):
                v[indices[k]] -= step * values[k]
            b -= intercept * rate * slope
        if scale < SMALLEST_SCALE:
            for j in range(d):
                v[j] *= scale
            scale = 1.0
    for j in range(d):
        v[j] *= scale
    v[d] = b


@kernel
def _slopes(p, y, loss, smoothing, slopes, sums):  # type: ignore[no-untyped-def]
    """Add loss, smoothed loss and excess of a block to `sums`; the derivatives go to `slopes`."""
    value_sum = smoothed_sum = excess_sum = 0.0
    for i in range(len(p)):
        slope = _derivative(p[i], y[i], loss, smoothing)
        excess = above = 0.0
        if loss == HINGE:
            z = 1.0 - y[i] * p[i]
            value = 0.0 if z < 0.0 else z
            if smoothing > 0.0:
                r = math.sqrt(z * z + smoothing * smoothing)
                above = 0.5 * smoothing * smoothing / (r + abs(z))
                excess = above * abs(z) / r
        elif loss == LOG:
            value = math.log1p(math.exp(-abs(p[i]))) + max(0.0, -y[i] * p[i])
        else:
            value = 0.5 * slope * slope
        slopes[i] = slope
        value_sum += value
        smoothed_sum += value + above
        excess_sum += excess
    sums[0] += value_sum
    sums[1] += smoothed_sum
    sums[2] += excess_sum


@kernel
def _curvatures(p, y, loss, smoothing, curvatures):  # type: ignore[no-untyped-def]
    for i in range(len(p)):
        curvature = 1.0
        if loss == HINGE:
            z = 1.0 - y[i] * p[i]
            r = math.sqrt(z * z + smoothing * smoothing)
            curvature = 0.5 * smoothing * smoothing / (r * r * r) if r > 0.0 else 0.0
        elif loss == LOG:
            e = math.exp(-abs(p[i]))
            curvature = e / ((1.0 + e) * (1.0 + e))
        curvatures[i] = curvature


@kernel
def _sparse_product(indptr, indices, values, v, b, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        begin, end = indptr[i], indptr[i + 1]
        out[i] = b + _sparse_dot(indices[begin:end], values[begin:end], v)


@kernel
def _add_sparse(indptr, indices, values, factors, out):  # type: ignore[no-untyped-def]
    for i in range(len(factors)):
        if factors[i] != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                out[indices[k]] += factors[i] * values[k]


@kernel
def _unpack(indptr, indices, values, chosen, out):  # type: ignore[no-untyped-def]
    """Write the chosen rows to `out`, which is 0."""
    for i in range(len(chosen)):
        for k in range(indptr[chosen[i]], indptr[chosen[i] + 1]):
            out[i, indices[k]] = values[k]


def _blocks(rows: Rows, y: Floats) -> Iterator[tuple[Rows, Floats]]:
    """Yield blocks of rows that a cache holds, with their labels."""
    n, d = shape(rows)
    step = max(1, BLOCK // max(d, 1)) if isinstance(rows, np.ndarray) else max(n, 1)
    for i in range(0, n, step):
        yield (rows[i : i + step] if isinstance(rows, np.ndarray) else rows), y[i : i + step]


def _predictions(rows: Rows, w: Floats) -> Floats:
    if isinstance(rows, SparseRows):
        out = np.empty(len(rows.indptr) - 1)
        _sparse_product(rows.indptr, rows.indices, rows.values, w[:-1], w[-1], out)
        return out
    return rows @ w[:-1] + w[-1]  # type: ignore[no-any-return]


def _add_rows(rows: Rows, factors: Floats, out: Floats) -> None:
    """Add the rows, each times its factor, to out[:-1], and the factors to out[-1]."""
    if isinstance(rows, SparseRows):
        _add_sparse(rows.indptr, rows.indices, rows.values, factors, out)
    else:
        out[:-1] += rows.T @ factors
    out[-1] += factors.sum()


def _checked(rows: Rows, y: Floats, w: Floats, loss: str, smoothing: float) -> int:
    """Return the number of a loss, or raise InputError where arguments do not fit together."""
    check(rows, y, columns=len(w) - 1)
    if loss not in LOSSES:
        raise InputError(f"unknown loss {loss!r}; use one of {', '.join(map(repr, LOSSES))}")
    if not 0 <= smoothing < math.inf:
        raise InputError(f"smoothing is {smoothing}; use 0 or a positive number")
    return LOSSES[loss]


def sgd_pass(
    rows: Rows,
    y: Floats,
    w: Floats,
    rate: float,
    alpha: float,
    loss: str,
    *,
    fit_intercept: bool = True,
    decay: float = 0.0,
) -> Floats:
    """Return a model after one pass of stochastic gradient descent over rows, in their order.

    Args:
        rows: float64[n, d], or sparse rows.
        y: float64[n].
        w: float64[d + 1], the model before.
        rate: the length of each step; positive, and `rate` * `alpha` less than 1.
        alpha: the regulariser is alpha / 2 times the squares of w but for the intercept.
        loss: "hinge", "log" or "squared".
        fit_intercept: whether the intercept is changed.
        decay: what part of the rate is gone at the end, from 0 to 1; it falls with each row by as
            much. The noise of steps of one length keeps the model away from the best one.

    Returns:
        float64[d + 1]. Without decay as scikit-learn's `SGDClassifier` and `SGDRegressor` with
        `learning_rate="constant"`; but the intercept of sparse rows has the same rate.

    Raises:
        InputError: the arguments do not fit together.

    Source: Bottou, "Stochastic gradient descent tricks", 2012, section 5.1 for sparse rows.

    >>> sgd_pass(np.array([[2.0], [1.0]]), np.array([1.0, -1.0]), np.zeros(2), 0.5, 0.0, "hinge")
    array([0.5, 0. ])
    """
    number = _checked(rows, y, w, loss, 0.0)
    if not (rate > 0 and alpha >= 0 and rate * alpha < 1):
        raise InputError(
            f"rate {rate} and alpha {alpha}: use a positive rate that is less than 1 / alpha"
        )
    new = w.copy()
    matrix = rows[:3] if isinstance(rows, SparseRows) else (rows,)
    run = _sgd_sparse if isinstance(rows, SparseRows) else _sgd_dense
    run(*matrix, y, new, float(rate), float(decay), float(alpha), float(fit_intercept), number)
    return new


def weights_left(n: int, rate: float, alpha: float, decay: float) -> float:
    """Return what regularisation leaves of the weights of columns that none of n rows has.

    >>> weights_left(2, 0.5, 1.0, 0.0), weights_left(2, 0.5, 1.0, 1.0)
    (0.25, 0.375)
    """
    return float(np.prod(1.0 - alpha * rate * (1.0 - decay * (np.arange(n) / max(n, 1)))))


def loss_and_gradient(
    rows: Rows, y: Floats, w: Floats, loss: str, smoothing: float = 0.0
) -> LossSums:
    """Return the loss of a model and its gradient, summed over rows, without the regulariser.

    Args:
        rows: float64[n, d], or sparse rows.
        y: float64[n].
        w: float64[d + 1].
        loss: "hinge", "log" or "squared".
        smoothing: the width of the smoothed hinge.

    Raises:
        InputError: the arguments do not fit together.

    >>> sums = loss_and_gradient(np.array([[2.0], [1.0]]), np.ones(2), np.zeros(2), "hinge", 0.75)
    >>> sums.loss, sums.smoothed, sums.excess, sums.gradient.tolist()
    (2.0, 2.25, 0.2, [-2.7, -1.8])
    """
    number = _checked(rows, y, w, loss, smoothing)
    sums, gradient = np.zeros(3), np.zeros(len(w))
    with np.errstate(over="ignore", invalid="ignore"):  # sums that are not finite say it
        for block, labels in _blocks(rows, y):
            slopes = np.empty(len(labels))
            _slopes(_predictions(block, w), labels, number, float(smoothing), slopes, sums)
            _add_rows(block, slopes, gradient)
    return LossSums(float(sums[0]), float(sums[1]), gradient, float(sums[2]))


def loss_sum(rows: Rows, y: Floats, w: Floats, loss: str) -> float:
    """Return `loss_and_gradient(...).loss`, without computing the gradient.

    >>> loss_sum(np.array([[2.0], [1.0]]), np.ones(2), np.zeros(2), "hinge")
    2.0
    """
    number, sums = _checked(rows, y, w, loss, 0.0), np.zeros(3)
    with np.errstate(over="ignore", invalid="ignore"):  # sums that are not finite say it
        for block, labels in _blocks(rows, y):
            _slopes(_predictions(block, w), labels, number, 0.0, np.empty(len(labels)), sums)
    return float(sums[0])


def _curved(
    rows: Rows, y: Floats, w: Floats, loss: str, smoothing: float
) -> Iterator[tuple[Rows, Floats]]:
    """Yield blocks of rows with the second derivative of each row's loss."""
    number = _checked(rows, y, w, loss, smoothing)
    for block, labels in _blocks(rows, y):
        curvatures = np.empty(len(labels))
        _curvatures(_predictions(block, w), labels, number, float(smoothing), curvatures)
        yield block, curvatures


def hessian(rows: Rows, y: Floats, w: Floats, loss: str, smoothing: float = 0.0) -> Floats:
    """Return the second derivatives of the smoothed loss, summed over rows.

    Args: as `loss_and_gradient`.

    Returns:
        float64[d + 1, d + 1].

    Raises:
        InputError: the arguments do not fit together.

    >>> hessian(np.array([[2.0], [1.0]]), np.ones(2), np.zeros(2), "squared")
    array([[5., 3.],
           [3., 2.]])
    """
    d = len(w) - 1
    total = np.zeros((d + 1, d + 1))
    step = max(1, BLOCK // (d + 1))
    with one_blas_thread():
        for block, curvatures in _curved(rows, y, w, loss, smoothing):
            chosen = np.flatnonzero(curvatures)
            for i in range(0, len(chosen), step):
                some = chosen[i : i + step]
                wide = np.zeros((len(some), d + 1))
                if isinstance(block, SparseRows):
                    _unpack(block.indptr, block.indices, block.values, some, wide)
                else:
                    wide[:, :-1] = block[some]
                wide[:, -1] = 1.0
                wide *= np.sqrt(curvatures[some])[:, None]
                total += wide.T @ wide
    return total


def hessian_product(
    rows: Rows, y: Floats, w: Floats, v: Floats, loss: str, smoothing: float = 0.0
) -> Floats:
    """Return the `hessian` times v, float64[d + 1], without making the matrix.

    >>> hessian_product(np.array([[2.0], [1.0]]), np.ones(2), np.zeros(2), np.ones(2), "squared")
    array([8., 5.])
    """
    out = np.zeros(len(w))
    for block, curvatures in _curved(rows, y, w, loss, smoothing):
        _add_rows(block, curvatures * _predictions(block, v), out)
    return out
