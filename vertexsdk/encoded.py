"""Encoded columns, opened: what is in the buffer, and whether it is still what was written.

The layout is described in `columns`, which writes it.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vertexsdk.checksums import BLOCK, block_sums, number_of_blocks
from vertexsdk.errors import StateError
from vertexsdk.objects import unpack_objects

__all__ = ["ALIGN", "MAGIC", "PREFIX", "BytesLike", "Column", "CorruptError", "Table"]

Column: TypeAlias = NDArray[Any]
BytesLike: TypeAlias = bytes | bytearray | memoryview | mmap.mmap | NDArray[np.uint8]
MAGIC = b"VXCOL\r\n\x01"
PREFIX = struct.Struct("<8sIIQ")
ALIGN = 64
_LEAST = 16  # views of a buffer aligned less than this are copied: kernels need aligned arrays


class CorruptError(StateError):
    """Bytes that are not what was written: a checksum, a length or the format is wrong."""


class Table:
    """Encoded columns, opened: the header is read and checked, a column only when asked for.

    Attributes:
        meta: what was given to `encode`.
        schema: the schema hash.
        names: the columns' names, in order.
    """

    __slots__ = ("_data", "_packed", "_places", "meta", "names", "schema")

    def __init__(self, buffer: BytesLike) -> None:
        data = np.frombuffer(buffer, np.uint8)
        if data.size < PREFIX.size or data[:8].tobytes() != MAGIC:
            if data.size >= 8 and data[:7].tobytes() == MAGIC[:7]:
                raise CorruptError(
                    f"columns of format {data[7]}, this version of vertexsdk reads {MAGIC[7]}: "
                    "read them with the version that wrote them"
                )
            raise CorruptError("not encoded columns: the first bytes are wrong")
        _, length, crc, total = PREFIX.unpack(data[: PREFIX.size].tobytes())
        raw = data[PREFIX.size : PREFIX.size + length].tobytes()
        if total > data.size:
            raise CorruptError(f"encoded columns cut short: {data.size} bytes of {total}")
        if zlib.crc32(raw) != crc:
            raise CorruptError("the header of encoded columns fails its checksum")
        if data.ctypes.data % _LEAST:
            data = _aligned_copy(data)
        data.flags.writeable = False
        header = json.loads(raw)
        self._data = data
        self._packed: dict[str, str] = header["packed"]
        self.meta: dict[str, Any] = header["meta"]
        self.schema: str = header["schema"]
        self._places: dict[str, tuple[np.dtype[Any], list[int], int, int, int, int]] = {}
        sums = PREFIX.size + length
        sizes = [
            int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))
            for _, dtype, shape, _, _ in header["columns"]
        ]
        start = -(-(sums + 4 * sum(map(number_of_blocks, sizes))) // ALIGN) * ALIGN
        for (name, dtype, shape, place, own), size in zip(header["columns"], sizes, strict=True):
            self._places[name] = (np.dtype(dtype), shape, start + place, size, sums, own)
            sums += 4 * number_of_blocks(size)
        hidden = {f"{name}.{part}" for name in self._packed for part in ("offsets", "bytes")}
        self.names = [*(n for n in self._places if n not in hidden), *self._packed]

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
            offsets = self.column(f"{name}.offsets", verify=verify)
            data = self.column(f"{name}.bytes", verify=verify)
            return unpack_objects(name, self._packed[name], offsets, data, trusted=trusted)
        dtype, shape, place, size, _, _ = self._places[name]
        if verify:
            self.check(name)
        values: Column = self._data[place : place + size].view(dtype).reshape(shape)
        return values

    def row(self, name: str, index: int, *, trusted: bool = False) -> Any:
        """The value of a column in one row, reading and checking only the blocks it is in.

        Returns:
            A Python scalar, a read-only array for a vector field, or the object.

        Raises:
            As `column`.
        """
        if name in self._packed:
            self.check(f"{name}.offsets", index, index + 2)
            offsets = self.column(f"{name}.offsets")[index : index + 2]
            self.check(f"{name}.bytes", int(offsets[0]), int(offsets[1]))
            data = self.column(f"{name}.bytes")
            return unpack_objects(name, self._packed[name], offsets, data, trusted=trusted)[0]
        self.check(name, index, index + 1)
        value = self.column(name)[index]
        return value.item() if value.ndim == 0 else value

    def check(self, name: str, low: int = 0, high: int | None = None) -> None:
        """Check the blocks that hold rows low..high of a column against their checksums.

        Raises:
            CorruptError: they are not what was written.
        """
        dtype, shape, place, size, sums, crc = self._places[name]
        count = number_of_blocks(size)
        expected = self._data[sums : sums + 4 * count].view("<u4")
        width = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        last = size if high is None else min(high * width, size)
        first = low * width // BLOCK
        end = number_of_blocks(last)
        data = self._data[place + first * BLOCK : place + min(end * BLOCK, size)]
        whole = zlib.crc32(expected.data) == crc
        if not whole or not np.array_equal(block_sums(data), expected[first:end]):
            raise CorruptError(f"column {name!r} fails its checksum: the stored bytes have changed")


def _aligned_copy(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    space = np.empty(data.size + ALIGN, np.uint8)
    skip = -space.ctypes.data % ALIGN
    space[skip : skip + data.size] = data
    return space[skip : skip + data.size]
