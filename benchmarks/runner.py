"""Runs the cases of a suite, each in a process of its own with limits, and holds their figures.

The process is ``python -m benchmarks.runner``: it has its job as JSON on standard input, and
appends events, lines of JSON, to a file. The job names a module with a ``SUITE``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import statistics
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from benchmarks import cells, processes
from benchmarks.processes import Events, Limits, Others
from benchmarks.timing import Result, timed

Sizes = TypeVar("Sizes")

_LOOK = 0.5  # seconds between looks at memory


class Wrong(Exception):
    """An answer differs from the reference; the message says how."""


class Unavailable(Exception):
    """A system cannot be had here; the message says why, for the table."""


@dataclass(slots=True)
class CaseResult:
    """What one case measured: figures by name, each a list; or the problem that ended it.

    ``memory``: looks at it as (what was done by then, bytes by kind of process). ``told``: what
    a case knows besides figures.
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
    told: list[dict[str, Any]] = field(default_factory=list)

    def of(self, name: str) -> list[float]:
        """The figures of a name; none where the case did not end well."""
        return [] if self.problem else self.figures.get(name, [])

    @property
    def wrong(self) -> bool:
        """Whether an answer was wrong."""
        return (self.problem or "").startswith("wrong")

    def plain(self) -> dict[str, Any]:
        """For JSON, figures and how it went."""
        left_out = ("memory", "told")
        return {name: value for name, value in asdict(self).items() if name not in left_out}


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

    def seconds(self, case: str, name: str) -> str:
        """The median in a table's cell, and so on: see `benchmarks.cells`."""
        return cells.seconds(self.median(case, name))

    def number(self, case: str, name: str) -> str:
        return cells.number(self.median(case, name))

    def scaled(self, case: str, name: str, factor: float) -> str:
        return cells.scaled(self.median(case, name), factor)

    def middle(self, case: str, name: str) -> str:
        return cells.middle(self.figures(case, name))

    def spread(self, case: str, name: str) -> str:
        return cells.spread(self.figures(case, name))

    def times(self, case: str, name: str, beside: str, other: str | None = None) -> str:
        return cells.times(self.ratio(case, name, beside, other))

    def problems(self) -> list[str]:
        """What did not end well, in words."""
        return [f"{name}: {case.problem}" for name, case in self.cases.items() if case.problem]

    def others(self) -> float:
        """The largest share of the cores that other programs used during any case."""
        return max([0.0, *(case.others for case in self.cases.values())])

    def plain(self) -> dict[str, Any]:
        """All but what the document says: for JSON."""
        sizes: Any = self.sizes
        named = {name: _name(value) for name, value in asdict(sizes).items()}
        return {"sizes": named, "cases": {name: case.plain() for name, case in self.cases.items()}}


def _name(value: Any) -> Any:
    """A file's name in place of its path, which is of this machine."""
    if isinstance(value, tuple):
        return [_name(each) for each in value]
    return Path(value).name if isinstance(value, str) and os.path.isabs(value) else value


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
        suite: the module with its function ``run_case``.
        sizes: a dataclass, handed to that function.
    """
    result, began = CaseResult(case), time.monotonic()
    scratch.mkdir(parents=True, exist_ok=True)
    events, done, next_look = scratch / "events.jsonl", False, 0.0
    job = {
        "suite": suite, "case": case, "sizes": asdict(sizes), "cache": str(cache),
        "scratch": str(scratch), "events": str(events), "memory": limits.memory,
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

    command = [sys.executable, "-m", "benchmarks.runner"]
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
        case "told":
            result.told.append(event["value"])
        case "failed":
            result.problem = event["why"]
        case "end":
            result.others = event["others"]
            return True
    return False


class Notes(ABC):
    """Takes in the figures of a case."""

    @abstractmethod
    def note(self, name: str, value: float) -> None:
        """Tell a figure; it joins the list of its name."""

    def timed(self, name: str, work: Callable[[], Result]) -> Result:
        """Do something, note its seconds if there is a name, and return its result."""
        seconds, result = timed(work)
        if name:
            self.note(name, seconds)
        return result


class CaseProcess(Notes):
    """The job, and the way to tell its parent."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.case: str = job["case"]
        self.cache, self.scratch = Path(job["cache"]), Path(job["scratch"])
        self.memory: int = job["memory"]
        self._sizes: dict[str, Any] = job["sizes"]
        self.events = Events(job["events"])

    def sizes(self, kind: Any) -> Any:
        """The sizes as the suite's dataclass, which has tuples where JSON has lists."""
        plain = {k: tuple(v) if isinstance(v, list) else v for k, v in self._sizes.items()}
        return kind(**plain)

    def note(self, name: str, value: float) -> None:
        """Tell a figure; it joins the list of its name."""
        self.events.tell("figure", name=name, value=float(value))

    def tell(self, value: dict[str, Any]) -> None:
        """Tell what is no figure, as JSON has it."""
        self.events.tell("told", value=value)

    def ready(self, edges: int = 0, origin: int = 0) -> None:
        """Tell how large the graph is, and where paths begin."""
        self.events.tell("ready", edges=edges, origin=origin)

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Watches how busy the machine is with other things; at its end the case is done."""
        load = Others()
        yield
        self.events.tell("end", others=load.share())


def main() -> None:
    """Do the job. Every ending is told as an event, an error too."""
    job: dict[str, Any] = json.load(sys.stdin)
    process = CaseProcess(job)
    try:
        module = importlib.import_module(job["suite"])
        getattr(module, "SUITE", module).run_case(process)
    except Wrong as wrong:
        process.events.tell("failed", why=f"wrong answer: {wrong}")
    except Unavailable as reason:
        process.events.tell("failed", why=f"not available: {' '.join(str(reason).split())}")
    except Exception as error:  # told to the parent, which shows it in the table
        why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        process.events.tell("failed", why=why)
        raise


if __name__ == "__main__":
    main()
