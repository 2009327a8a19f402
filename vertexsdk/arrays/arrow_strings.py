"""Arrow strings as the columns of a segment, and back: offsets int64[n+1] and UTF-8 bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.corruption import CorruptError, check_offsets


def pack_arrow(names: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """n Arrow strings without nulls as `(offsets int64[n + 1], UTF-8 uint8[offsets[n]])`.

    Example:
        >>> offsets, data = pack_arrow(pa.array(["ab", "c"]))
        >>> offsets.tolist(), data.tobytes()
        ([0, 2, 3], b'abc')
    """
    one = pa.concat_arrays([names.cast(pa.large_string())])
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
