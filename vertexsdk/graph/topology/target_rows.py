"""The targets of a vertex's targets: rows of one partition's slots, those of other partitions too.

A program that reads them needs, beside its own vertices' rows, those of its ghosts. Partitions send
them to each other once, before iteration 0; they are as the graph was then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.graph.topology.topology import Topology

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class TargetRows:
    """Rows of every slot; n vertices, g ghosts, f vertices that are only targets of ghosts.

    A vertex has one number in `target`: the first slot that stands for it, or n + g + its place
    among the f others.

    Attributes:
        start, stop: where the row of a slot is, [n + g] or more.
        target: ascending by id in each row.
        other_ids: the ids of numbers from n on, [g + f].
        part: the numbers of the targets in the topology's rows, which are parts of these rows; None
            where `target` begins with them, as the topology has its rows whole.
    """

    start: Array
    stop: Array
    target: Array
    other_ids: Array
    part: Array | None = None

    @property
    def numbers(self) -> Array:
        """The number of the target of each entry of the topology."""
        return self.target if self.part is None else self.part

    @property
    def size(self) -> int:
        """The count of numbers beside the partition's own vertices."""
        return len(self.other_ids)

    @classmethod
    def alone(cls, topology: Topology) -> TargetRows:
        """The rows of a graph with one partition."""
        return cls(topology.start, topology.stop, topology.target, topology.ghost_ids)

    @classmethod
    def joined(cls, topology: Topology, parts: Mapping[int, Mapping[str, Array]]) -> TargetRows:
        """Return a partition's rows, of which other partitions sent parts (`rows_for`)."""
        t = topology
        slot_ids = np.concatenate([t.ids, t.ghost_ids])
        known, first = np.unique(slot_ids, return_index=True)
        number = np.empty(len(slot_ids), np.int64)
        number[...] = first[np.searchsorted(known, slot_ids)]
        none = np.empty(0, np.int64)
        received = [parts[p] for p in sorted(parts)]
        ids, counts, ends = (
            np.concatenate([none, *(x[name] for x in received)])
            for name in ("rows.id", "rows.count", "rows.target")
        )
        others = np.setdiff1d(ends, known)
        place = np.minimum(np.searchsorted(known, ends), max(len(known) - 1, 0))
        targets = np.searchsorted(others, ends) + len(slot_ids)
        there = known[place] == ends if len(known) else np.zeros(0, np.bool_)
        targets[there] = first[place[there]]
        order = np.argsort(ids)
        row = order[np.searchsorted(ids[order], t.ghost_ids)]
        stop = t.m + np.cumsum(counts)
        columns = (
            np.concatenate([t.start[: t.n], (stop - counts)[row]]),
            np.concatenate([t.stop, stop[row]]),
            np.concatenate([number[t.target], targets]).astype(np.int32),
            np.concatenate([t.ghost_ids, others]),
        )
        return cls.frozen(*columns)

    @classmethod
    def frozen(cls, start: Array, stop: Array, target: Array, other_ids: Array) -> TargetRows:
        """Rows that are read-only, as a topology's arrays are, or kernels would compile twice."""
        for array in (start, stop, target, other_ids):
            array.flags.writeable = False
        return cls(start, stop, target, other_ids)

    def to_columns(self) -> dict[str, Array]:
        """Return the arrays by name, as `frozen` takes them."""
        return {name: getattr(self, name) for name in ("start", "stop", "target", "other_ids")}


def rows_for(topology: Topology, partition: int) -> dict[str, Array]:
    """The rows of those vertices to which edges lead from another partition, as ids."""
    t = topology
    lo, hi = int(t.inbound_start[partition]), int(t.inbound_start[partition + 1])
    vertices = np.unique(t.inbound[lo:hi])
    counts = (t.stop[vertices] - t.start[vertices]).astype(np.int64)
    first = np.repeat(t.start[vertices] - np.cumsum(counts) + counts, counts)
    entries = first + np.arange(len(first))
    slots = t.target[entries]
    return {
        "rows.id": t.ids[vertices],
        "rows.count": counts,
        "rows.target": np.concatenate([t.ids, t.ghost_ids])[slots],
    }
