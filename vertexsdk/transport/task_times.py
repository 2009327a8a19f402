"""When a task began and ended, as its driver sees it: a few numbers before every report.

The times are seconds since the epoch, so that those of tasks and of the driver can be compared; on
several hosts as well as their clocks agree.
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

__all__ = ["Clock", "HopTimes", "Stamp"]

_FORM = struct.Struct(">5d")
_ran = False


@dataclass(frozen=True, slots=True)
class Stamp:
    """The times of one task.

    Attributes:
        born: when its worker process was made, or the daemon above it if that is younger than
            its first task; 0 where the worker has run a task before.
        began: when Spark called the task's function.
        imported: seconds for modules which the worker imported for it, as for its first task.
        decoded: when it had its input.
        ended: when its output was ready.
    """

    born: float
    began: float
    imported: float
    decoded: float
    ended: float

    def before(self, report: bytes) -> bytes:
        """The report with the stamp before it."""
        times = self.born, self.began, self.imported, self.decoded, self.ended
        return _FORM.pack(*times) + report

    @classmethod
    def split(cls, stamped: bytes) -> tuple[Stamp, bytes]:
        """A stamp and the report behind it."""
        return cls(*_FORM.unpack_from(stamped)), stamped[_FORM.size :]


@dataclass(frozen=True, slots=True)
class HopTimes:
    """When the driver began a hop, handed it to Spark and had its end; the stamps of its tasks."""

    began: float
    submitted: float
    ended: float
    stamps: list[Stamp]

    @property
    def slowest(self) -> int:
        """The number of the task which ended last."""
        return max(range(len(self.stamps)), key=lambda k: self.stamps[k].ended)


class Clock:
    """What becomes a task's stamp."""

    def __init__(self) -> None:
        self.began = self.decoded = time.time()
        self._born, self._modules, self._imported = _born(), len(sys.modules), 0.0

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """Count the block if this task has imported modules by then."""
        began = time.time()
        yield
        if len(sys.modules) > self._modules:
            self._imported += time.time() - began

    def stamp(self) -> Stamp:
        """The task ends now."""
        return Stamp(self._born, self.began, self._imported, self.decoded, time.time())


def _born() -> float:
    """When this process was made, the first time this is asked; then 0."""
    global _ran
    if _ran:
        return 0.0
    _ran = True
    try:
        me, parent = (_stat(name) for name in ("self", str(os.getppid())))
        daemon = b"pyspark" in Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
        up = float(Path("/proc/uptime").read_text().split()[0])
        ticks = min(me, parent) if daemon else me
        return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):  # no Linux
        return 0.0


def _stat(process: str) -> int:
    """When a process started, in clock ticks since boot."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
