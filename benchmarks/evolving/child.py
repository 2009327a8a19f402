"""One case in a process of its own: a job as JSON on standard input, events as JSON lines.

Run as ``python -m benchmarks.evolving.child``; see `benchmarks.child`, whose events these are.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.child import Events, Others
from benchmarks.evolving.answers import ending
from benchmarks.evolving.cases import CASES, CONF
from benchmarks.evolving.ground import Ground
from benchmarks.evolving.sizes import Sizes


def main() -> None:
    """Do the job. Every ending is told as an event, an error too."""
    job: dict[str, Any] = json.load(sys.stdin)
    events = Events(job["events"])
    note = partial(_note, events)
    with ending(events):
        case = CASES[job["case"]]
        job["sizes"]["shares"] = tuple(job["sizes"]["shares"])
        cache, scratch = Path(job["cache"]), Path(job["scratch"])
        ground = Ground(Sizes(**job["sizes"]), cache, scratch, note, CONF.get(job["case"]))
        events.tell("ready", edges=ground.stream.edges, origin=ground.stream.origin)
        load = Others()
        case(ground)
        events.tell("end", others=load.share())
        ground.spark.stop()


def _note(events: Events, name: str, value: float) -> None:
    events.tell("figure", name=name, value=float(value))


if __name__ == "__main__":
    main()
