"""Suite ``scaling``: time against edges, partitions, executors and changes; what things cost.

Parts: edges and partitions, on 1 and 2 cores and on 1 and 2 executors; changes; costs. The parts
are cases: local-1, local-2, cluster-1, cluster-2, changes, costs, costs-driver.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import document, graphs, machine, processes
from benchmarks.evolving import parent
from benchmarks.evolving.stream import EdgeStream
from benchmarks.scaling import table
from benchmarks.scaling.cases import CASES, needed
from benchmarks.scaling.results import Results
from benchmarks.scaling.sizes import Sizes
from benchmarks.suites.batch import default_cache, quotable, say

__all__ = ["QUICK", "main"]

QUICK = (
    "--scales", "8,10,12", "--scale", "12", "--partitions", "1,2", "--changes", "1,10,100,1000",
    "--parts", "local-2,costs,costs-driver", "--repeats", "1", "--hops", "3",
    "--tasks", "8", "--megabytes", "16", "--log-edges", "16",
)  # fmt: skip
"""With these it takes less than a minute."""

MODULE = "benchmarks.scaling.child"


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when a case failed or an answer is wrong, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    sizes = Sizes(**{n: getattr(options, n) for n in Sizes.__slots__ if hasattr(options, n)})
    if max(sizes.changes) > 8 << sizes.scale:
        print(
            f"--changes {max(sizes.changes)} is more than half of the edges of R-MAT "
            f"{sizes.scale}; give fewer, or a larger --scale",
            file=sys.stderr,
        )
        return 2
    cache = Path(options.cache)
    cache.mkdir(parents=True, exist_ok=True)
    results = Results(machine.describe(), ["bench", "scaling", *quotable(arguments)], sizes)
    memory = int(options.memory * 10**9) if options.memory else processes.available() * 4 // 5
    limits = parent.Limits(options.time_limit, memory)
    for scale in needed(options.parts, sizes):
        graphs.of_scale(scale, cache)
    if "changes" in options.parts:
        EdgeStream(sizes.scale, cache)
    with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
        for case in options.parts:
            results.cases[case] = parent.run(
                case, sizes, cache, Path(scratch) / case, limits, say, child_module=MODULE
            )
    found = table.document(results)
    stem = f"scaling-r-mat-{sizes.scales[0]}-to-r-mat-{sizes.scales[-1]}"
    for path in document.save(found, results.plain(), Path(options.out), stem):
        say(f"written: {path}")
    print(document.markdown(found))
    return 1 if results.problems() else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes()
    parser = argparse.ArgumentParser(prog="python -m benchmarks scaling", description=__doc__)
    add = parser.add_argument
    add("--parts", type=_cases, default=list(CASES), help=f"of {','.join(CASES)}")
    add("--scales", type=_scales, default=plain.scales, help="R-MAT: 14..20, or 14,16,18")
    add("--scale", type=int, choices=range(4, 25), default=plain.scale, metavar="4..24",
        help="R-MAT, for partitions and changes")  # fmt: skip
    add("--partitions", type=_numbers, default=plain.partitions, help="1,2,4,8")
    add("--changes", type=_numbers, default=plain.changes, help="between queries: 1,10,100")
    add("--repeats", type=int, default=plain.repeats, help="runs of each kind")
    add("--budget", type=float, default=plain.budget, help="seconds after which none is begun")
    add("--hops", type=int, default=plain.hops, help="that are timed, of each kind")
    add("--tasks", type=int, default=plain.tasks, help="in a hop, at most, to see what one costs")
    add("--megabytes", type=int, default=plain.megabytes, help="in a hop or a commit, at most")
    add("--log-edges", type=int, default=plain.log_edges, help="2**this edges in random graphs")
    add("--executor-memory", type=int, default=plain.executor_memory, help="MiB of a JVM")
    add("--time-limit", type=float, default=1200, help="seconds for the process of a case")
    add("--cores", type=int, default=plain.cores, help="of changes and costs")
    add("--memory", type=float, help="GB that a case may use (default: 4/5 of what is free)")
    add("--out", metavar="DIR", default="benchmarks/results", help="where the tables go")
    add("--cache", metavar="DIR", default=default_cache(), help="where graphs are kept")
    return parser


def _cases(text: str) -> list[str]:
    found = [name for name in text.split(",") if name]
    for name in found:
        if name not in CASES:
            raise argparse.ArgumentTypeError(f"no part {name!r}; choose from {', '.join(CASES)}")
    return found


def _scales(text: str) -> tuple[int, ...]:
    first, dots, last = text.partition("..")
    found: tuple[int, ...] = ()
    if dots and first.isdigit() and last.isdigit():
        found = tuple(range(int(first), int(last) + 1))
    elif not dots:
        found = _numbers(text)
    if not found or not 4 <= found[0] <= found[-1] <= 26:
        raise argparse.ArgumentTypeError(f"{text!r}: give scales from 4 to 26, as 14..20 or 14,16")
    return found


def _numbers(text: str) -> tuple[int, ...]:
    words = [word for word in text.split(",") if word]
    if not words or not all(word.isdigit() and int(word) for word in words):
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers of at least 1, as 1,2,4")
    return tuple(sorted({int(word) for word in words}))
