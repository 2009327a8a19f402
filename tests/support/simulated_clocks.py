"""Simulated time: the driver and every processor read a clock of their own, and nobody waits.

`time.monotonic`, `time.perf_counter` and `time.sleep` are replaced while a simulator is installed,
for the code in `SIMULATED`, of which the seed alone decides how often it looks at a clock. In the
step of a processor they are those of its clock. Elsewhere `perf_counter` is the driver's;
`monotonic` and `sleep` stay real, as threads that renew leases or follow files wait by them.

For stores, compilers and other libraries time stays real: how often they look at a clock follows
from what is open, compiled or measured already, and would change when a processor goes on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

__all__ = ["SIMULATED", "Clock", "in_step_of", "simulated_time"]

SIMULATED = ("vertexsdk.engine.", "vertexsdk.loops.", "tests.")
_READ = 1e-6  # seconds that pass on the driver with each look at its clock
_running = threading.local()
_monotonic, _perf_counter, _sleep = time.monotonic, time.perf_counter, time.sleep


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


def _asked_by_simulated() -> bool:
    """Whether what calls the function that calls this is in `SIMULATED`."""
    return str(sys._getframe(2).f_globals.get("__name__")).startswith(SIMULATED)


@contextmanager
def simulated_time(driver: Clock) -> Iterator[None]:
    """Replace the functions of `time`; `driver` is the clock of whatever is no processor."""
    looks = threading.local()  # at the driver's clock: of each thread, in this simulation

    def read_monotonic() -> float:
        clock: Clock | None = getattr(_running, "clock", None)
        return _monotonic() if clock is None or not _asked_by_simulated() else clock.read()

    def read_perf_counter() -> float:
        if not _asked_by_simulated():
            return _perf_counter()
        clock: Clock | None = getattr(_running, "clock", None)
        if clock is not None:
            return clock.read()
        looks.number = getattr(looks, "number", 0) + 1
        return driver.read() + _READ * int(looks.number)

    def wait(seconds: float) -> None:
        clock: Clock | None = getattr(_running, "clock", None)
        if clock is None or not _asked_by_simulated():
            _sleep(seconds)
        else:
            clock.sleep(seconds)

    with (
        mock.patch.object(time, "monotonic", read_monotonic),
        mock.patch.object(time, "perf_counter", read_perf_counter),
        mock.patch.object(time, "sleep", wait),
    ):
        yield
