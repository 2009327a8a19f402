"""``python -m benchmarks estimates``: how near `Graph.estimate` comes to runs.

For each graph, form and program one process estimates, and another, in which the program was
compiled before, runs it: its peak memory, and its seconds. Exit status 1: memory is beyond a factor
of 1.5, or time beyond 3, also when measured a second time; 2: bad arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from benchmarks import graphs
from benchmarks.options import cache_of, default_cache, say, scales

MEMORY, TIME = 1.5, 3.0
PROGRAMS = ("pagerank", "wcc", "sssp", "cdlp", "hits")
_CHILD = """
import json, resource, sys, time
from vertexsdk import Graph, run
path, program, params, what = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
if what == "estimate":
    e = Graph.read(path).estimate(program, params)
    print(json.dumps([e.bytes_per_processor, e.seconds]))
else:
    few = {name: 1 for name in params}
    run(program, Graph.from_arrays([1, 2], [2, 3]), params=few, backend="memory://").close()
    began = time.perf_counter()
    run(program, Graph.read(path), params=params, backend="memory://").close()
    seconds = time.perf_counter() - began
    print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, seconds]))
"""


def main(arguments: list[str]) -> int:
    """Estimate, run, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks estimates", description=__doc__)
    add = parser.add_argument
    add("--scales", type=scales, default=(14, 17, 20), metavar="14,17,20", help="of R-MAT graphs")
    add("--programs", default=",".join(PROGRAMS), help="built-in ones, by commas")
    add("--cache", metavar="DIR", default=default_cache(), help="where graphs are kept")
    options = parser.parse_args(arguments)
    cache, failed = cache_of(options), []
    print(
        "| graph | form | program | memory | estimate | seconds | estimate |\n" + "| --- " * 7 + "|"
    )
    for scale in options.scales:
        graph = graphs.of_scale(scale, cache)
        for path in (graph.text, graph.parquet):
            for program in options.programs.split(","):
                params = {"origin": graph.origin} if program in ("sssp", "bfs") else {}
                row = _row(path, program, params)
                if _beyond(row):
                    row = _row(path, program, params)  # another process may have been busy
                form = path.rpartition(".")[2]
                cells = [graph.name, form, program, *_cells(row)]
                print(f"| {' | '.join(cells)} |", flush=True)
                if _beyond(row):
                    failed.append(" ".join(cells[:3]))
    for line in failed:
        say(f"estimates: too far off: {line}")
    return 1 if failed else 0


def _row(path: str, program: str, params: dict[str, Any]) -> list[float]:
    """Estimated bytes and seconds, then those of a run."""
    figures: list[float] = []
    for what in ("estimate", "run"):
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, path, program, json.dumps(params), what],
            capture_output=True, text=True, check=True, env=dict(os.environ),
        )  # fmt: skip
        figures += json.loads(done.stdout.splitlines()[-1])
    return figures


def _ratios(row: list[float]) -> tuple[float, float]:
    return row[0] / row[2], row[1] / row[3]


def _beyond(row: list[float]) -> bool:
    memory, seconds = _ratios(row)
    return not (1 / MEMORY < memory < MEMORY and 1 / TIME < seconds < TIME)


def _cells(row: list[float]) -> list[str]:
    memory, seconds = _ratios(row)
    return [f"{row[2] / 2**20:,.0f} MiB", f"{memory:.2f}", f"{row[3]:.2f}", f"{seconds:.2f}"]
