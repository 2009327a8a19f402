"""The driver's side of asynchronous iterations: which have terminated, and what a hop is told.

Iteration i has terminated when no vertex can commit in it any more: all partitions have reported
past it, and no update that was committed before it is on its way (section 4.3). The frontier is the
first one that has not. Partitions run one after the other, side by side, or some of them more often
than others: a partition is never told a later frontier than one that is still running was told, so
what it takes for the bound's last iteration is the last one for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vertexsdk.algebra import Algebra
from vertexsdk.asynchronous.sweeps import Swept
from vertexsdk.master import Master, Progress, combine_aggregates

__all__ = ["Rounds", "delay_table", "end_block"]


@dataclass
class Rounds:
    """What the driver knows of every partition after a synchronous iteration.

    Attributes:
        partitions, bound: how many; the delay bound.
        limit: the last iteration to run, or None.
        iteration: the last iteration in which any partition has swept.
    """

    partitions: int
    bound: int
    limit: int | None = None
    first: int = 1
    iteration: int = 0
    totals: Counter[str] = field(default_factory=Counter)
    delays: np.ndarray = field(default_factory=lambda: np.zeros(32, np.int64))

    def __post_init__(self) -> None:
        self.iteration = self.first - 1
        self._low: list[int | None] = [self.first] * self.partitions
        self._coming: list[int | None] = [None] * self.partitions
        self._told: dict[int, int] = {}

    @property
    def frontier(self) -> int | None:
        """The first iteration that has not terminated; None when there is nothing left to do."""
        coming = [first + 1 for first in self._coming if first is not None]
        return min([*(low for low in self._low if low is not None), *coming], default=None)

    @property
    def reason(self) -> str | None:
        """Why the loop has ended; None while it has not."""
        frontier = self.frontier
        if frontier is None:
            return "quiet"
        return "max_iterations" if self.limit is not None and frontier > self.limit else None

    @property
    def told(self) -> int | None:
        """The frontier that a partition which starts now is told; None: nothing is left to do."""
        frontier = self.frontier
        return None if frontier is None else min([frontier, *self._told.values()])

    def idle(self, partition: int) -> bool:
        """Whether a partition has reported that it has nothing left to do."""
        return self._low[partition] is None

    def start(self, partition: int) -> tuple[int, int]:
        """A partition runs, with all that was sent to it: its frontier, and bound from there."""
        told = self.told
        assert told is not None
        self._told[partition] = told
        coming, low = self._coming[partition], self._low[partition]
        self._coming[partition] = None
        if coming is not None:
            self._low[partition] = coming + 1 if low is None else min(low, coming + 1)
        elif low is None:
            self._low[partition] = told
        room = self.bound if self.limit is None else min(self.bound, self.limit - told + 1)
        return told, room

    def finish(self, partition: int, swept: Swept) -> None:
        """It has run."""
        del self._told[partition]
        self._low[partition] = swept.low
        for q, first in swept.sent.items():
            known = self._coming[q]
            self._coming[q] = first if known is None else min(known, first)
        self.iteration = max(self.iteration, swept.clock)
        for name in ("prepares", "asks", "acknowledges", "held"):
            self.totals[name] += getattr(swept, name)
        self.delays += swept.delays


def end_block(
    master: Master, reports: list[Any], algebras: Mapping[str, Algebra], iteration: int
) -> bool:
    """Take in a block of sweeps of all partitions; return whether there is another one to run.

    The rule of convergence sees the first sweep, which is as a synchronous iteration is;
    aggregators read the last one.
    """
    first = Progress(aggregates=master.identity())
    reading: dict[str, Any] = master.identity()
    for report in reports:
        first.add(report.history[0], algebras)
        reading = combine_aggregates(reading, report.swept.reading, algebras)
    master.advance(first)
    master.aggregates, master.iteration = reading, iteration + 1
    return master.reason is None


def delay_table(delays: np.ndarray) -> dict[str, int]:
    """Commits by delay in iterations, as statistics show them.

    >>> delay_table(np.array([5, 2, 0, 1]))
    {'0': 5, '1': 2, '4-7': 1}
    """
    names = ["0", "1", *(f"{2**k}-{2 ** (k + 1) - 1}" for k in range(1, len(delays)))]
    return {name: int(n) for name, n in zip(names, delays, strict=False) if n}
