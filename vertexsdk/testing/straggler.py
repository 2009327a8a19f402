"""A partition that is slow, as one on a busy or an old machine is."""

from __future__ import annotations

import time
from typing import Any

from vertexsdk.plan import Plan
from vertexsdk.task import HopTask

__all__ = ["SlowTask"]


class SlowTask(HopTask):
    """The task of every hop, which takes `times` as long on one partition.

    Put it in the place of `vertexsdk.loops.HopTask`, with `functools.partial`.

    Args:
        partition: the slow one.
        times: how many times as long it takes.
        least: seconds which its own work is taken to last at least.
    """

    def __init__(
        self, plan: Plan, partition: int = 0, times: float = 4.0, least: float = 0.02
    ) -> None:
        super().__init__(plan)
        self.partition, self.times, self.least = partition, times, least

    def _run(self, processor: Any, *args: Any) -> None:
        began = time.perf_counter()
        super()._run(processor, *args)
        self._wait(processor, began)

    def _sweep(self, processor: Any, *args: Any) -> list[tuple[int, bytes]]:
        began = time.perf_counter()
        sent = super()._sweep(processor, *args)
        self._wait(processor, began)
        return sent

    def _wait(self, processor: Any, began: float) -> None:
        if processor.partition == self.partition:
            own = max(time.perf_counter() - began, self.least)
            time.sleep((self.times - 1) * own)
