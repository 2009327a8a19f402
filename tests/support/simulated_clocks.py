"""Simulated time: the driver and every processor read a clock of their own, and nobody waits.

`time.monotonic`, `time.perf_counter` and `time.sleep` are replaced while a simulator is installed.
In the step of a processor they are those of its clock. Elsewhere `perf_counter` is the driver's;
`monotonic` and `sleep` stay real, as threads that renew leases or follow files wait by them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

__all__ = ["Clock", "in_step_of", "simulated_time"]

_READ = 1e-6  # seconds that pass on the driver with each look at its clock
_running = threading.local()


class Clock:
    """The clock of one processor: it has an offset from simulated time, and another rate.

    Attributes:
        now: simulated time, as far as this processor is.
        tick: seconds of it that pass with each look at the clock.

    >>> clock = Clock(100.0, 2.0)
    >>> clock.now = 5.0
    >>> clock.read()
    110.0
    """

    def __init__(self, offset: float, rate: float) -> None:
        self.offset, self.rate = offset, rate
        self.now = self.tick = 0.0

    def read(self) -> float:
        """The time that this clock shows."""
        self.now += self.tick
        return self.offset + self.rate * self.now

    def sleep(self, seconds: float) -> None:
        """Let so many seconds of this clock pass."""
        self.now += max(seconds, 0.0) / self.rate


@contextmanager
def in_step_of(clock: Clock) -> Iterator[None]:
    """Have this thread read a processor's clock."""
    before = getattr(_running, "clock", None)
    _running.clock = clock
    try:
        yield
    finally:
        _running.clock = before


@contextmanager
def simulated_time(driver: Clock) -> Iterator[None]:
    """Replace the functions of `time`; `driver` is the clock of whatever is no processor."""
    monotonic, sleep = time.monotonic, time.sleep

    def read_monotonic() -> float:
        clock: Clock | None = getattr(_running, "clock", None)
        return monotonic() if clock is None else clock.read()

    def read_perf_counter() -> float:
        clock: Clock | None = getattr(_running, "clock", None)
        if clock is not None:
            return clock.read()
        _running.reads = getattr(_running, "reads", 0) + 1
        return driver.read() + _READ * int(_running.reads)

    def wait(seconds: float) -> None:
        clock: Clock | None = getattr(_running, "clock", None)
        if clock is None:
            sleep(seconds)
        else:
            clock.sleep(seconds)

    with (
        mock.patch.object(time, "monotonic", read_monotonic),
        mock.patch.object(time, "perf_counter", read_perf_counter),
        mock.patch.object(time, "sleep", wait),
    ):
        yield
