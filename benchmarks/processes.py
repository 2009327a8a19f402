"""The processes of one child and what they hold in memory, read from /proc (Linux).

A child is started in a session of its own. Spark's JVM and its Python workers stay in that session,
whatever process groups they make, so the session is the unit that is watched and ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes in memory: ``total`` of all processes (resident), ``workers`` of Spark's Python workers
    (proportional share, so that what they map in common counts once)."""

    total: int
    workers: int


def members(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                # The name in parentheses may hold blanks: the fields follow the last one.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(int(entry.name))
    return found


def held(processes: list[int], *, workers: bool = False) -> Held:
    """What the processes hold now; ``workers`` asks for their share too, which costs more."""
    total = share = 0
    page = os.sysconf("SC_PAGE_SIZE")
    for process in processes:
        folder = Path("/proc") / str(process)
        with contextlib.suppress(OSError, IndexError, ValueError):
            total += int((folder / "statm").read_text().split()[1]) * page
            if workers and b"pyspark" in (folder / "cmdline").read_bytes().split(b"\0java")[0]:
                if b"java" in (folder / "comm").read_bytes():
                    continue
                lines = (folder / "smaps_rollup").read_text().splitlines()
                share += sum(int(x.split()[1]) << 10 for x in lines if x.startswith("Pss:"))
    return Held(total, share)


def end(session: int) -> None:
    """End every process of a session which this harness started."""
    for process in members(session):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def available() -> int:
    """Bytes of memory that can be had now without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
