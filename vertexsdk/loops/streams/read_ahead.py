"""Batches that a thread reads ahead of their consumer; a source that is too fast waits.

The number of changes and of bytes that are read ahead is limited, but for one batch.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.graph.changes.change_files import ChangeFiles

__all__ = ["ReadAhead"]

_SIGNAL_SECONDS = 0.5  # Python handles a signal that came just before a wait when the wait ends


class ReadAhead:
    """The batches of a source in order, read by a background thread.

    Args:
        source: iterated over once.
        max_changes: number of changes that may be read ahead.
        max_bytes: bytes of memory that they may use.

    Attributes:
        received: number of changes read so far.

    Raises:
        Exception: from iteration, what the source raised, after the batches before it.

    Example:
        >>> import tempfile
        >>> from vertexsdk.graph.changes.line import LineFormat
        >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        ...     count = file.write("+ 1 2\\n- 1 2\\n")
        ...     file.flush()
        ...     with ReadAhead(ChangeFiles([file.name], LineFormat(integers=True))) as batches:
        ...         [len(batch) for batch in batches]
        [2]
    """

    def __init__(
        self, source: ChangeFiles, *, max_changes: int = 1 << 21, max_bytes: int = 1 << 28
    ) -> None:
        self.source, self.max_changes, self.max_bytes = source, max_changes, max_bytes
        self.received = 0
        self._waiting: deque[ChangeBatch] = deque()
        self._changes = self._bytes = 0  # of what waits
        self._error: BaseException | None = None
        self._ended = self._stopped = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, name="vertexsdk-read-ahead", daemon=True)
        self._thread.start()

    @property
    def behind(self) -> int:
        """How many changes are read ahead."""
        return self._changes

    def _read(self) -> None:
        try:
            for batch in self.source:
                with self._changed:
                    self.received += len(batch)
                    while self._full(batch) and not self._stopped:
                        self._changed.wait()
                    if self._stopped:
                        return
                    self._waiting.append(batch)
                    self._changes += len(batch)
                    self._bytes += batch.bytes
                    self._changed.notify_all()
        except BaseException as error:  # raised where the batches are read
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _full(self, batch: ChangeBatch) -> bool:
        changes, size = self._changes + len(batch), self._bytes + batch.bytes
        return bool(self._waiting) and (changes > self.max_changes or size > self.max_bytes)

    def __iter__(self) -> Iterator[ChangeBatch]:
        while True:
            with self._changed:
                while not self._waiting and not self._ended:
                    self._changed.wait(_SIGNAL_SECONDS)
                if not self._waiting:
                    break
                batch = self._waiting.popleft()
                self._changes -= len(batch)
                self._bytes -= batch.bytes
                self._changed.notify_all()
            yield batch
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop the source; batches read before are still returned."""
        self.source.stop()

    def close(self) -> None:
        """End the thread; batches that are read ahead are dropped."""
        self.source.stop()
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join(10)

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
