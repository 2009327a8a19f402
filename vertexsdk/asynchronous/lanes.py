"""Partitions each at its own pace: for when one is slower than the others, and they would wait.

A hop of all partitions ends with the slowest. Here each runs in a job of its own, as soon as it has
been sent something, or the frontier lets it go on; so within the bound nobody waits for anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from vertexsdk.asynchronous.rounds import Rounds
from vertexsdk.errors import RunError

__all__ = ["Blocks", "Inboxes", "Pace", "side_by_side"]

Blocks = list[tuple[int, bytes]]
Inboxes = list[Blocks]

_SLOWER = 2.5  # times the median of the others from which a partition counts as slow
_LEAST = 0.1  # seconds of a hop below which it does not matter
_HOPS = 3  # in a row


@dataclass
class Pace:
    """How long partitions take for their hops; whether one keeps the others waiting.

    Attributes:
        seconds: that a partition takes for a hop, as a rule.
    """

    partitions: int
    seconds: float = 0.05
    _slow: int = -1
    _times: int = 0
    _factors: list[float] = field(default_factory=list)

    def see(self, reports: Sequence[Any]) -> None:
        """Take in the reports of a hop of all partitions."""
        took = [r.seconds.get("kernel", 0.0) for r in reports]
        slow = max(range(len(took)), key=took.__getitem__)
        others = median(took[:slow] + took[slow + 1 :])
        if took[slow] < _LEAST or took[slow] < _SLOWER * others:
            self._times = 0
            return
        self._times = self._times + 1 if slow == self._slow else 1
        self._slow = slow
        self._factors.append(took[slow] / max(others, 1e-3))
        self.seconds = max(others, 0.02)

    @property
    def uneven(self) -> bool:
        """Whether the same partition was slow for some hops in a row."""
        return self._times >= _HOPS

    @property
    def described(self) -> dict[str, float]:
        """The slow partition, and how many times as long as the others it took."""
        return {"partition": self._slow, "times": median(self._factors[-_HOPS:])}


def side_by_side(
    rounds: Rounds,
    inboxes: Inboxes,
    run: Callable[[int, int, int, Blocks], tuple[Any, Blocks]],
    done: Callable[[Any, int], bool],
) -> None:
    """Run partitions until the loop ends.

    Args:
        rounds: of the loop.
        inboxes: what was sent to each partition and not taken in.
        run: of (partition, frontier, bound, blocks); returns its report and what it sends. Called
            in several threads, once at a time for a partition.
        done: takes a report, and the largest number of hops that any partition has made; false
            ends it all.

    Raises:
        RunError: what `run` or `done` raised.
    """
    partitions = len(inboxes)
    last: list[int] = [-1] * partitions  # what each was told
    more = [True] * partitions
    hops = [0] * partitions
    running: dict[Future[tuple[Any, Blocks]], int] = {}
    with ThreadPoolExecutor(partitions, "vertexsdk-lane") as pool:
        try:
            while True:
                if rounds.reason is None:
                    busy = set(running.values())
                    for p in range(partitions):
                        moved = not rounds.idle(p) and (more[p] or rounds.told > last[p])
                        if p in busy or not (inboxes[p] or moved):
                            continue
                        last[p], room = rounds.start(p)
                        blocks, inboxes[p] = inboxes[p], []
                        running[pool.submit(run, p, last[p], room, blocks)] = p
                if not running:
                    if rounds.reason is None:
                        raise RunError("no partition can go on: run with another delay bound")
                    return
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    p = running.pop(future)
                    report, sent = future.result()
                    for q, block in sent:
                        inboxes[q].append((p, block))
                    if report.swept is not None:
                        rounds.finish(p, report.swept)
                        more[p] = report.swept.more
                    hops[p] += 1
                    if not done(report, max(hops)) and rounds.reason is None:
                        return
        finally:
            wait(running)
