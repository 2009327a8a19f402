"""`run` of programs without a message algebra, over a graph that stays.

As in the paper's figure 10: an edge reaches its vertex as an ADD_TARGET delta, which the program
answers by `addTarget`; messages are delivered once, in ascending order of their source. These
programs run interpreted, over Python values. Where the graph changes, `EventsEngine` runs the same
partitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._processor import load_topology, names_of, with_classes
from vertexsdk.engine.events._events_partition import EventPartition
from vertexsdk.program.vertex import ADD_TARGET

__all__ = ["RunPartition"]


class RunPartition(EventPartition):
    """One partition of a loaded graph, with `Processor`'s interface.

    String ids are their codes, and vertices live where the graph's placement has them.
    """

    def __init__(self, plan: Plan, partition: int, num_vertices: int) -> None:
        super().__init__(
            plan, partition, num_vertices, plan.loop, (), names=names_of(plan), undirected=False
        )
        self.nodes.as_objects = True
        t = self.topology = with_classes(load_topology(plan.topologies[partition], partition), plan)
        kinds = t.kind.tolist() if t.kind is not None else [0] * t.n
        targets = np.concatenate([t.ids, t.ghost_ids])[t.target].tolist()
        values = t.value.tolist() if t.value is not None else [1] * len(targets)
        start = t.start.tolist()
        for k, i in enumerate(t.ids.tolist()):
            self._name(self.node(i, kinds[k]))
            row = range(start[k], start[k + 1])
            if row:
                self.mail[i] = [(i, ADD_TARGET, targets[e], values[e]) for e in row]

    def place(self, ids: list[Any]) -> list[int]:
        """See `EventSteps`."""
        places: list[int] = self.topology.owners(np.array(ids, np.int64)).tolist()
        return places

    def _key(self, version: int) -> str:
        return f"{self.plan.run}/p{self.partition}-v{version}"

    def save(self, version: int) -> None:
        """Keep this version and the one before on the host."""
        self.chain = ()  # each stands alone
        self.keep(self._key(version))
        if version > 1:
            shared_memory.drop(self._key(version - 2))

    def load(self, version: int) -> None:
        """Go to a version which was kept on this host."""
        self.open(((self._key(version), 0),))
        self.nodes.as_objects = True

    def result(self) -> dict[str, NDArray[Any]]:
        """Return the state as a base segment's columns."""
        columns = self.columns(None, whole=True)
        if self.topology.names is not None:
            columns["name.offsets"], columns["name.bytes"] = self.topology.names
        return columns
