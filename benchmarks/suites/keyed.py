"""Suite ``keyed``: calls of stateful classes, beside a dict and Valkey.

The parts are cases: dict, valkey, memory-1, lmdb-1, lmdb-2, strings-1, lists-1, redis-1, postgres-1.
"""

from __future__ import annotations

import argparse

from benchmarks import machine
from benchmarks.keyed import cases, table
from benchmarks.keyed.sizes import Sizes
from benchmarks.options import add_common, names, publish, quotable, run_cases, sizes_of

__all__ = ["QUICK", "main"]

QUICK = ("--keys", "50000", "--calls", "65536", "--turns", "2", "--single", "20")
"""With these it takes less than a minute."""


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when a case failed or an answer is wrong, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    sizes = sizes_of(Sizes, options)
    results = table.Results(machine.describe(), ["bench", "keyed", *quotable(arguments)], sizes)
    results.cases = run_cases(cases.__name__, options.parts, sizes, options)
    publish(table.document(results), results.plain(), options, f"keyed-{sizes.keys}")
    return 1 if results.problems() else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks keyed", description=__doc__)
    add = parser.add_argument
    add("--parts", type=names(cases.CASES), default=tuple(cases.CASES),
        help=f"of {','.join(cases.CASES)}")  # fmt: skip
    add("--keys", type=int, default=plain.keys, help="different keys")
    add("--calls", type=int, default=plain.calls, help="in bulk, of each kind and turn")
    add("--turns", type=int, default=plain.turns, help="of each kind")
    add("--single", type=int, default=plain.single, help="calls one by one")
    add_common(parser, 600)
    return parser
