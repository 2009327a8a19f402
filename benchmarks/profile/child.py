"""The process in which runs are profiled: a job as JSON on standard input, samples to a file."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import answers
from benchmarks.graphs import BenchGraph
from benchmarks.profile import event_log, runs
from benchmarks.profile.phases import placed
from vertexsdk import session


def main() -> int:
    """Do the job; exit status 1 when an answer is wrong."""
    job: dict[str, Any] = json.load(sys.stdin)
    scratch, cache = Path(job["scratch"]), Path(job["cache"])
    log = scratch / "events"
    log.mkdir()
    conf = {**event_log.SETTINGS, "spark.eventLog.dir": log.as_uri()}
    spark = session(f"local[{job['cores']}]", "vertexsdk-profile", **conf)
    samples: list[runs.Sample] = []
    wrong = ""
    graph = BenchGraph.open(job["graph"])
    repeats = job["repeats"]
    until = time.monotonic() + job["seconds"]
    try:
        for partitions in job["partitions"]:
            if not samples or time.monotonic() < until:
                samples += runs.of_partitions(spark, graph, partitions, repeats, scratch)
        if job["main"] is not None:
            samples += runs.main_loop(spark, job["main"], cache, repeats, scratch)
    except answers.Wrong as error:
        wrong = str(error)
    spark.stop()  # ends the log
    jobs = event_log.read(log)
    found = [placed(sample, jobs) for sample in samples]
    Path(job["answer"]).write_text(json.dumps({"samples": found, "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
