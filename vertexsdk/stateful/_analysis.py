"""From a stateful class to a keyed program, or to the line that keeps it from becoming one.

A method accesses one state element, by one key: a parameter, or the variable of a loop that is the
whole method. So a call goes to one row, or to a row for each item, and nothing of it is elsewhere.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any, NoReturn

from vertexsdk.errors import InputError, ProgramError, excerpt
from vertexsdk.program.keyed import (
    ABSENT,
    CONVERTERS,
    KINDS,
    KeyedMethod,
    KeyedProgram,
    Parameter,
    TableSpec,
)
from vertexsdk.program.syntax import Method, function_tree, is_docstring
from vertexsdk.stateful.elements import Partitioned
from vertexsdk.stateful.stateful import Stateful, kind_of, without_self

# Names of `StatefulLoop`, those of later versions too: as methods they could not be called.
RESERVED = {
    "call", "close", "closed", "explain", "fork", "lookup", "loop", "map", "partitions", "program",
    "progress", "rescale", "resume", "serve", "snapshot", "start", "submit", "version",
}  # fmt: skip
_programs: dict[type, KeyedProgram] = {}  # by class
_READS, _WRITES = {"get"}, {"pop", "setdefault"}
_NAMED = (
    ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.alias,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef,
)  # fmt: skip
_DEFERRED = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.GeneratorExp, ast.ClassDef)


def program_of(cls: type) -> KeyedProgram:
    """Return the keyed program of a stateful class.

    Raises:
        InputError: it is not a subclass of `Stateful`.
        ProgramError: it cannot run as written; names the line.
    """
    if not (isinstance(cls, type) and issubclass(cls, Stateful) and cls is not Stateful):
        raise InputError(f"{excerpt(cls)} is not a stateful class: give a subclass of Stateful")
    if cls not in _programs:
        _programs[cls] = _analysed(cls)
    return _programs[cls]


def _analysed(cls: type) -> KeyedProgram:
    elements: dict[str, Partitioned] = {}
    functions: dict[str, FunctionType] = {}
    for base in reversed(cls.__mro__[: cls.__mro__.index(Stateful)]):
        for name, member in vars(base).items():
            elements.pop(name, None)
            functions.pop(name, None)
            if isinstance(member, Partitioned):
                elements[name] = member
            elif isinstance(member, FunctionType):
                functions[name] = inspect.unwrap(member)
    if not elements:
        raise ProgramError(
            f"{cls.__name__} has no state element: give it one, as "
            "values = Partitioned(Map(int, float), key='key')"
        )
    methods = {
        name: _Analysis(cls, name, function, elements).method()
        for name, function in functions.items()
        if not name.startswith("_") or name == "__init__"
    }
    return KeyedProgram(
        cls.__name__, cls, {name: one.spec for name, one in elements.items()}, methods
    )


class _Analysis:
    """One method.

    Args:
        cls, name, function: the class, and its method.
        elements: the state elements of the class, by name.
    """

    def __init__(
        self, cls: type, name: str, function: FunctionType, elements: dict[str, Partitioned]
    ) -> None:
        self._cls, self._name, self._function, self._elements = cls, name, function, elements
        self._file, self._line = function.__code__.co_filename, function.__code__.co_firstlineno
        tree = function_tree(function)
        if tree is None:
            self._refuse(None, "its source cannot be read: define the class in a file")
        self._tree: ast.FunctionDef = tree
        self._method = Method(name, function, tree, self._file, self._line)
        self._parents = {c: p for p in ast.walk(tree) for c in ast.iter_child_nodes(p)}

    def _refuse(self, node: ast.AST | None, reason: str) -> NoReturn:
        line = getattr(node, "lineno", self._line)
        raise ProgramError(f"{self._file}:{line}: {self._cls.__name__}.{self._name}: {reason}")

    def method(self) -> KeyedMethod:
        """Return the method of the keyed program.

        Raises:
            ProgramError: it cannot run as written; names the line.
        """
        if self._name == "__init__":
            self._refuse(None, "state begins empty: leave out __init__, and keep state in elements")
        if self._name in RESERVED:
            self._refuse(None, f"StatefulLoop has a {self._name} of its own: rename the method")
        if self._tree.decorator_list:
            self._refuse(self._tree.decorator_list[0], "a method has no decorators: remove it")
        self._check_statements()
        accesses = list(self._accesses())
        tables = {node.attr for node in accesses}
        if len(tables) > 1:
            other = next(node for node in accesses if node.attr != accesses[0].attr)
            self._refuse(
                other,
                f"it accesses {accesses[0].attr} and {other.attr}: access one state element in a "
                "method, and call one method after the other",
            )
        if not accesses:
            return self._made(None, None, self._function, None, writes=False)
        table = accesses[0].attr
        element = self._elements[table]
        writes = [self._check_access(node, element) for node in accesses]
        spec, key = element.spec, element.key
        if key in self._method.arguments[1:]:
            for node in self._bindings(self._tree, key):
                self._refuse(node, f"it changes {key}, by which {table} is partitioned: use "
                             "another variable")  # fmt: skip
            return self._made(spec, key, self._function, None, writes=any(writes))
        loop = self._loop(key, accesses)
        return self._made(spec, key, self._body(loop), self._items(loop), writes=any(writes))

    def _made(
        self, spec: TableSpec | None, key: str | None, body: Any, items: Any, *, writes: bool
    ) -> KeyedMethod:
        return KeyedMethod(
            self._name, tuple(self._parameters(spec, key)), None if spec is None else spec.name,
            key, items, body, self._live(body), writes, self._file, self._line,
        )  # fmt: skip

    def _live(self, body: FunctionType) -> frozenset[str]:
        """Return the parameters whose names the statements of a body have."""
        if body is self._function:
            return frozenset(self._method.arguments)
        inside = {
            n.id for loop in self._tree.body if isinstance(loop, ast.For)
            for part in loop.body for n in ast.walk(part) if isinstance(n, ast.Name)
        }  # fmt: skip
        return frozenset(inside & set(self._method.arguments))

    def _parameters(self, spec: TableSpec | None, key: str | None) -> Iterator[Parameter]:
        for parameter in without_self(self._function).parameters.values():
            name, kind = parameter.name, kind_of(parameter.annotation)
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                self._refuse(None, f"parameter {name}: write it without *, ** or /")
            if spec is not None and name == key:
                if parameter.annotation is not parameter.empty and kind != spec.key:
                    self._refuse(None, f"the keys of {spec.name} are {spec.key}: annotate the "
                                 f"parameter as {name}: {spec.key}")  # fmt: skip
                kind = spec.key
            if kind is None:
                self._refuse(None, f"parameter {name}: annotate it as {', '.join(KINDS)}")
            default = ABSENT
            if parameter.default is not parameter.empty:
                try:
                    default = CONVERTERS[kind](parameter.default)
                except InputError as error:
                    self._refuse(None, f"parameter {name}: {error}")
            yield Parameter(name, kind, default)

    def _check_statements(self) -> None:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.AsyncFor):
                self._refuse(node, "it must return its answer: use return in place of yield, await")
            if isinstance(node, ast.Global | ast.Nonlocal):
                self._refuse(node, f"{', '.join(node.names)} would be state outside of state "
                             "elements: keep it in a Map")  # fmt: skip
            if isinstance(node, ast.Name) and node.id == "super":
                self._refuse(node, "it calls super(): write the statements here")
            if isinstance(node, ast.Name) and node.id == self._method.self_name:
                parent = self._parents[node]
                if not (isinstance(parent, ast.Attribute) and parent.value is node):
                    self._refuse(node, "it passes self on: give other functions values instead")

    def _accesses(self) -> Iterator[ast.Attribute]:
        """Where the method accesses a state element, in the order of lines."""
        found = [n for n in ast.walk(self._tree) if self._method.is_self(n)]
        for node in sorted(found, key=_place):
            if node.attr in self._elements:
                yield node
                continue
            member = inspect.getattr_static(self._cls, node.attr, None)
            if not isinstance(node.ctx, ast.Load):
                self._refuse(node, f"self.{node.attr} would be state outside of state elements: "
                             f"declare {node.attr} = Partitioned(Map(...), key=...)")  # fmt: skip
            if isinstance(member, FunctionType | property | classmethod):
                self._refuse(node, f"it uses self.{node.attr}: make that a function of the module, "
                             "or a staticmethod")  # fmt: skip
            if inspect.getattr_static(self._cls, node.attr, ABSENT) is ABSENT:
                self._refuse(node, f"{self._cls.__name__} has no {node.attr}; its state elements "
                             f"are {', '.join(self._elements)}")  # fmt: skip

    def _check_access(self, node: ast.Attribute, element: Partitioned) -> bool:
        """Return whether an access may write; refuse one that is not to the row of the key."""
        name, key = node.attr, element.key
        above = self._ancestors(node)
        use = self._use(node, above)
        if use is None:
            self._refuse(
                node, f"self.{name} is accessed by its key alone: self.{name}[{key}], get, pop, "
                "setdefault, in, del"
            )  # fmt: skip
        used, writes, returns_row = use
        if returns_row and not element.element.single:  # of which fields may be set later
            outer = above[1]
            writes |= not (
                isinstance(outer, ast.Attribute)
                and isinstance(outer.ctx, ast.Load)
                and outer.attr in element.element.fields
            )
        if not (isinstance(used, ast.Name) and used.id == key):
            self._refuse(
                node, f"{name} is partitioned by {key}: access self.{name}[{key}], with {key} as a "
                "parameter or as the variable of the loop that is the whole method"
            )  # fmt: skip
        if any(isinstance(outer, _DEFERRED) and outer is not self._tree for outer in above):
            self._refuse(node, f"a function, lambda or generator reads {name} when the call may be "
                         "over: read it first")  # fmt: skip
        return writes

    def _use(
        self, node: ast.Attribute, above: list[ast.AST]
    ) -> tuple[ast.expr | None, bool, bool] | None:
        """Return the key of an access, whether it writes, and whether it may return a row."""
        parent = above[0]
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return parent.slice, not isinstance(parent.ctx, ast.Load), True
        if isinstance(parent, ast.Compare) and parent.comparators == [node]:
            if isinstance(parent.ops[0], ast.In | ast.NotIn):
                return parent.left, False, False
        call = above[1] if len(above) > 1 else None
        if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
            if parent.attr in _READS | _WRITES:
                used = call.args[0] if call.args else None
                return used, parent.attr in _WRITES, True
        return None

    def _ancestors(self, node: ast.AST) -> list[ast.AST]:
        above = []
        while node in self._parents:
            node = self._parents[node]
            above.append(node)
        return above

    def _bindings(self, within: ast.AST, name: str) -> Iterator[ast.AST]:
        """Where a name gets another value."""
        own = {id(arg) for arg in ast.walk(self._tree.args)}
        for node in ast.walk(within):
            if isinstance(node, ast.Name):
                if node.id == name and not isinstance(node.ctx, ast.Load):
                    yield node
            elif isinstance(node, ast.arg):
                if node.arg == name and id(node) not in own:
                    yield node
            elif isinstance(node, ast.MatchMapping):
                if node.rest == name:
                    yield node
            elif isinstance(node, _NAMED) and node is not self._tree:
                bound = getattr(node, "asname", None) or getattr(node, "name", None)
                if bound == name:
                    yield node

    def _loop(self, key: str, accesses: Sequence[ast.Attribute]) -> ast.For:
        """Return the loop that is the whole method, with `key` as its variable."""
        table = accesses[0].attr
        loops = [
            outer for outer in self._ancestors(accesses[0])
            if isinstance(outer, ast.For)
            and isinstance(outer.target, ast.Name)
            and outer.target.id == key
        ]  # fmt: skip
        if not loops:
            self._refuse(
                accesses[0], f"it has no parameter or loop variable {key}, by which {table} is "
                f"partitioned: call it {key} here too"
            )  # fmt: skip
        loop = loops[0]
        statements = [node for node in self._tree.body if not is_docstring(node)]
        if statements != [loop] or loop.orelse:
            self._refuse(
                loop, f"the loop that accesses {table} has to be the whole method, without an else:"
                " move the rest to a method of its own"
            )  # fmt: skip
        inside = {id(node) for part in loop.body for node in ast.walk(part)}
        for node in accesses:
            if id(node) not in inside:
                self._refuse(node, f"what a loop over rows of {table} runs over cannot read state: "
                             "pass it as an argument")  # fmt: skip
        read = {n.id for x in loop.body for n in ast.walk(x) if isinstance(n, ast.Name)}
        for walrus in ast.walk(loop.iter):
            if isinstance(walrus, ast.NamedExpr) and walrus.target.id in read:
                self._refuse(walrus, f"items do not see {walrus.target.id}: pass it as an argument")
        for part in loop.body:
            for binding in self._bindings(part, key):
                self._refuse(binding, f"it changes {key}, by which {table} is partitioned: use "
                             "another variable")  # fmt: skip
        for inner in _of_this_loop(loop.body):
            if isinstance(inner, ast.Break | ast.Return):
                self._refuse(inner, "all items of the loop go to their rows at once: it cannot end "
                             "early")  # fmt: skip
        stored = {
            node.id for part in loop.body for node in ast.walk(part)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }  # fmt: skip
        for name in stored & set(self._method.arguments):
            self._refuse(loop, f"an item would see what another one has set {name} to: use another "
                         "variable")  # fmt: skip
        self._check_variables(loop.body, stored, set())
        return loop

    def _check_variables(
        self, statements: Iterable[ast.stmt], names: set[str], bound: set[str]
    ) -> set[str]:
        """Refuse a variable that may have its value from the item before; return those bound."""
        for node in statements:
            if isinstance(node, ast.If):
                self._check_names(node.test, names, bound)
                branches = [
                    self._check_variables(x, names, set(bound)) for x in (node.body, node.orelse)
                ]
                bound = bound | (branches[0] & branches[1])
            elif isinstance(node, ast.For):
                self._check_names(node.iter, names, bound)
                inner = bound | {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
                self._check_variables(node.body, names, inner)
                self._check_variables(node.orelse, names, bound)  # where it runs over nothing
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                self._check_names(node.value, names, bound)
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    self._check_names(target, names, bound)
                    parts = [n for n in ast.walk(target) if isinstance(n, ast.Name)]
                    bound = bound | {n.id for n in parts if isinstance(n.ctx, ast.Store)}
            else:
                self._check_names(node, names, bound)
        return bound

    def _check_names(self, within: ast.AST, names: set[str], bound: set[str]) -> None:
        local = {
            n.id for c in ast.walk(within) if isinstance(c, ast.comprehension)
            for n in ast.walk(c.target) if isinstance(n, ast.Name)
        }  # fmt: skip
        for node in ast.walk(within):
            used: ast.AST = node.target if isinstance(node, ast.AugAssign) else node
            read = isinstance(used, ast.Name) and (
                used is not node or isinstance(used.ctx, ast.Load)
            )
            if isinstance(used, ast.Name) and read and used.id in names - bound - local:
                self._refuse(
                    used, f"an item may see the {used.id} of the item before: set it first for "
                    "every item"
                )  # fmt: skip

    def _items(self, loop: ast.For) -> FunctionType:
        returned = ast.copy_location(ast.Return(loop.iter), loop)
        return self._compiled("items", self._method.arguments, [returned])

    def _body(self, loop: ast.For) -> FunctionType:
        assert isinstance(loop.target, ast.Name)
        names = [*self._method.arguments, loop.target.id]
        body = [_Continue().visit(node) for node in _copied(loop.body)]
        return self._compiled(self._name, names, body)

    def _compiled(
        self, name: str, arguments: Sequence[str], body: Sequence[ast.stmt]
    ) -> FunctionType:
        """Compile statements of the method, with its globals and closure, and lines of its file."""
        function, code = self._function, self._function.__code__
        made = ast.parse(f"def {name}({', '.join(arguments)}): pass").body[0]
        assert isinstance(made, ast.FunctionDef)
        made.body = list(body)
        factory = ast.parse(f"def factory({', '.join(code.co_freevars)}): return {name}").body[0]
        assert isinstance(factory, ast.FunctionDef)
        factory.body.insert(0, made)
        module = ast.fix_missing_locations(ast.Module([factory], []))
        names: dict[str, Any] = {}
        exec(compile(module, self._file, "exec"), function.__globals__, names)
        compiled: FunctionType = names["factory"](
            *[c.cell_contents for c in function.__closure__ or ()]
        )
        compiled.__module__ = function.__module__
        return compiled


class _Continue(ast.NodeTransformer):
    """`continue` of the loop whose body becomes a function."""

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        """Return from the function."""
        return ast.copy_location(ast.Return(None), node)

    def visit_For(self, node: ast.For | ast.While) -> ast.AST:
        """Leave an inner loop as it is, but its else."""
        node.orelse = [self.visit(statement) for statement in node.orelse]
        return node

    visit_While = visit_For


def _place(node: ast.Attribute) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _copied(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    return copy.deepcopy(list(statements))


def _of_this_loop(statements: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The statements of a loop's body, but those that belong to an inner loop or function."""
    for node in statements:
        yield node
        if isinstance(node, _DEFERRED):
            continue
        inner = isinstance(node, ast.For | ast.While)
        orelse = node.orelse if isinstance(node, ast.For | ast.While) else []
        for below in _of_this_loop([n for n in ast.iter_child_nodes(node) if n not in orelse]):
            if not (inner and isinstance(below, ast.Break)):
                yield below
        yield from _of_this_loop(orelse)
