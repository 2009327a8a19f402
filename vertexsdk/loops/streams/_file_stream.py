"""Where changes come from: files that are read or followed, and Structured Streaming.

What was taken in is committed with the source's own offset, so a stream that is started again, in
whatever process, goes on after it: nothing is lost or doubled.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from vertexsdk.errors import InputError
from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.graph.changes.change_files import ChangeFiles
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.loops.streams._stream import Stream
from vertexsdk.loops.streams.intake import ChangeSink, StreamIntake, StreamProgress
from vertexsdk.loops.streams.read_ahead import ReadAhead

__all__ = ["FileStream", "start"]


class FileStream(Stream):
    """Change files that flow into a main loop; see `ChangeFiles` and `ReadAhead`."""

    def __init__(self, intake: StreamIntake, source: ChangeFiles, **limits: int) -> None:
        super().__init__(intake)
        self._source = source
        self._feed: ReadAhead[ChangeBatch] = ReadAhead(source, **limits)
        self._thread = threading.Thread(target=self._flow, name="vertexsdk-ingest", daemon=True)
        self._thread.start()

    def _flow(self) -> None:
        try:
            for batch in self._feed:
                self.intake.take(batch)
        except BaseException as error:
            self._end(error)
        finally:
            self._feed.close()
            self._end()

    def progress(self) -> StreamProgress:
        """See `Stream`."""
        return self.intake.flow(self._feed.received, self._source.behind_bytes, self.isActive)

    def stop(self) -> None:
        """See `Stream`: what was read is taken in."""
        self._feed.stop()
        self._thread.join()


class _Main(ChangeSink, Protocol):
    strict: bool

    @property
    def integers(self) -> bool: ...
    @property
    def value(self) -> str | None: ...


def start(main: _Main, stream: Any, given: Mapping[str, Any]) -> Stream:
    """Let a stream flow into `main`; `given` are the options of `MainLoop.start`.

    Raises:
        InputError: the stream is of another kind, or an option is not for its kind.
    """
    intake = StreamIntake(main, strict=main.strict)
    options = {name: value for name, value in given.items() if value is not None}
    if isinstance(stream, (str, os.PathLike, Sequence)):
        _refuse(options, {"follow", "idle", "time_column"}, "streaming DataFrames")
        timed = options.pop("time_column", 0)
        if not isinstance(timed, int) or timed < 0:
            raise InputError(f"time_column {timed!r}: give the number of the field, from 1")
        form = LineFormat(main.integers, main.value, timed)
        given_paths = [stream] if isinstance(stream, (str, os.PathLike)) else stream
        paths = [os.fspath(path) for path in given_paths]
        options = {"follow": True, **options}
        return FileStream(intake, ChangeFiles(paths, form, after=main.offsets, **options))
    from vertexsdk.loops.streams._dataframe_stream import DataFrameStream

    _refuse(options, {"checkpointLocation", "deltas", "time_column", "trigger"}, "change files")
    return DataFrameStream(intake, stream, LineFormat(main.integers, main.value), **options)


def _refuse(options: Mapping[str, Any], known: set[str], whose: str) -> None:
    for name in options:
        if name not in known:
            raise InputError(f"{name}: is for {whose} only; leave it out")
