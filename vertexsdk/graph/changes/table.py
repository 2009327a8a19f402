"""Rows of a table as changes: columns `kind`, `source`, `target` and perhaps `value` and a time.

A row that is not a change is left out and reported, as a bad line of a file is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import is_text
from vertexsdk.errors import InputError, excerpt
from vertexsdk.graph.changes.line import (
    MOST_REASONS,
    WORDS,
    BadLine,
    BadLines,
    LineFormat,
    Places,
    ascii_number,
    read_id,
)
from vertexsdk.graph.topology.edge_attributes import (
    NO_FLOAT,
    NO_INT,
    Members,
    attribute_members,
    attribute_types,
    cell,
    choices,
    is_left_out,
    left_out,
    member_numbers,
)

_WORDS = pa.array([*WORDS], pa.string())
_KINDS = np.array([*WORDS.values(), 0], np.uint8)

Checks = list[tuple[NDArray[np.bool_], Callable[[int], str]]]
"""Which rows are bad, and what is wrong with one of them."""


Columns = tuple[NDArray[np.uint8], pa.Array, pa.Array, NDArray[Any], Places]
"""What `Changes` is made of: kinds, sources, targets, values and places."""


def check_columns(names: Sequence[str], time_column: str | None) -> None:
    """Raise InputError unless these columns are those of changes."""
    wanted = {"kind", "source", "target"} | ({time_column} if time_column else set())
    missing = sorted(wanted - set(names))
    if missing:
        raise InputError(
            f"the changes: columns are {', '.join(names)}; there is no {', '.join(missing)}"
        )


def read_rows(
    table: pa.Table,
    form: LineFormat,
    batch: str,
    time_column: str | None = None,
    *,
    lines: NDArray[np.int64] | None = None,
    wrong: Mapping[int, str] | None = None,
) -> tuple[Columns, BadLines, NDArray[np.float64]]:
    """Read the changes of a table, in order.

    Args:
        table: with the columns that `check_columns` asks for.
        batch: how to call it where a row is bad.
        time_column: the column with the times, or None.
        lines: the line number of each row of a text.
        wrong: what is wrong with rows that are bad already.

    Returns:
        The changes; the bad rows; float64, the times, of length 0 where there are none.
    """
    number, unit = (np.arange(1, len(table) + 1), "row") if lines is None else (lines, "line")
    words = _flat(table["kind"]).cast(pa.string())
    place = pc.fill_null(pc.index_in(words, _WORDS), len(_WORDS)).to_numpy()
    known = wrong or {}
    checks: Checks = [
        (np.isin(np.arange(len(table)), [*known]), lambda k: known[k]),
        (place == len(_WORDS), lambda k: f"kind {excerpt(words[k].as_py())}; use '+', '-' or '~'"),
    ]
    ends = [_ids(_flat(table[name]), form, checks, name) for name in ("source", "target")]
    value = _values(table, form, checks)
    kind = _KINDS[place]
    if value.ndim == 1:
        valueless = is_left_out(value) & (kind == WORDS["~"])
        checks.append((valueless, lambda _: "a change of a value needs one"))
    time = np.empty(0)
    if time_column is not None:
        time = _times(_flat(table[time_column]), checks)
    good = ~np.any([rows for rows, _ in checks], axis=0)
    bad_rows = np.flatnonzero(~good)
    first = [
        BadLine(f"{batch}, {unit} {number[k]}", next(said(k) for rows, said in checks if rows[k]))
        for k in bad_rows[:MOST_REASONS].tolist()
    ]
    bad = BadLines(np.cumsum(good, dtype=np.int64)[bad_rows], first)
    mask = pa.array(good)
    columns = (
        kind[good], ends[0].filter(mask), ends[1].filter(mask), value[good],
        Places(f"{batch}, {unit} ", number[good]),
    )  # fmt: skip
    return columns, bad, time[good] if len(time) else time


def _flat(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _ids(ids: pa.Array, form: LineFormat, checks: Checks, name: str) -> pa.Array:
    wanted = pa.int64() if form.integers else pa.large_string()
    checks.append((ids.is_null().to_numpy(zero_copy_only=False), lambda _: f"{name} is null"))
    if not (pa.types.is_integer(ids.type) or is_text(ids.type)):
        raise InputError(f"the changes: {name} is {ids.type}; make it integers or strings")
    if not (form.integers and is_text(ids.type)):
        try:
            return ids.cast(wanted)
        except pa.ArrowInvalid:
            raise InputError(f"the changes: a {name} is beyond int64") from None
    integers = pc.match_substring_regex(ids, r"^(?:0|-?[1-9][0-9]{0,17})$")
    if pc.all(integers).as_py():
        return ids.cast(wanted)
    read = pa.array(
        [None if text is None else _integer(text)[0] for text in ids.to_pylist()], wanted
    )
    bad = read.is_null().to_numpy(zero_copy_only=False)
    checks.append((bad, lambda k: _integer(ids[k].as_py())[1]))
    return read


def _integer(text: str) -> tuple[Any, str]:
    """An id, and what is wrong with it."""
    try:
        return read_id(text, True), ""
    except ValueError as error:
        return None, str(error)


def _values(table: pa.Table, form: LineFormat, checks: Checks) -> NDArray[Any]:
    types = attribute_types(form.value)
    if types:
        return _attributes(table, form.value, checks)
    dtype = np.dtype(form.value or "float64")
    none = NO_FLOAT if dtype.kind == "f" else NO_INT
    if "value" not in table.column_names or pa.types.is_null(table["value"].type):
        return np.full(len(table), none, dtype)
    column = _flat(table["value"])
    if is_text(column.type):
        column = _parsed(column, dtype, checks, "value")
    if not pa.types.is_floating(column.type) and not pa.types.is_integer(column.type):
        raise InputError(f"the changes: value is {column.type}; make it a number")
    numbers = pc.fill_null(column, 1).to_numpy(zero_copy_only=False)
    unfit = unfit_values(numbers, dtype)
    kind = "an int64" if dtype.kind == "i" else f"a {dtype.name}"
    checks.append((unfit, lambda k: f"value {numbers[k]} is not {kind} value of an edge"))
    values = np.where(unfit, 1, numbers).astype(dtype)
    values[column.is_null().to_numpy(zero_copy_only=False)] = none
    return values


def _attributes(table: pa.Table, value: str | None, checks: Checks) -> NDArray[np.int64]:
    """The edge attributes among a table's columns, as bits; a null is left out."""
    types, members = attribute_types(value), attribute_members(value)
    bits = np.empty((len(table), len(types)), np.int64)
    bits[:] = left_out(value)
    for k, (name, kind) in enumerate(types.items()):
        if name not in table.column_names:
            continue
        if name in members:
            bits[:, k] = _members(_flat(table[name]), name, members[name], checks)
            continue
        form = LineFormat(True, kind)
        column = table.select([name]).rename_columns(["value"])
        bits[:, k] = _values(column, form, checks).view(np.int64)
    return bits


def _members(column: pa.Array, name: str, members: Members, checks: Checks) -> NDArray[np.int64]:
    numbers, wrong = member_numbers(column, members)
    said = choices(members)
    checks.append((wrong, lambda k: f"{name} {excerpt(cell(column, k))} is not one of {said}"))
    return numbers


def unfit_values(numbers: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.bool_]:
    """Return which numbers cannot be values of an edge: NaN; for int64 fractions and the least too.

    >>> unfit_values(np.array([2.0, 0.5, np.inf, 2.0**63]), np.dtype("int64")).tolist()
    [False, True, True, True]
    """
    unfit: NDArray[np.bool_]
    if dtype.kind == "f":
        unfit = np.isnan(numbers)
    elif numbers.dtype.kind != "f":
        unfit = (numbers > np.iinfo(np.int64).max) | (numbers == NO_INT)
    else:
        integral = (numbers > -(2.0**63)) & (numbers < 2.0**63) & (np.floor(numbers) == numbers)
        unfit = ~integral
    return unfit


def _parsed(column: pa.Array, dtype: np.dtype[Any], checks: Checks, what: str) -> pa.Array:
    """The numbers in a column of text."""
    for kind in (pa.int64(), pa.float64())[dtype.kind == "f" :]:
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            pass
    read, wrong = np.ones(len(column)), np.zeros(len(column), np.bool_)
    for k, text in enumerate(column.to_pylist()):
        try:
            read[k] = 1 if text is None else float(ascii_number(text))
        except ValueError:
            wrong[k] = True
    checks.append((wrong, lambda k: f"{what} {excerpt(column[k].as_py())} is not a number"))
    return pa.array(read, mask=np.asarray(column.is_null()))


def _times(column: pa.Array, checks: Checks) -> NDArray[np.float64]:
    if is_text(column.type):
        column = _parsed(column, np.dtype(np.float64), checks, "time")
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        micros = column.cast(pa.timestamp("us")).cast(pa.int64())
        column = pc.divide(micros.cast(pa.float64(), safe=False), 1e6)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InputError(f"the changes: the time is {column.type}; make it a time or a number")
    time = pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy()
    checks.append((~np.isfinite(time), lambda _: "the time is null, or not finite"))
    return np.asarray(time)
