"""Segments of stores before Arrow tables, of which `vertexsdk state upgrade` reads the columns.

prefix   magic, header length, header CRC, total length
header   JSON: columns (name, dtype, shape, place, CRC of its sums), meta, schema hash
sums     uint32 per 64 KiB of every column (see `_checksums`)
columns  each at a multiple of 64 bytes, little-endian
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays._checksums import block_sums, number_of_blocks
from vertexsdk.arrays.corruption import damaged

MAGIC = b"VXCOL\r\n\x01"
_PREFIX = struct.Struct("<8sIIQ")
_ALIGN = 64


def read_columns(
    pieces: Sequence[NDArray[np.uint8]], what: str
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The columns and meta of a segment; `what` names it in errors.

    Raises:
        CorruptError: it is not what was written.
    """
    data = np.concatenate([*pieces, np.empty(0, np.uint8)])
    with damaged(what):
        magic, length, crc, _ = _PREFIX.unpack_from(data.data)
        raw = data[_PREFIX.size : _PREFIX.size + length].tobytes()
        if magic != MAGIC or zlib.crc32(raw) != crc:
            raise ValueError("its header has changed")
        header = json.loads(raw)
        sums = _PREFIX.size + length
        sizes = [np.dtype(kind).itemsize * prod(shape) for _, kind, shape, *_ in header["columns"]]
        start = -(-(sums + 4 * sum(map(number_of_blocks, sizes))) // _ALIGN) * _ALIGN
        columns: dict[str, NDArray[Any]] = {}
        for (name, kind, shape, place, own), size in zip(header["columns"], sizes, strict=True):
            values = data[start + place : start + place + size]
            stored = data[sums : sums + 4 * number_of_blocks(size)]
            sums += stored.size
            right = zlib.crc32(stored.data) == own and values.size == size
            if not right or not np.array_equal(block_sums(values), stored.view("<u4")):
                raise ValueError(f"column {name!r} has changed")
            columns[name] = values.view(kind).reshape(shape)
        return columns, dict(header["meta"])
