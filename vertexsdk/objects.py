"""Columns of Python objects: strings as packed UTF-8, anything else as one pickle per row.

Reading a pickle can run any code, so it is only done where the reader said that whoever wrote
it is trusted.
"""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import StateError
from vertexsdk.strings import pack_strings, unpack_strings

__all__ = ["pack_objects", "unpack_objects"]


def pack_objects(
    name: str, array: NDArray[Any]
) -> tuple[str, NDArray[np.int64], NDArray[np.uint8]]:
    """`(kind, offsets int64[n+1], bytes uint8[...])` of n objects; kind is "str" or "object".

    Raises:
        StateError: an object cannot be pickled; names the column.
    """
    if array.ndim != 1:
        raise StateError(f"column {name!r} of objects has {array.ndim} dimensions: give it one")
    values = array.tolist()
    if all(type(value) is str for value in values):
        return "str", *pack_strings(values)
    parts = [_pickled(name, value) for value in values]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return "object", offsets, np.frombuffer(b"".join(parts), np.uint8)


def _pickled(name: str, value: Any) -> bytes:
    try:
        return pickle.dumps(value, 5)
    except Exception:  # pickle raises anything: try what also knows classes of a script
        import cloudpickle

        try:
            return bytes(cloudpickle.dumps(value, 5))
        except Exception as error:
            raise StateError(
                f"column {name!r}: {type(value).__name__} cannot be pickled ({error}): "
                "keep only picklable values in the state"
            ) from error


def unpack_objects(
    name: str, kind: str, offsets: NDArray[np.int64], data: NDArray[np.uint8], *, trusted: bool
) -> NDArray[np.object_]:
    """The read-only array packed by `pack_objects`.

    Raises:
        StateError: pickles, and not `trusted`.
    """
    if kind == "str":
        return _object_array(unpack_strings(offsets, data))
    if not trusted:
        raise StateError(
            f"column {name!r} holds pickled Python objects, which can run code when read: "
            "pass trusted=True if you trust whoever wrote this store"
        )
    raw, bounds = data.tobytes(), offsets.tolist()
    return _object_array([pickle.loads(raw[low:high]) for low, high in pairwise(bounds)])


def _object_array(values: list[Any]) -> NDArray[np.object_]:
    array = np.empty(len(values), object)
    for index, value in enumerate(values):
        array[index] = value
    array.flags.writeable = False
    return array
