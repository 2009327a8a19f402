"""Parameters that are tuples or arrays of numbers compile, and methods cannot write to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.inprocess import InProcess
from vertexsdk import Sum, Vertex, param, state
from vertexsdk.errors import ProgramError, RunError
from vertexsdk.program.program import Program

EDGES = [(v, (3 * v + 1) % 10) for v in range(10)]


class Mixes(Vertex):
    total: float = state(0.0)
    code: int = state(0)
    weights: tuple[float, ...] = param((0.5, 0.25))
    pair: tuple[int, float] = param((2**63 - 1, 0.5))
    table: NDArray[np.float64] = param()
    messages = Sum(float)
    max_iterations = 2

    def gather(self, iteration, source, delta):
        for weight in self.weights:
            self.total += weight * delta.value
        k = self.id % len(self.weights)
        big, small = self.pair
        self.total += self.weights[k] + self.table[self.id % self.table.shape[0], 1] * small
        self.code = big + 2 + self.table[0].shape[0]

    def scatter(self, iteration):
        self.emitAll(1.0)


def rows(params: dict[str, Any], compiled: Any) -> dict[int, dict[str, Any]]:
    program = Program(Mixes)
    return InProcess(program, EDGES).run(program.bind(params), compiled=compiled)[0]


@pytest.mark.parametrize("weights", [(0.5, 0.25), [1.0, 2.0, 3.0]])
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_compiled_and_interpreted_alike(weights: Any, dtype: Any) -> None:
    params = {"weights": weights, "table": np.arange(6, dtype=dtype).reshape(3, 2).T}
    compiled = rows(params, "require")
    assert compiled == rows(params, False)
    k = 3 % len(weights)
    assert compiled[3]["total"] == sum(weights) * 1.0 + weights[k] + params["table"][1, 1] * 0.5
    assert compiled[3]["code"] == -(2**63) + 1 + 3


def test_a_tuple_of_words_is_interpreted() -> None:
    class Words(Vertex):
        n: int = state(0)
        words: tuple[str, ...] = param(("a",))
        messages = Sum(int)

        def gather(self, iteration, source, delta):
            self.n = len(self.words)

        def scatter(self, iteration):
            self.emitAll(1)

    with pytest.raises(ProgramError, match="parameter words is not a number, nor a tuple"):
        InProcess(Program(Words), EDGES).run({}, compiled="require")
    assert InProcess(Program(Words), EDGES).run({"words": ("a", "b")})[0][1]["n"] == 2


@pytest.mark.parametrize("compiled", [False, "require"])
def test_methods_cannot_write_to_an_array(compiled: Any) -> None:
    class Writes(Vertex):
        n: float = state(0.0)
        table: NDArray[np.float64] = param()
        messages = Sum(float)

        def gather(self, iteration, source, delta):
            self.table[0] = 1.0

        def scatter(self, iteration):
            self.emitAll(1.0)

    table = np.zeros(2)
    with pytest.raises((ProgramError, RunError), match="read-only"):
        InProcess(Program(Writes), EDGES).run({"table": table}, compiled=compiled)
    assert table.tolist() == [0.0, 0.0]
