"""The plan of a run: all that a task must know of it, made by the driver and sent to every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile._arithmetic import interpreted_code
from vertexsdk.compile._delivery_kernels import deliver_source
from vertexsdk.compile._method_kernels import KernelText
from vertexsdk.compile._rewrite import CannotCompile
from vertexsdk.compile.module_cache import load_module
from vertexsdk.errors import InputError
from vertexsdk.program.algebra import Algebra
from vertexsdk.program.program import ClassSpec, Program
from vertexsdk.program.vertex import MAIN_LOOP
from vertexsdk.state.address import Address


@dataclass(frozen=True)
class Plan:
    """A program bound to its parameters and to a loaded graph.

    Attributes:
        program: the program, without sources (`shippable`).
        kernels: the generated text per class; None where a class runs interpreted.
        shape: the message layout (`shape_of`).
        params: the value of every parameter.
        tolerance: the change within which a vertex does not scatter.
        threads: number of threads that kernels may use in each partition.
        topologies: the key in shared memory of each partition's topology.
        run: the prefix of the run's keys in shared memory.
        loop: the name under which segments are written.
        sees: the value of `self.loop`.
        seed: seed of `self.random()`.
        forked: it is a branch, so `adapt` is called after `init`.
        store: where versions are written; None if nowhere.
        max_iterations: number of iterations after which the run ends; None for no limit.
        each: a ghost per remote edge, instead of one per remote vertex.
        names: broadcast of the names of string ids, for interpreted methods.
        kinds: the class number for each class code of the vertex file.
        resident: partitions stay in their processes between hops (`Workers`).
        initial: broadcast of the `VertexAttributes` that fields have before `init`, or None.
    """

    program: Program
    kernels: tuple[KernelText | None, ...]
    shape: str
    params: dict[str, Any]
    tolerance: float
    threads: int
    topologies: tuple[str, ...]
    run: str
    loop: str
    store: str | Address | None
    max_iterations: int | None
    each: bool
    names: Any = None
    kinds: tuple[int, ...] = ()
    resident: bool = False
    initial: Any = None
    sees: str = MAIN_LOOP
    forked: bool = False
    seed: int = 0

    def fill(self, states: Mapping[str, NDArray[Any]], ids: NDArray[np.int64]) -> None:
        """Write vertex attributes into state columns of vertices `ids` (int64[n])."""
        if self.initial is not None:
            self.initial.value.fill(states, ids)

    @property
    def tracked(self) -> bool:
        """True if the state at the last scatter is kept."""
        return self.tolerance > 0 or self.shape == "derived"

    @property
    def compares(self) -> bool:
        """True if a vertex does not gather again the aggregate that it gathered last.

        False where gathering it again would change nothing, and no round waits until none does.
        """
        algebra = self.program.algebra
        if algebra is None or algebra.kind == "latest" or self.always:
            return False
        return self.rounds or not all(s.facts.repeatable for s in self.program.classes)

    @property
    def reaches(self) -> bool:
        """True if methods read the targets of targets (`TargetRows`)."""
        return any(s.facts.reads_target_rows for s in self.program.classes)

    @property
    def rounds(self) -> bool:
        """True if a class has a method `next_round`."""
        return any(s.facts.rounds for s in self.program.classes)

    @property
    def always(self) -> bool:
        """True if every vertex gathers in every iteration."""
        return any(s.facts.always for s in self.program.classes)


def shippable(program: Program, kernels: Sequence[KernelText | None] = ()) -> Program:
    """Return the program without syntax trees and sources, but with code to interpret.

    Args:
        kernels: kernels of the classes; one that has its kernels is not interpreted.
    """
    light = object.__new__(Program)
    light.__dict__.update(program.__dict__)
    compiled = [*(k is not None for k in kernels)] or [False] * len(program.classes)
    light.__dict__["classes"] = tuple(
        replace(s, methods={}, code={} if native else interpreted_code(s))
        for s, native in zip(program.classes, compiled, strict=True)
    )
    return light


def class_numbers(program: Program, kinds: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the classes that a vertex file names.

    Raises:
        InputError: the program has no such class.
    """
    number = {s.name: k for k, s in enumerate(program.classes)}
    for name in kinds:
        if name not in number:
            raise InputError(
                f"the vertex file names class {name!r}; {program.name} has: {', '.join(number)}"
            )
    return tuple(number[name] for name in kinds)


def shape_of(specs: tuple[ClassSpec, ...], *, native: bool = False) -> str:
    """Return the message layout which all classes of a program can share.

    "uniform" keeps a message per vertex, "edge" and "many" one per edge, "derived" (compiled
    programs only) none: messages are computed again from the state at the last scatter.
    """
    if native and len(specs) == 1 and specs[0].facts.derivable:
        return "derived"
    shapes = {s.facts.message_shape for s in specs}
    return shapes.pop() if len(shapes) == 1 else "many"


def _no_jit(function: Any = None, **options: Any) -> Any:
    """Replaces the compiler where the text runs as plain Python."""
    return (lambda f: f) if function is None else function


def delivery_module(algebra: Algebra) -> ModuleType:
    """Return the delivery kernels for an algebra, compiled where its messages are numbers."""
    if algebra.dtype != object:
        try:
            jit = "njit_without_refcounts" if algebra.size is None else "njit"
            head = f"from vertexsdk.arrays.jit import {jit} as _jit\n"
            return load_module(head + deliver_source(algebra))
        except CannotCompile:
            pass
    from vertexsdk.compile._python_values import equal

    module = ModuleType("vertexsdk_kernels_python")
    bound = {"_equal": equal, "_jit": _no_jit}
    vars(module).update(bound, _combine=algebra.combine, _inverse=algebra.inverse)
    exec(
        compile(deliver_source(algebra, python=True), "<vertexsdk delivery>", "exec"), vars(module)
    )
    return module
