"""The exact answer as of an earlier version, or as of a moment of event time or of the clock."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from vertexsdk.errors import InputError
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.loops._change_log import ChangeLog, concatenate
from vertexsdk.loops._history import LoopHistory
from vertexsdk.loops._ledger import Ledger
from vertexsdk.loops.branch_loop import BranchLoop, OpenBranches
from vertexsdk.loops.result import Result
from vertexsdk.loops.windows.edge_times import EdgeTimes
from vertexsdk.state import Manifest
from vertexsdk.state.errors import StateInputError


def answer_at_version(history: LoopHistory, branches: OpenBranches, version: int) -> Result:
    """Return the exact answer for the graph of a version, or of the newest before it."""
    return _answer(BranchLoop(history, branches, None, version))


def answer_at_time(history: LoopHistory, branches: OpenBranches, time: float) -> Result:
    """Return the exact answer as of a time, see `WindowedLoop.at`."""
    with history.lock:
        history.settle()
        store, loop = history.store, history.loop
        versions = [store.version(loop, number) for number in store.versions(loop)]
    if Ledger.read(versions[-1]).window is not None:  # those before it have no event time
        versions = [v for v in versions if Ledger.read(v).window is not None]
    moments = [_moment(manifest) for manifest in versions]
    place = int(np.searchsorted(moments, time, "right")) - 1
    if place < 0:
        raise StateInputError(
            f"loop {loop!r} has no version as old as {_written(time)}: the oldest retained is of "
            f"{_written(moments[0])}; open the loop with a larger retain="
        )
    version = versions[place]
    changes = None
    if Ledger.read(version).window is not None:
        following = versions[place + 1] if place + 1 < len(versions) else None
        changes = _changes_until(history, version, following, time)
    branch = BranchLoop(history, branches, None, version.iteration)
    answer = _answer(branch, changes)
    answer.statistics["event_time" if changes is not None else "time"] = time
    return answer


def _answer(branch: BranchLoop, changes: Changes | None = None) -> Result:
    """The answer of a branch, of which nothing stays in the store but for that."""
    try:
        if changes is not None and len(changes):
            branch.apply(changes)
        return branch.result()
    finally:
        branch.close(forget=True)


def _moment(manifest: Manifest) -> float:
    """The event time of a version of a loop with a window; else when it was committed."""
    window = Ledger.read(manifest).window
    if window is None:
        return manifest.created
    return -math.inf if window["clock"] is None else float(window["clock"])


def _written(time: float) -> str:
    try:
        return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%S} ({time:.15g})"
    except (OverflowError, ValueError, OSError):
        return f"{time:.15g}"


def _changes_until(
    history: LoopHistory, version: Manifest, following: Manifest | None, time: float
) -> Changes:
    """The changes from a version to a time: events of the next batch, and edges that expire."""
    ledger, store = Ledger.read(version), history.store
    window = ledger.window
    assert window is not None
    times = EdgeTimes.of_version(
        store, version, integers=history.integers, value=history.value,
        undirected=ledger.undirected,
    )  # fmt: skip
    clock = -math.inf if window["clock"] is None else window["clock"]
    batches = []
    if following is not None:
        events = _events_until(history, version, following, time)
        if events is not None and len(events):
            windowed = times.take(events, clock, window["length"])
            batches.append(windowed.changes)
            clock = windowed.clock
    batches.append(times.advance(max(time, clock), window["length"]).changes)
    return replace(concatenate(batches), time=np.empty(0))


def _events_until(
    history: LoopHistory, version: Manifest, following: Manifest, time: float
) -> Changes | None:
    """The events of the batch that made the following version, up to a time; None without one."""
    before, after = Ledger.read(version), Ledger.read(following)
    if after.received == before.received:  # time went on, and no edge expired
        return None
    logged = ChangeLog.replay(history.store, following, sent=False, undirected=before.undirected)
    batch = concatenate([*logged])
    skipped = max(len(batch) - (after.received - before.received), 0)
    times = batch.time[skipped:]
    at = skipped + np.flatnonzero(times <= time)  # NaN: an edge expired, which recurs
    rows = pa.array(at)
    return Changes(
        batch.kind[at], batch.source.take(rows), batch.target.take(rows), batch.value[at],
        time=batch.time[at],
    )  # fmt: skip


def require_one(version: int | None, time: object) -> None:
    """Raise InputError unless exactly one of them is given."""
    if (version is None) == (time is None):
        raise InputError("at() takes a version or time=, one of them")
