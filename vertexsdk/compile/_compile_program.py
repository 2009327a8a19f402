"""Decide class by class whether a program runs compiled, and say why where it does not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from vertexsdk.compile._diagnostics import failure_text
from vertexsdk.compile._method_kernels import KernelText, kernel_text
from vertexsdk.compile._rewrite import CannotCompile
from vertexsdk.compile.plan import Plan, shape_of
from vertexsdk.errors import ProgramError, VertexError
from vertexsdk.program.algebra import dtype_of
from vertexsdk.program.program import ClassSpec, compiled_params

Compiled = bool | Literal["require"]


class InterpretedWarning(UserWarning):
    """A program runs interpreted; the text names the line and the reason."""


def compile_program(
    plan: Plan,
    compiled: Compiled,
    strings: bool,
    say: Callable[[str], None],
    precompile: Callable[[Plan], None],
) -> Plan:
    """Return the plan with its classes' kernels, or without where they are to be interpreted.

    Args:
        plan: of a program whose methods are to be compiled.
        compiled: False interprets; "require" refuses what does not compile.
        strings: whether vertex ids are strings.
        say: told what goes on, for a progress bar.
        precompile: compiles every kernel of a plan; what it raises says what does not compile.

    Raises:
        ProgramError: `compiled` is "require" and something does not compile.
    """
    if not compiled:
        return plan
    reason, texts = "", tuple[KernelText, ...]()
    for light in (True, False):
        try:
            if plan.program.algebra is None:
                raise CannotCompile.in_class(
                    plan.program.classes[0],
                    "programs without messages = ... (events level) are interpreted",
                )
            if plan.program.mixed:
                raise CannotCompile.in_class(
                    plan.program.classes[0],
                    "the classes of this program gather different kinds of message",
                )
            native = replace(plan, shape=shape_of(plan.program.classes, native=True))
            texts = tuple(_text(spec, native, strings, light) for spec in plan.program.classes)
            native = replace(native, kernels=texts)
            say("compiling")
            precompile(native)
            return native
        except CannotCompile as error:
            reason = str(error)
            break
        except VertexError:
            raise
        except Exception as error:  # Numba raises anything; without counting: "NRT required"
            reason = failure_text(error, texts, plan.program.classes)
    if compiled == "require":
        raise ProgramError(f'{reason}; compiled="require" forbids to interpret it')
    warnings.warn(f"{reason}; this program runs interpreted", InterpretedWarning, stacklevel=6)
    return replace(plan, kernels=tuple(None for _ in plan.program.classes))


def _text(spec: ClassSpec, plan: Plan, strings: bool, light: bool) -> KernelText:
    algebra = spec.algebra
    if spec.facts.source_missing:
        raise CannotCompile.in_class(spec, spec.facts.source_missing)
    if algebra is not None and algebra.dtype == object:
        raise CannotCompile.in_class(spec, f"messages are {algebra}, no numbers", "messages")
    for name, f in spec.states.items():
        if dtype_of(f.type) == object:
            raise CannotCompile.in_class(
                spec, f"field {name} is no number ({f.type.__name__})", name
            )
    for name, a in spec.aggregators.items():
        if a.dtype == object or a.size is not None:
            raise CannotCompile.in_class(spec, f"aggregator {name} is no number", name)
    return kernel_text(
        spec, params=compiled_params(spec, plan.params).keys(), shape=plan.shape, strings=strings,
        tolerance=plan.tolerance > 0, light=light,
    )  # fmt: skip
