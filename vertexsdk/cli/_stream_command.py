"""Change files through a main loop from the command line, with a query every so many changes."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vertexsdk.engine.progress import ProgressBar
from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.graph.changes.change_files import ChangeFiles
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.edge_kernels import COUNTS
from vertexsdk.loops.main_loop import MainLoop
from vertexsdk.loops.result import Result
from vertexsdk.loops.streams.intake import StreamIntake
from vertexsdk.loops.streams.read_ahead import ReadAhead

__all__ = ["StreamOptions", "StreamSession"]

_SUMS = ("iterations", "hops", "updates", "prepares", "acknowledges", "messages", "bytes")


@dataclass(frozen=True)
class StreamOptions:
    """How change files are to be taken in.

    Attributes:
        paths: files, directories or globs, in order.
        query_every: changes of the loop between queries; None asks once, at the end.
        strict: refuse a bad line, a change of an absent edge, a time that runs backwards.
        follow: wait for files that grow or come, until Ctrl-C or SIGTERM.
        idle: with `follow`, end when nothing has come for so many seconds.
        timed: the number of the field, from 1, which holds a time; 0 for none.
    """

    paths: Sequence[str]
    query_every: int | None = None
    strict: bool = False
    follow: bool = False
    idle: float | None = None
    timed: int = 0


class StreamSession:
    """What comes of change files.

    Attributes:
        queries: the number of the newest query.
        changes: taken in by this stream.
        statistics: of the whole stream, as JSON takes it.
    """

    def __init__(self, options: StreamOptions) -> None:
        self.options, self.every = options, options.query_every
        self.queries = self.changes = 0
        self.statistics: dict[str, Any] = {}
        self._counts = dict.fromkeys((*COUNTS, "repeated"), 0)
        self._each: list[dict[str, Any]] = []
        self._bar: ProgressBar | None = None
        self._said = 0.0

    def answers(self, main: MainLoop) -> Iterator[Result]:
        """Take in all changes; yield the answer of every query when it is there.

        Raises:
            InputError: as `MainLoop.ingest` and `ChangeFiles`; with `strict`, at a bad line.
        """
        given = self.options
        source = ChangeFiles(
            given.paths, LineFormat(main.integers, main.value, given.timed), follow=given.follow,
            idle=given.idle, after=main.offsets,
        )  # fmt: skip
        intake = StreamIntake(main, strict=given.strict)
        asked = -1
        if self.every and main.changes and main.changes % self.every == 0:
            asked = main.changes  # whoever took these in may have been ended before the answer
            yield self._answer(main)
        with ReadAhead(source) as feed, _ended_by_signals(feed, given.follow), self._showing(main):
            for batch in feed:
                for part in self._parts(batch, main):
                    for name, number in intake.take(part).items():
                        self._counts[name] += number
                    self.changes += len(part)
                    self._show(f"{intake.flow(feed.received, source.behind_bytes, True)}")
                    due = self.every and main.changes % self.every == 0
                    if due and main.changes and asked != main.changes:
                        asked = main.changes
                        yield self._answer(main)
        if asked != main.changes:
            yield self._answer(main)
        self._finish(main, intake)

    def _parts(self, batch: ChangeBatch, main: MainLoop) -> Iterator[ChangeBatch]:
        """A batch, cut where queries are due."""
        while self.every:
            due = self.every - main.changes % self.every
            if len(batch) <= due:
                break
            part, batch = batch.cut(due)
            yield part
        yield batch

    @contextlib.contextmanager
    def _showing(self, main: MainLoop) -> Iterator[None]:
        """Show progress; iterations show their own."""
        if main.budget is not None:
            yield
            return
        self._bar = ProgressBar(main.loop, None)
        try:
            yield
        finally:
            self._bar.close()
            self._bar = None

    def _show(self, text: str) -> None:
        if self._bar is not None and time.monotonic() - self._said > 0.5:
            self._said = time.monotonic()
            self._bar.open()
            self._bar.say(text)

    def _answer(self, main: MainLoop) -> Result:
        if self._bar is not None:
            self._bar.close()
        began = time.perf_counter()
        result = main.answered() or main.query()
        result.statistics["query_seconds"] = time.perf_counter() - began
        self.queries = main.queries
        self._each.append(dict(result.statistics))
        return result

    def _finish(self, main: MainLoop, intake: StreamIntake) -> None:
        last = self._each[-1]
        seconds = main.seconds
        self.statistics = {
            **last,
            **{
                name: sum(q[name] for q in self._each)
                for name in (*_SUMS, "seconds", "query_seconds")
            },
            "ingest_seconds": seconds,
            "changes": self.changes,
            "changes_per_second": self.changes / seconds if seconds else 0.0,
            **self._counts,
            "bad_lines": intake.bad,
            "late": intake.late,
            "total_changes": main.changes,
            "queries": self._each,
        }

    def summary(self, result: Result) -> str:
        """A line on the newest query."""
        s = result.statistics
        return (
            f"{result.loop}: query {self.queries} after {s['changes']:,} changes: "
            f"{s['num_vertices']:,} vertices, {s['num_edges']:,} edges; "
            f"answered in {s['query_seconds']:.3f} s"
        )

    def last_line(self) -> str:
        """What became of the changes."""
        s = self.statistics
        said = [f"{self.changes:,} changes: {s['added']:,} edges added, {s['removed']:,} removed"]
        said.append(f"{s['changed']:,} given another value")
        for name, text in (
            ("unchanged", "were there already"),
            ("absent", "of edges that are not there"),
            ("repeated", "taken in before, and left out"),
            ("late", "late"),
            ("bad_lines", "bad lines left out"),
        ):
            if s[name]:
                said.append(f"{s[name]:,} {text}")
        return ", ".join(said)


@contextlib.contextmanager
def _ended_by_signals(feed: ReadAhead[ChangeBatch], follow: bool) -> Iterator[None]:
    """With `follow`, let Ctrl-C and SIGTERM end the stream as its own end would."""
    if not follow or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, lambda *_: feed.stop())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
