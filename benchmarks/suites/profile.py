"""Suite ``profile``: where a run's time goes, phase by phase.

Loads, runs of PageRank, components, shortest paths and breadth-first search, cold and warm, and a
main loop's ingest and query: seconds per phase by the SDK's own statistics and Spark's event log.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import graphs, machine
from benchmarks.options import add_folders, cache_of, numbers, publish, quotable, say
from benchmarks.profile import table

QUICK: tuple[str, ...] = ("--scale", "10", "--partitions", "1,2", "--repeats", "2")


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when an answer is wrong or a run failed, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    cache = cache_of(options)
    if options.edges:
        graph = graphs.of_file(options.edges, cache)
    else:
        graph = graphs.of_scale(options.scale, cache)
    about = machine.describe()
    job = {
        "graph": graph.folder, "cache": str(cache), "partitions": options.partitions,
        "repeats": options.repeats, "cores": options.cores, "seconds": options.seconds,
        "main": None if options.edges else options.scale,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
        answer = Path(scratch) / "samples.json"
        job |= {"scratch": scratch, "answer": str(answer)}
        say(f"profile: {graph.name}, partitions {options.partitions}")
        try:
            subprocess.run(
                [sys.executable, "-m", "benchmarks.profile.child"],
                input=json.dumps(job), text=True, timeout=options.time_limit, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            say(f"profile: did not finish within {options.time_limit:g} s")
            return 1
        if not answer.exists():
            say("profile: the run failed; see above")
            return 1
        found = json.loads(answer.read_text())
    if found["wrong"]:
        say(f"wrong answer: {found['wrong']}")
        return 1
    command = "./dev " + " ".join(["bench", "profile", *quotable(arguments)])
    settings = f"{options.cores} of {os.cpu_count()} cores used"
    made = table.document(found["samples"], graph.name, command, about, settings)
    stem = f"profile-{graph.name.lower().replace(' ', '-')}"
    publish(made, {"samples": table.shown(found["samples"])}, options, stem)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks profile", description=__doc__)
    add = parser.add_argument
    add("--scale", type=int, choices=range(4, 27), default=20, metavar="4..26")
    add("--edges", metavar="FILE", help="instead of R-MAT; without the main loop")
    add("--partitions", type=numbers, default=(1, 2, 4), help="1,2,4")
    add("--repeats", type=int, default=7, help="warm runs of each")
    add("--seconds", type=float, default=150, help="after which no more partitions are begun")
    add("--time-limit", type=float, default=900, help="seconds for all of it")
    add("--cores", type=int, default=len(os.sched_getaffinity(0)), help="cores to use")
    add_folders(parser)
    return parser
