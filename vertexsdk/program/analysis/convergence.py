"""How far a loop is from its end: the aggregates which its program's rule of convergence reads."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from vertexsdk.program.program import Program

__all__ = ["residual_of", "rule_reads"]


def rule_reads(program: Program) -> set[str]:
    """Return the names of the aggregates which a program's `converged` reads, if it has one.

    >>> from vertexsdk.algorithms import PageRank
    >>> rule_reads(Program(PageRank))
    {'change'}
    """
    method = program.classes[0].methods.get("converged")
    if method is None or method.tree is None:
        return set()
    name = method.function.__code__.co_varnames[2]
    return {
        node.attr
        for node in ast.walk(method.tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    }


def residual_of(program: Program, aggregates: Mapping[str, Any]) -> float | None:
    """The largest of the aggregates that a program's rule of convergence reads; None without one.

    >>> from vertexsdk.algorithms import PageRank
    >>> residual_of(Program(PageRank), {"change": 0.25, "dangling": 3.0})
    0.25
    """
    values = [aggregates[n] for n in rule_reads(program) if n in aggregates]
    try:
        return max((abs(float(v)) for v in values), default=None)
    except (TypeError, ValueError):
        return None
