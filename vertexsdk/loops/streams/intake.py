"""What takes batches into a main loop: counts what came, and what was wrong with it.

Bad lines are left out, changes whose time runs backwards are taken in; both are counted, the first
few are shown, and `strict` refuses the batch at the first.
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

__all__ = ["ChangeSink", "StreamIntake", "StreamProgress"]

_log = logging.getLogger("vertexsdk")
_SHOWN = 3  # of bad lines and of late changes; all are counted
_WINDOW = 10.0  # seconds over which the rate is taken


class ChangeSink(Protocol):
    """A main loop, as far as a stream has to do with it.

    Attributes:
        offsets: for each source, the offset which was taken in last.
    """

    @property
    def offsets(self) -> Mapping[str, Any]: ...

    def ingest(
        self, changes: Any, *, source: str | None = None, offset: Any = None, bad: int = 0
    ) -> Mapping[str, int]:
        """See `MainLoop.ingest`."""


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How a stream stands.

    Attributes:
        received: changes read from the source.
        taken_in: changes taken in by the main loop.
        behind: changes read, and not taken in yet.
        behind_bytes: bytes of the source's files which are not read yet.
        changes_per_second: taken in, over the last ten seconds.
        bad_lines: lines or rows that were no changes.
        late: changes whose time is before that of an earlier one.
        batches: taken in.
        seconds: since the start.
        running: whether more may come.
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
    """Takes batches into a main loop.

    Args:
        main: the loop.
        strict: refuse bad lines and late changes.
    """

    def __init__(self, main: ChangeSink, *, strict: bool = False) -> None:
        self.main, self.strict = main, strict
        self.taken = self.batches = self.bad = self.late = 0
        self._began = time.monotonic()
        self._lately: deque[tuple[float, int]] = deque([(self._began, 0)])

    def take(self, batch: ChangeBatch) -> Mapping[str, int]:
        """Take in a batch, all of it or nothing; return what the loop counted.

        Raises:
            InputError: as `MainLoop.ingest`; with `strict`, a bad line or a late change.
        """
        self._note(batch)
        counts = self.main.ingest(
            batch.changes, source=batch.source, offset=batch.offset, bad=len(batch.bad)
        )
        self.taken += len(batch)
        self.batches += 1
        now = time.monotonic()
        self._lately.append((now, self.taken))
        while now - self._lately[0][0] > _WINDOW and len(self._lately) > 2:
            self._lately.popleft()
        return counts

    def _note(self, batch: ChangeBatch) -> None:
        late = [f"{self._place(batch, k)}: its time is before that of an earlier change"
                for k in batch.late[:_SHOWN].tolist()]  # fmt: skip
        wrong = [str(line) for line in batch.bad.first[:_SHOWN]]
        if self.strict and (wrong or late):
            raise InputError((wrong or late)[0])
        for text in wrong[: max(_SHOWN - self.bad, 0)]:
            _log.warning("%s; left out", text)
        for text in late[: max(_SHOWN - self.late, 0)]:
            _log.warning("%s; taken in", text)
        self.bad += len(batch.bad)
        self.late += len(batch.late)

    @staticmethod
    def _place(batch: ChangeBatch, number: int) -> str:
        places = batch.changes.places
        return places[number] if len(places) else f"change {number + 1} of the batch"

    def flow(self, received: int, behind_bytes: int, running: bool) -> StreamProgress:
        """How it stands, for a source which has read so much."""
        first, last = self._lately[0], self._lately[-1]
        now = time.monotonic()
        seconds = (now if running else last[0]) - first[0]
        return StreamProgress(
            received=received,
            taken_in=self.taken,
            behind=received - self.taken,
            behind_bytes=behind_bytes,
            changes_per_second=(last[1] - first[1]) / max(seconds, 1e-9),
            bad_lines=self.bad,
            late=self.late,
            batches=self.batches,
            seconds=now - self._began,
            running=running,
        )
