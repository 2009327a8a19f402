"""A user's methods rewritten as functions over a partition's arrays.

`self.rank` becomes `S_rank[i]`, a loop over `self.targets` becomes a loop over the row of
vertex i, `self.emit(target, x)` becomes a call of the delivery kernels. Nothing else of the
method is touched, so what Numba compiles is what the user wrote.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, EnumType, IntEnum
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vertexsdk.compile._arithmetic import CompiledArithmetic, containers, literal_int
from vertexsdk.program.algebra import INT_MIN, Algebra, VertexId, wrapped
from vertexsdk.program.program import ClassSpec, declaration_line
from vertexsdk.program.syntax import Method, function_tree, is_docstring, target_loop_shape


class CannotCompile(Exception):
    """Why a program runs interpreted: the reason, with file and line."""

    def __init__(self, method: Method, node: ast.AST | None, reason: str) -> None:
        line = getattr(node, "lineno", method.line)
        super().__init__(f"{method.file}:{line}: {method.name}: {reason}")

    @classmethod
    def in_class(cls, spec: ClassSpec, reason: str, field: str = "") -> CannotCompile:
        """The reason lies in a declaration, not in a method."""
        line = declaration_line(spec, field) if field else spec.line
        error = cls.__new__(cls)
        Exception.__init__(error, f"{spec.file}:{line}: {spec.name}: {reason}")
        return error


# File, method, and for each line of generated text the line of the file that it comes from.
Place = tuple[str, str, tuple[int, ...]]


@dataclass
class Rewritten:
    """One method as source text, and which engine services it calls."""

    name: str
    head: str  # its own arguments
    body: str  # with a mark ARGS_name where the arrays are passed on to another method
    place: Place
    logs: bool = False
    message: tuple[str, str] | None = None  # derived shape: (edge, expression)


@dataclass
class Globals:
    """Module-level names which the methods read, as lines of the generated module."""

    lines: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    params: frozenset[str] = frozenset()  # that compile
    loops: list[str] = field(default_factory=list)  # with which `self.loop` is compared

    def bind(self, method: Method, node: ast.AST, name: str, value: Any) -> None:
        """Make `value` available to the generated code as U_`name`, or say why that cannot be."""
        name = user_name(name)
        if name in self.values:
            if self.values[name] is not value and self.values[name] != value:
                raise CannotCompile(method, node, f"{name[2:]} means two things in two modules")
            return
        self.values[name] = value
        value = _plain(value)
        value = getattr(value, "py_func", value)  # of a function that Numba compiles
        if isinstance(value, ModuleType):
            if value.__name__.split(".")[0] not in ("math", "numpy"):
                raise CannotCompile(
                    method, node,
                    f"the module {value.__name__} does not compile; of modules only math and "
                    "numpy do",
                )  # fmt: skip
            self.lines[name] = f"import {value.__name__} as {name}"
        elif isinstance(value, (bool, int, str)) and not isinstance(value, VertexId):
            value = wrapped(value)
            text = f"np.int64({value})" if value == INT_MIN else repr(value)
            self.lines[name] = f"{name} = {text}"
        elif isinstance(value, float):
            self.lines[name] = f"{name} = float({str(value)!r})"
        elif isinstance(value, np.generic) and value.dtype.kind in "ifb":
            self.lines[name] = f"{name} = np.{value.dtype}({str(value)!r})"
        elif isinstance(value, tuple) and all(isinstance(v, (int, float)) for v in value):
            items = "".join(f"float({str(v)!r}), " if isinstance(v, float) else f"{v!r}, "
                            for v in map(_plain, value))  # fmt: skip
            self.lines[name] = f"{name} = ({items})"
        elif isinstance(value, np.ndarray) and value.dtype.kind in "ifb" and value.size <= 4096:
            data = value.tobytes().hex()
            self.lines[name] = (
                f"{name} = np.frombuffer(bytes.fromhex('{data}'), '{value.dtype}')"
                f".reshape({value.shape!r})"
            )
        elif isinstance(value, FunctionType):
            self._function(method, node, name, value)
        elif getattr(value, "__module__", "") in ("math", "numpy") or isinstance(value, np.ufunc):
            self.lines[name] = (
                f"from {value.__module__ or 'numpy'} import {value.__name__} as {name}"
            )
        else:
            kind = "an array of more than 4,096 numbers"
            if not isinstance(value, np.ndarray):
                kind = f"a {type(value).__name__}"
            if isinstance(value, EnumType):
                raise CannotCompile(
                    method, node,
                    f"of {name[2:]} only its members compile, as {name[2:]}.NAME, if it is an "
                    "IntEnum of the module",
                )  # fmt: skip
            closed = name[2:] in method.function.__code__.co_freevars
            raise CannotCompile(
                method, node,
                f"{'a closure over ' if closed else ''}{name[2:]}, which is {kind}: make it a "
                f"parameter, {name[2:]} = param(), with a number, or a tuple or array of numbers",
            )  # fmt: skip

    def _function(self, method: Method, node: ast.AST, name: str, function: FunctionType) -> None:
        tree = function_tree(function)
        if tree is None:
            raise CannotCompile(
                method, node,
                f"the source of {name[2:]} cannot be read: define it in a file or a notebook",
            )  # fmt: skip
        if function.__closure__:
            over = ", ".join(function.__code__.co_freevars)
            raise CannotCompile(
                method, node,
                f"{name[2:]} is a closure over {over}: pass {over} as an argument, or make it a "
                "parameter",
            )  # fmt: skip
        if function.__name__ in {g for g, _ in free_names(tree)}:
            raise CannotCompile(
                method, node, f"{function.__name__} calls itself: write it as a loop"
            )
        inner = Method(name, function, tree, function.__code__.co_filename, method.line)
        _inline_members(inner, tree)
        for global_name, at in free_names(tree):
            self.bind(inner, at, global_name, lookup(inner, at, global_name))
        names = {g for g, _ in free_names(tree)}
        arithmetic = CompiledArithmetic()
        arithmetic.resolve = lambda name: function.__globals__.get(name)
        arithmetic.containers = containers(tree)
        tree.body = [arithmetic.visit(s) for s in tree.body]
        _rename(tree, names)
        tree.name = name
        tree.decorator_list = []
        _drop_annotations(tree)
        text = ast.unparse(tree)
        module = ast.Module(body=[tree], type_ignores=[])
        code = function.__code__
        self.places[name] = (code.co_filename, function.__name__, _lines(module, text)[1:])
        self.functions[name] = "@_jit\n" + text

    def text(self) -> str:
        """The lines, functions last."""
        return "\n".join([*self.lines.values(), *self.functions.values()])


def free_names(tree: ast.FunctionDef) -> list[tuple[str, ast.AST]]:
    """Names which a function loads and does not bind itself, builtins excluded."""
    bound = {a.arg for a in [*tree.args.args, *tree.args.kwonlyargs, *tree.args.posonlyargs]}
    bound |= {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    }
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n is not tree}
    body = ast.Module(body=tree.body, type_ignores=[])
    return [
        (n.id, n)
        for n in ast.walk(body)
        if isinstance(n, ast.Name)
        and isinstance(n.ctx, ast.Load)
        and n.id not in bound
        and not hasattr(builtins, n.id)
    ]


def _plain(value: Any) -> Any:
    """Return the number or text that an IntEnum's or StrEnum's member is."""
    return value.value if isinstance(value, Enum) and isinstance(value, (int, str)) else value


class _Members(ast.NodeTransformer):
    """Replaces members of IntEnums, such as `Kind.FRIEND`, by their numbers."""

    def __init__(self, method: Method, names: set[str]) -> None:
        self.method, self.names = method, names

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Compare with a member by == where it is by `is`, as numbers are."""
        same = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}
        sides = [self.visit(x) for x in (node.left, *node.comparators)]
        for k, op in enumerate(node.ops):
            if type(op) in same and any(literal_int(x) is not None for x in sides[k : k + 2]):
                node.ops[k] = same[type(op)]()
        node.left, *node.comparators = sides
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "value" and literal_int(node.value) is not None:
            return node.value  # of a member
        if not isinstance(node.value, ast.Name) or node.value.id not in self.names:
            return node
        kind = lookup(self.method, node, node.value.id)
        member = None
        if isinstance(kind, EnumType) and issubclass(kind, IntEnum):
            member = kind.__members__.get(node.attr)
        if member is None:
            return node
        number = ast.parse(str(int(member)), mode="eval").body
        for part in ast.walk(number):
            ast.copy_location(part, node)
        return number


def _inline_members(method: Method, tree: ast.FunctionDef) -> None:
    members = _Members(method, {name for name, _ in free_names(tree)})
    tree.body = [members.visit(s) for s in tree.body]


def user_name(name: str) -> str:
    """The name of a user's global in generated code; engine names never start with U_."""
    return name if name.startswith(("U_", "_c", "_i")) else f"U_{name}"


def _rename(tree: ast.AST, names: set[str]) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            node.id = user_name(node.id)


def lookup(method: Method, node: ast.AST, name: str) -> Any:
    """The value of a global or closure name of a method."""
    function = method.function
    if name in function.__globals__:
        return function.__globals__[name]
    if function.__closure__ and name in function.__code__.co_freevars:
        cell = function.__closure__[function.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:
            pass
    raise CannotCompile(method, node, f"name {name!r} is not defined")


def _lines(tree: ast.Module, text: str) -> tuple[int, ...]:
    """For each line of `text`, which is `tree` unparsed, the line on which its statement was."""
    lines = [0] * (text.count("\n") + 1)
    for old, new in zip(_statements(tree), _statements(ast.parse(text)), strict=True):
        lines[new.lineno - 1] = getattr(old, "lineno", 0)
    for k in range(1, len(lines)):
        lines[k] = lines[k] or lines[k - 1]
    return tuple(lines)


def _statements(tree: ast.AST) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def _drop_annotations(tree: ast.FunctionDef) -> None:
    tree.returns = None
    for a in [*tree.args.args, *tree.args.kwonlyargs, *tree.args.posonlyargs]:
        a.annotation = None


_REFUSED = {
    "loop": "other than compared with a string by == or != does not compile",
    "targets": "compiles in `for target in self.targets:` and len(self.targets) only",
    **dict.fromkeys(("addedTargets", "removedTargets", "retainedTargets"), "does not compile"),
}


_NOT_COMPILED: dict[type[ast.AST], str] = {
    ast.Lambda: "a lambda does not compile: write it as a function of the module, by def",
    ast.ClassDef: "a class in a method does not compile",
    ast.Yield: "yield does not compile",
    ast.YieldFrom: "yield does not compile",
    ast.Await: "await does not compile",
    ast.With: "with does not compile",
}
_TRY = "try with except of one kind of error does not compile: test for what would fail, by if"


class _Rewriter(CompiledArithmetic):
    def __init__(
        self,
        spec: ClassSpec,
        method: Method,
        shape: str,
        root: str,
        globals_: Globals,
    ) -> None:
        self.spec, self.method, self.shape = spec, method, shape
        self.root = root
        self.globals = globals_
        self.me = method.self_name
        self.loops: dict[str, str] = {}
        self.reached: dict[str, str] = {}  # loops over the targets of a target
        self.marks = False  # an expression needs the marks of `edges_to`
        self.count = 0
        self.logs = False
        self.messages: list[tuple[str, str]] = []  # (edge, message at the last scatter)
        self.conditions: list[str] = []  # of the message along an edge
        names = method.function.__code__.co_varnames
        self.delta = names[3] if method.name == "gather" else ""
        self.resolve = lambda name: method.function.__globals__.get(name)
        self.containers = containers(method.tree) if method.tree is not None else frozenset()

    def fail(self, node: ast.AST, reason: str) -> CannotCompile:
        return CannotCompile(self.method, node, reason)

    def expr(self, text: str) -> ast.expr:
        return ast.parse(text, mode="eval").body

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        base = node.value
        if isinstance(base, ast.Name):
            if base.id == self.me:
                return self._self(node)
            if base.id in self.loops:
                return self._target(node, self.loops[base.id])
            if base.id in self.reached:
                if node.attr == "id" and isinstance(node.ctx, ast.Load):
                    edge = self.reached[base.id]
                    return self.expr(f"_target_id({edge}, X_target, G_ids, X_ids)")
                raise self.fail(
                    node,
                    f"of a target's target only id and len(x.targets) compile, not {node.attr}",
                )
            if base.id == self.delta and self.delta:
                if node.attr not in ("value", "values"):
                    raise self.fail(node, f"delta.{node.attr} with a declared algebra")
                return self.expr("_delta")
        if self.method.is_self(base) and base.attr in self.spec.aggregators:
            if node.attr == "value" and isinstance(node.ctx, ast.Load):
                return self.expr(f"A_{base.attr}")
            raise self.fail(node, f"self.{base.attr}.{node.attr}")
        return self.generic_visit(node)

    def is_float(self, node: ast.AST) -> bool:
        """Return whether an expression is a float; fields, parameters and messages have types."""
        if not isinstance(node, ast.Attribute):
            return super().is_float(node)
        spec, base, name = self.spec, node.value, node.attr
        if self.method.is_self(node):
            kind = spec.params.get(name, (None,))[0]
            return kind is float or (name in spec.states and spec.states[name].dtype.kind == "f")
        if isinstance(base, ast.Name) and base.id in self.loops:
            is_float = isinstance(spec.cls.edge, Mapping) and spec.cls.edge.get(name) is float
            return is_float or (name == "value" and spec.value_dtype == "float64")
        if isinstance(base, ast.Name) and base.id == self.delta and self.delta:
            return spec.algebra is not None and spec.algebra.dtype.kind == "f"
        if self.method.is_self(base) and base.attr in spec.aggregators:
            return spec.aggregators[base.attr].dtype.kind == "f"
        return False

    def in_range(self, node: ast.Subscript) -> bool:
        """Return whether an index is in range; fields and messages have declared sizes."""
        size, base = None, node.value
        name = self._vector_state(base)
        if name is not None:
            size = self.spec.states[name].size
        elif self.delta and isinstance(base, ast.Attribute) and not self.spec.latest:
            is_delta = isinstance(base.value, ast.Name) and base.value.id == self.delta
            size = self.spec.algebra.size if is_delta and self.spec.algebra is not None else None
        k = literal_int(node.slice)
        return size is not None and k is not None and -size <= k < size

    def _self(self, node: ast.Attribute) -> ast.AST:
        name = node.attr
        if name in self.spec.states:
            if self.spec.states[name].dtype == object:
                raise self.fail(node, f"self.{name} is not a number")
            return self.expr(f"S_{name}[_i]")
        if name in self.spec.params:
            if name not in self.globals.params:
                raise self.fail(
                    node,
                    f"parameter {name} is not a number, nor a tuple or array of them: "
                    "give it as one",
                )
            return self.expr(f"P_{name}")
        if name == "id":
            return self.expr("G_ids[_i]")
        if name == "num_vertices":
            return self.expr("G_vertices")
        if name in _REFUSED:
            raise self.fail(node, f"self.{name} {_REFUSED[name]}")
        if isinstance(node.ctx, ast.Load) and name not in self.spec.methods:
            value = inspect.getattr_static(self.spec.cls, name, None)
            if isinstance(value, (bool, int, float)):
                alias = f"U_K_{name}"
                self.globals.bind(self.method, node, alias, value)
                return self.expr(alias)
        raise self.fail(node, f"self.{name}")

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Replace `self.loop == "name"` by an element of `G_loops`, which says whether it is."""
        sides = [node.left, *node.comparators]
        if len(sides) == 2 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            numbers = self._numbers(*sides)
            if numbers is not None:
                sign = "==" if isinstance(node.ops[0], ast.Eq) else "!="
                return self.expr(f"({numbers[0]} {sign} {numbers[1]})")
        if len(sides) != 2 or not any(self.method.is_self(x, "loop") for x in sides):
            return self.generic_visit(node)
        other = sides[1] if self.method.is_self(sides[0], "loop") else sides[0]
        name = self.resolve(other.id) if isinstance(other, ast.Name) else None
        name = other.value if isinstance(other, ast.Constant) else name
        if not isinstance(name, str) or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            return self.generic_visit(node)
        if name not in self.globals.loops:
            self.globals.loops.append(name)
        text = f"G_loops[{self.globals.loops.index(name)}]"
        return self.expr(text if isinstance(node.ops[0], ast.Eq) else f"(not {text})")

    def _numbers(self, a: ast.expr, b: ast.expr) -> tuple[str, str] | None:
        """Return the numbers of `TargetRows` that stand for two ids, or None."""
        kinds, numbers = [], []
        for side in (a, b):
            name = side.value if isinstance(side, ast.Attribute) and side.attr == "id" else None
            if not isinstance(name, ast.Name):
                return None
            if name.id == self.me:
                kinds.append("self")
                numbers.append("_i")
            elif name.id in self.reached:
                kinds.append("reached")
                numbers.append(f"X_target[{self.reached[name.id]}]")
            elif name.id in self.loops and self.spec.facts.reads_target_rows:
                kinds.append("target")
                numbers.append(f"X_number[{self.loops[name.id]}]")
            else:
                return None
        return None if set(kinds) == {"self"} else (numbers[0], numbers[1])

    def _target(self, node: ast.Attribute, edge: str) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            raise self.fail(node, "a target is read-only")
        if isinstance(self.spec.cls.edge, Mapping):
            if node.attr in self.spec.cls.edge:
                return self.expr(f"G_value[{edge}]['{node.attr}']")
        elif node.attr == "value":
            return self.expr(f"G_value[{edge}]")
        if node.attr == "reverse":
            if not self.spec.facts.reads_reverse:
                return self.expr("False")
            return self.expr(f"(G_reverse.shape[0] > 0 and G_reverse[{edge}])")
        if node.attr == "id":
            return self.expr(f"_target_id({edge}, G_target, G_ids, G_ghost_ids)")
        if node.attr == "targets":
            raise self.fail(
                node,
                "target.targets compiles in `for other in target.targets:` and "
                "len(target.targets) only",
            )
        raise self.fail(node, f"a target has no {node.attr}")

    def visit_Assign(self, node: ast.Assign) -> Any:
        value = self.visit(node.value)
        if len(node.targets) == 1:
            to = node.targets[0]
            name = self._vector_state(to)
            if name is not None:
                store = ast.parse(f"S_{name}[_i][:] = 0").body[0]
                assert isinstance(store, ast.Assign)
                store.value = value
                return ast.copy_location(store, node)
            if isinstance(to, ast.Name) and self._vector_state(node.value) is not None:
                value = ast.Call(ast.Attribute(value, "copy", ast.Load()), [], [])
        value = self._typed(node.targets, value)
        return ast.copy_location(ast.Assign([self.visit(t) for t in node.targets], value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        name = self._state_name(node.target)
        if name is not None and self.spec.states[name].size is None:
            load = ast.copy_location(self.expr(f"{self.me}.{name}"), node)
            value = ast.BinOp(load, node.op, node.value)
            return self.visit_Assign(ast.copy_location(ast.Assign([node.target], value), node))
        return self.generic_visit(node) if name is not None else super().visit_AugAssign(node)

    def _typed(self, targets: list[ast.expr], value: ast.expr) -> ast.expr:
        """Refuse a float in an int field when it is compiled, instead of truncating it."""
        for to in targets:
            f = self.spec.states.get(self._state_name(to) or "")
            if f is not None and f.size is None and f.dtype.kind in "ib":
                return self.call("_as_int" if f.dtype.kind == "i" else "_as_bool", value)
        return value

    def _state_name(self, node: ast.AST) -> str | None:
        return node.attr if self.method.is_self(node) and node.attr in self.spec.states else None

    def _vector_state(self, node: ast.AST) -> str | None:
        name = self._state_name(node)
        return name if name is not None and self.spec.states[name].size is not None else None

    def _row_of(self, node: ast.AST) -> str | None:
        """The slot of x where a node is `x.targets`, of a target x."""
        if isinstance(node, ast.Attribute) and node.attr == "targets":
            if isinstance(node.value, ast.Name) and node.value.id in self.loops:
                return f"G_target[{self.loops[node.value.id]}]"
        return None

    def _reached_row(self, node: ast.AST) -> str | None:
        """The number of x where a node is `x.targets`, of a target's target x."""
        if isinstance(node, ast.Attribute) and node.attr == "targets":
            if isinstance(node.value, ast.Name) and node.value.id in self.reached:
                return f"X_target[{self.reached[node.value.id]}]"
        return None

    def _reach(self, node: ast.For, slot: str) -> ast.stmt:
        """A loop over the targets of a target; before it, those of the vertex are marked."""
        if not isinstance(node.target, ast.Name):
            raise self.fail(node, "unpacking targets")
        edge = f"_e{self.count}"
        self.count += 1
        outer, marks = self.reached, self.marks
        self.reached, self.marks = {**outer, node.target.id: edge}, False
        body = [self.visit(s) for s in node.body]
        self.reached, needed = outer, self.marks
        self.marks = marks
        text = f"for {edge} in range(X_start[{slot}], X_stop[{slot}]):\n    pass"
        loop = ast.parse(text).body[0]
        assert isinstance(loop, ast.For)
        loop.body, loop.orelse = body, [self.visit(s) for s in node.orelse]
        ast.copy_location(loop, node)
        if not needed:
            return loop
        mark = ast.parse("_mark_row(_i, X_start, X_stop, X_target, M_count, M_of)").body[0]
        both = ast.If(ast.Constant(True), [ast.copy_location(mark, node), loop], [])
        return ast.copy_location(both, node)

    def visit_For(self, node: ast.For) -> Any:
        slot = self._row_of(node.iter)
        if slot is not None:
            return self._reach(node, slot)
        if not self.method.is_self(node.iter, "targets"):
            return self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            raise self.fail(node, "unpacking targets")
        if self.shape == "uniform" and target_loop_shape(self.method, node) == "uniform":
            call = node.body[0].value  # type: ignore[attr-defined]
            return self._emit_all(call.args[1], node)
        edge = f"_e{self.count}"
        self.count += 1
        outer = self.loops
        self.loops = {**outer, node.target.id: edge}
        body = [self.visit(s) for s in node.body]
        self.loops = outer
        loop = ast.parse(f"for {edge} in range(G_start[_i], G_stop[_i]):\n    pass").body[0]
        assert isinstance(loop, ast.For)
        loop.body = body
        loop.orelse = [self.visit(s) for s in node.orelse]
        return ast.copy_location(loop, node)

    def visit_If(self, node: ast.If) -> Any:
        if self.root == "scatter" and self.spec.facts.edge_messages:
            test = ast.unparse(self.visit(copy.deepcopy(node.test)))
            guards = isinstance(node.body[0], ast.Continue)
            self.conditions.append(f"not ({test})" if guards else f"({test})")
        return self.generic_visit(node)

    def _conditional(self, message: str) -> str:
        """The message along an edge, or the identity where there is none."""
        if not self.conditions:
            return message
        assert self.spec.algebra is not None
        identity = identity_text(self.spec.algebra)
        condition = _at_last_scatter(" and ".join(self.conditions))
        return f"({message}) if {condition} else {identity}"

    def visit_Expr(self, node: ast.Expr) -> Any:
        call = node.value
        if self.method.is_call(call, "emitAll"):
            if len(call.args) != 1:
                raise self.fail(node, "emitAll takes one value")
            return self._emit_all(call.args[0], node)
        return self.generic_visit(node)

    def _emit_all(self, value: ast.expr, node: ast.AST) -> ast.stmt:
        x = ast.unparse(self.visit(value))
        if self.shape == "uniform":
            text = f"if G_stop[_i] > G_start[_i]:\n    _emit_uniform({x}, E_out, E_has)"
        else:
            edge = f"_e{self.count}"
            self.count += 1
            text = (
                f"if G_stop[_i] > G_start[_i]:\n    _x{edge} = {x}\n"
                f"    for {edge} in range(G_start[_i], G_stop[_i]):\n"
                f"        _emit_edge({edge}, _x{edge}, EMIT_ARGS)"
            )
        statement_tree = ast.parse(text).body[0]
        for statement in _statements(statement_tree):
            ast.copy_location(statement, node)
        return statement_tree

    def visit_Call(self, node: ast.Call) -> Any:
        method, spec = self.method, self.spec
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "super()":
            raise self.fail(
                node, "super() does not compile: move what both classes do to a helper method"
            )
        length = isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1
        if length and method.is_self(node.args[0], "targets"):
            row = "X" if spec.facts.reads_target_rows else "G"  # those of G may be a part
            return self.expr(f"({row}_stop[_i] - {row}_start[_i])")
        if length and (number := self._reached_row(node.args[0])) is not None:
            self.marks = True
            return self.expr(f"_row_length({number}, X_start, X_stop, M_count)")
        if length and (slot := self._row_of(node.args[0])) is not None:
            return self.expr(f"(X_stop[{slot}] - X_start[{slot}])")
        if method.is_call(node, "edges_to"):
            return self._edges_to(node)
        if method.is_call(node, "emit"):
            if len(node.args) != 2 or node.keywords:
                raise self.fail(node, "emit takes a target and a value")
            to, x = node.args[0], ast.unparse(self.visit(node.args[1]))
            if isinstance(to, ast.Name) and to.id in self.loops:
                edge = self.loops[to.id]
                previous = _at_last_scatter(x)
                if self.spec.facts.edge_messages or self.shape == "derived":
                    self.messages.append((edge, self._conditional(previous)))
                if self.shape == "derived":
                    return self.expr(f"_emit_derived({edge}, {x}, {previous}, EMIT_ARGS)")
                return self.expr(f"_emit_edge({edge}, {x}, EMIT_ARGS)")
            self.logs = True
            vertex = ast.unparse(self.visit(to))
            return self.expr(f"_emit_id(_i, {vertex}, {x}, {', '.join(ROW_ARGS)}, LOG_ARGS)")
        if method.is_call(node, "random"):
            return self.expr("_draw(G_seed, G_keys[_i], G_step, G_calls, _i)")
        if method.is_call(node, "addTarget", "removeTarget"):
            return self._change(node)
        if isinstance(node.func, ast.Attribute) and method.is_self(node.func.value):
            name = node.func.value.attr
            if name in spec.aggregators:
                if node.func.attr != "contribute" or len(node.args) != 1:
                    raise self.fail(node, f"self.{name}.{node.func.attr}")
                x = ast.unparse(self.visit(node.args[0]))
                return self.expr(f"_contribute_{name}(C_{name}, _b, {x})")
        if method.is_call(node, *spec.methods):
            name = node.func.attr  # type: ignore[attr-defined]
            static = inspect.getattr_static(spec.cls, name)
            if isinstance(static, (staticmethod, classmethod)) or node.keywords:
                raise self.fail(node, f"self.{name}() with this signature")
            args = ", ".join(ast.unparse(self.visit(a)) for a in node.args)
            prefix = f"{args}, " if args else ""
            return self.expr(f"_{self.root}_{name}({prefix}_i, _b, ARGS_{name})")
        return super().visit_Call(node)

    def _edges_to(self, node: ast.Call) -> ast.AST:
        name = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if isinstance(name, ast.Name) and name.id in self.reached:
            self.marks = True
            return self.expr(f"np.int64(M_count[X_target[{self.reached[name.id]}]])")
        if isinstance(name, ast.Name) and name.id in self.loops:
            rows = "X_start, X_stop, X_target, M_count, M_of"
            return self.expr(f"_edges_to(X_number[{self.loops[name.id]}], _i, {rows})")
        raise self.fail(node, "edges_to takes a target, or a target's target")

    def _change(self, node: ast.Call) -> ast.AST:
        self.logs = True
        assert isinstance(node.func, ast.Attribute)
        to = node.args[0]
        if isinstance(to, ast.Name) and to.id in self.loops:
            vertex = f"_target_id({self.loops[to.id]}, G_target, G_ids, G_ghost_ids)"
        else:
            vertex = ast.unparse(self.visit(to))
        if node.func.attr == "removeTarget":
            return self.expr(f"_log_change(_i, 2, {vertex}, 0, LOG_ARGS)")
        value = [*node.args[1:], *(k.value for k in node.keywords)]
        x = ast.unparse(self.visit(value[0])) if value else "None"
        if x == "None":
            return self.expr(f"_log_change(_i, 3, {vertex}, 0, LOG_ARGS)")
        return self.expr(f"_log_change(_i, 1, {vertex}, {x}, LOG_ARGS)")

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.loops or node.id in self.reached:
            raise self.fail(
                node,
                f"the target {node.id!r} is used as a value: use {node.id}.id or {node.id}.value",
            )
        if node.id == self.me:
            raise self.fail(node, "self is used as a value: pass the fields that are needed")
        if node.id == self.delta and self.delta:
            raise self.fail(node, "delta is used as a value: pass delta.value or delta.values")
        return node


def _at_last_scatter(expression: str) -> str:
    """An expression of the state as one of the state at the last scatter."""
    return re.sub(r"\bS_(\w+)\[", r"T_\1[", expression)


def identity_text(algebra: Algebra) -> str:
    """Return the identity of an algebra of numbers as an expression."""
    if algebra.dtype.kind == "f":
        return f"float({str(float(algebra.identity))!r})"
    return f"np.int64({algebra.identity})"


def rewrite_method(
    spec: ClassSpec, method: Method, root: str, shape: str, globals_: Globals
) -> Rewritten:
    """Return a method as a function of (its arguments, _i, _b, the partition's arrays)."""
    if method.tree is None:
        raise CannotCompile(method, None, "its source cannot be read")
    tree = copy.deepcopy(method.tree)  # it is rewritten for every path that leads to it
    _inline_members(method, tree)
    free = dict(free_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, tuple(_NOT_COMPILED)):
            kind = next(kind for kind in _NOT_COMPILED if isinstance(node, kind))
            raise CannotCompile(method, node, _NOT_COMPILED[kind])
        kinds = node.type if isinstance(node, ast.ExceptHandler) else None
        if kinds is not None and ast.unparse(kinds) != "Exception":
            raise CannotCompile(method, node, _TRY)
    if tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs:
        raise CannotCompile(method, tree, "*args and **kwargs do not compile")
    rewriter = _Rewriter(spec, method, shape, root, globals_)
    body = [rewriter.visit(s) for s in tree.body if not is_docstring(s)]
    arguments = [a.arg for a in tree.args.args[1:]]
    if tree.args.defaults:
        raise CannotCompile(method, tree, "default arguments do not compile: pass every argument")
    if method.name == "gather":
        arguments = [arguments[0], arguments[1], "_delta"]
    elif method.name in ("init", "adapt"):
        arguments = []
    inner = ast.Module(body=body or [ast.Pass()], type_ignores=[])
    free = {n: at for n, at in free.items() if n not in arguments and n != rewriter.delta}
    for name, at in free.items():
        globals_.bind(method, at, name, lookup(method, at, name))
    _rename(inner, set(free))
    text = ast.unparse(ast.fix_missing_locations(inner))
    place = (method.file, method.name, _lines(inner, text))
    emit = {"many": MANY_ARGS, "derived": DERIVED_ARGS}.get(shape, EMIT_ARGS)
    text = text.replace("EMIT_ARGS", ", ".join(emit)).replace("LOG_ARGS", ", ".join(LOG_ARGS))
    message = None
    if rewriter.messages:
        edge, expression = rewriter.messages[0]
        named = ast.parse(expression, mode="eval")
        _rename(named, set(free))
        message = edge, ast.unparse(named)
    head = ", ".join([*arguments, "_i", "_b"])
    return Rewritten(method.name, head, text, place, rewriter.logs, message)


def functions_text(root: str, methods: list[Rewritten], args: list[str]) -> tuple[str, list[str]]:
    """Return the methods as functions which take only the arrays they use.

    The second result are the arrays of the method `root` itself. CPython compiles calls of more
    than 30 arguments in a way which Numba does not inline, hence the pruning.
    """
    direct = {m.name: {a for a in args if re.search(rf"\b{a}\b", m.body)} for m in methods}
    calls = {m.name: set(re.findall(r"\bARGS_(\w+)", m.body)) for m in methods}
    used = {name: set(names) for name, names in direct.items()}
    for _ in methods:
        for name in used:
            for callee in calls[name]:
                used[name] |= used.get(callee, set())
    ordered = {name: [a for a in args if a in names] for name, names in used.items()}
    texts = []
    for m in methods:
        body = re.sub(
            r",? ?\bARGS_(\w+)",
            lambda match: "".join(f", {a}" for a in ordered[match.group(1)]),
            m.body,
        )
        head = ", ".join([m.head, *ordered[m.name]])
        few = len(head.split(", ")) <= 30
        decorator = "@_jit(inline='always')" if few else "@_jit"
        texts.append(
            f"{decorator}\ndef _{root}_{m.name}({head}):\n{textwrap.indent(body, '    ')}\n"
        )
    return "\n".join(texts), ordered[root]


_BUFFERS = ("msg", "agg", "ch", "list", "lc", "t", "bt", "bo", "bn", "bc", "me")
EMIT_ARGS = ["G_target", *(f"E_{name}" for name in _BUFFERS)]
DERIVED_ARGS = ["E_first", *EMIT_ARGS[:1], *EMIT_ARGS[2:]]
MANY_ARGS = ["E_sx", "E_sh", "G_start[_i]"]
ROW_ARGS = ["G_start", "G_stop", "G_target", "G_ids", "G_ghost_ids", "E_sx", "E_sh"]
LOG_ARGS = ["L_k", "L_v", "L_i", "L_x", "L_w", "L_n"]
