"""A partition of a run: a graph that is loaded and stays as it is, and iterations from `init`."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from vertexsdk.compile.plan import Plan
from vertexsdk.engine._iterations import Iterations, make_master
from vertexsdk.engine._master import IterationStats
from vertexsdk.engine._processor import Processor
from vertexsdk.engine.bounded._auto_bound import BoundChoice
from vertexsdk.engine.engine import Version
from vertexsdk.engine.events._events_partition import EventPartition
from vertexsdk.engine.loop._commands import LoopCommand, LoopReport
from vertexsdk.engine.supersteps import Steps
from vertexsdk.errors import LostError, RunError
from vertexsdk.state.version_writer import Writer
from vertexsdk.transport.transport import Blocks


class RunPartition:
    """What `LoopTask` runs iterations of.

    Args:
        plan: of the run.
        partition: its number.
        vertices: of the graph, in all partitions.
        choice: the delay bound.

    Raises:
        LostError: the graph is not on this host.
    """

    def __init__(self, plan: Plan, partition: int, vertices: int, choice: BoundChoice) -> None:
        self.plan, self.partition = plan, partition
        make: Any = Processor if plan.program.algebra is not None else EventPartition.of_run
        try:
            self.processor = make(plan, partition, vertices)
        except RunError as error:
            raise LostError(str(error)) from None
        self.iterations = Iterations(self.processor, make_master(plan, vertices), choice)
        self.processor.set_vertices(vertices)

    def load(self, version: int) -> None:
        """Have the state that a task on this host saved.

        Raises:
            LostError: there is none.
        """
        try:
            self.processor.load(version)
        except RunError as error:
            raise LostError(str(error)) from None

    def iterate(self, command: LoopCommand, report: LoopReport, blocks: Blocks) -> Steps[None]:
        """Iterate as far as the command allows, and write the versions which are due.

        Args:
            blocks: what the superstep before sent here, where tasks do not stay.
        """
        plan, run, work = self.plan, self.iterations, report.work
        master, before, newest = run.master, run.iterations, command.after
        pending: list[Version] = []
        attempt = command.attempts[self.partition] if command.attempts else None
        with Writer(plan.run, plan.store, plan.loop, self.partition, attempt) as writer:

            def write(iteration: int, also: IterationStats | None = None) -> None:
                nonlocal newest
                newest = iteration
                writer.add(iteration, self.processor.result(), last=master.reason is not None)
                done = replace(work)
                if also is not None:
                    done.add(also)
                done.iterations = iteration - before
                aggregates, count = dict(master.aggregates), self.processor.count
                reason = master.reason if iteration == run.iterations else None
                pending.append(
                    Version(iteration, [], aggregates, done, count, reason, run.statistics)
                )

            def write_if_due(iteration: int, also: IterationStats | None = None) -> None:
                every = command.every
                if every is not None and iteration // every * every > newest:
                    write(iteration, also)

            run.after_each = write_if_due
            work.hops += run.alone
            if command.position is not None:
                run.resume(command.position, blocks, work)
            if plan.resident or run.alone:
                report.failure = yield from run.run(work, command.seconds, command.iterations)
            elif master.reason is None:
                end = yield from run.superstep(work)
                report.position = replace(run.position, ends=(end,))
                if end.failure is None:  # in another task it might be lost
                    write_if_due(master.iteration, end.progress)
            clock = time.perf_counter()
            if master.reason is not None and (
                not pending or pending[-1].iteration < run.iterations
            ):
                write(run.iterations)
            refs = writer.finish()
            report.versions = [
                replace(v, segments=[s for s in [refs.get(v.iteration)] if s]) for v in pending
            ]
            report.seconds["commit"] = time.perf_counter() - clock
        work.iterations = run.iterations - before
        work.reason, work.quiet = master.reason, master.reason is not None
        report.statistics, report.aggregates = run.statistics, dict(master.aggregates)
        report.clock, report.vertices = run.iterations, self.processor.count
        if run.alone or plan.resident:
            report.position = None if plan.resident else run.position
        if not plan.resident and not (run.alone and work.quiet) and report.failure is None:
            clock = time.perf_counter()
            self.processor.save(report.version)
            report.seconds["save"] = time.perf_counter() - clock
