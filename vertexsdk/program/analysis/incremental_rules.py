"""Whether a loop can run on a live partition, and why not where it cannot."""

from __future__ import annotations

import ast

from vertexsdk.program.analysis.message_shape import derivable, is_call, is_targets, scatter_shape
from vertexsdk.program.program import ClassSpec, Method, Program, reachable, self_name

__all__ = ["layout_of", "why_not_live"]


def why_not_live(program: Program, *, partitions: int, undirected: bool, strings: bool,
                 compiled: bool) -> str | None:  # fmt: skip
    """Return why the graph of a program is rebuilt for every answer; None where it is not.

    Args:
        program: one which may go on from an earlier answer, see `warm_start`.
        undirected: the graph's edges have no direction.
        strings: vertex ids are strings.
    """
    if partitions > 1:
        return "there are several partitions"
    if strings:
        return "vertex ids are strings"
    if not compiled:
        return "the program runs interpreted"
    spec = program.classes[0]
    name, algebra = spec.name, spec.algebra
    if algebra is None or spec.volatile or spec.producers:
        return f"{name} keeps more than its fields"
    if program.direction == "both" or layout_of(program, undirected=undirected) is None:
        return f"{name} follows edges both ways and reads their values"
    if any(f.size is not None or f.dtype.kind not in "fib" for f in program.states().values()):
        return f"{name} has fields that are no single numbers"
    if not (derivable(spec) or scatter_shape(spec) == "uniform"):
        return f"{name}'s messages do not follow from its fields and an edge's value alone"
    if algebra.kind != "sum" and _looks_at_targets(spec):
        return f"{name}'s messages depend on which targets it has"
    roots = ("scatter",) if algebra.kind == "sum" else ("init", "gather", "scatter")
    if any(_counts_vertices(method) for r in roots for method in reachable(spec.methods, r)):
        return f"{name}'s messages depend on num_vertices"
    return None


def layout_of(program: Program, *, undirected: bool) -> str | None:
    """The layout of the adjacency, see `Adjacency`; None where there is none for the program."""
    if undirected:
        return "undirected"
    if program.direction == "out":
        return "directed"
    return "neighbours" if program.value_dtype is None else None


def _counts_vertices(method: Method) -> bool:
    """Whether a method reads `self.num_vertices`, which changes with no message to tell of it."""
    return any(
        isinstance(n, ast.Attribute)
        and n.attr == "num_vertices"
        and isinstance(n.value, ast.Name)
        and n.value.id == self_name(method)
        for n in ast.walk(method.tree or ast.Pass())
    )


def _looks_at_targets(spec: ClassSpec) -> bool:
    """Whether a method asks for targets otherwise than to send each its message."""
    for root in ("init", "gather", "scatter"):
        for method in reachable(spec.methods, root):
            tree = method.tree or ast.Pass()
            me = self_name(method)
            loops = {id(n.iter) for n in ast.walk(tree) if isinstance(n, ast.For) and _sends(n, me)}
            for node in ast.walk(tree):
                if is_targets(node, me) and (root != "scatter" or id(node) not in loops):
                    return True
            reads_id = root == "scatter" and any(
                isinstance(n, ast.Attribute)
                and n.attr in ("id", "reverse")
                and isinstance(n.value, ast.Name)
                and n.value.id != me
                for n in ast.walk(tree)
            )
            if reads_id:
                return True
    return False


def _sends(loop: ast.For, me: str) -> bool:
    """Whether the body of a loop is one `self.emit(...)`."""
    return len(loop.body) == 1 and is_call(getattr(loop.body[0], "value", None), me, "emit")
