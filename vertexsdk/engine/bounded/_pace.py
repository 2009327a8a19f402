"""A partition that iterates at its own pace: it sweeps, posts what others need, and goes on.

The paper's section 4 between partitions: PREPAREs, ACKNOWLEDGEs and updates for one other partition
are a post, which is sent at once; nobody waits for a superstep to end. Partition 0 coordinates: it
learns from reports which iterations have terminated, and announces two numbers, the frontier τ and
the last iteration in which a vertex may commit. The second is τ+B-1 only when all partitions have
heard of τ: a vertex commits without PREPARE in τ+B-1 by the τ known to its own partition, so nobody
may be further (see `tests.support.protocol`, "knowing τ late"). Each post tells both numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.engine._master import IterationStats
from vertexsdk.engine._processor import Processor
from vertexsdk.engine.bounded._boundary import Block
from vertexsdk.engine.bounded._coordinator import Coordinator, PaceReport
from vertexsdk.engine.bounded._sweeps import Sweeps
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
        patient: see `Sweeps`.
        terminated: called with the last iteration that has terminated, each time that the
            coordinator announces one; in all partitions with the same ones.

    Attributes:
        coordinator: of all partitions, in partition 0; else None.
        waits: it goes on only when a post comes.
        counts: of `SweepReport`, summed up; and "posts".
        delays: commits by delay, see `SweepReport`.
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
        before: Blocks,
        seconds: float,
        note: Callable[[int, IterationStats], None],
    ) -> Blocks:
        """Take in posts and sweep for some seconds; return the posts for others.

        Args:
            posts: that have come, as others returned them.
            before: blocks that came before the first step.
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
        sweeps.receive(decoded(before) + received)
        swept = sweeps.run(note)
        blocks = sweeps.outgoing()
        self.waits, self.clock = not swept.out_of_time, max(self.clock, swept.clock)
        sent: Sent = [(q, swept.sent.get(q, [])) for q in sorted(blocks)]
        self._count(swept)
        if self.coordinator is not None:
            self._coordinate(self.coordinator, swept.low, sent, received, blocks)
        else:
            self._report(swept.low, sent, blocks)
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

    def _report(self, low: int | None, sent: Sent, blocks: dict[int, Block]) -> None:
        """Add a report for the coordinator, if there is something to tell."""
        told = PaceReport(low, self.tau, self.clock, self.waits, tuple(self._received), ())
        if not sent and told == self._told:
            return
        self._told = told
        if 0 not in blocks:
            blocks[0] = {"meta": {}}
            sent.append((0, []))
        blocks[0]["meta"]["report"] = told._replace(sent=sent)

    def _coordinate(
        self,
        coordinator: Coordinator,
        low: int | None,
        sent: Sent,
        received: Received,
        blocks: dict[int, Block],
    ) -> None:
        """Take in all reports, and add announcements for all."""
        counts = tuple(self._received)
        report = PaceReport(low, self.tau, self.clock, self.waits, counts, sent)
        coordinator.report(0, report)
        for source, _, meta in received:
            if "report" in meta:
                coordinator.report(source, PaceReport(*meta["report"]))
        if not coordinator.advance():
            return
        before = self.tau
        self.tau, self.allowed, self.waits = coordinator.tau, coordinator.last, False
        for q in range(1, coordinator.partitions):
            if q not in blocks:
                blocks[q] = {"meta": {}}
                coordinator.posted(0, q)
            if self.tau > before:
                blocks[q]["meta"]["announced"] = self.tau
        if self.tau > before:
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
