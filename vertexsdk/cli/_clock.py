"""Where the seconds of a command go, from its start to its last line."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

OWN = {
    "import": "Python modules are imported: Numba, NumPy, Arrow",
    "check": "the program is imported, and all arguments are checked",
    "spark": "the Spark session is started: a Java process",
    "write": "the output file is written",
    "plan": "the edge files are looked at",
    "other": "everything else",
}
_GROUPS = {
    "importing": ("import",),
    "starting Spark": ("spark",),
    "loading": ("plan", "load", "schedule", "start", "prepare", "decode", "open"),
    "compiling": ("compile",),
    "iterating": ("kernel", "encode", "results", "driver", "changes", "save"),
    "storing": ("claim", "commit", "write"),
    "the rest": ("check", "rest", "other"),
}


class CommandClock:
    """The time since a command began, by phase."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return time.perf_counter() - self._began

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count what the block takes as this phase of `OWN`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            before = self._seconds.get(phase, 0.0)
            self._seconds[phase] = before + time.perf_counter() - began

    def split(self, run: Mapping[str, float]) -> dict[str, Any]:
        """Return `total_seconds` until now, and `spent`, the seconds by phase, which add up to it.

        Args:
            run: the seconds by phase of the run itself, see `engine.phases`.
        """
        total = self.seconds
        spent = {**run, **{name: self._seconds.get(name, 0.0) for name in OWN}}
        spent["other"] = max(total - sum(spent.values()), 0.0)
        return {"total_seconds": total, "spent": spent}

    def summary(self, spent: Mapping[str, float]) -> str:
        """Return the phases in a few words: those that took a tenth of a second or more."""
        groups = {name: sum(spent.get(p, 0.0) for p in g) for name, g in _GROUPS.items()}
        largest = max(groups, key=lambda name: groups[name])
        return ", ".join(
            f"{name} {seconds:.1f}"
            for name, seconds in groups.items()
            if seconds >= 0.05 or name == largest
        )

    def table(self, spent: Mapping[str, float]) -> list[str]:
        """Return a line for each phase, with what is done in it."""
        from vertexsdk.engine.phases import PHASES

        words = {**PHASES, "rest": "of the run: between the phases", **OWN}
        return [
            f"  {name:9}{seconds:8.3f} s  {words.get(name, '')}"
            for name, seconds in spent.items()
            if seconds >= 0.0005
        ]
