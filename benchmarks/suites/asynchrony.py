"""Suite ``asynchrony``: what delay bounds above 1 buy on Spark, and what they cost.

Parts: a, the paper's table 2; b, hops and time to convergence by bound, on R-MAT and on a grid of
streets, by hash and by structure; c, one partition slower than the others; d, the protocol's cost
where everything is in one partition.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks import machine, processes
from benchmarks.asynchrony import table
from benchmarks.asynchrony.cases import CASES, graphs_of
from benchmarks.asynchrony.ground import graph_of
from benchmarks.asynchrony.results import Results
from benchmarks.asynchrony.sizes import Sizes
from benchmarks.evolving import parent
from benchmarks.suites.batch import default_cache, quotable, say

__all__ = ["QUICK", "main"]

QUICK = (
    "--parts", "b-grid-structure", "--scale", "12", "--grid", "60", "--bounds", "1,16,auto",
    "--repeats", "1", "--budget", "5",
)  # fmt: skip
"""For `./dev bench --quick`."""

PARTS = {part: [case for case in CASES if case[0] == part] for part in "abcd"}


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when a case failed or an answer is wrong, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    cache = Path(options.cache)
    cache.mkdir(parents=True, exist_ok=True)
    sizes = Sizes(**{n: getattr(options, n) for n in Sizes.__slots__ if hasattr(options, n)})
    command = ["bench", "asynchrony", *quotable(arguments)]
    results = Results(machine.describe(), command, sizes)
    memory = int(options.memory * 10**9) if options.memory else processes.available() * 4 // 5
    limits = parent.Limits(options.time_limit, memory)
    for name in dict.fromkeys(graphs_of(case) for case in options.parts):
        graph_of(name, sizes, cache)
    with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
        for case in options.parts:
            results.cases[case] = parent.run(
                case, sizes, cache, Path(scratch) / case, limits, say,
                child_module="benchmarks.asynchrony.child",
            )  # fmt: skip
    for path in table.save(results, Path(options.out)):
        say(f"written: {path}")
    print(table.markdown(results))
    return 1 if results.problems() else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks asynchrony", description=__doc__)
    add = parser.add_argument
    add("--parts", type=_cases, default=list(CASES), help="a,b,c,d or case names")
    add("--scale", type=int, choices=range(4, 27), default=plain.scale, metavar="4..26")
    add("--grid", type=int, default=plain.grid, metavar="SIDE", help="vertices along one side")
    add("--bounds", type=_bounds, default=plain.bounds, help="of parts b and c: 1,4,auto")
    add("--partitions", type=int, default=plain.partitions, help="of parts b and c")
    add("--partitioner", default=plain.partitioner, help="beside the hash: ldg, fennel or metis")
    add("--times", type=float, default=plain.times, help="how much slower the straggler is")
    add("--least", type=float, default=plain.least, help="seconds of its work in a hop, at least")
    add("--repeats", type=int, default=plain.repeats, help="runs of each bound")
    add("--budget", type=float, default=plain.budget, help="seconds after which none is begun")
    add("--limit", type=float, default=plain.limit, help="seconds for one run")
    add("--time-limit", type=float, default=7200, help="seconds for the process of a case")
    add("--cores", type=int, default=len(os.sched_getaffinity(0)), help="cores to use")
    add("--memory", type=float, help="GB that a case may use (default: 4/5 of what is free)")
    add("--out", metavar="DIR", default="benchmarks/results", help="where the tables go")
    add("--cache", metavar="DIR", default=default_cache(), help="where graphs are kept")
    return parser


def _cases(text: str) -> list[str]:
    found: list[str] = []
    for name in filter(None, text.split(",")):
        if name not in PARTS and name not in CASES:
            known = ", ".join([*PARTS, *CASES])
            raise argparse.ArgumentTypeError(f"no part {name!r}; choose from {known}")
        found += PARTS.get(name, [name])
    return found


def _bounds(text: str) -> tuple[str, ...]:
    found = tuple(filter(None, text.split(",")))
    if found[:1] != ("1",) or not all(b == "auto" or (b.isdigit() and int(b)) for b in found):
        raise argparse.ArgumentTypeError(f"{text!r}: give bounds, the first one 1, as 1,16,auto")
    return found
