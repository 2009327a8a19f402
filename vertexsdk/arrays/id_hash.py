"""Key groups and partitions of vertex ids by hash, equal in every process and on every machine.

A partition owns a range of key groups, as in Flink: so what is stored in the order of key groups
is in the order of partitions too, whatever their number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

KEY_GROUPS = 4096  # and so the largest number of partitions
_AT_ONCE = 1 << 14  # ids hashed together stay in the second-level cache


def hash_partition(ids: NDArray[np.int64], partitions: int) -> NDArray[np.int32]:
    """The partition (int32[n], in 0..partitions - 1) which owns the key group of each id.

    Example:
        >>> hash_partition(np.array([0, 1, 2]), 1)
        array([0, 0, 0], dtype=int32)
    """
    if partitions == 1:
        return np.zeros(len(ids), np.int32)
    return owner_of_groups(key_groups(ids), partitions)


def owner_of_groups(groups: NDArray[np.uint16], partitions: int) -> NDArray[np.int32]:
    """The partition (int32[n]) which owns each key group (uint16[n]).

    Example:
        >>> owner_of_groups(np.array([0, 2047, 2048, 4095], np.uint16), 2)
        array([0, 0, 1, 1], dtype=int32)
    """
    return groups.astype(np.int32) * np.int32(partitions) // np.int32(KEY_GROUPS)


def key_groups(ids: NDArray[np.int64]) -> NDArray[np.uint16]:
    """The key group (uint16[n], in 0..4,095) of each vertex id (int64[n]).

    The id is mixed, so that ids in arithmetic progression spread evenly.

    Example:
        >>> key_groups(np.array([0, 1, 2]))
        array([3503, 3265, 1742], dtype=uint16)
    """
    groups = np.empty(len(ids), np.uint16)
    for low in range(0, len(ids), _AT_ONCE):
        part = slice(low, low + _AT_ONCE)
        groups[part] = groups_of_hashes(splitmix64(ids[part]))
    return groups


def groups_of_hashes(hashes: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """The key group (uint16[n]) of each hash."""
    return (hashes % np.uint64(KEY_GROUPS)).astype(np.uint16)


def splitmix64(ids: NDArray[np.int64] | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the hash (uint64, of the same shape) of each number.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.

    Example:
        >>> splitmix64(np.array([0])).tolist()
        [16294208416658607535]
    """
    x = ids.astype(np.uint64)
    x += np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return x
