"""The toy method of the protocol's tests: capped distances from an origin, from latest messages.

The fixed point is unique for lengths of at least 1, whatever was gathered before, so it can be
checked after any history. Distances beyond `CAP` are infinite, so that what supports itself around
a cycle ends soon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["CAP", "INFINITE", "Distances", "distances"]

CAP = 6
INFINITE = 1000
Call = tuple[str, int, frozenset[int]]


class Distances:
    """One vertex: the latest message of every producer, and the lengths of its edges.

    Inputs are pairs of a target and the length of the edge to it, None where that goes. `calls`
    says what it was called for, until who reads it empties it: ("gather", iteration, the producer),
    ("input", iteration, nobody), ("commit", iteration, its consumers, with those that ceased to be
    it).
    """

    __slots__ = ("calls", "lengths", "origin", "received", "told", "value")

    def __init__(self, origin: bool) -> None:
        self.origin = origin
        self.value = INFINITE
        self.lengths: dict[int, int] = {}
        self.received: dict[int, int] = {}
        self.told: dict[int, int] = {}  # by consumer, what is not infinite
        self.calls: list[Call] = []

    def gather(self, iteration: int, source: int | None, value: Any) -> None:
        """Keep a producer's message, or change edges."""
        if source is not None:
            self.calls.append(("gather", iteration, frozenset([source])))
            self.received[source] = value
        else:
            self.calls.append(("input", iteration, frozenset()))
            for target, length in value:
                if length is None:
                    self.lengths.pop(target, None)
                else:
                    self.lengths[target] = length

    def scatter(self, iteration: int) -> Mapping[int, int]:
        """Tell consumers their distance by way of this vertex, where it is another than before."""
        consumers = frozenset(self.lengths.keys() | self.told.keys())
        self.calls.append(("commit", iteration, consumers))
        self.value = 0 if self.origin else min(self.received.values(), default=INFINITE)
        told = {t: _capped(self.value + length) for t, length in self.lengths.items()}
        changed = {
            t: told.get(t, INFINITE)
            for t in sorted(consumers)
            if told.get(t, INFINITE) != self.told.get(t, INFINITE)
        }
        self.told = {t: value for t, value in told.items() if value < INFINITE}
        return changed


def _capped(value: int) -> int:
    return value if value <= CAP else INFINITE


def distances(graph: Mapping[tuple[int, int], int], vertices: int) -> list[int]:
    """The fixed point, by relaxing all edges until nothing changes (Bellman and Ford)."""
    found = [0] + [INFINITE] * (vertices - 1)
    while True:
        before = list(found)
        for (source, target), length in graph.items():
            found[target] = min(found[target], _capped(found[source] + length))
        if found == before:
            return found
