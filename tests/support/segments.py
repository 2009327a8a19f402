"""Segments as somebody would forge them: other bytes under right checksums."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import TRAILER, Table, block_sums


def sealed(data: bytes, head: int) -> bytes:
    """The segment with a trailer that fits the first `head` bytes of it."""
    body = data[: -TRAILER.size]
    return body + TRAILER.pack(0, head, zlib.crc32(body[:head]), data[-8:])


def compressed(data: bytes, codec: str) -> bytes:
    """The segment with compressed columns."""
    batch = pa.ipc.open_stream(data).read_next_batch()
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    whole = sink.getvalue().to_pybytes()
    second = 8 + struct.unpack_from("<i", whole, 4)[0]
    length = second + 8 + struct.unpack_from("<i", whole, second + 4)[0]
    return sealed(whole + data[-TRAILER.size :], length)


def with_column(data: bytes, name: str, values: NDArray[Any]) -> bytes:
    """The segment with other bytes, as many, in a column."""
    table = Table(data)
    place, size = table._places[name][2:4]
    changed = bytearray(data)
    changed[place : place + size] = values.tobytes()
    assert len(changed) == len(data)
    raw = np.frombuffer(bytes(changed), np.uint8)
    sums = [block_sums(raw[low : low + n]) for _, _, low, n, _ in table._places.values()]
    summed = bytes(changed).replace(table._sums.tobytes(), np.concatenate(sums).tobytes(), 1)
    return sealed(summed, TRAILER.unpack(data[-TRAILER.size :])[1])


def with_head(data: bytes, change: Callable[[Any], Any]) -> bytes:
    """The segment with another head.

    Args:
        change: gets and returns the metadata as JSON: `vertexsdk`, `groups`, `sums`, and for each
            field its name and notes.

    Raises:
        TypeError, ValueError, AttributeError: Arrow takes no such head.
    """
    batch = pa.ipc.open_stream(data).read_next_batch()
    metadata = batch.schema.metadata
    notes = [
        [f.name, {k.decode(): v.decode() for k, v in f.metadata.items()}] for f in batch.schema
    ]
    head = {
        k: np.frombuffer(metadata.get(k.encode(), b""), "<u4").tolist() for k in ("groups", "sums")
    }
    head |= {"vertexsdk": json.loads(metadata[b"vertexsdk"]), "fields": notes}
    head = change(head)
    fields = [
        pa.field(name, array.type, metadata=note)
        for (name, note), array in zip(head["fields"], batch.columns, strict=True)
    ]
    own = {k: np.array(head[k], "<u4").tobytes() for k in ("groups", "sums") if k in head}
    own["vertexsdk"] = json.dumps(head["vertexsdk"])
    schema = pa.schema(fields, own)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
    whole = sink.getvalue().to_pybytes()
    second = 8 + struct.unpack_from("<i", whole, 4)[0]
    length = second + 8 + struct.unpack_from("<i", whole, second + 4)[0]
    return sealed(whole + data[-TRAILER.size :], length)
