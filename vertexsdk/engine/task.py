"""The task of every hop: find the partition's version, step, keep the new version, report.

A task is a pure function of the version it is told and the blocks it is given. The arrays stay
in the process which has them; another process of the host maps the kept version.
"""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from vertexsdk.arrays.process_memory import peak_memory
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._master import IterationStats, Master
from vertexsdk.engine.bounded._sweeps import SweepReport, Sweeps
from vertexsdk.engine.supersteps import SuperstepEnd, end_superstep
from vertexsdk.errors import LostError, RunError, VertexError
from vertexsdk.program.algebra import Algebra
from vertexsdk.program.program import new_driver
from vertexsdk.program.vertex import Aggregates
from vertexsdk.state import SegmentRef
from vertexsdk.state.version_writer import Writer
from vertexsdk.transport.transport import DRIVER, Blocks


@dataclass(frozen=True, slots=True)
class RunCommand:
    """One hop: from `version`, run iterations from `iteration` on.

    With one partition, and where tasks are resident, they go on by themselves until the loop ends,
    or `most` iterations are done, or `seconds` have passed on the clock of partition 0. The
    state at the end of each `every` iterations after `after` is written to the store on the way;
    with `commit`, that of `iteration`. `committed` has each partition's attempt that was committed
    last, which deltas are made from. With a `bound`, `iteration` is the frontier, each partition
    makes sweeps of its own, and what `commit` writes is of the iteration before the frontier;
    `blocks` and `patient` say how, see `_sweeps`.
    """

    version: int
    iteration: int
    aggregates: dict[str, Any]
    num_vertices: int
    every: int | None = None
    seconds: float = 1.0
    commit: bool = False
    step: bool = True
    after: int = 0
    committed: tuple[str | None, ...] = ()
    bound: int = 0
    blocks: bool = False
    patient: bool = False
    most: int | None = None  # iterations of this command

    def due(self, iteration: int) -> bool:
        """Whether the state at the end of an iteration is to be written on the way."""
        return self.every is not None and iteration > self.after and iteration % self.every == 0


@dataclass(slots=True)
class RunReport:
    """What a task tells the driver.

    `history` has the progress of every iteration it ran; `segments` what it wrote, by iteration,
    None where nothing had changed.
    """

    partition: int
    version: int
    history: list[IterationStats] = field(default_factory=list)
    vertices: int = 0
    reason: str | None = None
    segments: dict[int, SegmentRef | None] = field(default_factory=dict)
    lost: str | None = None
    failure: VertexError | None = None  # after iterations whose versions are to stay readable
    bytes: int = 0
    received: bool = False  # the blocks of its iterations have come to where they were sent
    seconds: dict[str, float] = field(default_factory=dict)
    swept: SweepReport | None = None  # of asynchronous iterations
    memory: int = 0  # peak resident bytes of the worker process


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
    return Master(algebras, plan.always, plan.max_iterations, converged)


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


_kept: dict[tuple[str, int], tuple[int, Any]] = {}  # (run, partition) -> version, processor


class HopTask:
    """The callable which an `Exchange` runs on every partition."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._own: dict[tuple[str, int], tuple[int, Any]] = {}

    @property
    def kept(self) -> dict[tuple[str, int], tuple[int, Any]]:
        """The processors in this process: of this run where tasks stay, else one of any run."""
        return self._own if self.plan.resident else _kept

    def __call__(
        self, partition: int, command: RunCommand, blocks: list[tuple[int, bytes]]
    ) -> Generator[tuple[int, bytes], Any, None]:
        began = time.perf_counter()
        report = RunReport(partition, command.version)
        outgoing: list[tuple[int, bytes]] = []
        try:
            processor = self._processor(partition, command)
        except LostError as lost:
            report.lost = str(lost)
            yield DRIVER, pickle.dumps(report)
            return
        clock, busy = time.perf_counter(), time.process_time()
        report.seconds["load"] = clock - began
        plan = self.plan
        before = command.committed[partition] if command.committed else None
        with Writer(plan.run, plan.store, plan.loop, partition, before) as writer:
            if command.step:
                # An attempt that fails leaves it changed.
                self.kept.pop((plan.run, partition), None)
                processor.set_vertices(command.num_vertices)
                if command.bound:
                    outgoing = self._sweep(processor, command, report, blocks)
                else:
                    processor.receive(blocks)
                    report.seconds["receive"] = time.perf_counter() - clock
                    yield from self._run(processor, command, report, writer)
                report.seconds["kernel"] = time.perf_counter() - clock
                report.seconds["cpu"] = time.process_time() - busy
            if command.step and report.failure is None:
                if not command.bound and not report.received:
                    outgoing = processor.blocks()
                report.bytes += sum(len(b) for _, b in outgoing)
                alone = len(plan.topologies) == 1
                if not (plan.resident or (alone and report.reason is not None)):
                    clock = time.perf_counter()
                    processor.save(report.version)
                    report.seconds["save"] = time.perf_counter() - clock
                self.kept[plan.run, partition] = (report.version, processor)
            last = command.iteration + max(len(report.history) - 1, 0)
            if command.bound:
                last = command.iteration - 1  # the last one that has terminated
            clock = time.perf_counter()
            if (command.commit or report.reason is not None) and last not in writer:
                writer.add(last, processor.result())
            report.segments = writer.finish()
            report.seconds["commit"] = time.perf_counter() - clock
        report.vertices = processor.count
        report.memory = peak_memory()
        yield from outgoing
        yield DRIVER, pickle.dumps(report)

    def _run(
        self, processor: Any, command: RunCommand, report: RunReport, writer: Writer
    ) -> Generator[tuple[int, bytes], Any, None]:
        """Run iterations, as many as this command allows."""
        alone = len(self.plan.topologies) == 1
        began = time.monotonic()
        master = make_master(self.plan, command.num_vertices)
        master.iteration, master.aggregates = command.iteration, command.aggregates
        while True:
            end = self._step(processor, master)
            end.late = time.monotonic() - began > command.seconds
            last = len(report.history) + 1 == command.most
            single = not alone and (last or not self.plan.resident)
            blocks = processor.blocks() if end.failure is None and not (alone or single) else []
            report.bytes += sum(len(b) for _, b in blocks)
            received, ends = yield from end_superstep(blocks, end, alone or single)
            failure = next((e.failure for e in ends if e.failure is not None), None)
            if failure is not None:
                if not report.history:
                    raise failure
                report.failure = failure
                return
            report.history.append(end.progress)
            report.version += 1
            if command.due(master.iteration):
                writer.add(master.iteration, processor.result())
            if single:
                return
            more = master.advance(master.total(e.progress for e in ends))
            if not alone:
                report.received = True
                if more:
                    processor.receive(received)
            if not more:
                report.reason = master.reason
                return
            if ends[0].late:
                return
            processor.set_vertices(sum(e.vertices for e in ends))

    def _step(self, processor: Any, master: Master) -> SuperstepEnd:
        return step_partition(self.plan, processor, master)

    def _sweep(
        self,
        processor: Any,
        command: RunCommand,
        report: RunReport,
        blocks: list[tuple[int, bytes]],
    ) -> list[tuple[int, bytes]]:
        """Make sweeps; return what the partition has to say to the others."""
        processor.reading = command.aggregates
        sweeps = Sweeps(
            processor, command.iteration, command.bound, command.seconds, command.patient
        )
        report.swept, sent = sweep_partition(
            self.plan, sweeps, blocks, report.history, in_blocks=command.blocks
        )
        report.version += 1
        return sent

    def _processor(self, partition: int, command: RunCommand) -> Any:
        from vertexsdk.engine._processor import Processor
        from vertexsdk.engine.events._events_partition import EventPartition

        key = (self.plan.run, partition)
        kept = self.kept.get(key)
        if kept is not None and kept[0] == command.version:
            return kept[1]
        for other in [k for k in self.kept if k[0] != self.plan.run or k == key]:
            del self.kept[other]  # what an earlier run left in this process
        make = Processor if self.plan.program.algebra is not None else EventPartition.of_run
        try:
            processor = make(self.plan, partition, command.num_vertices)
            if command.version > 0:
                processor.load(command.version)
        except RunError as error:
            raise LostError(str(error)) from None
        return processor
