"""Encoded columns, opened: what is in the buffer, and whether it is still what was written.

The layout is described in `column_codec`, which writes it.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays._checksums import BLOCK, block_sums, number_of_blocks
from vertexsdk.arrays._object_columns import PARTS, unpack_objects
from vertexsdk.errors import StateError

__all__ = ["ALIGN", "MAGIC", "PREFIX", "BytesLike", "Column", "CorruptError", "Table", "damaged"]
__all__ += ["aligned", "check_offsets"]

Column: TypeAlias = NDArray[Any]
BytesLike: TypeAlias = bytes | bytearray | memoryview | mmap.mmap | NDArray[np.uint8]
MAGIC = b"VXCOL\r\n\x01"
PREFIX = struct.Struct("<8sIIQ")
ALIGN = 64
_PART_TYPES = {"offsets": np.dtype("<i8"), "bytes": np.dtype("u1"), "index": np.dtype("<i4")}
_LEAST = 16  # views of a buffer aligned less than this are copied: kernels need aligned arrays


class CorruptError(StateError):
    """Bytes that are not what was written: a checksum, a length or the format is wrong."""


@contextmanager
def damaged(what: str, advice: str = ": restore it, or use another store") -> Iterator[None]:
    """Turn what Python raises over bytes that nobody here wrote into a `CorruptError`.

    Args:
        what: the thing that is read, and where.
        advice: the end of the message; none where the error is caught and told with more.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError, struct.error) as e:
        said = (str(e).splitlines() or [""])[0][:100]
        raise CorruptError(f"{what} is damaged ({type(e).__name__}: {said}){advice}") from e


class Table:
    """Encoded columns, opened: the header is read and checked, a column only when asked for.

    A block that was checked once is not checked again.

    Args:
        pieces: one buffer, or several whose concatenation is what `encode` gave; a column is
            only copied if a cut goes through it.

    Attributes:
        meta: what was given to `encode`.
        schema: the schema hash.
        names: the columns' names, in order.
    """

    __slots__ = ("_checked", "_packed", "_pieces", "_places", "meta", "names", "schema", "size")

    def __init__(self, pieces: BytesLike | Sequence[BytesLike]) -> None:
        several: Sequence[Any] = pieces if isinstance(pieces, list | tuple) else [pieces]
        self._pieces = [aligned(np.frombuffer(piece, np.uint8)) for piece in several]
        self.size = sum(piece.size for piece in self._pieces)
        self._open()

    def _open(self) -> None:
        first = self._bytes(0, PREFIX.size).tobytes()
        if first[:8] != MAGIC:
            if first[:7] == MAGIC[:7]:
                raise CorruptError(
                    f"columns of format {first[7]}, this version of vertexsdk reads {MAGIC[7]}: "
                    "read them with the version that wrote them"
                )
            raise CorruptError("not encoded columns: the first bytes are wrong")
        _, length, crc, total = PREFIX.unpack(first.ljust(PREFIX.size, b"\0"))
        if total > self.size:
            raise CorruptError(f"encoded columns cut short: {self.size} bytes of {total}")
        raw = self._bytes(PREFIX.size, PREFIX.size + length).tobytes()
        if zlib.crc32(raw) != crc:
            raise CorruptError("the header of encoded columns fails its checksum")
        with damaged("the header of encoded columns", ""):
            self._read_header(json.loads(raw), PREFIX.size + length)

    def _read_header(self, header: dict[str, Any], sums: int) -> None:
        """A header with a right checksum may still be written by anybody: take nothing on trust.

        Raises:
            LookupError, TypeError, ValueError: it is none.
        """
        self._checked: dict[str, NDArray[np.bool_]] = {}
        self._packed: dict[str, str] = {**header["packed"]}
        self.meta: dict[str, Any] = {**header["meta"]}
        self.schema: str = header["schema"]
        self._places: dict[str, tuple[np.dtype[Any], list[int], int, int, int, int]] = {}
        entries = [_entry(*entry) for entry in header["columns"]]
        sizes = [dtype.itemsize * prod(shape) for _, dtype, shape, _, _ in entries]
        start = -(-(sums + 4 * sum(map(number_of_blocks, sizes))) // ALIGN) * ALIGN
        for (name, dtype, shape, place, own), size in zip(entries, sizes, strict=True):
            _require(name not in self._places, "two columns of one name")
            inside = start + place + size <= self.size and shape[0] <= self.size
            _require(inside, "a column beyond the end")
            self._places[name] = (dtype, shape, start + place, size, sums, own)
            sums += 4 * number_of_blocks(size)
        hidden = set()
        for name, kind in self._packed.items():
            for part in PARTS[kind]:
                dtype, shape, *_ = self._places[f"{name}.{part}"]
                _require((dtype, len(shape)) == (_PART_TYPES[part], 1), "a part of another type")
                hidden.add(f"{name}.{part}")
            _require(self._places[f"{name}.offsets"][1][0] > 0, "no offsets")
        self.names = [*(n for n in self._places if n not in hidden), *self._packed]

    @property
    def stored(self) -> list[str]:
        """The names under which arrays are stored; columns of objects are two arrays."""
        return list(self._places)

    def is_pickled(self, name: str) -> bool:
        """Whether a column holds pickled objects."""
        return self._packed.get(name, "str") != "str"

    def __contains__(self, name: str) -> bool:
        return name in self._places or name in self._packed

    def column(self, name: str, *, verify: bool = False, trusted: bool = False) -> Column:
        """One column; a read-only view, except that object columns are rebuilt.

        Raises:
            CorruptError: `verify` and the column is not what was written; names the column.
            StateError: pickled objects, and not `trusted`.
            KeyError: no such column.
        """
        if name in self._packed:
            kind = self._packed[name]
            parts = {part: self.column(f"{name}.{part}", verify=verify) for part in PARTS[kind]}
            index = parts.get("index")
            if index is not None and index.size:
                self._inside(f"{name}.offsets", int(index.min()), int(index.max()) + 2)
            return unpack_objects(name, kind, parts, trusted=trusted)
        dtype, shape, place, size, _, _ = self._places[name]
        if verify:
            self.check(name)
        values: Column = self._bytes(place, place + size).view(dtype).reshape(shape)
        if verify and (name == "offsets" or name.endswith(".offsets")):
            data = f"{name.removesuffix('offsets')}bytes"
            if data in self._places and self._places[data][0] == np.uint8:  # else a field's name
                check_offsets(values, self.length(data), name)
        return values

    def row(self, name: str, index: int, *, trusted: bool = False) -> Any:
        """The value of a column in one row, reading and checking only the blocks it is in.

        Returns:
            A Python scalar, a read-only array for a vector field, or the object.

        Raises:
            As `column`.
        """
        if name in self._packed:
            if self._packed[name] == "shared":
                self.check(f"{name}.index", index, index + 1)
                index = int(self.rows(f"{name}.index", index, index + 1)[0])
            self.check(f"{name}.offsets", index, index + 2)
            offsets = self.rows(f"{name}.offsets", index, index + 2)
            low, high = int(offsets[0]), int(offsets[1])
            self.check(f"{name}.bytes", low, high)
            data = self.rows(f"{name}.bytes", low, high)
            parts = {"offsets": offsets - low, "bytes": data}
            kind = "str" if self._packed[name] == "str" else "object"
            return unpack_objects(name, kind, parts, trusted=trusted)[0]
        self.check(name, index, index + 1)
        value = self.rows(name, index, index + 1)[0]
        return value.item() if value.ndim == 0 else value

    def length(self, name: str) -> int:
        """The number of rows of a column, as it is stored."""
        return int(self._places[name][1][0])

    def check_rows(self) -> None:
        """Check that there is a column "id" of int64, and a row for each id in all but "name.*".

        Raises:
            CorruptError: it is not so.
        """
        with damaged("the header of encoded columns", ""):
            dtype, shape, *_ = self._places["id"]
            _require((dtype.str, len(shape)) == ("<i8", 1), "ids of another type")
            for name in self.names:
                kind = self._packed.get(name)
                if kind is None:
                    rows = self.length(name)
                elif kind == "shared":
                    rows = self.length(f"{name}.index")
                else:
                    rows = self.length(f"{name}.offsets") - 1
                own = name.startswith("name.")
                _require(own or rows == shape[0], "columns of different lengths")

    def rows(self, name: str, low: int, high: int) -> Column:
        """Rows low..high of a column as it is stored, not checked; reads no others.

        Raises:
            CorruptError: there are no such rows.
        """
        self._inside(name, low, high)
        dtype, shape, place, *_ = self._places[name]
        width = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        data = self._bytes(place + low * width, place + high * width)
        part: Column = data.view(dtype).reshape([high - low, *shape[1:]])
        return part

    def check(self, name: str, low: int = 0, high: int | None = None) -> None:
        """Check the blocks that hold rows low..high of a column against their checksums.

        Raises:
            CorruptError: they are not what was written.
        """
        self._inside(name, low, high)
        dtype, shape, place, size, sums, crc = self._places[name]
        count = number_of_blocks(size)
        if name not in self._checked:
            if zlib.crc32(self._bytes(sums, sums + 4 * count).data) != crc:
                raise _changed(name)
            self._checked[name] = np.zeros(count, np.bool_)
        width = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        first = low * width // BLOCK
        end = count if high is None else min(number_of_blocks(high * width), count)
        done = self._checked[name][first:end]
        if not done.all():
            data = self._bytes(place + first * BLOCK, place + min(end * BLOCK, size))
            expected = self._bytes(sums + 4 * first, sums + 4 * end).view("<u4")
            if not np.array_equal(block_sums(data), expected):
                raise _changed(name)
            done[:] = True

    def _inside(self, name: str, low: int, high: int | None) -> None:
        """Refuse rows that a column does not have, which another column's bytes name."""
        count = self.length(name)
        if not 0 <= low <= (count if high is None else high) <= count:
            raise CorruptError(
                f"column {name!r} has {count} rows, and another one names {low}..{high}"
            )

    def search(self, name: str, wanted: NDArray[Any]) -> NDArray[np.int64]:
        """Where `wanted` (m,) would be inserted, leftmost, in an ascending column: int64[m].

        Only the blocks on the way are read, and checked. For many values it is the whole column.

        Raises:
            As `column`.
        """
        dtype, shape, *_ = self._places[name]
        step = BLOCK // dtype.itemsize
        if 8 * wanted.size > shape[0] // step:
            self.check(name)
            return np.searchsorted(self.column(name), wanted).astype(np.int64)
        found = np.empty(wanted.size, np.int64)
        for index, value in enumerate(wanted):
            found[index] = self._search(name, value, step)
        return found

    def _search(self, name: str, value: Any, step: int) -> int:
        """By guessing where it is if ids are spread evenly, and halving every other time.

        The first and the last value only guide the guess, so they need not be checked.
        """
        low, high = 0, self.length(name)  # the answer is in low..high
        guess = high > step
        first = int(self.rows(name, 0, 1)[0]) if guess else 0
        last = int(self.rows(name, high - 1, high)[0]) if guess else 0
        while high - low > step:
            middle = (low + high) // 2
            if guess and last > first:
                share = min(max((int(value) - first) / (last - first), 0.0), 1.0)
                middle = low + int(share * (high - low - 1))
            guess = not guess
            start = middle // step * step
            end = min(start + step, self.length(name))
            self.check(name, start, end)
            block = self.rows(name, start, end)
            if value <= block[0]:
                if start <= low:
                    return low
                high, last = start, int(block[0])
            elif value <= block[-1]:
                return start + int(np.searchsorted(block, value))
            else:
                low, first = end, int(block[-1])
        self.check(name, low, high)
        return low + int(np.searchsorted(self.rows(name, low, high), value))

    def _bytes(self, low: int, high: int) -> NDArray[np.uint8]:
        parts, start = [], 0
        for piece in self._pieces:
            end = start + piece.size
            if start <= low and high <= end:
                return piece[low - start : high - start]
            if low < end and start < high:
                parts.append(piece[max(low - start, 0) : high - start])
            start = end
        return np.concatenate(parts) if parts else np.empty(0, np.uint8)


def check_offsets(offsets: Column, size: int, name: str) -> None:
    """Refuse offsets that are not those of packed strings: int64, from 0 to `size`, never less.

    Raises:
        CorruptError: names the column. A checksum does not tell who wrote it.
    """
    if offsets.dtype != np.int64 or offsets.ndim != 1:
        raise CorruptError(f"column {name!r} is {offsets.dtype}, and offsets are int64")
    if not offsets.size or offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) < 0).any():
        raise CorruptError(f"column {name!r} does not rise from 0 to the {size} bytes it divides")


def _entry(
    name: Any, dtype: Any, shape: Any, place: Any, own: Any
) -> tuple[str, np.dtype[Any], list[int], int, int]:
    _require(isinstance(name, str) and isinstance(dtype, str), "a name or type that is no text")
    kind = np.dtype(dtype)
    _require(kind.kind in "biufc" and kind.str == dtype, "a type that no column has")
    _require(type(shape) is list and len(shape) in (1, 2), "a shape that no column has")
    numbers = [*shape, place, own]
    _require(all(type(n) is int and 0 <= n < 1 << 62 for n in numbers), "a number out of range")
    _require(place % ALIGN == 0, "a place that is not aligned")
    return name, kind, shape, place, own


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _changed(name: str) -> CorruptError:
    return CorruptError(f"column {name!r} fails its checksum: the stored bytes have changed")


def aligned(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Read-only bytes at a multiple of 16, as kernels need: the same array, or a copy."""
    if data.ctypes.data % _LEAST:
        space = np.empty(data.size + ALIGN, np.uint8)
        skip = -space.ctypes.data % ALIGN
        space[skip : skip + data.size] = data
        data = space[skip : skip + data.size]
    data.flags.writeable = False
    return data
