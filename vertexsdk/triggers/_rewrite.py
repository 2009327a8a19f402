"""Actions in fewer steps: `self.words[word].count += 1` is one call in place of five.

The statements that become calls are

    self.table[key].column += amount      self.table[key].column -= amount
    self.table[key].column = value        self.accumulator[key][column] = value
    self.accumulator[key].discard(column) del self.accumulator[key][column]

Their operands are evaluated in the same order. Columns that a loop reads of the row are read once,
before it. A function without its source, or with another one, stays as it is.
"""

from __future__ import annotations
import __future__

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from vertexsdk.program.syntax import function_tree, is_docstring
from vertexsdk.program.trigger_program import direct_method

_FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


@dataclass(frozen=True)
class Names:
    """The names that the statements of a class of triggers may use.

    Attributes:
        columns: the columns of each table whose rows may be on other processors.
        ints: the columns among them that hold ints.
        accumulators: the accumulators of the class.
    """

    columns: Mapping[str, Collection[str]]
    ints: Mapping[str, Collection[str]]
    accumulators: Collection[str]


def rewritten(
    function: FunctionType, names: Names, row_columns: Collection[str] = ()
) -> FunctionType:
    """Return an action whose writes are calls of the methods that `direct_method` names.

    Args:
        function: a method of a class of triggers.
        names: the names of the class.
        row_columns: the columns of the row that the action gets, without families; none for an
            accumulator.

    Returns:
        Another function, or the same one.
    """
    tree = function_tree(function)
    if tree is None or hasattr(function, "__wrapped__"):
        return function
    tree.decorator_list = []
    code = _compiled(tree, function)
    if code is None or not _same(code, function.__code__):
        return function  # the file was changed, or the class has private names
    arguments = [one.arg for one in (*tree.args.posonlyargs, *tree.args.args)]
    if len(arguments) < 3:
        return function  # it has *args
    own_name, *rows = arguments
    if own_name in _set_names(tree):
        return function
    rewriter = _Rewriter(own_name, names)
    tree.body = [rewriter.visit(statement) for statement in tree.body]
    reads = _Reads(tree, rows[:2], row_columns) if row_columns else None
    if reads is not None:
        tree.body = reads.once(tree.body)
    changed = rewriter.count or (reads is not None and reads.columns)
    code = _compiled(ast.fix_missing_locations(tree), function) if changed else None
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    result = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    result.__kwdefaults__ = function.__kwdefaults__
    result.__qualname__, result.__module__ = function.__qualname__, function.__module__
    return result


def _set_names(tree: ast.AST) -> set[str]:
    """Return the variables that statements set or delete."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names |= set() if isinstance(node.ctx, ast.Load) else {node.id}
        elif node is not tree:  # `except E as name`, `case {**name}`, `import x as name`, ...
            fields = {name: value for name, value in ast.iter_fields(node) if name in _BINDS}
            names |= {value for value in fields.values() if isinstance(value, str)}
    return names


_BINDS = ("name", "asname", "rest")


def _compiled(tree: ast.FunctionDef, function: FunctionType) -> CodeType | None:
    """Return the code of a function definition, with the variables around it that it uses."""
    free = [ast.arg(name) for name in function.__code__.co_freevars]
    outer = ast.parse("def outer(): pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.args.args, outer.body = free, [tree]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    file, flags = function.__code__.co_filename, function.__code__.co_flags & _FUTURES
    try:
        code: CodeType = compile(module, file, "exec", flags, dont_inherit=True)
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
        name: the object's name, "self".
        names: the names of its class.

    Attributes:
        count: how many statements were rewritten.
    """

    def __init__(self, name: str, names: Names) -> None:
        self._name, self._names, self.count = name, names, 0

    def _skip(self, node: Any) -> Any:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _skip

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """Rewrite an addition to a column."""
        kind = {ast.Add: "add", ast.Sub: "subtract"}.get(type(node.op))
        row = self._row_of(node.target, self._names.ints)
        if kind is None or row is None:
            return node
        table, key, column = row
        return self._call(node, kind, table, column, [key, node.value])

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        """Rewrite the setting of a column, or of a cell of an accumulator."""
        if len(node.targets) != 1:
            return node
        row = self._row_of(node.targets[0], self._names.columns)
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
        row = self._item_of(call.func.value, self._names.accumulators)
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
        row = self._item_of(node.value, self._names.accumulators)
        return None if row is None else (*row, node.slice)

    def _call(
        self, node: ast.stmt, kind: str, table: str, column: str, operands: list[ast.expr]
    ) -> ast.stmt:
        self.count += 1
        instance = ast.Name(self._name, ast.Load())
        method = ast.Attribute(instance, direct_method(kind, table, column), ast.Load())
        statement = ast.Expr(ast.Call(method, operands, []))
        for one in (instance, method, statement.value, statement):
            ast.copy_location(one, node)
        return statement


class _Reads(ast.NodeTransformer):
    """Reads the columns of a row once that loops read again and again.

    Args:
        tree: the action's tree.
        rows: the names of the row and of the old row.
        columns: those that can be read at any time, with the same result.

    Attributes:
        columns: those that are read once, with the name of the row of each.
    """

    def __init__(
        self, tree: ast.FunctionDef, rows: Sequence[str], columns: Collection[str]
    ) -> None:
        self._names, self.columns = set(rows) - _set_names(tree), dict[tuple[str, str], None]()
        attributes = [
            node for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        ]  # fmt: skip
        known = {id(node.value) for node in attributes}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and id(node) not in known and node.id == rows[0]:
                self._names.discard(node.id)  # what is called may set its columns
            elif isinstance(node, ast.arg) and node not in tree.args.args:
                self._names.discard(node.arg)  # of a function within this one
        stored = {n.attr for n in attributes if not isinstance(n.ctx, ast.Load)}
        for loop in ast.walk(tree):
            if isinstance(loop, _LOOPS):
                for node in _again(loop):
                    name = _row_column(node)
                    if name is not None and name[0] in self._names and name[1] in columns:
                        if name[1] not in stored:
                            self.columns[name] = None

    def once(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of the action, with those before them that read the columns."""
        if not self.columns:
            return body
        begin = 1 if is_docstring(body[0]) else 0
        reads: list[ast.stmt] = []
        for row, column in self.columns:
            value = ast.Attribute(ast.Name(row, ast.Load()), column, ast.Load())
            read = ast.Assign([ast.Name(f"{row}.{column}", ast.Store())], value)
            for node in ast.walk(read):
                if isinstance(node, ast.expr | ast.stmt):
                    ast.copy_location(node, body[begin])
            reads.append(read)
        return [*body[:begin], *reads, *(self.visit(one) for one in body[begin:])]

    def _skip(self, node: Any) -> Any:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _skip

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Have the variable in place of the column."""
        name = _row_column(node)
        if name in self.columns:
            return ast.copy_location(ast.Name(".".join(name), ast.Load()), node)
        self.generic_visit(node)
        return node


_LOOPS = (
    ast.For, ast.While, ast.comprehension, ast.ListComp, ast.SetComp, ast.GeneratorExp,
    ast.DictComp,
)  # fmt: skip


def _again(loop: ast.AST) -> list[ast.AST]:
    """Return what is evaluated again in each turn of a loop."""
    if isinstance(loop, ast.For):
        parts: list[ast.AST] = [*loop.body]
    elif isinstance(loop, ast.While):
        parts = [loop.test, *loop.body]
    elif isinstance(loop, ast.DictComp):
        parts = [loop.key, loop.value]
    else:
        parts = [*loop.ifs] if isinstance(loop, ast.comprehension) else [loop.elt]  # type: ignore[attr-defined]
    return [node for part in parts for node in ast.walk(part)]


def _row_column(node: ast.AST) -> tuple[str, str] | None:
    """Return the name of the variable and of its attribute that is read; None for anything else."""
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and isinstance(node.ctx, ast.Load)
    ):
        return node.value.id, node.attr
    return None
