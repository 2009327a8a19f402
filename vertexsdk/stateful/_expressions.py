"""Expressions: in which order Python evaluates their parts, and which have no effects."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

CONSUMERS = {"all", "any", "dict", "len", "list", "max", "min", "set", "sorted", "sum", "tuple"}
_PURE = {"abs", "bool", "float", "int", "len", "max", "min", "ord", "round", "str"}
_PURE_METHODS = {"casefold", "lower", "removeprefix", "removesuffix", "strip", "title", "upper"}
_READERS = _PURE | CONSUMERS | {
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
UNDIVIDED = (ast.For, ast.While, ast.Try, ast.TryStar, ast.With, ast.Match)
_CONDITIONAL = (ast.IfExp, ast.BoolOp, ast.If, *UNDIVIDED, *COMPREHENSIONS)
Parents: TypeAlias = dict[ast.AST, ast.AST]


def parents_of(tree: ast.AST) -> Parents:
    """Return the parent of each node of a tree."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def ancestors(node: ast.AST, parents: Parents) -> Iterator[ast.AST]:
    """Yield the nodes around a node, from the inside."""
    while node in parents:
        node = parents[node]
        yield node


def _children(node: ast.AST) -> list[ast.AST]:
    """Return what a node consists of, in the order of its evaluation."""
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        children.sort(key=lambda child: child is not node.value)
    elif isinstance(node, COMPREHENSIONS):
        children.sort(key=lambda child: not isinstance(child, ast.comprehension))
    return children


def in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree in about the order in which Python begins to evaluate them."""
    yield node
    for child in _children(node):
        yield from in_order(child)


def evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree in the order in which Python has evaluated them."""
    children = _children(node)
    if isinstance(node, ast.Lambda):
        children = []
    elif isinstance(node, ast.IfExp):
        children = [node.test, node.body, node.orelse]
    for child in children:
        yield from evaluated(child)
    yield node


def is_pure(key: ast.expr) -> bool:
    """Return whether an expression of the same names has the same value when evaluated again."""
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
    """Return whether a call is known to change none of the objects that it is given."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in _READERS
    return isinstance(function, ast.Attribute) and (
        function.attr in _READING_METHODS
        or (isinstance(function.value, ast.Name) and function.value.id in _READING_MODULES)
    )


def is_consumed(node: ast.AST, parents: Parents) -> bool:
    """Return whether a generator is used up where it is written, as in `sum(x for x in y)`."""
    call = parents.get(node)
    if not (isinstance(node, ast.GeneratorExp) and isinstance(call, ast.Call)):
        return False
    function = call.func
    joined = isinstance(function, ast.Attribute) and function.attr == "join"
    return joined or (isinstance(function, ast.Name) and function.id in CONSUMERS)


def is_conditional(node: ast.AST) -> bool:
    """Return whether parts of a node may not be evaluated, as in a chain of comparisons."""
    return isinstance(node, _CONDITIONAL) or (isinstance(node, ast.Compare) and len(node.ops) > 1)


def is_first(node: ast.AST, outer: ast.AST, parents: Parents) -> bool:
    """Return whether a node is in a comprehension's first iterable, which is evaluated outside."""
    if not isinstance(outer, COMPREHENSIONS):
        return False
    first = outer.generators[0].iter
    return node is first or first in ancestors(node, parents)


def comprehensions_around(node: ast.AST, parents: Parents) -> list[Any]:
    """Return the comprehensions that evaluate a node for each item, from the inside."""
    return [
        x for x in ancestors(node, parents)
        if isinstance(x, COMPREHENSIONS) and not is_first(node, x, parents)
    ]  # fmt: skip


def of_this_loop(statements: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a loop's body, but those that belong to an inner loop or function."""
    for node in statements:
        yield node
        if isinstance(node, DEFERRED):
            continue
        inner = isinstance(node, ast.For | ast.While)
        orelse = node.orelse if isinstance(node, ast.For | ast.While) else []
        for below in of_this_loop([n for n in ast.iter_child_nodes(node) if n not in orelse]):
            if not (inner and isinstance(below, ast.Break | ast.Continue)):
                yield below
        yield from of_this_loop(orelse)


def targets_of(node: ast.AST) -> list[ast.expr]:
    """Return what a statement sets or deletes."""
    if isinstance(node, ast.Assign | ast.Delete):
        return node.targets
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def elements_of(comprehension: Any) -> list[ast.expr]:
    """Return what a comprehension has for each item: a value, or a key and a value."""
    if isinstance(comprehension, ast.DictComp):
        return [comprehension.key, comprehension.value]
    return [comprehension.elt]


def replaced(tree: ast.stmt, old: ast.AST, new: ast.expr) -> ast.stmt:
    """Return a statement with a node in the place of another one; it is changed."""
    for node in ast.walk(tree):
        for part, value in ast.iter_fields(node):
            if value is old:
                setattr(node, part, ast.copy_location(new, old))
            elif isinstance(value, list) and any(v is old for v in value):
                setattr(node, part, [new if v is old else v for v in value])
    return ast.fix_missing_locations(tree)
