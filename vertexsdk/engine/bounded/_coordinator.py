"""What one partition knows of all: how far each of them has come, and how far they may go.

Partitions iterate at their own pace and report after every step. Reports come late, and those of
different partitions in any order. One is taken in only after those that tell of all posts which its
partition had received by then. So the coordinator's view is always a consistent cut of the run
(Chandy and Lamport, 1985), and what has terminated in one cut has terminated ever after.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import NamedTuple

from vertexsdk.engine.bounded._frontier import Frontier
from vertexsdk.errors import RunError


class PaceReport(NamedTuple):
    """What a partition tells the coordinator after a step.

    Attributes:
        low: the least iteration in which a vertex here may still commit; None: nothing to do.
        heard: the frontier by which it made the step.
        clock: the last iteration in which a vertex here has committed.
        waits: it goes on only when a post comes.
        received: by partition, how many of its posts have been received in all.
        sent: since the report before, the destination of each post, and the iterations of the
            updates in it: see `SweepReport.sent`.
    """

    low: int | None
    heard: int
    clock: int
    waits: bool
    received: Sequence[int]
    sent: Sequence[tuple[int, Sequence[int]]]


class Coordinator:
    """The frontier of a loop whose partitions iterate at their own pace.

    Args:
        partitions, bound: how many; the delay bound.
        limit: the last iteration to run, or None.
        first: the frontier that all partitions know.

    Attributes:
        clock: the last iteration in which any vertex has committed.
    """

    def __init__(self, partitions: int, bound: int, limit: int | None, first: int) -> None:
        self.partitions, self.limit, self.clock = partitions, limit, first - 1
        self._frontier = Frontier(partitions, bound)
        for p in range(partitions):
            self._frontier.report(p, first, first)
        self._frontier.advance()
        self._reports: list[deque[PaceReport]] = [deque() for _ in range(partitions)]
        self._received = [[0] * partitions for _ in range(partitions)]
        self._waits = [False] * partitions
        # By source and destination: posts that are known as sent, and not as received.
        self._posts: dict[tuple[int, int], deque[Sequence[int]]] = defaultdict(deque)

    @property
    def tau(self) -> int:
        """The first iteration that has not terminated."""
        return self._frontier.tau

    @property
    def last(self) -> int:
        """The last iteration in which a vertex may commit; fewer know of it than of `tau`."""
        return self._frontier.last if self.limit is None else min(self._frontier.last, self.limit)

    @property
    def reason(self) -> str | None:
        """Why the loop has ended; None while it has not."""
        if self._frontier.quiet:
            return "quiet"
        return "max_iterations" if self.limit is not None and self.tau > self.limit else None

    def posted(self, source: int, destination: int, iterations: Sequence[int] = ()) -> None:
        """Tell of a post; see `PaceReport.sent`."""
        self._posts[source, destination].append(iterations)
        for iteration in iterations:
            self._frontier.sent(destination, iteration)

    def report(self, partition: int, report: PaceReport) -> None:
        """Take in a report, and all that waited for it."""
        self._reports[partition].append(report)
        more = True
        while more:
            more = False
            for p, waiting in enumerate(self._reports):
                while waiting and self._is_covered(p, waiting[0]):
                    self._take(p, waiting.popleft())
                    more = True

    def _is_covered(self, partition: int, report: PaceReport) -> bool:
        before = self._received[partition]
        return all(
            count - before[source] <= len(self._posts[source, partition])
            for source, count in enumerate(report.received)
        )

    def _take(self, partition: int, report: PaceReport) -> None:
        before = self._received[partition]
        for source, count in enumerate(report.received):
            for _ in range(count - before[source]):
                for iteration in self._posts[source, partition].popleft():
                    self._frontier.received(partition, iteration)
        self._received[partition] = list(report.received)
        for destination, iterations in report.sent:
            self.posted(partition, destination, iterations)
        self._frontier.report(partition, report.low, report.heard)
        self._waits[partition] = report.waits
        self.clock = max(self.clock, report.clock)

    def advance(self) -> bool:
        """Return whether `tau` or `last` has moved since the last call.

        Raises:
            RunError: all partitions wait, and no post is on its way.
        """
        moved = self._frontier.advance()
        if not moved and all(self._waits) and not any(self._posts.values()) and not self.reason:
            raise RunError(
                f"no partition goes on from iteration {self.tau} with a delay bound of "
                f"{self._frontier.bound}: run with delay_bound=1, and report this"
            )
        return moved
