"""The iterations of one partition, in step with the others, which all decide alike when to end."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from vertexsdk.compile.plan import Plan
from vertexsdk.engine._master import IterationStats, Master
from vertexsdk.engine.bounded._auto_bound import BoundChoice
from vertexsdk.engine.bounded._rounds import Rounds, end_block
from vertexsdk.engine.bounded._sweeps import SweepReport, Sweeps
from vertexsdk.engine.engine import WorkDone
from vertexsdk.engine.supersteps import RunPosition, Steps, SuperstepEnd, end_superstep
from vertexsdk.errors import RunError, VertexError
from vertexsdk.program.algebra import Algebra
from vertexsdk.program.analysis.delay_bound import by_blocks
from vertexsdk.program.program import new_driver
from vertexsdk.program.vertex import Aggregates
from vertexsdk.transport.transport import Blocks


def make_master(plan: Plan, num_vertices: int) -> Master:
    """Return the state machine of the plan's loop."""
    driver = new_driver(plan.program.classes[0], plan.params, num_vertices)

    def converged(iteration: int, aggregates: Any) -> bool:
        try:
            return bool(driver.converged(iteration, Aggregates(dict(aggregates))))
        except Exception as error:
            spec = plan.program.classes[0]
            raise RunError(
                f"{spec.file}:{spec.line}: {spec.name}.converged: {type(error).__name__}: {error}"
            ) from error

    algebras: dict[str, Algebra] = dict(plan.program.aggregators)
    # Before iteration 0 partitions send each other the rows that methods read.
    first = -1 if plan.reaches and len(plan.topologies) > 1 else 0
    return Master(algebras, plan.always, plan.max_iterations, converged, first)


@contextlib.contextmanager
def arithmetic_of(plan: Plan) -> Iterator[None]:
    """Where arithmetic of a compiled method fails, which knows no lines, say whose it is.

    Raises:
        RunError: in place of an ArithmeticError.
    """
    try:
        yield
    except ArithmeticError as error:
        spec = plan.program.classes[0]
        raise RunError(
            f"{spec.file}:{spec.line}: {spec.name}: {type(error).__name__}: {error}; "
            "run it interpreted to see where (--compiled no)"
        ) from error


def step_partition(plan: Plan, processor: Any, master: Master) -> SuperstepEnd:
    """Run the master's next iteration on a partition; return what it tells the others."""
    end = SuperstepEnd()
    try:
        with arithmetic_of(plan):
            end.progress = processor.step(master.iteration, master.aggregates)
        end.vertices = processor.count
    except VertexError as error:
        end.failure = error
    return end


def sweep_partition(
    plan: Plan, sweeps: Sweeps, blocks: Blocks, history: list[IterationStats], *, in_blocks: bool
) -> tuple[SweepReport, Blocks]:
    """Take in blocks and sweep; return what was done, and the blocks for other partitions.

    Args:
        history: takes the progress of each sweep.
        in_blocks: see `delay_bound.by_blocks`.
    """
    with arithmetic_of(plan):
        sweeps.receive(blocks)
        run = sweeps.run_block if in_blocks else sweeps.run
        swept = run(lambda _, progress: history.append(progress))
        return swept, sweeps.outgoing()


@dataclass(slots=True)
class _SweepsEnd(SuperstepEnd):
    """The end of a partition's sweeps, see `Sweeps`."""

    history: list[IterationStats] = field(default_factory=list)
    swept: SweepReport = field(default_factory=SweepReport)
    bytes: int = 0  # of the blocks for other partitions


class Iterations:
    """A run from `init`, which commands take further.

    Attributes:
        after_each: called when an iteration has ended, with the last one that has terminated.

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
        self._vertices = 0  # of the graph
        self._idle = -1  # the frontier of sweeps in which nothing was done, and nothing sent
        self.after_each: Callable[[int], None] = lambda _: None
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

    def superstep(self, work: WorkDone) -> Steps[SuperstepEnd]:
        """Run this partition's next iteration; what it sends is for the next task of each.

        Returns:
            What it tells the others; the next task takes them all in, see `resume`.
        """
        end, blocks = self._compute(work, math.inf)
        yield from blocks
        return end

    @property
    def position(self) -> RunPosition:
        """Where the run stands, for the next task of each partition; see `resume`."""
        return RunPosition(self.master.iteration, dict(self.master.aggregates), self._vertices)

    def resume(self, position: RunPosition, received: Blocks, work: WorkDone) -> None:
        """Go on in another task, and perhaps another process, than the superstep before."""
        master = self.master
        master.iteration, master.aggregates = position.iteration, dict(position.aggregates)
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

    def _sweeps(self, work: WorkDone, until: float) -> Steps[SuperstepEnd]:
        """Make sweeps of this partition alone, then exchange; see `Rounds`."""
        master = self.master
        count, blocks = len(self.plan.topologies), by_blocks(self.plan.program)
        if self._rounds is None:
            bound, limit = self.choice.bound, master.max_iterations
            self._rounds = Rounds(count, bound, limit, master.iteration)
        (frontier, room), *_ = [self._rounds.start(p) for p in range(count)]
        end, sent = self._sweep(frontier, room, until)
        work.hops += 1
        work.bytes += end.bytes
        self._received, ends = yield from end_superstep(sent, end)
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
        idle = not any(e.history or e.bytes for e in ends)
        if idle and self._idle == frontier and master.reason is None:
            raise RunError(
                f"no partition goes on from iteration {frontier} with a delay bound of "
                f"{self.choice.bound}: run with delay_bound=1, and report this"
            )
        self._idle = frontier if idle else -1
        self.after_each(frontier - 1)
        return ends[0]

    def _sweep(self, frontier: int, room: int, until: float) -> tuple[_SweepsEnd, Blocks]:
        """Sweep this partition from a frontier on, for `room` iterations."""
        processor, end, sent = self.processor, _SweepsEnd(), Blocks()
        processor.reading = self.master.aggregates
        left = max(until - time.monotonic(), 0.0)
        sweeps = Sweeps(processor, frontier, room, left, self.choice.patient)
        try:
            end.swept, sent = sweep_partition(
                self.plan, sweeps, self._received, end.history,
                in_blocks=by_blocks(self.plan.program),
            )  # fmt: skip
        except VertexError as error:
            end.failure = error
        end.late = time.monotonic() > until
        end.bytes = sum(len(block) for _, block in sent)
        return end, sent


def _failure(ends: list[Any]) -> SuperstepEnd | None:
    return next((end for end in ends if end.failure is not None), None)
