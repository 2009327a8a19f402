"""Measures every line of the guard, ours and its peer in turn, in one process with one session.

Run as ``python -m benchmarks.guard.measuring CACHE SCRATCH RESULT``: writes what it found as JSON.
Each line begins with a round that is not timed, so sessions, workers and kernels are warm; of the
rounds that count the least time of each side is taken, which what else runs touches least.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import graphs, processes
from benchmarks.batch.system_process import Turn
from benchmarks.guard.comparing import Comparison
from benchmarks.guard.fixed_costs import commits, hops, interpreted
from benchmarks.guard.queries import queries
from benchmarks.guard.timing import in_turns
from benchmarks.measures import BY_NAME
from benchmarks.options import say
from benchmarks.peers import Peer, Settings, Unavailable
from benchmarks.peers.ours import Ours
from benchmarks.peers.scipy import SciPy

SCALE = 16
BATCH = {
    "load_text": ("load from text to ready", 4),
    "pagerank": ("PageRank, 10 iterations", 9),
    "components": ("connected components", 9),
    "shortest_paths": ("shortest paths", 9),
}
"""Measures of the suite batch: the name here, by which a ratio is stored, and the rounds."""


def main() -> None:
    """Measure, and write."""
    cache, scratch, result = (Path(word) for word in sys.argv[1:4])
    cores = len(os.sched_getaffinity(0))
    slots = max(cores, 3)  # two processors and one task that waits; threads are those of the cores
    settings = Settings(slots, processes.available() // 2, str(scratch))
    ours = Ours(settings)
    ours.start()
    lines: list[Callable[[], Iterable[Comparison]]] = [
        lambda: batch(ours, SciPy(settings), cache),
        lambda: queries(ours, cache, scratch, cores),
        lambda: [hops(ours)],
        lambda: [interpreted(ours)],
        lambda: commits(scratch),
    ]
    found: list[Comparison] = []
    for line in lines:
        for each in line():
            found.append(each)
            say(f"{each.title}: {each.problem or f'{each.ratio:.3g} times {each.peer}'}")
            result.write_text(json.dumps([asdict(each) for each in found]))
    ours.stop()


def batch(ours: Peer, peer: Peer, cache: Path) -> Iterator[Comparison]:
    """Load and three algorithms, beside SciPy, on R-MAT 16; their answers are compared first."""
    graph = graphs.of_scale(SCALE, cache)
    try:
        peer.start()
    except Unavailable as reason:
        yield from (Comparison(title, peer.title, [], str(reason)) for title, _ in BATCH.values())
        return
    sides = [Turn(ours, graph.folder), Turn(peer, graph.folder)]
    for name, (title, rounds) in BATCH.items():
        problem = None
        for side in sides:
            side.ready(name)
            answer: dict[str, Any] = side.once(name)[1]()
            wrong = BY_NAME[name].check(graph, answer)
            if wrong:
                problem = f"wrong answer of {side.system.title}: {wrong}"
        least = in_turns(rounds, [partial(_took, side, name) for side in sides])
        yield Comparison(title, peer.title, least, problem)


def _took(side: Turn, name: str) -> float:
    return side.once(name)[0]


if __name__ == "__main__":
    main()
