"""Facts about a loop's end, from the rule by which it ends, the method `converged`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vertexsdk.program.program import ClassSpec, Program, new_driver


def residual_of(program: Program, aggregates: Mapping[str, Any]) -> float | None:
    """Return how far a loop is from its end: the largest aggregate that `converged` reads.

    Args:
        program: whose first class has the rule.
        aggregates: the value of each aggregator after the last iteration.

    Returns:
        The largest absolute value; None where `converged` reads none, or one that is not a number.

    >>> from vertexsdk.algorithms import PageRank
    >>> residual_of(Program(PageRank), {"change": 0.25, "dangling": 3.0})
    0.25
    """
    read = program.classes[0].facts.converged_reads
    try:
        return max((abs(float(aggregates[n])) for n in read if n in aggregates), default=None)
    except (TypeError, ValueError):
        return None


def why_ends_early(spec: ClassSpec, params: Mapping[str, Any]) -> str | None:
    """Return why a loop may end before its fixed point; None where its rule excludes that.

    Args:
        spec: the class with the rule. Its `converged` is called once, to see what it reads.
        params: the value of every parameter, as from `Program.bind`.
    """
    if spec.cls.max_iterations is not None:
        return f"{spec.name} ends after a number of iterations"
    if "converged" not in spec.methods:
        return f"{spec.name} has no rule of convergence"
    try:
        new_driver(spec, params, 1).converged(_Iteration(), _Infinite())  # type: ignore[arg-type]
    except _IterationRead:
        return f"{spec.name}.converged reads the iteration"
    except Exception:
        return f"{spec.name}.converged does more than compare aggregates"
    return None


class _IterationRead(Exception):
    pass


class _Iteration:
    """An iteration that raises as soon as it is compared or computed with."""

    def _read(self, *_: Any) -> Any:
        raise _IterationRead

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _read
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = _read
    __floordiv__ = __truediv__ = __int__ = __index__ = __float__ = __bool__ = _read
    __hash__ = None  # type: ignore[assignment]


class _Infinite:
    """Aggregates of which each is infinite, so that no comparison holds by chance."""

    def __getattr__(self, name: str) -> float:
        return float("inf")
