"""What the guide says is the same compiled and interpreted, is; to the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.inprocess import InProcess
from vertexsdk import Sum, Vertex, state
from vertexsdk.program.program import Program


class Same(Vertex):
    results: float = state(0.0, size=14)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        x = 0.001 + (self.id % 977) / 7.0
        y = 0.1 + (self.id % 83) / 13.0
        self.results[0] = x * x
        self.results[1] = math.exp(x / 3.0)
        self.results[2] = math.log(x)
        self.results[3] = math.sqrt(x)
        self.results[4] = math.pow(x, y)
        self.results[5] = x**y
        self.results[6] = x % y
        self.results[7] = x // y
        self.results[8] = math.sin(x) + math.cos(x)
        self.results[9] = math.tanh(y)
        self.results[10] = math.log1p(x) + math.expm1(y)
        self.results[11] = math.atan2(x, y)
        self.results[12] = np.sqrt(x) + np.sin(x) + np.hypot(x, y)
        self.results[13] = math.log2(x) + math.log10(x)

    def scatter(self, iteration):
        self.emitAll(0.0)


@pytest.mark.parametrize("first", [0, 10**6])
def test_equal_to_the_last_bit(first: int) -> None:
    runs = InProcess(Program(Same), [(v, v + 1) for v in range(first, first + 3000)])
    compiled, _, _ = runs.run({}, compiled="require")
    interpreted, _, _ = runs.run({}, compiled=False)
    one = np.array([compiled[v]["results"] for v in sorted(compiled)])
    two = np.array([interpreted[v]["results"] for v in sorted(compiled)])
    assert np.flatnonzero((one != two).any(axis=0)).tolist() == []
