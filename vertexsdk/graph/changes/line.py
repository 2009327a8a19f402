"""The lines of a change file: their format, and the errors of lines that do not follow it.

A line is `+ source target [value]`, `- source target` or `~ source target value`, separated by
blanks, tabs or commas; a line whose first field begins with `#` is a comment. Edges with several
attributes have fields `name=value` in place of the value. Where a stream has times, one further
field, whose number is given, holds the time of the change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError, excerpt
from vertexsdk.graph.topology.edge_attributes import (
    NO_FLOAT,
    NO_INT,
    attribute_members,
    attribute_types,
    choices,
    member_number,
    pack_rows,
)

ADD, REMOVE, CHANGE = range(3)
SIGNS = {"+": ADD, "-": REMOVE, "~": CHANGE}
WORDS = {**SIGNS, "add": ADD, "remove": REMOVE, "change": CHANGE}
MOST_REASONS = 100  # of the bad lines of a block; the others are counted


class Places(Sequence[str]):
    """The places where changes were read, formatted when asked for: `prefix` and a number.

    >>> Places("changes.txt, line ", np.array([3, 8]))[1]
    'changes.txt, line 8'
    """

    def __init__(self, prefix: str, numbers: NDArray[np.int64]) -> None:
        self.prefix, self.numbers = prefix, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return Places(self.prefix, self.numbers[number])
        return f"{self.prefix}{self.numbers[number]}"


@dataclass(frozen=True)
class BadLine:
    """A line that is not a change: where it is, and the reason."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class BadLines:
    """The bad lines of a block; place and reason are recorded for the first of them.

    Attributes:
        before: int64[k], the number of changes before each bad line, ascending.
        first: the first `MOST_REASONS` of them at most.
    """

    before: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    first: Sequence[BadLine] = ()

    def __len__(self) -> int:
        return len(self.before)

    def between(self, begin: int, end: int | None) -> BadLines:
        """The bad lines before the changes begin..end-1, counted from `begin`; None: and after."""
        low = int(np.searchsorted(self.before, begin))
        high = len(self) if end is None else int(np.searchsorted(self.before, end))
        return BadLines(self.before[low:high] - begin, self.first[low:high])


@dataclass(frozen=True, slots=True)
class LineFormat:
    """The format of lines of changes.

    Attributes:
        integers: ids are int64, so that another id makes a line bad; else they are strings.
        value: dtype of edge values (`edge_attributes`); with "int64" a fraction makes a line
            bad.
        timed: the number of the field, from 1, which holds a time; 0 for none.
    """

    integers: bool
    value: str | None = "float64"
    timed: int = 0


class Line(NamedTuple):
    """A parsed line; what it leaves out of the value has the form of `edge_attributes`."""

    kind: int
    source: Any
    target: Any
    value: Any
    time: float


def parse_line(text: str, form: LineFormat) -> Line | None:
    """Parse a line.

    Args:
        text: the line, with or without its end.
        form: how to read it.

    Returns:
        The change, or None for a blank line or a comment.

    Raises:
        ValueError: a bad line; the message is the reason.

    >>> parse_line("+ 1 2 0.5", LineFormat(integers=True))
    Line(kind=0, source=1, target=2, value=0.5, time=0.0)
    """
    fields = text.replace(",", " ").split()
    if not fields or fields[0].startswith("#"):
        return None
    time = _time(fields, form.timed) if form.timed else 0.0
    sign = fields[0] if fields else ""
    if sign not in SIGNS:
        raise ValueError(f"{excerpt(sign)} is not a sign of a change; a line begins with +, - or ~")
    kind = SIGNS[sign]
    types = attribute_types(form.value)
    if types:
        ends = _ends_of(fields, form)
        return Line(kind, *ends, _attributes(fields[3:], types, form.value), time)
    least, most = {ADD: (3, 4), REMOVE: (3, 4), CHANGE: (4, 4)}[kind]
    if not least <= len(fields) <= most:
        shown = {ADD: "+ source target [value]", REMOVE: "- source target"}
        hint = "; a comment is a line of its own" if any(f[0] == "#" for f in fields[1:]) else ""
        wanted = shown.get(kind, "~ source target value")
        raise ValueError(f"{len(fields)} fields; write {wanted}{hint}")
    source, target = _ends_of(fields, form)
    value: Any = NO_INT if form.value == "int64" else NO_FLOAT
    if len(fields) == 4 and kind != REMOVE:
        value = _int_of(fields[3]) if form.value == "int64" else _number(fields[3], "value")
    return Line(kind, source, target, value, time)


def _ends_of(fields: list[str], form: LineFormat) -> tuple[int | str, int | str]:
    if len(fields) < 3:
        raise ValueError(f"{len(fields)} fields; write {fields[0]} source target")
    source, target = (read_id(f, form.integers) for f in fields[1:3])
    return source, target


def _attributes(
    fields: list[str], types: Mapping[str, str], value: str | None
) -> NDArray[np.int64]:
    """Read fields `name=value`; return the bits of all attributes."""
    read: dict[str, Any] = {}
    members = attribute_members(value)
    for f in fields:
        name, equals, number = f.partition("=")
        if not equals or name not in types:
            raise ValueError(f"{excerpt(f)}; write name=value with a name of {', '.join(types)}")
        if name in members:
            read[name] = member_number(number, members[name])
            if read[name] is None:
                raise ValueError(f"{excerpt(f)} is not one of {choices(members[name])}")
        else:
            read[name] = _int_of(number) if types[name] == "int64" else _number(number, name)
    try:
        bits: NDArray[np.int64] = pack_rows([read], value)[0]
    except InputError as error:
        raise ValueError(str(error)) from None
    return bits


def _time(fields: list[str], number: int) -> float:
    """Take the time out of a line's fields."""
    if len(fields) < number:
        raise ValueError(f"{len(fields)} fields; field {number} should be the time")
    time = _number(fields.pop(number - 1), "time")
    if math.isinf(time):
        raise ValueError("the time is not finite")
    return time


def _number(field: str, what: str) -> float:
    try:
        number = float(ascii_number(field))
    except ValueError:
        raise ValueError(f"{what} {excerpt(field)} is not a number") from None
    if math.isnan(number):
        raise ValueError(f"{what} NaN is not a number")
    return number


def ascii_number(field: str) -> str:
    """A number as edge files have it: no 1_000, and no digits but 0 to 9."""
    if "_" in field or not field.isascii():
        raise ValueError
    return field


def _int_of(field: str) -> int:
    try:
        number = int(ascii_number(field))
    except ValueError:
        raise ValueError(f"value {excerpt(field)} is not a number") from None
    if not NO_INT < number < 2**63:
        raise ValueError(f"value {excerpt(field)} is not an int64 value of an edge")
    return number


def read_id(field: str, integers: bool) -> int | str:
    """Read an id; a ValueError says why it is none."""
    if not integers:
        if not field.isprintable():  # a byte which is not UTF-8, among others
            raise ValueError(f"id {excerpt(field)} is not text in UTF-8")
        return field
    digits = field.removeprefix("-")
    padded = digits.startswith("0") and field != "0"
    if padded or not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"id {excerpt(field)} is not an integer, but those of the graph are")
    number = int(digits) if len(digits) < 4000 else 2**63
    number = -number if field[0] == "-" else number
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"id {excerpt(field)} is beyond int64")
    return number
