"""One system in a process of its own: every program on one graph.

Run as ``python -m benchmarks.ported.child``; `benchmarks.evolving.parent` hears its events.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import graphs
from benchmarks.child import Events, Others
from benchmarks.evolving.answers import Wrong, ending
from benchmarks.peers import Settings, Unavailable
from benchmarks.ported.catalogue import PROGRAMS, Ported, right, wrong
from benchmarks.ported.sizes import Sizes
from benchmarks.ported.systems import SYSTEMS, Runner

__all__ = ["UNAVAILABLE", "main"]

UNAVAILABLE = "not available: "
_TINY = 8  # R-MAT scale of what makes sessions, classes and kernels warm


def main() -> None:
    """Do the job. Every ending is told as an event, an error too."""
    job: dict[str, Any] = json.load(sys.stdin)
    events = Events(job["events"])
    with ending(events):
        plain: dict[str, Any] = job["sizes"] | {"programs": tuple(job["sizes"]["programs"])}
        sizes, cache = Sizes(**plain), Path(job["cache"])
        runner = SYSTEMS[job["case"]](Settings(sizes.cores, sizes.memory, job["scratch"]))
        try:
            runner.start()
        except Unavailable as reason:
            events.tell("failed", why=UNAVAILABLE + " ".join(str(reason).split()))
            return
        programs = [PROGRAMS[name] for name in sizes.programs]
        runner.load(graphs.of_scale(_TINY, cache))
        for program in programs:
            runner.run(program)()
            runner.forget()
        graph = graphs.of_scale(sizes.scale, cache)
        runner.load(graph)
        events.tell("ready", edges=graph.edges, origin=graph.origin)
        load = Others()
        for program in programs:
            for seconds in _measured(runner, program, graph, sizes):
                events.tell("figure", name=program.name, value=seconds)
        events.tell("end", others=load.share())


def _measured(
    runner: Runner, program: Ported, graph: graphs.BenchGraph, sizes: Sizes
) -> list[float]:
    """Run it once, check the answer, then run it again and again.

    Raises:
        Wrong: the answer is not right.
    """
    ids, value = runner.run(program)()
    runner.forget()
    all_ids = np.asarray(graph.answer("ids"))
    differs = wrong(right(program, graph), all_ids, np.asarray(ids), np.asarray(value))
    if differs:
        raise Wrong(f"{program.name} by {runner.title}: {differs}")
    found: list[float] = []
    while not found or (len(found) < sizes.repeats and sum(found) < sizes.budget):
        begin = time.perf_counter()
        runner.run(program)
        found.append(time.perf_counter() - begin)
        runner.forget()
    return found


if __name__ == "__main__":
    main()
