"""Compile a program if it can be, say why if not, and keep the kernels compiled so far.

The text of a class's kernels follows from the class, from a few choices of the plan, and from the
values of the global names in its methods, which may have changed by the next run. The key of the
cache has them all.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any, Literal

import numpy as np
from numba import typeof

from vertexsdk.compile._method_kernels import KernelText, kernel_text
from vertexsdk.compile._rewrite import CannotCompile
from vertexsdk.compile.module_cache import load_module
from vertexsdk.compile.plan import Plan, shape_of
from vertexsdk.errors import ProgramError, VertexError
from vertexsdk.program.algebra import dtype_of
from vertexsdk.program.program import ClassSpec, Program, compiled_params
from vertexsdk.program.warn import InterpretedWarning, split_place, warn_at

Compiled = bool | Literal["require"]
Precompile = Callable[[Plan, Callable[[str], None]], None]

_MOST = 64
_Known = tuple[str, tuple[KernelText | None, ...], list[Any]]
_known: dict[Hashable, _Known] = {}  # the list keeps alive what a key has the id of


def compiled_plan(
    plan: Plan,
    compiled: Compiled,
    strings: bool,
    say: Callable[[str], None],
    precompile: Precompile,
) -> Plan:
    """Return a plan with its kernels, or without where a class is to be interpreted.

    They come from the cache where an equal plan was compiled before.

    Args:
        plan: the plan of a program whose methods are to be compiled.
        compiled: False interprets; "require" refuses what does not compile.
        strings: whether vertex ids are strings.
        say: called with what is being done, for a progress bar.
        precompile: compiles every kernel of a plan, and tells `say` which; what it raises says what
            does not compile.

    Raises:
        ProgramError: `compiled` is "require" and something does not compile.
    """
    if not compiled:
        return plan
    alive: list[Any] = [plan.program.classes]
    key = (
        *(id(spec) for spec in plan.program.classes), plan.program.mixed,
        plan.shape, plan.tolerance > 0, plan.threads, len(plan.topologies), plan.each,
        strings,
        *(str(typeof(x)) for s in plan.program.classes
          for x in compiled_params(s, plan.params).values()),
        *(part for spec in plan.program.classes for part in _environment(spec, alive)),
    )  # fmt: skip
    if key not in _known:
        reason, native = _compile(plan, strings, say, precompile)
        if native is None:
            if compiled == "require":
                raise ProgramError(f'{reason}; compiled="require" forbids to interpret it')
            file, line, what = split_place(reason)
            warn_at(file, line, f"{what}; this program runs interpreted", InterpretedWarning)
            return replace(plan, kernels=tuple(None for _ in plan.program.classes))
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = (native.shape, native.kernels, alive)
    shape, kernels, _ = _known[key]
    return replace(plan, shape=shape, kernels=kernels)


def _compile(
    plan: Plan, strings: bool, say: Callable[[str], None], precompile: Precompile
) -> tuple[str, Plan | None]:
    """Return why a plan does not compile, or the plan with its kernels."""
    reason, texts = "", tuple[KernelText, ...]()
    for light in (True, False):
        try:
            _check_declarations(plan.program)
            native = replace(plan, shape=shape_of(plan.program.classes, native=True))
            texts = tuple(_text(spec, native, strings, light) for spec in plan.program.classes)
            native = replace(native, kernels=texts)
            precompile(native, say)
            return "", native
        except CannotCompile as error:
            reason = str(error)
            break
        except VertexError:
            raise
        except Exception as error:  # Numba raises anything; without counting: "NRT required"
            reason = failure_text(error, texts, plan.program.classes)
    return reason, None


def why_interpreted(plan: Plan, precompile: Precompile) -> str | None:
    """Return why a plan does not compile; None where it does.

    Args:
        plan: as for `compiled_plan`.
        precompile: as for `compiled_plan`.
    """
    reason, native = _compile(plan, False, lambda _: None, precompile)
    return reason if native is None else None


def _check_declarations(program: Program) -> None:
    if program.algebra is None:
        raise CannotCompile.in_class(
            program.classes[0], "programs without messages = ... (events level) are interpreted"
        )
    if program.mixed:
        raise CannotCompile.in_class(
            program.classes[0], "the classes of this program gather different kinds of message"
        )
    for spec in program.classes:
        _check_class(spec)


def _check_class(spec: ClassSpec) -> None:
    algebra = spec.algebra
    if spec.facts.source_missing:
        raise CannotCompile.in_class(spec, spec.facts.source_missing)
    if algebra is not None and algebra.dtype == object:
        raise CannotCompile.in_class(spec, f"messages are {algebra}, no numbers", "messages")
    for name, f in spec.states.items():
        if dtype_of(f.type) == object:
            raise CannotCompile.in_class(
                spec, f"field {name} is not a number ({f.type.__name__})", name
            )
    for name, a in spec.aggregators.items():
        if a.dtype == object or a.size is not None:
            raise CannotCompile.in_class(spec, f"aggregator {name} is not a number", name)


def _text(spec: ClassSpec, plan: Plan, strings: bool, light: bool) -> KernelText:
    return kernel_text(
        spec, params=compiled_params(spec, plan.params).keys(), shape=plan.shape, strings=strings,
        tolerance=plan.tolerance > 0, light=light,
    )  # fmt: skip


def _environment(spec: ClassSpec, alive: list[Any]) -> Iterator[Hashable]:
    """The current values of the names in a class's functions, as something to compare."""
    algebras = [spec.algebra, *spec.aggregators.values()]
    functions: list[Any] = [method.function for method in spec.methods.values()]
    functions += [f for a in algebras if a is not None for f in (a.combine, a.inverse)]
    seen: set[int] = set()
    for function in functions:
        yield from _identity_of(function, spec.cls, alive, seen)


def _identity_of(value: Any, cls: type, alive: list[Any], seen: set[int]) -> Iterator[Hashable]:
    """A value as something to compare; for a function with the values of its names too."""
    value = getattr(value, "py_func", value)
    if isinstance(value, (bool, int, float, str, np.generic)):
        yield (type(value), repr(value))
    elif isinstance(value, tuple):
        for item in value:
            yield from _identity_of(item, cls, alive, seen)
    elif isinstance(value, np.ndarray):
        yield (str(value.dtype), value.shape, value.tobytes() if value.size <= 4096 else id(value))
        alive.append(value)
    else:
        yield id(value)
        alive.append(value)
        if isinstance(value, FunctionType) and id(value) not in seen:
            seen.add(id(value))
            alive.append(value.__code__)
            yield id(value.__code__)
            for named in _referenced(value, cls):
                yield from _identity_of(named, cls, alive, seen)


def _referenced(function: FunctionType, cls: type) -> Iterator[Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for _, cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            yield None
    for name in _names(function.__code__):
        yield function.__globals__.get(name)
        constant = inspect.getattr_static(cls, name, None)
        yield constant if isinstance(constant, (bool, int, float)) else None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


# Why methods do not compile: a line of the user's own file, and a short reason.
#
# Numba's errors are about the generated module. Its lines are mapped to those they were generated
# from, and its types and functions get their names in Python.

_PLACE = re.compile(r'(vertexsdk_kernels_\w+)\.py"?(?:, line | \()(\d+)')
_TYPES = {
    "float64": "float", "float32": "float", "int64": "int", "int32": "int", "uint64": "int",
    "bool": "bool", "boolean": "bool", "unicode_type": "str", "none": "None",
}  # fmt: skip
_KINDS = {
    "array": "array", "readonly array": "array", "list": "list", "reflected list": "list",
    "ListType": "list", "DictType": "dict", "set": "set", "reflected set": "set",
    "Tuple": "tuple", "UniTuple": "tuple",
}  # fmt: skip
_OPERATORS = {
    "add": "+", "iadd": "+", "sub": "-", "isub": "-", "mul": "*", "imul": "*", "truediv": "/",
    "itruediv": "/", "floordiv": "//", "ifloordiv": "//", "mod": "%", "pow": "**", "eq": "==",
    "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and_": "&", "or_": "|", "xor": "^",
    "lshift": "<<", "rshift": ">>", "getitem": "[]", "static_getitem": "[]", "contains": "in",
}  # fmt: skip


def failure_text(
    error: Exception, texts: Sequence[KernelText], classes: Sequence[ClassSpec]
) -> str:
    """Return `file:line: method: reason` for an error of compiling these classes."""
    message = str(error)
    modules = {load_module(t.source).__name__: k for k, t in enumerate(texts)}
    first = classes[0]
    where = f"{first.file}:{first.line}: {first.name}"
    for module, line in _PLACE.findall(message):
        if module not in modules:
            continue
        k = modules[module]
        where = f"{classes[k].file}:{classes[k].line}: {classes[k].name}"
        name, below = _function(texts[k].source, int(line))
        if name.startswith("_contribute_"):
            return f"{where}: {name[len('_contribute_') :]}.contribute: {_reason(error)}"
        if name in texts[k].places:
            file, method, lines = texts[k].places[name]
            if below < len(lines):
                where = f"{file}:{lines[below]}: {method}"
                break
    return f"{where}: {_reason(error)}"


def _function(source: str, line: int) -> tuple[str, int]:
    """The function that a line of the source is in, and the line's number in its body."""
    lines = source.splitlines()[:line]
    for above, text in enumerate(reversed(lines)):
        match = re.match(r"def (\w+)\(", text)
        if match:
            return match.group(1), above - 1
    return "", 0


def _reason(error: Exception) -> str:
    message = str(error)
    match = re.search(r"TypingError: a (.+) is assigned to an? (\w+); (.*)", message)
    if match:
        return f"a {_python_type(match.group(1))} is assigned to {match.group(2)}; {match.group(3)}"
    match = re.search(r"Cannot unify (\S.*) and (\S.*) for '([^']*)'", message)
    if match:
        name = re.sub(r"^U_|\.\d+$", "", match.group(3))
        name = "a value" if name.startswith(("_", "$")) else name
        types = sorted(_python_type(match.group(k)) for k in (1, 2))
        return f"{name} is {types[0]} here and {types[1]} there: give it one type"
    if re.search(r"Type of variable '[^']*' cannot be determined", message):
        return "the type of a value cannot be determined"
    match = re.search(r"No implementation of function .*\s+>>> (\w+)\((.*)\)\s*\n", message)
    if match:
        name, types = match.group(1), [_python_type(t) for t in _arguments(match.group(2))]
        element = re.search(r"array\((\w+)", match.group(2))
        if name in ("setitem", "static_setitem") and element:
            if "readonly" in match.group(2):
                return "a read-only array is written to"
            return f"a {types[-1]} is assigned to a {_python_type(element.group(1))}"
        if name in _OPERATORS:
            return f"{_OPERATORS[name]} of {' and '.join(types)} does not compile"
        return f"{name} of {' and '.join(types) or 'nothing'} does not compile"
    skip = ("Failed in", "During:", "File ", "def ", "^", "<", "---", "This error", "Overload")
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    useful = [line for line in lines if not line.startswith(skip)]
    line = (useful or lines or [type(error).__name__])[0].lstrip("- ")
    line = re.split(r",? (?:operation|location):|\.? Raised from |, raised from ", line)[0]
    line = re.sub(r"\S*vertexsdk_kernels_\S*", "", re.sub(r"\bU_(?=\w)", "", line))
    return re.sub(r"'[_$][^']*'", "a value", line).strip()  # names of the generated code


def _arguments(text: str) -> list[str]:
    """Split at the commas which are in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


def _python_type(type_: str) -> str:
    """A type of Numba's as Python calls it."""
    type_ = re.sub(r"^OptionalType\((.*)\)$", r"\1", type_)
    literal = re.match(r"Literal\[(\w+)\]", type_)
    if literal:
        return literal.group(1)
    kind = re.match(r"[\w ]+", type_)
    return _TYPES.get(type_) or (_KINDS.get(kind.group()) if kind else None) or type_
