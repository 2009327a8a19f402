"""When the master moves vertices between partitions, and how much from which to which.

Paper, section 5.1: the master watches the load of processors; when it is heavily unbalanced, the
computation stops, the partitioning is modified, and the computation goes on from the last
terminated iteration. Here is the decision alone: loads in, transfers out, no I/O.

The load of a partition in a hop is the number of vertices which gathered and of messages which
they sent. It is heavily unbalanced when over the last hops the heaviest partition had more than
`limit` times the mean; with two partitions, where it cannot have more than twice the mean, three
quarters of all. A move is worth it if it saves in as many hops as there were what it costs; where
partitions take turns on few cores, a balanced load saves the less. A move that helped nothing, as
where a single vertex is the load, is the last one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Balance", "Balancer", "Move", "Transfer", "imbalance"]

_SMALL = 0.05  # of the mean load: what is not worth a transfer
_HELPED = 0.9  # of the imbalance before: what is left after a move that helped


@dataclass(frozen=True, slots=True)
class Balance:
    """What the decision goes by.

    Attributes:
        hops: over which the load is looked at.
        limit: the heaviest partition's load over the mean, above which it is unbalanced.
        overhead: seconds that the hops of a move take.
        per_unit: seconds that a move takes for each vertex and edge of the graph.
    """

    hops: int = 4
    limit: float = 2.0
    overhead: float = 0.5
    per_unit: float = 3e-7


@dataclass(frozen=True, slots=True)
class Transfer:
    """A share (0 to 1) of what `source` has is to go to `target`."""

    source: int
    target: int
    share: float


@dataclass(frozen=True, slots=True)
class Move:
    """A hop's orders to move vertices; see `moving` for the stages.

    `ids` (int64[k]) are to be in the partitions `to` (int32[k]); `key` is the resident key of the
    placement that this makes.
    """

    stage: str
    version: int
    num_vertices: int
    ids: NDArray[np.int64]
    to: NDArray[np.int32]
    key: str


@dataclass
class Balancer:
    """What the master knows of the load of a loop.

    Args:
        policy: what to go by.
        partitions: how many.
        size: vertices and edges of the graph.
        slots: how many partitions run at the same time.

    Attributes:
        moves: one record per move: the `iteration` after which, `vertices` moved, the imbalance
            `before` and `after` it (None until enough hops have passed), `seconds` it took.
    """

    policy: Balance
    partitions: int
    size: int
    slots: int = 1 << 30
    moves: list[dict[str, Any]] = field(default_factory=list)
    seen: int = 0
    stopped: bool = False

    def __post_init__(self) -> None:
        self._window: deque[tuple[Sequence[int], float]] = deque(maxlen=self.policy.hops)

    @property
    def limit(self) -> float:
        """The imbalance above which vertices are moved."""
        return min(self.policy.limit, (1 + self.partitions) / 2)

    @property
    def imbalance(self) -> float:
        """The heaviest partition's load over the mean, in the last hops; 1 is balanced."""
        return imbalance(self._loads())

    def saw(self, loads: Sequence[int], seconds: float) -> list[Transfer]:
        """Take in a hop: loads by partition, seconds of the slowest; return what to move."""
        self.seen += 1
        self._window.append((tuple(loads), seconds))
        if len(self._window) < self.policy.hops:
            return []
        found = self.imbalance
        if self.moves and self.moves[-1]["after"] is None:
            self.moves[-1]["after"] = found
            self.stopped |= found > _HELPED * self.moves[-1]["before"]
        if self.stopped or found <= self.limit:
            return []
        taken = min(s for _, s in self._window)  # the first hop of a kernel compiles it
        left = self.partitions / min(self.partitions, self.slots) / found
        saved = (1 - left) * taken * self.seen
        if saved < self.policy.overhead + self.policy.per_unit * self.size:
            return []
        return _transfers(self._loads())

    def moved(self, iteration: int, vertices: int, seconds: float = 0.0) -> None:
        """Take note that vertices were moved; of none, so that no other move is tried."""
        if vertices:
            self.moves.append(
                {
                    "iteration": iteration,
                    "vertices": vertices,
                    "before": self.imbalance,
                    "after": None,
                    "seconds": seconds,
                }
            )
        self.stopped |= not vertices
        self._window.clear()

    def _loads(self) -> list[int]:
        if not self._window:
            return [0] * self.partitions
        return [sum(x) for x in zip(*(loads for loads, _ in self._window), strict=True)]


def imbalance(loads: Sequence[int]) -> float:
    """The largest load over the mean; 1 where there is none."""
    return max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0


def _transfers(loads: Sequence[int]) -> list[Transfer]:
    """From the heaviest to the lightest, until none is far above the mean or none below."""
    mean = sum(loads) / len(loads)
    above = {p: x - mean for p, x in enumerate(loads) if x > mean}
    below = {p: mean - x for p, x in enumerate(loads) if x < mean}
    found = []
    while above and below:
        source = max(above, key=lambda p: (above[p], -p))
        target = max(below, key=lambda p: (below[p], -p))
        amount = min(above[source], below[target])
        if amount < _SMALL * mean:
            break
        found.append(Transfer(source, target, amount / loads[source]))
        for side, p in ((above, source), (below, target)):
            side[p] -= amount
            if side[p] < _SMALL * mean:
                del side[p]
    return found
