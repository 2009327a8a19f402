"""The hops of one loop from its first iteration to its last: commands out, reports in."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Literal

from vertexsdk.engine._master import IterationStats, Master
from vertexsdk.engine._statistics import RunStatistics
from vertexsdk.engine.bounded._rounds import Rounds, end_block
from vertexsdk.engine.progress import ProgressBar
from vertexsdk.engine.task import RunCommand, RunReport
from vertexsdk.errors import LostError, RunError
from vertexsdk.state.version_writer import Committer
from vertexsdk.transport.transport import Exchange

SHUFFLE = 1 << 20  # bytes of messages in a hop above which the next one's go by the shuffle


class RunDriver:
    """A loop under way.

    Args:
        exchange, committer, bar, tally: what it uses, and keeps up to date.
        master: of the loop, before iteration 0.
        commit_every: write a version every so many iterations.
        via: how messages travel; "auto" decides by their size.
        after: an earlier try has committed up to this iteration.
    """

    def __init__(
        self,
        exchange: Exchange,
        committer: Committer,
        master: Master,
        tally: RunStatistics,
        bar: ProgressBar,
        *,
        commit_every: int | None,
        via: Literal["auto", "driver", "shuffle"],
        after: int,
    ) -> None:
        self.exchange, self.committer, self.master = exchange, committer, master
        self.tally, self.bar = tally, bar
        self.commit_every, self.after, self._via = commit_every, after, via
        self.done = -1  # the iteration of the last version

    def synchronous(self, last: int | None = None, version: int = 0) -> int:
        """Iterate from a version to the end, or to iteration `last`; return the version reached."""
        master, tally = self.master, self.tally
        step = master.total([])
        while master.reason is None or self.done != master.iteration - 1:
            if last is not None and master.iteration > last and master.reason is None:
                break
            command = self._command(version, iteration=master.iteration)
            if last is not None:
                command = replace(command, most=last - master.iteration + 1)
            if master.reason is not None:  # which no partition could know
                command = replace(command, iteration=master.iteration - 1, step=False, commit=True)
            reports = self._hop(command)
            version = reports[0].version
            for k in range(max(len(reports[0].history), 1)):
                if command.step:
                    step = master.total(r.history[k] for r in reports)
                    master.advance(step)
                    tally.work.add(step)
                if master.iteration - 1 in reports[0].segments:
                    self._add(master.iteration - 1, reports)
            self._show(master.iteration - 1, step, reports)
        return version

    def asynchronous(self, bound: int, blocks: bool, patient: bool, version: int) -> None:
        """Iterate to the end with a delay bound above 1, after iteration 0.

        Args:
            bound: the delay bound.
            blocks: see `delay_bound.by_blocks`.
            patient: see `_sweeps`.
            version: of every partition, as `synchronous` returned it.
        """
        master = self.master
        partitions = self.exchange.partitions
        rounds = Rounds(partitions, bound, master.max_iterations, master.iteration)
        still = -1  # the frontier of a hop in which nothing was done, and nothing sent
        while master.reason is None:
            (frontier, room), *_ = [rounds.start(p) for p in range(partitions)]
            label = frontier - 1
            due = self.commit_every is not None and label // self.commit_every * self.commit_every
            command = replace(
                self._command(version, iteration=frontier),
                bound=room, blocks=blocks, patient=patient, every=None,
                commit=bool(due and due > self._last()),
            )  # fmt: skip
            reports = self._hop(command)
            version = reports[0].version
            for r in reports:
                assert r.swept is not None
                rounds.finish(r.partition, r.swept)
            step = self._count(rounds, reports, blocks)
            idle = not any(r.history or r.bytes for r in reports)
            if idle and still == frontier and master.reason is None:
                raise RunError(
                    f"no partition goes on from iteration {frontier} with a delay bound of "
                    f"{bound}: run with delay_bound=1, and report this"
                )
            still = frontier if idle else -1
            if command.commit:
                self._add(label, reports)
            self._show(rounds.iteration, step, reports)
        self.synchronous(version=version)

    def _count(self, rounds: Rounds, reports: list[RunReport], blocks: bool) -> IterationStats:
        """Take in what asynchronous hops did; return the sum of it."""
        step = self.master.total(p for r in reports for p in r.history)
        self.tally.work.add(step)
        if blocks:
            end_block(self.master, reports, rounds.iteration)
        if self.master.reason is None:
            self.master.iteration, self.master.reason = rounds.iteration + 1, rounds.reason
        self.tally.statistics |= rounds.statistics()
        return step

    def _last(self) -> int:
        return max(self.done, self.after)

    def _command(self, version: int, iteration: int) -> RunCommand:
        return RunCommand(
            version, iteration, dict(self.master.aggregates), self.tally.vertices,
            self.commit_every, after=self.after, committed=tuple(self.tally.attempts),
        )  # fmt: skip

    def _hop(self, command: RunCommand) -> list[RunReport]:
        """Run one hop on all partitions.

        Raises:
            LostError: a worker has lost what it held.
        """
        via = self._via
        if via == "auto":  # about as many bytes as in the hop before
            via = "shuffle" if self.tally.last_bytes > SHUFFLE else "driver"
        reports: list[RunReport] = [pickle.loads(r) for r in self.exchange.hop(command, via=via)]
        for r in reports:
            if r.lost:
                raise LostError(r.lost)
        if self.exchange.times is not None:
            self.tally.spent.hop(self.exchange.times, [r.seconds for r in reports])
        # With one partition nothing is exchanged after an iteration.
        iterations = 1 if self.exchange.partitions == 1 else max(len(reports[0].history), 1)
        self.tally.hops += (1 if command.bound else iterations) * command.step
        self.tally.take(reports)
        return reports

    def _add(self, iteration: int, reports: list[RunReport]) -> None:
        self.done = iteration
        new = self.tally.version(iteration, reports, self.master.reason, self.master.aggregates)
        self.committer.add(new)

    def _show(self, iteration: int, step: IterationStats, reports: list[RunReport]) -> None:
        """Show where the loop stands."""
        self.bar.update(iteration, step, self.tally.work.messages)
        failure = next((r.failure for r in reports if r.failure), None)
        if failure is not None:
            self.committer.finish()
            raise failure
