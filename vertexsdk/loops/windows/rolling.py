"""Exact answers, one per step of event time, while a stream of changes with times is ingested."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError
from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.graph.changes.change_files import ChangeFiles
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.changes.deltas import Deltas
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.load.tables import is_table
from vertexsdk.loops.result import Result
from vertexsdk.loops.streams.intake import ChangeSink, StreamIntake
from vertexsdk.loops.windows.durations import times_of


class RollingLoop(ChangeSink, Protocol):
    """The part of `MainLoop` that is needed here."""

    @property
    def event_time(self) -> float | None:
        """See `MainLoop.event_time`."""

    def advance(self, time: float) -> int:
        """See `MainLoop.advance`."""

    def query(self) -> Result:
        """See `MainLoop.query`."""


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
    """Yield answers; see `MainLoop.rolling`."""
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
                yield _answer(main, steps)
                pending = False
    if pending:
        yield _answer(main, steps)


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
            yield _answer(main, steps)
            pending = False
    if pending:
        yield _answer(main, steps)


def _within_step(main: RollingLoop, steps: _Steps, times: NDArray[np.float64]) -> int:
    """How many changes come before the first that is after the step."""
    clock = main.event_time
    steps.begin(float(times[0]) if clock is None else clock)
    after = times > steps.due
    return int(np.argmax(after)) if after.any() else len(times)


def _answer(main: RollingLoop, steps: _Steps) -> tuple[float, Result]:
    time = steps.due
    if main.windowed:
        main.advance(time)
    steps.advance()
    answer = main.query()
    answer.statistics["event_time"] = time
    return time, answer
