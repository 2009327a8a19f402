"""The iterations of one partition, in step with the others, which all decide alike when to end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from vertexsdk.engine._master import IterationStats, Master
from vertexsdk.engine.bounded._auto_bound import BoundChoice
from vertexsdk.engine.bounded._rounds import Rounds, end_block
from vertexsdk.engine.bounded._sweeps import SweepReport, Sweeps
from vertexsdk.engine.engine import WorkDone
from vertexsdk.engine.supersteps import Steps, SuperstepEnd, end_superstep
from vertexsdk.engine.task import step_partition, sweep_partition
from vertexsdk.errors import VertexError
from vertexsdk.program.analysis.delay_bound import by_blocks
from vertexsdk.transport.transport import Blocks


@dataclass(slots=True)
class _SweepsEnd(SuperstepEnd):
    """The end of a partition's sweeps, see `Sweeps`."""

    history: list[IterationStats] = field(default_factory=list)
    swept: SweepReport = field(default_factory=SweepReport)


class Iterations:
    """A run from `init`, which commands take further.

    Args:
        processor: the partition, a `Processor` or `EventPartition`.
        master: of the run; every partition has one, and all are told the same.
        choice: the delay bound.
    """

    def __init__(self, processor: Any, master: Master, choice: BoundChoice) -> None:
        self.processor, self.master, self.choice = processor, master, choice
        self.plan = processor.plan
        self.alone = len(self.plan.topologies) == 1
        self._rounds: Rounds | None = None
        self._received: Blocks = []
        self.statistics: dict[str, Any] = {}

    @property
    def iterations(self) -> int:
        """How many there were, after iteration 0."""
        return max(self.master.iteration - 1, 0)

    def run(self, work: WorkDone, seconds: float, most: int | None) -> Steps[VertexError | None]:
        """Iterate until the run ends, for some seconds, or so many iterations.

        Args:
            work: takes what the iterations of this partition do.
            seconds: after which no further iteration starts, on the clock of partition 0.
            most: iterations, beside iteration 0; None is no limit.

        Returns:
            Why an iteration failed, if one did.
        """
        master, until = self.master, time.monotonic() + seconds
        last = None if most is None else self.iterations + most
        while master.reason is None and (last is None or master.iteration <= last):
            bounded = self.choice.bound > 1 and master.iteration > 0
            step = self._sweeps if bounded else self._superstep
            end = yield from step(work, until)
            if end.failure is not None:
                return end.failure
            if end.late:
                break
        return None

    def deliver(self) -> None:
        """Have the processor take in what was sent to it last."""
        received, self._received = self._received, []
        if received:
            self.processor.receive(received)

    def _superstep(self, work: WorkDone, until: float) -> Steps[SuperstepEnd]:
        """Run one iteration of all partitions."""
        processor, master = self.processor, self.master
        self.deliver()
        end = step_partition(self.plan, processor, master)
        end.late = time.monotonic() > until
        blocks = [] if self.alone or end.failure is not None else processor.blocks()
        self._received, ends = yield from end_superstep(blocks, end, self.alone)
        if (failed := _failure(ends)) is not None:
            return failed
        work.add(end.progress)
        master.advance(master.total(e.progress for e in ends))
        processor.set_vertices(sum(e.vertices for e in ends))
        return ends[0]

    def _sweeps(self, work: WorkDone, until: float) -> Steps[SuperstepEnd]:
        """Make sweeps of this partition alone, then exchange; see `Rounds`."""
        processor, master = self.processor, self.master
        count, blocks = len(self.plan.topologies), by_blocks(self.plan.program)
        if self._rounds is None:
            bound, limit = self.choice.bound, master.max_iterations
            self._rounds = Rounds(count, bound, limit, master.iteration)
        (frontier, room), *_ = [self._rounds.start(p) for p in range(count)]
        processor.reading = master.aggregates
        end, sent = _SweepsEnd(), Blocks()
        left = max(until - time.monotonic(), 0.0)
        sweeps = Sweeps(processor, frontier, room, left, self.choice.patient)
        try:
            end.swept, sent = sweep_partition(
                self.plan, sweeps, self._received, end.history, in_blocks=blocks
            )
        except VertexError as error:
            end.failure = error
        end.late = time.monotonic() > until
        self._received, ends = yield from end_superstep(sent, end, False)
        if (failed := _failure(ends)) is not None:
            return failed
        for p, other in enumerate(ends):
            self._rounds.finish(p, other.swept)
        for progress in end.history:
            work.add(progress)
        if blocks:
            end_block(master, ends, self._rounds.iteration)
        if master.reason is None:
            master.iteration, master.reason = self._rounds.iteration + 1, self._rounds.reason
        self.statistics = self._rounds.statistics()
        return ends[0]


def _failure(ends: list[Any]) -> SuperstepEnd | None:
    return next((end for end in ends if end.failure is not None), None)
