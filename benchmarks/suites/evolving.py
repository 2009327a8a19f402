"""Suite ``evolving``: exact answers about a graph that changes, beside doing them from scratch.

Parts: a, queries after 1,000 changes each, shortest paths and components; b, the same for PageRank;
c, queries after 1 % to 20 % of the edges arrived, with and without approximation in the main loop;
d, sustained ingest; e, vertices touched by single changes; f, forks while ingesting.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks import machine
from benchmarks.batch import runner as batch
from benchmarks.evolving import beside, instants, table
from benchmarks.evolving.cases import MODULE
from benchmarks.evolving.options import parser_of
from benchmarks.evolving.own_files import FileStream
from benchmarks.evolving.results import SCRATCH, Results
from benchmarks.evolving.sizes import Sizes
from benchmarks.graphs import BenchGraph
from benchmarks.options import cache_of, memory_of, publish, quotable, say, sizes_of
from benchmarks.processes import Limits
from benchmarks.runner import run_case

_TINY_SCALE = 8
QUICK = (
    "--scale=10", "--parts=a-shortest_paths,c-shortest_paths,c-shortest_paths-batch", "--queries=8",
    "--every=200", "--shares=0.05", "--batch-seconds=0.1", "--seconds=1",
    "--peer-scales=10", "--peer-time-limit=20", "--systems=graphx,graphframes",
)  # fmt: skip
"""What `./dev bench --quick` calls it with."""


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when an answer is wrong or ours failed, 2 bad arguments."""
    parser = parser_of(__doc__)
    options = parser.parse_args(arguments)
    cache, memory = cache_of(options), memory_of(options)
    sizes, files = sizes_of(Sizes, options), ""
    with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
        if options.changes_files or options.edges_file:
            try:
                sizes, files = _of_files(options, sizes, Path(scratch))
            except (OSError, ValueError) as error:
                parser.error(str(error))
        command = ["bench", "evolving", *quotable(arguments)]
        results = Results(machine.describe(), command, sizes, files=files)
        for case in options.parts:
            folder, limits = Path(scratch) / case, Limits(options.time_limit, memory)
            results.cases[case] = run_case(MODULE, case, sizes, cache, folder, limits, say)
        _beside(results, options, cache, Path(scratch), memory)
        if options.systems:
            _from_scratch(results, options, cache, Path(scratch), memory)
            _at_shares(results, options, cache, Path(scratch), memory)
    publish(table.document(results), results.plain(), options, table.stem(results))
    return 1 if results.wrong() else 0


def _of_files(options: argparse.Namespace, sizes: Sizes, scratch: Path) -> tuple[Sizes, str]:
    """With files of one's own: as many queries as there are changes for; only parts a and b.

    And what is in the files."""
    if not (options.edges_file and options.changes_files):
        raise ValueError("give both --edges FILE and --changes FILE...")
    names = [Path(name).absolute() for name in (options.edges_file, *options.changes_files)]
    stream = FileStream(names[0], names[1:], scratch / "files")
    rounds = -(-stream.left // options.changes)
    if not rounds:
        raise ValueError(f"no line of {', '.join(p.name for p in names[1:])} changes the graph")
    options.parts = [case for case in options.parts if case[0] in "ab"]
    warm = min(options.warm, rounds // 4)
    told = (
        f"{names[0].name}: {stream.edges:,} edges; {', '.join(p.name for p in names[1:])}: "
        f"{stream.left:,} changes, {stream.idle:,} more that would have no effect are left out."
    )
    say(told)
    return replace(
        sizes, edges_file=str(names[0]), changes_files=tuple(map(str, names[1:])), warm=warm,
        queries=rounds - warm, seconds=options.time_limit,
    ), told  # fmt: skip


def _beside(
    results: Results, options: argparse.Namespace, cache: Path, scratch: Path, memory: int
) -> None:
    """The systems for changing graphs, and ours on the sizes that they finish."""
    limits = Limits(options.peer_time_limit, memory)
    setting = beside.Setting(results.sizes, cache, scratch, limits, say)
    for name in options.peers:
        results.beside[name] = beside.streamed(name, options.parts, options.peer_scales, setting)
    setting = replace(setting, limits=Limits(options.time_limit, memory))
    results.ours = beside.ours_there(results.beside.values(), setting)


def _from_scratch(
    results: Results, options: argparse.Namespace, cache: Path, scratch: Path, memory: int
) -> None:
    """What the other systems take for the graph after the first query that counted."""
    programs = [case[2:] for case in options.parts if case[0] in "ab"]
    if not programs:
        return
    sizes = results.sizes
    if sizes.edges_file:
        changes = [Path(name) for name in sizes.changes_files]
        graph = instants.graph_of_files(Path(sizes.edges_file), changes, cache)
    else:
        graph = instants.graph_after(sizes.scale, cache, [sizes.changes] * (sizes.warm + 1))
    results.instant = f"{graph.name}: {graph.vertices:,} vertices, {graph.edges:,} edges."
    measures = [SCRATCH[program] for program in programs]
    limits = batch.Limits(options.time_limit, memory, 3, options.seconds, sizes.cores)
    for system in options.systems:
        folder = scratch / system
        folder.mkdir()
        results.standings[system] = _turn(system, graph, measures, limits, folder, cache)


def _at_shares(
    results: Results, options: argparse.Namespace, cache: Path, scratch: Path, memory: int
) -> None:
    """What others than ours take after each share of the edges has arrived."""
    cases = [case for case in ("c-shortest_paths", "c-pagerank") if case in options.parts]
    others = [system for system in options.systems if system != "ours"]
    sizes, arrived = results.sizes, [results.sizes.changes]
    limits = batch.Limits(options.time_limit, memory, 3, options.seconds, sizes.cores)
    edges = results.cases[cases[0]].edges if cases else 0
    for share in sizes.shares if edges and others else ():
        arrived.append(int(share * edges))
        graph = instants.graph_after(sizes.scale, cache, arrived)
        for system in list(others):
            folder = scratch / f"{system}-{share:g}"
            folder.mkdir()
            measures = [SCRATCH[case[2:]] for case in cases]
            found = _turn(system, graph, measures, limits, folder, cache)
            results.arrived.setdefault(f"{share:g}", {})[system] = found
            if found.unavailable:
                others.remove(system)


def _turn(
    system: str, graph: BenchGraph, measures: list[str], limits: batch.Limits, folder: Path,
    cache: Path,
) -> batch.SystemResult:  # fmt: skip
    tiny = instants.graph_after(_TINY_SCALE, cache, [])
    return batch.run(instants.SYSTEMS[system], graph, tiny, measures, limits, folder, say)
