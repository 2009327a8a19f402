"""Checks and counts the batches of a source on their way into a main loop.

Bad lines are skipped, and changes whose time runs backwards are applied. Both are counted, the
first few are logged, and a strict loop refuses a batch with one of them.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from vertexsdk.errors import InputError
from vertexsdk.graph.changes.batch import ChangeBatch

_log = logging.getLogger("vertexsdk")
_SHOWN = 3  # of bad lines and of late changes; all are counted
_WINDOW = 10.0  # seconds over which the rate is computed


class ChangeSink(Protocol):
    """The part of `MainLoop` that a stream needs.

    Attributes:
        strict: refuse bad lines and late changes.
    """

    strict: bool

    @property
    def integers(self) -> bool:
        """Whether ids are int64; else they are strings."""

    @property
    def value(self) -> str | None:
        """The dtype of the edge values that the program reads, or None."""

    @property
    def offsets(self) -> Mapping[str, Any]:
        """For each source, the offset that was committed last."""

    def ingest(
        self, changes: Any, *, source: str | None = None, offset: Any = None, bad: int = 0
    ) -> Mapping[str, int]:
        """See `MainLoop.ingest`."""


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How far a stream is.

    Attributes:
        received: changes read from the source.
        taken_in: changes that the main loop has committed.
        behind: changes read and not committed yet.
        behind_bytes: bytes of the source which are not read yet.
        changes_per_second: committed, over the last ten seconds.
        bad_lines: lines or rows that are not valid changes.
        late: changes whose time is before that of an earlier one.
        batches: number of batches committed.
        seconds: since the start.
        running: whether more changes may come.
    """

    received: int
    taken_in: int
    behind: int
    behind_bytes: int
    changes_per_second: float
    bad_lines: int
    late: int
    batches: int
    seconds: float
    running: bool

    def __str__(self) -> str:
        behind = f"{self.behind:,} behind"
        if self.behind_bytes:
            behind += f" and {self.behind_bytes:,} bytes unread"
        return f"{self.taken_in:,} changes · {self.changes_per_second:,.0f}/s · {behind}"


class StreamIntake:
    """Passes batches to a main loop.

    Args:
        main: the loop.

    Attributes:
        committed, batches, bad, late: see `StreamProgress`; `committed` is its `taken_in`.
    """

    def __init__(self, main: ChangeSink) -> None:
        self.main = main
        self.committed = self.batches = self.bad = self.late = 0
        self._began = time.monotonic()
        self._recent: deque[tuple[float, int]] = deque([(self._began, 0)])

    def take(self, batch: ChangeBatch) -> Mapping[str, int]:
        """Have the loop ingest a batch, all of it or nothing.

        Returns:
            What `MainLoop.ingest` returns.

        Raises:
            InputError: as `MainLoop.ingest`; or, with a strict loop, a bad line or a late change.
        """
        self._check(batch)
        counts = self.main.ingest(
            batch.changes, source=batch.source, offset=batch.offset, bad=len(batch.bad)
        )
        self.committed += len(batch)
        self.batches += 1
        now = time.monotonic()
        self._recent.append((now, self.committed))
        while now - self._recent[0][0] > _WINDOW and len(self._recent) > 2:
            self._recent.popleft()
        return counts

    def _check(self, batch: ChangeBatch) -> None:
        late = [f"{self._place(batch, k)}: its time is before that of an earlier change"
                for k in batch.late[:_SHOWN].tolist()]  # fmt: skip
        bad_lines = [str(line) for line in batch.bad.first[:_SHOWN]]
        if self.main.strict and (bad_lines or late):
            raise InputError((bad_lines or late)[0])
        for text in bad_lines[: max(_SHOWN - self.bad, 0)]:
            _log.warning("%s; skipped", text)
        for text in late[: max(_SHOWN - self.late, 0)]:
            _log.warning("%s; applied all the same", text)
        self.bad += len(batch.bad)
        self.late += len(batch.late)

    @staticmethod
    def _place(batch: ChangeBatch, number: int) -> str:
        places = batch.changes.places
        return places[number] if len(places) else f"change {number + 1} of the batch"

    def progress(self, received: int, behind_bytes: int, running: bool) -> StreamProgress:
        """Return how far the stream is.

        Args:
            received: changes read from the source so far.
            behind_bytes: bytes of the source which are not read yet.
            running: whether more changes may come.
        """
        first, last = self._recent[0], self._recent[-1]
        now = time.monotonic()
        seconds = (now if running else last[0]) - first[0]
        return StreamProgress(
            received=received,
            taken_in=self.committed,
            behind=received - self.committed,
            behind_bytes=behind_bytes,
            changes_per_second=(last[1] - first[1]) / max(seconds, 1e-9),
            bad_lines=self.bad,
            late=self.late,
            batches=self.batches,
            seconds=now - self._began,
            running=running,
        )
