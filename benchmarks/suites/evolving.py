"""Suite ``evolving``: exact answers about a graph that changes, beside doing them from scratch.

Parts: a, queries after 1,000 changes each, shortest paths and components; b, the same for PageRank;
c, queries after 1 % to 20 % of the edges arrived, with and without approximation in the main loop;
d, sustained ingest; e, vertices touched by single changes; f, forks while ingesting.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks import machine, processes, turns
from benchmarks.evolving import instants, parent, table
from benchmarks.evolving.results import SCRATCH, Results
from benchmarks.evolving.sizes import Sizes
from benchmarks.suites.batch import default_cache, quotable, say

PARTS = {
    "a": ("a-shortest_paths", "a-components"),
    "b": ("b-pagerank",),
    "c": (
        "c-shortest_paths",
        "c-shortest_paths-batch",
        "c-pagerank",
        "c-pagerank-batch",
    ),
    "d": ("d-shortest_paths",),
    "e": ("e-shortest_paths",),
    "f": ("f-shortest_paths",),
}
_TINY_SCALE = 8


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when an answer is wrong or ours failed, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    cache = Path(options.cache)
    cache.mkdir(parents=True, exist_ok=True)
    results = Results(
        machine.describe(), ["bench", "evolving", *quotable(arguments)], sizes_of(options)
    )
    memory = int(options.memory * 10**9) if options.memory else processes.available() * 4 // 5
    with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
        for case in options.parts:
            folder, limits = Path(scratch) / case, parent.Limits(options.time_limit, memory)
            results.cases[case] = parent.run(case, results.sizes, cache, folder, limits, say)
        if options.systems:
            _from_scratch(results, options, cache, Path(scratch), memory)
    for path in table.save(results, Path(options.out)):
        say(f"written: {path}")
    print(table.markdown(results))
    return 1 if results.wrong() else 0


def _from_scratch(
    results: Results, options: argparse.Namespace, cache: Path, scratch: Path, memory: int
) -> None:
    """What the other systems take for the graph after the first query that counted."""
    programs = [case[2:] for case in options.parts if case[0] in "ab"]
    if not programs:
        return
    sizes = results.sizes
    graph = instants.graph_after(sizes.scale, cache, [sizes.changes] * (sizes.warm + 1))
    results.instant = f"{graph.name}: {graph.vertices:,} vertices, {graph.edges:,} edges."
    tiny = instants.graph_after(_TINY_SCALE, cache, [])
    limits = turns.Limits(options.time_limit, memory, 3, options.seconds, sizes.cores)
    measures = [SCRATCH[program] for program in programs]
    for system in options.systems:
        folder = scratch / system
        folder.mkdir()
        results.standings[system] = turns.run(
            instants.SYSTEMS[system], graph, tiny, measures, limits, folder, say
        )


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks evolving", description=__doc__)
    add = parser.add_argument
    add("--parts", type=_cases, default=_cases("a,b,c,d,e,f"), help="a,b,c,d,e,f or case names")
    add_sizes(parser)
    add("--queries", type=int, default=plain.queries, help="parts a and b")
    add("--changes", type=int, default=plain.changes, help="before each of these queries")
    add("--singles", type=int, default=plain.singles, help="changes of one edge, part e")
    add("--shares", type=_shares, default=plain.shares, help="of the edges, part c")
    add("--seconds", type=float, default=plain.seconds, help="for a case once it is warm")
    add("--time-limit", type=float, default=300, help="seconds for the process of a case")
    add("--systems", type=_systems, default=list(instants.SYSTEMS), help="from scratch; may be ''")
    return parser


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """The options that the soak has too."""
    plain, add = Sizes(), parser.add_argument
    add("--scale", type=int, choices=range(4, 27), default=plain.scale, metavar="4..26")
    add("--batch", type=int, default=plain.batch, help="changes that are ingested at once")
    add("--batch-seconds", type=float, default=plain.batch_seconds, help="of approximation, part c")
    add("--warm", type=int, default=plain.warm, help="rounds that are not counted")
    add("--cores", type=int, default=len(os.sched_getaffinity(0)), help="cores to use")
    add("--memory", type=float, help="GB that a case may use (default: 4/5 of what is free)")
    add("--out", metavar="DIR", default="benchmarks/results", help="where the tables go")
    add("--cache", metavar="DIR", default=default_cache(), help="where graphs are kept")


def sizes_of(options: argparse.Namespace) -> Sizes:
    """What the options say; what they have not is as it is by default."""
    return Sizes(
        **{name: getattr(options, name) for name in Sizes.__slots__ if hasattr(options, name)}
    )


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _cases(text: str) -> list[str]:
    every = [case for cases in PARTS.values() for case in cases]
    found: list[str] = []
    for name in _names(text):
        if name not in PARTS and name not in every:
            known = ", ".join([*PARTS, *every])
            raise argparse.ArgumentTypeError(f"no part {name!r}; choose from {known}")
        found += PARTS.get(name, (name,))
    return found


def _systems(text: str) -> list[str]:
    found = _names(text)
    if not set(found) <= set(instants.SYSTEMS):
        raise argparse.ArgumentTypeError(f"{text!r}: choose from {','.join(instants.SYSTEMS)}")
    return found


def _shares(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(word) for word in _names(text))
    except ValueError:
        found = ()
    if not found or not all(0 < share <= 0.5 for share in found):
        raise argparse.ArgumentTypeError(f"{text!r}: give shares of the edges, as 0.01,0.2")
    return found
