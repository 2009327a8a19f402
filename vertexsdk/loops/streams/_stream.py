"""A stream that flows into a main loop in the background: what every kind of it can be asked."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

from vertexsdk.errors import RunError, VertexError
from vertexsdk.loops.streams.intake import StreamIntake, StreamProgress

__all__ = ["Stream"]

_log = logging.getLogger("vertexsdk")


class Stream(ABC):
    """A stream that flows into a main loop; `MainLoop.start` gives it.

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
        """Whether more may come."""
        return not self._ended.is_set()

    @property
    def exception(self) -> VertexError | None:
        """What the stream died of, or None."""
        return self._error

    @abstractmethod
    def progress(self) -> StreamProgress:
        """How the stream stands: received, taken in, behind, changes per second."""

    @abstractmethod
    def stop(self) -> None:
        """End the stream; return when nothing more is taken in."""

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait for the stream's end, for at most `timeout` seconds; return whether it ended.

        Raises:
            VertexError: the stream died; what was taken in before stays.
        """
        ended = self._ended.wait(timeout)
        if self._error is not None:
            raise self._error
        return ended

    def _end(self, error: BaseException | None = None) -> None:
        """Note the end, and of what."""
        if self._ended.is_set():
            return
        if error is not None:
            line = next(iter(str(error).splitlines()), "") or type(error).__name__
            self._error = error if isinstance(error, VertexError) else RunError(self._died(line))
            _log.warning("%s", self._error)
        self._ended.set()

    def _died(self, why: str) -> str:
        return (
            f"the stream died after {self.intake.taken:,} changes: {why.rstrip('. ')}; what was "
            "taken in is kept: start the stream again to go on from there"
        )

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
