"""Whether a program of sums only adds and scales what it is told, and so has one fixed point.

An iteration of such a program is x -> A·x + b. Where it comes to rest whatever the start, every
start leads to the same x. A program which compares what it gathered, or rounds it, may have several
fixed points, and which one it reaches depends on the start.
"""

from __future__ import annotations

import ast

from vertexsdk.program.program import ClassSpec, Method, reachable, self_name

__all__ = ["why_not_linear"]

_SENDS = ("emit", "emitAll", "contribute")


def why_not_linear(spec: ClassSpec) -> str | None:
    """Return where gather or scatter does more than add and scale; None where neither does.

    >>> from vertexsdk.algorithms import PageRank
    >>> from vertexsdk.program.program import Program
    >>> why_not_linear(Program(PageRank).classes[0]) is None
    True
    """
    if any(f.dtype.kind != "f" for f in spec.states.values()):
        return f"{spec.name} has fields that are no floats"
    used = _used(spec)
    for name in sorted(used):
        if spec.aggregators[name].kind != "sum":
            return f"{spec.name} reads {name}, which is no sum"
    for root in ("gather", "scatter"):
        told = _Told(spec, spec.methods[root], used)
        if spec.methods[root].tree is None or told.curved(spec.methods[root].tree):
            return f"{spec.name}.{root} does more than add and scale"
        if any(told.reads(m.tree) for m in reachable(spec.methods, root)[1:]):
            return f"{spec.name}.{root} calls a method that reads state"
    return None


def _used(spec: ClassSpec) -> set[str]:
    """Aggregates which gather or scatter reads the value of."""
    return {
        node.value.attr
        for root in ("gather", "scatter")
        for method in reachable(spec.methods, root)
        for node in ast.walk(method.tree or ast.Pass())
        if isinstance(node, ast.Attribute)
        and node.attr != "contribute"
        and isinstance(node.value, ast.Attribute)
        and node.value.attr in spec.aggregators
    }


class _Told:
    """What in a method depends on messages, state or aggregates, by way of names too."""

    def __init__(self, spec: ClassSpec, method: Method, used: set[str]) -> None:
        self.me, self.used = self_name(method), used
        self.fields = {*spec.states, *spec.aggregators}
        arguments = method.function.__code__.co_varnames
        self.names = {arguments[3]} if method.name == "gather" else set[str]()
        before = -1
        while len(self.names) > before:
            before = len(self.names)
            for node in ast.walk(method.tree or ast.Pass()):
                value = getattr(node, "value", None)
                if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
                    ends = node.targets if isinstance(node, ast.Assign) else [node.target]
                    if self.reads(value):
                        self.names |= {
                            n.id for e in ends for n in ast.walk(e) if isinstance(n, ast.Name)
                        } - {self.me}

    def reads(self, tree: ast.AST | None) -> bool:
        """Whether an expression has something of it."""
        return any(
            (isinstance(n, ast.Name) and n.id in self.names)
            or (
                isinstance(n, ast.Attribute)
                and n.attr in self.fields
                and isinstance(n.value, ast.Name)
                and n.value.id == self.me
            )
            for n in ast.walk(tree or ast.Pass())
        )

    def curved(self, node: ast.AST | None) -> bool:
        """Whether something of it is compared, multiplied with itself, or passed to a function."""
        if node is None or self._for_the_rule(node):
            return False
        if isinstance(node, ast.BinOp) and self.reads(node):
            bad = self._product(node.op, self.reads(node.left), self.reads(node.right))
        elif isinstance(node, ast.AugAssign):
            both = self.reads(node.target), self.reads(node.value)
            bad = any(both) and self._product(node.op, *both)
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            bad = self.reads(node.test)
        elif isinstance(node, ast.Call):
            sends = isinstance(node.func, ast.Attribute) and node.func.attr in _SENDS
            bad = not sends and any(self.reads(x) for x in (*node.args, *node.keywords))
        elif isinstance(node, ast.UnaryOp):
            bad = isinstance(node.op, ast.Not | ast.Invert) and self.reads(node)
        else:
            other = ast.Compare | ast.BoolOp | ast.Subscript | ast.Tuple | ast.List
            bad = isinstance(node, other) and self.reads(node)
        return bad or any(self.curved(child) for child in ast.iter_child_nodes(node))

    def _product(self, op: ast.operator, left: bool, right: bool) -> bool:
        if isinstance(op, ast.Add | ast.Sub):
            return False
        if isinstance(op, ast.Mult):
            return left and right
        return right or not isinstance(op, ast.Div)

    def _for_the_rule(self, node: ast.AST) -> bool:
        """Whether it is a contribution to an aggregate that only the rule of convergence reads."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "contribute"
            and isinstance(node.func.value, ast.Attribute)
            and node.func.value.attr not in self.used
        )
