"""When a run's partitions take snapshots: between commands, which is between two supersteps."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from vertexsdk.engine.commands import LoopCommand, LoopReport, RunSnapshots, WorkDone
from vertexsdk.engine.snapshots import SnapshotPart, SnapshotRequest
from vertexsdk.state import SegmentRef

_LOOK = 0.1  # seconds of a command while a snapshot is being stored, so that it is committed soon


class SnapshotSchedule:
    """The snapshots of one run: one is taken when it is due and the one before is stored.

    Args:
        snapshots: when they are due, and who takes them.
        partitions: of the run.
        parts: what partitions have stored, by the number of the snapshot; see `LoopEngine`.
        work: that was done before.
        waits: a command ends when its snapshot is stored, as tasks do not stay.
    """

    def __init__(
        self,
        snapshots: RunSnapshots,
        partitions: int,
        parts: dict[int, list[SnapshotPart]],
        work: WorkDone,
        *,
        waits: bool,
    ) -> None:
        self._snapshots, self._partitions, self._waits = snapshots, partitions, waits
        self._parts = parts
        self._iteration, self._time = work.iterations, time.perf_counter()  # of the last one
        self._number = 0
        self._cut: WorkDone | None = None  # until the one that is being stored

    def planned(self, command: LoopCommand, work: WorkDone) -> LoopCommand:
        """Return a command with a snapshot if one is due, that ends when the next one is.

        Args:
            work: done so far.
        """
        every, seconds = self._snapshots, math.inf
        done = work.iterations - self._iteration
        if every.seconds is not None:
            seconds = max(self._time + every.seconds - time.perf_counter(), 0.0)
        due = seconds == 0 if every.iterations is None else done >= every.iterations
        if due and done and self._cut is None:
            self._number += 1
            self._cut = replace(work)
            self._iteration, self._time, done = work.iterations, time.perf_counter(), 0
            request = SnapshotRequest(self._number, whole=True, waits=self._waits)
            command = replace(command, snapshot=request)
        if self._cut is not None:
            seconds = _LOOK
        if every.iterations is not None:
            most = every.iterations - done if done < every.iterations else every.iterations
            most = most if command.iterations is None else min(most, command.iterations)
            command = replace(command, iterations=most)
        return replace(command, seconds=min(command.seconds, seconds))

    def take(self, report: LoopReport) -> None:
        """Take in what a command reports; hand on a snapshot that is stored."""
        if self._cut is None:
            return
        self._cut.add(report.cut)
        parts = self._parts.get(self._number, [])
        if len(parts) < self._partitions:
            return
        failure = next((part.failure for part in parts if part.failure), None)
        if failure is None and not report.work.quiet:
            del self._parts[self._number]
            self._snapshots.add(self._cut, _segments(parts))
        else:
            self._drop(failure or "")
        self._cut = None

    def end(self) -> None:
        """Drop what is stored of a snapshot that is not complete."""
        self._drop("")

    def _drop(self, why: str) -> None:
        segments = _segments(self._parts.pop(self._number, []))
        if segments or why:
            self._snapshots.drop(segments, why)


def _segments(parts: list[SnapshotPart]) -> list[SegmentRef]:
    return [ref for part in parts for ref in part.segments]
