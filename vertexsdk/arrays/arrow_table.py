"""Columns as an Arrow IPC stream that is read back at no copy: the format of a stored segment.

    schema        names and types, and as metadata `vertexsdk` (JSON), `sums`, and `groups`
    record batch  one, not compressed; numbers begin at multiples of 64 bytes, strings follow them
    trailer       after the stream's end: length and CRC of what precedes the columns

Any Arrow reader reads a segment (`pyarrow.ipc.open_stream`). Columns of different lengths are one
row of lists. Vectors are fixed-size lists, strings are `large_string`, and Python objects are
`large_binary`, one pickle a row, which is only read where the reader trusts the writer.

`sums` has the `block_sums` of every column, a uint32 per 64 KiB, and the trailer's CRC covers it.
`groups` (uint32[b + 1]) says where the rows of each of b ranges of key groups begin.

Arrow reads the schema and where each column is; the bytes of columns are only read through NumPy,
within the bounds of the segment, as a right checksum does not tell who wrote them.
"""

from __future__ import annotations

import json
import mmap
import pickle
import struct
import zlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise, takewhile
from math import prod
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_messages import open_stream
from vertexsdk.arrays.corruption import CorruptError, check_offsets, damaged, unpickling
from vertexsdk.arrays.id_hash import KEY_GROUPS
from vertexsdk.arrays.packed_strings import (
    pack_bytes,
    pack_strings,
    take_strings,
    unpack_bytes,
    unpack_strings,
)
from vertexsdk.arrays.raw_columns import pickled_in
from vertexsdk.errors import StateError

Column: TypeAlias = NDArray[Any]
BytesLike: TypeAlias = bytes | bytearray | memoryview | mmap.mmap | NDArray[np.uint8]
TRAILER = struct.Struct("<QII8s")  # eight zero bytes, length and CRC of the head, magic
MAGIC = b"VXSEG\r\n\x02"
_ALIGN = 64
_LEAST = 16  # a buffer aligned less than this is copied: kernels need aligned arrays
_LONGEST = (1 << 31) - 1  # Arrow's limit on fixed-size lists
_ROW_COST = 64  # rows of a column that are read in the time in which one is looked up
_OFFSETS, _BYTES = np.dtype("<i8"), np.dtype("u1")


def schema_hash(columns: Mapping[str, Column]) -> str:
    """16 hex digits that are equal for equal names, dtypes and vector sizes, in any order."""
    kinds = sorted(
        f"{name}:{'O' if a.dtype.kind in 'OU' else a.dtype.str}:{a.shape[1:]}"
        for name, a in columns.items()
    )
    return blake2b("\n".join(kinds).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def encode(
    columns: Mapping[str, Column],
    meta: Mapping[str, Any] | None = None,
    *,
    groups: NDArray[np.uint32] | None = None,
) -> list[memoryview | bytes]:
    """The stream as buffers to be written one after the other; arrays are not copied.

    Args:
        columns: arrays of bool, integers or floats, of shape (n,) or (n, k), or of objects, of
            shape (n,). Lengths may differ. Arrays that are not contiguous are copied. Two columns
            "x.offsets" (int64[n + 1]) and "x.bytes" (uint8) are one column of n strings.
        meta: anything JSON can hold.
        groups: where the rows of each range of key groups begin, and the number of rows.

    Raises:
        StateError: for an array of another dtype, or two columns of one name.
        CorruptError: offsets that are not those of packed strings.

    Example:
        >>> table = Table(b"".join(encode({"rank": np.array([0.5])}, {"iteration": 3})))
        >>> table.column("rank"), table.meta
        (array([0.5]), {'iteration': 3})
    """
    parts, texts = dict[str, Column](), dict[str, str]()
    for name, array in columns.items():
        stored = {name: array}
        if array.dtype.kind in "OU":
            texts[name], stored = _packed(name, array)
        for part, values in stored.items():
            if part in parts or (part != name and part in columns):
                raise StateError(f"two columns are called {part!r}: rename one of them")
            parts[part] = _portable(part, values)
    for name in [n.removesuffix(".offsets") for n in columns if n.endswith(".offsets")]:
        offsets, data = parts[f"{name}.offsets"], parts.get(f"{name}.bytes")
        if data is not None and (offsets.dtype, data.dtype) == (_OFFSETS, _BYTES):
            check_offsets(offsets, data.size, f"{name}.offsets")
            texts[name] = "parts"
    hidden = {f"{name}.{part}" for name in texts for part in ("offsets", "bytes")}
    numbers = {name: array for name, array in parts.items() if name not in hidden}
    sums = [block_sums(_raw(array)) for array in numbers.values()]
    for name in texts:
        sums += [block_sums(_raw(parts[f"{name}.{part}"])) for part in ("offsets", "bytes")]
    # Arrow sees an array of zeros in place of numbers, which `_pieces` puts there.
    most = max((_padded(array.nbytes) for array in numbers.values()), default=0)
    zeros = pa.py_buffer(np.zeros(most, np.uint8))
    arrays = [_number_array(array, zeros) for array in numbers.values()]
    arrays += [_text_array(parts[f"{n}.offsets"], parts[f"{n}.bytes"], k) for n, k in texts.items()]
    ragged = len({len(array) for array in arrays}) > 1
    if ragged:
        arrays = [_one_row(array) for array in arrays]
    notes = [{"dtype": array.dtype.str} for array in numbers.values()]
    notes += [{"text": k, "bytes": f"{parts[f'{n}.bytes'].size}"} for n, k in texts.items()]
    fields = [
        pa.field(name, array.type, nullable=False, metadata=note)
        for name, array, note in zip([*numbers, *texts], arrays, notes, strict=True)
    ]
    head = {"names": [*columns], "ragged": ragged, "schema": schema_hash(columns)}
    record = json.dumps({**head, "meta": dict(meta or {})}, separators=(",", ":"))
    metadata: dict[str, str | bytes] = {"vertexsdk": record}
    metadata["sums"] = np.concatenate([*sums, np.empty(0, np.uint32)]).tobytes()
    if groups is not None:
        metadata["groups"] = groups.astype("<u4").tobytes()
    batch = pa.record_batch(arrays, schema=pa.schema(fields, metadata))
    return _pieces(batch, zeros.address if most else -1, [*numbers.values()])


def _is_text(value: Any) -> bool:
    """Return whether a value is a str, or one of a subclass that is pickled as a str."""
    return type(value) is str or (isinstance(value, str) and value.__reduce_ex__(2)[0] is str)


def _packed(name: str, array: Column) -> tuple[str, dict[str, Column]]:
    """A column of objects as offsets and bytes: of strings, of bytes, or of pickles."""
    if array.ndim != 1:
        raise StateError(f"column {name!r} of objects has {array.ndim} dimensions: give it one")
    values = array.tolist()
    if all(map(_is_text, values)):
        offsets, data = pack_strings(values)
        return "str", {f"{name}.offsets": offsets, f"{name}.bytes": data}
    kind = "bytes" if set(map(type, values)) == {bytes} else "pickle"
    if kind == "pickle":
        values = [pickled_in(name, value) for value in values]
    offsets, data = pack_bytes(values)
    return kind, {f"{name}.offsets": offsets, f"{name}.bytes": data}


def _portable(name: str, array: Column) -> Column:
    if array.dtype.kind not in "biufc" or array.ndim not in (1, 2):
        raise StateError(
            f"column {name!r} is {array.dtype} of {array.ndim} dimensions: a column is bool, "
            "integer, float or object, of 1 dimension, or 2 for vectors"
        )
    if max(array.shape) > _LONGEST:
        raise StateError(f"column {name!r} has {max(array.shape):,} rows: use more partitions")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _number_array(array: Column, zeros: pa.Buffer) -> pa.Array:
    kind = _arrow_type(array.dtype)
    data = zeros.slice(0, _padded(array.nbytes))
    numbers = pa.Array.from_buffers(kind, array.size, [None, data])
    if array.ndim == 1:
        return numbers
    vector = pa.list_(kind, array.shape[1])
    return pa.Array.from_buffers(vector, len(array), [None], children=[numbers])


def _arrow_type(dtype: np.dtype[Any]) -> pa.DataType:
    """Arrow's type of as many bytes; bool is uint8, as Arrow's own is a bit."""
    try:
        return pa.uint8() if dtype.kind == "b" else pa.from_numpy_dtype(dtype)
    except pa.ArrowNotImplementedError:
        return pa.binary(dtype.itemsize)


def _text_array(offsets: Column, data: Column, kind: str) -> pa.Array:
    """Arrow strings, or binary: bytes, pickles, and lone surrogates, which Arrow refuses."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    if kind in ("str", "parts"):
        text = pa.Array.from_buffers(pa.large_string(), len(array), buffers)
        try:
            text.validate(full=True)
        except pa.ArrowInvalid:
            return array
        return text
    return array


def _one_row(array: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(pa.list_(array.type, len(array)), 1, [None], children=[array])


class _Sink:
    """A file for Arrow to write to, which only lists what it gets."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[Any] = []

    def write(self, piece: Any) -> int:
        self.pieces.append(piece)
        return len(piece)

    def flush(self) -> None: ...
    def close(self) -> None: ...


def _pieces(batch: pa.RecordBatch, zeros: int, numbers: list[Column]) -> list[memoryview | bytes]:
    sink = _Sink()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), batch.schema) as stream:
        stream.write_batch(batch)
    leading = list(takewhile(lambda piece: isinstance(piece, bytes), sink.pieces))
    start = b"".join(leading)  # two messages; where all columns are empty, the stream's end too
    second = 8 + int.from_bytes(start[4:8], "little")
    size = int.from_bytes(start[second + 4 : second + 8], "little")
    length = second + 8 + size
    # The message before the columns gets as much padding as they need to be aligned.
    padding = -length % _ALIGN
    head = b"".join(
        [start[: second + 4], struct.pack("<i", size + padding), start[second + 8 : length]]
    ) + bytes(padding)
    buffers: list[memoryview | bytes] = [head, start[length:]]
    waiting = [array for array in numbers if array.nbytes]
    for piece in sink.pieces[len(leading) :]:
        if isinstance(piece, pa.Buffer) and piece.address == zeros:
            array = waiting.pop(0)
            buffers += [_raw(array).data, bytes(len(piece) - array.nbytes)]
        else:
            buffers.append(memoryview(piece).cast("B"))
    trailer = TRAILER.pack(0, len(head), zlib.crc32(head), MAGIC)
    return [buffer for buffer in [*buffers, trailer] if len(buffer)]


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _raw(array: Column) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


class Table:
    """An encoded table, opened: the head is read and checked, a column only when asked for.

    A block that was checked once is not checked again.

    Args:
        pieces: one buffer, or several whose concatenation is what `encode` gave; these are copied.

    Attributes:
        meta: what was given to `encode`.
        schema: the schema hash.
        names: the columns' names, in order.
        groups: what was given to `encode`.
    """

    __slots__ = (
        "_checked", "_data", "_places", "_ragged", "_sums", "_texts",
        "groups", "meta", "names", "schema", "size",
    )  # fmt: skip

    def __init__(self, pieces: BytesLike | Sequence[BytesLike]) -> None:
        several: Sequence[Any] = pieces if isinstance(pieces, list | tuple) else [pieces]
        arrays = [np.frombuffer(piece, np.uint8) for piece in several]
        self._data = aligned(arrays[0] if len(arrays) == 1 else np.concatenate([*arrays]))
        self.size = self._data.size
        self._open()

    def _open(self) -> None:
        end = self._bytes(max(self.size - TRAILER.size, 0), self.size).tobytes()
        if end[-len(MAGIC) :] != MAGIC or len(end) < TRAILER.size:
            raise CorruptError("it is not a segment, or was cut short: its last bytes are wrong")
        _, length, crc, _ = TRAILER.unpack(end)
        head = self._bytes(0, min(length, self.size))
        if zlib.crc32(head.data) != crc:
            raise CorruptError("its head fails its checksum")
        with damaged("its head", ""):
            try:
                self._read_head(self._stream(length))
            except (pa.ArrowException, OSError, StopIteration) as error:
                raise ValueError(str(error)) from None

    def _stream(self, head: int) -> pa.Buffer:
        """The stream, of which only the first `head` bytes are read."""
        return pa.py_buffer(self._data)

    def _read_head(self, stream: pa.Buffer) -> None:
        """Read a head without trusting it: any writer can compute a right checksum.

        Raises:
            LookupError, TypeError, ValueError, pa.ArrowException: the bytes are not a head.
        """
        reader = open_stream(stream, 1)
        fields = reader.schema
        metadata = fields.metadata or {}
        record = json.loads(metadata[b"vertexsdk"])
        self.meta: dict[str, Any] = {**record["meta"]}
        self.schema: str = record["schema"]
        self._sums = np.frombuffer(metadata[b"sums"], "<u4")
        self._checked = np.zeros(self._sums.size, np.bool_)
        starts = metadata.get(b"groups")
        self.groups = None if starts is None else np.frombuffer(starts, "<u4")
        self._texts: dict[str, str] = {}
        self._places: dict[str, tuple[np.dtype[Any], list[int], int, int, int]] = {}
        self._ragged: bool = record["ragged"]
        notes = [field.metadata or {} for field in fields]
        shapes = [_shape(f.type, n, self._ragged) for f, n in zip(fields, notes, strict=True)]
        batch = reader.read_next_batch()
        _require(not self._ragged or batch.num_rows == 1, "a list of another length")
        names = list[str]()
        for column, field, note, shape in zip(batch.columns, fields, notes, shapes, strict=True):
            shape = shape if self._ragged else [batch.num_rows, *shape]
            buffers = column.buffers()
            if b"text" in note:
                kind = note[b"text"].decode()
                _require(kind in ("str", "bytes", "pickle", "parts"), "another kind of text")
                offsets, data = buffers[-2:]
                place = (stream, offsets if shape[0] else None)
                self._add(f"{field.name}.offsets", _OFFSETS, [shape[0] + 1], *place)
                self._add(f"{field.name}.bytes", _BYTES, [int(note[b"bytes"])], stream, data)
                parts = [f"{field.name}.offsets", f"{field.name}.bytes"]
                if kind != "parts":
                    self._texts[field.name], parts = kind, [field.name]
                names += parts
            else:
                dtype = np.dtype(note[b"dtype"].decode())
                _require(dtype.kind in "biufc", "a type that no column has")
                self._add(field.name, dtype, shape, stream, buffers[-1])
                names.append(field.name)
        _require(sorted(names) == sorted(record["names"]), "names of other columns")
        self.names: list[str] = record["names"]

    def _add(
        self,
        name: str,
        dtype: np.dtype[Any],
        shape: list[int],
        stream: pa.Buffer,
        buffer: pa.Buffer | None,
    ) -> None:
        """Note where a column is; one of no rows has no buffer, and one offset, which is 0."""
        size = dtype.itemsize * prod(shape)
        place = self.size - TRAILER.size
        if buffer is not None and size:
            place = buffer.address - stream.address
            _require(place >= 0 and place + size <= self.size, "a column beyond the end")
            _require(size <= buffer.size and place % 8 == 0, "a column in the wrong place")
        _require(name not in self._places, "two columns of one name")
        first = sum(number_of_blocks(known[3]) for known in self._places.values())
        _require(first + number_of_blocks(size) <= self._sums.size, "too few checksums")
        self._places[name] = (dtype, shape, place, size, first)

    @property
    def stored(self) -> list[str]:
        """The names under which arrays are stored; columns of objects are two arrays."""
        return list(self._places)

    def is_pickled(self, name: str) -> bool:
        """Return whether a column holds pickled objects."""
        return self._texts.get(name) == "pickle"

    def __contains__(self, name: str) -> bool:
        return name in self._places or name in self._texts

    def column(self, name: str, *, verify: bool = False, trusted: bool = False) -> Column:
        """One column; a read-only view, except that object columns are rebuilt.

        Raises:
            CorruptError: `verify` and the column is not what was written; names the column.
            StateError: pickled objects, and not `trusted`.
            KeyError: no such column.
        """
        if name in self._texts:
            offsets, data = (
                self.column(f"{name}.{p}", verify=verify) for p in ("offsets", "bytes")
            )
            return self._objects(name, offsets, data, trusted=trusted)
        dtype, shape, place, size, _ = self._places[name]
        if verify:
            self.check(name)
        values: Column = self._bytes(place, place + size).view(dtype).reshape(shape)
        if verify and name.endswith(".offsets"):
            divided = f"{name.removesuffix('offsets')}bytes"
            if divided in self._places and self._places[divided][0] == _BYTES:  # else a field
                check_offsets(values, self.length(divided), name)
        return values

    def row(self, name: str, index: int, *, trusted: bool = False) -> Any:
        """The value of a column in one row, reading and checking only the blocks it is in.

        Returns:
            A Python scalar, a read-only array for a vector field, or the object.

        Raises:
            As `column`.
        """
        if name in self._texts:
            return self._objects(name, *self.texts(name, index, index + 1), trusted=trusted)[0]
        self.check(name, index, index + 1)
        value = self.rows(name, index, index + 1)[0]
        return value.item() if value.ndim == 0 else value

    def take(self, name: str, rows: NDArray[np.int64], *, trusted: bool = False) -> Column:
        """The values of a column in some rows; only the blocks that they are in are checked.

        Raises:
            As `column`.
        """
        if name in self._texts:
            return self._objects(name, *self.take_texts(name, rows), trusted=trusted)
        if not self._are_few(name, rows):
            return self.column(name, verify=True).take(rows, 0)
        parts = [self.rows(name, 0, 0)]
        for row in rows.tolist():
            self.check(name, row, row + 1)
            parts.append(self.rows(name, row, row + 1))
        return np.concatenate(parts)

    def take_texts(self, name: str, rows: NDArray[np.int64]) -> tuple[Column, NDArray[np.uint8]]:
        """Some rows of a column of strings or pickles: offsets from 0, and the bytes.

        Raises:
            CorruptError: as `column`.
        """
        if self._are_few(f"{name}.offsets", rows):
            parts = [self.texts(name, row, row + 1) for row in rows.tolist()]
            sizes = [data.size for _, data in parts]
            offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            return offsets, np.concatenate([np.empty(0, np.uint8), *(data for _, data in parts)])
        offsets, data = (self.column(f"{name}.{p}", verify=True) for p in ("offsets", "bytes"))
        return take_strings(offsets, data, rows)

    def _are_few(self, name: str, rows: NDArray[np.int64]) -> bool:
        return rows.size * _ROW_COST < self.length(name)

    def texts(self, name: str, low: int, high: int) -> tuple[Column, NDArray[np.uint8]]:
        """Rows low..high of a column of strings or pickles: offsets from 0, and the bytes.

        Raises:
            CorruptError: as `column`.
        """
        self.check(f"{name}.offsets", low, high + 1)
        offsets = self.rows(f"{name}.offsets", low, high + 1)
        start, stop = int(offsets[0]), int(offsets[-1])
        self.check(f"{name}.bytes", start, stop)
        offsets = offsets - start
        check_offsets(offsets, stop - start, f"{name}.offsets")
        return offsets, self.rows(f"{name}.bytes", start, stop)

    def _objects(
        self, name: str, offsets: Column, data: NDArray[np.uint8], *, trusted: bool
    ) -> NDArray[np.object_]:
        if self._texts[name] == "str":
            values: list[Any] = unpack_strings(offsets, data)
        elif self._texts[name] == "bytes":
            values = unpack_bytes(offsets, data)
        elif not trusted:
            raise StateError(
                f"column {name!r} holds pickled Python objects, which can run code when read: "
                "pass trusted=True if you trust the writer of this store"
            )
        else:
            raw, bounds = memoryview(data.data), offsets.tolist()
            with unpickling():
                values = [pickle.loads(raw[low:high]) for low, high in pairwise(bounds)]
        array = np.fromiter(values, object, len(values))
        array.flags.writeable = False
        return array

    def length(self, name: str) -> int:
        """The number of rows of a column, as it is stored."""
        return int(self._places[name][1][0])

    def check_rows(self) -> None:
        """Check that there is a column "id" of int64, a row for each id, and `groups` for them.

        Raises:
            CorruptError: it is not so.
        """
        with damaged("its head", ""):
            dtype, shape, *_ = self._places["id"]
            _require((dtype.str, len(shape)) == ("<i8", 1), "ids of another type")
            _require(not self._ragged, "columns of different lengths")
            starts = np.empty(0, "<u4") if self.groups is None else self.groups
            ranges = starts.size - 1
            _require(0 < ranges <= KEY_GROUPS and ranges & (ranges - 1) == 0, "no key groups")
            rising = starts[0] == 0 and starts[-1] == shape[0] and (starts[1:] >= starts[:-1]).all()
            _require(bool(rising), "key groups that do not rise")

    def rows(self, name: str, low: int, high: int) -> Column:
        """Rows low..high of a column as it is stored, not checked; reads no others.

        Raises:
            CorruptError: the rows do not exist.
        """
        self._inside(name, low, high)
        dtype, shape, place, *_ = self._places[name]
        width = dtype.itemsize * prod(shape[1:])
        data = self._bytes(place + low * width, place + high * width)
        part: Column = data.view(dtype).reshape([high - low, *shape[1:]])
        return part

    def check(self, name: str, low: int = 0, high: int | None = None) -> None:
        """Check the blocks that hold rows low..high of a column against their checksums.

        Raises:
            CorruptError: they are not what was written.
        """
        self._inside(name, low, high)
        dtype, shape, place, size, sums = self._places[name]
        width = dtype.itemsize * prod(shape[1:])
        first, end = low * width // BLOCK, number_of_blocks(size)
        if high is not None:
            end = min(number_of_blocks(high * width), end)
        done = self._checked[sums + first : sums + end]
        if not done.all():
            data = self._bytes(place + first * BLOCK, place + min(end * BLOCK, size))
            if not np.array_equal(block_sums(data), self._sums[sums + first : sums + end]):
                raise CorruptError(
                    f"column {name!r} fails its checksum: the stored bytes have changed"
                )
            done[:] = True

    def _inside(self, name: str, low: int, high: int | None) -> None:
        """Refuse rows that a column does not have, which another column's bytes name."""
        count = self.length(name)
        if not 0 <= low <= (count if high is None else high) <= count:
            raise CorruptError(
                f"column {name!r} has {count} rows, and another one names {low}..{high}"
            )

    def _bytes(self, low: int, high: int) -> NDArray[np.uint8]:
        return self._data[low:high]


def _shape(kind: pa.DataType, note: dict[bytes, bytes], ragged: bool) -> list[int]:
    """The dimensions that a column's type fixes: its length if `ragged`, a vector's size."""
    shape = list[int]()
    if ragged:
        _require(pa.types.is_fixed_size_list(kind), "another type")
        shape, kind = [kind.list_size], kind.value_type
    if b"text" in note:
        _require(kind in (pa.large_string(), pa.large_binary()), "text of another type")
        return shape
    if pa.types.is_fixed_size_list(kind):
        shape, kind = [*shape, kind.list_size], kind.value_type
    width = np.dtype(note[b"dtype"].decode()).itemsize
    _require(not pa.types.is_nested(kind) and kind.bit_width == 8 * width, "another type")
    return shape


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def aligned(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Read-only bytes at a multiple of 16, as kernels need: the same array, or a copy."""
    if data.ctypes.data % _LEAST:
        space = np.empty(data.size + _ALIGN, np.uint8)
        skip = -space.ctypes.data % _ALIGN
        space[skip : skip + data.size] = data
        data = space[skip : skip + data.size]
    data.flags.writeable = False
    return data


# Checksums of columns: one uint32 per block of 64 KiB, fast enough to be always on.
#
# A block is read as a matrix of 16 x 512 words of 64 bits. The sums of its rows and of its columns
# (modulo 2**64) are folded by CRC-32. A changed word changes its row's and its column's sum, and
# an exchange of words changes at least one of them, so what goes unseen needs four or more
# words that change together, or a collision of the CRC. The rest after the last whole block is
# protected by CRC-32 itself. Blocks let a point read check only what it touches.

BLOCK = 1 << 16
_ROWS, _WORDS = 16, 512
_AT_ONCE = 4  # blocks folded together: 256 KiB stay in the second-level cache


def number_of_blocks(size: int) -> int:
    """Return the number of checksums of `size` bytes: one per started block."""
    return -(-size // BLOCK)


def block_sums(data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The checksum of every block of `data`.

    Args:
        data: uint8[n], contiguous.

    Returns:
        uint32[number_of_blocks(n)].

    Example:
        >>> block_sums(np.zeros(100_000, np.uint8)).shape
        (2,)
    """
    full = data.size // BLOCK
    sums = np.empty(number_of_blocks(data.size), np.uint32)
    words: NDArray[Any] = data[: full * BLOCK].view("<u8").reshape(full, _ROWS, _WORDS)
    fold = np.empty((_AT_ONCE, _ROWS + _WORDS), "<u8")
    for first in range(0, full, _AT_ONCE):
        part = words[first : first + _AT_ONCE]
        count = len(part)
        np.add.reduce(part, axis=2, out=fold[:count, :_ROWS])
        np.add.reduce(part, axis=1, out=fold[:count, _ROWS:])
        for block in range(count):
            sums[first + block] = zlib.crc32(fold[block].data)
    if full < sums.size:
        sums[full] = zlib.crc32(data[full * BLOCK :].data)
    return sums
