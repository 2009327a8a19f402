"""When a run's partitions take snapshots: between commands, which is between two supersteps."""

from __future__ import annotations

import time
from dataclasses import replace

from vertexsdk.engine.engine import RunSnapshots, WorkDone
from vertexsdk.engine.loop._commands import LoopCommand, LoopReport
from vertexsdk.engine.snapshots import SnapshotPart, SnapshotRequest

_LOOK = 0.1  # seconds of a command while a snapshot is being stored, so that it is committed soon


class SnapshotSchedule:
    """The snapshots of one run: one is taken when it is due and the one before is stored.

    Args:
        snapshots: when they are due, and who takes them.
        partitions: of the run.
        work: that was done before.
        waits: a command ends when its snapshot is stored, as tasks do not stay.
    """

    def __init__(
        self, snapshots: RunSnapshots, partitions: int, work: WorkDone, *, waits: bool
    ) -> None:
        self._snapshots, self._partitions, self._waits = snapshots, partitions, waits
        self._iteration, self._time = work.iterations, time.perf_counter()  # of the last one
        self._number = 0
        self._cut: WorkDone | None = None  # until the one that is being stored
        self._parts: list[SnapshotPart] = []  # of it

    def planned(self, command: LoopCommand, work: WorkDone) -> LoopCommand:
        """Return a command with a snapshot if one is due, that ends when the next one is.

        Args:
            work: done so far.
        """
        if self._cut is None and self._left(work) == (0, 0.0):
            self._number += 1
            self._cut, self._parts = replace(work), []
            self._iteration, self._time = work.iterations, time.perf_counter()
            request = SnapshotRequest(self._number, whole=True, waits=self._waits)
            command = replace(command, snapshot=request)
        if self._cut is not None:
            return replace(command, seconds=min(command.seconds, _LOOK))
        iterations, seconds = self._left(work)
        if self._snapshots.iterations is None:
            return replace(command, seconds=min(command.seconds, seconds))
        most = command.iterations
        return replace(command, iterations=iterations if most is None else min(iterations, most))

    def _left(self, work: WorkDone) -> tuple[int, float]:
        """How many iterations, and seconds, there are until a snapshot is due."""
        every = self._snapshots
        done = work.iterations - self._iteration
        iterations = 1 if every.iterations is None else every.iterations
        seconds = 0.0
        if every.seconds is not None:
            seconds = max(self._time + every.seconds - time.perf_counter(), 0.0)
        return max(iterations - done, 0), seconds

    def take(self, report: LoopReport) -> None:
        """Take in what a command reports; hand on a snapshot that is stored."""
        if self._cut is None:
            return
        self._cut.add(report.cut)
        self._parts += [part for part in report.snapshots if part.number == self._number]
        if len(self._parts) < self._partitions:
            return
        segments = [ref for part in self._parts for ref in part.segments]
        failure = next((part.failure for part in self._parts if part.failure), None)
        if failure is not None:
            self._snapshots.drop(segments, failure)
        elif not report.work.quiet:
            self._snapshots.add(self._cut, segments)
        else:
            self._snapshots.drop(segments, "")
        self._cut, self._parts = None, []

    def end(self) -> None:
        """Drop what is stored of a snapshot that is not complete."""
        if self._parts:
            self._snapshots.drop([ref for part in self._parts for ref in part.segments], "")
