"""Histories of a main loop whose store, processors and driver fail, from one seed.

The simulator has the processors and their messages; `DrawnFaults` has the store. What is written
behind is written at a point that is drawn, and lost with its driver. After every step the store is
compared with what was acknowledged; see `store_clients`.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from tests.support.simulated_histories import ROUGH
from tests.support.simulator import Simulator
from tests.support.store_clients import Client
from tests.support.store_faults import DrawnFaults
from vertexsdk.state import store, version_history, version_reader, write_behind

__all__ = ["StoreHistory", "simulate_store", "soak_stores"]

STEPS = 9
RATES = {
    "before": 0.01, "after": 0.02, "late": 0.02, "torn": 0.02, "full": 0.01,
    "killed before": 0.004, "killed after": 0.01, "killed torn": 0.01,
}  # fmt: skip
JUMPS = (-7200.0, -60.0, 1.0, 60.0, 7200.0)  # seconds of the store's clock
PROCESSORS = replace(ROUGH, lost=0.03, calm=60)


class StoreHistory:
    """A history of one main loop.

    Args:
        seed: what happens.
        url: of an empty store; it is empty again afterwards.
        rates: of the faults of the store.

    Attributes:
        simulator: of the processors.
        faults: of the store.
        failures: calls of the client that failed.
    """

    def __init__(self, seed: int, url: str, rates: dict[str, float] | None = None) -> None:
        self.chance = random.Random(seed)
        self.simulator = Simulator(seed, PROCESSORS)
        self.faults = DrawnFaults(seed, RATES if rates is None else rates)
        self.faults.tell = self.simulator.note
        options = {
            "retain": self.chance.choice([2, 4, 64]),
            "keep_answers": self.chance.choice([1, 2, 100]),
            "snapshot_every": self.chance.choice([3, 10, None]),
            "snapshots": "synchronous",  # so that the same seed has the same things happen
        }
        partitions = self.chance.randint(1, 3)
        self.client = Client(url, self.faults, seed, partitions=partitions, options=options)

    def run(self) -> StoreHistory:
        """Have it happen.

        Raises:
            AssertionError: something was lost, doubled or wrong.
        """
        client, chance = self.client, self.chance
        with self.simulator.installed(), self.faults.installed(), _drawn_writes(chance):
            try:
                client.open()
                client.check()
                for _ in range(STEPS):
                    step = chance.choice(_STEPS)
                    self.simulator.note(step)
                    self._take(step)
                    client.check()
                client.close()
            finally:
                client.end()
        return self

    def _take(self, step: str) -> None:
        client, chance = self.client, self.chance
        if step == "ingest":
            client.ingest(client.rows(chance.randint(1, 4)))
        elif step == "query":
            client.query(persist=chance.random() < 0.5)
        elif step == "branch":
            rows = client.rows(chance.randint(1, 3))
            client.branch(rows, chance.choice(["merge", "merge", "close", "forget"]))
        elif step == "maintain":
            client.maintain(chance.choice(["compact", "prune", "collect"]))
        elif step == "clock":
            self.faults.ahead += chance.choice(JUMPS)
        else:
            getattr(client, step)()


_STEPS = ["ingest"] * 5 + ["query"] * 3 + ["branch"] * 3 + ["maintain"] * 2
_STEPS += ["snapshot", "resume", "second_driver", "lookup", "clock"]


class _DrawnWrites(write_behind.WriteBehind):
    """Writes in order, each at a point that is drawn: at once, or when somebody waits for it."""

    chance = random.Random(0)

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._queue: deque[tuple[_LazyFuture, Callable[[], Any]]] = deque()

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        """See `WriteBehind`."""
        future = _LazyFuture(self)
        self._queue.append((future, work))
        _waiting.setdefault(self._location, []).append(self)
        if self.chance.random() < 0.5:
            self.wait()
        return future

    def wait(self) -> None:
        """See `WriteBehind`."""
        while self._queue:
            future, work = self._queue.popleft()
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

    def close(self) -> None:
        """See `WriteBehind`."""
        self.wait()


class _LazyFuture(Future[Any]):
    """Whoever asks for the result has it written."""

    def __init__(self, writes: _DrawnWrites) -> None:
        super().__init__()
        self._writes = writes

    def result(self, timeout: float | None = None) -> Any:
        self._writes.wait()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._writes.wait()
        return super().exception(timeout)


_waiting: dict[str, list[_DrawnWrites]] = {}


def _wait_for_writes(location: str) -> None:
    for writes in _waiting.pop(location, []):
        writes.wait()


@contextmanager
def _drawn_writes(chance: random.Random) -> Iterator[None]:
    """Replace the threads that write behind, of which nobody knows when they do."""
    cls: Any = type("DrawnWrites", (_DrawnWrites,), {"chance": random.Random(chance.random())})
    _waiting.clear()
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(version_history, "WriteBehind", cls))
        for module in (store, version_reader):
            stack.enter_context(mock.patch.object(module, "wait_for_writes", _wait_for_writes))
        yield


def simulate_store(seed: int, url: str) -> StoreHistory:
    """Make the history that a seed stands for, in an empty store.

    Raises:
        AssertionError: something was lost, doubled or wrong.
    """
    return StoreHistory(seed, url).run()


def soak_stores(histories: int, seed: int) -> str:
    """Make so many histories; what they did, in words. That with number k is of seed + k.

    Raises:
        AssertionError: something was lost, doubled or wrong.
    """
    fired: Counter[str] = Counter()
    losses = failures = 0
    began = time.perf_counter()
    for number in range(seed, seed + histories):
        try:
            history = simulate_store(number, "memory://soak-stores")
        except BaseException:
            print(f"simulate_store({number}, 'memory://store') fails")
            raise
        fired.update(history.faults.fired)
        losses += history.simulator.losses
        failures += history.client.failures
    minutes = (time.perf_counter() - began) / 60
    what = ", ".join(f"{count} {kind}" for kind, count in sorted(fired.items()))
    return (
        f"{histories} histories of stores ({histories / minutes:.0f} a minute), {losses} "
        f"processors lost, {failures} calls failed; faults: {what}; nothing was lost"
    )
