"""One number of the suite `state`: its title, its unit, and whether its aim is reached."""

from __future__ import annotations

import statistics
import sys
from typing import Any

Cell = dict[str, Any]

AIMS: dict[
    str, tuple[str, bool, Any, Any]
] = {  # measure: (unit, lower is better, LMDB, the others)
    "fork": ("ms", True, 5.0, 10.0),
    "delta": ("ms", True, 3.0, 10.0),
    "amplification": ("×", True, 4.0, 4.0),
    "base": ("MB/s", False, 500.0, {"redis": 150.0, "postgres": 60.0}),
    "point": ("ms", True, 2.0, 5.0),
    "behind": ("×", True, 2.0, 2.0),
    "between": ("×", True, None, None),
    "forks": ("×", True, 2.2, 2.2),
    "prune": ("ms", True, None, None),
    "overhead": ("%", True, 10.0, 10.0),
    "fork floor": ("ms", True, None, None),
    "delta floor": ("ms", True, None, None),
    "base floor": ("MB/s", False, None, None),
    "point floor": ("ms", True, None, None),
}
ABOUT = {
    "fork": "fork of a loop of {n:,} vertices",
    "fork floor": "*floor: {n} bytes by plain write + fsync, SET, INSERT*",
    "delta": "commit of a delta of 1,000 vertices in {n:,}, put and commit",
    "delta floor": "*floor: the same bytes by plain write + fsync, SET, INSERT*",
    "amplification": "bytes that it writes, over those of the changed state",
    "base": "commit of a base of {n:,} vertices, id and one float64",
    "base floor": "*floor: the same bytes by plain write + fsync, SET, INSERT*",
    "point": "one vertex of {n:,}, read by a cold process: open and look up, imports excluded",
    "point floor": "*floor: open a file, or connect, and read 8 bytes, by a cold process*",
    "behind": "read with {deltas:,} deltas behind, after compaction, over an equal base",
    "between": "the same, {late} deltas after the last compaction",
    "forks": "space of 100 forks of one loop that change 1 % each, over that of the loop",
    "prune": "drop 64 versions of a loop, beside {n:,} answers that were forked from it",
    "overhead": "committing every iteration, PageRank on {n:,} edges, over committing once",
}


def cell(backend: str, measure: str, n: int, values: list[float]) -> Cell:
    """Values of one measure on one backend; n is its size. Tells the median on standard error."""
    unit, lower, lmdb, others = AIMS[measure]
    aim: Any = lmdb if backend == "lmdb" else others
    if isinstance(aim, dict):
        aim = aim.get(backend)
    if backend == "memory":
        aim = None
    median = statistics.median(values)
    reached = None if aim is None else bool(median <= aim if lower else median >= aim)
    cell = {"measure": measure, "n": n, "unit": unit, "values": values, "median": median}
    print(f"{backend}: {measure} {n:,}: {median:.3g} {unit}", file=sys.stderr, flush=True)
    return {**cell, "aim": aim, "lower": lower, "reached": reached}
