"""Hash partitioning of vertex ids, equal in every process and on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["hash_partition"]


def hash_partition(ids: NDArray[np.int64], partitions: int) -> NDArray[np.int32]:
    """The partition (int32[n], in 0..partitions - 1) of each vertex id (int64[n]) by its hash.

    The id is mixed by splitmix64 (Steele, Lea and Flood, OOPSLA 2014), so that ids in
    arithmetic progression spread evenly.

    Example:
        >>> hash_partition(np.array([0, 1, 2]), 1)
        array([0, 0, 0], dtype=int32)
    """
    if partitions == 1:
        return np.zeros(len(ids), np.int32)
    x = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return (x % np.uint64(partitions)).astype(np.int32)
