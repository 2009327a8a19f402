"""Whether a program of sums only adds and scales its input, and so has one fixed point.

An iteration of such a program is x -> A·x + b. Where it converges from every start, it converges to
the same x. A program that compares or rounds what it gathered may have several fixed points, and
the start decides which one it reaches.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from vertexsdk.program.syntax import Method

_SENDS = ("emit", "emitAll", "contribute")


class MethodDependencies:
    """Which expressions of a method depend on messages, state or aggregates.

    Args:
        method: gather or scatter.
        fields: the names of the class's state fields and aggregators.
        aggregates_read: the aggregators whose value gather or scatter reads.
    """

    def __init__(
        self, method: Method, fields: Collection[str], aggregates_read: Collection[str]
    ) -> None:
        self.method, self.fields, self.aggregates_read = method, fields, aggregates_read
        self.names = {method.arguments[3]} if method.name == "gather" else set[str]()
        before = -1
        while len(self.names) > before:  # a name may depend on one that is assigned further down
            before = len(self.names)
            for node in method.nodes():
                if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    if self.depends(node.value):
                        self.names |= {
                            n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)
                        } - {method.self_name}

    def depends(self, tree: ast.AST | None) -> bool:
        """Whether any part of an expression depends on messages, state or aggregates."""
        return any(
            (isinstance(n, ast.Name) and n.id in self.names)
            or (self.method.is_self(n) and n.attr in self.fields)
            for n in ast.walk(tree or ast.Pass())
        )

    def nonlinear(self, node: ast.AST) -> bool:
        """Whether dependent values are compared, multiplied, or passed to a function."""
        if self._only_for_convergence(node):
            return False
        depends = self.depends
        if isinstance(node, ast.BinOp) and depends(node):
            bad = _nonlinear_operator(node.op, depends(node.left), depends(node.right))
        elif isinstance(node, ast.AugAssign):
            both = depends(node.target), depends(node.value)
            bad = any(both) and _nonlinear_operator(node.op, *both)
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            bad = depends(node.test)
        elif isinstance(node, ast.Call):
            sends = isinstance(node.func, ast.Attribute) and node.func.attr in _SENDS
            bad = not sends and any(depends(x) for x in (*node.args, *node.keywords))
        elif isinstance(node, ast.UnaryOp):
            bad = isinstance(node.op, ast.Not | ast.Invert) and depends(node)
        else:
            other = ast.Compare | ast.BoolOp | ast.Subscript | ast.Tuple | ast.List
            bad = isinstance(node, other) and depends(node)
        return bad or any(self.nonlinear(child) for child in ast.iter_child_nodes(node))

    def _only_for_convergence(self, node: ast.AST) -> bool:
        """Whether a node contributes to an aggregate that only `converged` reads."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "contribute"
            and isinstance(node.func.value, ast.Attribute)
            and node.func.value.attr not in self.aggregates_read
        )


def _nonlinear_operator(operator: ast.operator, left: bool, right: bool) -> bool:
    """Whether an operator is not linear, given which of its operands depend on the input."""
    if isinstance(operator, ast.Add | ast.Sub):
        return False
    if isinstance(operator, ast.Mult):
        return left and right
    return right or not isinstance(operator, ast.Div)
