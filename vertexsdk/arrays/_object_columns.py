"""Columns of Python objects: strings as packed UTF-8, anything else as pickles.

An object which stands in several rows is pickled once, and is one object again when it is read:
a message sent to a thousand consumers takes the room of one.

Reading a pickle can run any code, so it is only done where the reader said that whoever wrote
it is trusted.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import pack_strings, unpack_strings
from vertexsdk.errors import StateError

__all__ = ["PARTS", "pack_objects", "unpack_objects"]

Array = NDArray[Any]
PARTS = {
    "str": ("offsets", "bytes"),
    "object": ("offsets", "bytes"),
    "shared": ("offsets", "bytes", "index"),
}


def pack_objects(name: str, array: Array) -> tuple[str, dict[str, Array]]:
    """The kind of a column of n objects, and the arrays it is stored as (names: `PARTS[kind]`).

    "str" and "object" have the bytes of a row between `offsets[row]` and `offsets[row + 1]`;
    "shared" has those of distinct objects, and `index` (int32[n]) says which of them a row is.

    Raises:
        StateError: an object cannot be pickled; names the column.
    """
    if array.ndim != 1:
        raise StateError(f"column {name!r} of objects has {array.ndim} dimensions: give it one")
    values = array.tolist()
    if all(type(value) is str for value in values):
        offsets, data = pack_strings(values)
        return "str", {"offsets": offsets, "bytes": data}
    objects = {id(value): value for value in values}  # in order of first appearance
    parts = [_pickled(name, value) for value in objects.values()]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    packed: dict[str, Array] = {
        "offsets": offsets,
        "bytes": np.frombuffer(b"".join(parts), np.uint8),
    }
    if len(objects) == len(values):
        return "object", packed
    number = dict(zip(objects, range(len(objects)), strict=True))
    packed["index"] = np.fromiter((number[id(v)] for v in values), np.int32, len(values))
    return "shared", packed


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
    name: str, kind: str, parts: Mapping[str, Array], *, trusted: bool
) -> NDArray[np.object_]:
    """The read-only array packed by `pack_objects`.

    Raises:
        StateError: pickles, and not `trusted`.
    """
    offsets, data = parts["offsets"], parts["bytes"]
    if kind == "str":
        return _object_array(unpack_strings(offsets, data))
    if not trusted:
        raise StateError(
            f"column {name!r} holds pickled Python objects, which can run code when read: "
            "pass trusted=True if you trust whoever wrote this store"
        )
    raw, bounds = memoryview(data.data), offsets.tolist()
    objects = _object_array([pickle.loads(raw[low:high]) for low, high in pairwise(bounds)])
    if kind == "shared":
        objects = objects[parts["index"]]
        objects.flags.writeable = False
    return objects


def _object_array(values: list[Any]) -> NDArray[np.object_]:
    array = np.empty(len(values), object)
    for index, value in enumerate(values):
        array[index] = value
    array.flags.writeable = False
    return array
