"""What a method reads of the vertex, found in its source: apart from the engine's own analysis."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

from vertexsdk.program.vertex import Vertex, declared_fields

__all__ = ["gathers_always", "scatters_always"]


def gathers_always(cls: type[Vertex]) -> bool:
    """Whether every vertex gathers in every iteration: `always`, or an aggregator in gather."""
    return bool(cls.always or _reads(cls, "gather") & _aggregators(cls))


def scatters_always(cls: type[Vertex]) -> bool:
    """Whether a gather is always followed by a scatter: it reads iteration or an aggregator."""
    return bool(_reads(cls, "scatter") & {"iteration", *_aggregators(cls)})


def _aggregators(cls: type[Vertex]) -> set[str]:
    return {name for name, f in declared_fields(cls) if f.role == "aggregate"}


def _reads(cls: type[Vertex], root: str) -> set[str]:
    """NAME for each self.NAME in a method or in what it calls; "iteration" for its argument."""
    names: set[str] = set()
    todo = [root]
    done: set[str] = set()
    while todo:
        name = todo.pop()
        function = inspect.getattr_static(cls, name, None)
        if name in done or not inspect.isfunction(function) or function is vars(Vertex).get(name):
            continue
        done.add(name)
        tree: Any = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        arguments = [a.arg for a in tree.args.args]
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == arguments[0]:
                    names.add(node.attr)
                    todo.append(node.attr)
            elif isinstance(node, ast.Name) and name == root and node.id == arguments[1]:
                names.add("iteration")
    return names
