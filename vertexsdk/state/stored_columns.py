"""The columns that a reader accepts of a segment: names, types, lengths and bounds.

Who can write to a store can write any columns, under right checksums, and kernels look at no
bounds. So whatever takes more than an answer from a segment describes its columns. The others are
not read, and those that do not fit their description are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.arrays.corruption import CorruptError, check_offsets

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")
_NONE = type(None)
_JSON: dict[str, type | tuple[type, ...]] = {  # what a field's annotation is in JSON
    "dict[str, Any]": dict, "dict[str, int]": dict, "dict[str, Any] | None": (dict, _NONE),
    "bool": bool, "int": int, "int | None": (int, _NONE), "str": str, "str | None": (str, _NONE),
    "float": (float, int), "float | None": (float, int, _NONE),
}  # fmt: skip


@dataclass(frozen=True)
class Described:
    """One column.

    Attributes:
        dtype: its type.
        shape: that of each row: () for numbers, (k,) for vectors.
        rows: columns with the same word have equally many rows; "" for any number.
        least, most: bounds of all values, which are allowed themselves.
        ascends: each value is greater than the one before.
        required: the segment must have it.
        objects: the type of its values, where these are objects.
    """

    dtype: DTypeLike
    shape: tuple[int, ...] = ()
    rows: str = "id"
    least: int | None = None
    most: int | None = None
    ascends: bool = False
    required: bool = True
    objects: type | None = None


def described_text(name: str, rows: str = "id", *, required: bool = True) -> dict[str, Described]:
    """The two columns of packed strings."""
    return {
        f"{name}.offsets": Described(np.int64, rows=rows, required=required),
        f"{name}.bytes": Described(np.uint8, rows="", required=required),
    }


def described_like(columns: Mapping[str, Column], rows: str = "id") -> dict[str, Described]:
    """Columns of the types that these arrays have."""
    return {name: Described(x.dtype, x.shape[1:], rows) for name, x in columns.items()}


def accepted(
    columns: Mapping[str, Column], described: Mapping[str, Described]
) -> dict[str, Column]:
    """Return the columns that are described.

    Raises:
        CorruptError: one is missing, or not as it is described.

    Example:
        >>> accepted({"a": np.zeros(3), "b": np.zeros(1)}, {"a": Described(float)})
        {'a': array([0., 0., 0.])}
    """
    lengths: dict[str, tuple[str, int]] = {}
    for name, what in described.items():
        column = columns.get(name)
        if column is None:
            _require(not what.required, f"it has no column {name!r}")
            continue
        expected = np.dtype(what.dtype)
        _require(
            (column.dtype, column.shape[1:]) == (expected, what.shape) and column.ndim > 0,
            f"column {name!r} is {_kind(column.dtype, column.shape[1:])}, and the program has "
            f"{_kind(expected, what.shape)}",
        )
        length = len(column)
        if name.endswith(".offsets") and (data := columns.get(f"{name[:-8]}.bytes")) is not None:
            check_offsets(column, data.size, name)
            length -= 1
        if what.rows:
            first, rows = lengths.setdefault(what.rows, (name, length))
            _require(rows == length, f"column {name!r} has {length} rows, and {first!r} has {rows}")
        if column.dtype == np.bool_:
            _require(
                not len(column) or int(column.view(np.uint8).max()) <= 1,
                f"column {name!r} is not bool",
            )
        if what.objects is not None:
            _require(
                set(map(type, column.tolist())) <= {what.objects},
                f"column {name!r} has values that are not {what.objects.__name__}",
            )
        inside = (what.least is None or not len(column) or column.min() >= what.least) and (
            what.most is None or not len(column) or column.max() <= what.most
        )
        _require(bool(inside), f"column {name!r} goes beyond {what.least}..{what.most}")
        rises = not what.ascends or bool((column[1:] > column[:-1]).all())
        _require(rises, f"column {name!r} does not ascend")
    return {name: columns[name] for name in described if name in columns}


def accepted_values(
    values: Any, described: Mapping[str, type | tuple[type, ...]]
) -> dict[str, Any]:
    """Return the values of a JSON object that are described, by name and type; within `damaged`.

    Raises:
        TypeError: one is of another type.
    """
    if not isinstance(values, dict):
        raise TypeError("it is not an object")
    for name in described.keys() & values.keys():
        kinds = described[name]
        if type(values[name]) not in (kinds if isinstance(kinds, tuple) else (kinds,)):
            raise TypeError(f"{name} is of type {type(values[name]).__name__}")
    return {name: values[name] for name in described if name in values}


def accepted_record(cls: type[Record], values: Any) -> Record:
    """Return a dataclass of a JSON object, by the annotations of its fields; within `damaged`.

    Raises:
        TypeError: there are other fields, or one of another type.
    """
    known = {f.name: _JSON[str(f.type)] for f in fields(cls)}
    accepted_values(values, known)
    return cls(**values)


def _kind(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"{dtype}{list(shape)}" if shape else str(dtype)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CorruptError(otherwise)
