"""How long a loop takes to be resumed from a snapshot, by partitions before and after.

As figures 11 to 13 of the SDG paper: the state of m partitions is restored by n.
"""

from __future__ import annotations

import time

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.snapshots.sizes import Sizes
from benchmarks.snapshots.wide import Rows, Wide, ring, vertices
from vertexsdk import Budget, MainLoop, session

BEFORE, AFTER = (1, 2), (1, 2, 4)
_SLOTS = 6  # of the session


def restoring(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds from `MainLoop.resume` to the first query and to the first lookup."""
    spark = session(f"local[{_SLOTS}]")
    n = vertices(sizes.restored)
    asked = [0, n // 2, n - 1]
    for before in BEFORE:
        backend = f"lmdb://{process.scratch}/{before}"
        graph = ring(sizes.restored, spark, before)
        began = time.perf_counter()
        with MainLoop(Wide, graph, backend=backend, budget=Budget()) as main:
            main.ingest(Rows(sizes.restored).changes(1))
            main.snapshot()
            process.note(f"bytes {before}", main.progress()["snapshot_bytes"])
            process.note(f"stored {before}", main.progress()["snapshot_seconds"])
            right = main.lookup(asked, "p")
        graph.unpersist()
        process.note(f"prepared {before}", time.perf_counter() - began)
        for _ in range(sizes.repeats):
            for after in AFTER:
                began = time.perf_counter()
                with MainLoop.resume(spark, Wide, backend=backend, partitions=after) as main:
                    resumed = time.perf_counter()
                    answer = main.query()
                    took = time.perf_counter()
                    found = main.lookup(asked, "p")
                    warm = answer.statistics["start"] == "warm"
                    answer.close()
                    process.note(f"{before} to {after}", took - began)
                    process.note(f"{before} to {after} resume", resumed - began)
                if not warm or [found[v]["p"] for v in asked] != [right[v]["p"] for v in asked]:
                    raise Wrong(f"{before} to {after}: it did not go on from the snapshot")
