"""Arrow IPC streams that anybody may have written: they take no more memory than their bytes.

Arrow unpacks compressed bodies, and dictionaries, as soon as it reads a batch, into any number of
bytes. So the messages are looked at first, and only batches that are not compressed are read.
"""

from __future__ import annotations

import struct
from itertools import islice

import pyarrow as pa

from vertexsdk.arrays.corruption import CorruptError, damaged

_HEADER, _COMPRESSION = 2, 3  # numbers of the fields, of a message and of its record batch


def open_stream(stream: pa.Buffer, batches: int | None = None) -> pa.RecordBatchStreamReader:
    """Return a reader of a stream; what it reads are views of the stream, and not validated.

    Args:
        batches: how many will be read; None for all.

    Raises:
        ValueError, LookupError, pa.ArrowException, OSError, struct.error: it is not a stream, or
            a batch is compressed.
    """
    messages = pa.ipc.MessageReader.open_stream(stream)
    for number, message in enumerate(islice(messages, batches and batches + 1)):
        if message.type != ("record batch" if number else "schema"):
            raise ValueError(f"a message of type {message.type}")
        if number and _is_compressed(message.metadata.to_pybytes()):
            raise ValueError("its columns are compressed")
    return pa.ipc.open_stream(stream)


def read_table(data: pa.Buffer, what: str) -> pa.Table:
    """Read and validate a whole stream.

    Args:
        what: names it in errors.

    Raises:
        CorruptError: it is not a stream, or has compressed batches or values by codes.
    """
    with damaged(what, ""):
        try:
            reader = open_stream(data)
            for field in reader.schema:
                if isinstance(field.type, pa.DictionaryType | pa.RunEndEncodedType):
                    raise ValueError(f"a column of {field.type}")
            table = reader.read_all()
            table.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise CorruptError(f"{what} is damaged: {error}") from None
    return table


def _is_compressed(metadata: bytes) -> bool:
    """Return whether the message of a record batch has a compressed body (Flatbuffers)."""
    (message,) = struct.unpack_from("<I", metadata)
    place = _field(metadata, message, _HEADER)
    batch = place + struct.unpack_from("<I", metadata, place)[0]
    return bool(_field(metadata, batch, _COMPRESSION) != batch)


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a field of a table, or the place of the table if the field is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    entry = 4 + 2 * number
    if entry >= struct.unpack_from("<H", data, vtable)[0]:
        return table
    return table + int(struct.unpack_from("<H", data, vtable + entry)[0])
