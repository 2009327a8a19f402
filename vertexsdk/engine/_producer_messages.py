"""Messages to other partitions where ghosts are one per edge: a producer's travels once.

A producer that sends all of its targets the same has one message for each partition, however many
of its targets are there. Both sides number the producers of such a pair of partitions by ascending
id; the receiver knows which of its inbound ghosts each of them is behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.graph.topology import Topology

Array = NDArray[Any]


class ProducerMessages:
    """The producers behind the ghosts of one partition, and behind those of others.

    Args:
        topology: with a ghost per edge, as it was loaded.
    """

    def __init__(self, topology: Topology) -> None:
        self._t = t = topology
        self._sources = t.in_source[t.in_start[t.n] : t.in_start[t.n + t.ghosts]]  # [g]
        self._marks = np.zeros(t.n, np.bool_)
        self._producers = [
            self._distinct(self._sources[a:z]) for a, z in self._bounds(t.ghost_start)
        ]
        self._fan_out = [self._ghosts_behind(a, z) for a, z in self._bounds(t.inbound_start)]

    def _bounds(self, start: Array) -> Iterator[tuple[int, int]]:
        return zip(start[:-1].tolist(), start[1:].tolist(), strict=True)

    def _distinct(self, vertices: Array) -> Array:
        self._marks[vertices] = True
        distinct: Array = np.flatnonzero(self._marks).astype(np.int32)
        self._marks[distinct] = False
        return distinct

    def _ghosts_behind(self, first: int, end: int) -> tuple[Array, Array]:
        """Bounds and numbers of the inbound ghosts of one partition, by their producers."""
        t = self._t
        assert t.producers is not None
        assert t.inbound_order is not None
        order = t.inbound_order[first:end]
        ids = t.producers[order]
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]])[: len(ids)])
        return np.append(starts, len(ids)), order - np.int32(first)

    def outgoing(self, slots: Array, messages: Array) -> Iterator[tuple[int, Array, Array]]:
        """For each partition: the numbers (int32) of producers, and their messages.

        Args:
            slots: ghosts whose producers have sent, ascending.
            messages: of all vertices.
        """
        t = self._t
        cuts = np.searchsorted(slots, t.n + t.ghost_start)
        for p, producers in enumerate(self._producers):
            lo, hi = int(cuts[p]), int(cuts[p + 1])
            if lo < hi:
                numbers = np.empty(len(producers), np.int32)
                find: Any = _senders
                count = find(slots[lo:hi], t.n, self._sources, producers, self._marks, numbers)
                numbers = numbers[:count]
                yield p, numbers, messages[producers[numbers]]

    def incoming(self, partition: int, numbers: Array, messages: Array) -> tuple[Array, Array]:
        """Return inbound ghosts (int32) of a partition, and the message for each.

        Args:
            numbers, messages: what `outgoing` said there.
        """
        starts, order = self._fan_out[partition]
        lengths = starts[numbers + 1] - starts[numbers]
        ghosts = np.empty(int(lengths.sum()), np.int32)
        fill: Any = _fan_out
        fill(numbers, starts, order, ghosts)
        return ghosts, np.repeat(messages, lengths, axis=0)


@njit
def _senders(slots, n, sources, producers, marks, out):  # type: ignore[no-untyped-def]
    """List the producers behind the ghosts `slots`, by their numbers; return how many."""
    for s in slots:
        marks[sources[s - n]] = True
    count = 0
    for k in range(producers.shape[0]):
        if marks[producers[k]]:
            marks[producers[k]] = False
            out[count] = k
            count += 1
    return count


@njit
def _fan_out(numbers, starts, order, out):  # type: ignore[no-untyped-def]
    """List the ghosts behind producers."""
    k = 0
    for number in numbers:
        for j in range(starts[number], starts[number + 1]):
            out[k] = order[j]
            k += 1
