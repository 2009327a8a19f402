"""What a child process tells its parent, and how busy other programs keep the machine meanwhile."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from benchmarks import processes


class Events:
    """The child's end of the protocol: one JSON object per line, each with its kind and time."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("a")  # noqa: SIM115  (lives as long as the process)

    def tell(self, kind: str, **facts: object) -> None:
        """Append one event and hand it to the operating system at once."""
        self._file.write(json.dumps({"event": kind, "at": time.time(), **facts}) + "\n")
        self._file.flush()


_GRAIN = 0.03  # seconds by which the kernel's counts, of hundredths for each process, may be off


class Others:
    """What share of the machine's cores other programs use, from now on."""

    def __init__(self) -> None:
        self._from = self._now()

    def share(self) -> float:
        """0 on a quiet machine, 1 when others keep all cores busy."""
        clock, foreign = (b - a for a, b in zip(self._from, self._now(), strict=True))
        return max(0.0, foreign - _GRAIN) / (clock * (os.cpu_count() or 1))

    @staticmethod
    def _now() -> tuple[float, float]:
        harness = os.getppid()  # which samples memory often, while that is measured
        mine = processes.spent([*processes.members(os.getsid(0)), harness])
        return time.perf_counter(), processes.busy() - mine
