"""The edges and degrees of a graph that is loaded, collected from its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.errors import RunError
from vertexsdk.graph.topology import Topology
from vertexsdk.transport.transport import Workers

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class EdgesOf:
    """A task: one partition's edges as codes of their ends, and their values.

    Attributes:
        keys: the resident key of each partition.
        degrees_only: return the vertices and their degrees instead.
    """

    keys: Sequence[str]
    degrees_only: bool = False

    def __call__(self, partition: int) -> tuple[Array, ...] | None:
        """Return (sources, targets, values), or (ids, degrees); None if the partition was lost."""
        stored = shared_memory.load(self.keys[partition])
        if stored is None:
            return None
        topology = Topology.from_columns(*stored)
        degrees = np.diff(topology.start)
        if self.degrees_only:
            return np.array(topology.ids), degrees
        slots = np.asarray(topology.target, np.int64)
        ends = np.concatenate([topology.ids, topology.ghost_ids])[slots]
        values = np.ones(len(slots)) if topology.value is None else np.array(topology.value)
        return np.repeat(topology.ids, degrees), ends, values


def collect(workers: Workers, task: EdgesOf) -> list[Array]:
    """Run a task on every partition, and join the columns of what they return.

    Raises:
        RunError: a partition was lost.
    """
    here = [task(p) for p in range(len(task.keys))]
    parts = here if all(part is not None for part in here) else workers.run(task)
    if any(part is None for part in parts):
        raise RunError("an executor was lost with its part of the graph; try again")
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]
