"""How a class sends its messages, read off its methods' syntax trees."""

from __future__ import annotations

import ast
from typing import Any

from vertexsdk.program.program import ClassSpec, Method, reachable, self_name

__all__ = ["derivable", "is_call", "is_targets", "loop_kind", "scatter_shape"]


def is_targets(node: ast.AST, me: str) -> bool:
    """Whether an expression is `self.targets`, in a method which calls its first argument `me`."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "targets"
        and isinstance(node.value, ast.Name)
        and node.value.id == me
    )


def is_call(node: ast.AST | None, me: str, *names: str) -> bool:
    """Whether an expression calls one of these methods of `self`, which is called `me`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == me
        and node.func.attr in names
    )


def scatter_shape(spec: ClassSpec) -> str:
    """Tell how scatter sends: "uniform", "edge" (once per edge), or "many".

    Uniform: every emission is `emitAll(x)`, or a loop over the targets whose whole body is one
    `emit(target, x)` with an x which does not read the target. One message per vertex is kept.
    """
    methods = reachable(spec.methods, "scatter")
    if any(m.tree is None for m in methods) or spec.changes_graph:
        return "many"
    found: list[str] = []
    for method in methods:
        _shape(method, method.tree, self_name(method), found, in_loop=False)
    if any(f == "many" for f in found) or (len(methods) > 1 and found.count("edge")):
        return "many"
    edges = found.count("edge")
    if edges == 0:
        return "uniform"
    return "edge" if edges == 1 and len(found) == 1 else "many"


def derivable(spec: ClassSpec) -> bool:
    """Whether a message follows from the state at the last scatter, so none need be kept.

    So it is for Min and Max when scatter is one loop over the targets whose whole body is
    `emit(target, x)`, with an x that reads only state, parameters, the id and the target.
    """
    algebra = spec.algebra
    if algebra is None or algebra.kind not in ("min", "max") or algebra.size is not None:
        return False
    if (
        spec.volatile
        or scatter_shape(spec) != "edge"
        or any(f.size is not None for f in spec.states.values())
    ):
        return False
    method = spec.methods["scatter"]
    assert method.tree is not None
    body = [s for s in method.tree.body if not _is_docstring(s)]
    if len(body) != 1 or not isinstance(body[0], ast.For) or len(body[0].body) != 1:
        return False
    statement, me = body[0].body[0], self_name(method)
    if not isinstance(statement, ast.Expr) or not is_call(statement.value, me, "emit"):
        return False
    calls = [
        n for n in ast.walk(statement.value.args[1])  # type: ignore[attr-defined]
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
        and isinstance(n.func.value, ast.Name) and n.func.value.id == me
    ]  # fmt: skip
    return not calls


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _shape(method: Method, node: Any, me: str, found: list[str], in_loop: bool) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.For) and is_targets(child.iter, me):
            kind = loop_kind(child, me)
            if kind is not None:
                found.append("many" if in_loop else kind)
                continue
            _shape(method, child, me, found, True)
        elif is_call(child, me, "emit"):
            found.append("many")
        elif is_call(child, me, "emitAll"):
            found.append("many" if in_loop else "uniform")
        else:
            loops = isinstance(child, (ast.For, ast.While))
            _shape(method, child, me, found, in_loop or loops)


def loop_kind(loop: ast.For, me: str) -> str | None:
    """The kind of a loop over targets: None if it emits nothing."""
    sites = [n for n in ast.walk(loop) if is_call(n, me, "emit", "emitAll")]
    if not sites:
        return None
    if not isinstance(loop.target, ast.Name) or len(sites) != 1 or loop.orelse:
        return "many"
    call = sites[0]
    assert isinstance(call, ast.Call)
    to_target = (
        len(call.args) == 2
        and isinstance(call.args[0], ast.Name)
        and call.args[0].id == loop.target.id
        and not call.keywords
    )
    if not to_target:
        return "many"
    inner = [n for n in ast.walk(loop) if n is not loop and isinstance(n, (ast.For, ast.While))]
    for n in inner:
        if call in ast.walk(n):
            return "many"
    whole = len(loop.body) == 1 and isinstance(loop.body[0], ast.Expr)
    whole = whole and getattr(loop.body[0], "value", None) is call
    reads = any(
        isinstance(n, ast.Name) and n.id == loop.target.id for n in ast.walk(call.args[1])
    ) or any(isinstance(n, ast.NamedExpr) for n in ast.walk(call.args[1]))
    return "uniform" if whole and not reads else "edge"
