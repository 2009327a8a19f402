"""One system in a process of its own: a job as JSON on standard input, events as JSON lines.

Run as ``python -m benchmarks.batch.system_process``. Events go to the file which the job names,
because Spark writes to standard output; answers go to ``.npz`` files in the job's scratch folder.
The parent sees what is being measured from the events, so it can end a measure that takes too long
and still keep the ones before it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME
from benchmarks.peers import Later, Peer, Settings, Unavailable, peer
from benchmarks.processes import Events, Others


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
        begin = time.perf_counter()
        later: Later = getattr(self.system, name)()
        seconds = time.perf_counter() - begin
        self.loaded = self.loaded or BY_NAME[name].load
        return seconds, later

    def ready(self, name: str) -> float:
        """Load the graph if no measure did, prepare; returns the seconds of preparing."""
        if BY_NAME[name].load:
            return 0.0
        if not self.loaded:
            offered = self.system.offers()
            self.once("load_parquet" if "load_parquet" in offered else "load_text")
        begin = time.perf_counter()
        self.system.prepare(name)
        return time.perf_counter() - begin


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


if __name__ == "__main__":
    main()
