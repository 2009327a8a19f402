"""Kernels that this process has compiled already, for the runs that follow.

The text of a class's kernels follows from its analysis, from a few choices of the plan, and from
what the names in its methods stand for: numbers and functions of the modules around it, which may
be others in the next run. All that is compared here; what is the same need not be rewritten again
only to find that the text is known.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from vertexsdk.compile._compile_program import Compiled, with_kernels
from vertexsdk.compile._method_kernels import KernelText
from vertexsdk.compile.plan import Plan
from vertexsdk.program.program import ClassSpec

__all__ = ["compiled_plan"]

_MOST = 64
_Known = tuple[str, tuple[KernelText | None, ...], list[Any]]
_known: dict[Hashable, _Known] = {}  # the list keeps alive what a key has the id of


def compiled_plan(
    plan: Plan,
    compiled: Compiled,
    strings: bool,
    say: Callable[[str], None],
    precompile: Callable[[Plan], None],
) -> Plan:
    """Do as `with_kernels`, at once where an equal plan was compiled before."""
    held: list[Any] = [plan.program.classes]
    key = (
        *(id(spec) for spec in plan.program.classes), plan.program.mixed,
        plan.shape, plan.tolerance > 0, plan.threads, len(plan.topologies), plan.each, plan.trims,
        plan.warm is None, strings, bool(compiled),
        *(part for spec in plan.program.classes for part in _around(spec, held)),
    )  # fmt: skip
    found = _known.get(key)
    if found is None:
        made = with_kernels(plan, compiled, strings, say, precompile)
        if made.kernels and all(kernel is not None for kernel in made.kernels):
            if len(_known) >= _MOST:
                _known.clear()
            _known[key] = (made.shape, made.kernels, held)
        return made
    return replace(plan, shape=found[0], kernels=found[1])


def _around(spec: ClassSpec, held: list[Any]) -> Iterator[Hashable]:
    """What the names in a class's functions stand for now."""
    algebras = [spec.algebra, *spec.aggregators.values()]
    functions: list[Any] = [method.function for method in spec.methods.values()]
    functions += [f for a in algebras if a is not None for f in (a.combine, a.inverse)]
    seen: set[int] = set()
    for function in functions:
        yield from _meaning(function, spec.cls, held, seen)


def _meaning(value: Any, cls: type, held: list[Any], seen: set[int]) -> Iterator[Hashable]:
    """A value as something to compare; of a function, all that its names stand for too."""
    value = getattr(value, "py_func", value)
    if isinstance(value, (bool, int, float, str, np.generic)):
        yield (type(value), repr(value))
    elif isinstance(value, tuple):
        for item in value:
            yield from _meaning(item, cls, held, seen)
    elif isinstance(value, np.ndarray):
        yield (str(value.dtype), value.shape, value.tobytes() if value.size <= 4096 else id(value))
        held.append(value)
    else:
        yield id(value)
        held.append(value)
        if isinstance(value, FunctionType) and id(value) not in seen:
            seen.add(id(value))
            held.append(value.__code__)
            yield id(value.__code__)
            for named in _named(value, cls):
                yield from _meaning(named, cls, held, seen)


def _named(function: FunctionType, cls: type) -> Iterator[Any]:
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
