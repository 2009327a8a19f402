"""A window of event time over a main loop: edges expire when their newest event is too old.

Event time is the newest time of any event so far, the loop's clock. With a window of length L an
edge is in the graph while its newest event is after the clock less L. Removals of expired edges
are part of the version of the batch that moved the clock, and in the change log like all others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vertexsdk.engine.commands import Budget, CommandResult
from vertexsdk.errors import InputError
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.load.tables import is_table
from vertexsdk.loops.durations import times_of
from vertexsdk.loops.edge_times import EdgeTimes, WindowedChanges, require_times
from vertexsdk.loops.history import LoopHistory
from vertexsdk.loops.ledger import Ledger

COUNTS = ("expired", "late", "overtaken")


def timed(history: LoopHistory, changes: Any, time: Any) -> Changes:
    """Return a batch with the ids and values of a loop's graph, and with its times.

    Args:
        changes, time: as for `MainLoop.ingest`; None leaves the times that the batch has.

    Raises:
        InputError: changes of another form, another number of times, or one that is not a time.
    """
    if is_table(changes):
        return history.cast(changes, time)
    batch = history.cast(changes)
    return batch if time is None else replace(batch, time=times_of(time, len(batch.kind)))


def untimed(batch: Changes) -> Changes:
    """Return a batch without its times."""
    return replace(batch, time=np.empty(0)) if len(batch.time) else batch


def window_counts(ledger: Ledger) -> dict[str, int]:
    """Return how many edges expired, and how many events were ignored; empty without a window."""
    window = ledger.window
    return {} if window is None else {name: window[name] for name in COUNTS}


def set_window(history: LoopHistory, length: float) -> None:
    """Give a loop a window, or one of another length; edges which are outside expire now."""
    with history.lock:
        history.recover()
        window = history.ledger.window
        if window is not None and window["length"] == length:
            return
        if window is None:
            window = {"clock": None, **dict.fromkeys(COUNTS, 0)}
        window = {**window, "length": length}
        if window["clock"] is None:
            history.execute(window=window)
            return
        times = history.edge_times()
        _execute(history, times, times.advance(window["clock"], length), window)


def ingest_events(
    history: LoopHistory,
    events: Changes,
    *,
    strict: bool = False,
    budget: Budget | None = None,
    offsets: Mapping[str, Any] | None = None,
    bad: int = 0,
) -> tuple[CommandResult, Changes, dict[str, int]]:
    """Apply what results from events, as one version; the lock is held.

    Args:
        events: as `LoopHistory.cast` returns them, with their times.
        strict, budget, offsets, bad: as for `LoopHistory.execute`.

    Returns:
        What became of the changes; the changes; and how many edges expired, and how many events
        were late or overtaken.

    Raises:
        InputError: an event has no time, or as for `LoopHistory.execute`.
    """
    window = history.ledger.window
    assert window is not None
    require_times(events, f"{window['length']:g} s")
    times = history.edge_times()
    clock = -math.inf if window["clock"] is None else window["clock"]
    windowed = times.take(events, clock, window["length"])
    out = _execute(
        history, times, windowed, window, strict=strict, budget=budget, offsets=offsets, bad=bad
    )
    return out, windowed.changes, {name: getattr(windowed, name) for name in COUNTS}


def advance(history: LoopHistory, time: float) -> int:
    """Move a loop's clock to a time, if it is before that; return how many edges expired.

    Raises:
        InputError: the loop has no window.
    """
    with history.lock:
        history.recover()
        window = history.ledger.window
        if window is None:
            raise InputError(f"loop {history.loop!r} has no window: call window('7d') first")
        if window["clock"] is not None and time <= window["clock"]:
            return 0
        times = history.edge_times()
        windowed = times.advance(time, window["length"])
        _execute(history, times, windowed, window)
        return windowed.expired


def _execute(
    history: LoopHistory,
    times: EdgeTimes,
    windowed: WindowedChanges,
    window: Mapping[str, Any],
    *,
    strict: bool = False,
    **options: Any,
) -> CommandResult:
    """Commit windowed changes; `times` holds for the version after them."""
    counted = {name: window[name] + getattr(windowed, name) for name in COUNTS}
    clock = None if np.isneginf(windowed.clock) else windowed.clock
    history.keep_edge_times(times, history.ledger.received + len(windowed.changes))
    try:
        out = history.execute(
            windowed.changes, strict=strict, window={**window, **counted, "clock": clock}, **options
        )
    except BaseException:
        history.keep_edge_times(None)
        raise
    if strict and out.absent:  # nothing was applied
        history.keep_edge_times(None)
    return out
