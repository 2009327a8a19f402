"""Which programs may run with a delay bound above 1, and why the others may not.

Asynchronous iterations reach the fixed point of synchronous ones where the method is monotone and
starts above (or below) all of its fixed points, as those of `Min` and `Max` do (Cousot,
"Asynchronous iterative methods for solving a fixed point system of monotone equations", 1977), and
where it is a contraction (Chazan and Miranker, "Chaotic relaxation", 1969). Where neither is known
the class says so itself, by `asynchronous = True`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Literal

from vertexsdk.errors import InputError
from vertexsdk.program.analysis._linearity import why_not_linear
from vertexsdk.program.analysis.warm_start import open_ended, reads_iteration
from vertexsdk.program.program import ClassSpec, Program, reachable, self_name

__all__ = ["by_blocks", "checked_bound", "why_synchronous"]

LARGEST = 1 << 24  # iterations are counted in 32 bits


def why_synchronous(program: Program, params: Mapping[str, Any]) -> str | None:
    """Return why a program's iterations must be synchronous (delay bound 1); None if they need not.

    Args:
        program: its classes.
        params: the value of every parameter, as from `Program.bind`.

    >>> from vertexsdk.algorithms import LabelPropagation
    >>> why_synchronous(Program(LabelPropagation), {"iterations": 10})
    'LabelPropagation.converged reads the iteration'
    """
    if program.mixed:
        return "its classes gather different kinds of message"
    for spec in program.classes:
        reason = _of_class(spec, params)
        if reason is not None:
            return reason
    return None


def checked_bound(
    bound: int | str, program: Program, given: Mapping[str, Any], max_iterations: int | None
) -> int | Literal["auto"]:
    """Return a delay bound that fits the program, or "auto".

    Raises:
        InputError: it is no number from 1 up, or the program needs synchronous iterations.
    """
    if bound == "auto":
        return "auto"
    if isinstance(bound, bool | str) or not isinstance(bound, int) or not 1 <= bound <= LARGEST:
        raise InputError(
            f"the delay bound is {bound!r}; it must be an integer from 1 to {LARGEST}, or 'auto'"
        )
    if bound == 1:
        return 1
    reason = why_synchronous(program, program.bind(given))
    if reason is None and max_iterations is not None and by_blocks(program):
        reason = "it is to end after a number of iterations"
    if reason is not None:
        raise InputError(f"{program.name}: a delay bound of {bound} is not possible: {reason}")
    return bound


def by_blocks(program: Program) -> bool:
    """Whether local iterations come in blocks of B, each of which ends with an exchange of all.

    So it is where aggregates are read, or end the loop: an iteration of all partitions has to
    come round for them to mean something.
    """
    return any(s.always or s.aggregators or "converged" in s.methods for s in program.classes)


def _of_class(spec: ClassSpec, params: Mapping[str, Any]) -> str | None:
    algebra, name = spec.algebra, spec.name
    if spec.cls.asynchronous is False:
        return f"{name} says asynchronous = False"
    if algebra is None:
        return f"{name} declares no messages, so what it keeps depends on the order of its deltas"
    if spec.source_missing:
        return spec.source_missing
    if spec.changes_graph:
        return f"{name} changes the graph itself"
    reason = reads_iteration(spec) or _ends_by_count(spec, params)
    if reason is not None or spec.cls.asynchronous or _says_the_same(spec):
        return reason
    if algebra.kind in ("min", "max"):
        if spec.always:
            return f"{name} gathers on every vertex in every iteration"
        if spec.aggregators or "converged" in spec.methods:
            return f"{name} reads aggregates, or has a rule of convergence"
        return None
    if algebra.kind == "sum":
        return why_not_linear(spec)
    return (
        f"{name} gathers {algebra}, whose fixed point may depend on the order of updates "
        "(say asynchronous = True in the class if it does not)"
    )


def _ends_by_count(spec: ClassSpec, params: Mapping[str, Any]) -> str | None:
    if spec.cls.max_iterations is not None:
        return f"{spec.name} ends after a number of iterations"
    return open_ended(spec, params) if "converged" in spec.methods else None


def _says_the_same(spec: ClassSpec) -> bool:
    """Whether no message depends on what was gathered, as in counting edges."""
    if spec.aggregators or spec.always:
        return False
    return not any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == self_name(method)
        and node.attr in spec.states
        for method in reachable(spec.methods, "scatter")
        for node in ast.walk(method.tree or ast.Pass())
    )
