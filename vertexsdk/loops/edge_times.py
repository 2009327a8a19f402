"""The newest event time of each edge in a window of event time.

It turns events into changes of the graph: late and overtaken events are left out, and the edges
that have left the window are removed. What it holds is a function of a loop's version: a segment of
each checkpoint, and the times in the change log since.

Invariants: an edge with state `PRESENT` is in the graph, and was last added or changed at its time;
one with state `REMOVED` is not, and is kept so that an older event does not bring it back. Edges
without an event, as those of the graph that a loop began with, are not here and do not expire.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.packed_strings import pack_arrow, unpack_arrow
from vertexsdk.errors import InputError
from vertexsdk.graph.changes.changes import REMOVE, Changes
from vertexsdk.graph.topology.edge_attributes import NO_FLOAT, NO_INT, attribute_types, left_out
from vertexsdk.loops.change_log import ChangeLog
from vertexsdk.state import Manifest, SegmentRef, Store
from vertexsdk.state.stored_columns import Described, described_text

GROUP = "window"  # of the segment of a checkpoint
_LEAST = 1 << 10  # rows for which there is room

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WindowedChanges:
    """The changes that result from events.

    Attributes:
        changes: in order, the removals of expired edges among them.
        clock: the newest time.
        late, overtaken: events that were ignored, as they are before the window, or before the
            newest event of their edge.
        expired: how many of the changes remove an edge that has left the window.
    """

    changes: Changes
    clock: float
    late: int
    overtaken: int
    expired: int


class EdgeTimes:
    """The rows of a table of edges, and the order in which they expire.

    Args:
        integers: ids are int64; else they are strings.
        value: dtype of the edge values, or None.

    Example:
        >>> times = EdgeTimes(integers=True, value=None)
        >>> events = Changes.from_arrays([0, 0], [1, 2], [2, 3], time=[10.0, 14.0])
        >>> one = times.take(events, clock=-np.inf, length=5.0)
        >>> len(one.changes), times.advance(15.0, 5.0).changes.source.to_pylist()
        (2, [1])
    """

    def __init__(self, *, integers: bool, value: str | None) -> None:
        self.integers, self.value = integers, value
        self._names = _Names()
        self._allocate(0)
        self._rows = 0
        self._queue: list[tuple[float, int, NDArray[np.float64], Longs]] = []
        self._pushed = 0

    def __len__(self) -> int:
        """Return the number of edges with a time."""
        return int(np.count_nonzero(self._state[: self._rows]))

    @property
    def nbytes(self) -> int:
        """The memory of the arrays, in bytes."""
        columns = (self._table, self._source, self._target, self._time, self._state)
        queue = sum(times.nbytes + rows.nbytes for _, _, times, rows in self._queue)
        return sum(column.nbytes for column in columns) + queue

    def take(self, events: Changes, clock: float, length: float) -> WindowedChanges:
        """Take in events in order, and move the window to the newest time.

        Args:
            events: with their times, as `LoopHistory.cast` returns them.
            clock: the newest time before them.
            length: the window's length; edges whose time is not after the clock less this expire.
        """
        size = len(events)
        sources, targets = self._ends(events)
        out, expires = np.empty(2 * size, np.int64), np.empty(2 * size, np.bool_)
        touched, counts = np.empty(2 * size, np.int64), np.zeros(5, np.int64)
        counts[ROWS] = self._rows
        clock = fold(
            self._table, self._source, self._target, self._time, self._state, sources, targets,
            events.time, events.kind, clock, length, out, expires, touched, counts,
        )  # fmt: skip
        self._rows = int(counts[ROWS])
        n = int(counts[RESULT])
        out, expires, touched = out[:n], expires[:n], touched[:n]
        self._push(touched[touched >= 0])
        kind = np.where(expires, np.uint8(REMOVE), events.kind[out])
        time = np.where(expires, np.nan, events.time[out])
        at = pa.array(out)
        source, target = events.source.take(at), events.target.take(at)
        value = events.value[out]
        expired_rows = self._expire(clock - length)
        if len(expired_rows):
            kind = np.concatenate([kind, np.full(len(expired_rows), REMOVE, np.uint8)])
            source = pa.concat_arrays([source, self._ids(self._source[expired_rows])])
            target = pa.concat_arrays([target, self._ids(self._target[expired_rows])])
            value = np.concatenate([value, self._no_values(len(expired_rows))])
            time = np.concatenate([time, np.full(len(expired_rows), np.nan)])
        changes = Changes(kind, source, target, value, _Places(events, out), time)
        late, overtaken, expired = (int(counts[k]) for k in (LATE, OVERTAKEN, EXPIRED))
        return WindowedChanges(changes, clock, late, overtaken, expired + len(expired_rows))

    def advance(self, clock: float, length: float) -> WindowedChanges:
        """Move the window to a time, without events."""
        none = pa.array([], pa.int64() if self.integers else pa.large_string())
        values = self._no_values(0)
        empty = Changes(np.empty(0, np.uint8), none, none, values, (), np.empty(0))
        return self.take(empty, clock, length)

    def _expire(self, horizon: float) -> Longs:
        """Forget the edges with a time not after `horizon`; return the rows of those present."""
        removed = [np.empty(0, np.int64)]
        while self._queue and self._queue[0][0] <= horizon:
            _, _, times, rows = heapq.heappop(self._queue)
            cut = int(np.searchsorted(times, horizon, "right"))
            present = np.empty(cut, np.int64)
            n = forget(rows[:cut], times[:cut], self._time, self._state, present)
            removed.append(present[:n])
            if cut < len(times):
                self._put(times[cut:], rows[cut:])
        rows = np.concatenate(removed)
        order = np.argsort(self._time[rows], kind="stable")
        return np.asarray(rows[order])

    def _push(self, rows: Longs) -> None:
        """Have rows expire at their time."""
        if len(rows):
            times = self._time[rows]
            order = np.argsort(times, kind="stable")
            self._put(times[order], rows[order])

    def _put(self, times: NDArray[np.float64], rows: Longs) -> None:
        self._pushed += 1
        heapq.heappush(self._queue, (float(times[0]), self._pushed, times, rows))

    def _allocate(self, rows: int) -> None:
        room = max(_LEAST, 1 << (rows + rows // 2).bit_length())
        self._table = np.full(2 * room, -1, np.int64)
        self._source, self._target = np.empty(room, np.int64), np.empty(room, np.int64)
        self._time, self._state = np.empty(room), np.zeros(room, np.int8)

    def _reserve(self, more: int) -> None:
        """Have room for more rows; drop forgotten ones when the table is made anew."""
        if self._rows + more <= len(self._source):
            return
        rows = np.flatnonzero(self._state[: self._rows])
        source, target = self._names.keep(self._source[rows], self._target[rows])
        time, state = self._time[rows], self._state[rows]
        self._allocate(len(rows) + more)
        self._load(source, target, time, state)

    def _load(self, source: Longs, target: Longs, time: Any, state: Any) -> None:
        self._rows = n = len(source)
        self._source[:n], self._target[:n], self._time[:n], self._state[:n] = (
            source, target, time, state,
        )  # fmt: skip
        fill(self._table, self._source, self._target, n)
        self._queue.clear()
        self._push(np.arange(n))

    def _ends(self, changes: Changes) -> tuple[Longs, Longs]:
        """The codes of sources and targets, once there is room for a row of each change.

        Making room may give all names other codes.
        """
        self._reserve(len(changes.kind))
        return self._codes(changes.source), self._codes(changes.target)

    def _codes(self, ids: Any) -> Longs:
        return np.asarray(ids) if self.integers else self._names.codes(ids)

    def _ids(self, codes: Longs) -> Any:
        return pa.array(codes) if self.integers else self._names.take(codes)

    def _no_values(self, size: int) -> NDArray[Any]:
        if attribute_types(self.value):
            return np.repeat(left_out(self.value)[None, :], size, axis=0)
        return np.full(size, NO_INT if self.value == "int64" else NO_FLOAT)

    def put(self, store: Store, loop: str, iteration: int) -> SegmentRef:
        """Store everything as a segment of a checkpoint."""
        rows = np.flatnonzero(self._state[: self._rows])
        columns: dict[str, NDArray[Any]] = {"time": self._time[rows], "state": self._state[rows]}
        for name, codes in (("source", self._source[rows]), ("target", self._target[rows])):
            if self.integers:
                columns[name] = codes
            else:
                packed = pack_arrow(self._names.take(codes))
                columns[f"{name}.offsets"], columns[f"{name}.bytes"] = packed
        return store.put_segment(loop, 0, iteration, "topology", columns, group=GROUP)

    @classmethod
    def of_version(
        cls, store: Store, manifest: Manifest, *, integers: bool, value: str | None,
        undirected: bool,
    ) -> EdgeTimes:  # fmt: skip
        """Read those of a version, from its checkpoint and change log."""
        self = cls(integers=integers, value=value)
        for ref in store.segments(manifest):
            if ref.kind == "topology" and ref.group == GROUP:
                ends = {"source": Described(np.int64), "target": Described(np.int64)}
                if not integers:
                    ends = described_text("source") | described_text("target")
                described = {
                    "time": Described(np.float64),
                    "state": Described(np.int8, least=FORGOTTEN, most=REMOVED),
                    **ends,
                }
                columns = store.segment(ref, described=described)
                source = self._codes(_stored_ids(columns, "source"))
                target = self._codes(_stored_ids(columns, "target"))
                self._allocate(len(columns["time"]))
                self._load(source, target, columns["time"], columns["state"])
        for changes in ChangeLog.replay(store, manifest, include_sent=False, undirected=undirected):
            if len(changes.time) or self._rows:  # a branch may have removed edges, without a time
                self._replay(changes)
        return self

    def _replay(self, changes: Changes) -> None:
        sources, targets = self._ends(changes)
        times = changes.time if len(changes.time) else np.full(len(changes.kind), np.nan)
        self._rows = replay(
            self._table, self._source, self._target, self._time, self._state, sources, targets,
            times, changes.kind, self._rows,
        )  # fmt: skip
        self._queue.clear()
        self._push(np.flatnonzero(self._state[: self._rows]))


def _stored_ids(columns: Mapping[str, NDArray[Any]], name: str) -> Any:
    if name in columns:
        return pa.array(columns[name])
    return unpack_arrow(columns[f"{name}.offsets"], columns[f"{name}.bytes"])


class _Names:
    """Codes of names, 0, 1, ... in the order in which they come."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._chunks: list[Any] = []

    def codes(self, names: Any) -> Longs:
        """Return the code of each name; a new one gets the next."""
        coded = names.dictionary_encode()
        distinct = coded.dictionary
        known_count = len(self._code)
        of = [self._code.setdefault(name, len(self._code)) for name in distinct.to_pylist()]
        codes = np.array(of, np.int64)
        if len(self._code) > known_count:
            self._chunks.append(distinct.filter(pa.array(codes >= known_count)))
        return codes[np.asarray(coded.indices)] if len(names) else np.empty(0, np.int64)

    def take(self, codes: Longs) -> Any:
        """Return the names of codes."""
        if len(self._chunks) > 1:
            self._chunks = [pa.concat_arrays(self._chunks)]
        all_names = self._chunks[0] if self._chunks else pa.array([], pa.large_string())
        return all_names.take(pa.array(codes))

    def keep(self, source: Longs, target: Longs) -> tuple[Longs, Longs]:
        """Forget all other names; return the new codes."""
        if not self._code:
            return source, target
        names = (self.take(source), self.take(target))
        self._code.clear()
        self._chunks.clear()
        return self.codes(names[0]), self.codes(names[1])


@dataclass(frozen=True)
class _Places(Sequence[str]):
    """The places where events were read, by the changes that result from them."""

    events: Changes
    event: Longs

    def __len__(self) -> int:
        return len(self.event)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(len(self)))]
        event = int(self.event[number])
        places = self.events.places
        return places[event] if len(places) else f"change {event + 1} of the batch"


def require_times(events: Changes, length: str) -> None:
    """Raise InputError unless each event has a finite time."""
    if len(events) and not len(events.time):
        raise InputError(
            f"the loop has a window of {length}: give each change its time, by "
            "ingest(changes, time=...), or by time_column= for a stream"
        )
    wrong = np.flatnonzero(~np.isfinite(events.time))
    if len(wrong):
        raise InputError(f"the time of change {wrong[0] + 1} is {events.time[wrong[0]]}")
    if len(events) != len(events.kind):
        raise InputError("a loop with a window takes edges only; leave out ('send', ...)")


# A hash table of edges with their newest event times, as arrays; linear probing.
#
# A row is the source, target, time and state of an edge. A row that was forgotten stays in the
# table, without a state, until the table is made anew; a new event of its edge uses it again.

FORGOTTEN, PRESENT, REMOVED = 0, 1, 2  # states of a row
LATE, OVERTAKEN, EXPIRED, RESULT, ROWS = range(5)  # what `fold` counts

_ADD, _REMOVE, _CHANGE = 0, 1, 2

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
        length: the window's length.
        out: room for 2 k; the event that each resulting change is of.
        expires: room for 2 k; whether the change is the removal of what expired before the event.
        touched: room for 2 k; the row which the change gave its time, or -1.
        counts: five numbers, `LATE` to `ROWS`, the last of which is how many rows are in use.
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
        rows, times: arrays of length k; a row may come more than once.
        time, state: the columns of all rows.
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
