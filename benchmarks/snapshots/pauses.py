"""For how long a snapshot stops a partition, by size of the state and rows that changed."""

from __future__ import annotations

import time

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.snapshots.sizes import Sizes
from benchmarks.snapshots.wide import Rows, Wide, ring
from vertexsdk import Budget, MainLoop

_LARGE = 300  # MB; of larger states only the smallest share of rows is changed
_REST = 0.5  # seconds in which what is under way is stored
_STORED = 60.0  # seconds until a snapshot must be stored


def pauses(partitions: int, process: CaseProcess, sizes: Sizes) -> None:
    """Note the pause of every snapshot, and how long it took until it was stored."""
    for megabytes in sizes.states:
        graph = ring(megabytes, partitions=partitions)
        with MainLoop(
            Wide, graph, backend=f"lmdb://{process.scratch}/{megabytes}", budget=Budget(),
            snapshot_every="20ms", retain=2,
        ) as main:  # fmt: skip
            main.query().close()
            rows = Rows(megabytes)
            main.ingest(rows.changes(1))
            _stored(main, 0)  # the first is of all rows
            shares = sizes.shares if megabytes <= _LARGE else sizes.shares[:1]
            for percent in shares:
                _measure(process, sizes, main, rows, megabytes, percent)
        graph.unpersist()


def _measure(
    process: CaseProcess, sizes: Sizes, main: MainLoop, rows: Rows, megabytes: int, percent: int
) -> None:
    name = f"{megabytes} MB {percent} %"
    time.sleep(_REST)
    ends = time.perf_counter() + sizes.patience
    for number in range(sizes.pauses):
        changes, before = rows.changes(percent), main.progress()["snapshots"]
        began = time.perf_counter()
        main.ingest(changes)
        process.note(f"{name} ingest", time.perf_counter() - began)
        now = _stored(main, before)
        process.note(f"{name} pause", now["snapshot_pause"])
        process.note(f"{name} stored", now["snapshot_seconds"])
        process.note(f"{name} bytes", now["snapshot_bytes"])
        if number >= 2 and time.perf_counter() > ends:
            break
    if main.read().statistics["start"] != "warm":
        raise Wrong(f"{name}: it began with init: {main.read().statistics}")
    if main.progress()["behind"]:
        raise Wrong(f"{name}: {main.progress()['behind']} changes are not in the state")


def _stored(main: MainLoop, before: int) -> dict[str, float]:
    """Wait for one more snapshot than before; the loop's progress then."""
    ends = time.perf_counter() + _STORED
    while time.perf_counter() < ends:
        now = main.progress()
        if now["snapshots"] > before:
            return now
        time.sleep(0.002)
    raise Wrong(f"no snapshot was stored in {_STORED:.0f} s")
