"""Spark's event log: when jobs were submitted and ended, and what their slowest tasks did.

Spark counts in whole milliseconds, so a phase that is taken from here is no finer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SETTINGS = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}


@dataclass(slots=True)
class Stage:
    """The slowest task of a stage, in seconds since the epoch or seconds.

    ``read`` and ``written`` are what it waited for the shuffle; ``queued`` from the stage's
    submission to the task's launch; ``decoded`` what deserialising the task took in the JVM.
    """

    ended: float = 0.0
    took: float = 0.0
    queued: float = 0.0
    decoded: float = 0.0
    ran: float = 0.0
    read: float = 0.0
    written: float = 0.0


@dataclass(slots=True)
class Job:
    """One job: from its submission to its end, and its stages by number."""

    began: float
    ended: float = 0.0
    stages: dict[int, Stage] = field(default_factory=dict)


def read(folder: Path) -> list[Job]:
    """The jobs in the event logs below a folder, in order of submission."""
    jobs: dict[int, Job] = {}
    submitted: dict[int, float] = {}
    owner: dict[int, int] = {}
    for event in _events(folder):
        kind = event["Event"]
        if kind == "SparkListenerJobStart":
            jobs[event["Job ID"]] = Job(event["Submission Time"] / 1e3)
            owner |= dict.fromkeys(event["Stage IDs"], event["Job ID"])
        elif kind == "SparkListenerStageSubmitted":
            info = event["Stage Info"]
            submitted[info["Stage ID"]] = info.get("Submission Time", 0) / 1e3
        elif kind == "SparkListenerTaskEnd" and event["Stage ID"] in owner:
            number = event["Stage ID"]
            stages = jobs[owner[number]].stages
            task = _task(event, submitted.get(number, 0.0))
            if task.ended >= stages.setdefault(number, task).ended:
                stages[number] = task
        elif kind == "SparkListenerJobEnd":
            jobs[event["Job ID"]].ended = event["Completion Time"] / 1e3
    return sorted(jobs.values(), key=lambda job: job.began)


def between(jobs: list[Job], began: float, ended: float) -> list[Job]:
    """Those that were submitted and ended within, to the millisecond."""
    return [job for job in jobs if began - 2e-3 <= job.began and 0 < job.ended <= ended + 2e-3]


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.startswith(("appstatus", ".")):
            continue
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:  # the last line of a log that is being written
                return


def _task(event: dict[str, Any], submitted: float) -> Stage:
    info, figures = event["Task Info"], event.get("Task Metrics") or {}
    launched, ended = info["Launch Time"] / 1e3, info["Finish Time"] / 1e3
    reads = figures.get("Shuffle Read Metrics", {})
    writes = figures.get("Shuffle Write Metrics", {})
    return Stage(
        ended=ended,
        took=ended - launched,
        queued=max(launched - submitted, 0.0) if submitted else 0.0,
        decoded=figures.get("Executor Deserialize Time", 0) / 1e3,
        ran=figures.get("Executor Run Time", 0) / 1e3,
        read=reads.get("Fetch Wait Time", 0) / 1e3,
        written=writes.get("Shuffle Write Time", 0) / 1e9,
    )
