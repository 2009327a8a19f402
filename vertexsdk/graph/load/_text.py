"""Edge lines in a byte buffer, parsed natively: `source target [value]`.

Fields are separated by blanks, tabs or commas; `#` starts a comment; fields after the third are
ignored. Each kernel parses whole lines and stops at the first bad one, so that the caller can name
the line. Kernels compute a value if one multiplication or division of an exact mantissa by an exact
power of ten rounds it correctly (Clinger, PLDI 1990), and leave the few others ("hard" ones) to the
caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit

OK, NOT_INTEGER, ID_RANGE, ONE_FIELD, BAD_VALUE, NAN_VALUE, FRACTION, NOT_UTF8, LONG_LINE = range(9)
LINE_BYTES = 1 << 20  # most that a line, and so an id, may have
HAS_VALUE = 5  # index in the report of `parse_edges`

MESSAGES = {
    ID_RANGE: "the id is beyond int64 (-9223372036854775808 to 9223372036854775807)",
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
def _ends(c: int) -> bool:
    """Whether a byte ends a field: a blank, tab, comma, newline or carriage return."""
    return c <= _COMMA and (_ENDS >> np.uint64(c)) & np.uint64(1) != 0


@njit
def _skip(buffer: Bytes, p: int, end: int) -> int:
    """Return the next position that is not a separator within the line."""
    while p < end and buffer[p] != _NEWLINE and _ends(buffer[p]):
        p += 1
    return p


@njit
def _token_end(buffer: Bytes, p: int, end: int) -> int:
    while p < end and not _ends(buffer[p]):
        p += 1
    return p


@njit
def _line_end(buffer: Bytes, p: int, end: int) -> int:
    while p < end and buffer[p] != _NEWLINE:
        p += 1
    return p


@njit
def _integer(buffer: Bytes, p: int, end: int) -> tuple[int, Long, int]:
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
    if p == first or (p < end and not _ends(buffer[p])):
        return NOT_INTEGER, 0, p
    digits = p - first
    if digits >= 19:
        while first < p and buffer[first] == 48:
            first += 1
        if p - first > 19 or x > _INT64_MAX + np.uint64(negative):
            return ID_RANGE, 0, p
    return OK, -np.int64(x) if negative else np.int64(x), p


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
    if seen == 0 or (p < end and not _ends(buffer[p])):
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
    if q > p and (q == end or _ends(buffer[q])):  # a short integer, as most are
        return OK, np.float64(x), x, False, q
    status, v, hard, after = _number(buffer, p, end)
    i: Long = np.int64(0)
    if integer and status == OK:
        exact, i, _ = _integer(buffer, p + (buffer[p] == 43), after)
        if exact != OK:
            if hard or not abs(v) < 9.0e15 or v != np.floor(v):
                status = FRACTION
            else:
                i = np.int64(v)
    return status, v, i, hard, after


@njit
def parse_values(
    buffer: Bytes,
    end: int,
    at: NDArray[np.int32],
    value: NDArray[np.float64],
    whole: Longs,
    hard_row: NDArray[np.int32],
    hard_at: NDArray[np.int32],
    report: Longs,
) -> None:
    """Parse the values at given positions (-1: absent); arguments as of `parse_edges`."""
    keep, integers = len(value) > 0, len(whole) > 0
    hards, valued = 0, 0
    status = OK
    for row in range(len(at)):
        v, hard = 1.0, False
        i: Long = np.int64(1)
        if at[row] >= 0:
            valued += 1
            status, v, i, hard, _ = parse_value(buffer, int(at[row]), end, integers)
            if status != OK:
                report[1] = at[row]
                break
        if integers:
            whole[row] = i
        elif keep:
            value[row] = v
            if hard:
                hard_row[hards] = row
                hard_at[hards] = at[row]
                hards += 1
    report[0] = status
    report[4], report[HAS_VALUE] = hards, valued


@njit
def parse_edges(
    buffer: Bytes,
    begin: int,
    end: int,
    source: Longs,
    target: Longs,
    value: NDArray[np.float64],
    whole: Longs,
    hard_row: NDArray[np.int32],
    hard_at: NDArray[np.int32],
    report: Longs,
) -> int:
    """Parse the lines of `buffer[begin:end]` into the rows of the arrays; return their number.

    Values go into `value`, or as int64 into `whole`; the other array, or both, have length 0
    (values are then only checked). A line without a value has value 1. `report` (int64[7]) receives
    status, position of the bad field, least id, greatest id, number of hard values, number of
    lines with a value. The row and position of each hard value go into `hard_row`, `hard_at`.
    """
    keep, integers = len(value) > 0, len(whole) > 0
    least: Long = np.int64(0x7FFFFFFFFFFFFFFF)
    most: Long = np.int64(-0x8000000000000000)
    row, hards, valued = 0, 0, 0
    status = OK
    p = begin
    while p < end:
        p = _skip(buffer, p, end)
        if p == end:
            break
        if buffer[p] == _NEWLINE:
            p += 1
            continue
        if buffer[p] == _HASH:
            p = _line_end(buffer, p, end)
            continue
        at = p
        status, a, p = _integer(buffer, p, end)
        if status != OK:
            p = at
            break
        p = _skip(buffer, p, end)
        if p == end or buffer[p] == _NEWLINE or buffer[p] == _HASH:
            status, p = ONE_FIELD, at
            break
        at = p
        status, b, p = _integer(buffer, p, end)
        if status != OK:
            p = at
            break
        source[row] = a
        target[row] = b
        least = min(least, a, b)
        most = max(most, a, b)
        p = _skip(buffer, p, end)
        if p < end and buffer[p] != _NEWLINE and buffer[p] != _HASH:
            at = p
            valued += 1
            status, v, i, hard, p = parse_value(buffer, p, end, integers)
            if status != OK:
                p = at
                break
            if integers:
                whole[row] = i
            elif keep:
                value[row] = v
                if hard:
                    hard_row[hards] = row
                    hard_at[hards] = at
                    hards += 1
            p = _line_end(buffer, p, end)
        elif keep:
            value[row] = 1.0
        elif integers:
            whole[row] = 1
        row += 1
        p = _line_end(buffer, p, end) + 1
    report[0], report[1], report[2], report[3] = status, p, least, most
    report[4], report[HAS_VALUE] = hards, valued
    return row


@njit
def tokenize(
    buffer: Bytes, begin: int, end: int, at: NDArray[np.int32], size: NDArray[np.int32]
) -> int:
    """Locate up to three fields of each line: position (or -1) and length, int32[lines, 3].

    Returns the number of lines that have a field.
    """
    row = 0
    p = begin
    while p < end:
        p = _skip(buffer, p, end)
        if p == end:
            break
        if buffer[p] != _NEWLINE and buffer[p] != _HASH:
            for k in range(3):
                at[row, k] = -1
                size[row, k] = 0
            k = 0
            while k < 3 and p < end and buffer[p] != _NEWLINE and buffer[p] != _HASH:
                at[row, k] = p
                q = _token_end(buffer, p, end)
                size[row, k] = q - p
                p = _skip(buffer, q, end)
                k += 1
            row += 1
        p = _line_end(buffer, p, end) + 1
    return row


@njit
def token_sizes(buffer: Bytes, at: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the length of the token at each position."""
    size = np.empty(len(at), np.int32)
    for i in range(len(at)):
        size[i] = _token_end(buffer, at[i], len(buffer)) - at[i]
    return size


@njit
def gather_tokens(
    buffer: Bytes, at: NDArray[np.int32], size: NDArray[np.int32], offsets: Longs, out: Bytes
) -> None:
    """Copy the tokens at `at` of length `size` one after another to `out[offsets[i]:]`."""
    for i in range(len(at)):
        o = offsets[i]
        for k in range(size[i]):
            out[o + k] = buffer[at[i] + k]
