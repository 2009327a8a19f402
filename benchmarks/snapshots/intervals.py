"""Throughput of a main loop by kind of snapshot and interval (figure 6 of the ABS paper).

Shortest paths of an R-MAT graph are kept up: batches of changes, a query after each. Loops of the
same graph, one for each kind of snapshot, take turns in one process, so that what else the machine
does meets them all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import answers
from benchmarks.case_process import CaseProcess
from benchmarks.evolving.context import changes_of
from benchmarks.evolving.stream import ADD, REMOVE, Batch, EdgeStream
from benchmarks.snapshots.sizes import Sizes
from vertexsdk import Graph, MainLoop, session
from vertexsdk.algorithms.sssp import ShortestPaths

AIM = 3.0  # seconds between snapshots, of the target
KINDS = ("none", "asynchronous", "synchronous")
NEVER = 1 << 62  # changes: by default a loop takes a snapshot when its log is long
_BATCHES = 20
_SPARE_SLOTS = 2  # of the session, beside those of the processors of all loops


class Circle:
    """Batches of changes that lead back to the graph they began with, again and again.

    Args:
        scale: of R-MAT.
        cache: where graphs are kept.
        size: changes in a batch.
    """

    def __init__(self, scale: int, cache: Path, size: int) -> None:
        self._given = scale, cache
        self.size = size
        stream = EdgeStream(scale, cache)
        there = [stream.take(size) for _ in range(_BATCHES)]
        back = [
            Batch(ADD + REMOVE - each.kind, each.source, each.target, each.value)
            for each in reversed(there)
        ]
        self._changes = [changes_of(each) for each in (*there, *back)]

    def changes(self, number: int) -> Any:
        """The batch of this number, from 0."""
        return self._changes[number % len(self._changes)]

    def graph(self, number: int) -> EdgeStream:
        """The graph after so many batches."""
        number %= len(self._changes)
        stream = EdgeStream(*self._given)
        for _ in range(min(number, len(self._changes) - number)):
            stream.take(self.size)
        return stream


class FollowingLoop:
    """A main loop, and how many of the batches it has taken in."""

    def __init__(self, main: MainLoop, circle: Circle) -> None:
        self.main, self.circle, self.batches = main, circle, 0

    def step(self) -> None:
        """Ingest a batch, and ask."""
        self.main.ingest(self.circle.changes(self.batches))
        self.main.query().close()
        self.batches += 1

    def rate(self, seconds: float) -> float:
        """Changes per second, of so many seconds."""
        began, before = time.perf_counter(), self.batches
        while time.perf_counter() - began < seconds:
            self.step()
        return (self.batches - before) * self.circle.size / (time.perf_counter() - began)

    def rest(self, seconds: float) -> None:
        """Wait until the last changes are in a snapshot, which would else disturb the next turn."""
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            age = self.main.progress()["snapshot_age"]
            if age is not None and age < time.perf_counter() - began:
                return
            time.sleep(0.02)

    def check(self) -> None:
        """Compare the answer with one from scratch.

        Raises:
            Wrong: they differ.
        """
        result = self.main.query()
        columns = result.columns()
        found = {"id": columns["id"], "value": columns["length"]}
        answers.check("shortest_paths", self.circle.graph(self.batches), found)
        result.close()


def intervals(processors: int, spark: bool, process: CaseProcess, sizes: Sizes) -> None:
    """Note rates by kind and interval, and what the snapshots came to."""
    circle = Circle(sizes.scale, process.cache, sizes.batch)
    start = circle.graph(0)
    opened = session(f"local[{len(KINDS) * (processors + 1) + _SPARE_SLOTS}]") if spark else None
    graph = Graph.read(opened, edges=start.parquet, partitions=processors)
    for every in sizes.intervals:
        loops = {}
        for kind in KINDS:
            options: dict[str, Any] = {"snapshot_every": NEVER}
            if kind != "none":
                options = {"snapshot_every": f"{every:g}s", "snapshots": kind}
            main = MainLoop(
                ShortestPaths, graph, params={"origin": start.origin}, loop=f"{kind}-{every:g}",
                backend=f"lmdb://{process.scratch}/{every:g}-{kind}", **options,
            )  # fmt: skip
            loops[kind] = FollowingLoop(main, circle)
            main.query().close()
            for _ in range(3):
                loops[kind].step()
        for number in range(sizes.turns if every == AIM else 1):
            kinds = KINDS if number % 2 == 0 else KINDS[::-1]
            _turn(process, loops, kinds, every, max(sizes.turn, 2 * every))
        for loop in loops.values():
            loop.check()
            loop.main.close()


def _turn(
    process: CaseProcess,
    loops: dict[str, FollowingLoop],
    kinds: Sequence[str],
    every: float,
    seconds: float,
) -> None:
    for kind in kinds:
        loop = loops[kind]
        before = loop.main.progress()["snapshots"]
        process.note(f"{kind} {every:g}", loop.rate(seconds))
        now = loop.main.progress()
        if now["snapshots"] > before:
            process.note(f"{kind} {every:g} count", now["snapshots"] - before)
            for name in ("pause", "seconds", "bytes"):
                process.note(f"{kind} {every:g} {name}", now[f"snapshot_{name}"])
        if kind != "none":
            loop.rest(every + 2.0)
