"""Counters of what a loop does in this process, which any thread can read while it works.

No thread waits for the loop: the lock here is held only to add, or to copy, a few numbers.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from vertexsdk.engine.commands import Budget, WorkDone

WINDOW = 10.0  # seconds over which a rate is computed
ACTIVITIES = ("ingest", "query", "snapshot", "fork", "merge", "rescale", "restore")


class Rate:
    """The rate at which something is counted, over the last ten seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])  # time, count then

    def add(self, number: int) -> None:
        """Count `number` more."""
        with self._lock:
            now = time.monotonic()
            self._counts.append((now, self._counts[-1][1] + number))
            while len(self._counts) > 1 and self._counts[1][0] < now - WINDOW:
                self._counts.popleft()

    def per_second(self, *, ended: bool = False) -> float:
        """Return the rate now, or with `ended` as it was when something was counted last."""
        with self._lock:
            counts = list(self._counts)
        until, total = counts[-1]
        until = until if ended else time.monotonic()
        earlier = [count for count in counts if count[0] <= until - WINDOW]
        began, count_then = earlier[-1] if earlier else counts[0]
        return (total - count_then) / max(min(until - began, WINDOW), 1e-9)


class LoopCounters:
    """The work of one loop since it was opened, and what it does now.

    Attributes:
        rate: the rate of acknowledged changes.
        restarts: how often the engine was restored from the store.
    """

    def __init__(self) -> None:
        self.rate = Rate()
        self.restarts = 0
        self._lock = threading.Lock()
        self._active: Counter[str] = Counter()
        self._work = WorkDone()
        self._queries, self._query_seconds = 0, 0.0
        self._last_query: float | None = None

    @contextlib.contextmanager
    def doing(self, activity: str) -> Iterator[None]:
        """Show one of `ACTIVITIES` while the block runs."""
        with self._lock:
            self._active[activity] += 1
        try:
            yield
        finally:
            with self._lock:
                self._active[activity] -= 1

    @contextlib.contextmanager
    def query(self) -> Iterator[None]:
        """Show a query, and count it if it is answered."""
        began = time.perf_counter()
        with self.doing("query"):
            yield
        seconds = time.perf_counter() - began
        with self._lock:
            self._queries += 1
            self._query_seconds += seconds
            self._last_query = seconds

    def counting(self, budget: Budget) -> Budget:
        """Return a budget whose iterations are counted here too, while they run."""
        known, seen = WorkDone(), WorkDone()  # as reported last

        def report(work: WorkDone) -> None:
            nonlocal known, seen
            reported = seen if work is known else WorkDone()  # a try after a loss begins at 0
            known, seen = work, replace(work)
            with self._lock:
                total = self._work
                total.iterations += work.iterations - reported.iterations
                total.updates += work.updates - reported.updates
                total.messages += work.messages - reported.messages
                total.bytes += work.bytes - reported.bytes
                total.seconds += work.seconds - reported.seconds
            if budget.report is not None:
                budget.report(work)

        return replace(budget, report=report)

    def add_sent(self, size: int) -> None:
        """Count bytes that a command without iterations sent between partitions."""
        with self._lock:
            self._work.bytes += size

    def numbers(self) -> dict[str, Any]:
        """Return the counters, named as in `MainLoop.progress`."""
        with self._lock:
            active = [name for name in ACTIVITIES if self._active[name]]
            return {
                "state": "+".join(active) or "idle",
                "queries": self._queries,
                "query_seconds": self._query_seconds,
                "last_query_seconds": self._last_query,
                "supersteps": self._work.iterations,
                "superstep_seconds": self._work.seconds,
                "updates": int(self._work.updates),
                "messages": int(self._work.messages),
                "bytes": int(self._work.bytes),
                "restarts": self.restarts,
            }
