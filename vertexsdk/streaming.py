"""A stream of change files through a main loop, with a query every so many changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vertexsdk.changes import BadLine, read_changes
from vertexsdk.errors import InputError
from vertexsdk.graph import Graph
from vertexsdk.main_loop import MainLoop
from vertexsdk.program import Program
from vertexsdk.results import Result

__all__ = ["Stream"]

_log = logging.getLogger("vertexsdk")
_AT_ONCE = 1 << 18  # changes taken in together
_SHOWN = 3  # bad lines that are shown; all are counted


class Stream:
    """Change files, and what came of them.

    Args:
        paths: files, directories or globs, in order.
        query_every: changes between queries; None asks once, at the end.
        strict: refuse a bad line, and a change of an absent edge.

    Attributes:
        queries: how many were answered.
        statistics: of the whole stream, as JSON takes it.
    """

    def __init__(self, paths: Sequence[str], query_every: int | None, strict: bool) -> None:
        self.paths, self.every, self.strict = list(paths), query_every, strict
        self.queries = self.bad = self.changes = 0
        self.statistics: dict[str, Any] = {}
        self._each: list[dict[str, Any]] = []

    def answers(
        self, program: Program, graph: Graph, params: Mapping[str, Any], options: dict[str, Any]
    ) -> Iterator[Result]:
        """Take in all changes; yield the answer of every query when it is there.

        Raises:
            InputError: as `MainLoop` and `read_changes`; with `strict` at a bad line.
        """
        at_once = min(self.every or _AT_ONCE, _AT_ONCE)
        with MainLoop(program, graph, params=params, strict=self.strict, **options) as main:
            batches = read_changes(
                self.paths,
                at_once=at_once,
                integers=main.integers,
                value=main.value,
            )
            asked = 0
            for batch, bad in batches:
                self._note(bad)
                left = 0
                while left < len(batch):
                    due = (self.every or len(batch) + 1) - (self.changes - asked)
                    part = batch[left : left + due]
                    main.ingest(part)
                    left += len(part)
                    self.changes += len(part)
                    if self.changes - asked == self.every:
                        asked = self.changes
                        yield self._answer(main)
            if asked < self.changes or not self.queries:
                yield self._answer(main)
            self._finish(main)

    def _answer(self, main: MainLoop) -> Result:
        result = main.query()
        self.queries = main.queries
        self._each.append(dict(result.statistics))
        return result

    def _note(self, bad: list[BadLine]) -> None:
        if bad and self.strict:
            raise InputError(str(bad[0]))
        for line in bad[: max(_SHOWN - self.bad, 0)]:
            _log.warning("%s; left out", line)
        self.bad += len(bad)

    def _finish(self, main: MainLoop) -> None:
        last = self._each[-1]
        sums = ("iterations", "hops", "updates", "prepares", "acknowledges", "messages", "bytes")
        self.statistics = {
            **last,
            **{name: sum(q[name] for q in self._each) for name in (*sums, "seconds")},
            "ingest_seconds": main.seconds,
            "changes": self.changes,
            **main.counts,
            "bad_lines": self.bad,
            "queries": self._each,
        }

    def summary(self, result: Result) -> str:
        """A line on the newest query."""
        s = result.statistics
        return (
            f"{result.loop}: query {self.queries} after {self.changes:,} changes: "
            f"{s['num_vertices']:,} vertices, {s['num_edges']:,} edges; "
            f"answered in {s['total_seconds']:.2f} s"
        )

    def last_line(self) -> str:
        """What became of the changes."""
        s = self.statistics
        said = [f"{self.changes:,} changes: {s['added']:,} edges added, {s['removed']:,} removed"]
        said.append(f"{s['changed']:,} given another value")
        for name, text in (
            ("unchanged", "were there already"),
            ("absent", "of edges that are not there"),
            ("bad_lines", "bad lines left out"),
        ):
            if s[name]:
                said.append(f"{s[name]:,} {text}")
        return ", ".join(said)
