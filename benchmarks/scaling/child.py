"""One case in a process of its own: a job as JSON on standard input, events as JSON lines.

Run as ``python -m benchmarks.scaling.child``; `benchmarks.evolving.parent` hears its events.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.child import Events, Others
from benchmarks.evolving.answers import ending
from benchmarks.scaling.cases import CASES, master_of
from benchmarks.scaling.ground import Ground
from benchmarks.scaling.sizes import Sizes

__all__ = ["main"]


def main() -> None:
    """Do the job. Every ending is told as an event, an error too."""
    job: dict[str, Any] = json.load(sys.stdin)
    events = Events(job["events"])

    def note(name: str, value: float) -> None:
        events.tell("figure", name=name, value=float(value))

    with ending(events):
        plain: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in job["sizes"].items()
        }
        sizes, case = Sizes(**plain), CASES[job["case"]]
        master = master_of(job["case"], sizes)
        ground = Ground(sizes, Path(job["cache"]), Path(job["scratch"]), note, master)
        events.tell("ready", edges=0, origin=0)
        load = Others()
        case(ground)
        events.tell("end", others=load.share())
        ground.spark.stop()


if __name__ == "__main__":
    main()
