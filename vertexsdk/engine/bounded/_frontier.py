"""The master's side: which iterations have terminated, and has the loop? Tornado, 4.3 and 4.4."""

from __future__ import annotations

from collections import Counter


class Frontier:
    """τ of one loop, from what its partitions report. Pure: facts in, τ out.

    Iteration t has terminated when no vertex can commit in it any more: none has something to do
    since t or earlier, and every update made in t or earlier has reached its consumer. The paper
    says the first only; without the second a vertex could commit in t+1 before it has all updates
    of t, and B = 1 would not be synchronous.

    A vertex which commits in `last` = τ+B-1 asks nobody. So τ and `last` stay where they are while
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
        """Whether the loop has terminated: nothing to do, and no update in transit (4.3)."""
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
        before = self.tau, self.last
        if not self._asked_nobody():
            lows = [low for low in self.lows if low is not None]
            lows += [iteration for _, iteration in self.transit]
            self.tau = max(self.tau, min(lows, default=self.tau))
            heard = [self.tau if tau is None else tau for tau in self.heard]
            self.last = max(self.last, min(heard) + self.bound - 1)
        return (self.tau, self.last) != before

    def _asked_nobody(self) -> bool:
        """Whether an update that needed no PREPARE is in transit."""
        return any(iteration >= self.last for _, iteration in self.transit)
