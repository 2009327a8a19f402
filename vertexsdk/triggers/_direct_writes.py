"""Actions whose writes are calls: `self.words[word].count += 1` takes one step in place of five.

The statements that are rewritten, and nothing else, are

    self.table[key].column += amount      self.table[key].column -= amount
    self.table[key].column = value        self.accumulator[key][column] = value
    self.accumulator[key].discard(column) del self.accumulator[key][column]

Their operands are evaluated in the same order. A function without its source, or with another one,
stays as it is.
"""

from __future__ import annotations

import __future__

import ast
from collections.abc import Collection, Mapping
from types import CodeType, FunctionType
from typing import Any

from vertexsdk.program.syntax import function_tree
from vertexsdk.program.trigger_program import direct_method

_FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def with_direct_writes(
    function: FunctionType, columns: Mapping[str, Collection[str]],
    numbers: Mapping[str, Collection[str]], accumulators: Collection[str],
) -> FunctionType:  # fmt: skip
    """Return an action whose writes are calls of the methods that `direct_method` names.

    Args:
        function: a method of a class of triggers.
        columns: those of each table whose rows may be on other processors.
        numbers: of them, those of ints.
        accumulators: the names of those of the class.

    Returns:
        Another function, or the same one.
    """
    tree = function_tree(function)
    if tree is None or hasattr(function, "__wrapped__"):
        return function
    tree.decorator_list = []
    own = _compiled(tree, function)
    if own is None or not _same(own, function.__code__):
        return function  # the file was changed, or the class has private names
    name = tree.args.args[0].arg
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
            return function
    rewriter = _Rewriter(name, columns, numbers, accumulators)
    tree.body = [rewriter.visit(statement) for statement in tree.body]
    code = _compiled(ast.fix_missing_locations(tree), function) if rewriter.count else None
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    rewritten = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    rewritten.__qualname__, rewritten.__module__ = function.__qualname__, function.__module__
    return rewritten


def _compiled(tree: ast.FunctionDef, function: FunctionType) -> CodeType | None:
    """Return the code of a function definition, with the variables around it that it uses."""
    free = [ast.arg(name) for name in function.__code__.co_freevars]
    outer = ast.parse("def outer(): pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.args.args, outer.body = free, [tree]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    try:
        flags = function.__code__.co_flags & _FUTURES
        code = compile(module, function.__code__.co_filename, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    for _ in range(2):
        code = next(c for c in code.co_consts if isinstance(c, CodeType))
    return code


def _same(one: CodeType, other: CodeType) -> bool:
    """Return whether two codes do the same."""
    parts = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount")
    if any(getattr(one, part) != getattr(other, part) for part in parts):
        return False
    pairs = list(zip(one.co_consts, other.co_consts, strict=False))
    return len(one.co_consts) == len(other.co_consts) and all(
        _same(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType)
        else type(a) is type(b) and repr(a) == repr(b)
        for a, b in pairs
    )  # fmt: skip


class _Rewriter(ast.NodeTransformer):
    """Makes calls of the writes of an action.

    Args:
        name: of the object, "self".
        columns, numbers, accumulators: as for `with_direct_writes`.

    Attributes:
        count: how many statements were rewritten.
    """

    def __init__(
        self, name: str, columns: Mapping[str, Collection[str]],
        numbers: Mapping[str, Collection[str]], accumulators: Collection[str],
    ) -> None:  # fmt: skip
        self._name, self._columns, self._numbers = name, columns, numbers
        self._accumulators, self.count = accumulators, 0

    def _skip(self, node: Any) -> Any:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _skip

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """Rewrite an addition to a column."""
        kind = {ast.Add: "add", ast.Sub: "subtract"}.get(type(node.op))
        row = self._row_of(node.target, self._numbers)
        if kind is None or row is None:
            return node
        table, key, column = row
        return self._call(node, kind, table, column, [key, node.value])

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        """Rewrite the setting of a column, or of a cell of an accumulator."""
        if len(node.targets) != 1:
            return node
        row = self._row_of(node.targets[0], self._columns)
        if row is not None:
            table, key, column = row
            return self._call(node, "set", table, column, [node.value, key])
        cell = self._cell_of(node.targets[0])
        if cell is not None:
            table, key, place = cell
            return self._call(node, "put", table, "", [node.value, key, place])
        return node

    def visit_Delete(self, node: ast.Delete) -> ast.stmt:
        """Rewrite the deletion of a cell of an accumulator."""
        cell = self._cell_of(node.targets[0]) if len(node.targets) == 1 else None
        if cell is None:
            return node
        table, key, place = cell
        return self._call(node, "discard", table, "", [key, place])

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        """Rewrite a call of `discard`."""
        call = node.value
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Attribute)
            or call.func.attr != "discard"
            or len(call.args) != 1
            or isinstance(call.args[0], ast.Starred)
            or call.keywords
        ):
            return node
        row = self._item_of(call.func.value, self._accumulators)
        if row is None:
            return node
        table, key = row
        return self._call(node, "discard", table, "", [key, call.args[0]])

    def _item_of(self, node: ast.expr, names: Collection[str]) -> tuple[str, ast.expr] | None:
        """Return the name and the key of `self.name[key]`; None for anything else."""
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Attribute)
            and isinstance(node.value.value, ast.Name)
            and node.value.value.id == self._name
            and node.value.attr in names
            and not isinstance(node.slice, ast.Slice)
        ):
            return node.value.attr, node.slice
        return None

    def _row_of(
        self, node: ast.expr, columns: Mapping[str, Collection[str]]
    ) -> tuple[str, ast.expr, str] | None:
        """Return the table, the key and the column of `self.table[key].column`."""
        row = self._item_of(node.value, columns) if isinstance(node, ast.Attribute) else None
        if row is None or not isinstance(node, ast.Attribute) or node.attr not in columns[row[0]]:
            return None
        return *row, node.attr

    def _cell_of(self, node: ast.expr) -> tuple[str, ast.expr, ast.expr] | None:
        """Return the accumulator, the key and the column of `self.accumulator[key][column]`."""
        if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Slice):
            return None
        row = self._item_of(node.value, self._accumulators)
        return None if row is None else (*row, node.slice)

    def _call(
        self, node: ast.stmt, kind: str, table: str, column: str, operands: list[ast.expr]
    ) -> ast.stmt:
        self.count += 1
        own = ast.Name(self._name, ast.Load())
        method = ast.Attribute(own, direct_method(kind, table, column), ast.Load())
        statement = ast.Expr(ast.Call(method, operands, []))
        for one in (own, method, statement.value, statement):
            ast.copy_location(one, node)
        return statement
