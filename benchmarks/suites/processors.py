"""Suite ``processors``: what commands, programs, executors, loading and branches cost.

The parts are cases: commands, beside, executors-1, executors-2, memory-1, memory-2, branches,
command.
"""

from __future__ import annotations

import argparse

from benchmarks import graphs, machine
from benchmarks.options import (
    add_common,
    cache_of,
    names,
    numbers,
    publish,
    quotable,
    run_cases,
    scales,
    sizes_of,
)  # fmt: skip
from benchmarks.processors import cases, table
from benchmarks.processors.sizes import Sizes
from benchmarks.programs import TINY_SCALE

__all__ = ["QUICK", "main"]

QUICK = (
    "--parts", "commands,beside,branches", "--scale", "10", "--repeats", "1", "--commands", "10",
    "--branches", "1", "--branch-scale", "10", "--batch", "1000", "--seconds", "2",
)  # fmt: skip
"""With these it takes less than a minute."""


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when a case failed or an answer is wrong, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    sizes = sizes_of(Sizes, options)
    results = table.Results(
        machine.describe(), ["bench", "processors", *quotable(arguments)], sizes
    )
    memory = sizes.slope if any(part.startswith("memory") for part in options.parts) else ()
    for scale in {TINY_SCALE, sizes.scale, *memory}:
        graphs.of_scale(scale, cache_of(options))
    results.cases = run_cases(cases.__name__, options.parts, sizes, options)
    publish(table.document(results), results.plain(), options, f"processors-r-mat-{sizes.scale}")
    return 1 if results.problems() else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks processors", description=__doc__)
    add = parser.add_argument
    add("--parts", type=names(cases.CASES), default=tuple(cases.CASES),
        help=f"of {','.join(cases.CASES)}")  # fmt: skip
    add("--scale", type=int, choices=range(4, 27), default=plain.scale, metavar="4..26")
    add("--slope", type=scales, default=plain.slope, help="scales for memory: 18,20")
    add("--repeats", type=int, default=plain.repeats, help="runs of each kind")
    add("--commands", type=int, default=plain.commands, help="that are timed, of each kind")
    add("--branches", type=numbers, default=plain.branches, help="beside ingest: 1,4,16")
    add("--branch-scale", type=int, default=plain.branch_scale, help="R-MAT, for branches")
    add("--batch", type=int, default=plain.batch, help="changes in a batch beside branches")
    add("--seconds", type=float, default=plain.seconds, help="of ingest, for each number of them")
    add("--executor-memory", type=int, default=plain.executor_memory, help="MiB of a JVM")
    add_common(parser, 1800)
    return parser
