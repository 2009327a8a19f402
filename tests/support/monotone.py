"""Random Min and Max programs whose fixed point is the same for every order of updates.

A vertex keeps the least (or greatest) of its own value and what it gathers; a message is a
monotone function of it: added to, scaled up, or bounded. So synchronous iterations, and those of
any delay bound, end in the same state.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.support.programs import PRELUDE, RandomProgram

__all__ = ["monotone_program"]

BODY = """
class {name}(Vertex):
    best: {field} = {first}
    told: float = state(0.0)

    messages = {messages}
    direction = "{direction}"
    edge = float
    tolerance = {tolerance}
{flags}
    def init(self):
{begin}
    def gather(self, iteration, source, delta):
{gather}
    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, {sent})
"""


@dataclass(frozen=True)
class _Shape:
    """What messages are: a way to declare them, the state they are kept in, and the code."""

    messages: str
    field: str
    first: str
    begin: str
    gather: str
    sent: tuple[str, ...]
    flags: str = ""


_SHAPES = (
    _Shape(
        "Min(float)", "float", "state(inf)", "        self.best = float(self.id % 5 + 3)\n",
        "        if delta.value < self.best:\n            self.best = delta.value\n",
        ("self.best + 0.25", "self.best + target.value", "max(self.best, target.value)"),
    ),
    _Shape(
        "Max(float)", "float", "state(-1.0)", "        self.best = float(self.id % 7)\n",
        "        self.best = max(self.best, delta.value)\n",
        ("min(self.best, target.value * 4.0)", "self.best / 2.0", "self.best"),
    ),
    _Shape(
        "Min(int)", "int", "state(0)", "        self.best = self.id % 97\n",
        "        if delta.value < self.best:\n            self.best = delta.value\n",
        ("self.best", "self.best + 1", "max(self.best, 9)"),
    ),
    _Shape(
        "Min(float, size=2)", "float", "state(inf, size=2)",
        "        for k in range(2):\n            self.best[k] = float((self.id + k) % 11)\n",
        "        for k in range(2):\n            if delta.value[k] < self.best[k]:\n"
        "                self.best[k] = delta.value[k]\n",
        ("self.best + 0.5", "self.best + target.value"),
    ),
    _Shape(
        "Algebra(int, combine=either, identity=0)", "int", "state(0)",
        "        self.best = 1 << (self.id % 20)\n",
        "        self.best = self.best | delta.value\n",
        ("self.best", "self.best & 0xFFFF", "self.best | 1"), "    asynchronous = True\n",
    ),
)  # fmt: skip


def monotone_program(rng: random.Random, *, tolerance: float = 0.0) -> RandomProgram:
    """Make a program of one or two classes; the same for the same state of `rng`."""
    shape = rng.choice(_SHAPES)
    direction = rng.choice(["out", "out", "in", "both", "undirected"])
    kinds = ("Red", "Blue")[: rng.choice([1, 1, 2])]
    bodies = [
        BODY.format(
            name=kind, field=shape.field, first=shape.first, messages=shape.messages,
            direction=direction, tolerance=tolerance, flags=shape.flags, begin=shape.begin,
            gather=shape.gather, sent=rng.choice(shape.sent),
        )
        for kind in kinds
    ]  # fmt: skip
    return RandomProgram("\n\n".join([PRELUDE, *bodies]), kinds, False)
