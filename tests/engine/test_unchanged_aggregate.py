"""A vertex whose messages changed, but not what they combine to, does not gather again."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support import seeds
from tests.support.inprocess import InProcess
from tests.support.reference import reference
from vertexsdk import Algebra, Max, Min, Sum, Vertex, param, state
from vertexsdk.program.program import Program


class Counting(Vertex, abstract=True):
    """Sends small numbers that often combine to what they did before; counts its gathers."""

    gathers: int = state(0)
    last: int = state(0)
    rounds: int = param(5)

    def gather(self, iteration, source, delta):
        self.gathers += 1
        self.last = iteration

    def scatter(self, iteration):
        if iteration < self.rounds:
            for target in self.targets:
                self.emit(target, (self.id * 7 + target.id * 3 + iteration * self.id) % 2)


class OfSum(Counting):
    messages = Sum(int)


class OfMin(Counting):
    messages = Min(int)


class OfMax(Counting):
    messages = Max(int)


class OfXor(Counting):
    messages = Algebra(int, combine=lambda a, b: a ^ b, identity=0, inverse=lambda a: a)


class OfOr(Counting):
    messages = Algebra(int, combine=lambda a, b: a | b, identity=0)


class OfObject(Counting):
    messages = Algebra(object, combine=lambda a, b: a + b, identity=0, samples=[1, 2, 3])


class Uniform(Counting):
    """One message to all targets."""

    messages = Sum(int)

    def scatter(self, iteration):
        if iteration < self.rounds:
            self.emitAll((self.id + iteration * (self.id // 2)) % 2)


PROGRAMS = [OfSum, OfMin, OfMax, OfXor, OfOr, OfObject, Uniform]
COMPILED = [OfSum, OfMin]


@pytest.mark.sample(2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_the_reference(program: type[Vertex]) -> None:
    seed = seeds.seed()
    rng = random.Random(seed)
    skipped = 0
    for _ in range(3):
        edges = sorted({(rng.randrange(20), rng.randrange(20)) for _ in range(70)})
        wanted = reference(program, edges)
        runs = InProcess(Program(program), edges)
        for partitions in (1, 2, 7):
            ways: list[dict[str, Any]] = [{}, {"forget": True}]
            if program in COMPILED:
                ways.append({"compiled": "require", "threads": 2})
            for how in ways:
                got, _, _ = runs.run(partitions=partitions, **how)
                assert got == wanted.state, (partitions, how)
        skipped += sum(row["gathers"] < 6 for row in wanted.state.values())
    assert skipped  # else the numbers drawn show nothing
