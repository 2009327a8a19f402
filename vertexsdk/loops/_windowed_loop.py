"""The methods of a main loop about event time."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.errors import InputError
from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.graph.changes.change_files import ChangeFiles
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.changes.deltas import Deltas
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.load.tables import is_table
from vertexsdk.loops._diff import ReadableLoop
from vertexsdk.loops.branch_loop import BranchLoop, OpenBranches
from vertexsdk.loops.change_log import ChangeLog, concatenate
from vertexsdk.loops.durations import seconds_of, time_of, times_of
from vertexsdk.loops.edge_times import EdgeTimes
from vertexsdk.loops.history import LoopHistory
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.result import Result
from vertexsdk.loops.streams.intake import ChangeSink, StreamIntake
from vertexsdk.loops.window import advance, set_window
from vertexsdk.state import Manifest
from vertexsdk.state.errors import StateInputError


class WindowedLoop(ReadableLoop):
    """The methods of `MainLoop` about event time."""

    _history: LoopHistory
    _branches: OpenBranches

    @property
    def windowed(self) -> bool:
        """True if the loop has a `window`."""
        return self._history.ledger.window is not None

    @property
    def event_time(self) -> float | None:
        """The newest time of a change, in seconds; None before the first, or without a window."""
        window = self._history.ledger.window
        return None if window is None else window["clock"]

    def window(self, length: str | float | timedelta) -> Self:
        """Have edges expire: keep those whose newest change is younger than `length`.

        Age is in event time: relative to the newest time of any change so far. From here on every
        change needs its time (`ingest`). A change that is as old as the window or older is
        `late` and ignored; one that is older than the newest change of its edge is `overtaken` and
        ignored. Edges that no change with a time has named do not expire. The window is part of the
        loop's versions: `resume` continues with it.

        Args:
            length: "7d", "12h", "30m", "10s", a timedelta, or a number in the unit of the times.
                Another length than before holds from now on.

        Returns:
            This loop.

        Raises:
            InputError: it is not a length of time.

        Example:
            >>> from vertexsdk import Graph, MainLoop
            >>> from vertexsdk.algorithms import ConnectedComponents
            >>> options = {"backend": "memory://window", "loop": "window"}
            >>> main = MainLoop(ConnectedComponents, Graph.empty(), **options).window("7d")
            >>> day = 86400
            >>> _ = main.ingest([("+", 1, 2), ("+", 2, 3)], time=[0 * day, 4 * day])
            >>> _ = main.ingest([("+", 5, 6)], time=8 * day)
            >>> main.query().to_dict()
            {2: 2, 3: 2, 5: 5, 6: 5}
            >>> main.close()
        """
        set_window(self._history, seconds_of(length))
        return self

    def advance(self, time: str | float | datetime) -> int:
        """Move event time on although no change comes, so that edges expire.

        Args:
            time: seconds, a datetime or an ISO 8601 string; one that is past does nothing.

        Returns:
            How many edges expired.

        Raises:
            InputError: the loop has no window, or it is not a time.
        """
        with self._history.config.turns.ingest():
            return advance(self._history, time_of(time))

    def at(
        self, version: int | None = None, *, time: str | float | datetime | None = None
    ) -> Result:
        """Return the exact answer for the graph as it was.

        The answer is computed from `init`, in a branch; the newest `retain` versions can be asked.

        Args:
            version: as `iteration` gives it; the newest before it, if there is none.
            time: seconds, a datetime or an ISO 8601 string. With a `window` it is event time: of
                the batch in which that time lies, the changes up to then count, and edges have
                expired as they had by then; a time to come is that of a stream which is silent
                until then. Without a window it is when versions were committed.

        Returns:
            The answer, for the caller to close.

        Raises:
            StateInputError: the version is not in the store any more.
            InputError: both or neither were given.

        Example:
            >>> from vertexsdk import Graph, MainLoop
            >>> from vertexsdk.algorithms import ConnectedComponents
            >>> graph = Graph.from_arrays([1], [2])
            >>> main = MainLoop(ConnectedComponents, graph, backend="memory://at")
            >>> before = main.iteration
            >>> _ = main.ingest([("+", 2, 3)])
            >>> main.at(before).to_dict(), main.query().to_dict()
            ({1: 1, 2: 1}, {1: 1, 2: 1, 3: 1})
            >>> main.close()
        """
        require_one(version, time)
        with self._history.counters.doing("fork"):
            if version is not None:
                return answer_at_version(self._history, self._branches, version)
            assert time is not None
            return answer_at_time(self._history, self._branches, time_of(time))

    def rolling(
        self: RollingLoop,
        step: str | float | timedelta,
        changes: Any,
        *,
        time: Any = None,
        time_column: int | None = None,
    ) -> Iterator[tuple[float, Result]]:
        """Ingest changes with times, and iterate over the exact answers after each step of time.

        Answers are of the multiples of `step` (with "1d": midnight, UTC), up to the step in which
        the changes end; each is of the changes up to and including its time. A change that comes
        after the answer of its step counts from the next one on.

        Args:
            step: "1d", "6h", "10s", a timedelta, or a number in the unit of the times.
            changes: change files, directories or globs; a batch as `ingest` takes it; or an
                iterator of `Changes` that have times.
            time: those of a batch, as for `ingest`.
            time_column: the number of the field with the time in files, from 1.

        Yields:
            The time, in seconds, and the answer, for the caller to close.

        Raises:
            InputError: changes without times, or as for `ingest`.

        Example:
            >>> from vertexsdk import Graph, MainLoop
            >>> from vertexsdk.algorithms import ConnectedComponents
            >>> options = {"backend": "memory://rolling", "loop": "rolling"}
            >>> main = MainLoop(ConnectedComponents, Graph.empty(), **options).window(2)
            >>> changes = [("+", 1, 2), ("+", 2, 3), ("+", 5, 6)]
            >>> for time, answer in main.rolling(1, changes, time=[1, 2, 3]):
            ...     print(time, answer.to_dict())
            1.0 {1: 1, 2: 1}
            2.0 {1: 1, 2: 1, 3: 1}
            3.0 {2: 2, 3: 2, 5: 5, 6: 5}
            >>> main.close()
        """
        return rolling_answers(self, seconds_of(step), changes, time, time_column)


def answer_at_version(history: LoopHistory, branches: OpenBranches, version: int) -> Result:
    """Return the exact answer for the graph of a version, or of the newest before it."""
    return _answer(BranchLoop(history, branches, None, version))


def answer_at_time(history: LoopHistory, branches: OpenBranches, time: float) -> Result:
    """Return the exact answer as of a time."""
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
    older, newer = Ledger.read(version), Ledger.read(following)
    if newer.received == older.received:  # time advanced, and no edge expired
        return None
    logged = ChangeLog.replay(
        history.store, following, include_sent=False, undirected=older.undirected
    )
    batch = concatenate([*logged])
    skipped = max(len(batch) - (newer.received - older.received), 0)
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


class RollingLoop(ChangeSink, Protocol):
    """The part of `MainLoop` that is needed here."""

    @property
    def event_time(self) -> float | None:
        """The newest time of a change, in seconds; None before the first."""

    def advance(self, time: float) -> int:
        """Move event time on; return how many edges expired."""

    def query(self) -> Result:
        """Return the exact answer for this instant."""


@dataclass
class _Steps:
    """The times at which answers are due: multiples of `length`, from the `number`-th on."""

    length: float
    number: int | None = None

    def begin(self, time: float) -> None:
        """Let the first be at a time, or after it."""
        if self.number is None:
            self.number = math.ceil(time / self.length)

    @property
    def due(self) -> float:
        """The next of them."""
        assert self.number is not None
        return self.number * self.length

    def advance(self) -> None:
        assert self.number is not None
        self.number += 1


def rolling_answers(
    main: RollingLoop, step: float, changes: Any, time: Any = None, time_column: int | None = None
) -> Iterator[tuple[float, Result]]:
    """Yield the time and the answer of each step."""
    if _are_paths(changes):
        if not time_column:
            raise InputError("rolling() of files needs time_column=, the number of a field, from 1")
        paths = [changes] if isinstance(changes, (str, os.PathLike)) else changes
        form = LineFormat(main.integers, main.value, time_column)
        files = ChangeFiles([os.fspath(p) for p in paths], form, after=main.offsets)
        return _of_files(main, _Steps(step), files)
    if isinstance(changes, Iterator):
        return _of_batches(main, _Steps(step), changes)
    return _of_batches(main, _Steps(step), iter([timed(changes, time, main.value)]))


def timed(changes: Any, time: Any, value: str | None) -> Changes:
    """Return changes with their times, those of `time` if given; `value` as of `cast_changes`."""
    if is_table(changes):
        return Changes.from_dataframe(changes, value, time)
    batch = changes if isinstance(changes, Changes) else Deltas.mixed(changes)
    if time is None:
        return batch
    return Changes(
        batch.kind, batch.source, batch.target, batch.value, batch.places,
        times_of(time, len(batch.kind)),
    )  # fmt: skip


def _are_paths(changes: Any) -> bool:
    if isinstance(changes, (str, os.PathLike)):
        return True
    return (
        isinstance(changes, Sequence)
        and len(changes) > 0
        and all(isinstance(c, (str, os.PathLike)) for c in changes)
    )


def _of_batches(
    main: RollingLoop, steps: _Steps, batches: Iterator[Changes]
) -> Iterator[tuple[float, Result]]:
    pending = False
    for batch in batches:
        if len(batch) and len(batch.time) != len(batch):
            raise InputError("rolling() needs the time of each change: give time=")
        rest = batch
        while len(rest):
            count = _within_step(main, steps, rest.time)
            if count:
                main.ingest(rest[:count])
                pending, rest = True, rest[count:]
            if len(rest):
                yield _step_answer(main, steps)
                pending = False
    if pending:
        yield _step_answer(main, steps)


def _of_files(
    main: RollingLoop, steps: _Steps, files: ChangeFiles
) -> Iterator[tuple[float, Result]]:
    intake, pending = StreamIntake(main), False
    for batch in files:
        rest: ChangeBatch | None = batch
        while rest is not None:
            count = _within_step(main, steps, rest.changes.time) if len(rest) else 0
            if count == len(rest):  # perhaps none: bad lines are counted
                intake.take(rest)
                pending, rest = pending or count > 0, None
                continue
            if count:
                first, rest = rest.cut(count)
                intake.take(first)
            yield _step_answer(main, steps)
            pending = False
    if pending:
        yield _step_answer(main, steps)


def _within_step(main: RollingLoop, steps: _Steps, times: NDArray[np.float64]) -> int:
    """Count the changes before the first that is after the step."""
    clock = main.event_time
    steps.begin(float(times[0]) if clock is None else clock)
    after = times > steps.due
    return int(np.argmax(after)) if after.any() else len(times)


def _step_answer(main: RollingLoop, steps: _Steps) -> tuple[float, Result]:
    time = steps.due
    if main.windowed:
        main.advance(time)
    steps.advance()
    answer = main.query()
    answer.statistics["event_time"] = time
    return time, answer
