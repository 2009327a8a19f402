"""Decide class by class whether a program runs compiled, and say why where it does not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from numba.core.errors import NumbaError

from vertexsdk.algebra import dtype_of
from vertexsdk.compile.kernels import KernelText, kernel_text
from vertexsdk.compile.rewrite import CannotCompile
from vertexsdk.compile.warm import compile_plan, failure_text
from vertexsdk.errors import ProgramError
from vertexsdk.plan import Plan, shape_of
from vertexsdk.program import ClassSpec

__all__ = ["InterpretedWarning", "with_kernels"]

Compiled = bool | Literal["require"]


class InterpretedWarning(UserWarning):
    """A program runs interpreted; the text names the line and the reason."""


def with_kernels(plan: Plan, compiled: Compiled, strings: bool, say: Callable[[str], None]) -> Plan:
    """Return the plan with its classes' kernels, or without where they are to be interpreted.

    Raises:
        ProgramError: `compiled` is "require" and something does not compile.
    """
    if not compiled:
        return plan
    reason = ""
    for light in (True, False):
        try:
            if plan.program.algebra is None:
                raise _no_algebra(plan.program.classes[0])
            if plan.program.mixed:
                first = plan.program.classes[0]
                raise CannotCompile(
                    next(iter(first.methods.values())), None,
                    "the classes of this program gather different kinds of message",
                )  # fmt: skip
            native = replace(plan, shape=shape_of(plan.program.classes, native=not plan.trims))
            texts = tuple(_text(spec, native, strings, light) for spec in plan.program.classes)
            native = replace(native, kernels=texts)
            say("compiling")
            compile_plan(native)
            return native
        except CannotCompile as error:
            reason = str(error)
            break
        except (NumbaError, RuntimeError) as error:  # without counting: "NRT required"
            first = plan.program.classes[0]
            reason = f"{first.file}:{first.line}: {first.name}: {failure_text(error)}"
    if compiled == "require":
        raise ProgramError(f'{reason}; compiled="require" forbids to interpret it')
    warnings.warn(f"{reason}; this program runs interpreted", InterpretedWarning, stacklevel=5)
    return replace(plan, kernels=tuple(None for _ in plan.program.classes))


def _no_algebra(spec: ClassSpec) -> CannotCompile:
    method = next(iter(spec.methods.values()))
    return CannotCompile(
        method, None, "programs without messages = ... (events level) are interpreted"
    )


def _text(spec: ClassSpec, plan: Plan, strings: bool, light: bool) -> KernelText:
    method = next(iter(spec.methods.values()))
    algebra = spec.algebra
    if spec.source_missing:
        raise CannotCompile(method, None, spec.source_missing)
    if algebra is not None and algebra.dtype == object:
        raise CannotCompile(method, None, f"messages are {algebra}, no numbers")
    for name, f in spec.states.items():
        if dtype_of(f.type) == object:
            raise CannotCompile(method, None, f"field {name} is no number ({f.type.__name__})")
    for name, a in spec.aggregators.items():
        if a.dtype == object or a.size is not None:
            raise CannotCompile(method, None, f"aggregator {name} is no number")
    return kernel_text(
        spec, shape=plan.shape, strings=strings, tolerance=plan.tolerance > 0, light=light
    )
