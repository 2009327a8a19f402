"""A stream into a loop, from any source: its batches are checked and counted on their way.

Bad lines are skipped and counted, and the first few are logged. Changes whose time runs backwards
are applied, counted and logged too; a strict main loop refuses a batch with one of either.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from vertexsdk.errors import InputError, RunError, VertexError, first_line
from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.loops.streams.counters import Rate

_log = logging.getLogger("vertexsdk")
_SHOWN = 3  # of each kind of what is logged; all are counted
B = TypeVar("B")


class ChangeSink(Protocol):
    """The part of `MainLoop` that a stream needs.

    Attributes:
        strict: refuse bad lines and late changes.
    """

    strict: bool

    @property
    def integers(self) -> bool:
        """True if ids are int64, False if they are strings."""

    @property
    def value(self) -> str | None:
        """The dtype of the edge values that the program reads, or None."""

    @property
    def windowed(self) -> bool:
        """True if a window puts changes in the order of their times."""

    @property
    def offsets(self) -> Mapping[str, Any]:
        """For each source, the offset that was committed last."""

    def ingest(
        self, changes: Any, *, source: str | None = None, offset: Any = None, bad: int = 0
    ) -> Mapping[str, int]:
        """Commit a batch of changes; return how many edges changed in which way."""


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """The progress of a stream.

    Attributes:
        received: changes read from the source.
        taken_in: changes that the loop has committed.
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


class Intake(ABC, Generic[B]):
    """Passes batches to a loop, and counts them.

    Attributes:
        unit: what batches consist of.
        committed, batches, bad, late: as in `StreamProgress`; `committed` is its `taken_in`.
    """

    unit = "changes"

    def __init__(self) -> None:
        self.committed = self.batches = self.bad = self.late = 0
        self._began = time.monotonic()
        self._rate = Rate()

    @property
    @abstractmethod
    def offsets(self) -> Mapping[str, Any]:
        """The offset of each source that the loop has committed last."""

    @abstractmethod
    def take(self, batch: B) -> object:
        """Have the loop commit a batch, all of it or nothing."""

    def _count(self, size: int) -> None:
        """Count a batch that is committed."""
        self.committed += size
        self.batches += 1
        self._rate.add(size)

    @staticmethod
    def _log(texts: Sequence[str], logged: int, what: str) -> None:
        """Log the first few of a kind, of which there were so many before."""
        for text in texts[: max(_SHOWN - logged, 0)]:
            _log.warning("%s; %s", text, what)

    def progress(self, received: int, behind_bytes: int, running: bool) -> StreamProgress:
        """Return how far the stream is.

        Args:
            received: changes read from the source so far.
            behind_bytes: bytes of the source which are not read yet.
            running: whether more changes may come.
        """
        return StreamProgress(
            received=received,
            taken_in=self.committed,
            behind=received - self.committed,
            behind_bytes=behind_bytes,
            changes_per_second=self._rate.per_second(ended=not running),
            bad_lines=self.bad,
            late=self.late,
            batches=self.batches,
            seconds=time.monotonic() - self._began,
            running=running,
        )


class StreamIntake(Intake[ChangeBatch]):
    """Passes batches to a main loop.

    Args:
        main: the loop.
    """

    def __init__(self, main: ChangeSink) -> None:
        super().__init__()
        self.main = main

    @property
    def offsets(self) -> Mapping[str, Any]:
        """The offset of each source that the loop has committed last."""
        return self.main.offsets

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
        self._count(len(batch))
        return counts

    def _check(self, batch: ChangeBatch) -> None:
        late = [f"{self._place(batch, k)}: its time is before that of an earlier change"
                for k in batch.late[:_SHOWN].tolist()]  # fmt: skip
        if self.main.windowed:
            late = []
        bad_lines = [str(line) for line in batch.bad.first[:_SHOWN]]
        if self.main.strict and (bad_lines or late):
            raise InputError((bad_lines or late)[0])
        self._log(bad_lines, self.bad, "skipped")
        self._log(late, self.late, "applied all the same")
        self.bad += len(batch.bad)
        self.late += len(batch.late)

    @staticmethod
    def _place(batch: ChangeBatch, number: int) -> str:
        places = batch.changes.places
        return places[number] if len(places) else f"change {number + 1} of the batch"


class Stream(ABC):
    """A stream into a loop, as `MainLoop.start` and `flow.METHOD.start` of a `StatefulLoop` return
    it; a context manager that stops it.

    The names are those of Spark's `StreamingQuery`.

    Args:
        intake: passes batches to the loop.

    Example:
        >>> stream = main.start("changes/")  # doctest: +SKIP
        >>> print(stream.progress())  # doctest: +SKIP
        1,200,000 changes · 410,000/s · 0 behind
        >>> stream.stop()  # doctest: +SKIP
    """

    def __init__(self, intake: Intake[Any]) -> None:
        self.intake = intake
        self._error: VertexError | None = None
        self._ended = threading.Event()

    @property
    def isActive(self) -> bool:
        """True if more changes may come."""
        return not self._ended.is_set()

    @property
    def exception(self) -> VertexError | None:
        """The error that ended the stream, or None."""
        return self._error

    @abstractmethod
    def progress(self) -> StreamProgress:
        """Return how far the stream is: changes received, committed, behind, per second."""

    @abstractmethod
    def stop(self) -> None:
        """End the stream; return when its last batch is committed."""

    def processAllAvailable(self) -> None:
        """Wait until everything that the source has now is committed, or the stream has ended.

        Raises:
            VertexError: the error that ended it.
        """
        self._catch_up()
        if self._error is not None:
            raise self._error

    @abstractmethod
    def _catch_up(self) -> None:
        """Wait as `processAllAvailable` does."""

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait until the stream ends.

        Args:
            timeout: seconds to wait; None waits without limit.

        Returns:
            Whether it has ended.

        Raises:
            VertexError: the error that ended it; what was committed before stays.
        """
        ended = self._ended.wait(timeout)
        if self._error is not None:
            raise self._error
        return ended

    def _end(self, error: BaseException | None = None) -> None:
        """Mark the stream as ended, by an error if there is one; only the first call counts."""
        if self._ended.is_set():
            return
        if error is not None:
            if not isinstance(error, VertexError):
                error = RunError(self._message(first_line(error)))
            self._error = error
            _log.warning("%s", self._error)
        self._ended.set()

    def _message(self, why: str) -> str:
        return (
            f"the stream failed after {self.intake.committed:,} {self.intake.unit}: "
            f"{why.rstrip('. ')}; these are committed: start the stream again to continue after "
            "them"
        )

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
