"""One case in a process of its own: a job as JSON on standard input, events as JSON lines.

Run as ``python -m benchmarks.case_process``; `benchmarks.runner` hears its events. The job names a
module with a ``SUITE`` (`benchmarks.suite`) or a function ``run_case(process)``, which tells
`CaseProcess.ready` what graph it has, and measures inside `CaseProcess.measuring`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.answers import Wrong
from benchmarks.events import Events, Others


class CaseProcess:
    """The job, and the way to tell its parent."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.case: str = job["case"]
        self.cache, self.scratch = Path(job["cache"]), Path(job["scratch"])
        self._sizes: dict[str, Any] = job["sizes"]
        self.events = Events(job["events"])

    def sizes(self, kind: Any) -> Any:
        """The sizes as the suite's dataclass, which has tuples where JSON has lists."""
        plain = {k: tuple(v) if isinstance(v, list) else v for k, v in self._sizes.items()}
        return kind(**plain)

    def note(self, name: str, value: float) -> None:
        """Tell a figure; it joins the list of its name."""
        self.events.tell("figure", name=name, value=float(value))

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
    except Exception as error:  # told to the parent, which shows it in the table
        why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        process.events.tell("failed", why=why)
        raise


if __name__ == "__main__":
    main()
