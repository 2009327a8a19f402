"""What a run has done so far: the statistics which it commits, shows and returns."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vertexsdk.engine.engine import WorkDone
from vertexsdk.engine.phases import PhaseTimer
from vertexsdk.engine.task import RunReport
from vertexsdk.state import SegmentRef

_PHASES = ("kernel", "save", "commit")


@dataclass(frozen=True, slots=True)
class PendingVersion:
    """What the tasks wrote of one iteration, and what is remembered with it."""

    iteration: int
    segments: list[SegmentRef]
    aggregates: dict[str, Any]
    statistics: dict[str, Any]


class RunStatistics:
    """Sums over the reports of all hops.

    Attributes:
        statistics: under the names of the command line's `--stats`.
        work: that all iterations did; of asynchronous hops each counts as one.
        vertices: how many the graph has now.
        last_bytes: that the hop before sent between partitions.
        spent: where the wall time went.
        attempts: by partition, the attempt of the segment that was written last.
    """

    def __init__(self, result: str, vertices: int, partitions: int, spent: PhaseTimer) -> None:
        self.statistics: dict[str, Any] = {
            "iterations": 0, "hops": 0, "updates": 0, "prepares": 0, "acknowledges": 0,
            "messages": 0, "bytes": 0, "seconds": 0.0, "result": result,
        }  # fmt: skip
        self.spent, self.work = spent, WorkDone()
        self.vertices, self.hops, self.last_bytes = vertices, 0, 0
        self.attempts: list[str | None] = [None] * partitions
        self.phases = dict.fromkeys(_PHASES, 0.0)
        self.memory = self.written = 0
        self._counts = [0] * partitions
        self.began = time.perf_counter()

    def take(self, reports: Iterable[RunReport]) -> None:
        """Take in the reports of one hop, of all partitions or of some."""
        self.last_bytes = 0
        for r in reports:
            self._counts[r.partition] = r.vertices
            self.last_bytes += r.bytes
            self.memory = max(self.memory, r.memory)
            for name in _PHASES:
                self.phases[name] += r.seconds.get(name, 0.0) / len(self.attempts)
        self.statistics["bytes"] += self.last_bytes
        self.vertices = sum(self._counts)

    def version(
        self,
        iteration: int,
        reports: Iterable[RunReport],
        reason: str | None,
        aggregates: Mapping[str, Any],
    ) -> PendingVersion:
        """The version of an iteration which these reports have the segments of."""
        self.statistics |= {
            "iterations": iteration, "hops": self.hops, "updates": self.work.updates,
            "messages": self.work.messages, "num_vertices": self.vertices,
            "reason": reason, "seconds": time.perf_counter() - self.began,
        }  # fmt: skip
        segments = [ref for r in reports if (ref := r.segments[iteration])]
        for ref in segments:
            self.attempts[ref.key.partition] = ref.key.attempt
            self.written += ref.bytes
        return PendingVersion(iteration, segments, dict(aggregates), dict(self.statistics))
