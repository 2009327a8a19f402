"""Tells whether methods use string ids only as ids, so that codes can stand for them.

Compiled methods see the code of a string id, an int. They answer as interpreted ones do while ids
are compared with each other, moved and complemented. So each expression has a kind: an id, a number
(which is all that holds no id), or a container of kinds. Where an id meets a number the class does
not compile, and Python itself tells what comes of it.

A kind is a tuple of its name and of the kinds of its parts. Names of a method have one kind each;
methods and functions are looked at once for each list of kinds of their arguments.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vertexsdk.compile._arithmetic import literal_int
from vertexsdk.compile._rewrite import CannotCompile
from vertexsdk.program.algebra import INT_MAX, INT_MIN, Algebra, VertexId
from vertexsdk.program.fields import StateField
from vertexsdk.program.program import ClassSpec
from vertexsdk.program.syntax import Method, function_tree

Kind = tuple[Any, ...]

ANY: Kind = ("any",)  # an id or a number: not known yet, None, INT_MAX or INT_MIN
NUMBER: Kind = ("number",)
ID: Kind = ("id",)
TARGET: Kind = ("target",)
DELTA: Kind = ("delta",)
ARRAY: Kind = ("array", ID)  # a list that nothing is stored in
_DEPTH = 4  # of containers in containers
_PASSES = 50
_EMPTY = ((list, ("list", ANY)), (set, ("set", ANY)), (dict, ("dict", ANY, ANY)))

_AS_NUMBER = "ids are strings and an id is used as a number"
_AS_ID = "ids are strings and a number is used as an id"
_HASHED = "ids are strings and hash() of a string is another number in each process"


def check_id_kinds(spec: ClassSpec, roots: Iterable[str]) -> None:
    """Check that the methods of a class use ids as ids only.

    Args:
        spec: the class.
        roots: the methods that the engine calls.

    Raises:
        CannotCompile: naming the line where an id is used as a number, or a number as an id.
    """
    if (needs := needs_integers(spec)) is not None:
        raise CannotCompile.in_class(spec, f"ids are strings and {': '.join(needs)}", needs[0])
    kinds = _Kinds(spec)
    for _ in range(_PASSES):
        kinds.changed = False
        kinds.visited.clear()
        for root in roots:
            if root in spec.methods:
                arguments = {"gather": (NUMBER, NUMBER, DELTA), "scatter": (NUMBER,)}
                arguments["next_round"] = (NUMBER,)
                kinds.call(spec.methods[root], arguments.get(root, ()))
        if not kinds.changed:
            return
    raise CannotCompile.in_class(spec, "ids are strings, and a name has no kind of value")


def needs_integers(spec: ClassSpec) -> tuple[str, str] | None:
    """Return what a class does with ids that strings have no meaning for, or None.

    Returns:
        The name of the field, or "messages"; and what they are.
    """
    algebra = spec.algebra
    declared: dict[str, StateField | Algebra] = dict(spec.states)
    if algebra is not None:
        declared["messages"] = algebra
        if algebra.type is VertexId and algebra.kind not in ("min", "max", "latest"):
            return "messages", f"{algebra} combines ids as numbers"
    vectors = (n for n, f in declared.items() if f.type is VertexId and f.size is not None)
    return next(((name, "vectors of VertexId") for name in vectors), None)


def _holds_id(kind: Kind) -> bool:
    return kind[0] in ("id", "target", "delta") or any(map(_holds_id, kind[1:]))


def _depth(kind: Kind) -> int:
    return 1 + max(map(_depth, kind[1:]), default=0)


def _join(a: Kind, b: Kind) -> Kind | None:
    """Return the kind of what is of one kind or the other; None where there is none."""
    if a == b or b == ANY:
        return a
    if a == ANY:
        return b
    if a[0] == b[0] and len(a) == len(b) > 1:
        parts = [_join(x, y) for x, y in zip(a[1:], b[1:], strict=True)]
        if all(parts):
            return (a[0], *parts)
    return None if _holds_id(a) or _holds_id(b) else NUMBER


def _comparable(a: Kind, b: Kind) -> bool:
    if a == ANY or b == ANY or a == b == ID or not (_holds_id(a) or _holds_id(b)):
        return True
    pairs = zip(a[1:], b[1:], strict=False)
    return a[0] == b[0] == "tuple" and len(a) == len(b) and all(_comparable(*p) for p in pairs)


def _constant(value: Any) -> Kind:
    return ANY if value is None or (type(value) is int and value in (INT_MAX, INT_MIN)) else NUMBER


def _declared(f: StateField | Algebra) -> Kind:
    """The kind of a field, or of the messages of an algebra."""
    return ID if f.type is VertexId else NUMBER


@dataclass
class _Frame:
    """A method or function with arguments of certain kinds."""

    method: Method
    me: str  # the name of `self`; "" in a function
    names: dict[str, Kind]
    result: Kind = ANY
    targets: frozenset[str] = frozenset()  # over which a loop goes
    bound: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        stored = (n for n in self.method.nodes() if isinstance(n, ast.Name))
        stores = {n.id for n in stored if not isinstance(n.ctx, ast.Load)}
        inner = {n.name for n in self.method.nodes() if isinstance(n, ast.FunctionDef)}
        self.bound = frozenset(stores | inner | {*self.names})


class _Kinds:
    def __init__(self, spec: ClassSpec) -> None:
        self.spec = spec
        self.frames: dict[tuple[Any, ...], _Frame] = {}
        self.visited: set[tuple[Any, ...]] = set()  # in this pass
        self.changed = False
        self.frame: _Frame = None  # type: ignore[assignment]
        self.inner = False  # in a function of a method
        self.functions: dict[FunctionType, Method] = {}  # of modules

    def call(self, method: Method, arguments: tuple[Kind, ...]) -> Kind:
        """Look at a method or function, and return the kind of what it returns."""
        key = (method.function, arguments)
        if key not in self.frames:
            me = "" if method in self.functions.values() else method.self_name
            given = method.arguments[1:] if me else method.arguments
            missing = (NUMBER,) * (len(given) - len(arguments))
            names = dict(zip(given, arguments + missing, strict=False))
            self.frames[key] = _Frame(method, me, names)
        frame = self.frames[key]
        if key not in self.visited and method.tree is not None:
            self.visited.add(key)
            outer = self.frame, self.inner
            self.frame, self.inner = frame, False
            self.statements(method.tree.body)
            self.frame, self.inner = outer
        return frame.result

    def fail(self, node: ast.AST, reason: str = _AS_NUMBER) -> CannotCompile:
        return CannotCompile(self.frame.method, node, reason)

    def number(self, node: ast.AST | None) -> Kind:
        """Check that an expression holds no id."""
        if node is not None and _holds_id(self.value(node)):
            raise self.fail(node)
        return NUMBER

    def fits(self, kind: Kind, wanted: Kind, node: ast.AST) -> None:
        """Check what is stored, sent or contributed."""
        if wanted == ID and kind not in (ID, ANY):
            raise self.fail(node, _AS_NUMBER if _holds_id(kind) else _AS_ID)
        if wanted != ID and (_holds_id(kind) or _holds_id(wanted)):
            raise self.fail(node)

    def joined(self, kinds: Iterable[Kind], node: ast.AST) -> Kind:
        result = ANY
        for kind in kinds:
            both = _join(result, kind)
            if both is None:
                raise self.fail(node)
            result = both
        return result

    def container(self, node: ast.AST, name: str, *parts: Kind) -> Kind:
        kind = (name, *parts)
        if _depth(kind) > _DEPTH:
            if _holds_id(kind):
                raise self.fail(node)
            return NUMBER
        return kind

    def elements(self, kind: Kind, node: ast.AST, *, ordered: bool = True) -> Kind:
        """The kind of what a loop over a container takes from it."""
        if kind[0] == "set" and ordered and _holds_id(kind):
            raise self.fail(node, "ids are strings, and a set of them has another order than codes")
        if kind[0] in ("list", "array", "set", "dict"):
            return Kind(kind[1])
        if kind[0] == "tuple":
            return self.joined(kind[1:], node)
        if _holds_id(kind):
            raise self.fail(node)
        return kind

    # Statements. --------------------------------------------------------------------------

    def statements(self, nodes: Iterable[ast.stmt]) -> None:
        for node in nodes:
            self.statement(node)

    def statement(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            kind = self.value(node.value)
            for target in node.targets:
                self.assign(target, kind)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.assign(node.target, self.value(node.value))
        elif isinstance(node, ast.AugAssign):
            self.number(node.value)
            self.assign(node.target, self.number(node.target))
        elif isinstance(node, ast.For):
            kind, outer = self.elements(self.value(node.iter), node.iter), self.frame.targets
            if kind == TARGET and isinstance(node.target, ast.Name):
                self.frame.targets |= {node.target.id}
            else:
                self.assign(node.target, kind)
            self.statements(node.body)
            self.frame.targets = outer
            self.statements(node.orelse)
        elif isinstance(node, ast.Return):
            kind = ANY if node.value is None else self.value(node.value)
            if self.inner:
                self.fits(kind, NUMBER, node)
            else:
                self.result(kind, node)
        elif isinstance(node, ast.Expr):
            self.value(node.value)
        elif isinstance(node, ast.FunctionDef):
            for argument in node.args.args:
                self.bind(argument.arg, NUMBER, argument)
            inner, self.inner = self.inner, True
            self.statements(node.body)
            self.inner = inner
        elif not isinstance(node, (ast.Import, ast.ImportFrom)):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.number(child)
                else:
                    self.statement(child)

    def result(self, kind: Kind, node: ast.AST) -> None:
        new = self.joined([self.frame.result, kind], node)
        self.changed |= new != self.frame.result
        self.frame.result = new

    def bind(self, name: str, kind: Kind, node: ast.AST) -> None:
        old = self.frame.names.get(name, ANY)
        new = _join(old, kind)
        if new is None:
            raise self.fail(node, f"ids are strings and {name} is an id here and a number there")
        self.changed |= new != old
        self.frame.names[name] = new

    def assign(self, to: ast.expr, kind: Kind) -> None:
        if isinstance(to, ast.Name):
            self.bind(to.id, kind, to)
        elif isinstance(to, (ast.Tuple, ast.List)):
            parts = kind[1:]
            if kind[0] != "tuple" or len(parts) != len(to.elts):
                parts = (self.elements(kind, to),) * len(to.elts)
            for part, part_kind in zip(to.elts, parts, strict=True):
                self.assign(part, part_kind)
        elif isinstance(to, ast.Attribute):
            states = self.spec.states
            is_field = self.frame.me and self.frame.method.is_self(to) and to.attr in states
            self.fits(kind, _declared(states[to.attr]) if is_field else NUMBER, to)
        elif isinstance(to, ast.Subscript):
            place = self.value(to.value)
            if place[0] == "dict":
                self.grow(to.value, self.container(to, "dict", self.value(to.slice), kind))
            elif place != ANY:
                self.number(to.slice)
                several = isinstance(to.slice, ast.Slice) and kind[0] in ("list", "array", "tuple")
                element = self.elements(kind, to) if several else kind
                if place[0] == "list":
                    self.grow(to.value, self.container(to, "list", element))
                else:
                    self.fits(element, NUMBER, to)
                    self.fits(place, NUMBER, to)
            else:
                self.value(to.slice)
        else:
            self.fits(kind, NUMBER, to)

    def grow(self, node: ast.expr, kind: Kind) -> None:
        """Put something into a container: a name's kind may then say more."""
        if isinstance(node, ast.Name):
            self.bind(node.id, kind, node)
        elif _join(self.value(node), kind) != self.value(node):
            self.fits(kind, NUMBER, node)
            self.fits(self.value(node), NUMBER, node)

    # Expressions. -------------------------------------------------------------------------

    def value(self, node: ast.AST) -> Kind:
        """Return the kind of an expression."""
        if (number := literal_int(node)) is not None:
            return _constant(number)
        visit: Callable[[Any], Kind] = getattr(self, f"of_{type(node).__name__}", self.of_parts)
        return visit(node)

    def of_parts(self, node: ast.AST) -> Kind:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.number(child)
            elif isinstance(child, ast.keyword):
                self.number(child.value)
        return NUMBER

    def of_Constant(self, node: ast.Constant) -> Kind:
        return _constant(node.value)

    def of_Name(self, node: ast.Name) -> Kind:
        if node.id in self.frame.targets:
            return TARGET
        if node.id in self.frame.bound:
            return self.frame.names.get(node.id, ANY)
        return _constant(self.resolved(node))

    def resolved(self, node: ast.AST) -> Any:
        """Return what a name is that is not the method's own, or an attribute of a module; or 0."""
        function = self.frame.method.function
        if isinstance(node, ast.Attribute):
            module = self.resolved(node.value)
            return getattr(module, node.attr, 0) if isinstance(module, ModuleType) else 0
        if not isinstance(node, ast.Name) or node.id in self.frame.bound:
            return 0
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        if node.id in cells:
            value = cells[node.id].cell_contents
        else:
            value = function.__globals__.get(node.id, getattr(builtins, node.id, 0))
        return getattr(value, "py_func", value)  # of a function that Numba compiles

    def of_Attribute(self, node: ast.Attribute) -> Kind:
        name, base, spec = node.attr, node.value, self.spec
        method = self.frame.method
        if self.frame.me and method.is_self(node):
            if name == "targets":
                return ("list", TARGET)
            if name in spec.states:
                return _declared(spec.states[name])
            if name == "id" or spec.params.get(name, (None,))[0] is VertexId:
                return ID
            return _constant(inspect.getattr_static(spec.cls, name, 0))
        if self.frame.me and method.is_self(base) and base.attr in spec.aggregators:
            return _declared(spec.aggregators[base.attr])
        kind = self.value(base)
        if kind == TARGET:
            return {"id": ID, "targets": ("list", TARGET)}.get(name, NUMBER)
        if kind == DELTA:
            assert spec.algebra is not None
            messages = _declared(spec.algebra)
            return ARRAY if messages == ID and spec.algebra.kind == "latest" else messages
        if _holds_id(kind):
            raise self.fail(node)
        return ANY if kind == ANY else NUMBER

    def of_Compare(self, node: ast.Compare) -> Kind:
        sides = [node.left, *node.comparators]
        kinds = [*map(self.value, sides)]
        for k, op in enumerate(node.ops):
            a, b = kinds[k : k + 2]
            if isinstance(op, (ast.In, ast.NotIn)):
                fine = _comparable(a, self.elements(b, node, ordered=False))
            elif isinstance(op, (ast.Is, ast.IsNot)) and (_holds_id(a) or _holds_id(b)):
                pair = sides[k : k + 2]
                fine = any(isinstance(x, ast.Constant) and x.value is None for x in pair)
            else:
                fine = _comparable(a, b)
            if not fine:
                raise self.fail(node)
        return NUMBER

    def of_UnaryOp(self, node: ast.UnaryOp) -> Kind:
        kind = self.value(node.operand)
        if isinstance(node.op, ast.Invert) and kind in (ID, ANY):
            return kind
        return self.number(node.operand)

    def of_BinOp(self, node: ast.BinOp) -> Kind:
        if isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List):
            self.number(node.right)
            return self.value(node.left)
        return self.of_parts(node)

    def of_IfExp(self, node: ast.IfExp) -> Kind:
        self.number(node.test)
        return self.joined([self.value(node.body), self.value(node.orelse)], node)

    def of_NamedExpr(self, node: ast.NamedExpr) -> Kind:
        kind = self.value(node.value)
        self.assign(node.target, kind)
        return kind

    def of_Tuple(self, node: ast.Tuple) -> Kind:
        return self.container(node, "tuple", *map(self.value, node.elts))

    def of_List(self, node: ast.List) -> Kind:
        return self.container(node, "list", self.joined(map(self.value, node.elts), node))

    def of_Set(self, node: ast.Set) -> Kind:
        return self.container(node, "set", self.joined(map(self.value, node.elts), node))

    def of_Dict(self, node: ast.Dict) -> Kind:
        keys = self.joined((NUMBER if k is None else self.value(k) for k in node.keys), node)
        return self.container(node, "dict", keys, self.joined(map(self.value, node.values), node))

    def of_ListComp(self, node: ast.ListComp) -> Kind:
        self.generators(node.generators)
        return self.container(node, "list", self.value(node.elt))

    of_GeneratorExp = of_ListComp

    def of_SetComp(self, node: ast.SetComp) -> Kind:
        self.generators(node.generators)
        return self.container(node, "set", self.value(node.elt))

    def of_DictComp(self, node: ast.DictComp) -> Kind:
        self.generators(node.generators)
        return self.container(node, "dict", self.value(node.key), self.value(node.value))

    def generators(self, nodes: Iterable[ast.comprehension]) -> None:
        for node in nodes:
            self.assign(node.target, self.elements(self.value(node.iter), node.iter))
            for condition in node.ifs:
                self.number(condition)

    def of_Subscript(self, node: ast.Subscript) -> Kind:
        kind = self.value(node.value)
        name = kind[0]
        if kind == ANY:
            self.value(node.slice)
            return ANY
        if name == "dict":
            if not _comparable(kind[1], self.value(node.slice)):
                raise self.fail(node)
            return Kind(kind[2])
        self.number(node.slice)
        if name in ("list", "array"):
            return kind if isinstance(node.slice, ast.Slice) else Kind(kind[1])
        place = literal_int(node.slice)
        if name == "tuple" and place is not None and -len(kind) < place < len(kind) - 1:
            return Kind(kind[1:][place])
        if name == "tuple" and not isinstance(node.slice, ast.Slice):
            return self.joined(kind[1:], node)
        self.fits(kind, NUMBER, node)
        return NUMBER

    # Calls. -------------------------------------------------------------------------------

    def of_Call(self, node: ast.Call) -> Kind:
        frame, spec, method = self.frame, self.spec, self.frame.method
        if isinstance(node.func, ast.Attribute):
            if frame.me and method.is_self(node.func):
                return self.of_self(node, node.func.attr)
            base = node.func.value
            if frame.me and method.is_self(base) and base.attr in spec.aggregators:
                return self.contributed(node, spec.aggregators[base.attr])
            if not isinstance(self.resolved(node.func.value), ModuleType):
                return self.of_container(node, node.func)
        function = self.resolved(node.func)
        kinds = [self.value(a) for a in node.args]
        if isinstance(function, FunctionType) and not node.keywords:
            called = self.function(function)
            if called.tree is not None and len(kinds) <= len(called.arguments):
                return self.call(called, tuple(kinds))
        known = self.of_builtin(node, function, kinds)
        return self.of_parts(node) if known is None else known

    def function(self, function: FunctionType) -> Method:
        if function not in self.functions:
            code = function.__code__
            self.functions[function] = Method(
                function.__name__, function, function_tree(function), code.co_filename,
                code.co_firstlineno,
            )  # fmt: skip
        return self.functions[function]

    def of_builtin(self, node: ast.Call, function: Any, kinds: list[Kind]) -> Kind | None:
        """Return the kind of what a function of Python or NumPy returns, if it takes ids."""
        for keyword in node.keywords:
            self.number(keyword.value)
            if keyword.arg != "reverse" and any(map(_holds_id, kinds)):
                raise self.fail(node)
        if not kinds:
            return next((kind for made, kind in _EMPTY if made is function), None)
        first = kinds[0]
        if function is len and first != ID:
            return NUMBER
        if function is hash and _holds_id(first):
            raise self.fail(node, _HASHED)
        if function in (min, max):
            one = self.elements(first, node, ordered=False) if len(kinds) == 1 else ANY
            kind = one if len(kinds) == 1 else self.joined(kinds, node)
            if not _comparable(kind, kind):
                raise self.fail(node)
            return kind
        if function is zip or function is enumerate:
            parts = [self.elements(k, node) for k in (kinds if function is zip else kinds[:1])]
            parts = parts if function is zip else [NUMBER, *parts]
            return self.container(node, "list", self.container(node, "tuple", *parts))
        if len(kinds) == 1 and function in (list, reversed, set, sorted, tuple):
            part = self.elements(first, node, ordered=function not in (set, sorted))
            return self.container(node, "set" if function is set else "list", part)
        if len(kinds) == 1 and function in (np.array, np.sort, np.unique) and _holds_id(first):
            if first[0] in ("list", "array") and first[1] == ID:
                return ARRAY
        return None

    def of_self(self, node: ast.Call, name: str) -> Kind:
        """A call of a method of `self`."""
        spec = self.spec
        kinds = [self.value(a) for a in node.args]
        if name in spec.methods:
            return self.call(spec.methods[name], tuple(kinds))
        if name in ("emit", "addTarget", "removeTarget", "edges_to") and kinds:
            if kinds[0] not in (ID, TARGET, ANY):
                raise self.fail(node, _AS_NUMBER if _holds_id(kinds[0]) else _AS_ID)
            del kinds[0]
        messages = NUMBER if spec.algebra is None else _declared(spec.algebra)
        for kind in [*kinds, *(self.value(k.value) for k in node.keywords)]:
            self.fits(kind, messages if name in ("emit", "emitAll") else NUMBER, node)
        return NUMBER

    def contributed(self, node: ast.Call, algebra: Algebra) -> Kind:
        wanted = _declared(algebra)
        for argument in node.args:
            self.fits(self.value(argument), wanted, argument)
        if wanted == ID and algebra.kind not in ("min", "max"):
            raise self.fail(node, f"ids are strings, and {algebra} may use them as numbers")
        return NUMBER

    def of_container(self, node: ast.Call, function: ast.Attribute) -> Kind:
        """A call of a method of a list, set or dict."""
        kind, name = self.value(function.value), function.attr
        kinds = [self.value(a) for a in node.args]
        for keyword in node.keywords:
            self.number(keyword.value)
        if kind == ANY:
            return ANY
        container = kind[0]
        if kinds and (container, name) in (("list", "append"), ("set", "add")):
            self.grow(function.value, self.container(node, container, kinds[0]))
            return NUMBER
        if container == "dict" and name in ("keys", "values", "items"):
            parts = {"keys": kind[1], "values": kind[2]}
            pair = self.container(node, "tuple", *kind[1:])
            return self.container(node, "list", parts.get(name, pair))
        if container == "dict" and name in ("get", "pop") and kinds:
            if _comparable(kind[1], kinds[0]):
                return self.joined([kind[2], *kinds[1:]], node)
        elif name in ("remove", "discard", "index", "count") and len(kinds) == 1:
            if _comparable(self.elements(kind, node, ordered=False), kinds[0]):
                return NUMBER
        elif (container, name) == ("list", "pop"):
            for other in kinds:
                self.fits(other, NUMBER, node)
            return Kind(kind[1])
        elif not kinds and name in ("clear", "copy", "reverse", "sort") and len(kind) > 1:
            return kind if name == "copy" else NUMBER
        for other in (kind, *kinds):
            self.fits(other, NUMBER, node)
        return NUMBER
