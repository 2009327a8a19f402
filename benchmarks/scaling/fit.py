"""Least squares with standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Fit = list[tuple[float, float]]
"""Coefficients, each with its standard error: NaN where no points are left to tell it."""


def least_squares(
    columns: Sequence[Sequence[float]], y: Sequence[float], *, relative: bool = False
) -> Fit:
    """Fit ``y`` by a sum of the columns, each times a coefficient.

    ``relative``: the noise of each ``y`` is a share of it.

    Raises:
        ValueError: the points do not determine the coefficients.

    >>> [round(value, 9) for value, _ in least_squares([[1, 1, 1], [0, 1, 2]], [5, 7, 9])]
    [5.0, 2.0]
    """
    x, target = np.array(columns, float).T, np.array(y, float)
    if relative and target.min(initial=math.inf) > 0:
        x, target = x / target[:, None], target / target
    size = np.abs(x).max(axis=0, initial=0.0)
    size[size == 0] = 1.0  # columns of bytes and of ones are scaled alike
    x /= size
    if np.linalg.matrix_rank(x) < x.shape[1]:
        raise ValueError(f"{len(y)} points do not determine {x.shape[1]} values")
    inverse = np.linalg.inv(x.T @ x)
    value = inverse @ x.T @ target
    free = len(y) - x.shape[1]
    variance = float(((target - x @ value) ** 2).sum()) / free if free else math.nan
    error = np.sqrt(np.maximum(np.diag(inverse), 0.0) * variance) / size
    return list(zip(np.round(value / size, 15).tolist(), error.tolist(), strict=True))


def power(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """The exponent b of ``y`` = a ``x`` ** b, with its standard error.

    >>> power([1, 10, 100], [3, 300, 30000])[0]
    2.0
    """
    return least_squares([[1.0] * len(x), np.log(x).tolist()], np.log(y).tolist())[1]
