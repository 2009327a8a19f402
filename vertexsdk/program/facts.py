"""All that the source of a Vertex class tells about it, read once when the class is defined.

The engine, the compiler and the rules in `analysis` look at these facts and never at a syntax tree.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vertexsdk.program.algebra import Algebra
from vertexsdk.program.fields import StateField
from vertexsdk.program.syntax import Method, is_docstring, reachable, target_loop_shape
from vertexsdk.program.vertex import Vertex

METHODS = ("init", "gather", "scatter", "adapt")
GRAPH_CHANGES = ("addTarget", "removeTarget")


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about what the methods of one class read, change and send, with helper methods.

    The defaults are what must be assumed of a method whose source cannot be read.

    Attributes:
        source_missing: which source cannot be read; None where all can.
        message_kind: the algebra's kind: "sum", "min", "max", "any", "latest" or "user"; None
            for a class that declares no messages.
        scalar_messages: messages are single numbers.
        message_shape: "uniform" (the same message to every target), "edge" (at most one emission
            per edge, whose value may depend on the edge), or "many".
        derivable: a message follows from the state at the last scatter and the edge alone.
        float_state: all state fields are float.
        always: every vertex gathers in every iteration.
        volatile: scatter may send something else although the state is the same.
        repeatable: to gather the same aggregate once more changes neither state nor messages.
        changes_graph: a method adds or removes targets.
        reads_value: a method reads the values of edges.
        reads_reverse: a method asks whether an edge is followed against its direction.
        reads_loop: a method reads `self.loop`.
        draws: which methods call `self.random()`.
        adapts: the class has a method `adapt`, for branches.
        reads_iteration: the first of gather and scatter that reads the iteration.
        reads_num_vertices: which of init, gather and scatter read `self.num_vertices`.
        reads_targets: a method uses targets otherwise than to send each its message.
        reads_target_rows: a method reads the targets of a target.
        scatter_reads_state: messages depend on state.
        gather_reads: a state field that gather reads before it sets it.
        gather_leaves: a state field that gather does not set on every path.
        nonlinear: how gather or scatter does more than add and scale; None where neither does.
        converged_reads: the aggregates that `converged` reads.
        compared_with_id: what methods compare with `self.id`, of `self`.
        constants: the state fields that are numbers and no method sets, as vertex attributes are.
    """

    source_missing: str | None = None
    message_kind: str | None = None
    scalar_messages: bool = False
    message_shape: str = "many"
    derivable: bool = False
    float_state: bool = False
    always: bool = True
    volatile: bool = True
    repeatable: bool = False
    changes_graph: bool = True
    reads_value: bool = True
    reads_reverse: bool = True
    reads_loop: bool = True
    adapts: bool = False  # known without a source
    draws: frozenset[str] = frozenset(METHODS)
    reads_iteration: str | None = "gather"
    reads_num_vertices: frozenset[str] = frozenset(METHODS)
    reads_targets: bool = True
    reads_target_rows: bool = False  # or the class is refused where it does
    scatter_reads_state: bool = True
    gather_reads: str | None = None
    gather_leaves: str | None = None
    nonlinear: str | None = None
    converged_reads: frozenset[str] = frozenset()
    compared_with_id: frozenset[str] = frozenset()
    constants: frozenset[str] = frozenset()


def read_facts(
    cls: type[Vertex],
    states: Mapping[str, StateField],
    aggregators: Mapping[str, Algebra],
    methods: Mapping[str, Method],
) -> Facts:
    """Read the facts of a class off its declarations and the syntax trees of its methods.

    Args:
        cls: the class; its algebra is `cls.messages`.
        states: its state fields by name.
        aggregators: the algebra of each aggregator by name.
        methods: the methods that the class defines or inherits from its own bases.
    """
    algebra = cls.messages
    of_class: dict[str, Any] = {
        "message_kind": None if algebra is None else algebra.kind,
        "scalar_messages": algebra is not None and algebra.dtype != object and algebra.size is None,
        "float_state": all(f.dtype.kind == "f" for f in states.values()),
        "converged_reads": _converged_reads(methods),
    }
    missing = next((m for m in methods.values() if m.tree is None), None)
    if missing is not None:
        return Facts(
            source_missing=f"the source of {missing.name} cannot be read",
            always=cls.always or bool(aggregators),
            adapts="adapt" in methods,
            **of_class,
        )
    nodes = {
        root: [(m, n) for m in reachable(methods, root) for n in m.nodes()] for root in METHODS
    }
    attributes = {root: {n.attr for m, n in pairs if m.is_self(n)} for root, pairs in nodes.items()}
    anywhere = set().union(*attributes.values())
    every_node = [pair for pairs in nodes.values() for pair in pairs]
    iteration = [
        root
        for root in ("gather", "scatter")
        if any(m.name == root and m.reads_argument(n, 1) for m, n in nodes[root])
    ]
    draws = frozenset(root for root in METHODS if "random" in attributes[root])
    volatile = bool({"scatter"} & {*iteration, *draws}) or bool(
        attributes["scatter"] & aggregators.keys()
    )
    constants = _constants(states, methods)
    changing = {name: f for name, f in states.items() if name not in constants}
    target_rows = "edges_to" in anywhere or any(
        isinstance(n, ast.Attribute) and n.attr == "targets" and not m.is_self(n)
        for m, n in every_node
    )
    changes_graph = algebra is None or bool(anywhere & set(GRAPH_CHANGES))
    shape = "many" if changes_graph else _message_shape(reachable(methods, "scatter"))
    gather_reads = next(
        (x for m in reachable(methods, "gather") if (x := _reads_before_set(m, changing))), None
    )
    return Facts(
        message_shape=shape,
        derivable=(
            shape == "edge"
            and not volatile
            and not target_rows
            and not cls.edge_values
            and of_class["scalar_messages"]
            and of_class["message_kind"] in ("min", "max")
            and all(f.size is None for f in states.values())
            and _is_one_emission(methods["scatter"])
        ),
        always=cls.always or bool(attributes["gather"] & aggregators.keys()),
        volatile=volatile,
        repeatable=not (volatile or changes_graph or iteration or gather_reads)
        and "gather" not in draws,
        changes_graph=changes_graph,
        reads_value="edge" in vars(cls)
        or isinstance(cls.edge, Mapping)
        or any(_reads_edge_value(m, n, aggregators) for m, n in every_node),
        reads_reverse=any(
            isinstance(n, ast.Attribute) and n.attr == "reverse" for _, n in every_node
        ),
        reads_loop="loop" in anywhere,
        draws=draws,
        adapts="adapt" in methods,
        reads_iteration=next(iter(iteration), None),
        reads_num_vertices=frozenset(r for r in METHODS if "num_vertices" in attributes[r]),
        reads_targets=any(
            _reads_targets(m, root) for root in METHODS for m in reachable(methods, root)
        ),
        reads_target_rows=target_rows,
        scatter_reads_state=bool(attributes["scatter"] & states.keys()),
        gather_reads=gather_reads,
        gather_leaves=_left_unset(methods.get("gather"), changing),
        nonlinear=None
        if algebra is None
        else _nonlinear(cls.__name__, methods, changing, aggregators, nodes),
        compared_with_id=frozenset(x for m in methods.values() for x in _compared_with_id(m)),
        constants=constants,
        **of_class,
    )


def _converged_reads(methods: Mapping[str, Method]) -> frozenset[str]:
    method = methods.get("converged")
    if method is None:
        return frozenset()
    return frozenset(
        n.attr
        for n in method.nodes()
        if isinstance(n, ast.Attribute) and method.reads_argument(n.value, 2)
    )


def _compared_with_id(method: Method) -> Iterable[str]:
    for node in method.nodes():
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            sides = [node.left, *node.comparators]
            if any(method.is_self(side, "id") for side in sides):
                yield from (x.attr for x in sides if method.is_self(x) and x.attr != "id")


def _reads_edge_value(method: Method, node: ast.AST, aggregators: Collection[str]) -> bool:
    """Return whether a node is `x.value`, where x is neither gather's delta nor an aggregator."""
    if not (isinstance(node, ast.Attribute) and node.attr == "value"):
        return False
    if isinstance(node.value, ast.Name):
        return not (method.name == "gather" and method.reads_argument(node.value, 3))
    return not (method.is_self(node.value) and node.value.attr in aggregators)


# How scatter sends. ------------------------------------------------------------------------


def _message_shape(methods: list[Method]) -> str:
    emissions = [shape for m in methods for shape in _emissions(m, m.tree, in_loop=False)]
    if set(emissions) <= {"uniform"}:
        return "uniform"
    return "edge" if emissions == ["edge"] and len(methods) == 1 else "many"


def _emissions(method: Method, node: Any, *, in_loop: bool) -> Iterable[str]:
    """The shape of every emission in a method, in order."""
    for child in ast.iter_child_nodes(node):
        over_targets = isinstance(child, ast.For) and method.is_self(child.iter, "targets")
        shape = target_loop_shape(method, child) if over_targets else None  # type: ignore[arg-type]
        if shape is not None:
            yield "many" if in_loop else shape
        elif method.is_call(child, "emit"):
            yield "many"
        elif method.is_call(child, "emitAll"):
            yield "many" if in_loop else "uniform"
        else:
            loops = isinstance(child, (ast.For, ast.While))
            yield from _emissions(method, child, in_loop=in_loop or loops)


def _is_one_emission(scatter: Method) -> bool:
    """Return whether scatter is one loop with the body `emit(target, x)`; x calls no method."""
    assert scatter.tree is not None
    body = [s for s in scatter.tree.body if not is_docstring(s)]
    if len(body) != 1 or not isinstance(body[0], ast.For) or len(body[0].body) != 1:
        return False
    statement = body[0].body[0]
    if not isinstance(statement, ast.Expr) or not scatter.is_call(statement.value, "emit"):
        return False
    return not any(scatter.is_call(n) for n in ast.walk(statement.value.args[1]))


def _reads_targets(method: Method, root: str) -> bool:
    """Return whether a method uses targets otherwise than to send each its message."""
    sending = {
        id(n.iter)
        for n in method.nodes()
        if isinstance(n, ast.For)
        and len(n.body) == 1
        and method.is_call(getattr(n.body[0], "value", None), "emit")
    }
    return any(
        (method.is_self(n, "targets") and (root != "scatter" or id(n) not in sending))
        or (
            root == "scatter"
            and isinstance(n, ast.Attribute)
            and n.attr in ("id", "reverse")
            and isinstance(n.value, ast.Name)
            and not method.is_self(n)
        )
        for n in method.nodes()
    )


def _constants(states: Mapping[str, StateField], methods: Mapping[str, Method]) -> frozenset[str]:
    """The numbers that no method sets; none where `self` goes anywhere else than before a dot."""
    stored: set[str] = set()
    for method in methods.values():
        before_dot = {id(n.value) for n in method.nodes() if isinstance(n, ast.Attribute)}
        for n in method.nodes():
            if method.is_self(n, "__dict__", "__setattr__"):
                return frozenset()
            if method.is_self(n) and not isinstance(n.ctx, ast.Load):
                stored.add(n.attr)
            elif isinstance(n, ast.Name) and n.id == method.self_name and id(n) not in before_dot:
                return frozenset()
    return frozenset(
        name
        for name, f in states.items()
        if name not in stored and f.size is None and f.dtype != object
    )


# Whether the state after a gather depends on the state before. -----------------------------------


def _left_unset(gather: Method | None, states: Collection[str]) -> str | None:
    if gather is None or gather.tree is None:
        return None
    return min(set(states) - _surely_set(gather, gather.tree.body), default=None)


def _surely_set(method: Method, body: list[ast.stmt]) -> set[str]:
    """The fields that are set whichever way through the statements is taken."""
    names: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.Assign):
            names |= {t.attr for t in statement.targets if method.is_self(t)}
        elif isinstance(statement, ast.If):
            names |= _surely_set(method, statement.body) & _surely_set(method, statement.orelse)
        if any(isinstance(n, ast.Return) for n in ast.walk(statement)):
            break
    return names


def _reads_before_set(method: Method, states: Collection[str]) -> str | None:
    """The first state field that a method reads and has not set, contributions left out."""
    body = method.tree.body if method.tree else []
    for number, statement in enumerate(body):
        reads = _loads(method, statement, states) - _surely_set(method, body[:number])
        if reads:
            return min(reads)
    return None


def _loads(method: Method, node: ast.AST, states: Collection[str]) -> set[str]:
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "contribute"
    ):
        return set()  # what is contributed ends a loop, and changes no state of this iteration
    names: set[str] = set()
    if method.is_self(node) and node.attr in states and isinstance(node.ctx, ast.Load):
        names.add(node.attr)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
        names.add(node.target.attr)
    return names.union(*(_loads(method, child, states) for child in ast.iter_child_nodes(node)))


# Whether gather and scatter only add and scale. -----------------------------------------------


def _nonlinear(
    name: str,
    methods: Mapping[str, Method],
    states: Mapping[str, StateField],
    aggregators: Mapping[str, Algebra],
    nodes: Mapping[str, list[tuple[Method, ast.AST]]],
) -> str | None:
    read = {
        n.value.attr
        for root in ("gather", "scatter")
        for _, n in nodes[root]
        if isinstance(n, ast.Attribute)
        and n.attr != "contribute"
        and isinstance(n.value, ast.Attribute)
        and n.value.attr in aggregators
    }
    for aggregate in sorted(read):
        if aggregators[aggregate].kind != "sum":
            return f"{name} reads {aggregate}, which is not a sum"
    for root in ("gather", "scatter"):
        method, *helpers = reachable(methods, root)
        dependencies = MethodDependencies(method, {*states, *aggregators}, read)
        if method.tree is None or dependencies.nonlinear(method.tree):
            return f"{name}.{root} does more than add and scale"
        if any(dependencies.depends(m.tree) for m in helpers):
            return f"{name}.{root} calls a method that reads state"
    return None


# Whether a program of sums only adds and scales its input, and so has one fixed point.
#
# An iteration of such a program is x -> A·x + b. Where it converges from every start, it
# converges to the same x. A program that compares or rounds what it gathered may have several
# fixed points, and the start decides which one it reaches.

_SENDS = ("emit", "emitAll", "contribute")


class MethodDependencies:
    """The expressions of a method that depend on messages, state or aggregates.

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
        previous = -1
        while len(self.names) > previous:  # a name may depend on one that is assigned further down
            previous = len(self.names)
            for node in method.nodes():
                if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    if self.depends(node.value):
                        self.names |= {
                            n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)
                        } - {method.self_name}

    def depends(self, tree: ast.AST | None) -> bool:
        """Return whether any part of an expression depends on messages, state or aggregates."""
        return any(
            (isinstance(n, ast.Name) and n.id in self.names)
            or (self.method.is_self(n) and n.attr in self.fields)
            for n in ast.walk(tree or ast.Pass())
        )

    def nonlinear(self, node: ast.AST) -> bool:
        """Return whether dependent values are compared, multiplied, or passed to a function."""
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
        """Return whether a node contributes to an aggregate that only `converged` reads."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "contribute"
            and isinstance(node.func.value, ast.Attribute)
            and node.func.value.attr not in self.aggregates_read
        )


def _nonlinear_operator(operator: ast.operator, left: bool, right: bool) -> bool:
    """Return whether an operator is not linear, given which operands depend on the input."""
    if isinstance(operator, ast.Add | ast.Sub):
        return False
    if isinstance(operator, ast.Mult):
        return left and right
    return right or not isinstance(operator, ast.Div)
