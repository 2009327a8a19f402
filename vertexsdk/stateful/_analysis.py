"""From a stateful class to a keyed program, or to the line that keeps it from becoming one.

Each method becomes a list of task elements (`_lowering`, `_cuts`), and each task element gets the
level at which it runs (`_order`).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, Literal, NoReturn

from vertexsdk.compile.element_kernels import element_text
from vertexsdk.errors import InputError, ProgramError, excerpt
from vertexsdk.program.keyed import (
    ABSENT,
    CONVERTERS,
    KINDS,
    ElementText,
    KeyedMethod,
    KeyedProgram,
    Parameter,
    TableSpec,
)
from vertexsdk.program.keyed_state import on_all
from vertexsdk.program.syntax import Method, function_tree
from vertexsdk.stateful._cuts import GIVEN, Cut, Cutting, batch_of
from vertexsdk.stateful._expressions import parents_of
from vertexsdk.stateful._lowering import Lowering
from vertexsdk.stateful._names import Variables
from vertexsdk.stateful._order import ordered
from vertexsdk.stateful._replays import differing_calls, locals_of, mutated_outside, value_of
from vertexsdk.stateful.placement import Placement
from vertexsdk.stateful.stateful import Stateful, kind_of, without_self

# Names of `StatefulLoop`, those of later versions too: as methods they could not be called.
RESERVED = {
    "call", "close", "closed", "explain", "fork", "lookup", "loop", "map", "partitions", "program",
    "progress", "rescale", "resume", "serve", "snapshot", "start", "submit", "version",
}  # fmt: skip
_programs: dict[type, KeyedProgram] = {}  # by class


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


def compiled_program(program: KeyedProgram, compiled: bool | Literal["require"]) -> KeyedProgram:
    """Return a program that runs compiled or not.

    Raises:
        InputError: `compiled` is not True, False or "require".
        ProgramError: it is "require", and a task element does not compile; names the line.
    """
    if compiled not in (True, False, "require"):
        raise InputError(f"compiled is {compiled!r}; it must be True, False or 'require'")
    if compiled == "require":
        for method in program.methods.values():
            for element in method.elements:
                if element.interpreted and program.accesses_row(element):
                    line, _, why = element.interpreted.removeprefix("line ").partition(", ")
                    raise ProgramError(
                        f"{method.file}:{line}: {program.name}.{method.name}: {why}; "
                        'compiled="require" forbids to interpret it'
                    )
    return replace(program, compiled=compiled)


def _analysed(cls: type) -> KeyedProgram:
    elements: dict[str, Placement] = {}
    functions: dict[str, FunctionType] = {}
    for base in reversed(cls.__mro__[: cls.__mro__.index(Stateful)]):
        for name, member in vars(base).items():
            elements.pop(name, None)
            functions.pop(name, None)
            if isinstance(member, Placement):
                elements[name] = member
            elif isinstance(member, FunctionType):
                functions[name] = inspect.unwrap(member)
            elif isinstance(member, list | dict | set | bytearray) and not name.startswith("__"):
                _refuse_mutable(base, name, member)
    if not elements:
        raise ProgramError(
            f"{cls.__name__} has no state element: give it one, as "
            "values = Partitioned(Map(int, float), key='key')"
        )
    analyses = {
        name: _Analysis(cls, name, function, elements)
        for name, function in functions.items()
        if not name.startswith("_") or name == "__init__"
    }
    inner = set[str]().union(*(one.calls for one in analyses.values()))
    called = {
        name: one for name, one in analyses.items() if name not in inner or one.can_be_called()
    }
    parts = {name: one.method() for name, one in called.items()}
    methods = ordered({name: cuts for name, (_, cuts) in parts.items()}, parts_of=parts)
    return KeyedProgram(
        cls.__name__, cls, {name: one.spec for name, one in elements.items()}, methods
    )


def _refuse_mutable(cls: type, name: str, value: object) -> NoReturn:
    kind = type(value).__name__
    line = _line_in_class(cls, name)
    raise ProgramError(
        f"{line}{cls.__name__}.{name}: a {kind} of the class would be state outside of state "
        f"elements: make it a tuple, or {name} = Broadcast(Map(...))"
    )


def _line_in_class(cls: type, name: str) -> str:
    """Return the file and line on which a class binds a name, "" where they are not known."""
    try:
        lines, first = inspect.getsourcelines(cls)
        file = inspect.getsourcefile(cls)
    except (OSError, TypeError):
        return ""
    for k, line in enumerate(lines):
        if line.strip().partition(":")[0].partition("=")[0].strip() == name:
            return f"{file}:{first + k}: "
    return ""


def _own_tree(function: FunctionType) -> ast.FunctionDef | None:
    """Return a method's tree, with the names that private ones (`__x`) have in the class."""
    tree = function_tree(function)
    cls = function.__qualname__.rpartition(".")[0].rpartition(".")[2].lstrip("_")
    for node in ast.walk(tree or ast.Pass()):
        for part, value in ast.iter_fields(node):
            private = isinstance(value, str) and value.startswith("__") and value[-2:] != "__"
            if private and cls and not isinstance(node, ast.Constant):
                setattr(node, part, f"_{cls}{value}")
    return tree


class _Analysis:
    """One method.

    Args:
        cls, name, function: the class, and its method.
        elements: the state elements of the class, by name.

    Attributes:
        calls: the methods of the class that it calls.
    """

    def __init__(
        self, cls: type, name: str, function: FunctionType, elements: dict[str, Placement]
    ) -> None:
        self._cls, self._name, self._function, self._elements = cls, name, function, elements
        self._file, self._line = function.__code__.co_filename, function.__code__.co_firstlineno
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            self._refuse(
                None, "a call is answered when it returns: write def in place of async def"
            )
        tree = _own_tree(function)
        if tree is None:
            self._refuse(None, "its source cannot be read: define the class in a file")
        self._tree: ast.FunctionDef = tree
        self._method = Method(name, function, tree, self._file, self._line)
        self._parents = parents_of(tree)
        self._trees: dict[FunctionType, ast.FunctionDef] = {}  # of the functions of task elements
        self.calls = {
            node.attr for node in ast.walk(tree)
            if self._method.is_self(node) and self._is_function(node.attr)
        }  # fmt: skip

    def _refuse(self, node: ast.AST | None, reason: str) -> NoReturn:
        line = getattr(node, "lineno", self._line)
        raise ProgramError(f"{self._file}:{line}: {self._cls.__name__}.{self._name}: {reason}")

    def _is_function(self, name: str) -> bool:
        return isinstance(inspect.getattr_static(self._cls, name, None), FunctionType)

    def can_be_called(self) -> bool:
        """Whether it can also be called from outside: all of its parameters have a type."""
        parameters = without_self(self._function).parameters.values()
        return all(kind_of(p.annotation) for p in parameters)

    def method(self) -> tuple[KeyedMethod, list[Cut]]:
        """Return the method of the keyed program, and its task elements.

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
        self._check_attributes()
        code = self._function.__code__
        names = code.co_names + code.co_varnames + code.co_cellvars + code.co_freevars
        kinds = {
            p.name: None if p.annotation is p.empty else kind_of(p.annotation) or ""
            for p in without_self(self._function).parameters.values()
        }
        variables = Variables(self._method.self_name, kinds, set(names), self._refuse)
        lowering = Lowering(self._elements, variables, self._is_on_all, self._refuse)
        steps = lowering.steps(self._tree.body)
        cutting = Cutting(
            self._elements, self._method.arguments[1:], self._method.self_name, self._function,
            lowering, self._compiled,
        )  # fmt: skip
        cuts = cutting.run(steps, self._refuse)
        key = cutting.key
        spec = None if key is None else self._elements[cuts[0].table or ""].spec
        parameters = tuple(self._parameters(spec, key))
        for k, cut in enumerate(cuts):
            cut.text, cut.interpreted = self._element_text(cut, parameters, first=not k)
            if cut.words is not None:
                to = self._elements[cuts[cut.words[1]].table or ""].spec
                if k or parameters[cut.words[0]].kind != "str" or to.key != "str":
                    cut.words = None
        if len(cuts) == 1 and cuts[0].table is not None and not cuts[0].whole:
            statements = self._tree.body[ast.get_docstring(self._tree) is not None :]
            element = self._elements[cuts[0].table].element
            cuts[0].batch = batch_of(statements, element, parameters)
        method = KeyedMethod(self._name, parameters, (), key, "", self._file, self._line)
        return method, cuts

    def _element_text(
        self, cut: Cut, parameters: Sequence[Parameter], *, first: bool
    ) -> tuple[ElementText | None, str]:
        """Return a task element for the compiler, or the line that keeps it interpreted."""
        spec = None if cut.table is None else self._elements[cut.table].spec
        if spec is None or not spec.indexed or cut.whole:
            what = "no state" if spec is None else f"more than a row of {spec.name}"
            return None, f"line {cut.line}, it accesses {what}"
        if not cut.last:
            return None, f"line {cut.line}, the call goes on from there"
        set_here = {n.id for n in ast.walk(self._tree)
                    if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}  # fmt: skip
        kinds = {p.name: p.kind for p in parameters if first or p.name not in set_here}
        tree = self._trees.get(cut.body, self._tree)
        own = {a.arg: kinds.get(a.arg) for a in tree.args.args[1:]}
        return element_text(self._method, tree, spec, own, self._cls)

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
        local = locals_of(self._function, self._tree) - {self._method.self_name}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.AsyncFor):
                self._refuse(node, "it must return its answer: use return in place of yield, await")
            if isinstance(node, ast.Global | ast.Nonlocal):
                self._refuse(node, f"{', '.join(node.names)} would be state outside of state "
                             "elements: keep it in a Map")  # fmt: skip
            if isinstance(node, ast.Raise) and self._is_keyboard_interrupt(node.exc):
                self._refuse(node, "a KeyboardInterrupt ends the process: raise another exception")
            if isinstance(node, ast.Name) and node.id == "super":
                self._refuse(node, "it calls super(): write the statements here")
            if isinstance(node, ast.Name) and node.id == self._method.self_name:
                parent = self._parents[node]
                if not (isinstance(parent, ast.Attribute) and parent.value is node):
                    self._refuse(node, "it passes self on: give other functions values instead")
            for name in mutated_outside(self._function, node, local):
                shown = self._shown_root(node) if name == self._method.self_name else name
                if shown:
                    self._refuse(node, f"{shown} would be state outside of state elements: keep it "
                                 "in a Map")  # fmt: skip
        for node, reason in differing_calls(self._function, self._tree):
            self._refuse(node, reason)

    def _check_attributes(self) -> None:
        """Refuse what is not a state element, a constant, or a method without state."""
        found = [n for n in ast.walk(self._tree) if self._method.is_self(n)]
        for node in sorted(found, key=lambda n: (n.lineno, n.col_offset)):
            if node.attr in self._elements:
                continue
            member = inspect.getattr_static(self._cls, node.attr, None)
            if not isinstance(node.ctx, ast.Load):
                self._refuse(node, f"self.{node.attr} would be state outside of state elements: "
                             f"declare {node.attr} = Partitioned(Map(...), key=...)")  # fmt: skip
            if isinstance(member, FunctionType) and self._without_state(member):
                continue
            if isinstance(member, FunctionType | property | classmethod):
                self._refuse(node, f"it uses self.{node.attr}: make that a function of the module, "
                             "or a staticmethod")  # fmt: skip
            if inspect.getattr_static(self._cls, node.attr, ABSENT) is ABSENT:
                self._refuse(node, f"{self._cls.__name__} has no {node.attr}; its state elements "
                             f"are {', '.join(self._elements)}")  # fmt: skip

    def _without_state(self, function: FunctionType) -> bool:
        """Whether a method accesses no state element."""
        function = inspect.unwrap(function)
        tree = _own_tree(function)
        if tree is None:
            return False
        method = Method(function.__name__, function, tree, "", 0)
        own = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == method.self_name]
        used = [n for n in ast.walk(tree) if method.is_self(n)]
        return len(own) == len(used) and not any(
            n.attr in self._elements or self._is_function(n.attr) for n in used
        )

    def _shown_root(self, node: ast.AST) -> str:
        """Return `self.x` where a node changes that, and it is not a state element; else ""."""
        while not self._method.is_self(node):
            node = node.func if isinstance(node, ast.Call) else node.value  # type: ignore[attr-defined]
        set_here = not isinstance(node.ctx, ast.Load)  # which is said below
        return "" if set_here or node.attr in self._elements else ast.unparse(node)

    def _is_keyboard_interrupt(self, node: ast.expr | None) -> bool:
        raised = node.func if isinstance(node, ast.Call) else node
        return raised is not None and value_of(raised, self._function) is KeyboardInterrupt

    def _is_on_all(self, node: ast.AST) -> bool:
        return value_of(node, self._function) is on_all

    def _compiled(
        self, name: str, arguments: Sequence[str], body: Sequence[ast.stmt]
    ) -> FunctionType:
        """Compile statements of the method, with its globals and closure, and lines of its file."""
        function, code = self._function, self._function.__code__
        # Under a name of ours: one of the user's would hide a function that the body calls.
        made = ast.parse(f"def _element({', '.join(arguments)}): pass").body[0]
        assert isinstance(made, ast.FunctionDef)
        made.body = list(body)
        ast.copy_location(made, self._tree)
        free = ", ".join([*code.co_freevars, *GIVEN])
        factory = ast.parse(f"def factory({free}): return _element").body[0]
        assert isinstance(factory, ast.FunctionDef)
        factory.body.insert(0, made)
        for node in ast.walk(made):
            if "lineno" in node._attributes and not getattr(node, "lineno", 0):
                ast.copy_location(node, self._tree)
        module = ast.fix_missing_locations(ast.Module([factory], []))
        names: dict[str, Any] = {}
        exec(compile(module, self._file, "exec"), function.__globals__, names)
        compiled: FunctionType = names["factory"](
            *[c.cell_contents for c in function.__closure__ or ()], *GIVEN.values()
        )
        compiled.__module__, compiled.__name__ = function.__module__, name
        compiled.__code__ = compiled.__code__.replace(co_name=name)
        self._trees[compiled] = made
        return compiled
