"""Which programs go on from the answer before, and why the others begin with `init`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.programs import Alternating
from vertexsdk import Min, Sum, Vertex, inf, state
from vertexsdk.algorithms import (
    ConnectedComponents,
    Coreness,
    Degree,
    LabelPropagation,
    PageRank,
    ShortestPaths,
    StronglyConnectedComponents,
)
from vertexsdk.program.analysis.incremental_rules import why_from_init
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Delta


class Counts(Vertex):
    paths: int = state(0)
    messages = Sum(int)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.paths = delta.value

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.paths)


class Remembers(Vertex):
    least: float = state(inf)
    messages = Min(float)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.least = min(self.least, delta.value)

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.least + 1)


class Sometimes(Vertex):
    least: float = state(inf)
    messages = Min(float)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        if delta.value < 7:
            self.least = delta.value

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.least + 1)


class Aged(Sometimes):
    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.least = delta.value

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.least + iteration)


class Limited(ShortestPaths):
    max_iterations = 3


@pytest.mark.parametrize(
    ("program", "params", "reason"),
    [
        (LabelPropagation, {}, "whose fixed point depends on the start"),
        (Coreness, {}, "whose fixed point depends on the start"),
        (Degree, {}, "has no rule of convergence"),
        (StronglyConnectedComponents, {}, "next_round changes the state after a fixed point"),
        (PageRank, {"iterations": 3}, "converged reads the iteration"),
        (Counts, {}, "has no rule of convergence"),
        (Remembers, {}, "gather reads self.least of before"),
        (Sometimes, {}, "gather does not set self.least in every case"),
        (Aged, {}, "scatter reads the iteration"),
        (Limited, {"origin": 1}, "ends after a number of iterations"),
        (Alternating, {"origin": 1}, "says asynchronous = False"),
        (PageRank, {}, None),
        (ConnectedComponents, {}, None),
    ],
)
def test_why_a_branch_begins_with_init(
    program: type[Vertex], params: dict[str, Any], reason: str | None
) -> None:
    whole = Program(program)
    found = why_from_init(whole, whole.bind(params))
    assert (found is None) == (reason is None)
    assert reason is None or reason in str(found)
