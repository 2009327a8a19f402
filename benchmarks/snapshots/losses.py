"""What the loss of a processor costs a main loop (figure 8d of the Tornado paper).

Changes are ingested, with a query after each batch and a snapshot every second; now and then the
process of one partition is killed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from benchmarks.case_process import CaseProcess
from benchmarks.snapshots.intervals import Circle, FollowingLoop
from benchmarks.snapshots.sizes import Sizes
from vertexsdk import Graph, MainLoop, session
from vertexsdk.algorithms.sssp import ShortestPaths

BEFORE, AFTER, WIDTH = 3.0, 10.0, 0.5  # seconds around a loss, and those of one bar of the curve
_BATCH = 2_000


def losses(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds from each kill to the next answer, and changes per second around it."""
    circle = Circle(sizes.scale, process.cache, min(_BATCH, sizes.batch))
    start = circle.graph(0)
    graph = Graph.read(session("local[4]"), edges=start.parquet, partitions=2)
    with MainLoop(
        ShortestPaths, graph, params={"origin": start.origin}, snapshot_every="1s",
        backend=f"lmdb://{process.scratch}/state",
    ) as main:  # fmt: skip
        main.query().close()
        loop = FollowingLoop(main, circle)
        loop.rate(BEFORE)
        for number in range(sizes.losses):
            _Loss(process, loop).measure(_processors(main)[number % 2])
        process.note("restarts", main.progress()["restarts"])
        loop.check()


def _processors(main: MainLoop) -> list[int]:
    """The processes that hold the loop's partitions."""
    engine: Any = main._history.engine
    found: list[int] = engine.graph.workers.run(lambda partition: os.getpid())
    return found


class _Loss:
    """One kill: when it was, and when answers came."""

    def __init__(self, process: CaseProcess, loop: FollowingLoop) -> None:
        self.process, self.loop = process, loop
        self.killed = 0.0

    def measure(self, victim: int) -> None:
        """Ingest, kill in the midst of it, and go on."""
        began = time.perf_counter()
        timer = threading.Timer(BEFORE, self._kill, (victim,))
        timer.start()
        steps: list[tuple[float, float]] = []  # beginning and end
        while time.perf_counter() - began < BEFORE + AFTER or steps[-1][0] < self.killed:
            before = time.perf_counter()
            self.loop.step()
            steps.append((before, time.perf_counter()))
        timer.join()
        after = [end for start, end in steps if start >= self.killed]
        self.process.note("answered", after[0] - self.killed)
        self.process.note("longest", max(end - start for start, end in steps))
        size = self.loop.circle.size
        for number in range(round((BEFORE + AFTER) / WIDTH)):
            low = self.killed - BEFORE + number * WIDTH
            count = sum(low <= end < low + WIDTH for _, end in steps)
            self.process.note(f"rate {number}", count * size / WIDTH)

    def _kill(self, victim: int) -> None:
        self.killed = time.perf_counter()
        os.kill(victim, signal.SIGKILL)
