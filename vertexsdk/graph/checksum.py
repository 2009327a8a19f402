"""A checksum of a graph that does not depend on how it is divided into partitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from vertexsdk.arrays.jit import njit
from vertexsdk.graph.topology import Topology


def graph_checksum(t: Topology) -> int:
    """The sum modulo 2^64 of the hashes of a partition's vertices and out-edges.

    Added up over all partitions it is the same for equal graphs, whatever their number. Of a vertex
    counts its class, of an edge its value.

    >>> from vertexsdk import Graph
    >>> sums = set()
    >>> for partitions in (1, 3):
    ...     graph = Graph.from_arrays([1, 2, 3], [2, 3, 1], partitions=partitions)
    ...     parts = [graph_checksum(graph.topology(("out", None, "combined"), p))
    ...              for p in range(partitions)]
    ...     sums.add(sum(parts) % (1 << 64))
    >>> len(sums)
    1
    """
    kinds = np.zeros(t.n, np.uint8) if t.kind is None else t.kind
    if t.value is None:
        values = np.zeros((len(t.target), 0), np.uint64)
    else:
        wide = t.value if t.value.dtype.itemsize == 8 else t.value.astype(np.float64)
        values = wide.view(np.uint64)
        values = values[:, None] if values.ndim == 1 else values
    slots = np.concatenate([t.ids, t.ghost_ids]).view(np.uint64)
    total: Any = _sum
    return int(total(slots, t.n, t.start, t.target, kinds, values))


@njit
def _mixed(x: Any) -> Any:
    """Splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    x += np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit
def _sum(slots, n, start, target, kinds, values):  # type: ignore[no-untyped-def]
    total = np.uint64(0)
    for v in range(n):
        source = _mixed(slots[v])
        total += _mixed(source + np.uint64(kinds[v]))
        for e in range(start[v], start[v + 1]):
            edge = source ^ (slots[target[e]] * np.uint64(3))
            for k in range(values.shape[1]):
                edge = _mixed(edge) ^ values[e, k]
            total += _mixed(edge)
    return total
