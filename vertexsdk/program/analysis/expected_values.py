"""Which of inf and NaN a program names itself, so that they are no surprise in its state.

An `inf` is expected where the class has it as a default, where `Min` or `Max` gives it to a vertex
that nobody sends to, where a parameter is infinite, or where a method says `inf`. Any other one has
come out of arithmetic: a division of an array, an overflow. The same holds for NaN.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vertexsdk.program.program import ClassSpec

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
    found = {name for value in values for name in _of_value(value)}
    for method in spec.methods.values():
        known = {**method.function.__globals__, **dict(_closure(method.function))}
        for node in method.nodes():
            if isinstance(node, ast.Attribute) and node.attr in _NAMES:
                found.add("nan" if node.attr.lower() == "nan" else "inf")
            elif isinstance(node, ast.Name):
                found.update(_of_value(known.get(node.id)))
            elif isinstance(node, ast.Constant):
                text = str(node.value).lower().lstrip("+-")  # float("inf"), 1e999
                found.update({"inf": ["inf"], "infinity": ["inf"], "nan": ["nan"]}.get(text, []))
    return frozenset(found)


def _closure(function: Any) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue


def _of_value(value: Any) -> list[str]:
    """Which of "nan" and "inf" a number, tuple or array has."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size <= 4096:
        return [*["nan"] * bool(np.isnan(value).any()), *["inf"] * bool(np.isinf(value).any())]
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in _of_value(item)]
    if not isinstance(value, (float, np.floating)):
        return []
    return [*["nan"] * math.isnan(value), *["inf"] * math.isinf(value)]
