"""Codes of string ids that stay while names are added: int64 numbers in the order of the names.

The codes of a loaded graph are spread over the range of positive int64; a name that comes later
gets a code between those of its neighbours (list labelling: Itai, Konheim and Rodeh, "A sparse
table implementation of priority queues", ICALP 1981). Where names keep coming at one end of a gap,
as those of ascending numbers do, they are packed there, so that the gap lasts.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.packed_strings import hash_strings, pack_arrow, take_strings, unpack_arrow
from vertexsdk.errors import LostError
from vertexsdk.graph.topology.string_ids import merged

_LIMIT = 1 << 62  # codes are below it
_SHARE = 64  # names that keep coming at one end of a gap take this part of it, each batch

Packed = tuple[NDArray[np.int64], NDArray[np.uint8]]


def code_step(count: int) -> int:
    """The distance between the codes of `count` sorted names; that of rank k is (k + 1) times it.

    >>> code_step(3) == 1 << 60
    True
    """
    return _LIMIT // (count + 1)


class NameCodes:
    """The codes of all names of a loop and its branches, which may add names from any thread.

    Args:
        names: sorted and distinct.

    >>> codes = NameCodes(pa.array(["a", "c"], pa.large_string()))
    >>> a, b, c = codes.of(pa.array(["a", "b", "c"]))
    >>> bool(a < b < c), len(codes)
    (True, 3)
    """

    def __init__(self, names: pa.LargeStringArray) -> None:
        count = len(names)
        offsets, data = pack_arrow(names)
        self._offsets, self._bytes = offsets.copy(), data.copy()  # by place, with room at the end
        self._codes = np.arange(1, count + 1, dtype=np.int64) * code_step(count)
        self._order = np.arange(count, dtype=np.int32)  # places, ascending by name
        self._count = count
        self._lock = threading.Lock()
        self._rehash()

    def __len__(self) -> int:
        return self._count

    def of(self, names: pa.Array) -> NDArray[np.int64]:
        """The code of each name (int64[k]); names that are new are added.

        Raises:
            InputError: a new name of digits alone that is beyond int64.
            LostError: no code is left between two neighbours; load the graph again.
        """
        packed = pack_arrow(names)
        with self._lock:
            places = self._find(packed)
            unknown = np.flatnonzero(places < 0)
            if len(unknown):
                self._add(merged([names.take(pa.array(unknown))]))
                places[unknown] = self._find(take_strings(*packed, unknown))
            return self._codes[places]

    def at(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], Packed]:
        """The codes (int64[k]) and packed names of places: a name's number as it came."""
        with self._lock:
            return self._codes[places], self._packed(places)

    def sorted(self) -> tuple[pa.LargeStringArray, NDArray[np.int64]]:
        """All names, sorted, and their codes (int64[n], ascending)."""
        with self._lock:
            return unpack_arrow(*self._packed(self._order)), self._codes[self._order]

    def _packed(self, places: NDArray[Any]) -> Packed:
        used = self._offsets[: self._count + 1]
        return take_strings(used, self._bytes, places.astype(np.int64))

    def _find(self, packed: Packed) -> NDArray[np.int64]:
        offsets, data = packed
        out = np.empty(len(offsets) - 1, np.int64)
        _find(hash_strings(offsets, data), offsets, data, self._table, self._offsets,
              self._bytes, out)  # fmt: skip
        return out

    def _add(self, names: pa.LargeStringArray) -> None:
        """Add names that are not there, sorted and distinct."""
        offsets, data = pack_arrow(names)
        rank = np.empty(len(names), np.int64)
        _ranks(offsets, data, self._order, self._offsets, self._bytes, rank)
        codes = np.empty(len(names), np.int64)
        for first, last in _runs(rank):
            codes[first:last] = self._between(int(rank[first]), last - first)
        start, count = int(self._offsets[self._count]), self._count
        self._offsets = _room(self._offsets, count + len(names) + 1)
        self._bytes = _room(self._bytes, start + len(data))
        self._codes = _room(self._codes, count + len(names))
        self._offsets[count + 1 : count + len(names) + 1] = offsets[1:] + start
        self._bytes[start : start + len(data)] = data
        self._codes[count : count + len(names)] = codes
        places = np.arange(count, count + len(names), dtype=np.int32)
        self._order = np.insert(self._order, rank, places)
        self._count += len(names)
        if 2 * self._count > len(self._table):
            self._rehash()
        else:
            _enter(hash_strings(offsets, data), count, self._table)

    def _between(self, rank: int, count: int) -> NDArray[np.int64]:
        """Codes for `count` new names that all sort between the names of rank - 1 and rank."""
        places = {k: int(self._order[k]) for k in range(rank - 2, rank + 2)
                  if 0 <= k < len(self._order)}  # fmt: skip
        previous, left, right, following = (places.get(k) for k in range(rank - 2, rank + 2))
        low = 0 if left is None else int(self._codes[left])
        high = _LIMIT if right is None else int(self._codes[right])
        room = high - low - 1
        if room < count:
            raise LostError("no free code between two names; load the graph again")
        number = np.arange(1, count + 1, dtype=np.int64)
        step = max(1, room // (_SHARE * count))
        if right is None or (left is not None and previous is not None and left > previous > right):
            return low + step * number
        if left is None or (following is not None and right > following > left):
            return high - step * number[::-1]
        return low + (room + 1) // (count + 1) * number

    def _rehash(self) -> None:
        size = 1 << max(10, (4 * self._count).bit_length())
        self._table = np.zeros(size, np.int32)  # place + 1, 0 where there is none
        used = self._offsets[: self._count + 1]
        _enter(hash_strings(used, self._bytes), 0, self._table)


def _runs(rank: NDArray[np.int64]) -> list[tuple[int, int]]:
    """The ranges of equal values in an ascending array."""
    cuts = [0, *(np.flatnonzero(np.diff(rank)) + 1).tolist(), len(rank)]
    return list(zip(cuts, cuts[1:], strict=False))


def _room(array: NDArray[Any], length: int) -> NDArray[Any]:
    """The array with room for so many entries."""
    if length <= len(array):
        return array
    longer = np.zeros(length + length // 2, array.dtype)
    longer[: len(array)] = array
    return longer


@njit
def _compare(a: Any, a_low: Any, a_high: Any, b: Any, b_low: Any, b_high: Any) -> Any:
    """-1, 0 or 1 as one string of bytes sorts before, with or after another."""
    length = min(a_high - a_low, b_high - b_low)
    for k in range(length):
        if a[a_low + k] != b[b_low + k]:
            return -1 if a[a_low + k] < b[b_low + k] else 1
    if a_high - a_low == b_high - b_low:
        return 0
    return -1 if a_high - a_low < b_high - b_low else 1


@njit
def _find(
    hashes: Any, offsets: Any, data: Any, table: Any, known_offsets: Any, known_data: Any, out: Any
) -> None:
    """The place of each string in a hash table with linear probing, -1 where it is not there."""
    mask = np.uint64(table.shape[0] - 1)
    for k in range(hashes.shape[0]):
        at = hashes[k] & mask
        out[k] = -1
        while table[at] != 0:
            place = table[at] - 1
            if _compare(data, offsets[k], offsets[k + 1], known_data, known_offsets[place],
                        known_offsets[place + 1]) == 0:  # fmt: skip
                out[k] = place
                break
            at = (at + np.uint64(1)) & mask


@njit
def _enter(hashes: Any, first: Any, table: Any) -> None:
    """Put strings that are not there into the table, at places from `first` on."""
    mask = np.uint64(table.shape[0] - 1)
    for k in range(hashes.shape[0]):
        at = hashes[k] & mask
        while table[at] != 0:
            at = (at + np.uint64(1)) & mask
        table[at] = first + k + 1


@njit
def _ranks(
    offsets: Any, data: Any, order: Any, known_offsets: Any, known_data: Any, out: Any
) -> None:
    """Count the known strings that sort before each string."""
    for k in range(out.shape[0]):
        lo, hi = 0, order.shape[0]
        while lo < hi:
            mid = (lo + hi) >> 1
            place = order[mid]
            if _compare(known_data, known_offsets[place], known_offsets[place + 1], data,
                        offsets[k], offsets[k + 1]) < 0:  # fmt: skip
                lo = mid + 1
            else:
                hi = mid
        out[k] = lo
