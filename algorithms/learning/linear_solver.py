"""Newton's method for linear models whose rows are elsewhere, in few passes over them.

Each call of `evaluate`, `hessian` or `hessian_product` is a pass over all rows of all partitions;
the rest is arithmetic with d + 1 numbers, or their square. Second derivatives are asked for where
the loss was evaluated last, and nowhere else; who computes both in one pass saves half of them.

The certificate: a loss lies nowhere below the line of its slope at a prediction. The lines of all
rows and the regulariser have a minimum that is known, |gradient|² / (2 alpha) below the objective,
for any slopes whose mean is 0. So the bound is one of the optimum, as the dual objective is, but
for the intercept: what is left of its slope is multiplied with how far it may be from the optimum,
of which RANGE is a guess. Without a regulariser nothing bounds the lines, and the bound is that of
the quadratic model, twice.

The hinge is smoothed, and less with each step; its lines are those of the smoothed loss, moved to
touch the hinge, so that little is lost but for rows near its corner.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vertexsdk import InputError
from vertexsdk.algorithms.learning.blas_threads import one_blas_thread
from vertexsdk.algorithms.learning.linear_kernels import LOSSES, LossSums
from vertexsdk.algorithms.learning.rows import Floats

EXPLICIT = 512  # up to so many weights the Hessian is a matrix
RANGE = 10.0  # the intercept of the optimum is within RANGE (1 + |intercept|) of the intercept
SMOOTHEST = 1.0  # the width of the smoothed hinge at the start
SINGULAR = 1e-13  # eigenvalues of the Hessian with diagonal 1 that are taken for rounding
NOTHING = 1e-12  # an objective that is 0, as with a regulariser only rows of one class have it
ROUNDING = 1e-24  # the same of squared errors, as a part of that of weights that are 0
CUT = 0.2  # the smoothing is cut to no less than this part in a step
NEAR = 4.0  # the smoothing is cut where a step gains at most so many times the excess
CG_STEPS = 60  # products of one Newton step


@dataclass(frozen=True)
class Solution:
    """The solution that `minimise` returns.

    Attributes:
        w: float64[d + 1], the last is the intercept.
        objective: the mean loss plus alpha / 2 times the squares of the weights.
        bound: a lower bound of the optimum.
        n_iter: how many Newton steps there were.
        converged: whether objective - bound is at most tol times the objective.
    """

    w: Floats
    objective: float
    bound: float
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class _Point:
    """The objective at w, and the gradient of the smoothed objective."""

    w: Floats
    smoothing: float
    objective: float
    smoothed: float
    gradient: Floats
    excess: float


class _Objective:
    """The objective of a model: the means over all rows, and the regulariser."""

    def __init__(
        self, evaluate: Callable[[Floats, float], LossSums], d: int, alpha: float, intercept: bool
    ) -> None:
        self.evaluate = evaluate
        self.alpha = alpha
        self.ridge = np.append(np.full(d, alpha), 0.0)
        self.free = np.append(np.ones(d), float(intercept))

    def at(self, w: Floats, smoothing: float) -> _Point:
        loss, smoothed, gradient, excess = self.evaluate(w, smoothing)
        penalty = float(self.ridge @ (w * w)) / 2
        gradient = (gradient + self.ridge * w) * self.free
        return _Point(w, smoothing, loss + penalty, smoothed + penalty, gradient, excess)

    def bound(self, point: _Point, decrement: float) -> float:
        """Return a lower bound of the optimum; losses are at least 0."""
        if self.alpha > 0:
            weights, intercept = point.gradient[:-1], abs(float(point.gradient[-1]))
            below = float(weights @ weights) / (2 * self.alpha)
            below += intercept * RANGE * (1 + abs(float(point.w[-1])))
        else:
            below = decrement
        return max(0.0, point.objective - point.excess - below)


def minimise(
    evaluate: Callable[[Floats, float], LossSums],
    hessian: Callable[[Floats, float], Floats],
    hessian_product: Callable[[Floats, Floats, float], Floats],
    w: Floats,
    *,
    alpha: float,
    tol: float,
    max_iter: int,
    loss: str,
    fit_intercept: bool,
) -> Solution:
    """Return the linear model with the smallest objective.

    Args:
        evaluate: takes w and the smoothing of the hinge, and returns the means over all rows of
            what `loss_and_gradient` sums.
        hessian: takes w and the smoothing, and returns float64[d + 1, d + 1], means too.
        hessian_product: takes w, a vector and the smoothing; used where d is over EXPLICIT.
        w: float64[d + 1], where to start: zeros, or the solution of similar rows.
        alpha: the regulariser is alpha / 2 times the squares of all weights but the intercept.
        tol: how far the objective may be above its lower bound, as a part of the objective.
        max_iter: how many Newton steps at most.
        loss: "hinge", "log" or "squared".
        fit_intercept: False leaves the intercept 0.

    Returns:
        The solution. It has not converged if no optimum was found within `max_iter` steps, as
        with the log loss, alpha = 0 and classes that a plane separates.

    Raises:
        InputError: alpha, tol, max_iter or loss is none of these, or the loss is not a number.

    Source: Nocedal and Wright, "Numerical optimization", 2006, chapters 3 and 7; Keerthi and
        DeCoste, "A modified finite Newton method for fast solution of large scale linear SVMs",
        2005, for the hinge.
    """
    if loss not in LOSSES:
        raise InputError(f"unknown loss {loss!r}; use one of {', '.join(map(repr, LOSSES))}")
    for name, value in (("alpha", alpha), ("tol", tol), ("max_iter", max_iter)):
        if not 0 <= value < math.inf:
            raise InputError(f"{name} is {value}; use 0 or a positive number")
    d = len(w) - 1
    objective = _Objective(evaluate, d, alpha, fit_intercept)
    point, start = _start(objective, w * objective.free, loss, tol), 0
    best, bound = point, 0.0
    nothing = NOTHING if alpha > 0 and loss != "squared" else 0.0
    for n_iter in range(start, max_iter + 1):
        if not math.isfinite(point.objective):
            raise InputError("the loss is not a finite number; check the rows for NaN and inf")
        if alpha > 0:
            bound = max(bound, objective.bound(point, 0.0))
        if loss == "squared" and n_iter == 2:  # one step is exact, but for rounding
            nothing = ROUNDING * objective.at(np.zeros_like(w), 0.0).objective
            point = objective.at(point.w, 0.0)  # the last one
        if _is_solved(best, bound, tol, nothing) or n_iter == max_iter:
            break
        if d <= EXPLICIT:
            matrix = hessian(point.w, point.smoothing)
            step = _newton_step(matrix, objective, point.gradient)
        else:
            step = _cg_step(hessian_product, objective, point)
        slope = float(point.gradient @ step)
        if alpha == 0:
            bound = objective.bound(point, -slope)
            if _is_solved(point, bound, tol, nothing):
                best = point
                break
        new = _line_search(objective, point, step, slope, _next_smoothing(point, slope, tol))
        if new is None:  # rounding is all that is left
            bound = max(bound, point.objective - point.excess + slope)
            break
        point = new
        best = min(best, point, key=lambda p: p.objective)
    converged = _is_solved(best, bound, tol, nothing)
    return Solution(best.w, best.objective, min(bound, best.objective), n_iter, converged)


def _is_solved(point: _Point, bound: float, tol: float, nothing: float) -> bool:
    close = point.objective - bound <= tol * point.objective
    return close or point.objective <= nothing


def _start(objective: _Objective, w: Floats, loss: str, tol: float) -> _Point:
    """Return where to start: w, or zeros where these are better, or the class of all rows."""
    if w.any():
        smoothing = min(SMOOTHEST, 2 * math.sqrt(tol)) if loss == "hinge" else 0.0
        point = objective.at(w, smoothing)
        if point.objective <= {"hinge": 1.0, "log": math.log(2)}.get(loss, math.inf):
            return point
    point = objective.at(np.zeros_like(w), SMOOTHEST if loss == "hinge" else 0.0)
    slope = float(point.gradient[-1])
    most = 0.5 * (1 + 1 / math.hypot(1, SMOOTHEST)) if loss == "hinge" else 0.5
    if loss != "squared" and abs(slope) > most - 1e-12:  # each row pulls to the same side
        intercept = 1.0 if loss == "hinge" else 37.0  # where exp(-intercept) is rounding
        only = np.zeros_like(w)
        only[-1] = -math.copysign(intercept, slope)
        return objective.at(only, point.smoothing)
    return point


def _next_smoothing(point: _Point, slope: float, tol: float) -> float:
    """Return the width of the next step: less once this one's optimum is near, by `excess`."""
    if -slope > NEAR * point.excess or point.excess <= 0.5 * tol * point.objective:
        return point.smoothing
    wanted = math.sqrt(0.25 * tol * point.objective / point.excess)
    return point.smoothing * min(max(wanted, CUT), 0.5)


def _newton_step(matrix: Floats, objective: _Objective, gradient: Floats) -> Floats:
    """Return minus the inverse of the Hessian times the gradient."""
    matrix = (matrix + np.diag(objective.ridge)) * np.outer(objective.free, objective.free)
    diagonal = np.sqrt(np.diag(matrix))
    scale = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    with one_blas_thread():
        values, vectors = np.linalg.eigh(matrix * np.outer(scale, scale))
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > SINGULAR)
    return -scale * (vectors @ (inverse * (vectors.T @ (scale * gradient))))  # type: ignore[no-any-return]


def _cg_step(
    product: Callable[[Floats, Floats, float], Floats], objective: _Objective, point: _Point
) -> Floats:
    """Return a Newton step by conjugate gradients, as exact as the gradient is small."""
    step, residual = np.zeros_like(point.w), -point.gradient
    direction, square = residual.copy(), float(residual @ residual)
    size = math.sqrt(square)
    enough = min(0.3, math.sqrt(size)) * size
    for _ in range(CG_STEPS):
        if math.sqrt(square) <= enough:
            break
        image = product(point.w, direction, point.smoothing) + objective.ridge * direction
        image = image * objective.free
        curvature = float(direction @ image)
        if curvature <= SINGULAR * float(direction @ direction):
            break
        step = step + square / curvature * direction
        residual = residual - square / curvature * image
        last, square = square, float(residual @ residual)
        direction = residual + square / last * direction
    return step if step.any() else -point.gradient


def _line_search(
    objective: _Objective, point: _Point, step: Floats, slope: float, smoothing: float
) -> _Point | None:
    """Return the point after a step, or a part of it; None where no part of it goes down."""
    length = 1.0
    for _ in range(30):
        if -slope * length <= 1e-16 * point.smoothed:  # no step, but perhaps less smoothing
            return objective.at(point.w, smoothing) if smoothing < point.smoothing else None
        new = objective.at(point.w + length * step, smoothing)
        there = float(new.gradient @ step)
        cut = smoothing < point.smoothing
        steep = max(-0.9 * slope, 0.1 * point.excess if cut else 0.0)
        if new.smoothed <= point.smoothed * (1 + 1e-12) and there <= steep:
            return new
        ratio = slope / (slope - there) if there > 0 else 0.5
        if not cut:
            length *= min(max(ratio, 0.1), 0.7) if math.isfinite(ratio) else 0.1
        smoothing = point.smoothing
    return None
