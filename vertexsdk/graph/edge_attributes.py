"""Several typed values per edge: a column of int64 bits, with a row per edge, one per attribute.

A program declares `edge = {"length": float, "lanes": int}`; its value dtype is then the text
"length=float64,lanes=int64". Columns of bits are copied, sorted and stored like any column of
vectors; `records` views them with their types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError, excerpt

__all__ = ["attribute_types", "defaults", "left_out", "no_values", "pack", "pack_rows", "records"]

_LEFT_OUT = {"float64": np.nan, "int64": np.iinfo(np.int64).min}  # values that no edge has


def attribute_types(value: str | None) -> dict[str, str]:
    """Return the dtype of each edge attribute; {} where edges have a single value, or none.

    >>> attribute_types("length=float64,lanes=int64")
    {'length': 'float64', 'lanes': 'int64'}
    """
    if value is None or "=" not in value:
        return {}
    return dict(part.split("=") for part in value.split(","))


def pack(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return columns (float64[m] or int64[m]) as bits, int64[m, k]."""
    return np.stack([np.ascontiguousarray(c).view(np.int64) for c in columns], axis=1)


def records(values: NDArray[Any], value: str | None) -> NDArray[Any]:
    """View bits (int64[m, k]) as records [m] with a field per attribute; other values stay."""
    types = attribute_types(value)
    if not types or values.ndim == 1:
        return values
    return values.view(np.dtype(list(types.items()))).reshape(len(values))


def no_values(rows: int, value: str | None) -> NDArray[Any]:
    """Return zeros in the form of a column of values."""
    types = attribute_types(value)
    return np.zeros((rows, len(types)), np.int64) if types else np.zeros(rows, value or "uint8")


def left_out(value: str | None) -> NDArray[np.int64]:
    """Return the bits (int64[k]) of an attribute that a change leaves out."""
    kinds = attribute_types(value).values()
    return np.array([np.array(_LEFT_OUT[k], k).view(np.int64) for k in kinds], np.int64)


def defaults(value: str | None) -> NDArray[np.int64]:
    """Return the bits (int64[k]) of an edge that was given no value: ones."""
    kinds = attribute_types(value).values()
    return np.array([np.array(1, k).view(np.int64) for k in kinds], np.int64)


def pack_rows(rows: Sequence[Any], value: str | None) -> NDArray[np.int64]:
    """Return the bits of attributes given edge by edge.

    Args:
        rows: each a mapping by name, a tuple in the order of the declaration, or None for no
            attribute; None in place of a number leaves that attribute out.
        value: the value dtype.

    Raises:
        InputError: an attribute that the program does not declare, or a number it cannot hold.
    """
    types = attribute_types(value)
    out = np.empty((len(rows), len(types)), np.int64)
    out[:] = left_out(value)
    for k, row in enumerate(rows):
        if row is None:
            continue
        given = row
        if not isinstance(row, Mapping):
            if not isinstance(row, tuple) or len(row) != len(types):
                raise InputError(
                    f"{excerpt(row)} of change {k + 1}: edges have the attributes "
                    f"{', '.join(types)}; give a dict of them, or all in this order"
                )
            given = dict(zip(types, row, strict=True))
        for name, x in given.items():
            if name not in types:
                raise InputError(
                    f"{name} of change {k + 1}: edges have the attributes {', '.join(types)}"
                )
            if x is not None:
                out[k, list(types).index(name)] = _bits(x, types[name], f"{name} of change {k + 1}")
    return out


def _bits(x: Any, kind: str, place: str) -> Any:
    number = isinstance(x, int | float | np.number) and not isinstance(x, bool) and x == x
    if number and kind == "float64":
        return np.float64(x).view(np.int64)
    if number and int(x) == x and -(2**63) < int(x) < 2**63:
        return int(x)
    wanted = "a number" if kind == "float64" else "an int64 integer"
    raise InputError(f"{excerpt(x)}, {place}: give {wanted}")
