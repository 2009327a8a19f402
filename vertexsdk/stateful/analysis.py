"""From a stateful class to a keyed program, or to the line that keeps it from becoming one.

Each method becomes a list of task elements (`_lowering`, `_cuts`), and each task element gets the
level at which it runs.
"""

from __future__ import annotations

import ast
import datetime
import inspect
import random
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np

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
    TaskElement,
)
from vertexsdk.program.keyed_state import on_all
from vertexsdk.program.syntax import Method, function_tree
from vertexsdk.stateful._cuts import GIVEN, Cut, Cutting, batch_of
from vertexsdk.stateful._expressions import parents_of
from vertexsdk.stateful._lowering import Lowering
from vertexsdk.stateful._names import Variables, mutated_here, stores
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
        """Return whether it can also be called from outside: all of its parameters have a type."""
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
            return None, f"line {cut.line}, the call continues from there"
        set_here = {n.id for n in ast.walk(self._tree)
                    if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}  # fmt: skip
        kinds = {p.name: p.kind for p in parameters if first or p.name not in set_here}
        tree = self._trees.get(cut.body, self._tree)
        argument_kinds = {a.arg: kinds.get(a.arg) for a in tree.args.args[1:]}
        return element_text(self._method, tree, spec, argument_kinds, self._cls)

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
        attributes = [n for n in ast.walk(self._tree) if self._method.is_self(n)]
        for node in sorted(attributes, key=lambda n: (n.lineno, n.col_offset)):
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
        """Return whether a method accesses no state element."""
        function = inspect.unwrap(function)
        tree = _own_tree(function)
        if tree is None:
            return False
        method = Method(function.__name__, function, tree, "", 0)
        selves = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == method.self_name]
        used = [n for n in ast.walk(tree) if method.is_self(n)]
        return len(selves) == len(used) and not any(
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


# The level at which each task element runs, so that a block of calls has the results that the
# calls would have one after another.
#
# Where all methods come to the state elements in one order, each of these has one level: all
# calls of a block run on it before any of them continues. A method that comes to one twice, or in
# another order than those before it in the class, runs its calls one at a time.

_Place: TypeAlias = "str | tuple[str, int]"  # a state element, or a task element without one


def ordered(
    methods: Mapping[str, list[Cut]], *, parts_of: Mapping[str, tuple[KeyedMethod, list[Cut]]]
) -> dict[str, KeyedMethod]:
    """Return the methods with their task elements.

    Args:
        methods: the cuts of each method, in the order in which a call comes to them.
        parts_of: the methods without task elements.
    """
    after: dict[_Place, set[_Place]] = {}
    serial: dict[str, str] = {}
    first: dict[tuple[str, str], str] = {}  # which method comes from one to the other
    for name, cuts in methods.items():
        places = _places(name, cuts)
        reason = _conflict(name, cuts, places, after, first)
        if reason:
            serial[name] = reason
            continue
        for one, other in zip(places, places[1:], strict=False):
            after.setdefault(one, set()).add(other)
        tables = [(k, c.table) for k, c in enumerate(cuts) if c.table]
        for i, (_, one) in enumerate(tables):
            for _, other in tables[i + 1 :]:
                first.setdefault((one, other), name)
    levels = _levels(after)
    made = {}
    for name, cuts in methods.items():
        method = parts_of[name][0]
        places = _places(name, cuts)
        numbers = list(range(len(cuts))) if name in serial else [levels.get(p, 0) for p in places]
        made[name] = replace(
            method,
            elements=tuple(
                TaskElement(
                    c.table, c.send, c.body, level, c.writes, _alone(cuts, k), c.last, c.item,
                    c.whole, c.line, c.text, c.interpreted, c.words, c.batch,
                )
                for k, (c, level) in enumerate(zip(cuts, numbers, strict=True))
            ),
            serial=f"{Path(method.file).name}:{serial[name]}" if name in serial else "",
        )  # fmt: skip
    return made


def _places(name: str, cuts: list[Cut]) -> list[_Place]:
    return [c.table or (name, k) for k, c in enumerate(cuts)]


def _conflict(
    name: str, cuts: list[Cut], places: list[_Place], after: dict[_Place, set[_Place]],
    first: dict[tuple[str, str], str],
) -> str:  # fmt: skip
    """Return the line that breaks the order, and how; "" where none does."""
    seen: list[str] = []
    for c in cuts:
        if c.table is None:
            continue
        if c.table in seen:
            other = "another state element" if seen[-1] != c.table else "another key"
            return f"{c.line}: {name} accesses {c.table} again, after {other}"
        for earlier in seen:
            if earlier in _reachable(c.table, after):
                by = first.get((c.table, earlier), "")
                return (
                    f"{c.line}: {name} accesses {c.table} after {earlier}"
                    + (f", and {by} the other way round" if by else "")
                )  # fmt: skip
        seen.append(c.table)
    return ""


def _reachable(place: _Place, after: dict[_Place, set[_Place]]) -> set[_Place]:
    reached: set[_Place] = set()
    todo = [place]
    while todo:
        for following in after.get(todo.pop(), ()):
            if following not in reached:
                reached.add(following)
                todo.append(following)
    return reached


def _levels(after: dict[_Place, set[_Place]]) -> dict[_Place, int]:
    """Return the longest way to each place."""
    levels: dict[_Place, int] = {}
    places = set(after).union(*after.values())
    predecessors = {place: {one for one in after if place in after[one]} for place in places}

    def level(place: _Place) -> int:
        if place not in levels:
            levels[place] = max((level(one) + 1 for one in predecessors[place]), default=0)
        return levels[place]

    for place in places:
        level(place)
    return levels


def _alone(cuts: list[Cut], k: int) -> bool:
    """Return whether a call that raises in a task element has changed nothing elsewhere."""
    writes = [c.writes for c in cuts]
    if not any(writes):
        return True
    return not (any(writes[:k]) or cuts[k].item or cuts[k].send == "all")


_OWN = str(Path(__file__).parents[1])

_TIMES = {"now", "today", "utcnow"}
_DIFFERENT = {"secrets", "time", "uuid", "numpy.random", "random"}
_SEEDED = {"uuid3", "uuid5", "UUID"}
_SLEEP = {"sleep", "strftime", "strptime", "gmtime", "mktime"}  # of a time that is given
_MACHINE = {
    "asyncio", "builtins.input", "builtins.open", "ftplib", "http", "multiprocessing", "os",
    "pathlib", "requests", "shutil", "smtplib", "socket", "subprocess", "tempfile", "threading",
    "urllib.request", "urllib3",
}  # fmt: skip
_NAMES = {"_io": "builtins", "io": "builtins", "posix": "os", "nt": "os", "_socket": "socket"}


def value_of(node: ast.AST, function: FunctionType) -> Any:
    """Return what a name or attribute within a function is, `ABSENT` where that is not known."""
    if isinstance(node, ast.Attribute):
        return getattr(value_of(node.value, function), node.attr, ABSENT)
    code = function.__code__
    if not isinstance(node, ast.Name) or node.id in code.co_varnames + code.co_cellvars:
        return ABSENT
    names = inspect.getclosurevars(function)
    for known in (names.nonlocals, names.globals, names.builtins):
        if node.id in known:
            return known[node.id]
    return function.__globals__.get(node.id, ABSENT)


def differing_calls(
    function: FunctionType, tree: ast.AST, seen: frozenset[Any] = frozenset()
) -> Iterator[tuple[ast.AST, str]]:
    """Yield the calls that a method may not make, also by functions of the user's, and why.

    Args:
        function, tree: the method.
        seen: functions that were looked at.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        passed = [
            ast.Call(given, [], []) for given in (*node.args, *(k.value for k in node.keywords))
        ]
        for call in (node, *passed):  # map(hash, words) calls it too
            called = value_of(call.func, function)
            reason = _reason(call, called)
            if reason:
                yield node, reason
            elif isinstance(called, FunctionType) and called not in seen and _is_users(called):
                inner = function_tree(called)
                for why in _differing(called, inner, seen | {called}) if inner else ():
                    yield node, f"{ast.unparse(call.func)}() is not for methods: {why}"


def locals_of(function: FunctionType, tree: ast.AST) -> set[str]:
    """The variables of a function and of those in it, but those that are objects of the module."""
    code = function.__code__
    names = {*code.co_varnames, *code.co_cellvars} | {
        n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)
    } | stores(n for n in ast.walk(tree) if isinstance(n, ast.Assign | ast.For))  # fmt: skip
    declared = {n for node in ast.walk(tree) if isinstance(node, ast.Global) for n in node.names}
    return names - declared - {
        target.id for node in ast.walk(tree) if isinstance(node, ast.Assign)
        for target in node.targets if isinstance(target, ast.Name)
        and isinstance(value_of(node.value, function), list | dict | set | bytearray)
    }  # fmt: skip


def mutated_outside(function: FunctionType, node: ast.AST, local: set[str]) -> set[str]:
    """The name of the object that a node changes, where it is not a variable of the function."""
    called = isinstance(node, ast.Call)  # np.add(a, b) changes nothing
    return {
        name for name in mutated_here(node) - local
        if not (called and isinstance(value_of(ast.Name(name), function), ModuleType))
    }  # fmt: skip


def _differing(function: FunctionType, tree: ast.AST, seen: frozenset[Any]) -> Iterator[str]:
    """Yield why methods may not call a function of the user's."""
    local = locals_of(function, tree)
    for node in ast.walk(tree):
        declared = set(node.names) if isinstance(node, ast.Global | ast.Nonlocal) else set[str]()
        for name in sorted((declared - local) | mutated_outside(function, node, local)):
            yield f"{name} would be state outside of state elements: keep it in a Map"
    for _, why in differing_calls(function, tree, seen):
        yield why


def _is_users(function: FunctionType) -> bool:
    """Return whether a function is neither of a library nor of Python."""
    file = function.__code__.co_filename
    return not any(part in file for part in ("site-packages", sysconfig.get_path("stdlib"), _OWN))


def _reason(call: ast.Call, function: Any) -> str:
    """Return why a method may not make a call, "" where it may."""
    shown = ast.unparse(call.func)
    name, module = getattr(function, "__name__", ""), _module_of(function)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, datetime.date):
        differs = name in _TIMES
    elif isinstance(owner, random.Random):
        differs = owner is getattr(random, "_inst", None)
    elif function in (random.Random, np.random.default_rng, np.random.RandomState):
        differs = not call.args and not call.keywords  # with a seed it is the same again
    else:
        differs = _is_of(module, name, _DIFFERENT) and name not in _SEEDED | _SLEEP
        differs = differs or (module == "os" and name in ("urandom", "getrandom"))
    if differs:
        return f"{shown}() differs in a replay: pass it as an argument"
    if function in (hash, id):
        return (
            f"{shown}() differs in another process: use zlib.crc32(text.encode()), or a key itself"
        )
    if _is_of(module, name, _MACHINE):
        return (
            f"{shown}() runs on another machine, and again in a replay: pass what it reads as an "
            "argument, and write what a call answers"
        )
    return ""


def _module_of(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, ModuleType):
        module = owner.__name__
    else:
        module = getattr(function, "__module__", None) or ""
    return _NAMES.get(module, module)


def _is_of(module: str, name: str, modules: set[str]) -> bool:
    return bool(module) and (
        f"{module}.{name}" in modules
        or any(module == one or module.startswith(f"{one}.") for one in modules)
    )
