"""Tell whether a loop may continue from its last answer when its graph changes, or why not.

To continue is exact for two kinds of program:

- *Min and Max*, where what a vertex gathers alone decides its state. Values that have lost their
  support are withdrawn first (trimming), so that none supports itself around a cycle. Scatter must
  be monotone too: the engine begins anew where it sees that it is not, and where the class says
  `asynchronous = False`.
- *Sum*, where what a vertex gathers decides its state, the loop ends by a rule over aggregates,
  and methods only add and scale (`Facts.nonlinear` is None): the fixed point of a linear
  contraction does not depend on the start.

Every other program begins with `init` at each answer, which is exact for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vertexsdk.program.analysis.convergence import why_ends_early
from vertexsdk.program.analysis.rules import first_reason
from vertexsdk.program.program import ClassSpec, Program


def why_from_init(
    program: Program,
    params: Mapping[str, Any],
    tolerance: float = 0.0,
    *,
    undirected: bool = False,
    strings: bool = False,
) -> str | None:
    """Return why every answer of a program begins with `init`; None where it need not.

    Args:
        program: its classes.
        params: the value of every parameter, as from `Program.bind`.
        tolerance: the run's tolerance; above 0 an answer is not the fixed point.
        undirected: the graph's edges have no direction.
        strings: vertex ids are strings.

    >>> from vertexsdk.algorithms import PageRank
    >>> params = {"damping": 0.85, "iterations": 9, "epsilon": 1e-6, "personalise": 0}
    >>> why_from_init(Program(PageRank), params)
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
        (facts.unseen, f"{facts.unseen}"),
        (facts.changes_graph, f"{name} changes the graph itself"),
        (facts.rounds, f"{name}.next_round changes the state after a fixed point"),
        (
            facts.draws - {"init"},
            f"{name} draws random numbers, which follow from the iteration",
        ),
        (facts.reads_target_rows, f"{name} reads the targets of its targets"),
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
    if reason is None and facts.message_kind == "sum":
        reason = why_ends_early(spec, params) or why_not_linear(spec)
    elif reason is None:
        reason = first_reason(
            (spec.cls.max_iterations is not None, f"{name} ends after a number of iterations"),
            (
                spec.aggregators or "converged" in spec.methods,
                f"{name} reads aggregates, or has a rule of convergence",
            ),
            (facts.always, f"{name} gathers on every vertex in every iteration"),
        )
    return reason or _why_not_in_place(program, undirected=undirected, strings=strings)


def why_not_local(program: Program, max_iterations: int | None) -> str | None:
    """Return why an answer does not follow from what is counted at the ends of changed edges.

    Args:
        program: its classes.
        max_iterations: the limit of the run; None for no limit.

    >>> from vertexsdk.algorithms import PageRank, TriangleCount
    >>> why_not_local(Program(TriangleCount), 1) is None
    True
    >>> why_not_local(Program(PageRank), None)
    'PageRank sends no integer sums'
    """
    if len(program.classes) > 1:
        return "the program has several classes"
    spec = program.classes[0]
    name, facts = spec.name, spec.facts
    return first_reason(
        (facts.not_local, f"{facts.not_local}"),
        (
            max_iterations != spec.cls.max_iterations,
            f"{name} is given another number of iterations",
        ),
        (spec.producers, f"{name} keeps more than its fields"),
        (facts.reads_value, f"{name} reads the values of edges"),
        (facts.draws, f"{name} draws random numbers"),
        (facts.adapts or facts.reads_loop, f"{name} does something else in a branch"),
        (facts.reads_num_vertices, f"{name} reads num_vertices"),
    )


def why_no_history(
    program: Program, *, strings: bool = False, max_iterations: int | None = None
) -> str | None:
    """Return why iterations are not recorded, to be computed anew where they differ.

    Args:
        program: its classes.
        strings: vertex ids are strings.
        max_iterations: the limit of the run; None for no limit but that of the class.

    >>> from vertexsdk.algorithms import Coreness, PageRank
    >>> why_no_history(Program(Coreness)) is None
    True
    >>> why_no_history(Program(PageRank))
    'PageRank has aggregators'
    """
    first = program.classes[0]
    ends = max_iterations is not None or first.cls.max_iterations is not None
    ends |= "converged" in first.methods
    rounds = any(spec.facts.rounds for spec in program.classes)
    if program.mixed:
        return "the classes gather different kinds of message"
    for spec in program.classes:
        if reason := _why_not_refined(spec, strings=strings, rounds=rounds, ends=ends):
            return reason
    return first_reason(
        (
            len(program.classes) > 1
            and any(spec.facts.message_shape != "uniform" for spec in program.classes),
            "one of several classes does not send the same to all targets",
        )
    )


def _why_not_refined(spec: ClassSpec, *, strings: bool, rounds: bool, ends: bool) -> str | None:
    """Return why iterations of one of a program's classes are not computed anew.

    Args:
        spec: the class.
        strings: vertex ids are strings.
        rounds: the program iterates in rounds.
        ends: it ends after a number of iterations, or by a rule of convergence.
    """
    name, facts = spec.name, spec.facts
    counts = facts.reads_iteration or facts.draws - {"init"}
    return first_reason(
        (facts.source_missing, f"{facts.source_missing}"),
        (facts.unseen, f"{facts.unseen}"),
        (
            rounds and (ends or counts),
            f"{name} iterates in rounds, and counts iterations through all of them",
        ),
        (spec.algebra is None, f"{name} declares no messages"),
        (spec.algebra and spec.algebra.dtype == object, f"{name} sends objects, {spec.algebra}"),
        (
            any(f.dtype == object for f in spec.states.values()),
            f"{name} has fields that are objects",
        ),
        (
            facts.message_shape != "uniform" and not facts.edge_messages,
            f"{name} does not send the same to all targets, nor one message along each edge that "
            "follows from its fields",
        ),
        (spec.aggregators, f"{name} has aggregators"),
        (facts.volatile or facts.always, f"{name} gathers or sends in every iteration"),
        (spec.producers, f"{name} keeps more than its fields"),
        (facts.changes_graph, f"{name} changes the graph itself"),
        (strings and facts.draws, "random numbers follow from names, and vertex ids are strings"),
        (facts.adapts or facts.reads_loop, f"{name} does something else in a branch"),
        (facts.reads_target_rows, f"{name} reads the targets of its targets"),
        (facts.reads_num_vertices, f"{name} reads num_vertices"),
    )


def _why_not_in_place(program: Program, *, undirected: bool, strings: bool) -> str | None:
    """Return why messages cannot follow changes of edges one by one."""
    spec = program.classes[0]
    name, facts = spec.name, spec.facts
    both_ways = program.direction == "both" or layout_of(program, undirected=undirected) is None
    counting = {"scatter"} if facts.message_kind == "sum" else {"init", "gather", "scatter"}
    return first_reason(
        (strings and facts.draws, "random numbers follow from names, and vertex ids are strings"),
        (isinstance(spec.cls.edge, Mapping), "edges have named attributes"),
        (
            spec.algebra is None or facts.volatile or spec.producers,
            f"{name} keeps more than its fields",
        ),
        (program.direction == "in", f"{name} sends against the direction of edges"),
        (both_ways, f"{name} follows edges both ways and reads their values"),
        (
            any(f.size is not None or f.dtype == object for f in program.states().values()),
            f"{name} has fields that are not single numbers",
        ),
        (
            not facts.derivable and facts.message_shape != "uniform",
            f"{name}'s messages do not follow from its fields and an edge's value alone",
        ),
        (
            facts.message_kind != "sum" and facts.reads_targets,
            f"{name}'s messages depend on which targets it has",
        ),
        (counting & facts.reads_num_vertices, f"{name}'s messages depend on num_vertices"),
    )


def layout_of(program: Program, *, undirected: bool) -> str | None:
    """Return the layout of the `Adjacency`; None where there is none for the program."""
    if undirected:
        return "undirected"
    if program.direction == "out":
        return "directed"
    if program.direction == "in" or program.value_dtype is not None:
        return None
    return "neighbours"


def why_not_linear(spec: ClassSpec) -> str | None:
    """Return where gather or scatter does more than add and scale; None where neither does.

    >>> from vertexsdk.algorithms import PageRank
    >>> why_not_linear(Program(PageRank).classes[0]) is None
    True
    """
    return first_reason(
        (not spec.facts.float_state, f"{spec.name} has fields that are not floats"),
        (spec.facts.nonlinear, f"{spec.facts.nonlinear}"),
    )
