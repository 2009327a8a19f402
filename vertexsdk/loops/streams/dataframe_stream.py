"""A Structured Streaming DataFrame into a loop, a micro-batch at a time.

Spark's batch id is the offset, and the query's id, which Spark stores in the checkpoint, is the
source: Spark repeats a batch whose end it did not record. A batch is committed before Spark learns
that it is done, so Spark waits if batches arrive faster than that. The source limits the size of a
batch (`maxFilesPerTrigger`, `maxOffsetsPerTrigger`, `rowsPerSecond`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sized
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vertexsdk.errors import InputError, RunError, VertexError
from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.changes.table import check_columns, read_rows
from vertexsdk.loops.streams.intake import Intake, Stream, StreamProgress
from vertexsdk.transport.spark_failures import spark_failure
from vertexsdk.transport.transport import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

B = TypeVar("B", bound=Sized)
_STOP_SECONDS = 30.0  # for Spark to end a query
_NO_STOPS = np.empty(0, np.int64)


class DataFrameStream(Stream):
    """Takes in a streaming DataFrame.

    Args:
        intake: passes batches to the loop.
        frame: the DataFrame.
        read: makes a batch of a micro-batch, given that, the stream's name, and its number.
        checkpointLocation: where Spark stores its offsets.
        trigger: as for `DataStreamWriter.trigger`.

    Raises:
        InputError: the DataFrame is not a streaming one, or its stream does not start.
    """

    def __init__(
        self,
        intake: Intake[B],
        frame: DataFrame,
        read: Callable[[DataFrame, str, int], B],
        *,
        checkpointLocation: str | None = None,
        trigger: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(intake)
        require_stream(frame)
        self._read = read
        self._received = 0
        self._next: int | None = None  # the batch id that is expected
        self._stopping = False
        self._in_batch = threading.Lock()
        # Spark interrupts its own thread when a query is stopped; a batch must not be cut off.
        self._worker = ThreadPoolExecutor(1, "vertexsdk-batch")
        self._context = frame.sparkSession.sparkContext
        writer = frame.writeStream.foreachBatch(self._batch)
        if checkpointLocation is not None:
            writer = writer.option("checkpointLocation", checkpointLocation)
        try:
            if trigger is not None:
                writer = writer.trigger(**trigger)
            self._query = writer.start()
        except Exception as error:
            raise InputError(f"the stream did not start: {_line(error)}") from None
        self._watcher = threading.Thread(target=self._watch, name="vertexsdk-stream", daemon=True)
        self._watcher.start()

    def _batch(self, frame: DataFrame, number: int) -> None:
        """Commit a micro-batch; Spark calls this."""
        with self._in_batch:
            if self._stopping:
                raise RuntimeError("the stream is being stopped")
            try:
                source = f"stream {self._context.getLocalProperty('sql.streaming.queryId')}"
                self._check(source, number)
                batch = self._read(frame, source, number)
                self._received += len(batch)
                self._worker.submit(self.intake.take, batch).result()
            except BaseException as error:
                self._end(error)
                raise

    def _check(self, source: str, number: int) -> None:
        """Refuse a checkpoint that is ahead of the loop."""
        if self._next is None:
            self._next = int(self.intake.offsets.get(source, -1)) + 1
        if number > self._next:
            raise InputError(
                f"the checkpoint starts at batch {number}, but this loop has not ingested batch "
                f"{self._next}: use another checkpointLocation"
            )
        self._next = number + 1

    def _watch(self) -> None:
        """Wait until the query ends, and record why."""
        try:
            self._query.awaitTermination()
            self._end()
        except Exception as error:
            self._end(None if self._stopping else RunError(self._message(_line(error))))
        finally:
            self._worker.shutdown(wait=False)

    def progress(self) -> StreamProgress:
        """Return how far the stream is; only some sources, as Kafka's, report unread bytes."""
        return self.intake.progress(self._received, self._unread(), self.isActive)

    def _unread(self) -> int:
        last: Any = None
        with contextlib.suppress(Exception):  # of a session that is gone
            last = self._query.lastProgress
        unread = 0.0
        for source in (last or {}).get("sources", []):
            metrics = source.get("metrics") or {}
            unread += float(metrics.get("estimatedTotalBytesBehindLatest") or 0)
        return int(unread)

    def _catch_up(self) -> None:
        if self.isActive:
            with contextlib.suppress(Exception):  # the watcher records why it ended
                self._query.processAllAvailable()

    def stop(self) -> None:
        """End the stream; a batch that has started is committed."""
        with self._in_batch:
            self._stopping = True
        with contextlib.suppress(Exception):  # the query failed meanwhile, or Spark was stopped
            self._query.stop()
        self._watcher.join(_STOP_SECONDS)


def require_stream(frame: Any) -> None:
    """Refuse what is not a streaming DataFrame of a session in this process.

    Raises:
        InputError: it is not one.
    """
    if not getattr(frame, "isStreaming", False):
        raise InputError(
            "the DataFrame is not a streaming one: create it with spark.readStream, or pass it "
            "to ingest()"
        )
    if is_remote(frame.sparkSession):
        raise InputError(
            "the batches of a remote session's stream stay on its server: pass change files "
            "to start(), or batches to ingest()"
        )


class ChangeFrames:
    """Makes changes of micro-batches; `MainLoop.start` says what the arguments are.

    Args:
        form: the ids and values of the loop's graph.

    Raises:
        InputError: the DataFrame is not a streaming one, or its columns are not those of changes.
    """

    def __init__(
        self, frame: DataFrame, form: LineFormat, deltas: Any, time_column: str | None
    ) -> None:
        require_stream(frame)
        if deltas is None:
            check_columns(frame.columns, time_column)
        elif time_column is not None:
            raise InputError("time_column cannot be combined with deltas=: leave one of them out")
        self._form, self._time_column = form, time_column
        self._deltas = deltas() if isinstance(deltas, type) else deltas
        self._clock = -np.inf

    def __call__(self, frame: DataFrame, source: str, number: int) -> ChangeBatch:
        """Return the changes of a micro-batch."""
        if self._deltas is not None:  # an `Ingester` or a function
            rows = hasattr(self._deltas, "batch")
            made = self._deltas.batch(frame.toLocalIterator()) if rows else self._deltas(frame)
            return ChangeBatch(made, source, number, _NO_STOPS)
        table = table_of(frame, number)
        columns, bad, time = read_rows(table, self._form, f"batch {number}", self._time_column)
        changes = Changes(*columns, time)
        newest = np.maximum.accumulate(np.concatenate([[self._clock], time]))
        self._clock = newest[-1]
        late = np.flatnonzero(time < newest[:-1])
        return ChangeBatch(changes, source, number, _NO_STOPS, bad, late, table.nbytes)


def table_of(frame: DataFrame, number: int) -> Any:
    """Return the rows of a micro-batch, as an Arrow table.

    Raises:
        InputError: they are more bytes than Spark allows.
    """
    try:
        with spark_failure():
            return frame.toArrow()
    except RunError as error:
        if "spark.driver.maxResultSize" not in str(error):
            raise
        raise InputError(
            f"batch {number} is larger than spark.driver.maxResultSize: raise that, or limit "
            "batches at the source (maxFilesPerTrigger, maxOffsetsPerTrigger, rowsPerSecond)"
        ) from None


def _line(error: BaseException) -> str:
    """Spark's message, in one line."""
    if isinstance(error, VertexError):
        return str(error)
    text = str(error).partition("terminated with exception: ")[2] or str(error)
    line = next(iter(text.splitlines()), "") or type(error).__name__
    return line.partition(" SQLSTATE: ")[0]
