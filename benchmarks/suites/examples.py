"""Suite ``examples``: programs of GraphX and GraphFrames users, ported: lines of code and time."""

from __future__ import annotations

import argparse

from benchmarks import graphs, machine
from benchmarks.options import (
    add_common,
    cache_of,
    memory_of,
    names,
    publish,
    quotable,
    run_cases,
)  # fmt: skip
from benchmarks.ported import cases, table
from benchmarks.ported.catalogue import PROGRAMS
from benchmarks.ported.sizes import Sizes
from benchmarks.ported.systems import SYSTEMS

QUICK = (
    "--scale", "12", "--repeats", "1", "--systems", "ours,graphx",
    "--programs", "shortest_paths,older_followers,pagerank,components,two_hops",
)  # fmt: skip
"""With these it takes less than 40 seconds."""


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when ours failed or an answer is wrong, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    sizes = Sizes(
        options.programs, options.scale, options.repeats, options.budget, options.cores,
        memory_of(options),
    )  # fmt: skip
    about = machine.describe()
    graphs.of_scale(sizes.scale, cache_of(options))
    results = run_cases(cases.__name__, options.systems, sizes, options)
    command = ["bench", "examples", *quotable(arguments)]
    plain = {"cases": {name: case.figures for name, case in results.items()}}
    stem = f"examples-r-mat-{sizes.scale}"
    publish(table.document(about, command, sizes, results), plain, options, stem)
    ours = results.get("ours")
    return int((ours and ours.problem) is not None or any(case.wrong for case in results.values()))


def _parser() -> argparse.ArgumentParser:
    plain = Sizes(())
    parser = argparse.ArgumentParser(prog="python -m benchmarks examples", description=__doc__)
    add = parser.add_argument
    add("--programs", type=names(PROGRAMS), default=tuple(PROGRAMS), help=",".join(PROGRAMS))
    add("--systems", type=names(SYSTEMS), default=tuple(SYSTEMS), help=",".join(SYSTEMS))
    add("--scale", type=int, choices=range(4, 25), default=plain.scale, metavar="4..24")
    add("--repeats", type=int, default=plain.repeats, help="runs of each program")
    add("--budget", type=float, default=plain.budget, help="seconds after which none is begun")
    add_common(parser, 900, "a system")
    return parser
