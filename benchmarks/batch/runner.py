"""Runs the systems in turn, each in its own process, with limits of time and memory.

A measure that takes too long, or needs too much memory, ends the process; the measures after it are
tried in a new one. What was measured before stays.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import processes
from benchmarks.batch.system_process import Job
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME, facts_only
from benchmarks.peers import Settings, peer


@dataclass(slots=True)
class MeasureResult:
    """One measure of one system: its seconds, one per repeat, or why there are none.

    ``prepared``: seconds of what was made for it before the clock, once. ``others``: share of
    the machine's cores that other programs used meanwhile, 0 to 1.
    """

    seconds: list[float] = field(default_factory=list)
    problem: str | None = None
    facts: dict[str, float] = field(default_factory=dict)
    prepared: float = 0.0
    others: float = 0.0


@dataclass(slots=True)
class SystemResult:
    """All that is known of one system on one graph. ``peak`` is the largest resident sum seen."""

    system: str
    title: str
    about: str
    versions: dict[str, str] = field(default_factory=dict)
    unavailable: str | None = None
    outcomes: dict[str, MeasureResult] = field(default_factory=dict)
    peak: int = 0


@dataclass(frozen=True, slots=True)
class Limits(processes.Limits):
    """``seconds`` are those for one run of a measure."""

    repeats: int
    budget: float
    cores: int


def run(
    system: str,
    graph: BenchGraph,
    tiny: BenchGraph,
    measures: list[str],
    limits: Limits,
    scratch: Path,
    say: Callable[[str], None],
) -> SystemResult:
    """Measure one system on one graph, and check each answer before its time is kept."""
    kind = peer(system)
    standing = SystemResult(system, kind.title, " ".join(kind.about.split()))
    todo = [name for name in measures if name in kind.offers()]
    while todo and standing.unavailable is None:
        for name in _turn(standing, graph, tiny, todo, limits, scratch, say):
            todo.remove(name)
    return standing


def _turn(
    standing: SystemResult,
    graph: BenchGraph,
    tiny: BenchGraph,
    todo: list[str],
    limits: Limits,
    scratch: Path,
    say: Callable[[str], None],
) -> list[str]:
    """One child process; returns the measures that are settled, at least one."""
    events = scratch / f"{standing.system}-{len(standing.outcomes)}.jsonl"
    settings = Settings(limits.cores, limits.memory, str(scratch))
    job = Job(
        standing.system,
        graph.folder,
        tiny.folder,
        todo,
        limits.repeats,
        limits.budget,
        asdict(settings),
        str(events),
    )
    watch = _Watch(standing, graph, limits, say)
    status = processes.follow(
        [sys.executable, "-m", "benchmarks.batch.system_process"],
        asdict(job),
        events,
        scratch / f"{standing.system}.log",
        watch.hear,
        watch.look,
        lambda: 0.02 if watch.current == "memory" else 0.2,
    )
    return watch.settled(todo, status)


class _Watch:
    """Hears a child's events, looks at its memory and time, and keeps what was checked."""

    def __init__(
        self, standing: SystemResult, graph: BenchGraph, limits: Limits, say: Callable[[str], None]
    ) -> None:
        self.standing, self.graph, self.limits, self.say = standing, graph, limits, say
        self.current = "start"
        self.since = time.monotonic()
        self.fatal: str | None = None
        self.seconds: list[float] = []
        self.prepared = self.others = 0.0
        self.memory: dict[str, float] = {}

    def hear(self, line: str) -> None:
        """Take in an event."""
        event: dict[str, Any] = json.loads(line)
        self.since = time.monotonic()
        match event["event"]:
            case "ready":
                self.standing.versions |= event["versions"]
            case "unavailable":
                self.standing.unavailable = event["why"]
                self.say(f"{self.standing.title}: not available: {event['why']}")
            case "begin":
                self.current = event["measure"]
            case "took":
                self.seconds, self.prepared = event["seconds"], event["prepared"]
                self.others = event["others"]
            case "failed":
                self.keep(event["measure"], MeasureResult(problem=event["why"]))
            case "end":
                self.keep(event["measure"], self._checked(event["measure"], event["answer"]))

    def _checked(self, name: str, path: str) -> MeasureResult:
        with np.load(path) as answer:
            wrong = BY_NAME[name].check(self.graph, answer)
            own = BY_NAME[name].check is facts_only
            names = [k for k in answer.files if own or k.startswith("phase ")]
            facts = {k: float(answer[k]) for k in names}
        Path(path).unlink()
        if wrong:
            return MeasureResult(problem=f"wrong answer: {wrong}")
        if name == "memory":
            facts |= self.memory
        return MeasureResult(self.seconds, facts=facts, prepared=self.prepared, others=self.others)

    def keep(self, name: str, outcome: MeasureResult) -> None:
        """Write down how a measure ended."""
        self.standing.outcomes[name] = outcome
        result = outcome.problem or f"{np.median(outcome.seconds):.3f} s"
        self.say(f"{self.standing.title}: {BY_NAME[name].title}: {result}")

    def look(self, session: int) -> bool:
        """Note the memory held now; whether a limit is passed, which `fatal` names."""
        look = processes.held_by_workers if self.current == "memory" else processes.held
        found = look(processes.members(session))
        self.standing.peak = max(self.standing.peak, found.total)
        if self.current == "memory":
            for name in ("workers", "workers_mapped"):
                self.memory[name] = max(self.memory.get(name, 0), getattr(found, name))
            self.memory.setdefault("workers_at_start", found.workers)
        self.fatal = self.limits.exceeded(time.monotonic() - self.since, found.total)
        return self.fatal is not None

    def settled(self, todo: list[str], status: int) -> list[str]:
        """The measures of ``todo`` that need no other process, with an outcome for each."""
        if self.standing.unavailable:
            return list(todo)
        left = [name for name in todo if name not in self.standing.outcomes]
        if left:
            problem = self.fatal or f"its process ended with status {status}"
            loads = [name for name in todo if BY_NAME[name].load and name in left]
            # Without a way to load nothing else can be tried.
            alone = self.current in loads and len(peer_loads(self.standing.system)) == 1
            blamed = [self.current] if self.current in left and not alone else left
            for name in blamed:
                self.keep(name, MeasureResult(problem=problem))
        return [name for name in todo if name in self.standing.outcomes]


def peer_loads(system: str) -> list[str]:
    """The measures by which a system loads a graph."""
    return [name for name in peer(system).offers() if BY_NAME[name].load]
