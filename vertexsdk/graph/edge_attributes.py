"""Values of edges in columns: one number per edge, or several attributes; and no value.

A program declares `edge = {"length": float, "lanes": int}`; its value dtype is then the text
"length=float64,lanes=int64". Its column has int64 bits, a row per edge, one per attribute. Columns
of bits are copied, sorted and stored like any column of vectors; `records` views them with their
types.

A change that gives an edge no value, or not this attribute, has a number that no edge has: NaN
among floats, the least int64 among ints. The edge keeps its value; that of a new edge is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.corruption import CorruptError
from vertexsdk.errors import InputError, excerpt

NO_FLOAT, NO_INT = float("nan"), int(np.iinfo(np.int64).min)  # see above
_LEFT_OUT = {"float64": NO_FLOAT, "int64": NO_INT}


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


def require_values(values: NDArray[Any], value: str | None) -> None:
    """Refuse stored values that kernels would take for something else.

    Args:
        values: a column, with a row per edge or change.
        value: dtype of the edge values that the program reads; None where it reads none.

    Raises:
        CorruptError: the column is of another type.
    """
    types = attribute_types(value)
    shape = (len(types),) if types else ()
    if value is not None and (values.dtype, values.shape[1:]) != (
        np.dtype("int64" if types else value),
        shape,
    ):
        raise CorruptError(
            f"stored edge values are {values.dtype}{list(values.shape[1:])}, and the program has "
            f"{value}"
        )


def left_out(value: str | None) -> NDArray[np.int64]:
    """Return the bits (int64[k]) of what a change leaves out; k is 1 for a single value."""
    return np.array([np.array(_LEFT_OUT[k], k).view(np.int64) for k in _kinds(value)], np.int64)


def defaults(value: str | None) -> NDArray[np.int64]:
    """Return the bits (int64[k]) of an edge that was given no value: ones."""
    return np.array([np.array(1, k).view(np.int64) for k in _kinds(value)], np.int64)


def _kinds(value: str | None) -> list[str]:
    return [*attribute_types(value).values()] or ([] if value is None else [value])


def is_left_out(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which numbers (float[k] or int[k]) are no values.

    >>> is_left_out(np.array([1, NO_INT])).tolist()
    [False, True]
    """
    none: NDArray[np.bool_] = np.isnan(values) if values.dtype.kind == "f" else values == NO_INT
    return none


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
