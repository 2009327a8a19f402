"""Edge lines in a byte buffer, parsed natively: `source target [value]`.

Fields are separated by blanks, tabs or commas; a line whose first field begins with `#` is a
comment; fields after the third are ignored. Each kernel parses whole lines and stops at the first
bad one, so that the caller can name the line. Kernels compute a value if one multiplication or
division of an exact mantissa by an exact power of ten rounds it correctly (Clinger, PLDI 1990), and
leave the few others ("hard" ones) to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.graph.topology.string_ids import BEYOND_INT64

OK, NOT_INTEGER, ID_RANGE, ONE_FIELD, BAD_VALUE, NAN_VALUE, FRACTION, NOT_UTF8, LONG_LINE = range(9)
LINE_BYTES = 1 << 20  # most that a line, and so an id, may have
HAS_VALUE = 5  # index in the report of `parse_edges`
SIZE_BITS = 21  # the place of a token is its position << SIZE_BITS | its length

MESSAGES = {
    ID_RANGE: BEYOND_INT64,
    ONE_FIELD: "one field; a line is `source target [value]`",
    BAD_VALUE: "the value is not a number",
    NAN_VALUE: "the value is NaN; remove the line or write a number",
    FRACTION: "the value is not an int64 integer, which this program's edge values are",
    NOT_UTF8: "the id is not UTF-8 text; convert the file to UTF-8",
    LONG_LINE: f"the line is longer than {LINE_BYTES:,} bytes; shorten or remove it",
}

_NEWLINE, _BLANK, _TAB, _COMMA, _RETURN, _HASH = 10, 32, 9, 44, 13, 35
_ENDS = np.uint64(sum(1 << c for c in (_BLANK, _TAB, _COMMA, _NEWLINE, _RETURN)))
_POWERS = 10.0 ** np.arange(23)
_INT64_MAX = np.uint64(0x7FFFFFFFFFFFFFFF)

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
Long = Any  # an int, which the compiler makes an int64


@njit
def count_lines(buffer: Bytes, begin: int, end: int) -> int:
    """Return the number of line ends in `buffer[begin:end]`."""
    n = 0
    for i in range(begin, end):
        n += buffer[i] == 10
    return n


@njit
def long_line(buffer: Bytes, begin: int, end: int) -> int:
    """Return the position of the first line of more than `LINE_BYTES`, or -1.

    `begin` is the beginning of a line. It reads few bytes, as it skips nearly `LINE_BYTES` a time.
    """
    while end - begin > LINE_BYTES:
        p = begin + LINE_BYTES
        while p >= begin and buffer[p] != _NEWLINE:
            p -= 1
        if p < begin:
            return begin
        begin = p + 1
    return -1


@njit
def ends_field(c: int) -> bool:
    """Return whether a byte ends a field: a blank, tab, comma, newline or carriage return."""
    return c <= _COMMA and (_ENDS >> np.uint64(c)) & np.uint64(1) != 0


@njit
def skip_separators(buffer: Bytes, p: int, end: int) -> int:
    """Return the next position that is not a separator within the line."""
    while p < end and buffer[p] != _NEWLINE and ends_field(buffer[p]):
        p += 1
    return p


@njit
def _token_end(buffer: Bytes, p: int, end: int) -> int:
    while p < end and not ends_field(buffer[p]):
        p += 1
    return p


@njit
def _line_end(buffer: Bytes, p: int, end: int) -> int:
    while p < end and buffer[p] != _NEWLINE:
        p += 1
    return p


@njit
def parse_integer(buffer: Bytes, p: int, end: int) -> tuple[int, Long, int]:
    """Parse an int64 at `p`: (status, value, position after the token)."""
    negative = buffer[p] == 45
    if negative:
        p += 1
    first = p
    x = np.uint64(0)
    while p < end:
        d = np.uint64(buffer[p]) - np.uint64(48)
        if d > np.uint64(9):
            break
        x = x * np.uint64(10) + d
        p += 1
    if p == first or (p < end and not ends_field(buffer[p])):
        return NOT_INTEGER, 0, p
    digits = p - first
    if digits >= 19:
        while first < p and buffer[first] == 48:
            first += 1
        if p - first > 19 or x > _INT64_MAX + np.uint64(negative):
            return ID_RANGE, 0, p
    return OK, -np.int64(x) if negative else np.int64(x), p


@njit
def padded(buffer: Bytes, p: int, q: int) -> bool:
    """Return whether the integer p..q-1 would print back otherwise: `007`, `-0`."""
    first = p + (buffer[p] == 45)
    return first < q and buffer[first] == 48 and q > p + 1


@njit
def _id(buffer: Bytes, p: int, end: int) -> tuple[int, Long, int]:
    """Parse an int64 that prints back as it is written: (status, value, end)."""
    status, x, q = parse_integer(buffer, p, end)
    return NOT_INTEGER if padded(buffer, p, q) else status, x, q


@njit
def _word(buffer: Bytes, p: int, end: int) -> tuple[int, float]:
    """Read inf, infinity or nan, in any case and with a sign: (status, value)."""
    sign = 1.0
    if buffer[p] == 45 or buffer[p] == 43:
        sign = -1.0 if buffer[p] == 45 else 1.0
        p += 1
    n = end - p
    if n == 3 or n == 8:
        a, b, c = buffer[p] | 32, buffer[p + 1] | 32, buffer[p + 2] | 32
        if n == 3 and a == 110 and b == 97 and c == 110:
            return NAN_VALUE, 0.0
        if a == 105 and b == 110 and c == 102:
            tail = (105, 110, 105, 116, 121)
            same = True
            for k in range(n - 3):
                same = same and (buffer[p + 3 + k] | 32) == tail[k]
            if same:
                return OK, sign * np.inf
    return BAD_VALUE, 0.0


@njit
def _number(buffer: Bytes, p: int, end: int) -> tuple[int, float, bool, int]:
    """Parse a float at `p`: (status, value, hard, position after the token)."""
    begin = p
    negative = buffer[p] == 45
    if negative or buffer[p] == 43:
        p += 1
    x = np.uint64(0)
    digits = 0  # significant ones
    seen = 0
    exponent = 0
    point = False
    while p < end:
        c = buffer[p]
        if 48 <= c <= 57:
            seen += 1
            if digits > 0 or c != 48:
                digits += 1
            if digits <= 19:
                x = x * np.uint64(10) + np.uint64(c - 48)
            exponent -= point
        elif c == 46 and not point:
            point = True
        else:
            break
        p += 1
    if seen > 0 and p < end and (buffer[p] == 101 or buffer[p] == 69):
        p += 1
        down = p < end and buffer[p] == 45
        if p < end and (buffer[p] == 45 or buffer[p] == 43):
            p += 1
        power = 0
        first = p
        while p < end and 48 <= buffer[p] <= 57:
            power = min(power * 10 + int(buffer[p] - 48), 100000)
            p += 1
        if p == first:
            seen = 0
        exponent += -power if down else power
    if seen == 0 or (p < end and not ends_field(buffer[p])):
        p = _token_end(buffer, p, end)
        status, special = _word(buffer, begin, p)
        return status, special, False, p
    if digits > 19 or x > np.uint64(1 << 53) or exponent > 22 or exponent < -22:
        return OK, -0.0 if negative else 0.0, digits > 0, p
    v = np.float64(x)
    v = v / _POWERS[-exponent] if exponent < 0 else v * _POWERS[exponent]
    return OK, -v if negative else v, False, p


@njit
def parse_value(
    buffer: Bytes, p: int, end: int, integer: bool
) -> tuple[int, float, Long, bool, int]:
    """Parse a value: (status, as float, as integer if wanted, hard, position after it)."""
    x: Long = np.int64(0)
    q = p
    while q < end and q - p < 15 and 48 <= buffer[q] <= 57:
        x = x * 10 + np.int64(buffer[q] - 48)
        q += 1
    if q > p and (q == end or ends_field(buffer[q])):  # a short integer, as most are
        return OK, np.float64(x), x, False, q
    status, v, hard, after = _number(buffer, p, end)
    i: Long = np.int64(0)
    if integer and status == OK:
        exact, i, _ = parse_integer(buffer, p + (buffer[p] == 43), after)
        if exact != OK:
            if hard or not abs(v) < 9.0e15 or v != np.floor(v):
                status = FRACTION
            else:
                i = np.int64(v)
    return status, v, i, hard, after


@njit
def place_of(p: int, q: int) -> Long:
    """Return the place of the token p..q-1 (`SIZE_BITS`)."""
    return np.int64(p) << SIZE_BITS | np.int64(q - p)


@njit
def parse_edges(
    buffer: Bytes,
    begin: int,
    end: int,
    named: bool,
    source: Longs,
    target: Longs,
    value: NDArray[np.float64],
    int_value: Longs,
    hard_row: NDArray[np.int32],
    hard_at: Longs,
    report: Longs,
) -> int:
    """Parse the lines of `buffer[begin:end]` into the rows of the arrays; return their number.

    Ids are int64, or strings if `named`, and given by their places. Values go into `value`, or as
    int64 into `int_value`; the other array, or both, have length 0 (values are then only checked).
    A line without a value has value 1. `report` (int64[6]) receives status, position of the bad
    field, least id, greatest id, number of hard values, number of lines with a value. The row and
    place of each hard value go into `hard_row`, `hard_at`.
    """
    keep, integers = len(value) > 0, len(int_value) > 0
    least: Long = np.int64(0x7FFFFFFFFFFFFFFF)
    most: Long = np.int64(-0x8000000000000000)
    row, hards, valued = 0, 0, 0
    status = OK
    p = begin
    while p < end:
        p = skip_separators(buffer, p, end)
        if p == end:
            break
        if buffer[p] == _NEWLINE:
            p += 1
            continue
        if buffer[p] == _HASH:
            p = _line_end(buffer, p, end)
            continue
        at = p
        if named:
            a, p = _token(buffer, p, end)
        else:
            status, a, p = _id(buffer, p, end)
        if status != OK:
            p = at
            break
        p = skip_separators(buffer, p, end)
        if p == end or buffer[p] == _NEWLINE:
            status, p = ONE_FIELD, at
            break
        at = p
        if named:
            b, p = _token(buffer, p, end)
        else:
            status, b, p = _id(buffer, p, end)
        if status != OK:
            p = at
            break
        source[row] = a
        target[row] = b
        least = min(least, a, b)
        most = max(most, a, b)
        p = skip_separators(buffer, p, end)
        if p < end and buffer[p] != _NEWLINE:
            at = p
            valued += 1
            status, v, i, hard, p = parse_value(buffer, p, end, integers)
            if status != OK:
                p = at
                break
            if integers:
                int_value[row] = i
            elif keep:
                value[row] = v
                if hard:
                    hard_row[hards] = row
                    hard_at[hards] = place_of(at, p)
                    hards += 1
            p = _line_end(buffer, p, end)
        elif keep:
            value[row] = 1.0
        elif integers:
            int_value[row] = 1
        row += 1
        p = _line_end(buffer, p, end) + 1
    report[0], report[1], report[2], report[3] = status, p, least, most
    report[4], report[HAS_VALUE] = hards, valued
    return row


@njit
def _token(buffer: Bytes, p: int, end: int) -> tuple[Long, int]:
    """Return the place of the token at `p`, and the position after it."""
    q = _token_end(buffer, p, end)
    return place_of(p, q), q


@njit
def first_two_fields(buffer: Bytes, begin: int, end: int, places: Longs) -> int:
    """Locate the first two fields of each line: `places` is int64[lines, 2], 0 where none is.

    Returns the number of lines that have a field.
    """
    row = 0
    p = begin
    while p < end:
        p = skip_separators(buffer, p, end)
        if p < end and buffer[p] != _NEWLINE and buffer[p] != _HASH:
            for k in range(2):
                places[row, k] = 0
                if p < end and buffer[p] != _NEWLINE:
                    q = _token_end(buffer, p, end)
                    places[row, k] = place_of(p, q)
                    p = skip_separators(buffer, q, end)
            row += 1
        p = _line_end(buffer, p, end) + 1
    return row


@njit
def gather_tokens(buffer: Bytes, places: Longs, offsets: Longs, out: Bytes) -> None:
    """Copy the tokens at `places` one after another to `out[offsets[i]:]`."""
    for i in range(len(places)):
        o = offsets[i]
        at = places[i] >> SIZE_BITS
        for k in range(offsets[i + 1] - o):
            out[o + k] = buffer[at + k]
