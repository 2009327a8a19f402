"""The cases: each is one function, run in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.case_process import CaseProcess
from benchmarks.snapshots.day import day
from benchmarks.snapshots.intervals import intervals
from benchmarks.snapshots.losses import losses
from benchmarks.snapshots.pauses import pauses
from benchmarks.snapshots.restoring import restoring
from benchmarks.snapshots.sizes import Sizes

__all__ = ["CASES"]

CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "intervals-2": partial(intervals, 2, True),
    "intervals-4": partial(intervals, 4, True),
    "intervals-inprocess": partial(intervals, 2, False),
    "pause-1": partial(pauses, 1),
    "pause-2": partial(pauses, 2),
    "restore": restoring,
    "loss": losses,
    "day": day,
}
