"""A program with much state for each vertex, a graph for it, and changes of some of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from vertexsdk import Changes, Graph, Min, Vertex, inf, state
from vertexsdk.program.vertex import Delta

ROW = 128  # bytes of a vertex's fields


class Wide(Vertex):
    """Sixteen fields that follow from the values of the edges to a vertex."""

    a: float = state(inf)
    b: float = state(inf)
    c: float = state(inf)
    d: float = state(inf)
    e: float = state(inf)
    f: float = state(inf)
    g: float = state(inf)
    h: float = state(inf)
    i: float = state(inf)
    j: float = state(inf)
    k: float = state(inf)
    l: float = state(inf)  # noqa: E741  (a field like the others)
    m: float = state(inf)
    n: float = state(inf)
    o: float = state(inf)
    p: float = state(inf)

    messages = Min(float)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.a = delta.value * 1.0
        self.b = delta.value * 1.1
        self.c = delta.value * 1.2
        self.d = delta.value * 1.3
        self.e = delta.value * 1.4
        self.f = delta.value * 1.5
        self.g = delta.value * 1.6
        self.h = delta.value * 1.7
        self.i = delta.value * 1.8
        self.j = delta.value * 1.9
        self.k = delta.value * 2.1
        self.l = delta.value * 2.2
        self.m = delta.value * 2.3
        self.n = delta.value * 2.4
        self.o = delta.value * 2.5
        self.p = delta.value * 2.6

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, target.value)


def ring(megabytes: float, spark: Any = None, partitions: int = 1) -> Graph:
    """A graph with so many MB of state: each vertex has one edge to it, with a random value."""
    source = np.arange(vertices(megabytes))
    value = np.random.default_rng(1).random(source.size)
    return Graph.from_arrays(source, np.roll(source, -1), value, spark=spark, partitions=partitions)


def vertices(megabytes: float) -> int:
    """How many have so many MB of state."""
    return max(10, int(megabytes * 1e6) // ROW)


class Rows:
    """Changes of some rows of a `ring`.

    Each makes the values of edges smaller than all before, so that the loop goes on from its state.

    Args:
        megabytes: of the ring.
    """

    def __init__(self, megabytes: float) -> None:
        self._n, self._rng, self._least = vertices(megabytes), np.random.default_rng(2), 0

    def changes(self, percent: float) -> Changes:
        """A batch which gives so many percent of the vertices another state."""
        number = max(1, round(self._n * percent / 100))
        source = np.sort(self._rng.choice(self._n, number, replace=False))
        self._least -= 1
        value = self._least + self._rng.random(number)
        return Changes.from_arrays(
            np.zeros(number, np.uint8), source, (source + 1) % self._n, value
        )
