"""A grid of streets: a graph of large diameter, the same for the same side and seed.

Crossings are numbered row by row. Each joins its neighbours to the right and below by a street of a
whole length from 1 to 100, drawn evenly; one street in twenty is missing. A street is two edges,
there and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import graphs, rmat

IntArray = npt.NDArray[np.int64]

MISSING = 0.05


def blocks(side: int, seed: int = rmat.SEED) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """All edges as one block of (source, target, length).

    >>> source, target, length = next(blocks(3))
    >>> sorted({abs(s - t) for s, t in zip(source.tolist(), target.tolist())})
    [1, 3]
    """
    at = np.arange(side * side, dtype=np.int64).reshape(side, side)
    one = np.concatenate([at[:, :-1].ravel(), at[:-1, :].ravel()])
    other = np.concatenate([at[:, 1:].ravel(), at[1:, :].ravel()])
    length = rmat.values(0, one.size, seed)
    there = rmat.values(0, one.size, seed + 1) > rmat.LARGEST_VALUE * MISSING
    one, other, length = one[there], other[there], length[there]
    order = np.lexsort((other, one))  # as a file of streets would have them
    one, other, length = one[order], other[order], length[order]
    yield np.concatenate([one, other]), np.concatenate([other, one]), np.tile(length, 2)


def of_side(side: int, cache: Path) -> graphs.BenchGraph:
    """The grid with ``side`` * ``side`` crossings, made once."""
    name = f"grid {side} x {side}"
    return graphs.of_blocks(cache / f"grid-{side}", name, None, partial(blocks, side))
