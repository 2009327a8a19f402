"""Suite ``learning``: models of instances that arrive, beside systems that learn anew.

The parts are cases, or groups of them: points, instants, rates.
"""

from __future__ import annotations

import argparse

from benchmarks import machine
from benchmarks.learning import cases, table
from benchmarks.learning.sizes import Sizes
from benchmarks.options import add_common, numbers, parts, publish, quotable, run_cases, sizes_of

__all__ = ["QUICK", "main"]

QUICK = (
    "--points", "20000", "--most", "20", "--instances", "20000", "--shares", "1,10",
    "--stream", "4000", "--columns", "5000", "--batches", "8", "--turns", "2",
)  # fmt: skip
"""With these it takes about two minutes."""

_GROUPS = {
    group: tuple(case for case in cases.CASES if case.startswith(group))
    for group in ("points", "instants", "rates")
}


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when a case failed or an answer is wrong, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    sizes = sizes_of(Sizes, options)
    results = table.Results(machine.describe(), ["bench", "learning", *quotable(arguments)], sizes)
    results.cases = run_cases(cases.__name__, options.parts, sizes, options)
    publish(table.document(results), results.plain(), options, f"learning-{sizes.points}")
    return 1 if results.problems() else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks learning", description=__doc__)
    add = parser.add_argument
    add("--parts", type=parts(_GROUPS, cases.CASES), default=tuple(cases.CASES),
        help=f"of {','.join([*_GROUPS, *cases.CASES])}")  # fmt: skip
    add("--points", type=int, default=plain.points, help="of logistic regression")
    add("--passes", type=int, default=plain.passes, help="over them, for points/s")
    add("--most", type=int, default=plain.most, help="passes to 1.01 × the best loss, at most")
    add("--instances", type=int, default=plain.instances, help="at the last instant")
    add("--shares", type=numbers, default=plain.shares, help="percent that arrive: 1,5,10,20")
    add("--stream", type=int, default=plain.stream, help="instances of a stream, for rates")
    add("--columns", type=int, default=plain.columns, help="of the bags of words among these")
    add("--batches", type=int, default=plain.batches, help="of the stream")
    add("--turns", type=int, default=plain.turns, help="of what is timed more than once")
    add_common(parser, 3600)
    return parser
