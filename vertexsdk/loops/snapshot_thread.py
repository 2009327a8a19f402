"""The thread that looks after the snapshots of a loop between its calls."""

from __future__ import annotations

import threading
import weakref
from typing import Protocol

POLL_SECONDS = 0.02  # between looks at whether a snapshot is stored
_IDLE_SECONDS = 1.0  # where only calls of others can begin a snapshot


class LoopSnapshots(Protocol):
    """The snapshots of a loop, as the thread sees them."""

    @property
    def pause(self) -> float | None:
        """Seconds until something may be to do; None while nothing is, before other calls."""

    def look(self) -> None:
        """Do what is to do, if the loop can be used."""


class SnapshotThread:
    """Calls `look` of a loop's snapshots when something may be to do, until `close`.

    It ends by itself when they are no longer referenced.

    Args:
        snapshots: the loop's snapshots.
    """

    def __init__(self, snapshots: LoopSnapshots) -> None:
        self._snapshots = weakref.ref(snapshots)
        self._closed, self._wake = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        """True if it has ended, or is about to."""
        return self._closed.is_set()

    def start(self) -> None:
        """Start, unless it has."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=_watch, name="vertexsdk-snapshots", daemon=True,
                args=(self._snapshots, self._closed, self._wake),
            )  # fmt: skip
            self._thread.start()

    def wake(self) -> None:
        """Have it look at once."""
        self._wake.set()

    def close(self) -> None:
        """End it; it may still be looking."""
        self._closed.set()
        self._wake.set()


def _watch(
    snapshots: weakref.ref[LoopSnapshots], closed: threading.Event, wake: threading.Event
) -> None:
    pause: float | None = 0.0
    while True:
        wake.wait(_IDLE_SECONDS if pause is None else pause)
        wake.clear()
        watched = snapshots()
        if watched is None or closed.is_set():
            return
        pause = watched.pause
        if pause is not None and pause <= POLL_SECONDS:
            watched.look()
            pause = watched.pause
        del watched
