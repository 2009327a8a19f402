"""The answers that every system must give, by the plainest code that can be checked by eye.

Nothing here is shared with a system under test, nothing is clever: distances by relaxing every edge
until nothing changes, components by lowering labels, PageRank by pushing along each edge. One
function per measure, over compact vertices 0..n-1 and edge columns ``source``, ``target``,
``value``. Duplicate edges count as often as they stand in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

DAMPING = 0.85
ITERATIONS = 10


@nb.njit(cache=True)  # type: ignore[misc, unused-ignore]
def _push(source, target, share, n):  # type: ignore[no-untyped-def]
    total = np.zeros(n)
    for k in range(source.size):
        total[target[k]] += share[source[k]]
    return total


@nb.njit(cache=True)  # type: ignore[misc, unused-ignore]
def _relax(source, target, length, distance):  # type: ignore[no-untyped-def]
    changed = True
    while changed:
        changed = False
        for k in range(source.size):
            through = distance[source[k]] + length[k]
            if through < distance[target[k]]:
                distance[target[k]] = through
                changed = True


@nb.njit(cache=True)  # type: ignore[misc, unused-ignore]
def _lower(source, target, label):  # type: ignore[no-untyped-def]
    changed = True
    while changed:
        changed = False
        for k in range(source.size):
            u, v = source[k], target[k]
            least = min(label[u], label[v])
            if label[u] != least or label[v] != least:
                label[u] = label[v] = least
                changed = True


class Ranks(NamedTuple):
    """PageRank by three definitions, float64[n] each, all scaled to sum 1.

    ``fixed``: ten iterations from 1/n, the rank of vertices without out-edges spread evenly (the
    definition of LDBC Graphalytics, and ours). ``converged``: the same, to its fixed point.
    ``undistributed``: ten iterations in which that rank is lost (GraphX's definition).
    ``changes``: float64[10], the L1 change made by each of the ten iterations of ``fixed``.
    """

    fixed: FloatArray
    converged: FloatArray
    undistributed: FloatArray
    changes: FloatArray


def pagerank(source: IntArray, target: IntArray, n: int) -> Ranks:
    """PageRank with damping 0.85 by the definitions of `Ranks`."""
    fixed, changes = np.empty(0), []
    steps = islice(_iterations(source, target, n, np.full(n, 1.0 / n)), 300)
    for iteration, (rank, change) in enumerate(steps, 1):
        changes.append(change)
        if iteration == ITERATIONS:
            fixed = rank
        if iteration >= ITERATIONS and change < 1e-13:
            break
    steps = _iterations(source, target, n, np.ones(n), distributed=False)
    plain, _ = next(islice(steps, ITERATIONS - 1, None))
    return Ranks(fixed, rank, plain / plain.sum(), np.array(changes[:ITERATIONS]))


def fixed_point(source: IntArray, target: IntArray, n: int, change: float = 1e-9) -> FloatArray:
    """PageRank by our definition until an iteration changes it by ``change`` (L1): float64[n]."""
    steps = _iterations(source, target, n, np.full(n, 1.0 / n))
    return next(rank for rank, moved in steps if moved <= change)


def undistributed(
    source: IntArray, target: IntArray, n: int, change: float
) -> tuple[FloatArray, int]:
    """PageRank by GraphX's definition until an iteration changes it by ``change`` (L1).

    Ranks are float64[n] and add up to 1, as where the change is measured; and the iterations.
    """
    steps = enumerate(_iterations(source, target, n, np.ones(n), distributed=False), 1)
    return next((r / r.sum(), k) for k, (r, moved) in steps if moved / r.sum() <= change)


def _iterations(
    source: IntArray, target: IntArray, n: int, rank: FloatArray, distributed: bool = True
) -> Iterator[tuple[FloatArray, float]]:
    """The ranks after each iteration, and what it changed (L1).

    ``distributed``: the rank of vertices without out-edges is spread evenly and ranks add up to 1;
    else it is lost, and the mean of ranks would be 1.
    """
    inverse, sinks = _inverse_degree(source, n)
    new = (1.0 - DAMPING) / n if distributed else 1.0 - DAMPING
    while True:
        lost = rank[sinks].sum() / n if distributed else 0.0
        last, rank = rank, new + DAMPING * (_push(source, target, rank * inverse, n) + lost)
        yield rank, float(np.abs(rank - last).sum())


def _inverse_degree(source: IntArray, n: int) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    degree = np.bincount(source, minlength=n).astype(np.float64)
    return np.where(degree == 0, 0.0, 1.0 / np.maximum(degree, 1.0)), degree == 0


def components(source: IntArray, target: IntArray, n: int) -> IntArray:
    """Weakly connected components: int64[n], the least vertex of each vertex's component."""
    label = np.arange(n, dtype=np.int64)
    _lower(source, target, label)
    return label


def distances(
    source: IntArray, target: IntArray, length: FloatArray, n: int, at: int
) -> FloatArray:
    """Length of the shortest path from vertex ``at``: float64[n], ``inf`` where there is none."""
    distance = np.full(n, np.inf)
    distance[at] = 0.0
    _relax(source, target, length, distance)
    return distance


def surfers(source: IntArray, target: IntArray, n: int, each: int, iterations: int) -> IntArray:
    """PageRank in whole surfers, as differential dataflow's example and Pathway's library count.

    At first ``6 * each`` are on every vertex; then so many times `surfers_step`: int64[n].
    """
    count, degree = np.full(n, 6 * each), np.maximum(1, np.bincount(source, minlength=n))
    for _ in range(iterations):
        count = surfers_step(source, target, degree, count, each)
    return count


def surfers_step(
    source: IntArray, target: IntArray, degree: IntArray, count: IntArray, each: int
) -> IntArray:
    """5 of 6 surfers go on, evenly along the out-edges and rounded down for each edge, and
    ``each`` come new to every vertex."""
    going = (5 * count // (6 * degree)).astype(np.float64)
    come: FloatArray = _push(source, target, going, count.size)  # whole numbers below 2**53
    return each + come.astype(np.int64)
