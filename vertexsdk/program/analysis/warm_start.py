"""Whether a branch loop may go on from an earlier answer, and why not where it may not.

A warm start is exact for two kinds of program:

- *Min and Max*, where what a vertex gathers alone decides its state. Values that have lost their
  support are withdrawn first (trimming), so that none supports itself around a cycle. Scatter must
  be monotone too: the engine begins anew where it sees that it is not, and where the class says
  `asynchronous = False`.
- *Sum*, where what a vertex gathers decides its state, the loop ends by a rule over aggregates,
  and methods only add and scale: the fixed point of a linear contraction does not depend on where
  one starts (see `Facts.nonlinear`).

Every other program begins with `init` in each branch, which is exact for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vertexsdk.program.analysis.convergence import why_ends_early
from vertexsdk.program.analysis.rules import first_reason
from vertexsdk.program.program import ClassSpec, Program

__all__ = ["why_from_init", "why_not_linear"]


def why_from_init(
    program: Program, params: Mapping[str, Any], tolerance: float, partitions: int
) -> str | None:
    """Return why every branch of a program begins with `init`; None where it need not.

    Args:
        program: its classes.
        params: the value of every parameter, as from `Program.bind`.
        tolerance: of the run; above 0 an answer is not the fixed point.
        partitions: how many the graph has.

    >>> from vertexsdk.algorithms import PageRank
    >>> params = {"damping": 0.85, "iterations": 9, "epsilon": 1e-6, "personalise": 0}
    >>> why_from_init(Program(PageRank), params, 0.0, 1)
    'PageRank.converged reads the iteration'
    """
    if len(program.classes) > 1:
        return "the program has several classes"
    spec = program.classes[0]
    name, facts, algebra = spec.name, spec.facts, spec.algebra
    reason = first_reason(
        (algebra is None, f"{name} declares no messages"),
        (
            facts.message_kind not in ("min", "max", "sum"),
            f"{name} gathers {algebra}, whose fixed point depends on the start",
        ),
        (not facts.scalar_messages, f"{name} sends {algebra}, no single numbers"),
        (spec.cls.asynchronous is False, f"{name} says asynchronous = False"),
        (facts.source_missing, f"{facts.source_missing}"),
        (facts.changes_graph, f"{name} changes the graph itself"),
        (
            facts.draws - {"init"},
            f"{name} draws random numbers, which follow from the iteration",
        ),
        (facts.adapts, f"{name}.adapt changes the state when a branch forks"),
        (facts.reads_loop, f"{name} reads self.loop, so a branch may do other work"),
        (tolerance > 0, f"{name} stops short of its fixed point, by its tolerance"),
        (facts.reads_iteration, f"{name}.{facts.reads_iteration} reads the iteration"),
        (facts.gather_reads, f"{name}.gather reads self.{facts.gather_reads} of before"),
        (
            facts.gather_leaves,
            f"{name}.gather does not set self.{facts.gather_leaves} in every case",
        ),
    )
    if reason is not None:
        return reason
    if facts.message_kind == "sum":
        return why_ends_early(spec, params) or why_not_linear(spec)
    return first_reason(
        (spec.cls.max_iterations is not None, f"{name} ends after a number of iterations"),
        (partitions > 1, "there are several partitions"),
        (
            spec.aggregators or "converged" in spec.methods,
            f"{name} reads aggregates, or has a rule of convergence",
        ),
        (facts.always, f"{name} gathers on every vertex in every iteration"),
    )


def why_not_linear(spec: ClassSpec) -> str | None:
    """Return where gather or scatter does more than add and scale; None where neither does.

    >>> from vertexsdk.algorithms import PageRank
    >>> why_not_linear(Program(PageRank).classes[0]) is None
    True
    """
    return first_reason(
        (not spec.facts.float_state, f"{spec.name} has fields that are no floats"),
        (spec.facts.nonlinear, f"{spec.facts.nonlinear}"),
    )
