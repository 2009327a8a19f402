"""One partition at a time is slower than the others, and when each of them was at work.

    with straggling(Straggler(4, 4.0, log)):
        run(...)                      # hops of one of 4 partitions take four times as long
    busy = read_log(log)              # the seconds at which each task began and ended

Nothing is computed in the time that is added, so a core is free in it.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from vertexsdk.engine import loop_engine
from vertexsdk.engine.iterations import Iterations
from vertexsdk.engine.loop_task import LoopTask
from vertexsdk.engine.run_partition import RunPartition


@dataclass(frozen=True, slots=True)
class Straggler:
    """Who is slow: one partition after the other, in turns.

    Attributes:
        partitions: how many there are.
        times: how much longer; 1 is as long as they take.
        log: a file of this host to which every task adds a line; see `read_log`.
        least: seconds that its own work is taken to last at least, as what Spark does around it
            is slow there too.
        turn: seconds after which the next partition is slow, by the clock `time.monotonic`.
    """

    partitions: int
    times: float
    log: str
    least: float = 0.0
    turn: float = 1.0

    def slow_at(self, now: float) -> int:
        """The partition that is slow at a time.

        >>> [Straggler(3, 4.0, "log").slow_at(now) for now in (0.5, 1.0, 2.9, 3.0)]
        [0, 1, 2, 0]
        """
        return int(now / self.turn) % self.partitions


@dataclass(frozen=True, slots=True)
class Spell:
    """A task's time at work: seconds of the clock `time.monotonic`, which a host has one of."""

    partition: int
    began: float
    ended: float


class SlowIterations(Iterations):
    """Iterations which take longer where their partition is the straggler."""

    straggler: Straggler

    def _compute(self, *args: Any) -> Any:
        with self._slowed():
            return super()._compute(*args)

    def _sweep(self, *args: Any) -> Any:
        with self._slowed():
            return super()._sweep(*args)

    def _step(self, *args: Any) -> Any:
        with self._slowed():
            return super()._step(*args)

    @contextlib.contextmanager
    def _slowed(self) -> Iterator[None]:
        """Log the work of a partition, which takes longer if it is the straggler."""
        partition, straggler = self.processor.partition, self.straggler
        began = time.monotonic()
        yield
        if partition == straggler.slow_at(began):
            own = max(time.monotonic() - began, straggler.least)
            time.sleep((straggler.times - 1) * own)
        with Path(straggler.log).open("a") as log:
            log.write(json.dumps([partition, began, time.monotonic()]) + "\n")


class SlowTask(LoopTask):
    """A task with `SlowIterations`."""

    def __init__(self, straggler: Straggler, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.straggler = straggler

    def _begin_run(self, partition: int) -> RunPartition:
        part = super()._begin_run(partition)
        run = part.iterations
        part.iterations = SlowIterations(part.processor, run.master, run.choice)
        part.iterations.straggler = self.straggler
        return part


@contextlib.contextmanager
def straggling(straggler: Straggler) -> Iterator[None]:
    """Have runs that begin in this block run `SlowTask`."""
    with mock.patch.object(loop_engine, "LoopTask", partial(SlowTask, straggler)):
        yield


def read_log(log: str) -> list[Spell]:
    """When tasks were at work, in the order in which they ended."""
    return [Spell(*json.loads(line)) for line in Path(log).read_text().splitlines()]


def idle(spells: list[Spell]) -> float:
    """The share of the time, from the first task of any partition to the last, 0 to 1, in which
    partitions were not at work; one that is slow is at work as long as it takes."""
    number = len({s.partition for s in spells})
    whole = max(s.ended for s in spells) - min(s.began for s in spells)
    return 1 - sum(s.ended - s.began for s in spells) / (number * whole)
