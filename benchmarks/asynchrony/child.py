"""One case in a process of its own: a job as JSON on standard input, events as JSON lines.

Run as ``python -m benchmarks.asynchrony.child``; `benchmarks.evolving.parent` hears its events.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.asynchrony.cases import CASES, graphs_of, slots
from benchmarks.asynchrony.ground import Ground, graph_of
from benchmarks.asynchrony.sizes import Sizes
from benchmarks.child import Events, Others
from benchmarks.evolving.answers import ending

__all__ = ["main"]


def main() -> None:
    """Do the job. Every ending is told as an event, an error too."""
    job: dict[str, Any] = json.load(sys.stdin)
    events = Events(job["events"])

    def note(name: str, value: float) -> None:
        events.tell("figure", name=name, value=float(value))

    with ending(events):
        name, case = job["case"], CASES[job["case"]]
        plain = {k: tuple(v) if isinstance(v, list) else v for k, v in job["sizes"].items()}
        sizes, cache = Sizes(**plain), Path(job["cache"])
        graph = graph_of(graphs_of(name), sizes, cache)
        ground = Ground(sizes, cache, Path(job["scratch"]), note, slots(name, sizes))
        events.tell("ready", edges=graph.edges, origin=graph.origin)
        note("vertices", graph.vertices)
        load = Others()
        case(ground)
        events.tell("end", others=load.share())
        ground.spark.stop()


if __name__ == "__main__":
    main()
