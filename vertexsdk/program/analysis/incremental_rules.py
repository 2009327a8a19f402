"""Whether the incremental engine can follow a program's graph as it changes, and why not."""

from __future__ import annotations

from collections.abc import Mapping

from vertexsdk.program.analysis.rules import first_reason
from vertexsdk.program.program import Program

__all__ = ["layout_of", "why_not_incremental"]


def why_not_incremental(program: Program, *, undirected: bool, strings: bool) -> str | None:
    """Return why the graph of a program is rebuilt for every answer; None where it is not.

    Args:
        program: one that may go on from an earlier answer, see `warm_start`.
        undirected: the graph's edges have no direction.
        strings: vertex ids are strings.
    """
    spec = program.classes[0]
    name, facts = spec.name, spec.facts
    both_ways = program.direction == "both" or layout_of(program, undirected=undirected) is None
    counting = {"scatter"} if facts.message_kind == "sum" else {"init", "gather", "scatter"}
    return first_reason(
        (strings and facts.draws, "random numbers follow from names, and vertex ids are strings"),
        (isinstance(spec.cls.edge, Mapping), "edges have several attributes"),
        (
            spec.algebra is None or facts.volatile or spec.producers,
            f"{name} keeps more than its fields",
        ),
        (program.direction == "in", f"{name} sends against the direction of edges"),
        (both_ways, f"{name} follows edges both ways and reads their values"),
        (
            any(f.size is not None or f.dtype == object for f in program.states().values()),
            f"{name} has fields that are no single numbers",
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
    """The layout of the adjacency, see `Adjacency`; None where there is none for the program."""
    if undirected:
        return "undirected"
    if program.direction == "out":
        return "directed"
    if program.direction == "in" or program.value_dtype is not None:
        return None
    return "neighbours"
