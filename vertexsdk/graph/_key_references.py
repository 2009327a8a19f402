"""Reference counts of shared-memory keys: the arrays under a key are freed with the last one."""

from __future__ import annotations

import itertools
import threading
from collections import Counter

from vertexsdk.graph.graph import Graph

__all__ = ["RefCountedKeys"]


class RefCountedKeys:
    """Reference-counted keys of arrays of a graph; with the last key the graph itself is freed.

    >>> keys = RefCountedKeys(graph)  # doctest: +SKIP
    >>> keys.drop(keys.fresh("edges"))  # doctest: +SKIP
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._numbers = itertools.count()
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def fresh(self, kind: str) -> str:
        """Return a new key with one reference."""
        key = f"{self._graph.key}/{kind}-{next(self._numbers)}"
        self.hold(key)
        return key

    def hold(self, key: str) -> None:
        """Add a reference."""
        with self._lock:
            self._counts[key] += 1

    def drop(self, key: str) -> None:
        """Remove a reference; free the arrays under the key with the last one."""
        with self._lock:
            self._counts[key] -= 1
            free = self._counts[key] <= 0
            if free:
                del self._counts[key]
            last = not self._counts
        if last:
            self._graph.unpersist()
        elif free:
            self._graph.forget(key)
