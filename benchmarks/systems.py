"""Runs the systems in turn, each in its own process, with limits of time and memory.

A measure that takes too long, or needs too much memory, ends the process; the measures after it are
tried in a new one. What was measured before stays. The process is ``python -m benchmarks.systems``:
it has a `Job` as JSON on standard input, and tells events as lines of JSON in the file which the
job names, because Spark writes to standard output. Answers go to ``.npz`` files in the job's
scratch folder. The parent sees what is being measured from the events.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import processes
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME, facts_only
from benchmarks.peers import Later, Peer, Settings, Unavailable, peer
from benchmarks.processes import Events, Others
from benchmarks.timing import seconds, timed


@dataclass(frozen=True, slots=True)
class Job:
    """What a child is to do.

    ``repeats`` per measure, fewer when together they take longer than ``budget`` seconds.
    """

    system: str
    graph: str
    tiny: str
    measures: list[str]
    repeats: int
    budget: float
    settings: dict[str, Any]
    events: str


class Turn:
    """A system's turn on one graph: loads it when a measure needs it loaded, times, tells."""

    def __init__(self, system: Peer, folder: str) -> None:
        self.system = system
        self.system.graph = BenchGraph.open(folder)
        self.loaded = False

    def once(self, name: str) -> tuple[float, Later]:
        """Run one measure: (seconds, what hands over the answer)."""
        if BY_NAME[name].load:
            self.loaded = False
            self.system.release()
            gc.collect()
        found = timed(getattr(self.system, name))
        self.loaded = self.loaded or BY_NAME[name].load
        return found

    def ready(self, name: str) -> float:
        """Load the graph if no measure did, prepare; returns the seconds of preparing."""
        if BY_NAME[name].load:
            return 0.0
        if not self.loaded:
            offered = self.system.offers()
            self.once("load_parquet" if "load_parquet" in offered else "load_text")
        return seconds(lambda: self.system.prepare(name))


def main() -> None:
    """Do the job on standard input. Every ending is told as an event, an error too."""
    job = Job(**json.load(sys.stdin))
    events = Events(job.events)
    try:
        system = peer(job.system)(Settings(**job.settings))
        events.tell("ready", versions=system.start())
    except Unavailable as reason:
        events.tell("unavailable", why=" ".join(str(reason).split()))
        return
    except Exception as error:
        events.tell("unavailable", why=f"it does not start: {type(error).__name__}: {error}"[:300])
        raise
    try:
        events.tell("begin", measure="warm")
        turn = Turn(system, job.tiny)
        for name in job.measures:
            with contextlib.suppress(Exception):  # what fails here fails below, and is told there
                turn.ready(name)
                turn.once(name)
        system.release()
        turn = Turn(system, job.graph)
        for name in job.measures:
            _measure(turn, job, name, events)
    finally:
        with contextlib.suppress(Exception):
            system.stop()


def _measure(turn: Turn, job: Job, name: str, events: Events) -> None:
    try:
        events.tell("begin", measure="load")
        prepared = turn.ready(name)
        seconds: list[float] = []
        load = Others()
        while not seconds or (len(seconds) < job.repeats and sum(seconds) < job.budget):
            later = None  # the former answer's memory is not the next run's
            events.tell("begin", measure=name)
            passed, later = turn.once(name)
            seconds.append(passed)
        events.tell("took", measure=name, seconds=seconds, prepared=prepared, others=load.share())
        assert later is not None
        answer = Path(job.settings["scratch"]) / f"{job.system}-{name}.npz"
        np.savez(answer, **later())
        events.tell("end", measure=name, answer=str(answer))
    except Exception as error:  # told to the parent, which shows it in the table
        events.tell("failed", measure=name, why=f"{type(error).__name__}: {error}"[:300])


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
    settings = asdict(Settings(limits.cores, limits.memory, str(scratch)))
    todo = [name for name in measures if name in kind.offers()]
    while todo and standing.unavailable is None:
        events = scratch / f"{system}-{len(standing.outcomes)}.jsonl"
        job = Job(
            system, graph.folder, tiny.folder, todo, limits.repeats, limits.budget, settings,
            str(events),
        )  # fmt: skip
        watch = _Watch(standing, graph, limits, say)
        status = processes.follow(
            [sys.executable, "-m", "benchmarks.systems"], asdict(job), events,
            scratch / f"{system}.log", watch.hear, watch.look,
            lambda watch=watch: 0.02 if watch.current == "memory" else 0.2,
        )  # fmt: skip
        settled = watch.settled(todo, status)
        todo = [name for name in todo if name not in settled]
    return standing


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
            alone = (
                self.current in loads
                and sum(BY_NAME[name].load for name in peer(self.standing.system).offers()) == 1
            )
            blamed = [self.current] if self.current in left and not alone else left
            for name in blamed:
                self.keep(name, MeasureResult(problem=problem))
        return [name for name in todo if name in self.standing.outcomes]


if __name__ == "__main__":
    main()
