"""Suite ``soak evolving``: millions of changes with queries among them; does memory stay flat?

Shortest paths are kept up after every batch. The last answer is checked. Memory of the driver, the
JVM and the Python workers is looked at twice a second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import document, machine, processes
from benchmarks.evolving import parent, soak_table
from benchmarks.evolving.options import add_sizes, sizes_of
from benchmarks.evolving.results import Results
from benchmarks.evolving.sizes import Sizes
from benchmarks.suites.batch import quotable, say

CASE = "g-shortest_paths"


def main(arguments: list[str]) -> int:
    """Run the soak. Exit status 0, 1 when it failed or memory grew, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    if options.every > options.total:
        print("--every must not exceed --changes", file=sys.stderr)
        return 2
    cache = Path(options.cache)
    cache.mkdir(parents=True, exist_ok=True)
    command = ["soak", *quotable(arguments)]
    results = Results(machine.describe(), command, sizes_of(options))
    memory = int(options.memory * 10**9) if options.memory else processes.available() * 4 // 5
    limits = parent.Limits(options.time_limit, memory)
    with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
        found = parent.run(CASE, results.sizes, cache, Path(scratch), limits, say, True)
    results.cases[CASE] = found
    told = soak_table.told(results, found)
    stem = f"soak-r-mat-{results.sizes.scale}"
    for path in document.save(told, results.plain(), Path(options.out), stem):
        say(f"written: {path}")
    print(document.markdown(told))
    return 1 if found.problem or not soak_table.flat(found) else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    add = parser.add_argument
    add("what", choices=["evolving"])
    add("--changes", dest="total", type=int, default=plain.total, help="in all")
    add("--every", type=int, default=plain.every, help="changes between queries")
    add("--time-limit", type=float, default=3600, help="seconds")
    add_sizes(parser)
    return parser
