"""`vertexsdk stream`: change files into a main loop, with a query every so many changes."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from vertexsdk.engine.progress import ProgressBar
from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.graph.changes.change_files import ChangeFiles
from vertexsdk.graph.changes.changes import COUNTS
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.loops.main_loop import MainLoop
from vertexsdk.loops.result import Result
from vertexsdk.loops.streams.file_stream import ReadAhead
from vertexsdk.loops.streams.intake import StreamIntake
from vertexsdk.loops.window import COUNTS as WINDOW_COUNTS

_SUMS = ("iterations", "hops", "updates", "prepares", "acknowledges", "messages", "bytes")


@dataclass
class StreamSession:
    """One `vertexsdk stream`: change files into a main loop, with queries between.

    Args:
        paths: files, directories or globs, in order.
        query_every: changes of the loop between queries; None asks once, at the end.
        follow: wait for files that grow or come, until Ctrl-C or SIGTERM.
        idle: with `follow`, end when nothing has come for so many seconds.
        time_field: the number of the field, from 1, which holds a time; 0 for none.

    Attributes:
        queries: the number of the newest query.
        changes: the number of changes that this stream has committed.
        statistics: the statistics of the whole stream, as JSON takes them.
    """

    paths: Sequence[str]
    query_every: int | None = None
    follow: bool = False
    idle: float | None = None
    time_field: int = 0
    queries: int = field(default=0, init=False)
    changes: int = field(default=0, init=False)
    statistics: dict[str, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._counts = dict.fromkeys((*COUNTS, "repeated", *WINDOW_COUNTS), 0)
        self._answers: list[dict[str, Any]] = []
        self._shown = 0.0

    def answers(self, main: MainLoop) -> Iterator[Result]:
        """Ingest all changes, and yield the answer of each query as soon as it is computed.

        Raises:
            InputError: as `MainLoop.ingest` and `ChangeFiles`; with a strict loop, at a bad line.
        """
        source = ChangeFiles(
            self.paths, LineFormat(main.integers, main.value, self.time_field), follow=self.follow,
            idle=self.idle, after=main.offsets,
        )  # fmt: skip
        intake = StreamIntake(main)
        self._bar = ProgressBar(main.loop, None)
        answered = -1
        if self.query_every and main.changes and main.changes % self.query_every == 0:
            answered = main.changes  # the process before may have ended just before this answer
            yield self._answer(main)
        with (
            ReadAhead(source) as batches,
            stopped_by_signals(source.stop, waits=self.follow),
            contextlib.closing(self._bar),
        ):
            for batch in batches:
                for part in self._parts(batch, main):
                    for name, number in intake.take(part).items():
                        self._counts[name] += number
                    self.changes += len(part)
                    self._show(
                        main, f"{intake.progress(batches.received, source.behind_bytes, True)}"
                    )
                    due = self.query_every and main.changes % self.query_every == 0
                    if due and main.changes and answered != main.changes:
                        answered = main.changes
                        yield self._answer(main)
        if answered != main.changes:
            yield self._answer(main)
        self._finish(main, intake)

    def _parts(self, batch: ChangeBatch, main: MainLoop) -> Iterator[ChangeBatch]:
        """A batch, cut where queries are due."""
        while self.query_every:
            due = self.query_every - main.changes % self.query_every
            if len(batch) <= due:
                break
            part, batch = batch.cut(due)
            yield part
        yield batch

    def _show(self, main: MainLoop, text: str) -> None:
        """Show progress; iterations show their own."""
        if main.budget is None and time.monotonic() - self._shown > 0.5:
            self._shown = time.monotonic()
            self._bar.open()
            self._bar.say(text)

    def _answer(self, main: MainLoop) -> Result:
        self._bar.close()
        began = time.perf_counter()
        answered = main.answered()  # which may have no rows
        result = main.query(persist=True) if answered is None else answered
        result.statistics["query_seconds"] = time.perf_counter() - began
        self.queries = main.queries
        self._answers.append(dict(result.statistics))
        return result

    def _finish(self, main: MainLoop, intake: StreamIntake) -> None:
        last = self._answers[-1]
        seconds = main.seconds
        self.statistics = {
            **last,
            **{
                name: sum(q[name] for q in self._answers)
                for name in (*_SUMS, "seconds", "query_seconds")
            },
            "ingest_seconds": seconds,
            "changes": self.changes,
            "changes_per_second": self.changes / seconds if seconds else 0.0,
            **self._counts,
            "bad_lines": intake.bad,
            "late": self._counts["late"] if main.windowed else intake.late,
            "total_changes": main.changes,
            "queries": self._answers,
        }

    def summary(self, result: Result) -> str:
        """A line about the newest query."""
        s = result.statistics
        return (
            f"{result.loop}: query {self.queries} after {s['changes']:,} changes: "
            f"{s['num_vertices']:,} vertices, {s['num_edges']:,} edges; "
            f"answered in {s['query_seconds']:.3f} s"
        )

    def last_line(self) -> str:
        """A line that sums up the changes."""
        s = self.statistics
        parts = [f"{self.changes:,} changes: {s['added']:,} edges added, {s['removed']:,} removed"]
        parts.append(f"{s['changed']:,} given another value")
        for name, text in (
            ("unchanged", "unchanged"),
            ("absent", "of absent edges"),
            ("repeated", "skipped, as they were ingested before"),
            ("late", "late"),
            ("overtaken", "overtaken by newer changes of their edges"),
            ("expired", "expired"),
            ("bad_lines", "bad lines skipped"),
        ):
            if s[name]:
                parts.append(f"{s[name]:,} {text}")
        return ", ".join(parts)


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], object], *, waits: bool = True) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM call `stop`, where a command `waits` for more; the rest is done."""
    if not waits or threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        handlers[number] = signal.signal(number, lambda *_: stop())
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
