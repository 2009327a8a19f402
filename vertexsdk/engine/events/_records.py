"""The vertices of one partition of an events program, which forks share until they change them.

Each vertex is a record: it is unpickled when it is touched, and pickled again when the partition is
forked. So a fork costs what was touched since the one before, and forks share the rest.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

from vertexsdk.engine.events._node import Node


class Records(Mapping[Any, Node]):
    """Vertices by id, which stay; one that is read may be changed in place.

    Attributes:
        unwritten: ids of the vertices that may differ from what the store has.
    """

    def __init__(self) -> None:
        self._pickles: dict[Any, bytes] = {}
        self._nodes: dict[Any, Node] = {}
        self._touched: set[Any] = set()  # since the last fork
        self.unwritten: set[Any] = set()

    def __getitem__(self, key: Any) -> Node:
        self._touched.add(key)
        self.unwritten.add(key)
        return self.peek(key)

    def peek(self, key: Any) -> Node:
        """A vertex that is only looked at."""
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = pickle.loads(self._pickles[key])
        return node

    def __setitem__(self, key: Any, node: Node) -> None:
        self._nodes[key] = node
        self._pickles.setdefault(key, b"")
        self._touched.add(key)
        self.unwritten.add(key)

    def __contains__(self, key: Any) -> bool:
        return key in self._pickles

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pickles)

    def __len__(self) -> int:
        return len(self._pickles)

    def fork(self) -> Records:
        """Return the same vertices, to be changed apart from these."""
        for key in self._touched:
            self._pickles[key] = pickle.dumps(self._nodes[key], 5)
        self._touched = set()
        other = Records()
        other._pickles, other.unwritten = self._pickles.copy(), self.unwritten.copy()
        return other
