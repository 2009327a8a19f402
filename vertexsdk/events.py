"""The events level over a graph that stays: programs without a message algebra.

They gather every delta by itself. As in the paper's figure 10: an edge reaches its vertex as an
ADD_TARGET delta, which the program answers by `addTarget`; messages are delivered once, in
ascending order of their source. These programs run interpreted, over Python values. Where the
graph changes, `EventsEngine` runs them.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk import resident
from vertexsdk.algebra import VertexId
from vertexsdk.errors import RunError
from vertexsdk.event_steps import EventSteps
from vertexsdk.plan import Plan
from vertexsdk.processor import load_topology, names_of, with_classes
from vertexsdk.program import StateField
from vertexsdk.vertex import ADD_TARGET

__all__ = ["EventProcessor", "state_columns"]


class EventProcessor(EventSteps):
    """One partition of an events program; the interface is `Processor`'s."""

    def __init__(self, plan: Plan, partition: int, num_vertices: int) -> None:
        super().__init__(plan, partition, num_vertices, names_of(plan), plan.loop)
        topology = with_classes(load_topology(plan.topologies[partition], partition), plan)
        self.topology = topology
        kinds = topology.kind.tolist() if topology.kind is not None else [0] * topology.n
        ids = topology.ids.tolist()
        self.nodes = {i: self.new(i, k) for i, k in zip(ids, kinds, strict=True)}
        self.fresh = set(ids)
        slot_ids = np.concatenate([topology.ids, topology.ghost_ids])
        for k, i in enumerate(ids):
            lo, hi = int(topology.start[k]), int(topology.start[k + 1])
            if lo < hi:
                row = slot_ids[topology.target[lo:hi]].tolist()
                value = topology.value
                values = value[lo:hi].tolist() if value is not None else [1] * (hi - lo)
                self.mail[i] = [(i, ADD_TARGET, t, x) for t, x in zip(row, values, strict=True)]

    @property
    def count(self) -> int:
        """How many vertices the partition has now."""
        return len(self.nodes)

    def place(self, ids: list[Any]) -> list[int]:
        """See `EventSteps`."""
        found: list[int] = self.topology.owners(np.array(ids, np.int64)).tolist()
        return found

    # Between partitions, and versions. ------------------------------------------------------

    def receive(self, blocks: Sequence[tuple[int, bytes]]) -> None:
        """Take in the letters of other partitions."""
        for _, block in blocks:
            for target, letter in pickle.loads(block):
                self.mail.setdefault(target, []).append(letter)

    def blocks(self) -> list[tuple[int, bytes]]:
        """Return the letters to other partitions, pickled."""
        return [(p, pickle.dumps(x, 5)) for p, x in sorted(self.outgoing.items())]

    def _key(self, version: int) -> str:
        return f"{self.plan.run}/p{self.partition}-v{version}"

    def save(self, version: int) -> int:
        """Keep this version on the host; return its bytes."""
        nodes = list(self.nodes.values())
        data = np.frombuffer(pickle.dumps((nodes, self.fresh, self.mail), 5), np.uint8)
        size = resident.save(self._key(version), {"pickle": data}, {})
        if version > 1:
            resident.drop(self._key(version - 2))
        return size

    def load(self, version: int) -> None:
        """Go to a version which was kept on this host."""
        found = resident.open(self._key(version))
        if found is None:
            raise RunError(f"partition {self.partition} has lost version {version}")
        nodes, self.fresh, self.mail = pickle.loads(found[0]["pickle"].tobytes())
        self.nodes = {node.id: node for node in nodes}

    def result(self) -> dict[str, NDArray[Any]]:
        """Return the state as a base segment's columns."""
        nodes = [self.nodes[i] for i in sorted(self.nodes)]
        columns: dict[str, NDArray[Any]] = {"id": np.array([n.id for n in nodes], np.int64)}
        names = self.cursor.names
        columns |= state_columns(self.plan, nodes, None if names is None else names.encode)
        t = self.topology
        if t.kind is not None:
            columns["kind"] = np.array([n.kind for n in nodes], np.uint8)
        if t.names is not None:
            columns["name.offsets"], columns["name.bytes"] = t.names
        return columns


def state_columns(plan: Plan, nodes: Sequence[Any], encode: Any) -> dict[str, NDArray[Any]]:
    """The state fields of some vertices as columns; `encode` gives the code of a string id."""
    columns: dict[str, NDArray[Any]] = {}
    for kind, spec in enumerate(plan.program.classes):
        for name, f in spec.states.items():
            column = np.empty((len(nodes), *f.shape), f.dtype)
            if f.dtype != object:
                column[...] = 0
            for k, node in enumerate(nodes):
                if node.kind == kind:
                    column[k] = _stored(f, node.state[name], encode)
            columns[plan.program.column(kind, name)] = column
    return columns


def _stored(f: StateField, value: Any, encode: Any) -> Any:
    if f.type is VertexId and encode is not None and value is not None:
        return encode(value)
    if value is None and f.dtype != object:
        return 0
    return value
