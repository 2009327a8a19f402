"""All that the source of a Vertex class tells about it, read once when the class is defined.

The engine, the compiler and the rules in `analysis` look at these facts and never at a syntax tree.
"""

from __future__ import annotations

import ast
import enum
import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vertexsdk.program.algebra import Algebra
from vertexsdk.program.fields import StateField
from vertexsdk.program.syntax import Method, is_docstring, reachable, target_loop_shape
from vertexsdk.program.vertex import Field, Vertex

METHODS = ("init", "gather", "scatter", "next_round", "adapt")
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
        edge_messages: scatter sends at most one message along each edge, which follows from the
            fields of its source, and from the edge, alone; so does, from the edge and what no
            method sets, whether there is one.
        derivable: a message follows from the state at the last scatter and the edge alone, and is
            not kept.
        float_state: all state fields are float.
        always: every vertex gathers in every iteration.
        rounds: the class has a method `next_round`, for rounds of an outer loop.
        reads_round: `next_round` reads the number of the round.
        volatile: scatter may send something else although the state is the same.
        repeatable: to gather the same aggregate once more changes neither state nor messages.
        changes_graph: a method adds or removes targets.
        reads_value: a method reads the values of edges.
        reads_reverse: a method asks whether an edge is followed against its direction.
        reads_loop: a method reads `self.loop`.
        draws: which methods call `self.random()`.
        adapts: the class has a method `adapt`, for branches.
        reads_iteration: the first of gather and scatter that reads the iteration.
        reads_num_vertices: which methods read `self.num_vertices`.
        reads_targets: a method uses targets otherwise than to send each its message.
        reads_target_rows: a method reads the targets of a target.
        scatter_reads: the fields that messages depend on.
        gather_reads: a state field that gather reads before it sets it.
        gather_leaves: a state field that gather does not set on every path.
        nonlinear: how gather or scatter does more than add and scale; None where neither does.
        aggregates_read: the aggregators that gather and scatter use otherwise than to contribute.
        converged_reads: the aggregates that `converged` reads.
        compared_with_id: what methods compare with `self.id`, of `self`.
        constants: the state fields that are numbers and no method sets, as vertex attributes are.
        not_local: why a changed edge changes more than what is counted along the edges at its ends;
            None where scatter, in iteration 0, adds up integers, each of one edge and the rows of
            its ends, and one iteration is enough.
        counters: the fields to which such a scatter adds.
        unseen: why methods may read or send what these facts do not have, as where `self` is given
            to a function; None where they may not.
    """

    source_missing: str | None = None
    message_kind: str | None = None
    scalar_messages: bool = False
    message_shape: str = "many"
    edge_messages: bool = False
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
    rounds: bool = False  # likewise
    reads_round: bool = True
    draws: frozenset[str] = frozenset(METHODS)
    reads_iteration: str | None = "gather"
    reads_num_vertices: frozenset[str] = frozenset(METHODS)
    reads_targets: bool = True
    reads_target_rows: bool = False  # or the class is refused where it does
    scatter_reads: frozenset[str] = frozenset()
    gather_reads: str | None = None
    gather_leaves: str | None = None
    nonlinear: str | None = None
    aggregates_read: frozenset[str] = frozenset()
    converged_reads: frozenset[str] = frozenset()
    compared_with_id: frozenset[str] = frozenset()
    constants: frozenset[str] = frozenset()
    not_local: str | None = "its source cannot be read"
    counters: frozenset[str] = frozenset()
    unseen: str | None = "its source cannot be read"


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
            rounds="next_round" in methods,
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
    aggregates_read = _aggregates_read([*nodes["gather"], *nodes["scatter"]], aggregators)
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
    unseen = _unseen(cls, methods)
    shape = "many" if changes_graph else _message_shape(reachable(methods, "scatter"))
    gather_reads = next(
        (x for m in reachable(methods, "gather") if (x := _reads_before_set(m, changing))), None
    )
    emission = _one_emission(methods["scatter"], changing) if shape == "edge" else None
    one_message = (
        emission is not None
        and not volatile
        and not target_rows
        and not cls.edge_values
        and of_class["scalar_messages"]
        and all(f.size is None and f.dtype != object for f in states.values())
    )
    not_local, counters = _locality(cls, states, aggregators, methods)
    return Facts(
        message_shape=shape,
        not_local=not_local,
        unseen=unseen,
        counters=counters,
        edge_messages=one_message and not _reads_degree(methods["scatter"]),
        # A round may change all messages at once, which are computed twice where they are derived.
        derivable=one_message
        and emission == "always"
        and of_class["message_kind"] in ("min", "max")
        and "next_round" not in methods,
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
        rounds="next_round" in methods,
        reads_round=any(
            m.name == "next_round" and m.reads_argument(n, 1) for m, n in nodes["next_round"]
        ),
        reads_iteration=next(iter(iteration), None),
        reads_num_vertices=frozenset(r for r in METHODS if "num_vertices" in attributes[r]),
        reads_targets=any(
            _reads_targets(m, root) for root in METHODS for m in reachable(methods, root)
        ),
        reads_target_rows=target_rows,
        scatter_reads=frozenset(attributes["scatter"] & states.keys()),
        gather_reads=gather_reads,
        gather_leaves=_left_unset(methods.get("gather"), changing),
        nonlinear=None
        if algebra is None
        else _nonlinear(cls.__name__, methods, changing, aggregators, aggregates_read),
        aggregates_read=aggregates_read,
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


# What cannot be read off. ------------------------------------------------------------------


_CALLED = {"emit", "emitAll", "random", "edges_to", *GRAPH_CHANGES}
_READ = {"id", "targets", "num_vertices", "loop"}
_CONSTANTS = (
    int, float, str, bytes, tuple, frozenset, type(None), np.generic, np.ndarray, enum.Enum,
    enum.EnumMeta, Field,
)  # fmt: skip
_FAR = {"super", "locals", "globals", "vars", "eval", "exec", "getattr", "setattr", "delattr"}


def _unseen(cls: type[Vertex], methods: Mapping[str, Method]) -> str | None:
    """Return why methods may read more than their nodes tell; None where they may not."""
    for method in {m.name: m for root in METHODS for m in reachable(methods, root)}.values():
        if (reason := _hands_on(method) or _far_reads(cls, methods, method)) is not None:
            return f"{cls.__name__}.{method.name} {reason}"
    return None


def _hands_on(method: Method) -> str | None:
    """Return what a method does with itself beside reading, setting and calling its own."""
    called = {id(n.func) for n in method.nodes() if isinstance(n, ast.Call)}
    for n in method.nodes():
        if isinstance(n, ast.Name) and n.id in _FAR and id(n) in called:
            return f"calls {n.id}"
        if method.is_self(n, *_CALLED) and id(n) not in called:
            return f"uses self.{n.attr} without calling it"
    return f"uses {method.self_name} itself" if _uses_itself(method) else None


def _uses_itself(method: Method) -> bool:
    """Return whether `self` goes anywhere else than before a dot."""
    before_dot = {id(n.value) for n in method.nodes() if isinstance(n, ast.Attribute)}
    return any(
        isinstance(n, ast.Name) and n.id == method.self_name and id(n) not in before_dot
        for n in method.nodes()
    )


def _far_reads(cls: type[Vertex], methods: Mapping[str, Method], method: Method) -> str | None:
    """Return what a method reads by way of the class, or of targets that it gives away."""
    called = {id(n.func) for n in method.nodes() if isinstance(n, ast.Call)}
    over, given, variables = set[int](), set[int](), set[str]()
    for n in method.nodes():
        if isinstance(n, ast.For | ast.comprehension) and method.is_self(n.iter, "targets"):
            over.add(id(n.iter))
            variables |= {n.target.id} if isinstance(n.target, ast.Name) else set()
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "len":
            over |= {id(x) for x in n.args}
        elif method.is_call(n, *_CALLED):
            given |= {id(x) for x in n.args[:1]}
        elif isinstance(n, ast.Attribute):
            given.add(id(n.value))
    for n in method.nodes():
        if isinstance(n, ast.Name) and n.id in variables and isinstance(n.ctx, ast.Load):
            if id(n) not in given:
                return f"uses {n.id}, a target, itself"
        elif method.is_self(n, "targets") and id(n) not in over:
            return "uses self.targets other than in a loop or by len"
        elif method.is_self(n) and n.attr in methods:
            if id(n) not in called:
                return f"uses self.{n.attr} without calling it"
        elif method.is_self(n) and n.attr not in {*_READ, *_CALLED}:
            value = inspect.getattr_static(cls, n.attr, None)
            if not isinstance(value, _CONSTANTS):
                return f"reads self.{n.attr}"
    return None


# How scatter sends. ------------------------------------------------------------------------


def _message_shape(methods: list[Method]) -> str:
    if any(_hands_on(m) for m in methods):
        return "many"
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


def _one_emission(scatter: Method, changing: Collection[str]) -> str | None:
    """Tell when scatter emits along an edge, where it is one loop with one `emit(target, x)`.

    Conditions may stand around it, and before it those of a `continue`.

    Args:
        changing: the state fields that a method sets.

    Returns:
        "always"; "by edge", where it depends on the edge and on what no method sets; or None for
        any other scatter, and where x or a condition calls a method.
    """
    assert scatter.tree is not None
    body = [s for s in scatter.tree.body if not is_docstring(s)]
    if len(body) != 1 or not isinstance(body[0], ast.For) or body[0].orelse:
        return None
    statements, tests = body[0].body, list[ast.expr]()
    while isinstance(statements[0], ast.If):
        first = statements[0]
        rest = statements[1:]
        guards = isinstance(first.body[0], ast.Continue)  # then what follows is sent otherwise
        if first.orelse or guards != bool(rest):
            return None
        tests.append(first.test)
        statements = rest if guards else first.body
    statement = statements[0]
    sends = isinstance(statement, ast.Expr) and scatter.is_call(statement.value, "emit")
    if not sends or len(statements) > 1:
        return None
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    if any(scatter.is_call(n) for n in ast.walk(statement.value.args[1])):
        return None
    if not tests:
        return "always"
    nodes = [n for test in tests for n in ast.walk(test)]
    reads = {n.attr for n in nodes if isinstance(n, ast.Attribute) and scatter.is_self(n)}
    other = any(scatter.is_call(n) or isinstance(n, ast.NamedExpr) for n in nodes)
    return None if other or reads & {"targets", *changing} else "by edge"


def _reads_degree(scatter: Method) -> bool:
    """Return whether scatter uses targets beside its loop over them."""
    loop = {id(n.iter) for n in scatter.nodes() if isinstance(n, ast.For)}
    return any(scatter.is_self(n, "targets") and id(n) not in loop for n in scatter.nodes())


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
        if _uses_itself(method):
            return frozenset()
        for n in method.nodes():
            if method.is_self(n, "__dict__", "__setattr__"):
                return frozenset()
            if method.is_self(n) and not isinstance(n.ctx, ast.Load):
                stored.add(n.attr)
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


# Whether a changed edge changes no more than what is counted at its ends. -----------------------

_NUMBER_CALLS = {"abs", "bool", "float", "int", "len", "max", "min", "range", "round"}
_SAFE = (ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)
_INTEGER_NODES = (
    ast.Name, ast.Constant, ast.Attribute, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp,
    ast.Call, ast.IfExp, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip


class NotLocalError(Exception):
    """A class is not local, for the reason of the message (`Facts.not_local`)."""


def _locality(
    cls: type[Vertex],
    states: Mapping[str, StateField],
    aggregators: Mapping[str, Algebra],
    methods: Mapping[str, Method],
) -> tuple[str | None, frozenset[str]]:
    """Return `Facts.not_local` and `Facts.counters` of a class whose sources can be read."""
    algebra, name = cls.messages, cls.__name__
    sums = algebra is not None and algebra.kind == "sum" and algebra.dtype.kind == "i"
    try:
        _require(sums, "sends no integer sums")
        _require(not aggregators, "has aggregators")
        _require(not cls.edge_values, "keeps edge values")
        other = min(methods.keys() - {"gather", "scatter"}, default=None)
        _require(other is None, f"has a method {other}")
        _require("scatter" in methods, "sends nothing")
        objects = any(f.dtype == object for f in states.values())
        _require(not objects, "has fields that are objects")
        scatter = LocalScatter(methods["scatter"], states)
        counters, scratch = scatter.check()
        once = cls.max_iterations == 1 or not (scatter.first or counters or scratch)
        _require(once, "may need more than one iteration")
        if "gather" in methods:
            LocalGather(methods["gather"], states, counters | scratch).check()
    except NotLocalError as error:
        return f"{name} {error}", frozenset()
    return None, frozenset(counters)


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise NotLocalError(reason)


class LocalGather:
    """Looks whether a gather follows from its message, from counters, and from its own row.

    Args:
        method: the gather.
        states: the class's state fields by name.
        counted: the fields that scatter sets.
    """

    def __init__(self, method: Method, states: Mapping[str, StateField], counted: set[str]) -> None:
        self.method, self.states, self.counted = method, states, counted
        self.variables, self.targets = _variables(method), set[str]()

    def check(self) -> None:
        """Check all of it.

        Raises:
            NotLocalError: it is not such a gather.
        """
        assert self.method.tree is not None
        body = [s for s in self.method.tree.body if not is_docstring(s)]
        self._check_block(body)
        stores = _stores(self.method.tree)
        again = min((name for name in self.targets if stores.count(name) > 1), default=None)
        _require(again is None, f"sets {again} more than once in gather")
        early = _reads_before_set(self.method, set(self.states) - self.counted)
        _require(early is None, f"gathers by self.{early} of before")
        fields = {n.attr for n in self.method.nodes() if self.method.is_self(n) and _is_store(n)}
        unset = min(fields - _surely_set(self.method, body), default=None)
        _require(unset is None, f"does not set self.{unset} in every case")

    def _check_block(self, body: list[ast.stmt]) -> None:
        for s in body:
            if isinstance(s, ast.Assign | ast.AugAssign):
                for target in s.targets if isinstance(s, ast.Assign) else [s.target]:
                    self._check_target(target)
                self._check_expression(s.value)
            elif isinstance(s, ast.If):
                self._check_expression(s.test)
                self._check_block(s.body)
                self._check_block(s.orelse)
            elif isinstance(s, ast.For) and isinstance(s.target, ast.Name) and not s.orelse:
                if self.method.is_self(s.iter, "targets"):
                    self.targets.add(s.target.id)
                else:
                    self._check_expression(s.iter)
                self._check_block(s.body)
            else:
                fine = isinstance(s, ast.Pass | ast.Continue | ast.Break)
                _require(fine, f"gathers by {type(s).__name__.lower()}")

    def _check_target(self, target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            return
        is_field = self.method.is_self(target) and target.attr in self.states
        _require(is_field, "sets more than variables and fields in gather")
        name = target.attr  # type: ignore[attr-defined]
        _require(name not in self.counted, f"sets self.{name} in gather and in scatter")

    def _check_expression(self, node: ast.expr) -> None:
        method = self.method
        calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
        lengths = {id(n.args[0]) for n in calls if n.args and ast.unparse(n.func) == "len"}
        functions = {id(n.func) for n in calls}
        owners = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute)}
        for n in ast.walk(node):
            fine = isinstance(n, (*_INTEGER_NODES, ast.Subscript))
            _require(fine, f"gathers by {type(n).__name__.lower()}")
            if method.is_self(n, "targets"):
                _require(id(n) in lengths, "hands its targets to something in gather")
            elif method.is_self(n):
                known = n.attr == "id" or (
                    n.attr in self.states and self.states[n.attr].size is None
                )
                _require(known, f"reads self.{n.attr} in gather")
            elif isinstance(n, ast.Attribute) and id(n) not in functions:
                owner = n.value.id if isinstance(n.value, ast.Name) else ""
                message = method.reads_argument(n.value, 3) and n.attr == "value"
                of_target = owner in self.targets and n.attr in ("id", "reverse")
                _require(message or of_target, f"reads {ast.unparse(n)} in gather")
            elif isinstance(n, ast.Call):
                pure = not n.keywords and _is_pure(n.func, method)
                _require(pure, f"calls {ast.unparse(n.func)} in gather")
            elif isinstance(n, ast.Name) and id(n) not in functions and id(n) not in owners:
                known = n.id in self.variables - self.targets or _is_constant(n.id, method)
                _require(known, f"reads {n.id} in gather")


_NUMPY_CALLS = {"abs", "ceil", "exp", "floor", "log", "log2", "maximum", "minimum", "sqrt"}


def _is_builtin(name: str, method: Method) -> bool:
    """Return whether a name is one of Python's functions of numbers, and bound to nothing else."""
    code = method.function.__code__
    bound = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    return name in _NUMBER_CALLS - bound - method.function.__globals__.keys()


def _is_pure(function: ast.expr, method: Method) -> bool:
    """Return whether a function of numbers, of the language or of a module, is called."""
    names = method.function.__globals__
    if isinstance(function, ast.Name):
        return _is_builtin(function.id, method)
    if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
        return False
    module = getattr(names.get(function.value.id), "__name__", "")
    return module == "math" or (module == "numpy" and function.attr in _NUMPY_CALLS)


def _is_constant(name: str, method: Method) -> bool:
    """Return whether a name is that of a number of the module."""
    closed = name in method.function.__code__.co_freevars
    return not closed and isinstance(method.function.__globals__.get(name), int | float)


def _variables(method: Method) -> set[str]:
    """Return the names that a method sets.

    Raises:
        NotLocalError: it is decorated, or sets one of its arguments.
    """
    assert method.tree is not None
    _require(not method.tree.decorator_list, f"decorates {method.name}")
    names = set(_stores(method.tree))
    given = next((name for name in method.arguments if name in names), None)
    _require(given is None, f"sets its argument {given}")
    return names


def _is_store(node: ast.AST) -> bool:
    return not isinstance(getattr(node, "ctx", None), ast.Load)


def _stores(tree: ast.AST) -> list[str]:
    """Return the variables that statements set or delete, each time they do."""
    return [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _is_store(n)]


class LocalScatter:
    """Looks whether a scatter adds up what each edge counts by itself.

    Such a scatter sets variables by the vertex's own row, and then goes over its targets; what it
    does for one of them depends on no other one. It adds to fields, and sends to that target.

    Attributes:
        first: it does so in iteration 0 alone; else it sends the same in each.

    Args:
        method: the scatter.
        states: the class's state fields by name.
    """

    def __init__(self, method: Method, states: Mapping[str, StateField]) -> None:
        self.method, self.states, self.target, self.first = method, states, "", False
        self.counters: set[str] = set()
        self.scratch: set[str] = set()  # vectors in which a message is put together
        self.zeroed: dict[str, set[int]] = {}

    def check(self) -> tuple[set[str], set[str]]:
        """Return the fields that it adds to, and those that it leaves as they were.

        Raises:
            NotLocalError: it is not such a scatter.
        """
        assert self.method.tree is not None
        self.variables = _variables(self.method) | {self.method.self_name}
        body = [s for s in self.method.tree.body if not is_docstring(s)]
        self.first = len(body) == 1 and self._is_first_iteration(body[0])
        if self.first:
            body = body[0].body  # type: ignore[attr-defined]
        sends = [n for n, s in enumerate(body) if not self._sets_variable(s)]
        _require(bool(sends), "sends nothing")
        at, loop = sends[0], body[sends[0]]
        if isinstance(loop, ast.Expr) and self.method.is_call(loop.value, "emitAll"):
            alone = at == len(body) - 1 and len(loop.value.args) == 1 and not loop.value.keywords
            _require(alone, "sends in several statements")
            for value in (*(s.value for s in body[:at]), *loop.value.args):  # type: ignore[attr-defined]
                self._check_expression(value)
            return set(), set()
        _require(isinstance(loop, ast.For), "does not scatter in a loop over its targets")
        assert isinstance(loop, ast.For)
        targets = self.method.is_self(loop.iter, "targets") and not loop.orelse
        _require(targets and isinstance(loop.target, ast.Name), "scatters in another loop")
        self.target = loop.target.id  # type: ignore[attr-defined]
        stores = _stores(self.method.tree)
        _require(stores.count(self.target) == 1, f"sets {self.target} more than once")
        for statement in body[:at]:
            self._check_expression(statement.value)  # type: ignore[attr-defined]
        for statement in body[at + 1 :]:
            self._note_zero(statement)
        stored = set(_stores(loop))
        above = {n.id for s in body[:at] for n in ast.walk(s) if isinstance(n, ast.Name)}
        carried = min(stored & above, default=None)
        _require(carried is None, f"carries {carried} from one target to the next")
        self._check_block(loop.body, stored, {self.target}, inner=False)
        for name in self.scratch:
            size = self.states[name].size or 0
            _require(len(self.zeroed.get(name, ())) == size, f"leaves self.{name} as it happens")
        _require(self.first or not self.counters, "adds to fields in every iteration")
        return self.counters, self.scratch

    def _is_first_iteration(self, statement: ast.stmt) -> bool:
        return (
            isinstance(statement, ast.If)
            and not statement.orelse
            and isinstance(statement.test, ast.Compare)
            and self.method.reads_argument(statement.test.left, 1)
            and len(statement.test.ops) == 1
            and isinstance(statement.test.ops[0], ast.Eq)
            and ast.unparse(statement.test.comparators[0]) == "0"
        )

    @staticmethod
    def _sets_variable(statement: ast.stmt) -> bool:
        return isinstance(statement, ast.Assign) and all(
            isinstance(t, ast.Name) for t in statement.targets
        )

    def _element(self, node: ast.AST) -> tuple[str, int] | None:
        """The vector field and the place of `self.field[place]`."""
        if not (isinstance(node, ast.Subscript) and self.method.is_self(node.value)):
            return None
        name, place = node.value.attr, node.slice
        if name not in self.states or self.states[name].size is None:
            return None
        is_place = isinstance(place, ast.Constant) and isinstance(place.value, int)
        return (name, place.value) if is_place else None  # type: ignore[attr-defined]

    def _note_zero(self, statement: ast.stmt) -> None:
        element = None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            element = self._element(statement.targets[0])
        _require(element is not None, "does something after its loop over its targets")
        assert element is not None
        value = ast.unparse(statement.value)  # type: ignore[attr-defined]
        name, place = element
        default = self.states[name].default
        _require(value == repr(default) and place >= 0, f"sets self.{name} after its loop")
        self.zeroed.setdefault(name, set()).add(place)

    def _check_block(
        self, body: list[ast.stmt], stored: set[str], known: set[str], *, inner: bool
    ) -> set[str]:
        """Check statements in order; return the variables that are set after them."""
        for s in body:
            if isinstance(s, ast.Assign) and len(s.targets) == 1:
                self._check_loads(s.value, stored, known)
                known = known | self._check_assignment(s.targets[0])
            elif isinstance(s, ast.AugAssign):
                self._check_loads(s.value, stored, known)
                self._check_addition(s, stored, known)
            elif isinstance(s, ast.If):
                self._check_loads(s.test, stored, known)
                ways = [
                    self._check_block(b, stored, known, inner=inner) for b in (s.body, s.orelse)
                ]
                known = ways[0] & ways[1]
            elif isinstance(s, ast.For) and isinstance(s.target, ast.Name) and not s.orelse:
                self._check_loads(s.iter, stored, known)
                self._check_block(s.body, stored, known | {s.target.id}, inner=True)
            elif isinstance(s, ast.Expr) and self.method.is_call(s.value, "emit"):
                _require(len(s.value.args) == 2 and not s.value.keywords, "sends by keywords")
                to, value = s.value.args
                is_target = isinstance(to, ast.Name) and to.id == self.target
                _require(is_target, "sends to others than the target of its loop")
                if self.method.is_self(value) and value.attr in self.scratch:
                    parts = {f"{value.attr}[{k}]" for k in range(self.states[value.attr].size or 0)}
                    _require(
                        parts <= known, f"carries self.{value.attr} from one target to the next"
                    )
                else:
                    self._check_loads(value, stored, known)
            else:
                fine = isinstance(s, ast.Pass | ast.Continue) or (
                    inner and isinstance(s, ast.Break)
                )
                _require(fine, f"scatters by {type(s).__name__.lower()}")
        return known

    def _check_assignment(self, target: ast.expr) -> set[str]:
        if isinstance(target, ast.Name):
            return {target.id}
        element = self._element(target)
        _require(element is not None, "sets more than variables in its loop over its targets")
        assert element is not None
        self.scratch.add(element[0])
        return {f"{element[0]}[{element[1]}]"}

    def _check_addition(self, s: ast.AugAssign, stored: set[str], known: set[str]) -> None:
        adds = isinstance(s.op, ast.Add | ast.Sub)
        if isinstance(s.target, ast.Name):
            carried = s.target.id in stored - known
            _require(not carried, f"carries {s.target.id} from one target to the next")
            return
        is_field = self.method.is_self(s.target) and s.target.attr in self.states
        _require(is_field and adds, "does more than add to fields in its loop over its targets")
        name = s.target.attr  # type: ignore[union-attr]
        field = self.states[name]
        plain = field.size is None and field.type is int
        _require(plain, f"adds to self.{name}, which is not an integer")
        self.counters.add(name)

    def _check_loads(self, node: ast.expr, stored: set[str], known: set[str]) -> None:
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and n.id in stored - known:
                raise NotLocalError(f"carries {n.id} from one target to the next")
        self._check_expression(node)

    def _check_expression(self, node: ast.expr) -> None:
        """Refuse what does not follow, as an integer, from the rows of an edge's ends."""
        method = self.method
        calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
        lengths = {id(n.args[0]) for n in calls if n.args and ast.unparse(n.func) == "len"}
        functions = {id(n.func) for n in calls}
        for n in ast.walk(node):
            _require(isinstance(n, _INTEGER_NODES), f"scatters by {type(n).__name__.lower()}")
            if method.is_self(n, "targets"):
                _require(id(n) in lengths, "goes over its targets for each of its targets")
            elif method.is_self(n):
                fine = n.attr in ("id", "edges_to")
                _require(fine, f"scatters by self.{n.attr}")
            elif isinstance(n, ast.Attribute):
                row = isinstance(n.value, ast.Name) and n.value.id == self.target
                fine = n.attr in ("id", "reverse") or (n.attr == "targets" and row)
                _require(fine, f"scatters by {ast.unparse(n)}")
            elif isinstance(n, ast.Constant):
                _require(isinstance(n.value, int), "scatters by more than integers")
            elif isinstance(n, ast.Call):
                name = n.func.id if isinstance(n.func, ast.Name) else ""
                plain = name not in ("float", "round") and _is_builtin(name, method)
                _require(plain or method.is_call(n, "edges_to"), "scatters by a call")
            elif isinstance(n, ast.BinOp):
                other = isinstance(n.right, ast.Constant) and n.right.value
                safe = isinstance(n.op, _SAFE) or (
                    isinstance(n.op, ast.FloorDiv | ast.Mod | ast.LShift | ast.RShift)
                    and isinstance(other, int)
                    and other > 0
                )
                _require(safe, "scatters by more than integers")
            elif isinstance(n, ast.Name) and id(n) not in functions:
                _require(n.id in self.variables, f"scatters by {n.id}")


# Whether gather and scatter only add and scale. -----------------------------------------------


def _aggregates_read(
    nodes: Sequence[tuple[Method, ast.AST]], aggregators: Collection[str]
) -> frozenset[str]:
    contributes = {
        id(n.value) for _, n in nodes if isinstance(n, ast.Attribute) and n.attr == "contribute"
    }
    return frozenset(
        n.attr
        for method, n in nodes
        if isinstance(n, ast.Attribute)
        and method.is_self(n)
        and n.attr in aggregators
        and id(n) not in contributes
    )


def _nonlinear(
    name: str,
    methods: Mapping[str, Method],
    states: Mapping[str, StateField],
    aggregators: Mapping[str, Algebra],
    read: Collection[str],
) -> str | None:
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
