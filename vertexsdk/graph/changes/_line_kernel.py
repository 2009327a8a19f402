"""Change lines in a byte buffer, parsed natively: `+ source target [value]` and so on.

The kernel parses the common form of a line: ASCII, a sign, two ids, a plain number. It also
recognises lines that are certainly bad, so that a file full of them is read fast. Any other line is
marked `ODD` and left to the caller, so that `vertexsdk.graph.changes.line` alone defines what a
change is. Every line that may be a change has a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.graph.edge_attributes import NO_FLOAT, NO_INT
from vertexsdk.graph.load._text import (
    LINE_BYTES,
    OK,
    Bytes,
    Long,
    Longs,
    _ends,
    _skip,
    padded,
    parse_value,
    place_of,
)
from vertexsdk.graph.load._text import _integer as _int64

BAD, ODD = 254, 255  # the kind of a row whose line is no change; is left to the caller

_ADD, _REMOVE, _CHANGE = 0, 1, 2

Ints = NDArray[np.int32]


@njit
def _ended(buffer: Bytes, p: int, end: int) -> bool:
    """Whether a field that came so far ends here."""
    return p == end or _ends(buffer[p])


@njit
def _word(buffer: Bytes, p: int, end: int) -> int:
    """Return where a field of visible ASCII ends; the position itself if it is none."""
    begin = p
    while p < end and 32 < buffer[p] < 127 and buffer[p] != 44:
        p += 1
    return p if _ended(buffer, p, end) else begin


@njit
def _no_integer(buffer: Bytes, p: int, q: int, plus: bool) -> bool:
    """Whether the word p..q-1 is no integer of any size; perhaps one with a `+`."""
    if p < q and (buffer[p] == 45 or (plus and buffer[p] == 43)):
        p += 1
    other = p == q
    for k in range(p, q):
        other = other or buffer[k] < 48 or buffer[k] > 57
    return other


@njit
def _integer(buffer: Bytes, p: int, end: int, plus: bool) -> tuple[Any, Any, Long, int]:
    """Parse an int64: (is it one, is it surely no integer, value, position after it)."""
    status, x, q = _int64(buffer, p, end)
    if status == OK:
        return True, False, x, q
    word = _word(buffer, p, end)
    return False, word > p and _no_integer(buffer, p, word, plus), x, q


@njit
def parse_changes(
    buffer: Bytes,
    begin: int,
    end: int,
    named: bool,
    timed: int,
    kind: Bytes,
    source: Longs,
    target: Longs,
    value: NDArray[np.float64],
    whole: Longs,
    value_at: Longs,
    time: NDArray[np.float64],
    line: Ints,
    start: Ints,
    stop: Ints,
) -> int:
    """Parse the lines of `buffer[begin:end]` into the rows of the arrays; return their number.

    Args:
        named: ids are strings: `source` and `target` get their places, see `_text`.
        timed: the number of the field which holds a time, from 1; 0 for none.
        kind: 0, 1 or 2, or `BAD` or `ODD`, for which of the others only the last three hold.
        value, whole: one is empty; values go into the other, see `edge_attributes` for none.
        value_at: the place of a float that the caller is to read, as it is `hard`; else -1.
        time: empty unless `timed`.
        line: the line's number, from 0; start, stop: its bounds.
    """
    row = 0
    number = 0
    p = begin
    while p < end:
        line[row] = number
        start[row] = p
        number += 1
        p = _skip(buffer, p, end)
        good = True
        bad = False  # surely; if neither, then odd
        fields = 0  # of the change; a time is none
        met = 0  # of the line
        what = ODD
        value_at[row] = -1
        while good and p < end and buffer[p] != 10 and (met > 0 or buffer[p] != 35):
            met += 1
            x: Long = np.int64(0)
            q = p
            if met == timed:
                good, _, x, q = _integer(buffer, p, end, False)
                good = good and buffer[p] != 45 and q - p <= 15
                time[row] = np.float64(x)
            elif fields == 0:
                q = p + 1
                c = buffer[p]
                what = _ADD if c == 43 else _REMOVE if c == 45 else _CHANGE
                good = (c == 43 or c == 45 or c == 126) and _ended(buffer, q, end)
                if not good:
                    bad = 32 < c < 127 and _word(buffer, p, end) > p
                fields = 1
            elif fields < 3:
                if named:
                    q = _word(buffer, p, end)
                    good = 0 < q - p <= LINE_BYTES
                    x = place_of(p, q)
                else:
                    good, bad, x, q = _integer(buffer, p, end, False)
                    good = good and not padded(buffer, p, q)
                if fields == 1:
                    source[row] = x
                else:
                    target[row] = x
                fields += 1
            elif fields == 3:
                if what == _REMOVE:  # a value that nobody reads
                    q = _word(buffer, p, end)
                    good = q > p
                elif len(whole) > 0:
                    good, bad, x, q = _integer(buffer, p, end, True)
                    good = good and x != NO_INT
                    whole[row] = x
                else:
                    q = _word(buffer, p, end)
                    good = q > p
                    if good:
                        status, value[row], _, hard, _ = parse_value(buffer, p, q, False)
                        if hard:
                            value_at[row] = place_of(p, q)
                        bad = status != OK
                        good = not bad
                fields += 1
            else:
                good = False
                bad = _word(buffer, p, end) > p
            p = _skip(buffer, q, end)
        if fields == 3 or what == _REMOVE:
            if len(whole) > 0:
                whole[row] = NO_INT
            else:
                value[row] = NO_FLOAT
        if good:
            good = (fields == 4 or (fields == 3 and what != _CHANGE)) and met >= timed
            bad = not good
        kind[row] = what if good else BAD if bad else ODD
        while p < end and buffer[p] != 10:
            p += 1
        p = min(p + 1, end)
        stop[row] = p
        long = p - start[row] > LINE_BYTES
        if long:
            kind[row] = ODD
        row += met > 0 or long  # a blank line or a comment is no row
    return row
