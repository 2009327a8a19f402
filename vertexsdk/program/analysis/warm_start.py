"""Whether a branch loop may go on from an earlier answer, and why not where it may not.

A warm start is exact for two kinds of program:

- *Min and Max*, where what a vertex gathers alone decides its state. Values which have lost what
  they came from are withdrawn first (`trimming`), so none supports itself around a cycle.
- *Sum*, where what a vertex gathers decides its state, the loop ends by a rule over aggregates,
  and methods only add and scale: the fixed point of a linear contraction does not depend on where
  one starts (see `_linearity`).

Every other program begins with `init` in each branch, which is exact for all.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vertexsdk.program.analysis._linearity import why_not_linear
from vertexsdk.program.program import ClassSpec, Method, Program, new_driver, reachable, self_name

__all__ = ["Kept", "open_ended", "reads_iteration", "why_from_init"]


@dataclass(frozen=True)
class Kept:
    """An answer that stays on the executors: where, its greatest level, its aggregates."""

    key: str
    level: int
    aggregates: Mapping[str, Any] = field(default_factory=dict)


def why_from_init(
    program: Program, params: Mapping[str, Any], tolerance: float, partitions: int
) -> str | None:
    """Return why every branch of a program begins with `init`; None where it need not.

    >>> from vertexsdk.algorithms import PageRank
    >>> given = {"damping": 0.85, "iterations": 9, "epsilon": 1e-6, "personalise": 0}
    >>> why_from_init(Program(PageRank), given, 0.0, 1)
    'PageRank.converged reads the iteration'
    """
    if len(program.classes) > 1:
        return "the program has several classes"
    spec = program.classes[0]
    name = spec.name
    algebra = spec.algebra
    if algebra is None:
        return f"{name} declares no messages"
    if algebra.kind not in ("min", "max", "sum"):
        return f"{name} gathers {algebra}, whose fixed point depends on the start"
    if algebra.dtype == object or algebra.size is not None:
        return f"{name} sends {algebra}, no single numbers"
    if spec.source_missing:
        return spec.source_missing
    if spec.changes_graph:
        return f"{name} changes the graph itself"
    if tolerance > 0:
        return f"{name} stops short of its fixed point, by its tolerance"
    reason = _impure(spec)
    if reason is not None:
        return reason
    if algebra.kind == "sum":
        return open_ended(spec, params) or why_not_linear(spec)
    if partitions > 1:
        return "there are several partitions"
    if spec.aggregators or "converged" in spec.methods:
        return f"{name} reads aggregates, or has a rule of convergence"
    if spec.always:
        return f"{name} gathers on every vertex in every iteration"
    return None


def reads_iteration(spec: ClassSpec) -> str | None:
    """Which of gather and scatter looks at the iteration, in words; None if neither does."""
    for root in ("gather", "scatter"):
        for method in reachable(spec.methods, root):
            arguments = method.function.__code__.co_varnames[1:2]
            for node in ast.walk(method.tree or ast.Pass()):
                if method.name == root and isinstance(node, ast.Name) and node.id in arguments:
                    return f"{spec.name}.{root} reads the iteration"
    return None


def _impure(spec: ClassSpec) -> str | None:
    """Why the state after a gather, or a message, is not a function of what was gathered."""
    reason = reads_iteration(spec)
    if reason is not None:
        return reason
    for method in reachable(spec.methods, "gather"):
        read = _reads_state(spec, method)
        if read is not None:
            return f"{spec.name}.gather reads self.{read} of before"
    gather = spec.methods["gather"]
    body = gather.tree.body if gather.tree else []
    kept = set(spec.states) - _surely_set(body, self_name(gather))
    if kept:
        return f"{spec.name}.gather does not set self.{min(kept)} in every case"
    return None


def _surely_set(body: list[ast.stmt], me: str) -> set[str]:
    """The fields which are set whichever way through the statements is taken."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.Assign):
            found |= {
                t.attr
                for t in statement.targets
                if isinstance(t, ast.Attribute)
                and isinstance(t.value, ast.Name)
                and t.value.id == me
            }
        elif isinstance(statement, ast.If):
            found |= _surely_set(statement.body, me) & _surely_set(statement.orelse, me)
        if any(isinstance(n, ast.Return) for n in ast.walk(statement)):
            break
    return found


def _reads_state(spec: ClassSpec, method: Method) -> str | None:
    """The first state field which a method reads and has not set, but for contributions."""
    if method.tree is None:
        return None
    me = self_name(method)
    for number, statement in enumerate(method.tree.body):
        read = _loads(spec, statement, me) - _surely_set(method.tree.body[:number], me)
        if read:
            return min(read)
    return None


def _loads(spec: ClassSpec, node: ast.AST, me: str) -> set[str]:
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "contribute"
    ):
        return set()  # what is contributed ends a loop, and changes no state of this iteration
    found: set[str] = set()
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == me
        and node.attr in spec.states
        and isinstance(node.ctx, ast.Load)
    ):
        found.add(node.attr)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
        found.add(node.target.attr)
    for child in ast.iter_child_nodes(node):
        found |= _loads(spec, child, me)
    return found


class _Unread:
    """Stands for the iteration; whoever looks at it says so."""

    def _read(self, *_: Any) -> Any:
        raise _ReadError

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _read
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = _read
    __floordiv__ = __truediv__ = __int__ = __index__ = __float__ = __bool__ = _read
    __hash__ = None  # type: ignore[assignment]


class _ReadError(Exception):
    pass


class _Anything:
    """Stands for the aggregates: each is infinite, so that no rule holds by chance."""

    def __getattr__(self, name: str) -> float:
        return float("inf")


def open_ended(spec: ClassSpec, params: Mapping[str, Any]) -> str | None:
    """Why a loop need not have reached its fixed point when its rule ends it; None if it has."""
    if spec.cls.max_iterations is not None:
        return f"{spec.name} ends after a number of iterations"
    if "converged" not in spec.methods:
        return f"{spec.name} has no rule of convergence"
    try:
        new_driver(spec, params, 1).converged(_Unread(), _Anything())  # type: ignore[arg-type]
    except _ReadError:
        return f"{spec.name}.converged reads the iteration"
    except Exception:
        return f"{spec.name}.converged does more than compare aggregates"
    return None
