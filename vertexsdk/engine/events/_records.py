"""The vertices of one partition of a changing events program, kept as versions that never change.

Each vertex is a record: it is read when it is touched, and written again when the version is
kept. So a version costs what was touched since the one before, and versions share the rest.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from vertexsdk.arrays import shared_memory
from vertexsdk.engine.events._node import Node
from vertexsdk.errors import LostError

Chain: TypeAlias = tuple[tuple[str, int], ...]  # resident keys, and records in each, base first
_DEEPEST = 24  # layers over a base


class Records(Mapping[Any, Node]):
    """Vertices by id, which stay; what is read may be changed in place, and is then `unwritten`.

    Attributes:
        as_objects: keep vertices as objects when a version is kept, not as bytes only: for loops
            that touch most of them in each iteration.
    """

    as_objects = False

    def __init__(self, records: dict[Any, bytes] | None = None) -> None:
        self._records = {} if records is None else records
        self._live: dict[Any, Node] = {}
        self.unwritten: set[Any] = set()

    def __getitem__(self, key: Any) -> Node:
        node = self._live.get(key)
        self.unwritten.add(key)
        if node is None:
            node = self._live[key] = pickle.loads(self._records[key])
        return node

    def peek(self, key: Any) -> Node:
        """A vertex that is only looked at."""
        node = self._live.get(key)
        if node is None:
            node = pickle.loads(self._records[key])
        return node

    def __setitem__(self, key: Any, node: Node) -> None:
        self._live[key] = node
        self._records.setdefault(key, b"")
        self.unwritten.add(key)

    def __contains__(self, key: Any) -> bool:
        return key in self._records

    def __iter__(self) -> Iterator[Any]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def fold(self) -> dict[Any, bytes]:
        """Write what was touched; returns it."""
        made = {key: pickle.dumps(node, 5) for key, node in self._live.items()}
        self._records.update(made)
        if not self.as_objects:
            self._live = {}
        return made

    @property
    def all(self) -> dict[Any, bytes]:
        """Every record, as of the last `fold`."""
        return self._records


def save_chain(key: str, before: Chain, records: Records, rest: Any) -> Chain:
    """Keep the version under `key`, over the one before; `rest` is kept whole."""
    made = records.fold()
    base = before[0][1] if before else 0
    if not before or len(before) > _DEEPEST or sum(n for _, n in before[1:]) + len(made) > base:
        before, made = (), records.all
    data = pickle.dumps((made, rest), 5)
    shared_memory.save(key, {"pickle": np.frombuffer(data, np.uint8)}, {})
    return (*before, (key, len(made)))


def load_chain(chain: Chain) -> tuple[Records, Any]:
    """Open a version.

    Raises:
        LostError: it is not on this host.
    """
    records: dict[Any, bytes] = {}
    rest: Any = None
    for key, _ in chain:
        found = shared_memory.load(key)
        if found is None:
            raise LostError("an executor was lost with the vertices it held")
        made, rest = pickle.loads(found[0]["pickle"].tobytes())
        records.update(made)
    return Records(records), rest
