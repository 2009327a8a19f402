"""Runs the cases of a suite, each in a process of its own with limits, and holds their figures."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from benchmarks import processes
from benchmarks.processes import Limits

Sizes = TypeVar("Sizes")

_LOOK = 0.5  # seconds between looks at memory


@dataclass(slots=True)
class CaseResult:
    """What one case measured: figures by name, each a list; or the problem that ended it.

    ``memory``: looks at it as (what was done by then, bytes by kind of process).
    ``others``: share of the machine's cores that other programs used meanwhile.
    """

    case: str
    figures: dict[str, list[float]] = field(default_factory=dict)
    problem: str | None = None
    edges: int = 0
    origin: int = 0
    others: float = 0.0
    seconds: float = 0.0
    peak: int = 0
    memory: list[tuple[float, dict[str, int]]] = field(default_factory=list)

    def of(self, name: str) -> list[float]:
        """The figures of a name; none where the case did not end well."""
        return [] if self.problem else self.figures.get(name, [])

    @property
    def wrong(self) -> bool:
        """Whether an answer was wrong."""
        return (self.problem or "").startswith("wrong")

    def plain(self) -> dict[str, Any]:
        """For JSON, without the looks at memory."""
        return {name: value for name, value in asdict(self).items() if name != "memory"}


@dataclass(slots=True)
class SuiteResults(Generic[Sizes]):
    """One run of a suite: where, how, and what each case measured."""

    machine: dict[str, Any]
    command: list[str]
    sizes: Sizes
    cases: dict[str, CaseResult] = field(default_factory=dict)

    def figures(self, case: str, name: str) -> list[float]:
        """What the case noted under the name, also before it failed; none beside a wrong answer."""
        result = self.cases.get(case)
        return [] if result is None or result.wrong else result.figures.get(name, [])

    def median(self, case: str, name: str) -> float | None:
        """None where there is no figure of that name."""
        figures = self.figures(case, name)
        return statistics.median(figures) if figures else None

    def ratio(self, case: str, name: str, beside: str, other: str | None = None) -> float | None:
        """Of the medians of two cases; ``other``: the name of the second figure."""
        ours, theirs = self.median(case, name), self.median(beside, other or name)
        return None if ours is None or not theirs else ours / theirs

    def percentile(self, case: str, name: str, percent: float) -> float | None:
        """Of the figures of a name; None where there are none."""
        figures = self.figures(case, name)
        return float(np.percentile(figures, percent)) if figures else None

    def problems(self) -> list[str]:
        """What did not end well, in words."""
        return [f"{name}: {case.problem}" for name, case in self.cases.items() if case.problem]

    def others(self) -> float:
        """The largest share of the cores that other programs used during any case."""
        return max([0.0, *(case.others for case in self.cases.values())])

    def plain(self) -> dict[str, Any]:
        """All but what the document says: for JSON."""
        sizes: Any = self.sizes
        cases = {name: case.plain() for name, case in self.cases.items()}
        return {"sizes": asdict(sizes), "cases": cases}


def run_case(
    suite: str,
    case: str,
    sizes: Any,
    cache: Path,
    scratch: Path,
    limits: Limits,
    say: Callable[[str], None],
    watch_memory: bool = False,
) -> CaseResult:
    """Run a case; what it noted before a limit ended it stays in the figures.

    Args:
        suite: the module with its function ``run_case`` (see `benchmarks.case_process`).
        sizes: a dataclass, handed to that function.
    """
    result, began = CaseResult(case), time.monotonic()
    scratch.mkdir(parents=True, exist_ok=True)
    events, done, next_look = scratch / "events.jsonl", False, 0.0
    job = {
        "suite": suite, "case": case, "sizes": asdict(sizes), "cache": str(cache),
        "scratch": str(scratch), "events": str(events),
    }  # fmt: skip

    def hear(line: str) -> None:
        nonlocal done
        done = _hear(result, json.loads(line)) or done

    def look(session: int) -> bool:
        nonlocal next_look
        passed = time.monotonic() - began
        if passed >= next_look and not result.problem:
            next_look = passed + _LOOK
            members = processes.members(session)
            total = processes.held(members).total
            result.peak = max(result.peak, total)
            result.problem = limits.exceeded(passed, total)
            if watch_memory:
                at = result.figures.get("done", [0.0])[-1]
                result.memory.append((at, processes.held_by_kind(members, session)))
        return result.problem is not None

    command = [sys.executable, "-m", "benchmarks.case_process"]
    status = processes.follow(command, job, events, scratch / "log", hear, look)
    if not done and not result.problem:
        result.problem = f"its process ended with status {status}"
    result.seconds = time.monotonic() - began
    say(f"{case}: {result.problem or 'done'} ({result.seconds:.0f} s)")
    return result


def _hear(result: CaseResult, event: dict[str, Any]) -> bool:
    """Take in an event; whether it is the last."""
    match event["event"]:
        case "ready":
            result.edges, result.origin = event["edges"], event["origin"]
        case "figure":
            result.figures.setdefault(event["name"], []).append(event["value"])
        case "failed":
            result.problem = event["why"]
        case "end":
            result.others = event["others"]
            return True
    return False
