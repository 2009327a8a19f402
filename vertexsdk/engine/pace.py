"""A partition that iterates at its own pace: it sweeps, posts what others need, and continues.

The paper's section 4 between partitions: PREPAREs, ACKNOWLEDGEs and updates for one other partition
are a post, which is sent at once, not at the end of a superstep. Partition 0 coordinates: it
learns from reports which iterations have terminated, and announces two numbers, the frontier τ and
the last iteration in which a vertex may commit. The second is τ+B-1 only when all partitions have
heard of τ: a vertex commits without PREPARE in τ+B-1 by the τ known to its own partition, so none
may be further (see `tests.support.protocol`, "knowing τ late"). Each post tells both numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.engine.boundary import Block
from vertexsdk.engine.master import IterationStats
from vertexsdk.engine.processor import Processor
from vertexsdk.engine.sweeps import Sweeps
from vertexsdk.errors import RunError
from vertexsdk.transport.transport import Blocks

Sent = list[tuple[int, list[int]]]  # destination of each post, and iterations of its updates
Received = list[tuple[int, Block, dict[str, Any]]]  # source, columns and meta


class Pace:
    """Iterations of one partition, until its coordinator ends them.

    Args:
        processor: the partition.
        bound: the delay bound.
        limit: the last iteration to run, or None.
        frontier: the first iteration that has not terminated, as all partitions know.
        patient: as for `Sweeps`.
        terminated: called with the last iteration that has terminated, each time that the
            coordinator announces one; in all partitions with the same ones.

    Attributes:
        coordinator: coordinator of all partitions, in partition 0; else None.
        waits: it continues only when a post comes.
        counts: counts of `SweepReport`, summed up; and "posts".
        delays: commits by delay, as in `SweepReport`.
        announced: the frontiers that were announced so far.
    """

    def __init__(
        self,
        processor: Processor,
        bound: int,
        limit: int | None,
        frontier: int,
        *,
        patient: bool,
        terminated: Callable[[int], None],
    ) -> None:
        self.processor, self.bound, self.limit = processor, bound, limit
        self.patient, self.terminated = patient, terminated
        self.partition, count = processor.partition, processor.v.topology.partitions
        self.coordinator: Coordinator | None = None
        if self.partition == 0:
            self.coordinator = Coordinator(count, bound, limit, frontier)
        self.tau, self.allowed = frontier, self._last(frontier)
        self.waits, self.clock = False, frontier - 1
        self.counts: Counter[str] = Counter()
        self.delays: NDArray[np.int64] = np.zeros(32, np.int64)
        self.announced: list[int] = []
        self._received = [0] * count
        self._told: PaceReport | None = None

    def _last(self, frontier: int) -> int:
        last = frontier + self.bound - 1
        return last if self.limit is None else min(last, self.limit)

    def step(
        self,
        posts: Blocks,
        earlier: Blocks,
        seconds: float,
        note: Callable[[int, IterationStats], None],
    ) -> Blocks:
        """Take in posts and sweep for some seconds; return the posts for others.

        Args:
            posts: that have come, as others returned them.
            earlier: blocks that came before the first step.
            note: is told of every sweep.
        """
        received = decoded(posts)
        for source, _, meta in received:
            self._received[source] += 1
            self._hear(meta)
        sweeps = Sweeps(
            self.processor, self.tau, self._last(self.tau) - self.tau + 1, seconds, self.patient,
            self.allowed,
        )  # fmt: skip
        sweeps.receive(decoded(earlier) + received)
        swept = sweeps.run(note)
        blocks = sweeps.outgoing()
        self.waits, self.clock = not swept.out_of_time, max(self.clock, swept.clock)
        updates: Sent = [(q, swept.sent.get(q, [])) for q in sorted(blocks)]
        self._count(swept)
        if self.coordinator is not None:
            self._coordinate(self.coordinator, swept.low, updates, received, blocks)
        else:
            self._report(swept.low, updates, blocks)
        self.counts["posts"] += len(blocks)
        for block in blocks.values():
            block["meta"] |= {"tau": self.tau, "allowed": self.allowed}
        return encoded(blocks)

    def _hear(self, meta: dict[str, Any]) -> None:
        """Take in the frontier that a post tells."""
        self.tau = max(self.tau, meta["tau"])
        self.allowed = max(self.allowed, meta["allowed"])
        if "announced" in meta:
            self._announce(meta["announced"])

    def _announce(self, tau: int) -> None:
        self.announced.append(tau)
        self.terminated(tau - 1)

    def catch_up(self, announced: list[int]) -> None:
        """Take in what the coordinator has announced in all, at the end."""
        for tau in announced[len(self.announced) :]:
            self._announce(tau)

    def _report(self, low: int | None, updates: Sent, blocks: dict[int, Block]) -> None:
        """Add a report for the coordinator, if there is something to tell."""
        told = PaceReport(low, self.tau, self.clock, self.waits, tuple(self._received), ())
        if not updates and told == self._told:
            return
        self._told = told
        if 0 not in blocks:
            blocks[0] = {"meta": {}}
            updates.append((0, []))
        blocks[0]["meta"]["report"] = told._replace(sent=updates)

    def _coordinate(
        self,
        coordinator: Coordinator,
        low: int | None,
        updates: Sent,
        received: Received,
        blocks: dict[int, Block],
    ) -> None:
        """Take in all reports, and add announcements for all."""
        counts = tuple(self._received)
        report = PaceReport(low, self.tau, self.clock, self.waits, counts, updates)
        coordinator.report(0, report)
        for source, _, meta in received:
            if "report" in meta:
                coordinator.report(source, PaceReport(*meta["report"]))
        if not coordinator.advance():
            return
        previous = self.tau
        self.tau, self.allowed, self.waits = coordinator.tau, coordinator.last, False
        for q in range(1, coordinator.partitions):
            if q not in blocks:
                blocks[q] = {"meta": {}}
                coordinator.posted(0, q)
            if self.tau > previous:
                blocks[q]["meta"]["announced"] = self.tau
        if self.tau > previous:
            self._announce(self.tau)

    def _count(self, swept: Any) -> None:
        for name in ("prepares", "asks", "acknowledges", "held"):
            self.counts[name] += getattr(swept, name)
        self.delays += swept.delays


def decoded(blocks: Blocks) -> Received:
    """Read blocks that `encoded` made."""
    return [(source, *decode(data, trusted=True)) for source, data in blocks]


def encoded(blocks: dict[int, Block]) -> Blocks:
    """Make blocks of bytes, in the order of their destinations."""
    return [(q, encode_bytes(block, block.pop("meta"))) for q, block in sorted(blocks.items())]


def bounded_statistics(counts: Counter[str], delays: NDArray[np.int64]) -> dict[str, Any]:
    """Counts of bounded iterations under the names of the command line's `--stats`."""
    return {
        "prepares": counts["prepares"], "acknowledges": counts["acknowledges"],
        "prepare_messages": counts["asks"], "held": counts["held"], "posts": counts["posts"],
        "delays": delay_table(delays),
    }  # fmt: skip


def delay_table(delays: NDArray[np.int64]) -> dict[str, int]:
    """Commits by delay in iterations, as statistics show them.

    >>> delay_table(np.array([5, 2, 0, 1]))
    {'0': 5, '1': 2, '4-7': 1}
    """
    names = ["0", "1", *(f"{2**k}-{2 ** (k + 1) - 1}" for k in range(1, len(delays)))]
    return {name: int(n) for name, n in zip(names, delays, strict=False) if n}


# What one partition knows of all: how far each of them has come, and how far they may go.
#
# Partitions iterate at their own pace and report after every step. Reports come late, and those
# of different partitions in any order. One is taken in only after those that tell of all posts
# which its partition had received by then. So the coordinator's view is always a consistent cut
# of the run (Chandy and Lamport, 1985), and what has terminated in one cut has terminated ever
# after.


class PaceReport(NamedTuple):
    """The report of a partition to the coordinator after a step.

    Attributes:
        low: the least iteration in which a vertex here may still commit; None: nothing to do.
        heard: the frontier by which it made the step.
        clock: the last iteration in which a vertex here has committed.
        waits: it continues only when a post comes.
        received: by partition, how many of its posts have been received in all.
        sent: since the report before, the destination of each post, and the iterations of the
            updates in it, as in `SweepReport.sent`.
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
        """Note a post; `iterations` are those of the updates in it."""
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
        counted = self._received[partition]
        return all(
            count - counted[source] <= len(self._posts[source, partition])
            for source, count in enumerate(report.received)
        )

    def _take(self, partition: int, report: PaceReport) -> None:
        counted = self._received[partition]
        for source, count in enumerate(report.received):
            for _ in range(count - counted[source]):
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
                f"no partition continues from iteration {self.tau} with a delay bound of "
                f"{self._frontier.bound}: run with delay_bound=1, and report this"
            )
        return moved


class Frontier:
    """τ of one loop, from what its partitions report. Pure: facts in, τ out.

    Iteration t has terminated when no vertex can commit in it any more: none has something to do
    since t or earlier, and every update made in t or earlier has reached its consumer. The paper
    says the first only; without the second a vertex could commit in t+1 before it has all updates
    of t, and B = 1 would not be synchronous.

    A vertex which commits in `last` = τ+B-1 asks no other. So τ and `last` stay as they are while
    an update made in `last` is in transit: its consumer, who was not asked, must not commit further
    before it has come.

    Tell the facts of a report, in any order, then call `advance`. For the facts to be enough, an
    update is told by `sent` before its receiver can have it, and by `received` together with the
    receiver's `report`, whose low-water mark covers it from then on.

    Args:
        partitions: how many report. Each is taken to have something to do in iteration 0, until it
            reports.
        bound: the delay bound B, at least 1.

    Raises:
        ValueError: `bound` or `partitions` is less than 1.
    """

    __slots__ = ("bound", "heard", "last", "lows", "tau", "transit")

    def __init__(self, partitions: int, bound: int) -> None:
        if partitions < 1 or bound < 1:
            raise ValueError(f"partitions and bound are at least 1: got {partitions} and {bound}")
        self.bound = bound
        self.tau = 0  # the first iteration that has not terminated
        self.last = bound - 1  # the last one in which a vertex may commit
        self.lows: list[int | None] = [0] * partitions
        self.heard: list[int | None] = [None] * partitions
        self.transit: Counter[tuple[int, int]] = Counter()  # by destination and iteration

    @property
    def quiet(self) -> bool:
        """True if the loop has terminated: nothing to do, and no update in transit (4.3)."""
        idle = all(low is None for low in self.lows)
        return idle and not self.transit

    def report(self, partition: int, low: int | None, heard: int | None = None) -> None:
        """Take in a partition's low-water mark.

        Args:
            partition: 0 and up.
            low: the smallest iteration since which a vertex of it has something to do, held
                updates made in t counting as t+1; None if there is none.
            heard: the τ that it had heard of when it made the report. While some have not heard of
                the newest, `last` is less than τ+B-1. None: it hears of τ before it does anything,
                as in an exchange where all partitions wait for the master.
        """
        self.lows[partition] = low
        self.heard[partition] = heard

    def sent(self, destination: int, iteration: int, count: int = 1) -> None:
        """Updates made in `iteration` (or inputs given that iteration) are on their way."""
        self.transit[destination, iteration] += count

    def received(self, destination: int, iteration: int, count: int = 1) -> None:
        """Updates that were sent are covered by the destination's report.

        Raises:
            ValueError: more than were sent.
        """
        left = self.transit[destination, iteration] - count
        if left < 0:
            raise ValueError(
                f"partition {destination} received more updates of iteration {iteration} than "
                "were sent to it: tell `sent` first"
            )
        if left:
            self.transit[destination, iteration] = left
        else:
            del self.transit[destination, iteration]

    def advance(self) -> bool:
        """Terminate the iterations that have; whether τ or `last` has moved.

        A loop that is quiet stays at its τ; inputs, given that iteration, start it again.
        """
        previous = self.tau, self.last
        if not self._asked_nobody():
            lows = [low for low in self.lows if low is not None]
            lows += [iteration for _, iteration in self.transit]
            self.tau = max(self.tau, min(lows, default=self.tau))
            heard = [self.tau if tau is None else tau for tau in self.heard]
            self.last = max(self.last, min(heard) + self.bound - 1)
        return (self.tau, self.last) != previous

    def _asked_nobody(self) -> bool:
        """Return whether an update that needed no PREPARE is in transit."""
        return any(iteration >= self.last for _, iteration in self.transit)
