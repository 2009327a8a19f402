"""From keys to rows by open addressing: 64-bit integers, and strings as packed UTF-8.

A row is the place of a key in a dense array, in the order in which keys were added. The index is an
array of int32, four to eight bytes a key; the hashes are those of `id_hash` and `packed_strings`.
As the lowest bits of a hash choose the key group, and so the partition, the highest bits choose the
slot: the keys of one partition spread over all of its index.
"""

from __future__ import annotations

import copy
from typing import Any, Generic, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.id_hash import groups_of_hashes, key_groups
from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.packed_strings import HashedStrings, take_strings
from vertexsdk.arrays.prefetch import prefetch
from vertexsdk.arrays.unaligned import load_4, load_8

Packed: TypeAlias = tuple[NDArray[np.int64], NDArray[np.uint8]]
Keys = TypeVar("Keys", NDArray[np.int64], Packed)

_LEAST = 64  # rows
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_ONE = np.uint64(1)
_NOT_KNOWN = np.empty(0, np.uint64)  # hashes
_CHUNK = 64  # keys that are looked for together


@njit
def int_hash(key: Any) -> Any:
    x = np.uint64(key) + _GOLDEN
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


@njit
def bytes_hash(data: Any, low: int, high: int) -> Any:
    total, power = np.uint64(0), _ONE
    for i in range(low, high):
        total += (np.uint64(data[i]) + _ONE) * power
        power *= _GOLDEN
    x = total ^ np.uint64(high - low)
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)


@njit
def _index_ints(slots: Any, shift: Any, keys: Any, count: int) -> None:
    """Write the rows of different keys to an empty index."""
    last = len(slots) - 1
    for row in range(count):
        at = np.int64(int_hash(keys[row]) >> shift)
        while slots[at] != 0:
            at = (at + 1) & last
        slots[at] = row + 1


@njit
def _find_ints(
    slots: Any, shift: Any, keys: Any, count: int, wanted: Any, add: Any, rows: Any, first: int
) -> tuple[int, int]:
    """Find the row of each key from `first` on, -1 where there is none and `add` is false.

    The keys of a chunk go from slot to slot together, so that they wait for memory together. Those
    that have no row come last, in their order.

    Returns:
        The new count, and the first key without room, or the number of keys.
    """
    last, n = len(slots) - 1, len(wanted)
    at, left = np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64)
    for low in range(first, n, _CHUNK):
        size = min(_CHUNK, n - low)
        for i in range(size):
            at[i] = np.int64(int_hash(wanted[low + i]) >> shift)
            prefetch(slots, at[i])
            left[i] = i
        going = size
        while going > 0:
            for j in range(going):
                i = left[j]
                row = np.int64(slots[at[i]]) - 1
                rows[low + i] = row
                prefetch(keys, row)
            more = 0
            for j in range(going):
                i = left[j]
                row = rows[low + i]
                other = row >= 0 and keys[row] != wanted[low + i]
                at[i] = (at[i] + other) & last
                left[more] = i
                more += other
            going = more
        for i in range(low, low + size):
            if rows[i] >= 0:
                continue
            key, slot = wanted[i], at[i - low]
            row = np.int64(slots[slot]) - 1
            while row >= 0 and keys[row] != key:
                slot = (slot + 1) & last
                row = np.int64(slots[slot]) - 1
            if row < 0 and add[i]:
                if count == len(keys):
                    return count, i
                row = np.int64(count)
                keys[row] = key
                slots[slot] = row + 1
                count += 1
            rows[i] = row
    return count, n


@njit
def _index_bytes(slots: Any, shift: Any, hashes: Any, count: int) -> None:
    """Write the rows of different keys to an empty index."""
    last = len(slots) - 1
    for row in range(count):
        at = np.int64(hashes[row] >> shift)
        while slots[at] != 0:
            at = (at + 1) & last
        slots[at] = row + 1


@njit
def _same_bytes(one: Any, low: int, other: Any, start: int, size: int) -> Any:
    """Return whether `size` bytes are equal: eight at a time, the last of which may overlap."""
    if size >= 8:
        for k in range(0, size - 8, 8):
            if load_8(one, low + k) != load_8(other, start + k):
                return False
        return load_8(one, low + size - 8) == load_8(other, start + size - 8)
    if size >= 4:
        end = size - 4
        ahead = load_4(one, low) ^ load_4(other, start)
        return ahead | (load_4(one, low + end) ^ load_4(other, start + end)) == 0
    k = 0
    while k < size and one[low + k] == other[start + k]:
        k += 1
    return k == size


@njit
def _find_bytes(
    slots: Any, shift: Any, hashes: Any, offsets: Any, data: Any, count: int,
    wanted_offsets: Any, wanted_data: Any, known: Any, add: Any, rows: Any, first: int,
) -> tuple[int, int]:  # fmt: skip
    """As `_find_ints`, for packed strings."""
    last, n = len(slots) - 1, len(rows)
    at, left = np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int64)
    wanted_hashes = np.empty(_CHUNK, np.uint64)
    for low in range(first, n, _CHUNK):
        size = min(_CHUNK, n - low)
        for i in range(size):
            k = low + i
            wanted_hashes[i] = (
                known[k]
                if k < len(known)
                else bytes_hash(wanted_data, wanted_offsets[k], wanted_offsets[k + 1])
            )
            at[i] = np.int64(wanted_hashes[i] >> shift)
            prefetch(slots, at[i])
            left[i] = i
        going = size
        while going > 0:
            for j in range(going):
                i = left[j]
                row = np.int64(slots[at[i]]) - 1
                rows[low + i] = row
                prefetch(hashes, row)
                prefetch(offsets, row)
            more = 0
            for j in range(going):
                i = left[j]
                row = rows[low + i]
                other = row >= 0 and hashes[row] != wanted_hashes[i]
                at[i] = (at[i] + other) & last
                left[more] = i
                more += other
            going = more
        for i in range(low, low + size):
            prefetch(data, offsets[max(rows[i], 0)])
        for i in range(low, low + size):
            start, length = wanted_offsets[i], wanted_offsets[i + 1] - wanted_offsets[i]
            key_hash, slot, row = wanted_hashes[i - low], at[i - low], rows[i]
            if row < 0:  # it may have one by now
                row = np.int64(slots[slot]) - 1
            while row >= 0 and not (
                hashes[row] == key_hash and offsets[row + 1] - offsets[row] == length
                and _same_bytes(data, offsets[row], wanted_data, start, length)
            ):  # fmt: skip
                slot = (slot + 1) & last
                row = np.int64(slots[slot]) - 1
            if row < 0 and add[i]:
                end = offsets[count] + length
                if count == len(hashes) or end > len(data):
                    return count, i
                row = np.int64(count)
                data[offsets[row] : end] = wanted_data[start : start + length]
                offsets[row + 1] = end
                hashes[row] = key_hash
                slots[slot] = row + 1
                count += 1
            rows[i] = row
    return count, n


class HashIndex(Generic[Keys]):
    """The rows of different keys: the base of `IntIndex` and `BytesIndex`.

    Attributes:
        rows: number of keys.
        capacity: rows for which there is room.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._resize(_LEAST)

    def _resize(self, capacity: int) -> None:
        """Make room for so many rows, and index those there are."""
        bits = int(capacity * 3 // 2).bit_length()
        self.capacity = capacity
        self._slots = np.zeros(1 << bits, np.int32)
        self._shift = np.uint64(64 - bits)
        self._index()

    def _index(self) -> None:
        raise NotImplementedError

    def reserve(self, keys: Keys) -> bool:
        """Have room for these keys, were all of them new; return whether the capacity changed."""
        raise NotImplementedError

    def find(self, keys: Keys, add: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the row (int64[n]) of each key, -1 where it has none.

        Args:
            keys: n keys, for which `reserve` has made room.
            add: bool[n]: the key gets a row if it has none. Keys are taken in order, so a key
                that a later one adds has no row yet.
        """
        rows = np.empty(len(add), np.int64)
        self.find_from(0, keys, add, rows)
        return rows

    def find_from(
        self, first: int, keys: Keys, add: NDArray[np.bool_], rows: NDArray[np.int64]
    ) -> int:
        """Write the rows of the keys `first`, `first + 1`, ..., as long as there is room.

        Args:
            first: which key comes first.
            keys, add: as for `find`.
            rows: int64[n], where rows are written.

        Returns:
            The place of the first key without room, or n if there is room for all.
        """
        raise NotImplementedError

    def keys(self, rows: NDArray[np.int64]) -> Keys:
        """Return the keys of rows."""
        raise NotImplementedError

    def groups(self, rows: NDArray[np.int64]) -> NDArray[np.uint16]:
        """Return the key group (uint16[n]) of each row's key."""
        raise NotImplementedError

    def fork(self) -> Self:
        """Return a copy, with nothing in common."""
        other = copy.copy(self)
        for name, values in vars(self).items():
            if isinstance(values, np.ndarray):
                setattr(other, name, values.copy())
        return other

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep the keys of these rows alone, which become the rows 0, 1, ..."""
        raise NotImplementedError

    def _grown(self, needed: int) -> bool:
        if needed <= self.capacity:
            return False
        if needed >= 1 << 30:
            raise MemoryError("a table has more than 2**30 keys: use more partitions")
        self._resize(max(needed, 2 * self.capacity))
        return True


class IntIndex(HashIndex[NDArray[np.int64]]):
    """The rows of int64 keys.

    Example:
        >>> index = IntIndex()
        >>> keys = np.array([7, -1, 7])
        >>> _ = index.reserve(keys)
        >>> index.find(keys, np.array([True, False, False])).tolist()
        [0, -1, 0]
    """

    _keys: NDArray[np.int64]

    def _resize(self, capacity: int) -> None:
        keys = np.empty(capacity, np.int64)
        if self.rows:
            keys[: self.rows] = self._keys[: self.rows]
        self._keys = keys
        super()._resize(capacity)

    def _index(self) -> None:
        _index_ints(self._slots, self._shift, self._keys, self.rows)

    def reserve(self, keys: NDArray[np.int64]) -> bool:
        """Make room for these keys; return whether the capacity changed."""
        return self._grown(self.rows + len(keys))

    def find_from(
        self, first: int, keys: NDArray[np.int64], add: NDArray[np.bool_], rows: NDArray[np.int64]
    ) -> int:
        """Write the rows of the keys from `first` on, as long as there is room."""
        self.rows, end = _find_ints(
            self._slots, self._shift, self._keys, self.rows, keys, add, rows, first
        )
        return int(end)

    def keys(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the keys of rows."""
        return self._keys[rows]

    def groups(self, rows: NDArray[np.int64]) -> NDArray[np.uint16]:
        """Return the key group of each row's key."""
        return key_groups(self._keys[rows])

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep the keys of these rows alone."""
        self._keys[: len(rows)] = self._keys[rows]
        self.rows = len(rows)
        self._resize(self.capacity)


class BytesIndex(HashIndex[Packed]):
    """The rows of packed strings (`packed_strings`).

    Example:
        >>> from vertexsdk.arrays.packed_strings import pack_strings
        >>> index = BytesIndex()
        >>> keys = pack_strings(["be", "or", "be"])
        >>> _ = index.reserve(keys)
        >>> index.find(keys, np.array([True, False, False])).tolist()
        [0, -1, 0]
    """

    _offsets: NDArray[np.int64]
    _hashes: NDArray[np.uint64]

    def __init__(self) -> None:
        self._data = np.empty(16 * _LEAST, np.uint8)
        super().__init__()

    def _resize(self, capacity: int) -> None:
        offsets, hashes = np.zeros(capacity + 1, np.int64), np.empty(capacity, np.uint64)
        if self.rows:
            offsets[: self.rows + 1] = self._offsets[: self.rows + 1]
            hashes[: self.rows] = self._hashes[: self.rows]
        self._offsets, self._hashes = offsets, hashes
        super()._resize(capacity)

    def _index(self) -> None:
        _index_bytes(self._slots, self._shift, self._hashes, self.rows)

    def reserve(self, keys: Packed) -> bool:
        """Make room for these keys and their bytes; return whether the capacity changed."""
        used = int(self._offsets[self.rows])
        needed = used + int(keys[0][-1] - keys[0][0])
        if needed > len(self._data):
            data = np.empty(max(needed, 2 * len(self._data)), np.uint8)
            data[:used] = self._data[:used]
            self._data = data
        return self._grown(self.rows + len(keys[0]) - 1)

    def find_from(
        self, first: int, keys: Packed, add: NDArray[np.bool_], rows: NDArray[np.int64]
    ) -> int:
        """Write the rows of the keys from `first` on, as long as there is room."""
        hashes = keys.hashes if isinstance(keys, HashedStrings) else _NOT_KNOWN
        self.rows, end = _find_bytes(
            self._slots, self._shift, self._hashes, self._offsets, self._data, self.rows,
            *keys, hashes, add, rows, first,
        )  # fmt: skip
        return int(end)

    def keys(self, rows: NDArray[np.int64]) -> Packed:
        """Return the keys of rows."""
        return take_strings(self._offsets[: self.rows + 1], self._data, rows)

    def groups(self, rows: NDArray[np.int64]) -> NDArray[np.uint16]:
        """Return the key group of each row's key."""
        return groups_of_hashes(self._hashes[rows])

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep the keys of these rows alone."""
        offsets, data = self.keys(rows)
        self._data[: len(data)] = data
        self._hashes[: len(rows)] = self._hashes[rows]
        self._offsets[: len(offsets)] = offsets
        self.rows = len(rows)
        self._resize(self.capacity)
