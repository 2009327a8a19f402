"""A sample's phases as they are shown: the SDK's own count, and what only Spark's log knows."""

from __future__ import annotations

from typing import Any

from benchmarks.profile.event_log import Job, between
from benchmarks.profile.runs import Sample

REST = "not accounted for"
SHOWN = {
    "graph load": "tasks which read the graph and place it in memory, by Spark's event log",
    "compile": "kernels are compiled, or found again",
    "driver": "the driver's own: jobs made ready, what comes next decided",
    "Spark scheduling": "from a job's submission to the call of its slowest task's function",
    "Python worker start": "a worker process is started, and imports Spark and the SDK",
    "decode": "the task reads its command and the other partitions' messages",
    "open": "the task finds its arrays, or makes them; a main loop takes its changes in",
    "kernel": "iterations",
    "encode": "messages and the report become bytes; the state is kept for the next hop",
    "shuffle": "writing it, and waiting for it, in the slowest task (Spark's event log)",
    "commit": "the store is opened, segments and the version are written",
    "results": "from the slowest task's end until the driver has the reports",
    REST: "",
}
_FROM = {
    "graph load": ("load",),
    "compile": ("compile",),
    "driver": ("prepare", "driver"),
    "Spark scheduling": ("schedule",),
    "Python worker start": ("start",),
    "decode": ("decode",),
    "open": ("open", "changes"),
    "kernel": ("kernel",),
    "encode": ("encode", "save"),
    "commit": ("claim", "commit"),
    "results": ("results",),
}


def placed(sample: Sample, jobs: list[Job]) -> dict[str, Any]:
    """The sample as JSON takes it, with its phases as shown, and what Spark's log says of it."""
    own = between(jobs, sample.began, sample.ended)
    total = sample.ended - sample.began
    if sample.name == "load":
        shown = _of_load(own, total)
    else:
        shown = {name: sum(sample.phases.get(k, 0.0) for k in keys) for name, keys in _FROM.items()}
        _take_shuffle(shown, own)
    ordered = {name: shown.get(name, 0.0) for name in SHOWN}
    ordered[REST] = max(total - sum(ordered.values()), 0.0)
    return {**sample.plain(), "seconds": total, "shown": ordered, "spark": _inside(own)}


def _of_load(jobs: list[Job], total: float) -> dict[str, float]:
    """What a load's jobs tell: their slowest tasks are the work, what is beside them Spark's."""
    stages = [stage for job in jobs for stage in job.stages.values()]
    shuffle = sum(stage.read + stage.written for stage in stages)
    work = sum(stage.ran for stage in stages)
    whole = sum(job.ended - job.began for job in jobs)
    return {
        "graph load": max(work - shuffle, 0.0),
        "shuffle": shuffle,
        "Spark scheduling": max(whole - work, 0.0),
        "driver": max(total - whole, 0.0),
    }


def _take_shuffle(shown: dict[str, float], jobs: list[Job]) -> None:
    """Of a run's phases, put what was the shuffle under that name."""
    stages = [stage for job in jobs for stage in job.stages.values()]
    read = min(sum(stage.read for stage in stages), shown["decode"])
    written = min(sum(stage.written for stage in stages), shown["results"])
    shown["decode"] -= read
    shown["results"] -= written
    shown["shuffle"] = read + written


def _inside(jobs: list[Job]) -> dict[str, float]:
    """Jobs, and seconds along their slowest tasks, as Spark counts them."""
    stages = [stage for job in jobs for stage in job.stages.values()]
    return {
        "jobs": len(jobs),
        "submitted to ended": sum(job.ended - job.began for job in jobs),
        "queued": sum(stage.queued for stage in stages),
        "deserialised": sum(stage.decoded for stage in stages),
        "ran": sum(stage.ran for stage in stages),
    }
