"""Methods of a Vertex class as syntax trees, and the forms that analysis and compiler look for."""

from __future__ import annotations

import ast
import inspect
import linecache
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import TypeGuard


@dataclass(frozen=True, slots=True)
class Method:
    """One method: its function, its syntax tree, and its first line in the file.

    `tree` is None where the source cannot be read.
    """

    name: str
    function: FunctionType
    tree: ast.FunctionDef | None
    file: str
    line: int

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the positional arguments, `self` first."""
        code = self.function.__code__
        return code.co_varnames[: code.co_argcount]

    @property
    def self_name(self) -> str:
        """The name that the method gives to `self`."""
        return self.arguments[0] if self.arguments else ""

    def nodes(self) -> Iterator[ast.AST]:
        """All nodes of the method's tree."""
        return ast.walk(self.tree or ast.Pass())

    def is_self(self, node: ast.AST | None, *names: str) -> TypeGuard[ast.Attribute]:
        """Return whether a node is `self.x`, for an x among `names` where some are given."""
        return (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == self.self_name
            and (not names or node.attr in names)
        )

    def is_call(self, node: ast.AST | None, *names: str) -> TypeGuard[ast.Call]:
        """Return whether a node calls one of these methods of `self`."""
        return isinstance(node, ast.Call) and self.is_self(node.func, *names)

    def reads_argument(self, node: ast.AST, index: int) -> bool:
        """Return whether a node is the positional argument number `index` (`self` is 0)."""
        return isinstance(node, ast.Name) and node.id in self.arguments[index : index + 1]


def function_tree(function: FunctionType) -> ast.FunctionDef | None:
    """Return a function's syntax tree, with the line numbers of its file; None without a source."""
    if hasattr(function, "__wrapped__"):
        return None  # the source would be that of the function in it
    try:
        source = inspect.getsource(function)
        block = ast.parse("if True:\n" + source if source[:1].isspace() else "\n" + source)
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):
        return None
    trees = block.body[0].body if block.body and isinstance(block.body[0], ast.If) else block.body
    if not trees or not isinstance(trees[0], ast.FunctionDef):
        return None
    ast.increment_lineno(trees[0], function.__code__.co_firstlineno - 2)
    return trees[0]


def is_docstring(node: ast.stmt) -> bool:
    """Return whether a statement is a constant alone, which does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def file_tree(file: str) -> ast.Module:
    """Return the syntax tree of a file, an empty one where it cannot be read."""
    return _parsed("".join(linecache.getlines(file)))


@lru_cache(maxsize=4)  # a file is looked at several times for each of its classes
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module([], [])


def reachable(methods: Mapping[str, Method], root: str) -> list[Method]:
    """Return the method `root` and the methods of the class that it calls, directly or not."""
    order: list[Method] = []
    todo = [root]
    while todo:
        method = methods.get(todo.pop())
        if method is not None and method not in order:
            order.append(method)
            todo += [n.attr for n in method.nodes() if method.is_self(n)]
    return order


def target_loop_shape(method: Method, loop: ast.For) -> str | None:
    """Tell how a loop over `self.targets` sends.

    Returns:
        None if it sends nothing; "uniform" if its body is one `emit(target, x)` with an x that
        does not read the target; "edge" for any other single `emit` per target; else "many".
    """
    calls = [n for n in ast.walk(loop) if method.is_call(n, "emit", "emitAll")]
    if not calls:
        return None
    call = calls[0]
    if not isinstance(loop.target, ast.Name) or len(calls) != 1 or loop.orelse:
        return "many"
    to_target = (
        len(call.args) == 2
        and isinstance(call.args[0], ast.Name)
        and call.args[0].id == loop.target.id
        and not call.keywords
    )
    inner = [n for n in ast.walk(loop) if n is not loop and isinstance(n, (ast.For, ast.While))]
    if not to_target or any(call in ast.walk(n) for n in inner):
        return "many"
    only_emits = (
        len(loop.body) == 1 and isinstance(loop.body[0], ast.Expr) and loop.body[0].value is call
    )
    reads = any(
        isinstance(n, ast.NamedExpr) or (isinstance(n, ast.Name) and n.id == loop.target.id)
        for n in ast.walk(call.args[1])
    )
    return "uniform" if only_emits and not reads else "edge"


def class_lines(file: str, line: int) -> dict[str, int]:
    """Return the lines on which the class that begins on a line binds its names."""
    lines: dict[str, int] = {}
    for node in ast.walk(file_tree(file)):
        if isinstance(node, ast.ClassDef) and node.lineno == line:
            for part in node.body:
                targets = part.targets if isinstance(part, ast.Assign) else []
                targets = [part.target] if isinstance(part, ast.AnnAssign) else targets
                lines.update({t.id: part.lineno for t in targets if isinstance(t, ast.Name)})
                if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    lines[part.name] = part.lineno
    return lines
