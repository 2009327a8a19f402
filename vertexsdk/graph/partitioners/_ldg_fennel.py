"""Streaming partitioners: vertices come one by one and stay where most of their neighbours are.

Two rules say how much a full partition puts off: LDG, linear deterministic greedy (Stanton and
Kliot, Streaming Graph Partitioning for Large Distributed Graphs, KDD 2012), and Fennel
(Tsourakakis, Gkantsidis, Radunovic and Vojnovic, WSDM 2014). Vertices come breadth first. With
LDG they come a few times over: neighbours which are yet to come are known by where they were the
time before (Nishimura and Ugander, Restreaming Graph Partitioning, KDD 2013), and the first time by
the chunk of the breadth-first order in which they are: on a grid those alone are near the best, and
without them LDG, which puts what it knows nothing of where there is most room, is far from it.

A partition takes no vertex beyond (1 + slack) times its share of vertices and edges. Only where
a single vertex is heavier than the slack may one be over that, by this vertex.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.graph.partitioners._structure import Structure

_PASSES = 4  # of LDG; Fennel gets no better by more
_GAMMA = 1.5  # Fennel's exponent, as the paper recommends


def ldg(graph: Structure, partitions: int, slack: float) -> NDArray[np.int32]:
    """Return the partition of each vertex (int32[n]): most neighbours, times the room left.

    Args:
        graph: of n vertices.
        partitions: how many.
        slack: how much fuller than its share a partition may be, as 0.05.
    """
    return _streamed(graph, partitions, slack, fennels=False)


def fennel(graph: Structure, partitions: int, slack: float) -> NDArray[np.int32]:
    """Return the partition of each vertex (int32[n]): most neighbours, less the cost of its size.

    The size of a partition is its share of vertices and edges, in vertices. Arguments as `ldg`.
    """
    return _streamed(graph, partitions, slack, fennels=True)


def _streamed(
    graph: Structure, partitions: int, slack: float, *, fennels: bool
) -> NDArray[np.int32]:
    weight = graph.weight
    total = float(weight.sum())
    partition = np.full(graph.n, -1, np.int32)
    if graph.n == 0:
        return partition
    room = (1 + slack) * total / partitions
    edges = len(graph.target) / 2
    alpha = edges * partitions ** (_GAMMA - 1) / graph.n**_GAMMA if fennels else -1.0
    order, unit = graph.order(), graph.n / total
    if not fennels:
        before = np.cumsum(weight[order]) - weight[order]
        partition[order] = np.minimum(before * partitions // int(total), partitions - 1)
    stream: Any = _stream
    for _ in range(1 if fennels else _PASSES):
        stream(graph.start, graph.target, order, weight, partition, partitions, room, alpha, unit)
    return partition


@njit
def _stream(start, target, order, weight, partition, partitions, room, alpha, unit):  # type: ignore[no-untyped-def]
    """Place all vertices in order; `partition` has their last places (-1: none)."""
    load = np.zeros(partitions, np.float64)
    joined = np.zeros(partitions, np.float64)
    for v in order:
        for e in range(start[v], start[v + 1]):
            p = partition[target[e]]
            if p >= 0:
                joined[p] += 1
        best, most = -1, 0.0
        for p in range(partitions):
            if load[p] + weight[v] > room:
                continue
            if alpha >= 0:
                score = joined[p] - alpha * _GAMMA * np.sqrt(load[p] * unit)
            else:
                score = joined[p] * (1 - load[p] / room)
            if best < 0 or score > most or (score == most and load[p] < load[best]):
                best, most = p, score
        if best < 0:  # it fits nowhere
            best = int(np.argmin(load))
        partition[v] = best
        load[best] += weight[v]
        for e in range(start[v], start[v + 1]):
            p = partition[target[e]]
            if p >= 0:
                joined[p] = 0
