"""Tell which programs may run with a delay bound above 1, and why the others may not.

Asynchronous iterations reach the fixed point of synchronous ones where the method is monotone and
starts above (or below) all of its fixed points, as those of `Min` and `Max` do (Cousot,
"Asynchronous iterative methods for solving a fixed point system of monotone equations", 1977), and
where it is a contraction (Chazan and Miranker, "Chaotic relaxation", 1969). Where neither is known
the class says so itself, by `asynchronous = True`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from vertexsdk.errors import InputError
from vertexsdk.program.analysis.convergence import why_ends_early
from vertexsdk.program.analysis.incremental_rules import why_not_linear
from vertexsdk.program.analysis.rules import first_reason
from vertexsdk.program.program import ClassSpec, Program

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
    bound: int | str, program: Program, params: Mapping[str, Any], max_iterations: int | None
) -> int | Literal["auto"]:
    """Return a delay bound that fits the program, or "auto".

    Args:
        bound: iterations, from 1 (synchronous) up, or "auto".
        program: its classes.
        params: values of parameters, as a user gives them.
        max_iterations: the number of iterations after which the run ends, if there is one.

    Raises:
        InputError: it is not a number from 1 up, or the program needs synchronous iterations.
    """
    if bound == "auto":
        return "auto"
    if isinstance(bound, bool | str) or not isinstance(bound, int) or not 1 <= bound <= LARGEST:
        raise InputError(
            f"the delay bound is {bound!r}; it must be an integer from 1 to {LARGEST}, or 'auto'"
        )
    if bound == 1:
        return 1
    reason = why_synchronous(program, program.bind(params))
    if reason is None and max_iterations is not None and by_blocks(program):
        reason = "it is to end after a number of iterations"
    if reason is not None:
        raise InputError(f"{program.name}: a delay bound of {bound} is not possible: {reason}")
    return bound


def by_blocks(program: Program) -> bool:
    """Return whether local iterations come in blocks of B, each ended by an exchange of all.

    They do where aggregates are read, or end the loop, as an aggregate is over an iteration of all
    partitions.
    """
    return any(s.facts.always or s.aggregators or "converged" in s.methods for s in program.classes)


def _of_class(spec: ClassSpec, params: Mapping[str, Any]) -> str | None:
    name, facts, algebra = spec.name, spec.facts, spec.algebra
    ends_by_rule = "converged" in spec.methods
    reason = first_reason(
        (spec.cls.asynchronous is False, f"{name} says asynchronous = False"),
        (
            algebra is None,
            f"{name} declares no messages, so what it keeps depends on the order of its deltas",
        ),
        (facts.source_missing, f"{facts.source_missing}"),
        (facts.changes_graph, f"{name} changes the graph itself"),
        (facts.draws - {"init"}, f"{name} draws random numbers, which follow from the iteration"),
        (facts.reads_target_rows, f"{name} reads the targets of its targets"),
        (facts.rounds, f"{name}.next_round begins when all vertices are at a fixed point"),
        (facts.reads_iteration, f"{name}.{facts.reads_iteration} reads the iteration"),
    )
    if reason is None and (ends_by_rule or spec.cls.max_iterations is not None):
        reason = why_ends_early(spec, params)
    same_messages = not (spec.aggregators or facts.always or facts.scatter_reads)
    if reason is not None or spec.cls.asynchronous or same_messages:
        return reason
    if facts.message_kind == "sum":
        return why_not_linear(spec)
    ordered = facts.message_kind in ("min", "max")
    return first_reason(
        (
            not ordered,
            f"{name} gathers {algebra}, whose fixed point may depend on the order of updates "
            "(say asynchronous = True in the class if it does not)",
        ),
        (facts.always, f"{name} gathers on every vertex in every iteration"),
        (
            spec.aggregators or ends_by_rule,
            f"{name} reads aggregates, or has a rule of convergence",
        ),
    )
