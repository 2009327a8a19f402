"""Resident arrays which several hold: the last one to let go of a key frees it."""

from __future__ import annotations

import itertools
import threading
from collections import Counter

from vertexsdk.graph.graph import Graph

__all__ = ["RefCountedKeys"]


class RefCountedKeys:
    """Keys below a graph's own, each held as often as it was handed out or `hold` was called.

    With the last of all of them the graph itself is freed.

    >>> keys = RefCountedKeys(graph)  # doctest: +SKIP
    >>> keys.drop(keys.fresh("edges"))  # doctest: +SKIP
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._numbers = itertools.count()
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    def fresh(self, kind: str) -> str:
        """Return a key that was never used, and hold it."""
        key = f"{self._graph.key}/{kind}-{next(self._numbers)}"
        self.hold(key)
        return key

    def hold(self, key: str) -> None:
        """Hold a key once more."""
        with self._lock:
            self._held[key] += 1

    def drop(self, key: str) -> None:
        """Let go of a key once."""
        with self._lock:
            self._held[key] -= 1
            free = self._held[key] <= 0
            if free:
                del self._held[key]
            last = not self._held
        if last:
            self._graph.unpersist()
        elif free:
            self._graph.forget(key)
