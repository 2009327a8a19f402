"""What all partitions know of asynchronous iterations: which have terminated, and who goes on.

Iteration i has terminated when no vertex can commit in it any more: all partitions have reported
past it, and no update that was committed before it is on its way (section 4.3). The frontier is the
first one that has not. Partitions run one after the other, side by side, or some of them more often
than others: a partition is never told a later frontier than one that is still running was told, so
what it takes for the bound's last iteration is the last one for all.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine._master import Master, combine_aggregates
from vertexsdk.engine.bounded._frontier import Frontier
from vertexsdk.engine.bounded._sweeps import SweepReport


class Rounds:
    """What is known of every partition after a synchronous iteration.

    Args:
        partitions, bound: how many; the delay bound.
        limit: the last iteration to run, or None.
        first: the iteration that is next.

    Attributes:
        iteration: the last iteration in which any partition has swept.
        totals: counts of `SweepReport`, summed up.
        delays: commits by delay, see `SweepReport`.
    """

    def __init__(
        self, partitions: int, bound: int, limit: int | None = None, first: int = 1
    ) -> None:
        self.bound, self.limit = bound, limit
        self.iteration = first - 1
        self.totals: Counter[str] = Counter()
        self.delays: NDArray[np.int64] = np.zeros(32, np.int64)
        self._known = Frontier(partitions, bound)
        for p in range(partitions):
            self._known.report(p, first)
        self._known.advance()
        self._coming: list[list[int]] = [[] for _ in range(partitions)]
        self._taken: list[list[int]] = [[] for _ in range(partitions)]
        self._told: dict[int, int] = {}

    @property
    def reason(self) -> str | None:
        """Why the loop has ended; None while it has not."""
        if self._known.quiet:
            return "quiet"
        over = self.limit is not None and self._known.tau > self.limit
        return "max_iterations" if over else None

    @property
    def told(self) -> int:
        """The frontier that a partition which starts now is told."""
        return min([self._known.tau, *self._told.values()])

    def idle(self, partition: int) -> bool:
        """Whether a partition has reported that it has nothing left to do."""
        return self._known.lows[partition] is None

    def start(self, partition: int) -> tuple[int, int]:
        """A partition runs, with all that was sent to it: its frontier, and bound from there."""
        self._told[partition] = told = self.told
        self._taken[partition], self._coming[partition] = self._coming[partition], []
        if self.idle(partition) and not self._taken[partition]:
            self._known.report(partition, told)
        return told, self.bound if self.limit is None else min(self.bound, self.limit - told + 1)

    def finish(self, partition: int, swept: SweepReport) -> None:
        """It has run."""
        del self._told[partition]
        for q, first in swept.sent.items():
            self._known.sent(q, first)
            self._known.handed(q, first)  # it is part of what `q` starts with next
            self._coming[q].append(first)
        self._known.report(partition, swept.low)
        for first in self._taken[partition]:
            self._known.received(partition, first)
        self._taken[partition] = []
        self._known.advance()
        self.iteration = max(self.iteration, swept.clock)
        for name in ("prepares", "asks", "acknowledges", "held"):
            self.totals[name] += getattr(swept, name)
        self.delays += swept.delays

    def statistics(self) -> dict[str, Any]:
        """The counts under the names of the command line's `--stats`."""
        return {
            "prepares": self.totals["prepares"], "acknowledges": self.totals["acknowledges"],
            "prepare_messages": self.totals["asks"], "held": self.totals["held"],
            "delays": delay_table(self.delays),
        }  # fmt: skip


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


def delay_table(delays: NDArray[np.int64]) -> dict[str, int]:
    """Commits by delay in iterations, as statistics show them.

    >>> delay_table(np.array([5, 2, 0, 1]))
    {'0': 5, '1': 2, '4-7': 1}
    """
    names = ["0", "1", *(f"{2**k}-{2 ** (k + 1) - 1}" for k in range(1, len(delays)))]
    return {name: int(n) for name, n in zip(names, delays, strict=False) if n}
