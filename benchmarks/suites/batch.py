"""Suite ``batch``: the whole answer on a graph that does not change.

Load and the six algorithms of LDBC Graphalytics (breadth-first search, PageRank, weakly connected
components, community detection, local clustering coefficients, shortest paths) by every system in
turn; and of ours the interpreter's speed, the cost of a hop, and memory. What takes everybody too
long on a graph of the size that is asked for is measured on a smaller one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks import graphs, machine
from benchmarks.batch import report, results, runner
from benchmarks.measures import BY_NAME
from benchmarks.options import add_common, cache_of, memory_of, publish, quotable, say, scales
from benchmarks.peers import SYSTEMS, peer

QUICK = (
    "--scale", "13", "--repeats", "2", "--budget", "2", "--time-limit", "60",
    "--systems", "ours,graphx,graphframes,scipy,igraph,networkit,networkx",
)  # fmt: skip
"""For `./dev bench --quick`: all other systems and measures."""

_TINY_SCALE = 8
_SMALL_SCALE = 14


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when an answer is wrong or ours failed, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    try:
        for name in options.systems:
            peer(name)
        for name in options.measures:
            if name not in BY_NAME:
                raise ValueError(f"no measure {name!r}; choose from {', '.join(BY_NAME)}")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    cache = cache_of(options)
    tiny = graphs.of_scale(_TINY_SCALE, cache)
    limits = runner.Limits(
        options.time_limit, memory_of(options), options.repeats, options.budget, options.cores
    )
    run = results.Run(machine.describe(), ["bench", "batch", *quotable(arguments)], asdict(limits))
    asked = _graphs(options, cache)
    for graph in asked:
        wanted = [name for name in options.measures if BY_NAME[name].offered(graph)]
        run.results.append((graph, _standings(options, graph, tiny, wanted, limits)))
    smaller = [
        name for name in options.measures if not any(BY_NAME[name].offered(each) for each in asked)
    ]
    if smaller:
        graph = graphs.of_scale(_SMALL_SCALE, cache)
        run.small = graph, _standings(options, graph, tiny, smaller, limits)
    publish(report.of_run(run), report.plain(run), options, f"batch-{run.name()}")
    return 1 if run.wrong() else 0


def _standings(
    options: argparse.Namespace,
    graph: graphs.BenchGraph,
    tiny: graphs.BenchGraph,
    measures: list[str],
    limits: runner.Limits,
) -> list[runner.SystemResult]:
    """Every system's turn on one graph."""
    say(f"{graph.name}: {graph.vertices:,} vertices, {graph.edges:,} edges")
    for name in measures:  # found now, so that nobody is timed beside it
        graph.find(name)
    standings = []
    for system in options.systems:
        with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
            standings.append(runner.run(system, graph, tiny, measures, limits, Path(scratch), say))
    return standings


def _graphs(options: argparse.Namespace, cache: Path) -> list[graphs.BenchGraph]:
    if options.edges:
        try:
            return [graphs.of_file(options.edges, cache)]
        except (OSError, ValueError) as error:
            print(error, file=sys.stderr)
            raise SystemExit(2) from None
    return [graphs.of_scale(scale, cache) for scale in options.scale]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks batch", description=__doc__)
    add = parser.add_argument
    add("--scale", type=scales, default=(20,), help="R-MAT scale, or a range as 16..22")
    add("--edges", metavar="FILE", help="edges with whole-number ids instead of R-MAT")
    add("--repeats", type=int, default=5, help="runs of each measure (default 5)")
    add("--budget", type=float, default=15, help="seconds after which no repeat is begun")
    add("--systems", type=_names, default=list(SYSTEMS), help=f"of {','.join(SYSTEMS)}")
    add("--measures", type=_names, default=list(BY_NAME), help="only these")
    add_common(parser, 120, "one run of one measure")
    return parser


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]
