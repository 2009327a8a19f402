"""Files into a loop, read ahead; and streams of either kind into a main loop.

The source's offset is committed with each batch, so a stream that is started again, by any process,
continues after the last batch: no change is lost or applied twice.

A thread reads batches ahead of their consumer, and a source that is too fast waits. A batch is a
block of a file, of a few megabytes, so a limit on their number limits the memory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from queue import Empty, Queue
from typing import Any, Generic, TypeVar

from vertexsdk.errors import InputError, excerpt
from vertexsdk.graph.changes.change_files import ChangeFiles
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.load.followed_files import FollowedFiles
from vertexsdk.loops.streams.intake import (
    ChangeSink,
    Intake,
    Stream,
    StreamIntake,
    StreamProgress,
)

B = TypeVar("B", bound=Sized)
_LOOK_SECONDS = 0.01  # between looks at how far a stream is
_SIGNAL_SECONDS = 0.5  # Python handles a signal that came just before a wait when the wait ends


class ReadAhead(Generic[B]):
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
        >>> from vertexsdk.graph.changes.change_files import ChangeFiles
        >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        ...     count = file.write("+ 1 2\\n- 1 2\\n")
        ...     file.flush()
        ...     with ReadAhead(ChangeFiles([file.name], LineFormat(integers=True))) as batches:
        ...         [len(batch) for batch in batches]
        [2]
    """

    def __init__(self, source: FollowedFiles[B], *, limit: int = 16) -> None:
        self.source = source
        self.received = 0
        self._waiting: Queue[B | None] = Queue(limit)
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

    def __iter__(self) -> Iterator[B]:
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

    def close(self) -> None:
        """End the thread; batches that are read ahead are dropped."""
        self.source.stop()
        self._closed = True
        while self._thread.is_alive():  # it may wait for room
            with suppress(Empty):
                self._waiting.get(timeout=0.01)

    def __enter__(self) -> ReadAhead[B]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileStream(Stream):
    """Takes in files.

    Args:
        intake: passes batches to the loop.
        source: the files.
        limit: number of batches that may be read ahead.
    """

    def __init__(self, intake: Intake[B], source: FollowedFiles[B], limit: int = 16) -> None:
        super().__init__(intake)
        self._source, self._batches = source, ReadAhead(source, limit=limit)
        self._thread = threading.Thread(target=self._flow, name="vertexsdk-stream", daemon=True)
        self._thread.start()

    def _flow(self) -> None:
        try:
            for batch in self._batches:
                self.intake.take(batch)
        except BaseException as error:
            self._end(error)
        finally:
            self._batches.close()
            self._end()

    def progress(self) -> StreamProgress:
        """Return how far the stream is."""
        unread = self._source.behind_bytes
        return self.intake.progress(self._batches.received, unread, self.isActive)

    def stop(self) -> None:
        """End the stream; batches that were read ahead are committed."""
        self._source.stop()
        self._thread.join()

    def _catch_up(self) -> None:
        looks = self._source.looks + 2  # one may be under way
        while self.isActive and self._source.looks < looks:
            self._ended.wait(_LOOK_SECONDS)
        while self.isActive and self.intake.committed < self._batches.received:
            self._ended.wait(_LOOK_SECONDS)


def start_stream(main: ChangeSink, stream: Any, options: Mapping[str, Any]) -> Stream:
    """Start a stream into a main loop; the arguments are those of `MainLoop.start`.

    Args:
        main: the loop.
        stream: change files, or a streaming DataFrame.
        options: None is the default of each.

    Raises:
        InputError: the stream is of another kind, or an option is not for its kind.
    """
    intake = StreamIntake(main)
    options = {name: value for name, value in options.items() if value is not None}
    if isinstance(stream, (str, os.PathLike, Sequence)):
        refuse_others(options, {"follow", "idle", "time_column"}, "streaming DataFrames")
        time_field = options.pop("time_column", 0)
        if not isinstance(time_field, int) or time_field < 0:
            raise InputError(f"time_column is {time_field!r}; it must be a field's number, from 1")
        form = LineFormat(main.integers, main.value, time_field)
        source = ChangeFiles(
            paths_of(stream), form, after=main.offsets, **{"follow": True, **options}
        )
        return FileStream(intake, source)
    from vertexsdk.loops.streams.dataframe_stream import ChangeFrames, DataFrameStream

    for_frames = {"checkpointLocation", "deltas", "time_column", "trigger"}
    refuse_others(options, for_frames, "change files")
    read = ChangeFrames(
        stream, LineFormat(main.integers, main.value), options.pop("deltas", None),
        options.pop("time_column", None),
    )  # fmt: skip
    return DataFrameStream(intake, stream, read, **options)


def paths_of(stream: Any) -> list[str]:
    """Return the paths of files that are given as one path or several.

    Raises:
        InputError: there is none, or something else.
    """
    paths = [stream] if isinstance(stream, (str, bytes, os.PathLike)) else list(stream)
    texts: list[Any] = [
        os.fspath(path) if isinstance(path, os.PathLike) else path for path in paths
    ]
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong or not texts:
        raise InputError(
            f"{excerpt(wrong[0] if wrong else stream)} is not a path: give a path or a glob, a "
            "list of them, or a streaming DataFrame"
        )
    return texts


def refuse_others(options: Mapping[str, Any], known: set[str], kind: str) -> None:
    """Refuse options that are for another kind of stream.

    Raises:
        InputError: there is one; the message names it.
    """
    for name in options:
        if name not in known:
            raise InputError(f"{name} is only for {kind}: leave it out")
