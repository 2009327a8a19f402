"""Arrow strings as the columns of a segment, and back: offsets int64[n+1] and UTF-8 bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.column_table import CorruptError, check_offsets

__all__ = ["packed", "unpacked"]


def packed(names: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Arrow strings, none of them null, as `(offsets int64[n + 1], UTF-8 bytes)`."""
    one = pa.concat_arrays([names.cast(pa.large_string())])
    _, offsets, data = one.buffers()
    if offsets is None or not len(one):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    at = np.frombuffer(offsets, np.int64)[one.offset : one.offset + len(one) + 1]
    flat = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return at - at[0], flat[at[0] : at[-1]]


def unpacked(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
    """The way back from `packed`; the bytes are copied.

    Raises:
        CorruptError: these are no packed strings. Arrow would read memory beyond them.
    """
    check_offsets(offsets, data.size, "offsets")
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data.tobytes())]
    names = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    try:
        names.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptError(f"stored strings are damaged: {error}") from None
    return names
