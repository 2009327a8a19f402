"""Batches read ahead by a thread, bounded: a source that is faster than its reader waits.

What waits is at most so many changes and bytes, and one batch more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Generic, Protocol, TypeVar

__all__ = ["ReadAhead"]


class _Batch(Protocol):
    @property
    def bytes(self) -> int: ...
    def __len__(self) -> int: ...


B = TypeVar("B", bound=_Batch)
B_co = TypeVar("B_co", bound=_Batch, covariant=True)


class _Source(Protocol[B_co]):
    def __iter__(self) -> Iterator[B_co]: ...
    def stop(self) -> None: ...


class ReadAhead(Generic[B]):
    """The batches of a source, in order, some of them read already.

    Args:
        source: iterated over in a thread of its own, once.
        changes, bytes: most that may wait.

    Attributes:
        received: changes read so far.

    Example:
        >>> with ReadAhead(source) as feed:  # doctest: +SKIP
        ...     for batch in feed:
        ...         main.ingest(batch.changes)
    """

    def __init__(self, source: _Source[B], *, changes: int = 1 << 21, bytes: int = 1 << 28) -> None:
        self.source, self.most_changes, self.most_bytes = source, changes, bytes
        self.received = 0
        self._waiting: deque[B] = deque()
        self._changes = self._bytes = 0  # of what waits
        self._error: BaseException | None = None
        self._ended = self._stopped = False
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._read, name="vertexsdk-feed", daemon=True)
        self._thread.start()

    @property
    def behind(self) -> int:
        """How many changes wait."""
        return self._changes

    def _read(self) -> None:
        try:
            for batch in self.source:
                with self._moved:
                    self.received += len(batch)
                    while self._full(batch) and not self._stopped:
                        self._moved.wait()
                    if self._stopped:
                        return
                    self._waiting.append(batch)
                    self._changes += len(batch)
                    self._bytes += batch.bytes
                    self._moved.notify_all()
        except BaseException as error:  # whoever reads the batches raises it
            self._error = error
        finally:
            with self._moved:
                self._ended = True
                self._moved.notify_all()

    def _full(self, batch: B) -> bool:
        changes, bytes_ = self._changes + len(batch), self._bytes + batch.bytes
        return bool(self._waiting) and (changes > self.most_changes or bytes_ > self.most_bytes)

    def __iter__(self) -> Iterator[B]:
        while True:
            with self._moved:
                while not self._waiting and not self._ended:
                    self._moved.wait()
                if not self._waiting:
                    break
                batch = self._waiting.popleft()
                self._changes -= len(batch)
                self._bytes -= batch.bytes
                self._moved.notify_all()
            yield batch
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Let the source end; what waits is still given out."""
        self.source.stop()

    def close(self) -> None:
        """End the thread; what waits is forgotten."""
        self.source.stop()
        with self._moved:
            self._stopped = True
            self._moved.notify_all()
        self._thread.join(10)

    def __enter__(self) -> ReadAhead[B]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
