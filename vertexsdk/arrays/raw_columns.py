"""Columns as raw bytes, for processes of one run: blocks between partitions, and shared memory.

    lengths   of the header and of the whole, uint64 each
    header    JSON: name, dtype and shape of each column, and what else the writer says
    columns   each at a multiple of 64 bytes; a column of objects is one pickle

Nothing is checked: stored state is an Arrow table with checksums (`arrow_table`), which
takes ten times as long for a small block (`python -m benchmarks.state.encoding`).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import struct
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.corruption import damaged
from vertexsdk.arrays.file_mapping import map_whole
from vertexsdk.errors import StateError, VertexError

Array: TypeAlias = NDArray[Any]
_ALIGN = 64
_LENGTHS = struct.Struct("<QQ")


def _encode(
    columns: Mapping[str, Array], meta: Mapping[str, Any] | None
) -> list[memoryview | bytes]:
    entries, buffers = list[Any](), list[memoryview | bytes]()
    for name, array in columns.items():
        if array.dtype.hasobject:
            data: memoryview | bytes = pickled_in(name, array.tolist())
            entries.append([name, None, len(data)])
        else:
            array = np.ascontiguousarray(array)
            data = array.reshape(-1).view(np.uint8).data if array.size else b""
            entries.append([name, array.dtype.str, array.shape])
        buffers += [data, bytes(-len(data) % _ALIGN)]
    header = json.dumps([entries, dict(meta or {})], separators=(",", ":")).encode()
    header += b" " * (-(_LENGTHS.size + len(header)) % _ALIGN)
    size = _LENGTHS.size + len(header) + sum(map(len, buffers))
    return [_LENGTHS.pack(len(header), size) + header, *buffers]


def encode_bytes(columns: Mapping[str, Array], meta: Mapping[str, Any] | None = None) -> bytes:
    """The columns as one object; copies the arrays once.

    Args:
        columns: arrays of any shape and length; those of objects of shape (n,).
        meta: anything JSON can hold.

    Raises:
        StateError: an object cannot be pickled.

    Example:
        >>> decode(encode_bytes({"rank": np.array([0.5])}, {"iteration": 3}))
        ({'rank': array([0.5])}, {'iteration': 3})
    """
    return b"".join(_encode(columns, meta))


def decode(
    data: bytes | bytearray | memoryview, *, trusted: bool = False
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The columns, as read-only views of `data`, and the meta.

    Args:
        trusted: the writer may run code here, as pickles do.

    Raises:
        CorruptError: not what `encode_bytes` wrote, or cut short.
        StateError: a column of objects, and not `trusted`.
    """
    columns: dict[str, Array] = {}
    with damaged("a block of columns", ""):
        length, size = _LENGTHS.unpack_from(data)
        if size != len(data):
            raise ValueError(f"{len(data)} bytes of {size}")
        place = _LENGTHS.size + length
        entries, meta = json.loads(bytes(data[_LENGTHS.size : place]))
        for name, dtype, shape in entries:
            if dtype is not None:
                count = math.prod(shape)
                array = np.frombuffer(data, dtype, count, place).reshape(shape)
                size = array.nbytes
            else:
                if not trusted:
                    raise StateError(f"column {name!r} holds pickled objects: pass trusted=True")
                values, size = pickle.loads(bytes(data[place : place + shape])), shape
                array = np.fromiter(values, object, len(values))
            array.flags.writeable = False
            columns[name] = array
            place += -(-size // _ALIGN) * _ALIGN
    return columns, meta


def write_file(
    path: str | os.PathLike[str],
    columns: Mapping[str, Array],
    meta: Mapping[str, Any] | None = None,
) -> int:
    """Write columns so that `path` has all of them or does not change; returns bytes.

    Raises:
        OSError: as writing a file does; nothing is left behind.
    """
    folder, base = os.path.split(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{base[:100]}.", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(_encode(columns, meta))
            written = file.tell()
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return written


def map_file(
    path: str | os.PathLike[str],
    *,
    trusted: bool = False,
    opener: Callable[[str, int], int] | None = None,
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The columns and meta of a file of `write_file`, mapped; pages are read when touched.

    The map lives as long as any of the arrays. Processes of a host that map one file share its
    memory. `opener` is that of the built-in `open`.

    Raises:
        OSError: the file cannot be opened.
        CorruptError: as for `decode`; the message names the file.
    """
    with open(path, "rb", opener=opener) as file, damaged(os.fspath(path), ""):
        return decode(map_whole(file.fileno()), trusted=trusted)


def pickled(value: Any, what: str, advice: str, kind: type[VertexError] = StateError) -> bytes:
    """A value of the user as a pickle.

    Args:
        value: anything.
        what, advice: the beginning and the end of the error's message.
        kind: class of the error.

    Raises:
        VertexError: an error of this class; the value cannot be pickled.
    """
    try:
        return pickle.dumps(value, 5)
    except Exception:  # pickle raises anything: try what also knows classes of a script
        import cloudpickle

        try:
            return bytes(cloudpickle.dumps(value, 5))
        except Exception as error:
            raise kind(f"{what} cannot be pickled ({error}){advice}") from error


def pickled_in(name: str, value: Any) -> bytes:
    """Return a value of column `name` as a pickle."""
    what = f"column {name!r}: {type(value).__name__}"
    return pickled(value, what, ": keep only picklable values in the state")
