"""One system in a process of its own: every program on one graph; a case is a system."""

from __future__ import annotations

import time

import numpy as np

from benchmarks import graphs
from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.peers import Settings, Unavailable
from benchmarks.ported.catalogue import PROGRAMS, Ported, right, wrong
from benchmarks.ported.sizes import Sizes
from benchmarks.ported.systems import SYSTEMS, Runner
from benchmarks.programs import TINY_SCALE

UNAVAILABLE = "not available: "


def run_case(process: CaseProcess) -> None:
    """Do one case."""
    sizes = process.sizes(Sizes)
    runner = SYSTEMS[process.case](Settings(sizes.cores, sizes.memory, str(process.scratch)))
    try:
        runner.start()
    except Unavailable as reason:
        process.events.tell("failed", why=UNAVAILABLE + " ".join(str(reason).split()))
        return
    programs = [PROGRAMS[name] for name in sizes.programs]
    runner.load(graphs.of_scale(TINY_SCALE, process.cache))
    for program in programs:
        runner.run(program)()
        runner.forget()
    graph = graphs.of_scale(sizes.scale, process.cache)
    runner.load(graph)
    process.ready(graph.edges, graph.origin)
    with process.measuring():
        for program in programs:
            for seconds in _measured(runner, program, graph, sizes):
                process.note(program.name, seconds)


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
