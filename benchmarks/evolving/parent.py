"""Runs one case in a process of its own, with limits, and looks at its memory meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import processes

_LOOK = 0.5  # seconds between looks at memory


@dataclass(slots=True)
class Found:
    """What a case told: figures by name, each a list; or why there are none.

    ``memory``: looks at it as (what was done by then, bytes by kind of process).
    ``others``: share of the machine's cores that other programs used meanwhile.
    """

    case: str
    figures: dict[str, list[float]] = field(default_factory=dict)
    problem: str | None = None
    edges: int = 0
    origin: int = 0
    others: float = 0.0
    seconds: float = 0.0
    peak: int = 0
    memory: list[tuple[float, dict[str, int]]] = field(default_factory=list)

    def of(self, name: str) -> list[float]:
        """The figures of a name; none where the case did not end well."""
        return [] if self.problem else self.figures.get(name, [])


@dataclass(frozen=True, slots=True)
class Limits:
    """``seconds`` for the whole process, ``memory`` in bytes for all of its session."""

    seconds: float
    memory: int


def run(
    case: str,
    sizes: Any,
    cache: Path,
    scratch: Path,
    limits: Limits,
    say: Callable[[str], None],
    watch_memory: bool = False,
    child_module: str = "benchmarks.evolving.child",
) -> Found:
    """Run a case; what it told before a limit ended it stays in the figures.

    ``sizes`` is a dataclass of what the module which runs it takes.
    """
    found, began = Found(case), time.monotonic()
    scratch.mkdir(parents=True, exist_ok=True)
    events, log = scratch / "events.jsonl", scratch / "log"
    events.touch()
    job = {"case": case, "sizes": asdict(sizes), "cache": str(cache), "scratch": str(scratch)}
    with log.open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", child_module],
            stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
            cwd=Path(__file__).parent.parent.parent,
        )  # fmt: skip
    assert child.stdin is not None
    child.stdin.write(json.dumps(job | {"events": str(events)}).encode())
    child.stdin.close()
    done, part, ended, next_look = False, "", False, 0.0
    try:
        with events.open() as lines:
            while not ended and not found.problem:
                ended = child.poll() is not None
                *whole, part = (part + lines.read()).split("\n")
                for line in whole:
                    done = _hear(found, json.loads(line)) or done
                now = time.monotonic()
                if not ended and now >= next_look:
                    next_look = now + _LOOK
                    _look(found, child.pid, limits, now - began, watch_memory)
                if not ended:
                    time.sleep(0.1)
    finally:
        processes.end(child.pid)
        child.wait()
    if not done and not found.problem:
        found.problem = f"its process ended with status {child.returncode}"
    found.seconds = time.monotonic() - began
    say(f"{case}: {found.problem or 'done'} ({found.seconds:.0f} s)")
    return found


def _hear(found: Found, event: dict[str, Any]) -> bool:
    match event["event"]:
        case "ready":
            found.edges, found.origin = event["edges"], event["origin"]
        case "figure":
            found.figures.setdefault(event["name"], []).append(event["value"])
        case "failed":
            found.problem = event["why"]
        case "end":
            found.others = event["others"]
            return True
    return False


def _look(found: Found, session: int, limits: Limits, passed: float, closely: bool) -> None:
    members = processes.members(session)
    total = processes.held(members).total
    found.peak = max(found.peak, total)
    if closely:
        at = found.figures.get("done", [0.0])[-1]
        found.memory.append((at, processes.held_by_kind(members, session)))
    if total > limits.memory:
        found.problem = f"did not finish: more than {limits.memory / 1e9:.0f} GB of memory"
    elif passed > limits.seconds:
        found.problem = f"did not finish in {limits.seconds:.0f} s"
