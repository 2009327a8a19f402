"""R-MAT graphs: the same edges for the same scale and seed, made block by block in any order.

Every edge is a function of (seed, index) alone: a splitmix64 stream seeded by both chooses one
quadrant of the adjacency matrix per level with probabilities a, b, c and d = 1 - a - b - c. So a
graph of any size is made in constant memory, and a block of it can be made again by itself.

Ids lie in [0, 2**scale) and are not permuted; self-loops and duplicate edges stay as drawn.

Source: Chakrabarti, Zhan and Faloutsos, "R-MAT: A Recursive Model for Graph Mining" (SDM 2004);
parameters of Graph500.
"""

from __future__ import annotations

from collections.abc import Iterator

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

A, B, C = 0.57, 0.19, 0.19
EDGE_FACTOR = 16
SEED = 20160626
LARGEST_VALUE = 100
BLOCK = 1 << 20

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


@nb.njit(inline="always")  # type: ignore[misc, unused-ignore]
def _mix(x):  # type: ignore[no-untyped-def]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@nb.njit(cache=True)  # type: ignore[misc, unused-ignore]
def _fill_pairs(scale, seed, first, bounds, source, target):  # type: ignore[no-untyped-def]
    for k in range(source.size):
        state = _mix(_mix(seed + _GAMMA) + np.uint64(first + k) * _GAMMA)
        row, column = np.int64(0), np.int64(0)
        for _ in range(scale):
            state += _GAMMA
            draw = _mix(state)
            row = row * 2 + (draw >= bounds[1])
            column = column * 2 + (bounds[0] <= draw < bounds[1] or draw >= bounds[2])
        source[k], target[k] = row, column


@nb.njit(cache=True)  # type: ignore[misc, unused-ignore]
def _fill_values(seed, first, largest, value):  # type: ignore[no-untyped-def]
    for k in range(value.size):
        draw = _mix(_mix(seed - _GAMMA) + np.uint64(first + k) * _GAMMA)
        value[k] = np.int64(draw % np.uint64(largest)) + 1


def pairs(scale: int, first: int, count: int, seed: int = SEED) -> tuple[IntArray, IntArray]:
    """Edges ``first .. first + count - 1`` of the R-MAT graph: (source, target), int64[count]."""
    bounds = np.array([int(p * 2.0**64) for p in (A, A + B, A + B + C)], dtype=np.uint64)
    source, target = np.empty(count, np.int64), np.empty(count, np.int64)
    _fill_pairs(scale, np.uint64(seed), first, bounds, source, target)
    return source, target


def values(first: int, count: int, seed: int = SEED) -> IntArray:
    """Random whole edge values of edges ``first ..``: int64[count], evenly in 1..100."""
    value = np.empty(count, np.int64)
    _fill_values(np.uint64(seed), first, LARGEST_VALUE, value)
    return value


def blocks(scale: int, seed: int = SEED) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """The whole graph of ``16 * 2**scale`` edges as blocks of (source, target, value).

    >>> source, target, value = next(blocks(4))
    >>> source.size, int(source.max()) < 16
    (256, True)
    """
    edges = EDGE_FACTOR << scale
    for first in range(0, edges, BLOCK):
        count = min(BLOCK, edges - first)
        yield (*pairs(scale, first, count, seed), values(first, count, seed))
