"""Warnings of odd answers, at the line of the user's class; and of iterations without an end.

Partitions count what is not finite among the state that they write; the driver knows which of it
the program expects.
"""

from __future__ import annotations

import ast
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine.commands import Budget, Counts, WorkDone
from vertexsdk.errors import InputError, shorten
from vertexsdk.graph.graph import Graph, VariantInfo
from vertexsdk.program.algebra import VertexId
from vertexsdk.program.program import ClassSpec, Program, declaration_line
from vertexsdk.program.vertex import Vertex
from vertexsdk.program.warn import warn_at

MOST = 10_000  # iterations without a limit, beside one for each vertex
MOST_WITH_RULE = 100_000  # the same of a class with a method `converged`
PATIENCE = 10.0  # seconds of iterations, and their number, after which a warning is logged
MANY = 100
_OFTEN_WEIGHTED = {
    *("BetweennessCentrality", "ClosenessCentrality", "EigenvectorCentrality"),
    *("HubsAndAuthorities", "KatzCentrality", "PageRank", "PersonalisedPageRank"),
}
_log = logging.getLogger("vertexsdk")


def not_finite(columns: Mapping[str, NDArray[Any]]) -> Counts:
    """Count the values that are not finite in the columns of floats that have some."""
    counts: Counts = {}
    for name, column in columns.items():
        if column.dtype.kind == "f" and not np.isfinite(column).all():
            counts[name] = int(np.isnan(column).sum()), int(np.isinf(column).sum())
    return counts


def check_answer(
    program: Program,
    params: Mapping[str, Any],
    work: WorkDone,
    counts: Counts,
    edges: int,
    vertices: int,
    *,
    from_init: bool,
    known: set[str] | None = None,
) -> None:
    """Warn of an answer that is odd.

    Args:
        params: the value of every parameter.
        work: the work that led to it.
        counts: counts of values in its state (`not_finite`).
        edges, vertices: numbers of the graph.
        from_init: it began with `init`.
        known: what was said of earlier answers of the same loop, which is not said again; gets
            what is said of this one.
    """
    known = set() if known is None else known
    for number, spec in enumerate(program.classes):
        expected = expected_values(spec, params) if counts else ()
        for name in spec.states:
            nan, infinite = counts.get(program.column(number, name), (0, 0))
            for count, what, kind in ((nan, "NaN", "nan"), (infinite, "infinite", "inf")):
                if count and kind not in expected and f"{spec.name}.{name}: {kind}" not in known:
                    known.add(f"{spec.name}.{name}: {kind}")
                    where = "1 vertex" if count == 1 else f"{count:,} vertices"
                    warn_at(
                        spec.file, declaration_line(spec, name),
                        f"{spec.name}: in the answer {name} is {what} at {where}, and the class "
                        f"names no {kind}: look for a division by zero or an overflow",
                    )  # fmt: skip
    loops = vertices if program.direction == "undirected" else 0  # at most; nothing goes along them
    if (
        from_init
        and edges > loops
        and not work.messages
        and work.iterations
        and _should_send(program)
        and "silent" not in known
    ):
        known.add("silent")
        spec = program.classes[0]
        line = spec.methods["scatter"].line
        warn_at(
            spec.file, line,
            f"{spec.name}: no vertex sent a message, though the graph has {edges:,} edges, so "
            "gather had nothing to gather: see what scatter sends, and when",
        )  # fmt: skip


def _should_send(program: Program) -> bool:
    """Return whether scatter of a class sends something, and not only from one vertex on.

    What is sent from an origin that has no edges is only infinite.
    """
    return any(
        method.is_self(node, "emit", "emitAll")
        for spec in program.classes
        if not (spec.facts.message_kind in ("min", "max") and spec.facts.compared_with_id)
        for method in spec.methods.values()
        for node in method.nodes()
    )


def warn_of_strangers(program: Program, params: Mapping[str, Any], graph: Graph) -> None:
    """Warn of parameters that methods compare with `self.id` and that are not a vertex.

    Those of type `VertexId` are refused.

    Args:
        params: the value of every parameter.
        graph: which is loaded.
    """
    for spec in program.classes:
        for name in spec.facts.compared_with_id:
            kind = spec.params[name][0] if name in spec.params else None
            value = params.get(name)
            if kind in (None, VertexId) or not isinstance(value, (int, str)):
                continue
            try:
                graph.code_of([value])
            except InputError:
                warn_at(
                    spec.file, declaration_line(spec, name),
                    f"{spec.name}: {name}={shorten(repr(value))} is compared with self.id and is "
                    f"not a vertex of the graph; declare it {name}: VertexId, to have it refused",
                )  # fmt: skip


def say_unused_values(program: Program, info: VariantInfo, graph: Graph) -> None:
    """Say, once of a graph, that its edges have values and the program does not use them.

    Only of built-in programs that other systems run with weights, where one may expect them here.
    """
    names = {spec.name for spec in program.classes if program.built_in}
    text = f"{program.name}: edges have values, which it does not use: every edge counts the same"
    if "weight" in program.classes[0].params:
        text += '; weight="value" uses them'
    if info.valued and names & _OFTEN_WEIGHTED and graph.is_new(text):
        _log.warning(text)


class EndWatch:
    """Ends iterations that have no limit of their own, and says when they take long.

    Args:
        name: name of the loop.
        budget: budget of the iterations.
        limit: the program's own limit of iterations, if it has one.
        vertices: number of vertices of the graph.
        bound: the delay bound; a vertex may commit so many iterations ahead in one step.
        rule: the program has a method `converged`.

    Attributes:
        most: the default limit; None where there is another one.
    """

    def __init__(
        self,
        name: str,
        budget: Budget | None,
        limit: int | None,
        vertices: int,
        bound: int = 1,
        *,
        rule: bool = False,
    ) -> None:
        self.most: int | None = None
        if budget is not None and (limit, budget.iterations, budget.seconds) == (None, None, None):
            self.most = ((MOST_WITH_RULE if rule else MOST) + vertices) * bound
        self._many = MANY * bound
        self._name = name

    def met(self, work: WorkDone, seconds: float) -> bool:
        """Return whether the default limit is met, after so many seconds."""
        if self.most is None:
            return False
        if seconds > PATIENCE and work.iterations > self._many and self._name:
            _log.warning(
                "%s: no fixed point after %s iterations and %.0f s; ends at %s iterations unless "
                "it gets there (max_iterations sets another limit)",
                self._name, f"{work.iterations:,}", seconds, f"{self.most:,}",
            )  # fmt: skip
            self._name = ""
        return work.iterations >= self.most


def has_rule(spec: ClassSpec) -> bool:
    """Return whether the class has a method `converged` of its own."""
    return spec.cls.converged is not Vertex.converged


def endless(spec: ClassSpec, iterations: int) -> str:
    """Return what to say of a loop that met the default limit of iterations."""
    most = MOST_WITH_RULE if has_rule(spec) else MOST
    return (
        f"{spec.file}:{spec.line}: {spec.name}: no fixed point after {iterations:,} iterations, "
        f"the default limit of {most:,} and one for each vertex, times the delay bound: "
        f"{_why_endless(spec)}"
    )


def _why_endless(spec: ClassSpec) -> str:
    facts, kind = spec.facts, spec.facts.message_kind
    if has_rule(spec):
        return "converged() never returned True: see what it compares, or set max_iterations"
    limit = "write converged(), or set max_iterations"
    if "scatter" in facts.draws:
        return f"scatter calls self.random(), so it sends something new each time: {limit}"
    if facts.volatile:
        reads = "reads the iteration or an aggregator"
        return f"scatter {reads}, so it may send something new each time: {limit}"
    if kind in ("min", "max"):
        ever, sign = ("smaller", "negative") if kind == "min" else ("larger", "positive")
        if facts.reads_value:
            return (
                f"values may get ever {ever} around a cycle (is there a cycle of {sign} length?): "
                "mend the edge values, or set max_iterations"
            )
        return (
            f"messages may get ever {ever} around a cycle: see what scatter adds to them, or set "
            "max_iterations"
        )
    return f"set tolerance, {limit}"


# The values among inf and NaN that a program names itself, so that they are expected in its state.
#
# An `inf` is expected where the class has it as a default, where `Min` or `Max` gives it to a
# vertex without messages, where a parameter is infinite, or where a method says `inf`. Any other
# one has come out of arithmetic: a division of an array, an overflow. The same holds for NaN.

_NAMES = ("inf", "Inf", "infty", "Infinity", "INFINITY", "nan", "NaN", "NAN")


def expected_values(spec: ClassSpec, params: Mapping[str, Any]) -> frozenset[str]:
    """Return which of "nan" and "inf" (of either sign) a class of a program names.

    Args:
        spec: the class.
        params: the value of every parameter, as from `Program.bind`.

    >>> from vertexsdk.algorithms import PageRank, ShortestPaths
    >>> from vertexsdk.program.program import Program
    >>> [expected_values(Program(c).classes[0], {}) for c in (PageRank, ShortestPaths)]
    [frozenset(), frozenset({'inf'})]
    """
    if spec.facts.source_missing is not None:
        return frozenset(("nan", "inf"))
    values = [*(f.default for f in spec.states.values()), *params.values()]
    if spec.algebra is not None:
        values.append(spec.algebra.identity)
    names = {name for value in values for name in _of_value(value)}
    for method in spec.methods.values():
        known = {**method.function.__globals__, **dict(_closure(method.function))}
        for node in method.nodes():
            if isinstance(node, ast.Attribute) and node.attr in _NAMES:
                names.add("nan" if node.attr.lower() == "nan" else "inf")
            elif isinstance(node, ast.Name):
                names.update(_of_value(known.get(node.id)))
            elif isinstance(node, ast.Constant):
                text = str(node.value).lower().lstrip("+-")  # float("inf"), 1e999
                names.update({"inf": ["inf"], "infinity": ["inf"], "nan": ["nan"]}.get(text, []))
    return frozenset(names)


def _closure(function: Any) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue


def _of_value(value: Any) -> list[str]:
    """Return which of "nan" and "inf" a number, tuple or array has."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size <= 4096:
        return [*["nan"] * bool(np.isnan(value).any()), *["inf"] * bool(np.isinf(value).any())]
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in _of_value(item)]
    if not isinstance(value, (float, np.floating)):
        return []
    return [*["nan"] * math.isnan(value), *["inf"] * math.isinf(value)]
