"""Suite ``keyed``: stateful classes, beside other systems that keep state by key.

The parts are cases, or groups of them: bulk, states, processors, count, words, restore, ratings,
chain.
"""

from __future__ import annotations

import argparse

from benchmarks import machine
from benchmarks.keyed import cases, table
from benchmarks.keyed.sizes import Sizes
from benchmarks.options import (
    add_common,
    names,
    numbers,
    parts,
    publish,
    quotable,
    run_cases,
    sizes_of,
)
from benchmarks.suites.snapshots import seconds_between

__all__ = ["QUICK", "main"]

QUICK = (
    "--parts", "bulk,states,count,words,chain-inprocess", "--keys", "50000", "--calls", "65536",
    "--turns", "2", "--single", "20", "--states", "1", "--intervals", "1",
    "--chain-intervals", "1", "--turn", "1", "--rounds", "1", "--events", "100000",
    "--counted", "2000", "--windows", "25", "--seconds", "1", "--repeats", "1",
)  # fmt: skip
"""With these it takes less than two minutes."""

_BULK = (
    "dict", "valkey", "memory-1", "lmdb-1", "lmdb-2", "strings-1", "lists-1", "redis-1",
    "postgres-1",
)  # fmt: skip
_GROUPS = {
    "bulk": _BULK,
    "count": ("count-lmdb", "count-spark"),
    "words": ("words-lmdb", "words-spark", "words-bytewax"),
    "ratings": ("ratings-lmdb", "ratings-spark"),
}
_DEFAULT = tuple(case for case in cases.CASES if case != "chain-inprocess")


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
    add("--parts", type=parts(_GROUPS, cases.CASES), default=_DEFAULT,
        help=f"of {','.join(dict.fromkeys([*_GROUPS, *cases.CASES]))}")  # fmt: skip
    add("--keys", type=int, default=plain.keys, help="different keys")
    add("--calls", type=int, default=plain.calls, help="in bulk, of each kind and turn")
    add("--turns", type=int, default=plain.turns, help="of each kind")
    add("--single", type=int, default=plain.single, help="calls one by one")
    add("--states", type=numbers, default=plain.states, help="MB of state: 100,1000")
    add("--processors", type=numbers, default=plain.processors, help="with a state each: 1,2,4")
    add("--each", type=int, default=plain.each, help="MB of state of each of these")
    add("--kinds", type=names(plain.kinds), default=plain.kinds, help="of snapshots")
    add("--intervals", type=seconds_between, default=plain.intervals,
        help="seconds between snapshots, smallest state: 2,5,10")  # fmt: skip
    add("--chain-intervals", type=seconds_between, default=plain.chain_intervals,
        help="the same, calls that are shuffled three times")  # fmt: skip
    add("--turn", type=float, default=plain.turn, help="seconds of a turn, at least")
    add("--rounds", type=int, default=plain.rounds, help="turns at the interval of the target")
    add("--events", type=int, default=plain.events, help="rows whose keys are counted")
    add("--counted", type=int, default=plain.counted, help="different keys of these")
    add("--windows", type=numbers, default=plain.windows, help="milliseconds: 10,25,50,100")
    add("--seconds", type=float, default=plain.seconds, help="of windows of one length")
    add("--restored", type=int, default=plain.restored, help="MB of state that are restored")
    add("--repeats", type=int, default=plain.repeats, help="of restoring and counting")
    add("--ratings", type=int, default=plain.ratings, help="there before requests are measured")
    add("--requests", type=int, default=plain.requests, help="of each ratio of reads and writes")
    add_common(parser, 600)
    return parser
