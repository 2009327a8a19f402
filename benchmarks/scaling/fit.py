"""Lines through points by least squares, with the standard errors of what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Fit", "least_squares", "line", "power", "relative"]


@dataclass(frozen=True, slots=True)
class Fit:
    """``y`` is about the sum of ``value[k]`` times column k.

    ``error`` has the standard error of each value, ``nan`` where no points are left to tell it.
    """

    value: tuple[float, ...]
    error: tuple[float, ...]
    points: int

    def at_least(self, k: int) -> float:
        """Value k; zero where noise made it negative: no cost is."""
        return max(self.value[k], 0.0)


def least_squares(columns: Sequence[Sequence[float]], y: Sequence[float]) -> Fit:
    """Fit ``y`` by the columns, each as long as ``y``.

    Raises:
        ValueError: the points do not determine it: too few, or columns that depend on each other.

    >>> least_squares([[1, 1, 1], [0, 1, 2]], [5, 7, 9]).value
    (5.0, 2.0)
    """
    x = np.array(columns, float).T
    wanted = np.array(y, float)
    size = np.abs(x).max(axis=0, initial=0.0)
    size[size == 0] = 1.0
    scaled = x / size  # bytes beside ones would seem to be dependent
    if np.linalg.matrix_rank(scaled) < x.shape[1]:
        raise ValueError(f"{len(wanted)} points do not determine {x.shape[1]} values")
    inverse = np.linalg.inv(scaled.T @ scaled)
    value = inverse @ scaled.T @ wanted
    rest = len(wanted) - x.shape[1]
    if rest:
        variance = float(((wanted - scaled @ value) ** 2).sum()) / rest
        error = np.sqrt(np.maximum(np.diag(inverse), 0.0) * variance) / size
    else:
        error = np.full(x.shape[1], math.nan)
    return Fit(tuple(np.round(value / size, 15).tolist()), tuple(error.tolist()), len(wanted))


def relative(columns: Sequence[Sequence[float]], y: Sequence[float]) -> Fit:
    """As `least_squares`, of ``y`` whose noise is a share of it, and so greatest where it is."""
    if min(y, default=0.0) <= 0:
        return least_squares(columns, y)
    return least_squares(
        [[v / w for v, w in zip(c, y, strict=True)] for c in columns], [1.0] * len(y)
    )


def line(x: Sequence[float], y: Sequence[float]) -> Fit:
    """``value`` is (where the line begins, its slope)."""
    return least_squares([[1.0] * len(x), x], y)


def power(x: Sequence[float], y: Sequence[float]) -> Fit:
    """``y`` is about ``exp(value[0]) * x ** value[1]``: a line in logarithms of both.

    >>> power([1, 10, 100], [3, 300, 30000]).value[1]
    2.0
    """
    return line([math.log(v) for v in x], [math.log(v) for v in y])
