"""Ingests change files into a main loop, and starts streams of either kind.

The source's offset is committed with each batch, so a stream that is started again, by any process,
continues after the last batch: no change is lost or applied twice.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from vertexsdk.errors import InputError
from vertexsdk.graph.changes.change_files import ChangeFiles
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.loops.streams._stream import Stream
from vertexsdk.loops.streams.intake import ChangeSink, StreamIntake, StreamProgress
from vertexsdk.loops.streams.read_ahead import ReadAhead


class FileStream(Stream):
    """Ingests change files.

    Args:
        intake: passes batches to the loop.
        source: the files.
        limit: of batches that are read ahead.
    """

    def __init__(self, intake: StreamIntake, source: ChangeFiles, limit: int = 16) -> None:
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
        """See `Stream`."""
        unread = self._source.behind_bytes
        return self.intake.progress(self._batches.received, unread, self.isActive)

    def stop(self) -> None:
        """See `Stream`; batches that were read ahead are committed."""
        self._batches.stop()
        self._thread.join()


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
        _refuse_others(options, {"follow", "idle", "time_column"}, "streaming DataFrames")
        time_field = options.pop("time_column", 0)
        if not isinstance(time_field, int) or time_field < 0:
            raise InputError(f"time_column is {time_field!r}; it must be a field's number, from 1")
        form = LineFormat(main.integers, main.value, time_field)
        paths = [stream] if isinstance(stream, (str, os.PathLike)) else stream
        source = ChangeFiles(
            [os.fspath(path) for path in paths], form, after=main.offsets,
            **{"follow": True, **options},
        )  # fmt: skip
        return FileStream(intake, source)
    from vertexsdk.loops.streams._dataframe_stream import DataFrameStream

    for_frames = {"checkpointLocation", "deltas", "time_column", "trigger"}
    _refuse_others(options, for_frames, "change files")
    return DataFrameStream(intake, stream, LineFormat(main.integers, main.value), **options)


def _refuse_others(options: Mapping[str, Any], known: set[str], kind: str) -> None:
    for name in options:
        if name not in known:
            raise InputError(f"{name} is only for {kind}: leave it out")
