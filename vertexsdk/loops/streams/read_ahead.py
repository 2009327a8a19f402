"""Batches that a thread reads ahead of their consumer; a source that is too fast waits.

A batch is a block of a file, of a few megabytes, so a limit on their number limits the memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Queue

from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.graph.changes.change_files import ChangeFiles

_SIGNAL_SECONDS = 0.5  # Python handles a signal that came just before a wait when the wait ends


class ReadAhead:
    """The batches of a source in order, read by a background thread.

    Args:
        source: iterated over once.
        limit: number of batches that may be read ahead.

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

    def __init__(self, source: ChangeFiles, *, limit: int = 16) -> None:
        self.source = source
        self.received = 0
        self._waiting: Queue[ChangeBatch | None] = Queue(limit)
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._read, name="vertexsdk-read-ahead", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for batch in self.source:
                self.received += len(batch)
                self._waiting.put(batch)
                if self._closed:
                    break
        except BaseException as error:  # raised where the batches are read
            self._error = error
        finally:
            self._waiting.put(None)

    def __iter__(self) -> Iterator[ChangeBatch]:
        while True:
            try:
                batch = self._waiting.get(timeout=_SIGNAL_SECONDS)
            except Empty:
                continue
            if batch is None:
                break
            yield batch
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop the source; batches read before are still returned."""
        self.source.stop()

    def close(self) -> None:
        """End the thread; batches that are read ahead are dropped."""
        self.source.stop()
        self._closed = True
        while self._thread.is_alive():  # it may wait for room
            with suppress(Empty):
                self._waiting.get(timeout=0.01)

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
