"""What does not compile is named by the user's line and a short reason."""

from __future__ import annotations

import inspect
import math
import re
import warnings
from typing import Any

import numpy as np
import pytest

from tests.support.inprocess import InProcess
from vertexsdk import Latest, Min, Sum, Vertex, aggregate, state
from vertexsdk.errors import ProgramError
from vertexsdk.program.program import Program
from vertexsdk.program.warn import InterpretedWarning


def broken(x):
    y = x + 1.0
    return y + "a"  # here: + of float and str does not compile


class Base(Vertex, abstract=True):
    x: float = state(0.0)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.x = delta.value

    def scatter(self, iteration):
        self.emitAll(self.x)


class EmptyList(Base):
    def gather(self, iteration, source, delta):
        found = []

        self.x = found[3]  # here: the type of a value cannot be determined


class FloatInInt(Base):
    count: int = state(0)

    def gather(self, iteration, source, delta):
        if delta.value > 1:
            half = delta.value / 2
            self.count = half  # here: a float is assigned to int; use int(...)


class Helper(Base):
    def scatter(self, iteration):
        self.emitAll(broken(self.x))


class OwnMethod(Base):
    def double(self, x):
        """Twice.

        Or so.
        """
        return x + ("a" * 2)  # here: + of float and str does not compile

    def gather(self, iteration, source, delta):
        self.x = self.double(delta.value)


class WordInFloat(Base):
    def gather(self, iteration, source, delta):
        self.x = str(iteration)  # here: a str is assigned to a float


class Formatted(Base):
    def scatter(self, iteration):
        self.emitAll(float(f"{self.x:.3f}"))  # here: format spec in f-strings


class EmitAll(Base):
    def scatter(self, iteration):
        if self.x > 0:
            self.emitAll("a" + self.x)  # here: + of str and float does not compile


class NoNumber(Base):
    first: float = state(0.0)
    note: str = state("")  # here: field note is not a number (str)


class Tuples(Base):
    messages = Latest(tuple)  # here: messages are Latest(tuple), no numbers

    def gather(self, iteration, source, delta):
        self.x = float(len(delta.values))


class Contributes(Base):  # here: total.contribute: a float is assigned to int; use int(...)
    total = aggregate(Sum(int))

    def gather(self, iteration, source, delta):
        self.total.contribute(delta.value)


class NotThere(Base):  # here: module 'numpy.linalg' has no attribute 'nosuch'
    def gather(self, iteration, source, delta):
        self.x = np.linalg.nosuch(delta.value)


class Events(Vertex):  # here: programs without messages = ... (events level) are interpreted
    x: float = state(0.0)

    def scatter(self, iteration):
        self.emitAll(self.x)


def closed_over(weights):
    class Closure(Base):
        def gather(self, iteration, source, delta):
            self.x = weights["a"]  # here: a closure over weights, which is a dict: make it a param

    return Closure


class Super(Base):
    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)  # here: super() does not compile: move

        self.x += 1.0


class PassesDelta(Base):
    def half(self, d):
        return d.value / 2.0

    def gather(self, iteration, source, delta):
        self.x = self.half(delta)  # here: delta is used as a value: pass delta.value


class Enumerates(Base):
    def gather(self, iteration, source, delta):
        for k, _ in enumerate(self.targets):  # here: self.targets compiles in `for target in self
            self.x = float(k)


class Tries(Base):
    def gather(self, iteration, source, delta):
        try:
            self.x = 1.0 / delta.value
        except ZeroDivisionError:  # here: try with except of one kind of error does not compile
            self.x = 0.0


class Lambda(Base):
    def gather(self, iteration, source, delta):
        half = lambda x: x / 2.0  # noqa: E731 # here: a lambda does not compile: write it as a fun
        self.x = half(delta.value)


class TwoTypes(Base):
    def gather(self, iteration, source, delta):
        y = 0 if delta.value > 1.0 else "a"  # here: a value is int here and str there: give it one
        self.x = float(len(y))


CASES = [
    EmptyList,
    FloatInInt,
    Helper,
    OwnMethod,
    WordInFloat,
    Formatted,
    EmitAll,
    NoNumber,
    Tuples,
]
CASES += [Contributes, NotThere, Events, closed_over({"a": 1.0}), Super, PassesDelta, Enumerates]
CASES += [Tries, Lambda, TwoTypes]


def marked(case: Any) -> tuple[int, str]:
    """The line marked in a class, or in what it calls, and what is to be said of it."""
    for place in (case, broken):
        lines, first = inspect.getsourcelines(place)
        for k, line in enumerate(lines):
            if "# here: " in line:
                return first + k, line.split("# here: ")[1].strip()
    raise AssertionError(case)


@pytest.mark.sample(5)
@pytest.mark.parametrize("case", CASES)
def test_line_and_reason(case: type[Vertex]) -> None:
    line, reason = marked(case)
    with pytest.raises(ProgramError) as caught:
        InProcess(Program(case), [(1, 2)]).run({}, compiled="require")
    said = str(caught.value)
    assert re.match(rf"{re.escape(__file__)}:{line}: \w+: {re.escape(reason)}", said), said
    assert said.endswith('; compiled="require" forbids to interpret it')
    for internal in ("vertexsdk_kernels", "_gather", "U_", "S_x", "Function(", "float64"):
        assert internal not in said


class Shortest(Base):
    messages = Min(float)

    def gather(self, iteration, source, delta):
        words = {"far": math.inf}
        self.x = min(delta.value, words["far"]) if iteration < 0 else float(f"{iteration:.1f}")


def test_it_is_interpreted_with_a_warning() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got, _, _ = InProcess(Program(Shortest), [(1, 2)]).run({}, compiled=True)
    assert {v: row["x"] for v, row in got.items()} == {1: 1.0, 2: 2.0}
    (warning,) = caught
    assert warning.category is InterpretedWarning
    assert str(warning.message).startswith(f"{__file__}:")
    assert str(warning.message).endswith("; this program runs interpreted")
