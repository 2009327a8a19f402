"""The iterations of one partition, in step with the others, which all decide alike when to end."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile.interpreter import user_error
from vertexsdk.compile.plan import Plan
from vertexsdk.engine.auto_bound import BoundChoice
from vertexsdk.engine.commands import WorkDone
from vertexsdk.engine.master import IterationStats, Master, combine_aggregates
from vertexsdk.engine.pace import Pace, bounded_statistics, decoded, encoded
from vertexsdk.engine.supersteps import RunPosition, Steps, SuperstepEnd, end_superstep
from vertexsdk.engine.sweeps import SweepReport, Sweeps
from vertexsdk.errors import RunError, VertexError, typed_line
from vertexsdk.program.algebra import Algebra
from vertexsdk.program.analysis.delay_bound import by_blocks
from vertexsdk.program.program import declaration_line, new_driver
from vertexsdk.program.vertex import Aggregates
from vertexsdk.transport.transport import POSTS, Blocks

_STEP = 0.001  # seconds of sweeps between looks at what others have posted


def make_master(plan: Plan, num_vertices: int) -> Master:
    """Return the state machine of the plan's loop."""
    driver = new_driver(plan.program.classes[0], plan.params, num_vertices)

    def converged(iteration: int, aggregates: Any) -> bool:
        try:
            return bool(driver.converged(iteration, Aggregates(dict(aggregates))))
        except Exception as error:
            spec = plan.program.classes[0]
            raise user_error(spec, "converged", error, None, iteration) from error

    algebras: dict[str, Algebra] = dict(plan.program.aggregators)
    # Before iteration 0 partitions send each other the rows that methods read.
    first = -1 if plan.reaches and len(plan.topologies) > 1 else 0
    return Master(algebras, plan.always, plan.max_iterations, converged, first, rounds=plan.rounds)


@contextlib.contextmanager
def combining(plan: Plan) -> Iterator[None]:
    """Say whose function has failed, if one that combines messages raises.

    Raises:
        RunError: in place of what it raises.
    """
    try:
        yield
    except VertexError:
        raise
    except Exception as error:
        spec, algebra = plan.program.classes[0], plan.program.algebra
        if algebra is None or algebra.kind != "user":
            raise
        raise RunError(
            f"{spec.file}:{declaration_line(spec, 'messages')}: {spec.name}: the function that "
            f"combines messages: {typed_line(error)}"
        ) from error


def step_partition(plan: Plan, processor: Any, master: Master) -> SuperstepEnd:
    """Run the master's next iteration on a partition; return what it tells the others."""
    end = SuperstepEnd()
    try:
        with combining(plan):
            begins = (master.round,) if master.begins else ()
            end.progress = processor.step(master.iteration, master.aggregates, *begins)
        end.vertices = processor.count
    except VertexError as error:
        end.failure = error
    return end


def sweep_block(
    plan: Plan, sweeps: Sweeps, blocks: Blocks, history: list[IterationStats]
) -> tuple[SweepReport, Blocks]:
    """Take in blocks and make a block of sweeps; return what was done, and the blocks for others.

    Args:
        history: takes the progress of each sweep.
    """
    with combining(plan):
        sweeps.receive(decoded(blocks))
        swept = sweeps.run_block(lambda _, progress: history.append(progress))
        return swept, encoded(sweeps.outgoing())


@dataclass(slots=True)
class _BlockEnd(SuperstepEnd):
    """The end of a partition's block of sweeps (`Sweeps.run_block`)."""

    history: list[IterationStats] = field(default_factory=list)
    swept: SweepReport = field(default_factory=SweepReport)
    bytes: int = 0  # of the blocks for other partitions


@dataclass(slots=True)
class _PaceEnd(SuperstepEnd):
    """The end of a partition's iterations at its own pace.

    Attributes:
        clock: the last iteration in which one of its vertices has committed.
        counts, delays: those of its `Pace`.
        tau, reason, announced: those of partition 0, for all: the first iteration that has not
            terminated, why the run is over, and the frontiers that were announced.
    """

    clock: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    delays: NDArray[np.int64] = field(default_factory=lambda: np.zeros(32, np.int64))
    tau: int = 0
    reason: str | None = None
    announced: list[int] = field(default_factory=list)


def end_block(master: Master, reports: list[Any], iteration: int) -> None:
    """Take in a block of sweeps of all partitions.

    The rule of convergence sees the first sweep, which is as a synchronous iteration is;
    aggregators read the last one.
    """
    reading: dict[str, Any] = master.identity()
    for report in reports:
        reading = combine_aggregates(reading, report.swept.reading, master.algebras)
    master.advance(master.total(report.history[0] for report in reports))
    master.aggregates, master.iteration = reading, iteration + 1


class Iterations:
    """A run from `init`, which commands take further.

    Attributes:
        after_each: called when an iteration has ended, with the last one that has terminated.

    Args:
        processor: the partition, a `Processor` or `EventPartition`.
        master: master of the run; every partition has one, and all are told the same.
        choice: the delay bound.
    """

    def __init__(self, processor: Any, master: Master, choice: BoundChoice) -> None:
        self.processor, self.master, self.choice = processor, master, choice
        self.plan = processor.plan
        self.alone = len(self.plan.topologies) == 1
        self._received: Blocks = []
        self._vertices = 0  # of the graph
        self._tau: int | None = None  # of bounded iterations, once there were some
        self._counts: Counter[str] = Counter()  # of bounded iterations, of all partitions
        self._delays = np.zeros(32, np.int64)
        self.after_each: Callable[[int], None] = lambda _: None
        self.statistics: dict[str, Any] = {}

    @property
    def vertices(self) -> int:
        """The number of vertices of the graph."""
        return self._vertices

    @property
    def iterations(self) -> int:
        """The number of iterations after iteration 0."""
        return max(self.master.iteration - 1, 0)

    def run(self, work: WorkDone, seconds: float, most: int | None) -> Steps[VertexError | None]:
        """Iterate until the run ends, for some seconds, or so many iterations.

        Args:
            work: takes what the iterations of this partition do.
            seconds: seconds after which no further iteration starts, on the clock of partition 0.
            most: iterations, beside iteration 0; None for no limit.

        Returns:
            Why an iteration failed, if one did.
        """
        master, until = self.master, time.monotonic() + seconds
        last = None if most is None else self.iterations + most
        while master.reason is None and (last is None or master.iteration <= last):
            if self.choice.bound == 1 or master.iteration <= 0:
                end = yield from self._superstep(work, until)
            elif by_blocks(self.plan.program):
                end = yield from self._block(work, until)
            else:
                end = yield from self._own_pace(work, until, last)
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

    def superstep(self, work: WorkDone) -> Steps[SuperstepEnd]:
        """Run this partition's next iteration; what it sends is for the next task of each.

        Returns:
            What it tells the others; the next task takes them all in (`resume`).
        """
        end, blocks = self._compute(work, math.inf)
        yield from blocks
        return end

    @property
    def position(self) -> RunPosition:
        """The position of the run, from which the next task of each partition continues."""
        master = self.master
        return RunPosition(
            master.iteration, dict(master.aggregates), self._vertices, master.round, master.begins
        )

    def resume(self, position: RunPosition, received: Blocks, work: WorkDone) -> None:
        """Continue in another task, and perhaps another process, than the superstep before."""
        master = self.master
        master.iteration, master.aggregates = position.iteration, dict(position.aggregates)
        master.round, master.begins = position.round, position.begins
        self._set_vertices(position.vertices)
        if position.ends:
            self._conclude(received, list(position.ends), work)

    def _superstep(self, work: WorkDone, until: float) -> Steps[SuperstepEnd]:
        """Run one iteration of all partitions."""
        end, blocks = self._compute(work, until)
        received, ends = Blocks(), [end]
        if self.plan.resident or not self.alone:
            received, ends = yield from end_superstep(blocks, end)
        if (failed := _failure(ends)) is not None:
            return failed
        try:
            self._conclude(received, ends, work)
        except RunError as error:  # of the rule of convergence, in all partitions alike
            return replace(ends[0], failure=error)
        return ends[0]

    def _compute(self, work: WorkDone, until: float) -> tuple[SuperstepEnd, Blocks]:
        self.deliver()
        end = step_partition(self.plan, self.processor, self.master)
        end.late = time.monotonic() > until
        blocks = [] if self.alone or end.failure is not None else self.processor.blocks()
        work.bytes += sum(len(block) for _, block in blocks)
        return end, blocks

    def _conclude(self, received: Blocks, ends: list[SuperstepEnd], work: WorkDone) -> None:
        """Take in what all partitions did in an iteration, and told."""
        self._received, master = received, self.master
        work.add(ends[self.processor.partition].progress)
        work.hops += not self.alone
        master.advance(master.total(e.progress for e in ends))
        self._set_vertices(sum(e.vertices for e in ends))
        self.after_each(master.iteration - 1)

    def _set_vertices(self, count: int) -> None:
        self._vertices = count
        self.processor.set_vertices(count)

    def _block(self, work: WorkDone, until: float) -> Steps[SuperstepEnd]:
        """Make a block of sweeps of this partition alone, then exchange."""
        master, choice = self.master, self.choice
        room = choice.bound
        if master.max_iterations is not None:
            room = min(room, master.max_iterations - master.iteration + 1)
        end, blocks = self._sweep(room, until)
        work.hops += 1
        work.bytes += end.bytes
        frontier = master.iteration
        self._received, ends = yield from end_superstep(blocks, end)
        if (failed := _failure(ends)) is not None:
            return failed
        for progress in end.history:
            work.add(progress)
        end_block(master, ends, frontier + room - 1)
        if master.reason is None and master.iteration > (master.max_iterations or math.inf):
            master.reason = "max_iterations"
        self.statistics = bounded_statistics(self._counts, self._delays)
        self.after_each(frontier - 1)
        return ends[0]

    def _sweep(self, room: int, until: float) -> tuple[_BlockEnd, Blocks]:
        """Make a block of `room` sweeps of this partition."""
        processor, end, blocks = self.processor, _BlockEnd(), Blocks()
        processor.reading = self.master.aggregates
        try:
            sweeps = Sweeps(processor, self.master.iteration, room, math.inf)
            end.swept, blocks = sweep_block(self.plan, sweeps, self._received, end.history)
        except VertexError as error:
            end.failure = error
        end.late = time.monotonic() > until
        end.bytes = sum(len(block) for _, block in blocks)
        return end, blocks

    def _own_pace(self, work: WorkDone, until: float, last: int | None) -> Steps[SuperstepEnd]:
        """Iterate until partition 0 ends it for all: the run or the time is over."""
        master, processor, end = self.master, self.processor, _PaceEnd()
        processor.reading = master.aggregates
        pace = Pace(
            processor, self.choice.bound, master.max_iterations,
            master.iteration if self._tau is None else self._tau,
            patient=self.choice.patient, terminated=self.after_each,
        )  # fmt: skip
        posts, over = Blocks(), False
        earlier, self._received = self._received, []
        while not over:
            try:
                outgoing = self._step(pace, posts, earlier, work)
            except VertexError as error:
                end.failure = error
                break
            posts, earlier = [], []
            yield from outgoing
            if (coordinator := pace.coordinator) is not None:
                end.tau, end.reason = coordinator.tau, coordinator.reason
                end.late = time.monotonic() > until
                many = last is not None and coordinator.clock >= last
                if end.reason is not None or end.late or many:
                    break
            posts, over = yield POSTS, pace.waits
        end.clock, end.counts, end.delays = pace.clock, pace.counts, pace.delays
        end.announced = pace.announced if pace.coordinator is not None else []
        received, ends = yield from end_superstep([], end)
        if (failed := _failure(ends)) is not None:
            return failed
        pace.catch_up(ends[0].announced)
        self._conclude_pace(posts + received, ends)
        work.hops += 1
        return ends[0]

    def _step(self, pace: Pace, posts: Blocks, earlier: Blocks, work: WorkDone) -> Blocks:
        """Take in posts and sweep for a short time; return the posts for others."""
        with combining(self.plan):
            outgoing = pace.step(posts, earlier, _STEP, lambda _, progress: work.add(progress))
        work.bytes += sum(len(block) for _, block in outgoing)
        return outgoing

    def _conclude_pace(self, received: Blocks, ends: list[_PaceEnd]) -> None:
        """Take in where all partitions stand when they no longer iterate at their own pace."""
        master, self._received, self._tau = self.master, received, ends[0].tau
        master.iteration = max(end.clock for end in ends) + 1
        master.reason = ends[0].reason
        for end in ends:
            self._counts += end.counts
            self._delays += end.delays
        self.statistics = bounded_statistics(self._counts, self._delays)


def _failure(ends: list[Any]) -> SuperstepEnd | None:
    return next((end for end in ends if end.failure is not None), None)
