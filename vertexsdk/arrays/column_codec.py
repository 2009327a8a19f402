"""The column codec: named arrays and a little JSON in one buffer, read back without a copy.

    prefix   magic with the format's version, header length, header CRC, total length
    header   JSON: columns (name, dtype, shape, place, CRC of its sums), meta, schema hash
    sums     uint32 per 64 KiB of every column (see `_checksums`)
    columns  each at a multiple of 64 bytes, little-endian

Everything is covered by a checksum: the header by its CRC, which covers the CRC of each column's
sums, which cover the column. Arrays decoded from a buffer are read-only views of it, aligned to
64 bytes where the buffer is (a file mapped by `map_file` always is).

Arrays of dtype object travel too: all strings as packed UTF-8, anything else as one pickle per
object, which is only read back where the reader trusts the writer (`trusted=True`).
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays._checksums import block_sums
from vertexsdk.arrays._object_columns import pack_objects
from vertexsdk.arrays.column_table import (
    ALIGN,
    MAGIC,
    PREFIX,
    BytesLike,
    Column,
    CorruptError,
    Table,
)
from vertexsdk.arrays.packed_strings import pack_strings, unpack_strings
from vertexsdk.errors import StateError

__all__ = ["Column", "CorruptError", "Table", "decode", "encode", "encode_bytes", "map_file"]
__all__ += ["pack_strings", "schema_hash", "unpack_strings", "write_file"]

_LARGEST_WRITE = 1 << 30  # a single write() stops at 2 GiB


def schema_hash(columns: Mapping[str, Column]) -> str:
    """16 hex digits that are equal for equal names, dtypes and vector sizes, in any order."""
    kinds = sorted(
        f"{name}:{'O' if a.dtype.kind in 'OU' else a.dtype.str}:{a.shape[1:]}"
        for name, a in columns.items()
    )
    return blake2b("\n".join(kinds).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def encode(
    columns: Mapping[str, Column], meta: Mapping[str, Any] | None = None
) -> list[memoryview | bytes]:
    """The encoded columns as buffers to be written one after the other; arrays are not copied.

    Args:
        columns: arrays of bool, integers or floats, of shape (n,) or (n, k); or of objects, of
            shape (n,). Lengths may differ. Arrays that are not contiguous are copied.
        meta: anything JSON can hold; comes back from `decode`.

    Raises:
        StateError: for an array of another dtype, or two columns of one name.

    Example:
        >>> decode(b"".join(encode({"rank": np.array([0.5])}, {"iteration": 3})))
        ({'rank': array([0.5])}, {'iteration': 3})
    """
    packed: dict[str, str] = {}
    plain: dict[str, Column] = {}
    for name, array in columns.items():
        parts = {name: array}
        if array.dtype.kind in "OU":
            packed[name], own = pack_objects(name, array)
            parts = {f"{name}.{part}": values for part, values in own.items()}
        for part, values in parts.items():
            if part in plain or (part != name and part in columns):
                raise StateError(f"two columns are called {part!r}: rename one of them")
            plain[part] = _portable(part, values)
    entries, sums, place = [], [], 0
    for name, array in plain.items():
        blocks = block_sums(_raw(array))
        sums.append(blocks.tobytes())
        crc = zlib.crc32(blocks.data)
        entries.append([name, array.dtype.str, list(array.shape), place, crc])
        place += -(-array.nbytes // ALIGN) * ALIGN
    header = json.dumps(
        {
            "columns": entries,
            "packed": packed,
            "schema": schema_hash(columns),
            "meta": {} if meta is None else dict(meta),
        },
        separators=(",", ":"),
    ).encode()
    table = b"".join(sums)
    used = PREFIX.size + len(header) + len(table)
    start = -(-used // ALIGN) * ALIGN
    prefix = PREFIX.pack(MAGIC, len(header), zlib.crc32(header), start + place)
    buffers: list[memoryview | bytes] = [prefix + header + table + bytes(start - used)]
    for array in plain.values():
        if array.nbytes:
            buffers.append(_raw(array).data)
        if rest := -array.nbytes % ALIGN:
            buffers.append(bytes(rest))
    return buffers


def encode_bytes(columns: Mapping[str, Column], meta: Mapping[str, Any] | None = None) -> bytes:
    """The encoded columns as one object; copies the arrays once."""
    return b"".join(encode(columns, meta))


def decode(
    buffer: BytesLike | Sequence[BytesLike],
    *,
    verify: bool = False,
    trusted: bool = False,
    columns: Iterable[str] | None = None,
) -> tuple[dict[str, Column], dict[str, Any]]:
    """The columns (all, or those named) and the meta of an encoded buffer.

    Raises:
        CorruptError: not what `encode` wrote; columns are only checked with `verify`.
        StateError: a column of pickled objects, and not `trusted`.
    """
    table = Table(buffer)
    names = table.names if columns is None else columns
    return {n: table.column(n, verify=verify, trusted=trusted) for n in names}, table.meta


def write_file(
    path: str | os.PathLike[str],
    columns: Mapping[str, Column],
    meta: Mapping[str, Any] | None = None,
    *,
    durable: bool = False,
) -> int:
    """Write encoded columns so that `path` has all of them or does not change; returns bytes.

    With `durable` the file and its name survive a power cut when this returns.

    Raises:
        OSError: as writing a file does; nothing is left behind.
    """
    folder, base = os.path.split(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{base[:100]}.", dir=folder)
    written = 0
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            for buffer in encode(columns, meta):
                view = memoryview(buffer)
                while view:
                    count = file.write(view[:_LARGEST_WRITE])
                    view, written = view[count:], written + count
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        directory = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    return written


def map_file(
    path: str | os.PathLike[str],
    *,
    verify: bool = False,
    trusted: bool = False,
    opener: Callable[[str, int], int] | None = None,
) -> tuple[dict[str, Column], dict[str, Any]]:
    """The columns and meta of a file of `write_file`, mapped; pages are read when touched.

    The map lives as long as any of the arrays. Processes of a host that map one file share its
    memory. `opener` is that of the built-in `open`.

    Raises:
        OSError: the file cannot be opened.
        CorruptError: see `decode`; names the file.
    """
    with open(path, "rb", opener=opener) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise CorruptError(f"{os.fspath(path)}: the file is empty")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return decode(mapped, verify=verify, trusted=trusted)
    except CorruptError as error:
        raise CorruptError(f"{os.fspath(path)}: {error}") from None


def _portable(name: str, array: Column) -> Column:
    if array.dtype.kind not in "biufc" or array.ndim not in (1, 2):
        raise StateError(
            f"column {name!r} is {array.dtype} of {array.ndim} dimensions: a column is bool, "
            "integer, float or object, of 1 dimension, or 2 for vectors"
        )
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _raw(array: Column) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
