"""A hash table of edges with their newest event times, as arrays; linear probing.

A row is the source, target, time and state of an edge. A row that was forgotten stays in the table,
without a state, until the table is made anew; a new event of its edge uses it again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit

FORGOTTEN, PRESENT, REMOVED = 0, 1, 2  # states of a row
LATE, OVERTAKEN, EXPIRED, RESULT, ROWS = range(5)  # what `fold` counts

_ADD, _REMOVE, _CHANGE = 0, 1, 2

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit
def _place(table: Longs, source: Longs, target: Longs, a: Any, b: Any) -> Any:
    """Return where in the table edge a -> b is, or where it is to be put."""
    x = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mask = np.int64(len(table) - 1)
    k = np.int64(x >> np.uint64(31)) & mask
    while table[k] >= 0 and (source[table[k]] != a or target[table[k]] != b):
        k = (k + 1) & mask
    return k


@njit
def fill(table: Longs, source: Longs, target: Longs, rows: int) -> None:
    """Put the first `rows` rows, of different edges, into an empty table."""
    for row in range(rows):
        table[_place(table, source, target, source[row], target[row])] = row


@njit
def fold(
    table: Longs,
    source: Longs,
    target: Longs,
    time: Floats,
    state: NDArray[np.int8],
    sources: Longs,
    targets: Longs,
    times: Floats,
    kinds: NDArray[np.uint8],
    clock: float,
    length: float,
    out: Longs,
    expires: NDArray[np.bool_],
    touched: Longs,
    counts: Longs,
) -> float:
    """Take in events in order, and return the clock after them.

    Args:
        table, source, target, time, state: the rows; there is room for one of each event.
        sources, targets, times, kinds: the events, of length k.
        clock: the newest time before them, perhaps -inf.
        length: of the window.
        out: room for 2 k; the event that each resulting change is of.
        expires: room for 2 k; whether the change is the removal of what expired before the event.
        touched: room for 2 k; the row which the change gave its time, or -1.
        counts: five numbers; see `LATE` to `ROWS`, the last of which is how many rows are in use.
    """
    n = counts[RESULT]
    rows = counts[ROWS]
    for i in range(len(times)):
        t = times[i]
        clock = max(clock, t)
        if t <= clock - length:
            counts[LATE] += 1
            continue
        place = _place(table, source, target, sources[i], targets[i])
        row = table[place]
        if row >= 0 and state[row] != FORGOTTEN:
            if t < time[row]:
                counts[OVERTAKEN] += 1
                continue
            if time[row] <= clock - length:
                if state[row] == PRESENT:
                    out[n] = i
                    expires[n] = True
                    touched[n] = -1
                    n += 1
                    counts[EXPIRED] += 1
                state[row] = FORGOTTEN
        out[n] = i
        expires[n] = False
        touched[n] = -1
        if kinds[i] != _CHANGE or (row >= 0 and state[row] == PRESENT):
            if row < 0:
                row = rows
                rows += 1
                table[place] = row
                source[row] = sources[i]
                target[row] = targets[i]
            time[row] = t
            state[row] = REMOVED if kinds[i] == _REMOVE else PRESENT
            touched[n] = row
        n += 1
    counts[RESULT] = n
    counts[ROWS] = rows
    return clock


@njit
def replay(
    table: Longs,
    source: Longs,
    target: Longs,
    time: Floats,
    state: NDArray[np.int8],
    sources: Longs,
    targets: Longs,
    times: Floats,
    kinds: NDArray[np.uint8],
    rows: int,
) -> int:
    """Take in changes that resulted from events, with NaN for those that were none.

    Args:
        table, source, target, time, state: as for `fold`.
        sources, targets, times, kinds: the changes.
        rows: how many rows are in use.

    Returns:
        How many are in use then.
    """
    for i in range(len(times)):
        place = _place(table, source, target, sources[i], targets[i])
        row = table[place]
        if np.isnan(times[i]):
            if row >= 0 and kinds[i] == _REMOVE and state[row] == PRESENT:
                state[row] = FORGOTTEN
            continue
        if kinds[i] == _CHANGE and (row < 0 or state[row] != PRESENT):
            continue
        if row < 0:
            row = rows
            rows += 1
            table[place] = row
            source[row] = sources[i]
            target[row] = targets[i]
        time[row] = times[i]
        state[row] = REMOVED if kinds[i] == _REMOVE else PRESENT
    return rows


@njit
def forget(
    rows: Longs, times: Floats, time: Floats, state: NDArray[np.int8], present: Longs
) -> int:
    """Forget the rows that still have these times; return how many of them were present.

    Args:
        rows, times: of length k; a row may come more than once.
        time, state: of all rows.
        present: room for k; the rows that were present.
    """
    n = 0
    for k in range(len(rows)):
        row = rows[k]
        if time[row] == times[k]:
            if state[row] == PRESENT:
                present[n] = row
                n += 1
            state[row] = FORGOTTEN
    return n
