"""Suite ``asynchrony``: what delay bounds above 1 buy on Spark, and what they cost.

Parts: a, the paper's table 2; b, hops and time to convergence by bound, on R-MAT and on a grid of
streets, by hash and by structure; c, one partition at a time slower than the others; d, the
protocol's cost where everything is in one partition.
"""

from __future__ import annotations

import argparse

from benchmarks import machine
from benchmarks.asynchrony import cases, table
from benchmarks.asynchrony.cases import CASES
from benchmarks.asynchrony.results import Results
from benchmarks.asynchrony.runs import graph_of
from benchmarks.asynchrony.sizes import Sizes
from benchmarks.options import (
    add_common,
    cache_of,
    parts,
    publish,
    quotable,
    run_cases,
    sizes_of,
)  # fmt: skip

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
    sizes = sizes_of(Sizes, options)
    results = Results(machine.describe(), ["bench", "asynchrony", *quotable(arguments)], sizes)
    for name in dict.fromkeys(map(cases.graphs_of, options.parts)):
        graph_of(name, sizes, cache_of(options))
    results.cases = run_cases(cases.__name__, options.parts, sizes, options)
    stem = f"asynchrony-r-mat-{sizes.scale}"
    publish(table.document(results), results.plain(), options, stem)
    return 1 if results.problems() else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks asynchrony", description=__doc__)
    add = parser.add_argument
    add("--parts", type=parts(PARTS, CASES), default=tuple(CASES), help="a,b,c,d or case names")
    add("--scale", type=int, choices=range(4, 27), default=plain.scale, metavar="4..26")
    add("--grid", type=int, default=plain.grid, metavar="SIDE", help="vertices along one side")
    add("--bounds", type=_bounds, default=plain.bounds, help="of parts b and c: 1,4,auto")
    add("--partitions", type=int, default=plain.partitions, help="of parts b and c")
    add("--partitioner", default=plain.partitioner, help="beside the hash: ldg, fennel or metis")
    add("--times", type=float, default=plain.times, help="how much slower the straggler is")
    add("--least", type=float, default=plain.least, help="seconds of its work in a hop, at least")
    add("--turn", type=_seconds, default=plain.turn, help="seconds until another one is slow")
    add("--repeats", type=int, default=plain.repeats, help="runs of each bound")
    add("--budget", type=float, default=plain.budget, help="seconds after which none is begun")
    add("--limit", type=float, default=plain.limit, help="seconds for one run")
    add_common(parser, 7200)
    return parser


def _bounds(text: str) -> tuple[str, ...]:
    found = tuple(filter(None, text.split(",")))
    if found[:1] != ("1",) or not all(b == "auto" or (b.isdigit() and int(b)) for b in found):
        raise argparse.ArgumentTypeError(f"{text!r}: give bounds, the first one 1, as 1,16,auto")
    return found


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of seconds above 0")
    return seconds
