"""How a method uses state elements: which one, by which key, and whether it may write."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from vertexsdk.stateful.elements import Array, Broadcast, Map, Matrix, StateElement, Value

_READS, _WRITES = {"get"}, {"pop", "setdefault"}
_ALL_READS = {"column", "get", "items", "keys", "multiply", "row", "values"}
_ALL_WRITES = {"clear", "pop", "setdefault"}
_CONSUMERS = {"all", "any", "dict", "len", "list", "max", "min", "set", "sorted", "sum", "tuple"}
_PURE = {"abs", "bool", "float", "int", "len", "max", "min", "ord", "round", "str"}
_PURE_METHODS = {"casefold", "lower", "removeprefix", "removesuffix", "strip", "title", "upper"}
_READERS = _PURE | _CONSUMERS | {
    "bytes", "divmod", "enumerate", "frozenset", "gather_all", "hash", "isinstance", "on_all",
    "pow", "range", "repr", "reversed", "zip",
}  # fmt: skip
_READING_METHODS = _PURE_METHODS | {
    "copy", "count", "encode", "endswith", "find", "format", "get", "index", "isalpha", "isdigit",
    "items", "join", "keys", "lstrip", "partition", "replace", "rpartition", "rstrip", "split",
    "splitlines", "startswith", "values", "zfill",
}  # fmt: skip
_READING_MODULES = {"hashlib", "json", "math", "operator", "re", "statistics", "zlib"}
DEFERRED = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.GeneratorExp, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Parents: TypeAlias = dict[ast.AST, ast.AST]


class Access(NamedTuple):
    """One access to a state element.

    Attributes:
        node: `self.x`.
        table: its name.
        key: what its row is found by; None where any row of the partition may be accessed.
        writes: it may change the row.
        row: it may return a row of named fields.
        whole: the expression with its key, which is replaced where it is read beforehand.
    """

    node: ast.Attribute
    table: str
    key: ast.expr | None
    writes: bool
    row: bool
    whole: ast.AST


class NotByKey(Exception):
    """A use of a state element that is not one of its key's row; says how to use it."""


def parents_of(tree: ast.AST) -> Parents:
    """Return the parent of each node of a tree."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree in about the order in which Python evaluates them."""
    yield node
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        children.sort(key=lambda child: child is not node.value)
    elif isinstance(node, COMPREHENSIONS):
        children.sort(key=lambda child: not isinstance(child, ast.comprehension))
    for child in children:
        yield from in_order(child)


def is_pure(key: ast.expr) -> bool:
    """Whether an expression has the same value when it is evaluated again, of the same names."""
    for node in ast.walk(key):
        if isinstance(node, ast.Call):
            function = node.func
            named = isinstance(function, ast.Name) and function.id in _PURE
            method = isinstance(function, ast.Attribute) and function.attr in _PURE_METHODS
            if not (named or method):
                return False
        elif isinstance(node, (ast.NamedExpr, ast.Await, ast.Lambda, *COMPREHENSIONS)):
            return False
    return True


def only_reads(call: ast.Call) -> bool:
    """Whether a call is known to change none of the objects that it is given."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in _READERS
    return isinstance(function, ast.Attribute) and (
        function.attr in _READING_METHODS
        or (isinstance(function.value, ast.Name) and function.value.id in _READING_MODULES)
    )


def access(node: ast.Attribute, declared: StateElement, parents: Parents) -> Access:
    """Return what a use of a state element is.

    Args:
        node: `self.x`.
        declared: the state element of that name.
        parents: of the nodes around it.

    Raises:
        NotByKey: it is not a use of the row of one key.
    """
    element = declared.element
    if declared.where == "key":
        found = _by_key(node, element, parents)
    else:
        found = _anywhere(node, element, parents)
        if isinstance(declared, Broadcast) or found.key is not None:
            found = found._replace(key=None)
    outer = parents.get(found.whole)
    if found.row:  # of which fields may be set later
        reads = isinstance(outer, ast.Attribute) and isinstance(outer.ctx, ast.Load)
        reads = reads and outer.attr in element.fields  # type: ignore[union-attr]
        found = found._replace(writes=found.writes or not reads)
        if isinstance(outer, ast.Attribute):
            found = found._replace(whole=outer)
    return found


def _by_key(node: ast.Attribute, element: Any, parents: Parents) -> Access:
    parent = parents[node]
    call = parents.get(parent)
    called = (
        isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent
    )
    row = isinstance(element, Map) and not element.single

    def found(key: ast.expr | None, writes: bool, whole: ast.AST, row: bool = False) -> Access:
        return Access(node, node.attr, key, writes, row, whole)

    if isinstance(element, Value):
        if isinstance(parent, ast.Attribute) and parent.attr == "value":
            writes = not isinstance(parent.ctx, ast.Load)
            return found(ast.copy_location(ast.Constant(0), node), writes, parent)
        raise NotByKey(f"self.{node.attr}.value")
    within: ast.expr | None = None
    if isinstance(parent, ast.Subscript) and parent.value is node:
        within, writes, whole = parent.slice, not isinstance(parent.ctx, ast.Load), parent
        if isinstance(element, Matrix):
            within = _major(element, within)
        if within is not None:
            return found(within, writes, whole, row)
    if isinstance(parent, ast.Compare) and parent.comparators == [node]:
        if isinstance(parent.ops[0], ast.In | ast.NotIn) and not isinstance(element, Array):
            within = parent.left
            if isinstance(element, Matrix):
                within = _major(element, within)
            if within is not None:
                return found(within, False, parent)
    if called and isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.args:
        if isinstance(element, Matrix):
            across = "row" if element.by_column else "column"
            if parent.attr == across:
                raise NotByKey("by row and by column")
            if parent.attr in ("row", "column", "clear"):
                return found(call.args[0], parent.attr == "clear", call)
        elif isinstance(element, Map) and parent.attr in _READS | _WRITES:
            return found(call.args[0], parent.attr in _WRITES, call, row)
    name = node.attr
    if isinstance(element, Matrix):
        way = "column" if element.by_column else "row"
        raise NotByKey(f"self.{name}[row, column], {way}, clear, in, del")
    if isinstance(element, Array):
        raise NotByKey(f"self.{name}[place]")
    raise NotByKey(f"self.{name}[key], get, pop, setdefault, in, del")


def _major(element: Matrix, within: ast.expr) -> ast.expr | None:
    if isinstance(within, ast.Tuple) and len(within.elts) == 2:
        return within.elts[1 if element.by_column else 0]
    return None


def _anywhere(node: ast.Attribute, element: Any, parents: Parents) -> Access:
    """A use of a state element of which all rows are on the partition."""
    parent = parents[node]
    call = parents.get(parent)
    row = isinstance(element, Map) and not element.single
    writes, whole, returns_row = False, parent, False
    if isinstance(parent, ast.Subscript) and parent.value is node:
        writes, returns_row = not isinstance(parent.ctx, ast.Load), row
    elif isinstance(parent, ast.Attribute) and isinstance(element, Value):
        writes = not isinstance(parent.ctx, ast.Load)
    elif isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
        if parent.attr not in _ALL_READS | _ALL_WRITES:
            raise NotByKey(f"self.{node.attr}[...], {', '.join(sorted(_ALL_READS | _ALL_WRITES))}")
        writes, whole = parent.attr in _ALL_WRITES, call
        returns_row = row and parent.attr in {"get", "setdefault"}
    elif not (
        isinstance(parent, ast.Compare | ast.For | ast.comprehension)
        or (
            isinstance(parent, ast.Call)
            and isinstance(parent.func, ast.Name)
            and parent.func.id in _CONSUMERS
        )
    ):
        raise NotByKey(f"self.{node.attr}[...], {', '.join(sorted(_ALL_READS | _ALL_WRITES))}")
    if isinstance(parent, ast.For | ast.comprehension):
        whole = node
    return Access(node, node.attr, None, writes, returns_row, whole)


def is_consumed(node: ast.AST, parents: Parents) -> bool:
    """Whether a generator is used up where it is written, as in `sum(x for x in y)`."""
    call = parents.get(node)
    if not (isinstance(node, ast.GeneratorExp) and isinstance(call, ast.Call)):
        return False
    function = call.func
    joined = isinstance(function, ast.Attribute) and function.attr == "join"
    return joined or (isinstance(function, ast.Name) and function.id in _CONSUMERS)
