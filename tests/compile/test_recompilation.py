"""Kernels are rewritten again exactly when something that their text follows from has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from vertexsdk import Sum, Vertex, state
from vertexsdk.compile import kernel_cache
from vertexsdk.compile.kernel_cache import compiled_plan
from vertexsdk.compile.plan import Plan, shape_of
from vertexsdk.engine.precompile import compile_plan
from vertexsdk.program.program import Program

RATE = 0.5
TABLE = np.array([1.0, 2.0])


def scaled(x: float) -> float:
    """A function beside the class, which reads a global of its own."""
    return x * RATE


class Scaled(Vertex):
    """Reads a function, an array and a constant of the class."""

    amount: float = state(0.0)
    messages = Sum(float)
    STEP = 3

    def init(self) -> None:
        self.amount = 1.0

    def gather(self, iteration, source, delta):  # type: ignore[no-untyped-def]
        self.amount = scaled(delta.value) + TABLE[0] + self.STEP

    def scatter(self, iteration):  # type: ignore[no-untyped-def]
        self.emitAll(self.amount)


@pytest.fixture
def plan() -> Plan:
    program = Program(Scaled)
    return Plan(
        program=program, kernels=(None,), shape=shape_of(program.classes), params={},
        tolerance=0.0, threads=1, topologies=("a",), run="a/run", loop="scaled", store=None,
        max_iterations=None, each=False,
    )  # fmt: skip


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text of each plan's kernels that was made anew."""
    texts: list[str] = []
    original = kernel_cache._compile

    def counted(
        plan: Plan, strings: bool, say: object, precompile: Callable[[Plan], None]
    ) -> tuple[str, Plan | None]:
        reason, found = original(plan, strings, lambda text: None, precompile)
        assert found is not None
        assert found.kernels[0] is not None
        texts.append(found.kernels[0].source)
        return reason, found

    monkeypatch.setattr(kernel_cache, "_compile", counted)
    monkeypatch.setattr(kernel_cache, "_known", {})
    return texts


def _compile(plan: Plan) -> Plan:
    return compiled_plan(plan, True, False, lambda text: None, compile_plan)


def test_an_equal_plan_takes_the_kernels_that_are_there(plan: Plan, made: list[str]) -> None:
    first = _compile(plan)
    second = _compile(replace(plan, run="a/another", max_iterations=7))
    assert len(made) == 1
    assert (second.kernels, second.shape) == (first.kernels, first.shape)
    assert (second.run, second.max_iterations) == ("a/another", 7)


def test_what_the_text_follows_from_makes_others(
    plan: Plan, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _compile(plan)
    monkeypatch.setitem(globals(), "RATE", 0.25)  # read by the function beside the class
    _compile(plan)
    TABLE[0] = 9.0  # in place
    try:
        _compile(plan)
    finally:
        TABLE[0] = 1.0
    monkeypatch.setattr(Scaled, "STEP", 4)
    _compile(plan)
    _compile(replace(plan, tolerance=1e-3))
    assert len(made) == len(set(made)) == 5
