"""The wall time of a run, phase by phase, so that the phases add up to the whole.

Of the tasks of a hop, which run side by side, the one that ended last is followed: the time until
it began, what it did, and the time until the driver had its report.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence

from vertexsdk.transport.task_times import HopTimes

PHASES = {
    "load": "the graph is read, and placed in the workers' memory; nothing if it was there",
    "compile": "kernels are compiled, or found again",
    "claim": "the store is opened, and the loop claimed in it",
    "prepare": "the driver makes a hop's job ready",
    "schedule": "Spark: from the job's submission to the call of its slowest task's function",
    "start": "a Python worker is started, and imports what it needs",
    "decode": "the task reads its input: the command, and messages of other partitions",
    "open": "the task finds its partition's arrays, or makes them",
    "changes": "changes of the graph are taken in, by a main loop",
    "kernel": "iterations",
    "encode": "messages to other partitions, and the report, are put into bytes",
    "save": "the partition's state is kept for the next hop",
    "commit": "segments are written, then the version",
    "results": "from the slowest task's end until the driver has all reports",
    "driver": "the driver decides about the next hop, and ends the run",
}


class PhaseTimer:
    """Seconds by phase; `rest` is what remains of the whole."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.elsewhere = 0.0  # seconds of iterating that are not the driver's own

    def add(self, phase: str, seconds: float) -> None:
        """Add to a phase."""
        self.seconds[phase] += max(seconds, 0.0)

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add what the block takes; the time of a commit is not the driver's."""
        began = time.perf_counter()
        yield
        passed = time.perf_counter() - began
        self.add(phase, passed)
        self.elsewhere += passed if phase == "commit" else 0.0

    def driver(self, seconds: float) -> None:
        """Add what remains of iterating, which took so long, beside hops and commits."""
        self.add("driver", seconds - self.elsewhere)
        self.elsewhere = 0.0

    def hop(self, times: HopTimes, tasks: Sequence[Mapping[str, float]]) -> None:
        """Add one hop, along its slowest task; `tasks` has each task's own seconds by phase."""
        k = times.slowest
        task, inside = times.stamps[k], tasks[k]
        self.elsewhere += times.ended - times.began
        self.add("prepare", times.submitted - times.began)
        began = min(max(task.began, times.submitted), times.ended)
        ended = min(max(task.ended, began), times.ended)
        born = max(task.born, times.submitted) if task.born else began
        started = max(began - born, 0.0)
        self.add("start", started + task.imported)
        self.add("schedule", began - times.submitted - started)
        self.add("results", times.ended - ended)
        received = inside.get("receive", 0.0)
        reading = task.decoded - task.began
        imported = min(task.imported, reading)  # the rest was after the task
        decode = reading - imported + received
        kernel = inside.get("kernel", 0.0) - received
        parts = {
            "decode": decode, "open": inside.get("load", 0.0), "kernel": kernel,
            "changes": inside.get("changes", 0.0), "save": inside.get("save", 0.0),
            "commit": inside.get("commit", 0.0),
        }  # fmt: skip
        for phase, seconds in parts.items():
            self.add(phase, seconds)
        self.add("encode", ended - began - task.imported - sum(parts.values()))

    def complete(self, total: float) -> dict[str, float]:
        """Every phase, and the `rest`, of a run of `total` seconds."""
        known = sum(self.seconds.values())
        return {**self.seconds, "rest": max(total - known, 0.0)}
