"""Runs the program of one system on one plan, in a process of its own, with limits."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks import processes
from benchmarks.answers import Wrong
from benchmarks.processes import Limits, Others
from benchmarks.runner import CaseResult
from benchmarks.streaming import Job, Streamer, said
from benchmarks.streaming.checking import check
from benchmarks.streaming.plan import Plan

_LOOK = 0.2  # seconds between looks at time and memory


@dataclass(slots=True)
class _Heard:
    seconds: list[float] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)


def run(
    system: Streamer, case: str, plan: Plan, cores: int, seconds: float, scratch: Path,
    limits: Limits, say: Callable[[str], None],
) -> CaseResult:  # fmt: skip
    """Run a case; its times stay only if every answer that it kept is right."""
    program = case.split("-")[1]
    out = scratch / "out"
    out.mkdir(parents=True)
    surfers = system.surfers, plan.iterations(system.surfers) if program == "pagerank" else 0
    job = Job(
        program, plan.base, plan.changes, plan.batches, str(out), plan.origin, surfers[1],
        cores, plan.start, seconds,
    )  # fmt: skip
    found, heard, began = CaseResult(case), _Heard(), time.monotonic()
    load = Others()
    _watch(system, job, scratch, limits, found, heard)
    found.seconds = time.monotonic() - began
    found.others = load.share()
    if not found.problem:
        try:
            if not heard.kept or heard.kept[-1] != len(heard.seconds) - 1:
                raise Wrong("the last answer was not written")
            for batch in heard.kept:
                check(program, plan.after(batch), plan.origin, surfers, out, batch)
                found.figures.setdefault("checked", []).append(batch)
        except (Wrong, ValueError) as wrong:
            found.problem = f"wrong answer: {wrong}"
    if surfers[1]:
        found.figures["iterations"] = [surfers[1]]
    _note(found, plan, heard.seconds)
    told = found.problem or f"done, {len(heard.seconds)} answers"
    say(f"{system.title}: {case}: {told} ({found.seconds:.0f} s)")
    return found


def _watch(
    system: Streamer, job: Job, scratch: Path, limits: Limits, found: CaseResult, heard: _Heard
) -> None:
    printed, log, began = scratch / "printed", scratch / "log", time.monotonic()

    def look(session: int) -> bool:
        total = processes.held(processes.members(session)).total
        found.peak = max(found.peak, total)
        exceeded = limits.exceeded(time.monotonic() - began, total)
        if exceeded:
            found.problem = f"{exceeded}: {len(heard.seconds)} answers"
        return exceeded is not None

    with printed.open("wb") as output:
        status = processes.follow(
            system.command(job), None, printed, log, partial(_hear, heard), look, lambda: _LOOK,
            stdout=output, env=os.environ | system.environment(job), cwd=scratch,
        )  # fmt: skip
    if not found.problem and status:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        found.problem = f"its process ended with status {status}: {said(' '.join(last))}"


def _hear(heard: _Heard, line: str) -> None:
    if line.startswith("{"):
        event = json.loads(line)
        if "kept" in event:
            heard.kept.append(event["kept"])
        else:
            heard.seconds.append(event["seconds"])


def _note(found: CaseResult, plan: Plan, seconds: list[float]) -> None:
    """Figures by the names that our own cases give them."""
    figures = found.figures
    figures["first"] = seconds[:1]
    for (before, at), step in zip(pairwise([0, *plan.last]), plan.steps, strict=True):
        if at >= len(seconds) or not step.name:
            continue
        if step.name == "query":
            figures.setdefault("query", []).append(seconds[at])
        else:
            figures.setdefault(f"query {step.name}", []).append(seconds[at])
            figures.setdefault(f"last {step.name}", []).append(seconds[at])
            figures.setdefault(f"all {step.name}", []).append(sum(seconds[before + 1 : at + 1]))
            count = step.count / step.batches
            rates = (count / each for each in seconds[before + 1 : at + 1])
            figures.setdefault("rate", []).extend(rates)
