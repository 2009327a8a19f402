"""The kernels that this process has compiled, so that later runs need not generate them again.

The text of a class's kernels follows from the class, from a few choices of the plan, and from the
values of the global names in its methods, which may have changed by the next run. The key of the
cache has them all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba import typeof

from vertexsdk.compile._compile_program import Compiled, compile_program
from vertexsdk.compile._method_kernels import KernelText
from vertexsdk.compile.plan import Plan
from vertexsdk.program.program import ClassSpec, compiled_params

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
    """Return a plan with its kernels, from the cache where an equal plan was compiled before.

    Arguments and errors are those of `compile_program`.
    """
    alive: list[Any] = [plan.program.classes]
    key = (
        *(id(spec) for spec in plan.program.classes), plan.program.mixed,
        plan.shape, plan.tolerance > 0, plan.threads, len(plan.topologies), plan.each,
        strings, bool(compiled),
        *(str(typeof(x)) for s in plan.program.classes
          for x in compiled_params(s, plan.params).values()),
        *(part for spec in plan.program.classes for part in _environment(spec, alive)),
    )  # fmt: skip
    cached = _known.get(key)
    if cached is None:
        compiled_now = compile_program(plan, compiled, strings, say, precompile)
        if compiled_now.kernels and all(kernel is not None for kernel in compiled_now.kernels):
            if len(_known) >= _MOST:
                _known.clear()
            _known[key] = (compiled_now.shape, compiled_now.kernels, alive)
        return compiled_now
    return replace(plan, shape=cached[0], kernels=cached[1])


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
