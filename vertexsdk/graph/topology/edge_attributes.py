"""Values of edges in columns: one number per edge, or several attributes; and no value.

A program declares `edge = {"length": float, "lanes": int}`; its value dtype is then the text
"length=float64,lanes=int64". Its column has int64 bits, a row per edge, one per attribute. Columns
of bits are copied, sorted and stored like any column of vectors; `records` views them with their
types. An attribute that is an IntEnum is the number of a member; the text has the members, as in
"relation=int64{FRIEND:0;COLLEAGUE:1}", so that a stored loop knows them.

A change that gives an edge no value, or not this attribute, has a number that no edge has: NaN
among floats, the least int64 among ints. The edge keeps its value; that of a new edge is 1, or the
first member.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vertexsdk.arrays.corruption import CorruptError
from vertexsdk.errors import InputError, excerpt

NO_FLOAT, NO_INT = float("nan"), int(np.iinfo(np.int64).min)  # see above
_LEFT_OUT = {"float64": NO_FLOAT, "int64": NO_INT}
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_MOST_CHOICES = 10  # that a message lists
Members = Mapping[str, int]
"""The numbers of an IntEnum's members by name, the first one first."""


def attribute_types(value: str | None) -> dict[str, str]:
    """Return the dtype of each edge attribute; {} where edges have a single value, or none.

    >>> attribute_types("length=float64,lanes=int64")
    {'length': 'float64', 'lanes': 'int64'}
    """
    return {name: kind.partition("{")[0] for name, kind in _declared(value)}


def attribute_members(value: str | None) -> dict[str, Members]:
    """Return the members of each edge attribute that is an IntEnum.

    >>> attribute_members("lanes=int64,relation=int64{FRIEND:0;COLLEAGUE:1}")
    {'relation': {'FRIEND': 0, 'COLLEAGUE': 1}}
    """
    return {
        name: {n: int(x) for n, x in (m.split(":") for m in kind[:-1].partition("{")[2].split(";"))}
        for name, kind in _declared(value)
        if kind.endswith("}")
    }


def _declared(value: str | None) -> list[tuple[str, str]]:
    if value is None or "=" not in value:
        return []
    return [(name, kind) for name, _, kind in (p.partition("=") for p in value.split(","))]


def choices(members: Members) -> str:
    """Return the members as a message lists them.

    >>> choices({"FRIEND": 0, "COLLEAGUE": 1})
    'FRIEND (0), COLLEAGUE (1)'
    """
    shown = [f"{name} ({x})" for name, x in [*members.items()][:_MOST_CHOICES]]
    more = len(members) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def member_number(x: Any, members: Members) -> int | None:
    """Return the number of a member that is given by its name or number; None if it is neither.

    >>> members = {"FRIEND": 0, "COLLEAGUE": 1}
    >>> [member_number(x, members) for x in ("COLLEAGUE", 0, "1", "friend", 7)]
    [1, 0, 1, None, None]
    """
    if isinstance(x, str):
        if x in members or not _INTEGER.fullmatch(x):
            return members.get(x)
        x = int(x)
    number = isinstance(x, int | float | Decimal | np.number) and not isinstance(x, bool)
    return int(x) if number and x in members.values() else None


def member_numbers(
    column: pa.Array, members: Members
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the numbers of members in a column of names or numbers.

    Args:
        column: a column of any type, also a dictionary.
        members: the attribute's members.

    Returns:
        The number of each row, for a null that of what is left out; and which rows are not members.
    """
    try:
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    except pa.ArrowNotImplementedError:  # lists and the like
        return np.full(len(column), NO_INT), np.ones(len(column), np.bool_)
    values = _python_values(coded.dictionary)
    numbers = [NO_INT if x is None else member_number(x, members) for x in [*values, None]]
    place = pc.fill_null(pc.cast(coded.indices, pa.int64()), len(values)).to_numpy()
    wrong = np.array([x is None for x in numbers])[place]
    return np.array([NO_INT if x is None else x for x in numbers])[place], wrong


def cell(column: pa.Array, row: int) -> Any:
    """Return a cell of a column as a message shows it, text that is not UTF-8 too."""
    one = column.slice(row, 1)
    return _python_values(one.dictionary_decode() if pa.types.is_dictionary(one.type) else one)[0]


def _python_values(column: pa.Array) -> list[Any]:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return list(column.to_pylist())
    texts = pc.cast(column, pa.large_binary()).to_pylist()
    return [None if x is None else x.decode("utf-8", "replace") for x in texts]


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
    members, names = attribute_members(value), list(types)
    for name, numbers in members.items():
        stored = values[:, names.index(name)]
        wrong = ~np.isin(stored, [*numbers.values(), NO_INT])
        if wrong.any():
            raise CorruptError(
                f"a stored {name} is {stored[np.argmax(wrong)]}, which is not one of "
                f"{choices(numbers)}"
            )


def left_out(value: str | None) -> NDArray[np.int64]:
    """Return the bits (int64[k]) of what a change leaves out; k is 1 for a single value."""
    return np.array([np.array(_LEFT_OUT[k], k).view(np.int64) for k in _kinds(value)], np.int64)


def defaults(value: str | None) -> NDArray[np.int64]:
    """Return the bits (int64[k]) of an edge that was given no value: ones, or first members."""
    ones = [int(np.array(1, k).view(np.int64)) for k in _kinds(value)]
    first = {name: next(iter(m.values())) for name, m in attribute_members(value).items()}
    names = [*attribute_types(value)] or [""] * len(ones)
    return np.array([first.get(n, x) for n, x in zip(names, ones, strict=True)], np.int64)


def _kinds(value: str | None) -> list[str]:
    return [*attribute_types(value).values()] or ([] if value is None else [value])


def is_left_out(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which numbers (float[k] or int[k]) are not values.

    >>> is_left_out(np.array([1, NO_INT])).tolist()
    [False, True]
    """
    none: NDArray[np.bool_] = np.isnan(values) if values.dtype.kind == "f" else values == NO_INT
    return none


def pack_rows(rows: Sequence[Any], value: str | None) -> NDArray[np.int64]:
    """Return the bits of attributes given edge by edge.

    Args:
        rows: each a mapping by name, a tuple in the order of the declaration, or None for no
            attribute; None in place of a number, or of a member, leaves that attribute out.
        value: the value dtype.

    Raises:
        InputError: an attribute that the program does not declare, a number it cannot hold, or a
            name or number that is not a member.
    """
    types, members = attribute_types(value), attribute_members(value)
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
                place = f"{name} of change {k + 1}"
                bits = (
                    _member(x, members[name], place)
                    if name in members
                    else _bits(x, types[name], place)
                )
                out[k, list(types).index(name)] = bits
    return out


def _member(x: Any, members: Members, place: str) -> int:
    number = member_number(x, members)
    if number is None:
        raise InputError(f"{excerpt(x)}, {place}: give one of {choices(members)}")
    return number


def _bits(x: Any, kind: str, place: str) -> Any:
    number = isinstance(x, int | float | np.number) and not isinstance(x, bool) and x == x
    if number and kind == "float64":
        return np.float64(x).view(np.int64)
    if number and int(x) == x and -(2**63) < int(x) < 2**63:
        return int(x)
    wanted = "a number" if kind == "float64" else "an int64 integer"
    raise InputError(f"{excerpt(x)}, {place}: give {wanted}")
