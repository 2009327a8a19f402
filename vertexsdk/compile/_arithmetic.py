"""The arithmetic of methods: that of int64 and IEEE floats, the same compiled and interpreted.

Numba's operators have it, but for a few whose result is arbitrary at the edge of their range; those
are replaced in compiled methods. Interpreted ones have all operators replaced by the functions
below. The rules, as `docs/guide.md` states them: ints wrap around modulo 2**64; `/`, `//` and
`%` by zero raise; other float operations return inf or NaN; conversions out of range raise.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import math
import operator
import sys
import types
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from vertexsdk.compile import _intrinsics as intrinsics
from vertexsdk.program.algebra import INT_MIN, to_int64, wrapped
from vertexsdk.program.program import ClassSpec
from vertexsdk.program.syntax import function_tree

_FUNCTIONS = ("add", "as_whole", "ceil", "draw", "floor", "floordiv", "index", "item", "lshift",
              "mul", "pow", "rounded", "rshift", "sub", "trunc")  # fmt: skip
_OPERATORS = "__int64__"  # what interpreted methods call the operators below
_FUNCTION = "int64_of_"  # how the names of functions start that methods call
_INTERPRETED: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
}
_COMPILED = {op: f"_{name}" for op, name in _INTERPRETED.items() if name in _FUNCTIONS}
_BITWISE: dict[type[ast.operator], str] = {ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor"}
_CONVERSIONS = {int: "as_whole", math.floor: "floor", math.ceil: "ceil", math.trunc: "trunc",
                round: "rounded"}  # fmt: skip
Resolve = Callable[[str], Any]


class _Arithmetic(ast.NodeTransformer):
    """Replaces operators by calls; `resolve` gives the value of a name, or None."""

    resolve: Resolve

    def operation(self, node: ast.BinOp | ast.AugAssign, place: str) -> str | None:
        """Return the name of the function in place of an operator; None where that stays."""
        raise NotImplementedError

    def call(self, name: str, *arguments: ast.expr) -> ast.Call:
        """Return a call of one of the functions in place of operators."""
        raise NotImplementedError

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is not int or node.value == to_int64(node.value):
            return node
        return ast.copy_location(_constant(node.value), node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        name = self.operation(node, "")
        if name is None:
            return self.generic_visit(node)
        call = self.call(name, self.visit(node.left), self.visit(node.right))
        return ast.copy_location(call, node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        name = self.operation(node, "i")
        if name is None or any(isinstance(n, ast.Call) for n in ast.walk(node.target)):
            return self.generic_visit(node)  # a call in the target must not be made twice
        value = copy.deepcopy(node.target)
        value.ctx = ast.Load()
        call = self.call(name, self.visit(value), self.visit(node.value))
        return _at(ast.Assign([self.visit(node.target)], call), node)

    def function(self, node: ast.expr) -> Any:
        """Return what a call calls, if that is a function of Python's or of `math`."""
        if isinstance(node, ast.Name):
            value = self.resolve(node.id)
            value = getattr(builtins, node.id, None) if value is None else value
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = self.resolve(node.value.id)
            value = getattr(math, node.attr, None) if module is math else None
        else:
            return None
        known = value is int or getattr(value, "__module__", "") in ("builtins", "math")
        return value if known and callable(value) else None


def _constant(value: int) -> ast.expr:
    value = to_int64(value)
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def literal_int(node: ast.AST) -> int | None:
    """Return the value of an int literal, which may have a sign or be inverted."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Invert)):
        value = literal_int(node.operand)
        sign = -1 if isinstance(node.op, ast.USub) else 0
        return None if value is None else to_int64(-value - 1 - sign)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return to_int64(node.value)
    return None


def _slice_call(node: ast.expr) -> ast.expr:
    """Return a slice as an expression; other expressions stay."""
    if not isinstance(node, ast.Slice):
        return node
    ends = [end or ast.Constant(None) for end in (node.lower, node.upper)]
    step = [] if node.step is None else [node.step]
    call: ast.expr = _at(ast.Call(ast.Name("slice", ast.Load()), [*ends, *step], []), node)
    return call


def arithmetic_imports(text: str) -> str:
    """Return the lines of a module that define what the methods in its text call here."""
    names = [n for n in _FUNCTIONS if f"_{n}(" in text]
    lines = [f"from vertexsdk.compile._intrinsics import {n} as _{n}\n" for n in names]
    lines += [f"_INT_MIN = np.int64({INT_MIN})\n"] if "_INT_MIN" in text else []
    return "".join(lines)


def containers(tree: ast.AST) -> frozenset[str]:
    """Return the names to which a function assigns lists, dicts or sets that it makes itself."""
    makers = (ast.List, ast.ListComp, ast.Dict, ast.DictComp, ast.Set, ast.SetComp)
    return frozenset(
        to.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and (isinstance(node.value, makers) or ast.unparse(node.value) in ("list()", "dict()"))
        for to in node.targets
        if isinstance(to, ast.Name)
    )


class CompiledArithmetic(_Arithmetic):
    """Replaces what Numba leaves undefined by the functions of `_intrinsics`.

    Attributes:
        containers: the names of lists and dicts, which check their indexes themselves.
    """

    containers: frozenset[str] = frozenset()
    _bases = 0  # of stores that must be evaluated once

    def in_range(self, node: ast.Subscript) -> bool:
        """Return whether an index is certainly within an array."""
        return False

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """Have the index of an array checked; slices need not be, as they end where it ends."""
        base, k = node.value, node.slice
        is_container = isinstance(base, ast.Name) and base.id in self.containers
        if is_container or isinstance(k, ast.Slice) or self.in_range(node):
            return self.generic_visit(node)
        x = self.visit(base)
        parts = k.elts if isinstance(k, ast.Tuple) else [k]
        checked = [self.visit(_slice_call(part)) for part in parts]
        k = ast.Tuple(checked, ast.Load()) if isinstance(k, ast.Tuple) else checked[0]
        if isinstance(node.ctx, ast.Load):
            return _at(self.call("_item", x, k), node)
        again = copy.deepcopy(x)
        if any(isinstance(part, ast.Call) for part in ast.walk(base)):
            self._bases += 1
            again = ast.Name(f"_a{self._bases}", ast.Load())
            x = ast.NamedExpr(ast.Name(again.id, ast.Store()), x)
        return _at(ast.Subscript(x, self.call("_index", again, k), node.ctx), node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """Compute with literals here: the compiler refuses one that is too large."""
        new = super().visit_BinOp(node)
        sides = new.args if isinstance(new, ast.Call) else (new.left, new.right)
        a, b = map(literal_int, sides)
        operator_ = (_INTERPRETED | _BITWISE).get(type(node.op))
        if a is None or b is None or operator_ in (None, "truediv"):
            return new
        try:
            folded = _at(_constant(getattr(_namespace, operator_ or "")(a, b)), node)
        except ArithmeticError:
            return new
        return self.visit(folded)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Wrap a literal to int64; INT_MIN gets a name, as Numba takes the literal for a uint64."""
        new = super().visit_Constant(node)
        return new if new is node else self.visit(new)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = literal_int(node)
        if value == INT_MIN:
            return _at(ast.Name("_INT_MIN", ast.Load()), node)
        return self.generic_visit(node) if value is None else _at(_constant(value), node)

    def operation(self, node: ast.BinOp | ast.AugAssign, place: str) -> str | None:
        """Return the function in place of an operator; Numba multiplies for a literal exponent."""
        left, right = (
            (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
        )
        if isinstance(node.op, ast.Pow) and isinstance(right, ast.Constant):
            return None
        floats = self.is_float(left) or self.is_float(right)
        return None if floats else _COMPILED.get(type(node.op))

    def is_float(self, node: ast.AST) -> bool:
        """Return whether an expression is certainly a float, so that its operators are Numba's."""
        match node:
            case ast.BinOp():
                parts = self.is_float(node.left) or self.is_float(node.right)
                return parts or isinstance(node.op, ast.Div)
            case ast.UnaryOp(operand=part) | ast.Subscript(value=part):
                return self.is_float(part)
            case ast.Call():
                function = self.function(node.func)
                if function in (abs, min, max):
                    return any(map(self.is_float, node.args))
                integer = function in _CONVERSIONS or function is math.gcd
                return not integer and getattr(function, "__module__", "") == "math"
            case ast.Constant():
                return type(node.value) is float
            case ast.Name():
                return type(self.resolve(node.id)) is float
        return False

    def call(self, name: str, *arguments: ast.expr) -> ast.Call:
        """Return a call of one of the functions in place of operators."""
        return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])

    def visit_Call(self, node: ast.Call) -> Any:
        function = self.function(node.func)
        if function in _CONVERSIONS and len(node.args) == 1 and not node.keywords:
            call = self.call(f"_{_CONVERSIONS[function]}", self.visit(node.args[0]))
            return ast.copy_location(call, node)
        return self.generic_visit(node)


class _InterpretedArithmetic(_Arithmetic):
    def __init__(self, resolve: Resolve, functions: Mapping[str, str]) -> None:
        self.resolve, self.functions = resolve, functions

    def operation(self, node: ast.BinOp | ast.AugAssign, place: str) -> str | None:
        name = _INTERPRETED.get(type(node.op))
        return None if name is None else place + name

    def call(self, name: str, *arguments: ast.expr) -> ast.Call:
        module = ast.Name(_OPERATORS, ast.Load())
        return ast.Call(ast.Attribute(module, name, ast.Load()), list(arguments), [])

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name(self.functions.get(node.id, node.id), node.ctx), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        name = {ast.USub: "neg", ast.Invert: "invert"}.get(type(node.op))
        if name is None:
            return self.generic_visit(node)
        return _at(self.call(name, self.visit(node.operand)), node)

    def visit_Call(self, node: ast.Call) -> Any:
        function = self.function(node.func)
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            function = None
        self.generic_visit(node)
        if function in _CONVERSIONS and len(node.args) == 1:
            return _at(self.call(_CONVERSIONS[function], *node.args), node)
        if function is pow and len(node.args) == 2:
            return _at(self.call("pow", *node.args), node)
        if function in (abs, sum):
            return _at(self.call("wrapped", node.func, *node.args), node)
        if getattr(function, "__module__", "") == "math":
            return _at(self.call("math", node.func, *node.args), node)
        return node


def _at(node: Any, place: ast.AST) -> Any:
    """Give a new node, and what is new in it, the place of the node which it replaces."""
    for part in ast.walk(node):
        if isinstance(part, (ast.expr, ast.stmt)) and not hasattr(part, "lineno"):
            ast.copy_location(part, place)
    return node


# The operators of interpreted methods. --------------------------------------------------------


def _wrapping(op: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        return wrapped(op(a, b))

    return apply


def _scalar(x: Any) -> Any:
    """Return a number of NumPy as Python's."""
    return x.item() if isinstance(x, np.generic) else x


def _dividing(op: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator that raises where it divides a NumPy scalar by zero, as it does others."""

    def apply(a: Any, b: Any) -> Any:
        a, b = _scalar(a), _scalar(b)
        if type(a) is int and type(b) is int and op in (operator.truediv, operator.itruediv):
            return float(a) / float(b)  # as it is compiled: not rounded once, but twice
        return wrapped(op(a, b))

    return apply


def _scalars(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        return function(_scalar(a), _scalar(b))

    return apply


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    return wrapped(function(*arguments))


_UFUNCS = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
           "atan": "arctan", "atanh": "arctanh", "pow": "power"}  # fmt: skip


def _math(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of `math`, which raises where compiled ones return inf or NaN."""
    try:
        return wrapped(function(*arguments))
    except (ValueError, OverflowError):
        name = function.__name__
        ufunc = getattr(np, _UFUNCS.get(name, name), None)
        return math.nan if ufunc is None else float(ufunc(*(float(a) for a in arguments)))


def _invert(x: Any) -> Any:
    return not x if type(x) is bool else ~x


def _operators() -> SimpleNamespace:
    functions: dict[str, Any] = {name: getattr(intrinsics, name) for name in _FUNCTIONS}
    functions |= {f"i{n}": _wrapping(getattr(operator, f"i{n}")) for n in ("add", "sub", "mul")}
    for name in ("truediv", "floordiv", "mod"):
        functions |= {n: _dividing(getattr(operator, n)) for n in (name, f"i{name}")}
    functions |= {name: getattr(operator, name) for name in _BITWISE.values()}
    for name in ("pow", "lshift", "rshift"):
        functions |= dict.fromkeys((name, f"i{name}"), _scalars(functions[name]))
    functions |= {"wrapped": _called, "math": _math, "invert": _invert}
    functions["neg"] = lambda x: to_int64(-x) if type(x) is int else -x
    return SimpleNamespace(**functions)


# Methods with them. ---------------------------------------------------------------------------

Code = tuple[CodeType, FunctionType]  # new code, and the function that it is for


def interpreted_code(spec: ClassSpec) -> dict[str, Code]:
    """Return the methods of a class, and the functions they call, with int64 arithmetic.

    Args:
        spec: the class with its sources. What has none, or is decorated, stays Python's; so do all
            methods of a class with fields or messages that are not numbers, and those of the
            events level.

    Returns:
        By name; a function that is not a method has a name that starts with `int64_of_`.
    """
    numbers = spec.algebra is not None and spec.algebra.dtype != object
    if not numbers or any(f.dtype == object for f in spec.states.values()):
        return {}
    code: dict[str, Code] = {}
    for name, method in spec.methods.items():
        if method.tree is not None:
            _translate(name, method.function, method.tree, code)
    return code


def _translate(
    name: str, function: FunctionType, tree: ast.FunctionDef, into: dict[str, Code]
) -> None:
    if any(getattr(d, "id", "") != "staticmethod" for d in tree.decorator_list):
        return
    names = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def resolve(global_name: str) -> Any:
        if global_name in names:
            return None
        return function.__globals__.get(global_name)

    functions: dict[str, str] = {}
    local = {*function.__code__.co_varnames, *names}
    for part in ast.walk(tree):
        if isinstance(part, ast.Name) and part.id not in local:
            helper = _helper(resolve(part.id), into)
            if helper is not None:
                functions[part.id] = helper
    new = copy.deepcopy(tree)
    new.decorator_list = []
    new.body = [_InterpretedArithmetic(resolve, functions).visit(s) for s in new.body]
    into[name] = (_compiled(new, function), function)


def _compiled(tree: ast.FunctionDef, function: FunctionType) -> CodeType:
    """Compile a function where it is: among the same variables, in the same class."""
    owner = function.__qualname__.split(".")[-2:-1]
    body: list[ast.stmt] = [tree]
    free = [n for n in function.__code__.co_freevars if n != "__class__"]
    if owner and owner[0].isidentifier():
        body = [ast.ClassDef(owner[0], [], [], [tree], [])]
        if owner[0] not in free:  # or the method that names its class would close over this one
            body.insert(0, ast.Global(owner))
    outer = ast.parse(f"def _({', '.join(free)}):\n    pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body = body
    module = ast.fix_missing_locations(ast.Module([outer], []))
    code = compile(module, function.__code__.co_filename, "exec")
    while code.co_name != tree.name:
        code = next(c for c in code.co_consts if isinstance(c, CodeType))
    return code


def _helper(value: Any, into: dict[str, Code]) -> str | None:
    """Translate a function that a method calls, if it is a user's; return its new name."""
    if not isinstance(value, FunctionType):
        return None
    if value.__module__ is None or value.__module__.split(".")[0] in _NOT_USERS:
        return None
    name = f"{_FUNCTION}{value.__module__}.{value.__qualname__}"
    name = "".join(c if c.isalnum() else "_" for c in name)
    if name not in into:
        tree = function_tree(value)
        if tree is None or tree.decorator_list:
            return None
        into[name] = (value.__code__, value)  # for a function that calls itself
        _translate(name, value, tree, into)
    return name


_NOT_USERS = {*sys.stdlib_module_names, "numpy", "numba", "pyspark"} - {"__main__"}
_namespace = _operators()


def interpreted_class(spec: ClassSpec) -> type:
    """Return the class whose methods run where they are interpreted (`interpreted_code`)."""
    spaces: dict[int, dict[str, Any]] = {}
    functions: dict[str, FunctionType] = {}
    for name, (code, original) in spec.code.items():
        space = spaces.get(id(original.__globals__))
        if space is None:
            space = spaces[id(original.__globals__)] = {
                n: wrapped(x) for n, x in original.__globals__.items()
            }
            space[_OPERATORS] = _namespace
        cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
        closure = tuple(cells[n] for n in code.co_freevars)
        function = FunctionType(code, space, original.__name__, original.__defaults__, closure)
        function.__kwdefaults__ = original.__kwdefaults__
        functions[name] = function
    for space in spaces.values():
        space.update({n: f for n, f in functions.items() if n.startswith(_FUNCTION)})
    members: dict[str, Any] = {
        n: to_int64(x) for n in dir(spec.cls)
        if type(x := inspect.getattr_static(spec.cls, n)) is int
    }  # fmt: skip
    for name, function in functions.items():
        static = isinstance(inspect.getattr_static(spec.cls, name, None), staticmethod)
        if not name.startswith(_FUNCTION):
            members[name] = staticmethod(function) if static else function
    if not functions:
        return spec.cls
    new: type = types.new_class(
        spec.cls.__name__, (spec.cls,), {"abstract": True}, lambda space: space.update(members)
    )
    return new
