"""Suite ``catalogue``: the built-in algorithms beside igraph, NetworKit and NetworkX.

Each on one partition in this process, on R-MAT without direction; all libraries take turns. A run
is timed from a graph in memory to the answer as an array. An answer that differs has no time.
"""

from __future__ import annotations

import argparse
import os
import statistics
from typing import Any

import numpy as np

from benchmarks import graphs, machine
from benchmarks.catalogue.cases import CASES, IG, NK, NX, Loaded
from benchmarks.catalogue.measured import OURS, Measured, measure
from benchmarks.cells import seconds, times
from benchmarks.document import Document, Section, Table
from benchmarks.options import add_folders, cache_of, names, publish, quotable, say
from benchmarks.peers import _arrays

QUICK = ("--scale", "10", "--repeats", "1", "--time-limit", "20")
"""For `./dev bench --quick`."""

LIBRARIES = (NK, IG, NX)


def main(arguments: list[str]) -> int:
    """Run the suite. Exit status 0, 1 when an answer differs, 2 bad arguments."""
    options = _parser().parse_args(arguments)
    about, found = machine.describe(), {}
    held: dict[tuple[int, bool], Loaded] = {}
    for name in options.algorithms:
        case = CASES[name]
        scale = max(options.scale - case.less, 4)
        key = (scale, case.directed)
        if key not in held:
            held[key] = _load(scale, options, directed=case.directed)
        say(f"{name}, R-MAT {scale}")
        found[name] = measure(name, case, held[key], options.repeats, options.time_limit)
    publish(
        _document(found, options, about, arguments), {"seconds": _plain(found)}, options,
        f"catalogue-r-mat-{options.scale}",
    )  # fmt: skip
    return 1 if any(m.wrong for m in found.values()) else 0


def _load(scale: int, options: argparse.Namespace, *, directed: bool) -> Loaded:
    graph = graphs.of_scale(scale, cache_of(options))
    source, target, value = _arrays.parquet(graph.parquet, options.cores)
    ids, source, target = _arrays.compact(source, target)
    if directed:
        key, first = np.unique(source * ids.size + target, return_index=True)
        pairs = key // ids.size, key % ids.size
    else:
        low, high = np.minimum(source, target), np.maximum(source, target)
        key, first = np.unique(low * ids.size + high, return_index=True)
        key, first = key[low[first] != high[first]], first[low[first] != high[first]]
        pairs = key // ids.size, key % ids.size
    weight = value[first].astype(np.float64)
    return Loaded(ids.size, *pairs, weight, options.cores, directed=directed)


def _document(
    found: dict[str, Measured], options: argparse.Namespace, about: Any, arguments: list[str]
) -> Document:
    rows = []
    for name, measured in found.items():
        case = CASES[name]
        own = statistics.median(measured.seconds[OURS])
        cells = [f"`{name}`", seconds(own)]
        for library in LIBRARIES:
            taken = measured.seconds.get(library)
            if library in measured.failed:
                cells.append(measured.failed[library])
            elif not taken:
                cells.append("–")
            else:
                other = statistics.median(taken)
                cells.append(f"{seconds(other)} ({times(other / own)})")
        notes = [f"R-MAT {options.scale - case.less}"] if case.less else []
        cells.append("; ".join([*notes, *([case.note] if case.note else [])]))
        rows.append(cells)
    head = ["algorithm", "vertexsdk, s", *(f"{library}, s" for library in LIBRARIES), ""]
    note = "In parentheses how many times as long as ours. A dash: it has none of this definition."
    return Document(
        "catalogue", f"Built-in algorithms, R-MAT {options.scale}",
        (__doc__ or "").partition("\n\n")[2].strip(),
        "./dev " + " ".join(["bench", "catalogue", *quotable(arguments)]), about,
        f"{options.cores} of {os.cpu_count()} cores used, medians of {options.repeats}",
        sections=[Section("Seconds", parts=[Table(head, rows, note=note)])],
    )  # fmt: skip


def _plain(found: dict[str, Measured]) -> dict[str, Any]:
    return {name: measured.seconds for name, measured in found.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks catalogue", description=__doc__)
    add = parser.add_argument
    add("--scale", type=int, choices=range(4, 27), default=16, metavar="4..26")
    add("--algorithms", type=names(CASES), default=tuple(CASES), help="only these")
    add("--repeats", type=int, default=5, help="runs of each (default 5)")
    add("--time-limit", type=float, default=60, help="seconds for one run of another library")
    add("--cores", type=int, default=len(os.sched_getaffinity(0)), help="cores to use")
    add_folders(parser)
    return parser
