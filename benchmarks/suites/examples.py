"""Suite ``examples``: programs of GraphX and GraphFrames users, ported: lines of code and time."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import document, graphs, machine, processes
from benchmarks.evolving import parent
from benchmarks.ported import table
from benchmarks.ported.catalogue import PROGRAMS
from benchmarks.ported.sizes import Sizes
from benchmarks.ported.systems import SYSTEMS
from benchmarks.suites.batch import default_cache, quotable, say

__all__ = ["QUICK", "main"]

QUICK = (
    "--scale", "12", "--repeats", "1", "--systems", "ours,graphx",
    "--programs", "shortest_paths,older_followers,pagerank,components,two_hops",
)  # fmt: skip
"""With these it takes less than 40 seconds."""

MODULE = "benchmarks.ported.child"


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when ours failed or an answer is wrong, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    cache = Path(options.cache)
    cache.mkdir(parents=True, exist_ok=True)
    memory = int(options.memory * 10**9) if options.memory else processes.available() * 4 // 5
    sizes = Sizes(
        options.programs, options.scale, options.repeats, options.budget, options.cores, memory
    )
    about = machine.describe()
    graphs.of_scale(sizes.scale, cache)
    limits = parent.Limits(options.time_limit, memory)
    cases = {}
    with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
        for system in options.systems:
            cases[system] = parent.run(
                system, sizes, cache, Path(scratch) / system, limits, say, child_module=MODULE
            )
    command = ["bench", "examples", *quotable(arguments)]
    found = table.document(about, command, sizes, cases)
    plain = {"cases": {name: case.figures for name, case in cases.items()}}
    stem = f"examples-r-mat-{sizes.scale}"
    for path in document.save(found, plain, Path(options.out), stem):
        say(f"written: {path}")
    print(document.markdown(found))
    problems = {name: case.problem or "" for name, case in cases.items()}
    bad = problems.get("ours") or any(p.startswith("wrong") for p in problems.values())
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    plain = Sizes(())
    parser = argparse.ArgumentParser(prog="python -m benchmarks examples", description=__doc__)
    add = parser.add_argument
    add("--programs", type=_of(PROGRAMS), default=tuple(PROGRAMS), help=",".join(PROGRAMS))
    add("--systems", type=_of(SYSTEMS), default=tuple(SYSTEMS), help=",".join(SYSTEMS))
    add("--scale", type=int, choices=range(4, 25), default=plain.scale, metavar="4..24")
    add("--repeats", type=int, default=plain.repeats, help="runs of each program")
    add("--budget", type=float, default=plain.budget, help="seconds after which none is begun")
    add("--time-limit", type=float, default=900, help="seconds for a system")
    add("--memory", type=float, help="GB that a system may use (default: 4/5 of what is free)")
    add("--cores", type=int, default=len(os.sched_getaffinity(0)), help="cores for each system")
    add("--out", metavar="DIR", default="benchmarks/results", help="where the tables go")
    add("--cache", metavar="DIR", default=default_cache(), help="where graphs are kept")
    return parser


def _of(known: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """What reads names, separated by commas, of which all must be known."""
    choices = list(known)

    def read(text: str) -> tuple[str, ...]:
        names = tuple(name for name in text.split(",") if name)
        unknown = [name for name in names if name not in choices]
        if unknown or not names:
            said = ", ".join(unknown) or repr(text)
            raise argparse.ArgumentTypeError(f"no {said}; choose from {', '.join(choices)}")
        return names

    return read
