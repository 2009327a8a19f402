"""Strings and bytes as columns: `offsets` int64[n+1] into uint8[...], and hashes of strings.

The hash is the same in every process and on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.corruption import CorruptError, check_offsets
from vertexsdk.errors import StateError

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_LONG = 96  # bytes of a string from which it is copied by itself
_AT_ONCE = 1 << 20  # bytes hashed together, bounds the scratch memory


class PackedBytes(NamedTuple):
    """n values of type bytes, where two arrays by themselves are strings.

    Attributes:
        offsets: int64[n + 1], where each one begins and ends.
        data: uint8[m].
    """

    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]


class HashedStrings(tuple[NDArray[np.int64], NDArray[np.uint8]]):
    """Packed strings whose hashes are known: the two arrays, as of any packed strings.

    Args:
        offsets: int64[n + 1], where each one begins and ends.
        data: uint8[m], UTF-8.
        hashes: uint64[n], those of `hash_strings`.
    """

    hashes: NDArray[np.uint64]

    def __new__(
        cls, offsets: NDArray[np.int64], data: NDArray[np.uint8], hashes: NDArray[np.uint64]
    ) -> HashedStrings:
        made = super().__new__(cls, (offsets, data))
        made.hashes = hashes
        return made

    def __reduce__(self) -> Any:
        return tuple, ([*self],)


def _pack(parts: list[bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    offsets = np.fromiter(accumulate(map(len, parts), initial=0), np.int64, len(parts) + 1)
    return offsets, np.frombuffer(b"".join(parts), np.uint8)


def pack_bytes(values: Iterable[bytes]) -> PackedBytes:
    """n values of type bytes, packed.

    Example:
        >>> pack_bytes([b"ab", b"", b"\\0"]).offsets.tolist()
        [0, 2, 2, 3]
    """
    return PackedBytes(*_pack(list(values)))


def unpack_bytes(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> list[bytes]:
    """The values packed by `pack_bytes`.

    Example:
        >>> unpack_bytes(*pack_bytes([b"ab", b"", b"\\0"]))
        [b'ab', b'', b'\\x00']
    """
    if offsets.size == 0:
        return []
    joined = data[int(offsets[0]) : int(offsets[-1])].tobytes()
    return [joined[low:high] for low, high in pairwise((offsets - offsets[0]).tolist())]


def pack_strings(strings: Iterable[str]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Columns `(offsets int64[n+1], utf8 uint8[offsets[n]])` of n strings.

    Lone surrogates are kept (encoded by "surrogatepass").

    Example:
        >>> pack_strings(["ab", "", "c"])[0].tolist()
        [0, 2, 2, 3]
    """
    strings = list(strings)
    joined = "".join(strings)
    utf8 = np.frombuffer(joined.encode("utf-8", "surrogatepass"), np.uint8)
    offsets = np.fromiter(accumulate(map(len, strings), initial=0), np.int64, len(strings) + 1)
    if len(utf8) > len(joined):  # from places of characters to those of their first bytes
        offsets = np.append(np.flatnonzero(utf8 & 0xC0 != 0x80), len(utf8))[offsets]
    return offsets, utf8


def unpack_strings(offsets: NDArray[np.int64], utf8: NDArray[np.uint8]) -> list[str]:
    """The strings packed by `pack_strings`.

    Raises:
        StateError: the arrays are not packed strings.
    """
    if offsets.size == 0:
        return []
    data = utf8[int(offsets[0]) : int(offsets[-1])].tobytes()
    bounds = (offsets - offsets[0]).tolist()
    try:
        return [data[low:high].decode("utf-8", "surrogatepass") for low, high in pairwise(bounds)]
    except UnicodeDecodeError as error:
        raise StateError(
            f"stored strings are not UTF-8 ({error.reason}): run again, in another store"
        ) from error


def take_strings(
    offsets: NDArray[np.int64], utf8: NDArray[np.uint8], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The packed strings of `rows`, in that order, without unpacking them.

    Raises:
        ValueError: the arrays are not packed strings.
    """
    lengths = offsets[1:] - offsets[:-1]
    if (lengths < 0).any() or not 0 <= offsets[0] <= offsets[-1] <= utf8.size:
        raise ValueError("offsets that run backwards or beyond the end")
    if lengths.size and lengths.min() == (width := int(lengths.max())):  # as rows of an array
        table = utf8[offsets[0] : offsets[-1]].reshape(lengths.size, width)
        return np.arange(rows.size + 1) * width, table[rows].reshape(-1)
    lengths = lengths[rows]
    taken = np.zeros(rows.size + 1, np.int64)
    np.cumsum(lengths, out=taken[1:])
    if taken[-1] > _LONG * rows.size:
        view, starts = utf8.data, offsets[:-1][rows]
        bounds = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        return taken, np.frombuffer(b"".join([view[low:high] for low, high in bounds]), np.uint8)
    within = np.arange(taken[-1]) - np.repeat(taken[:-1], lengths)
    return taken, utf8[np.repeat(offsets[:-1][rows], lengths) + within]


def join_strings(
    parts: Sequence[tuple[NDArray[np.int64], NDArray[np.uint8]]],
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The packed strings of all parts, one part after the other; each begins at offset 0.

    Example:
        >>> offsets, utf8 = join_strings([pack_strings(["ab"]), pack_strings(["", "c"])])
        >>> offsets.tolist(), utf8.tobytes()
        ([0, 2, 2, 3], b'abc')
    """
    starts = np.cumsum([0, *(offsets[-1] for offsets, _ in parts)])
    moved = [offsets[1:] + s for (offsets, _), s in zip(parts, starts, strict=False)]
    joined = np.concatenate([np.zeros(1, np.int64), *moved])
    return joined, np.concatenate([utf8 for _, utf8 in parts])


def hash_strings(offsets: NDArray[np.int64], utf8: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """uint64[n] hash of each packed string.

    A polynomial in the string's bytes modulo 2**64, finished by the mixer of splitmix64
    (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    """
    count = max(offsets.size - 1, 0)
    hashes = np.empty(count, np.uint64)
    low = 0
    while low < count:
        high = int(np.searchsorted(offsets, offsets[low] + _AT_ONCE, side="right")) - 1
        high = min(max(high, low + 1), count)
        hashes[low:high] = _polynomials(offsets[low : high + 1], utf8)
        low = high
    hashes ^= np.diff(offsets).astype(np.uint64) if count else hashes
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
    return hashes ^ (hashes >> np.uint64(31))


def _polynomials(offsets: NDArray[np.int64], utf8: NDArray[np.uint8]) -> NDArray[np.uint64]:
    lengths = np.diff(offsets)
    longest = int(lengths.max())
    powers = np.full(longest + 1, _MULTIPLIER, np.uint64)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers)
    sums = np.zeros(lengths.size, np.uint64)
    filled = np.flatnonzero(lengths)
    if filled.size:
        starts = offsets[:-1] - offsets[0]
        within = np.arange(offsets[-1] - offsets[0]) - np.repeat(starts, lengths)
        terms = (utf8[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)) * powers[within]
        sums[filled] = np.add.reduceat(terms, starts[filled])
    return sums


def pack_arrow(
    names: pa.Array, kind: pa.DataType | None = None
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """n Arrow strings without nulls as `(offsets int64[n + 1], UTF-8 uint8[offsets[n]])`.

    Args:
        names: the strings.
        kind: `large_binary`, for binary values in place of strings.

    Example:
        >>> offsets, data = pack_arrow(pa.array(["ab", "c"]))
        >>> offsets.tolist(), data.tobytes()
        ([0, 2, 3], b'abc')
    """
    one = pa.concat_arrays([names.cast(kind or pa.large_string())])
    _, offsets, data = one.buffers()
    if offsets is None or not len(one):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    at = np.frombuffer(offsets, np.int64)[one.offset : one.offset + len(one) + 1]
    flat = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return at - at[0], flat[at[0] : at[-1]]


def unpack_arrow(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
    """The Arrow strings (large_string[n]) of `pack_arrow`; the bytes are copied.

    Raises:
        CorruptError: not packed strings, which would make Arrow read memory beyond them.
    """
    check_offsets(offsets, data.size, "offsets")
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data.tobytes())]
    names = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    try:
        names.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptError(f"stored strings are damaged: {error}") from None
    return names


def is_text(kind: pa.DataType) -> bool:
    """Return whether the values of an Arrow type are strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
