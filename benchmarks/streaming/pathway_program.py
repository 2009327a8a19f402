"""What `pathway` runs: see `benchmarks.streaming` for the words, files and lines. Pathway only."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pathway as pw  # type: ignore[import-not-found, unused-ignore]
from pathway.stdlib.graphs import bellman_ford, pagerank  # type: ignore[import-not-found, unused-ignore]

Row = tuple[str, int, int, float]

_TICK = -1
"""An edge that is none: its value is the number of the batch. It is among the answers, because a
subscriber is told of no time in which nothing changed."""


class Edges(pw.Schema):  # type: ignore[misc, unused-ignore]
    u: int = pw.column_definition(primary_key=True)
    v: int = pw.column_definition(primary_key=True)
    dist: float


class Feed(pw.io.python.ConnectorSubject):  # type: ignore[misc, unused-ignore]
    """Hands in batch after batch, each when the answer to the one before is there."""

    def __init__(self, job: dict[str, str], batches: list[list[Row]], keep: list[bool]) -> None:
        super().__init__(session_type="upsert")
        self.job, self.batches, self.keep = job, batches, keep
        self.answer: dict[int, Any] = {}
        self.there = threading.Event()
        self.ticked = False

    def run(self) -> None:
        until, start = float("inf"), int(self.job["start"])
        for number, rows in enumerate(self.batches):
            self.there.clear()
            begin = time.perf_counter()
            for kind, u, v, dist in rows:
                if kind == "-":
                    self.delete(u=u, v=v, dist=dist)
                else:
                    self.next(u=u, v=v, dist=dist)
            self.next(u=_TICK, v=_TICK, dist=float(number))
            self.commit()
            self.there.wait()
            now = time.perf_counter()
            tell(batch=number, seconds=now - begin)
            if number == start:
                until = now + float(self.job["seconds"])
            last = number + 1 == len(self.batches) or now > until
            if self.keep[number] or last:
                lines = (f"{vertex} {value}\n" for vertex, value in self.answer.items())
                (Path(self.job["out"]) / f"answer-{number}.txt").write_text("".join(lines))
                tell(kept=number)
            if last:
                break

    def on_change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """The subscriber keeps the answer; of a changed value either half may come first."""
        name, value = row["name"], row["value"]
        if name == _TICK:
            self.ticked = self.ticked or is_addition
        elif is_addition:
            self.answer[name] = value
        elif self.answer.get(name) == value:
            del self.answer[name]

    def on_time_end(self, time: int) -> None:
        """All changes of a time have been told; those of a batch have one, its tick is among
        them."""
        if self.ticked:
            self.ticked = False
            self.there.set()


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def answers(program: str, raw: pw.Table, origin: int, iterations: int) -> pw.Table:
    """Columns ``name``, a vertex or the tick, and ``value``."""
    tick = raw.filter(raw.u == _TICK)
    raw = raw.filter(raw.u != _TICK)
    sources = raw.groupby(raw.u).reduce(name=raw.u).with_id_from(pw.this.name)
    targets = raw.groupby(raw.v).reduce(name=raw.v).with_id_from(pw.this.name)
    ends = sources.update_rows(targets)
    if program == "shortest_paths":
        # It takes the least length over the edges into a vertex, for its source as well.
        raw = raw.filter(raw.v != origin)
    edges = raw.select(u=ends.pointer_from(raw.u), v=ends.pointer_from(raw.v), dist=raw.dist)
    if program == "shortest_paths":
        lengths = bellman_ford.bellman_ford(ends.select(is_source=ends.name == origin), edges)
        found = lengths.select(value=lengths.dist_from_source)
    elif program == "pagerank":
        ranks = pagerank.pagerank(edges.select(edges.u, edges.v), iterations)
        found = ranks.select(value=ranks.rank)
    else:
        turned = edges.select(u=edges.v, v=edges.u)
        selves = ends.select(u=ends.id, v=ends.id)
        both = edges.select(edges.u, edges.v).concat_reindex(turned, selves)
        labels = pw.iterate(
            lower, labels=pw.iterate_universe(ends.select(label=ends.name)), edges=both
        )
        found = labels.select(value=labels.label)
    named = found.join(ends, found.id == ends.id).select(ends.name, found.value)
    kind = float if program == "shortest_paths" else int
    told = tick.select(name=tick.u, value=pw.apply_with_type(kind, kind, tick.dist))
    return named.concat_reindex(told)


def lower(labels: pw.Table, edges: pw.Table) -> pw.Table:
    """Each vertex takes the least label of its neighbours, of which it is one itself."""
    sent = edges.select(edges.v, label=labels.ix(edges.u).label)
    return labels.update_rows(sent.groupby(id=sent.v).reduce(label=pw.reducers.min(sent.label)))


def rows_of(path: str, kind: str | None) -> list[Row]:
    rows = []
    for line in Path(path).read_text().splitlines():
        fields = line.split() if kind is None else [kind, *line.split()]
        dist = float(fields[3]) if len(fields) > 3 else 0.0
        rows.append((fields[0], int(fields[1]), int(fields[2]), dist))
    return rows


def main() -> None:
    """Run until the last batch is answered."""
    job = dict(word.split("=", 1) for word in sys.argv[1:])
    changes = rows_of(job["changes"], None)
    batches, keep, at = [], [], 0
    for number, line in enumerate(Path(job["batches"]).read_text().splitlines()):
        count, kept = (int(word) for word in line.split())
        batches.append(changes[at : at + count] if number else rows_of(job["base"], "+"))
        at += count if number else 0
        keep.append(kept == 1)
    feed = Feed(job, batches, keep)
    raw = pw.io.python.read(feed, schema=Edges, autocommit_duration_ms=None)
    found = answers(job["program"], raw, int(job["origin"]), int(job["iterations"]))
    pw.io.subscribe(found, on_change=feed.on_change, on_time_end=feed.on_time_end)
    pw.set_license_key(None)  # whose telemetry would be on, if the user has one
    pw.set_monitoring_config(server_endpoint=None)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    os._exit(0)


if __name__ == "__main__":
    main()
