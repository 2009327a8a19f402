"""What `docs/windows.md` says of a window, in plain Python: the oracle of loops with a window."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Event", "Window"]

Event = tuple[str, Any, Any, Any, float]  # sign, source, target, value or None, time
Edge = tuple[Any, Any]


@dataclass
class Window:
    """The edges in a window, one event after the other.

    Attributes:
        length: of the window.
        undirected: an edge is the same in both directions.
        default: the value of an edge that is added without one.
        edges: all edges, with their values: numbers, or dicts of attributes.
        times: the newest event of each edge that can expire.
        removals: the newest event of edges that it removed.
        clock: event time.
    """

    length: float
    undirected: bool
    default: Any = 1.0
    edges: dict[Edge, Any] = field(default_factory=dict)
    times: dict[Edge, float] = field(default_factory=dict)
    removals: dict[Edge, float] = field(default_factory=dict)
    clock: float = -math.inf
    late: int = 0
    overtaken: int = 0
    expired: int = 0

    def copy(self) -> Window:
        """Another one, in which the same holds."""
        return copy.deepcopy(self)

    def edge(self, source: Any, target: Any) -> Edge:
        """The edge between two vertices."""
        return (target, source) if self.undirected and target < source else (source, target)

    def take(self, events: Iterable[Event]) -> list[Event]:
        """Take in events; return those that were not ignored."""
        return [event for event in events if self._counts(event)]

    def _counts(self, event: Event) -> bool:
        sign, source, target, value, time = event
        edge = self.edge(source, target)
        self.advance(time)
        if time <= self.clock - self.length:
            self.late += 1
            return False
        if time < max(self.times.get(edge, -math.inf), self.removals.get(edge, -math.inf)):
            self.overtaken += 1
            return False
        if sign == "-":
            self.edges.pop(edge, None)
            self.times.pop(edge, None)
            self.removals[edge] = time
        elif sign == "+":
            self._give(edge, value)
            self.removals.pop(edge, None)
            self.times[edge] = time
        elif edge in self.edges:
            self._give(edge, value)
            if edge in self.times:  # else it does not expire
                self.times[edge] = time
        return True

    def apply(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Take in changes without a time, those of a branch."""
        for sign, source, target, *value in rows:
            edge = self.edge(source, target)
            if sign == "-":
                self.edges.pop(edge, None)
                self.times.pop(edge, None)
            elif sign == "+" or edge in self.edges:
                self._give(edge, value[0] if value else None)

    def _give(self, edge: Edge, value: Any) -> None:
        held = self.edges.get(edge, self.default)
        if isinstance(value, dict):
            value = {**held, **value}
        self.edges[edge] = held if value is None else value

    def advance(self, time: float) -> None:
        """Move event time on."""
        self.clock = max(self.clock, time)
        horizon = self.clock - self.length
        for edge in [edge for edge, newest in self.times.items() if newest <= horizon]:
            del self.edges[edge], self.times[edge]
            self.expired += 1
        self.removals = {e: newest for e, newest in self.removals.items() if newest > horizon}

    def resize(self, length: float) -> None:
        """Give the window another length."""
        self.length = length
        self.advance(self.clock)
