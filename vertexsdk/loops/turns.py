"""Turns of a main loop and its branches: how much branches may slow down the ingest of changes.

Branches share the machine with their main loop, and a branch that asks without pause would take
most of it. So while changes are ingested, n branches that want to work have together a share of
`weight * n / (1 + weight * n)` of the time, as in weighted fair queueing. While nothing is ingested
they have all of it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from vertexsdk.errors import InputError

WEIGHT = 1 / 16  # of a branch, where that of ingest is 1
SLICE = 0.1  # seconds for which a branch iterates in one turn
_BURST = 0.05  # seconds of work that branches may do at once, after a pause
_THREAD = 2.0  # what a second of a thread costs: kernels have others, and all share one interpreter
_WAITING = 0.25  # what a second of wall time costs at least: the disk has one writer
_IDLE = 0.02  # seconds after a batch, from which on nothing is ingested


class Turns:
    """The turns of one main loop and its branches; every thread may use it.

    Args:
        weight: the weight of a branch, where that of ingest is 1; above 0.

    Raises:
        InputError: another weight.

    >>> turns = Turns()
    >>> with turns.ingest(), turns.branch(lambda: 0.0):
    ...     turns.pause()
    """

    def __init__(self, weight: float = WEIGHT) -> None:
        if not weight > 0:
            raise InputError(f"branch_weight is {weight}; give a number above 0, such as 0.0625")
        self._weight = weight
        self._changed = threading.Condition()
        self._ingesting = 0
        self._busy_until = 0.0
        self._asking = 0  # operations of branches that work or wait
        self._working = 0  # those that have a turn
        self._locking = 0  # those of them that wait for the main loop's lock
        self._waiting: deque[object] = deque()  # those that have none, in order
        self._balance = _BURST  # seconds that branches may work now
        self._counted = time.monotonic()  # when the balance was computed
        self._thread_state = threading.local()

    @contextlib.contextmanager
    def ingest(self) -> Iterator[None]:
        """Ingest changes within; the caller does not hold the loop's lock yet."""
        with self._changed:
            while self._locking:  # locks are not fair: it might never get it
                self._changed.wait()
            self._refresh()
            self._ingesting += 1
        try:
            yield
        finally:
            with self._changed:
                self._refresh()
                self._ingesting -= 1
                self._busy_until = self._counted + _IDLE

    @contextlib.contextmanager
    def branch(
        self, elsewhere: Callable[[], float], lock: threading.RLock | None = None
    ) -> Iterator[None]:
        """Do the work of a branch within, when it is its turn.

        It is charged by CPU time where that is most: much of the wall time it may only wait for the
        main loop.

        Args:
            elsewhere: CPU seconds that other processes have spent on it so far.
            lock: the main loop's, if the work needs it.
        """
        if self._has_turn():
            yield
            return
        with self._changed:
            self._asking += 1
        try:
            self._thread_state.elsewhere = elsewhere
            self._take_turn()
            with contextlib.ExitStack() as held:
                if lock is not None:
                    self._take_lock(lock, held)
                yield
        finally:
            with self._changed:
                self._asking -= 1
            if self._has_turn():
                self._end_turn()

    def pause(self) -> None:
        """Wait within `branch` until it is this branch's turn again."""
        if self._has_turn():
            self._end_turn()
            self._take_turn()

    def _has_turn(self) -> bool:
        """Return whether this thread is in a turn."""
        return getattr(self._thread_state, "began", None) is not None

    def _take_turn(self) -> None:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                while not self._may_work(ticket):
                    self._changed.wait(self._seconds_to_wait())
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
            self._working += 1
            self._thread_state.began = self._spent()

    def _take_lock(self, lock: threading.RLock, held: contextlib.ExitStack) -> None:
        with self._changed:
            self._locking += 1
        try:
            held.enter_context(lock)
        finally:
            with self._changed:
                self._locking -= 1
                self._changed.notify_all()
        self._thread_state.began = self._spent()

    def _spent(self) -> tuple[float, float]:
        """Wall time, and CPU seconds of this thread and for it."""
        elsewhere: float = self._thread_state.elsewhere()
        return time.monotonic(), _THREAD * time.thread_time() + elsewhere

    def _end_turn(self) -> None:
        with self._changed:
            self._refresh()
            wall, cpu = (
                x - y for x, y in zip(self._spent(), self._thread_state.began, strict=True)
            )
            self._balance -= max(_WAITING * wall, cpu)
            self._thread_state.began = None
            self._working -= 1
            self._changed.notify_all()

    @property
    def _busy(self) -> bool:
        """True while changes are ingested, as of the balance."""
        return self._ingesting > 0 or self._counted < self._busy_until

    def _may_work(self, ticket: object) -> bool:
        self._refresh()
        first = self._waiting[0] is ticket
        return first and (not self._busy or (self._balance > 0 and not self._working))

    def _seconds_to_wait(self) -> float:
        """Return the seconds until branches may work, if nothing happens before that."""
        wait = max(-self._balance, 0.0) / self._share
        if not self._ingesting:
            wait = min(wait, self._busy_until - self._counted)
        return max(wait, 1e-3)

    @property
    def _share(self) -> float:
        """Of the time, that branches have while changes are ingested."""
        together = self._weight * max(self._asking, 1)
        return together / (1 + together)

    def _refresh(self) -> None:
        """Compute the balance for now."""
        previous, self._counted = self._counted, time.monotonic()
        if self._busy:
            earned = (self._counted - previous) * self._share
            self._balance = min(self._balance + earned, _BURST)
        else:
            self._balance = _BURST
