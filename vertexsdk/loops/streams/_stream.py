"""A stream into a main loop, in the background, from any source."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

from vertexsdk.errors import RunError, VertexError
from vertexsdk.loops.streams.intake import StreamIntake, StreamProgress

_log = logging.getLogger("vertexsdk")


class Stream(ABC):
    """A stream into a main loop, as `MainLoop.start` returns it; a context manager that stops it.

    The names are those of Spark's `StreamingQuery`.

    Args:
        intake: passes batches to the loop.

    Example:
        >>> stream = main.start("changes/")  # doctest: +SKIP
        >>> print(stream.progress())  # doctest: +SKIP
        1,200,000 changes · 410,000/s · 0 behind
        >>> stream.stop()  # doctest: +SKIP
    """

    def __init__(self, intake: StreamIntake) -> None:
        self.intake = intake
        self._error: VertexError | None = None
        self._ended = threading.Event()

    @property
    def isActive(self) -> bool:
        """Whether more changes may come."""
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
            line = next(iter(str(error).splitlines()), "") or type(error).__name__
            self._error = error if isinstance(error, VertexError) else RunError(self._message(line))
            _log.warning("%s", self._error)
        self._ended.set()

    def _message(self, why: str) -> str:
        return (
            f"the stream failed after {self.intake.committed:,} changes: {why.rstrip('. ')}; these "
            "are committed: start the stream again to continue after them"
        )

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
