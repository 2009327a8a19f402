"""Suite ``triggers``: triggers on tables that change, beside batch jobs on all of them.

The parts are cases, or groups of them: writes, preemption, reuse, words, pagerank, clustering.
"""

from __future__ import annotations

import argparse

from benchmarks import machine
from benchmarks.options import add_common, numbers, parts, publish, quotable, run_cases, sizes_of
from benchmarks.triggers import cases, table
from benchmarks.triggers.sizes import Sizes

__all__ = ["QUICK", "main"]

QUICK = (
    "--rows", "5000", "--pairs", "3", "--graph", "60", "--degrees", "5,10",
    "--partials", "100,800", "--totals", "20", "--texts", "5000", "--pages", "500",
    "--shares", "0.1,1,10", "--items", "500,1000", "--clusters", "20", "--turns", "1",
)  # fmt: skip
"""With these it takes about two minutes."""

_GROUPS = {
    group: tuple(case for case in cases.CASES if case.startswith(group))
    for group in ("writes", "words", "pagerank")
}


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when a case failed or an answer is wrong, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    sizes = sizes_of(Sizes, options)
    results = table.Results(machine.describe(), ["bench", "triggers", *quotable(arguments)], sizes)
    results.cases = run_cases(cases.__name__, options.parts, sizes, options)
    publish(table.document(results), results.plain(), options, f"triggers-{sizes.texts}")
    return 1 if results.problems() else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks triggers", description=__doc__)
    add = parser.add_argument
    add("--parts", type=parts(_GROUPS, cases.CASES), default=tuple(cases.CASES),
        help=f"of {','.join(dict.fromkeys([*_GROUPS, *cases.CASES]))}")  # fmt: skip
    add("--rows", type=int, default=plain.rows, help="of the table that is written to")
    add("--pairs", type=int, default=plain.pairs, help="turns of each loop that writes to it")
    add("--graph", type=int, default=plain.graph, help="pages of the graphs with preemption")
    add("--degrees", type=numbers, default=plain.degrees, help="links into each of these: 10,200")
    add("--partials", type=numbers, default=plain.partials, help="of an accumulation: 100,800")
    add("--totals", type=int, default=plain.totals, help="of partial results")
    add("--texts", type=int, default=plain.texts, help="pages whose words are counted")
    add("--pages", type=int, default=plain.pages, help="pages that are ranked")
    add("--shares", type=_percents, default=plain.shares, help="percent that change: 0.01,1,100")
    add("--items", type=numbers, default=plain.items, help="of clustering: 1000,10000")
    add("--clusters", type=int, default=plain.clusters, help="of these")
    add("--turns", type=int, default=plain.turns, help="of what is timed more than once")
    add_common(parser, 3600)
    return parser


def _percents(text: str) -> tuple[float, ...]:
    """Reads 0.01,1,100."""
    try:
        read = sorted({float(word) for word in text.split(",")})
    except ValueError:
        read = []
    if not read or not 0 < read[0] <= read[-1] <= 100:
        raise argparse.ArgumentTypeError(f"{text!r}: give percents up to 100, as 0.01,1,100")
    return tuple(read)
