"""The policy by which a loop or a run takes snapshots, and the numbers of the newest."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias, get_args

from vertexsdk.engine.run_options import SnapshotInterval
from vertexsdk.errors import InputError, excerpt
from vertexsdk.loops.durations import seconds_of
from vertexsdk.loops.snapshot_thread import POLL_SECONDS

SnapshotKind: TypeAlias = Literal["asynchronous", "synchronous"]
SnapshotEvery: TypeAlias = int | str | timedelta


@dataclass(frozen=True)
class SnapshotPolicy:
    """The rule by which a snapshot is due.

    Attributes:
        changes: after so many changes, or iterations of a run; None: not because of their number.
        seconds: so long after the one before, if anything happened; None: not because of time.
        waits: the loop stops until it is stored.

    >>> SnapshotPolicy.of("10s", "asynchronous")
    SnapshotPolicy(changes=None, seconds=10.0, waits=False)
    """

    changes: int | None = None
    seconds: float | None = None
    waits: bool = False

    @classmethod
    def of(cls, every: SnapshotEvery | None, kind: str = "asynchronous") -> SnapshotPolicy:
        """The policy of `MainLoop`'s arguments `snapshot_every` and `snapshots`, or of `run`'s.

        Raises:
            InputError: they are none.
        """
        if kind not in get_args(SnapshotKind):
            raise InputError(f"snapshots is {excerpt(kind)}: say 'asynchronous' or 'synchronous'")
        waits = kind == "synchronous"
        if every is None:
            return cls(waits=waits)
        if isinstance(every, str) and every.strip().isdecimal():
            every = int(every)
        if isinstance(every, bool) or not isinstance(every, int | str | timedelta):
            raise InputError(
                f"snapshot_every is {excerpt(every)}: give a whole number, or a time as '10s'"
            )
        if isinstance(every, int):
            if every < 1:
                raise InputError(f"snapshot_every is {every}: give 1 or more, or a time as '10s'")
            return cls(changes=every, waits=waits)
        return cls(seconds=seconds_of(every), waits=waits)

    def pause(self, last: float, *, storing: bool) -> float | None:
        """Return the seconds until something may be to do; None while nothing is.

        Args:
            last: when the last snapshot began, by `time.monotonic`.
            storing: a snapshot is being stored.
        """
        if storing:
            return POLL_SECONDS
        if self.seconds is None:
            return None
        return max(last + self.seconds - time.monotonic(), POLL_SECONDS)

    @property
    def interval(self) -> SnapshotInterval | None:
        """Of a run; None where it takes no snapshots."""
        return None if self.by_default else SnapshotInterval(self.changes, self.seconds)

    @property
    def by_default(self) -> bool:
        """True if snapshots are taken only to keep the change log short."""
        return self.changes is None and self.seconds is None


@dataclass(frozen=True)
class SnapshotNumbers:
    """The numbers of the snapshots of a loop.

    Attributes:
        number: how many were committed.
        began: at the cut of the newest, by `time.monotonic`; None before the first.
        pause: seconds for which a partition stood still.
        seconds: until everything was stored.
        bytes: that were stored.
    """

    number: int = 0
    began: float | None = None
    pause: float = 0.0
    seconds: float = 0.0
    bytes: int = 0

    @property
    def age(self) -> float | None:
        """Seconds since its cut."""
        return None if self.began is None else time.monotonic() - self.began

    def progress(self) -> dict[str, Any]:
        """Return them, named as in `MainLoop.progress`."""
        return {
            "snapshots": self.number, "snapshot_age": self.age, "snapshot_pause": self.pause,
            "snapshot_seconds": self.seconds, "snapshot_bytes": self.bytes,
        }  # fmt: skip
