"""Suite ``snapshots``: what snapshots cost a main loop, and how fast it is back after a loss.

The parts are cases, or groups of them: intervals, pause, restore, loss, day.
"""

from __future__ import annotations

import argparse

from benchmarks import machine
from benchmarks.options import add_common, numbers, parts, publish, quotable, run_cases, sizes_of
from benchmarks.snapshots import cases, table
from benchmarks.snapshots.sizes import Sizes

__all__ = ["QUICK", "main", "seconds_between"]

QUICK = (
    "--parts", "intervals-inprocess,pause-2,loss,day", "--scale", "12", "--batch", "2000",
    "--intervals", "1", "--turn", "2", "--turns", "1", "--states", "2", "--pauses", "10",
    "--losses", "1", "--snapshots", "1000",
)  # fmt: skip
"""With these it takes about a minute."""

_DEFAULT = ("intervals-2", "intervals-4", "pause-1", "pause-2", "restore", "loss", "day")
_GROUPS = {"intervals": ("intervals-2", "intervals-4"), "pause": ("pause-1", "pause-2")}


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when a case failed or an answer is wrong, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    sizes = sizes_of(Sizes, options)
    command = ["bench", "snapshots", *quotable(arguments)]
    results = table.Results(machine.describe(), command, sizes)
    results.cases = run_cases(cases.__name__, options.parts, sizes, options)
    publish(table.document(results), results.plain(), options, f"snapshots-r-mat-{sizes.scale}")
    return 1 if results.problems() else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks snapshots", description=__doc__)
    add = parser.add_argument
    add("--parts", type=parts(_GROUPS, cases.CASES), default=_DEFAULT,
        help=f"of {','.join([*_GROUPS, *cases.CASES])}")  # fmt: skip
    add("--scale", type=int, choices=range(4, 27), default=plain.scale, metavar="4..26")
    add("--batch", type=int, default=plain.batch, help="changes between two queries")
    add("--intervals", type=seconds_between, default=plain.intervals,
        help="seconds between snapshots: 0.5,1,3,10")  # fmt: skip
    add("--turn", type=float, default=plain.turn, help="seconds of a turn, at least")
    add("--turns", type=int, default=plain.turns, help="turns of each kind every 3 s")
    add("--states", type=numbers, default=plain.states, help="MB of state: 10,100,1000")
    add("--shares", type=numbers, default=plain.shares, help="percent of rows that change")
    add("--pauses", type=int, default=plain.pauses, help="snapshots of each such state, at most")
    add("--patience", type=float, default=plain.patience, help="seconds for these, at most")
    add("--restored", type=int, default=plain.restored, help="MB of state that are restored")
    add("--repeats", type=int, default=plain.repeats, help="of each restoration")
    add("--losses", type=int, default=plain.losses, help="processors that are killed")
    add("--snapshots", type=int, default=plain.snapshots, help="of the simulated day")
    add_common(parser, 1200)
    return parser


def seconds_between(text: str) -> tuple[float, ...]:
    """Reads 0.5,1,3."""
    try:
        read = sorted({float(word) for word in text.split(",")})
    except ValueError:
        read = []
    if not read or not 0 < read[0] <= read[-1] <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r}: give seconds above 0, as 0.5,1,3")
    return tuple(read)
