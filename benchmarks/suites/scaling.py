"""Suite ``scaling``: time against edges, partitions, executors and changes; what things cost.

Parts: edges and partitions, on 1 and 2 cores and on 1 and 2 executors; changes; costs. The parts
are cases: local-1, local-2, cluster-1, cluster-2, changes, costs, costs-driver.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import graphs, machine
from benchmarks.evolving.stream import EdgeStream
from benchmarks.options import (
    add_common,
    cache_of,
    names,
    numbers,
    publish,
    quotable,
    run_cases,
    scales,
    sizes_of,
)  # fmt: skip
from benchmarks.scaling import cases, table
from benchmarks.scaling.results import Results
from benchmarks.scaling.sizes import Sizes

__all__ = ["QUICK", "main"]

QUICK = (
    "--scales", "8,10,12", "--scale", "12", "--partitions", "1,2", "--changes", "1,10,100,1000",
    "--parts", "local-2,costs,costs-driver", "--repeats", "1", "--hops", "3",
    "--tasks", "8", "--megabytes", "16", "--log-edges", "16",
)  # fmt: skip
"""With these it takes less than a minute."""


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when a case failed or an answer is wrong, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    sizes = sizes_of(Sizes, options)
    if max(sizes.changes) > 8 << sizes.scale:
        print(
            f"--changes {max(sizes.changes)} is more than half of the edges of R-MAT "
            f"{sizes.scale}; give fewer, or a larger --scale",
            file=sys.stderr,
        )
        return 2
    results = Results(machine.describe(), ["bench", "scaling", *quotable(arguments)], sizes)
    for scale in cases.needed(options.parts, sizes):
        graphs.of_scale(scale, cache_of(options))
    if "changes" in options.parts:
        EdgeStream(sizes.scale, cache_of(options))
    results.cases = run_cases(cases.__name__, options.parts, sizes, options)
    stem = f"scaling-r-mat-{sizes.scales[0]}-to-r-mat-{sizes.scales[-1]}"
    publish(table.document(results), results.plain(), options, stem)
    return 1 if results.problems() else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks scaling", description=__doc__)
    add = parser.add_argument
    add(
        "--parts",
        type=names(cases.CASES),
        default=tuple(cases.CASES),
        help=f"of {','.join(cases.CASES)}",
    )
    add("--scales", type=scales, default=plain.scales, help="R-MAT: 14..20, or 14,16,18")
    add("--scale", type=int, choices=range(4, 25), default=plain.scale, metavar="4..24",
        help="R-MAT, for partitions and changes")  # fmt: skip
    add("--partitions", type=numbers, default=plain.partitions, help="1,2,4,8")
    add("--changes", type=numbers, default=plain.changes, help="between queries: 1,10,100")
    add("--repeats", type=int, default=plain.repeats, help="runs of each kind")
    add("--budget", type=float, default=plain.budget, help="seconds after which none is begun")
    add("--hops", type=int, default=plain.hops, help="that are timed, of each kind")
    add("--tasks", type=int, default=plain.tasks, help="in a hop, at most, to see what one costs")
    add("--megabytes", type=int, default=plain.megabytes, help="in a hop or a commit, at most")
    add("--log-edges", type=int, default=plain.log_edges, help="2**this edges in random graphs")
    add("--executor-memory", type=int, default=plain.executor_memory, help="MiB of a JVM")
    add_common(parser, 1200)
    return parser
