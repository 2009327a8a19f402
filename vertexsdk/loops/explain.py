"""The facts that are known of a program before it runs: what it declares, and how it will run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vertexsdk.engine.precompile import why_interpreted
from vertexsdk.loops.arguments import with_parameters
from vertexsdk.notebook.card import card
from vertexsdk.program.analysis.delay_bound import why_synchronous
from vertexsdk.program.analysis.incremental_rules import (
    why_from_init,
    why_no_history,
    why_not_local,
)
from vertexsdk.program.program import ClassSpec, Program
from vertexsdk.program.vertex import MISSING, Vertex


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of `explain`: a table in a notebook, lines of text elsewhere.

    Attributes:
        name: the program's name.
        facts: each with its name.
    """

    name: str
    facts: Mapping[str, str]

    def __str__(self) -> str:
        width = max(map(len, self.facts))
        return "\n".join([self.name, *(f"  {n:<{width}}  {x}" for n, x in self.facts.items())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return card(f"Program {self.name}", self.facts)


def explain(
    program: type[Vertex] | Program | str, params: Mapping[str, Any] | None = None
) -> Explanation:
    """Tell what a program declares, whether it compiles, and how answers follow changes.

    Args:
        program: as for `run`.
        params: values of parameters, where something depends on them.

    Returns:
        Facts by name; print them, or let a notebook show them. The class is compiled, which takes
        some seconds the first time; a run need not compile it again.

    Raises:
        InputError: no program has that name.

    Example:
        >>> print(explain("wcc"))
        wcc
          fields        component: VertexId
          messages      Min(VertexId) along undirected edges
          ends          when nothing changes any more
          compiled      yes
          after changes  ...
    """
    program, params = with_parameters(program, params)
    values = {
        name: 0 if default is MISSING else default
        for spec in program.classes
        for name, (_, default) in spec.params.items()
    } | params
    facts: dict[str, str] = {}
    for spec in program.classes:
        mark = f" of {spec.name}" if len(program.classes) > 1 else ""
        facts |= {name + mark: text for name, text in _of_class(spec)}
    facts["ends"] = _ends(program)
    reason = why_interpreted(program, values)
    facts["compiled"] = "yes" if reason is None else f"no: {reason}"
    facts["after changes"] = _after_changes(program, values)
    reason = why_synchronous(program, values)
    facts["delay bound"] = "any" if reason is None else f"1: {reason}"
    return Explanation(program.name, facts)


def _after_changes(program: Program, values: Mapping[str, Any]) -> str:
    reason = why_from_init(program, values)
    if reason is None:
        return "an answer starts from the answer before"
    limit = program.classes[0].cls.max_iterations
    not_local = why_not_local(program, limit)
    if not_local is None:
        return "an answer takes the edges at the ends of those that changed"
    no_history = why_no_history(program)
    if no_history is None:
        return "an answer refines the iterations of the answer before where they differ"
    reasons = {reason: "continue", no_history: "refine iterations"}
    if limit == 1:
        reasons = {not_local: "count at changed edges", no_history: "refine iterations"}
    causes = "; ".join(f"it does not {way}, as {why}" for why, way in reasons.items())
    return f"an answer starts from init: {causes}"


def _of_class(spec: ClassSpec) -> Iterator[tuple[str, str]]:
    params = [
        f"{name}: {_named(kind)}" + ("" if default is MISSING else f" = {default!r}")
        for name, (kind, default) in spec.params.items()
    ]
    if params:
        yield "parameters", ", ".join(params)
    fields = [
        f"{name}: {_named(f.type)}" + (f"[{f.size}]" if f.size is not None else "")
        for name, f in spec.states.items()
    ]
    yield "fields", ", ".join(fields)
    ways = {"out": "along edges", "in": "against edges", "both": "along and against edges"}
    way = ways.get(spec.cls.direction, "along undirected edges")
    messages = "each by itself (events)" if spec.algebra is None else f"{spec.algebra}"
    yield "messages", f"{messages} {way}"
    if spec.aggregators:
        yield "aggregators", ", ".join(f"{name}: {a}" for name, a in spec.aggregators.items())


def _ends(program: Program) -> str:
    first = program.classes[0]
    ways = ["when nothing changes any more"]
    if "converged" in first.methods:
        ways.append("when converged() says so")
    if first.cls.max_iterations is not None:
        ways.append(f"after {first.cls.max_iterations:,} iterations")
    return ", or ".join(ways)


def _named(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))
