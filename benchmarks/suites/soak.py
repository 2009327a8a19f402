"""Suite ``soak evolving``: millions of changes with queries among them; does memory stay flat?

Shortest paths are kept up after every batch. The last answer is checked. Memory of the driver, the
JVM and the Python workers is looked at twice a second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import machine
from benchmarks.evolving import soak_table
from benchmarks.evolving.cases import MODULE
from benchmarks.evolving.options import add_sizes
from benchmarks.evolving.results import Results
from benchmarks.evolving.sizes import Sizes
from benchmarks.options import add_common, cache_of, limits_of, publish, quotable, say, sizes_of
from benchmarks.runner import run_case

CASE = "g-shortest_paths"


def main(arguments: list[str]) -> int:
    """Run the soak. Exit status 0, 1 when it failed or memory grew, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    if options.every > options.total:
        print("--every must not exceed --changes", file=sys.stderr)
        return 2
    sizes = sizes_of(Sizes, options)
    results = Results(machine.describe(), ["soak", *quotable(arguments)], sizes)
    limits, cache = limits_of(options), cache_of(options)
    with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
        result = run_case(MODULE, CASE, sizes, cache, Path(scratch), limits, say, watch_memory=True)
    results.cases[CASE] = result
    publish(
        soak_table.document(results, result), results.plain(), options, f"soak-r-mat-{sizes.scale}"
    )
    return 1 if result.problem or not soak_table.flat(result) else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    add = parser.add_argument
    add("what", choices=["evolving"])
    add("--changes", dest="total", type=int, default=plain.total, help="in all")
    add("--every", type=int, default=plain.every, help="changes between queries")
    add_sizes(parser)
    add_common(parser, 3600)
    return parser
