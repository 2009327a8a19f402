"""Times at which tasks began and ended: a few numbers that precede every report.

Times are seconds since the epoch, so that those of tasks and of the driver can be compared, as far
as the clocks of their hosts agree.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from vertexsdk.arrays.shared_memory import start_time

_FORM = struct.Struct(">6d")
_ran = False


class Stamp(NamedTuple):
    """The times of one task.

    Attributes:
        born: when its worker process started, or the daemon that forked it if the worker is the
            daemon's first; 0 if the worker has run a task before.
        began: when Spark called the task's function.
        imported: seconds to import modules, mostly in a worker's first task.
        decoded: when its input was read.
        ended: when its output was complete.
        worked: CPU seconds of its thread; 0 where that is not counted.
    """

    born: float
    began: float
    imported: float
    decoded: float
    ended: float
    worked: float

    def prepend_to(self, report: bytes) -> bytes:
        """Return the report behind the packed stamp."""
        return _FORM.pack(*self) + report

    @classmethod
    def split(cls, stamped: bytes) -> tuple[Stamp, bytes]:
        """Return the stamp and the report of `prepend_to`."""
        return cls(*_FORM.unpack_from(stamped)), stamped[_FORM.size :]


@dataclass(frozen=True, slots=True)
class HopTimes:
    """The times of one hop.

    Attributes:
        began: when the driver began to prepare it.
        submitted: when the driver submitted it to Spark.
        ended: when the driver had all reports.
        stamps: the stamps of its tasks, in order of partitions.
    """

    began: float
    submitted: float
    ended: float
    stamps: list[Stamp]

    @property
    def slowest(self) -> int:
        """The number of the task that ended last."""
        return max(range(len(self.stamps)), key=lambda k: self.stamps[k].ended)


class Clock:
    """Takes the times of the current task."""

    def __init__(self) -> None:
        self.began = self.decoded = time.time()
        self._born, self._modules, self._imported = _born(), len(sys.modules), 0.0
        self._worked = 0.0

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Count the CPU time of the block."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._worked += time.thread_time() - began

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """Count the block as import time if it imported modules."""
        began = time.time()
        yield
        if len(sys.modules) > self._modules:
            self._imported += time.time() - began

    def stamp(self) -> Stamp:
        """Return the stamp of a task that ends now."""
        times = self._born, self.began, self._imported, self.decoded, time.time()
        return Stamp(*times, self._worked)


def _born() -> float:
    """Return the time at which this process started, at the first call; 0 at later calls."""
    global _ran
    if _ran:
        return 0.0
    _ran = True
    try:
        me, parent = start_time(os.getpid()), start_time(os.getppid())
        daemon = b"pyspark" in Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
        up = float(Path("/proc/uptime").read_text().split()[0])
        ticks = min(me, parent) if daemon else me
        return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):  # no Linux
        return 0.0
