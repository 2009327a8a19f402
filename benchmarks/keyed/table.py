"""What the suite measured, as a document."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks import cells
from benchmarks.beside import add_sections
from benchmarks.document import Document, Table
from benchmarks.keyed import states, targets
from benchmarks.keyed.ratings import RATIOS
from benchmarks.keyed.restoring import PAIRS
from benchmarks.keyed.targets import Results
from benchmarks.keyed.windows import WORDS_OF_A_LINE
from benchmarks.keyed.words import LINES

__all__ = ["Results", "document"]

_BULK = {
    "dict": "a dict, in a Python loop",
    "valkey": "Valkey, pipelines of 1,000, appendfsync everysec",
    "memory-1": "stateful class, `memory://`, 1 partition",
    "lmdb-1": "stateful class, LMDB, 1 partition",
    "lmdb-2": "stateful class, LMDB, 2 partitions in one process",
    "strings-1": "stateful class, LMDB, strings as keys",
    "lists-1": "stateful class, LMDB, lists for arrays",
    "redis-1": "stateful class, Valkey, appendfsync always",
    "postgres-1": "stateful class, PostgreSQL",
}


def document(r: Results) -> Document:
    """The whole report."""
    report = Document(
        "keyed",
        "Suite keyed: stateful classes",
        "Calls of stateful classes in bulk and one by one, with snapshots and without, beside "
        "other systems that keep state by key.",
        f"./dev {' '.join(r.command)}",
        r.machine,
        f"{r.sizes.cores} cores used",
        cells.disturbed(r.others(), "during a case"),
        notes=_notes(r),
    )
    sizes, smallest = r.sizes, min(r.sizes.states)
    shown = [
        ("What must be reached", targets.table(r)),
        ("Put and get", _bulk(r)),
        ("Put, by state and snapshots", _snapshots(r, "states", [
            (f"{megabytes} MB", every) for megabytes in sizes.states
            for every in (sizes.intervals if megabytes == smallest else (states.AIM,))
        ])),
        ("Put, the same state on each processor", _snapshots(r, "processors", [
            (f"{count} × {sizes.each} MB", min(sizes.intervals)) for count in sizes.processors
        ])),
        ("Keys of a stream, counted", _counted(r)),
        ("Words in windows", _words(r)),
        ("Micro-batches of lines", _micro_batches(r)),
        ("Restoring", _restored(r)),
        ("Recommendations and ratings", _ratings(r)),
        *((f"Three shuffles, 2 {where}", _snapshots(r, case, [
            ("chain", every) for every in sizes.chain_intervals
        ])) for case, where in (("chain", "processors"), ("chain-inprocess", "partitions"))),
    ]  # fmt: skip
    add_sections(report, r, [(title, [table]) for title, table in shown])
    return report


def _notes(r: Results) -> list[str]:
    s = r.sizes
    return [
        f"Put and get: {s.keys:,} keys of 62 bits, {s.calls:,} calls of each kind in a turn, an "
        f"eighth of them with a server; {s.turns} turns; medians. `map` gets NumPy arrays; its log "
        "is durable before a block of 65,536 calls runs.",
        f"Snapshots: {1_000_000 // states.KEYS_PER_MB} bytes of state for each key; loops with "
        "each kind take turns in one process, LMDB, and each turn has a snapshot for every "
        "interval. *Longest* is that of one `map` of 262,144 calls, or 65,536 with shuffles.",
        f"A stream: {s.events:,} rows in eight Parquet files, {s.counted:,} different keys; from "
        "its start until all is committed. Spark takes it in as one micro-batch "
        "(`availableNow`), whose state is in RocksDB, with a checkpoint.",
        f"Words: lines of {WORDS_OF_A_LINE} words, 10,000 different ones. A window's lines are "
        "handed over at its end and counted, and the counts of its words read; kept up with, if "
        "this is done before the next one's end for 95 % of them. The class has them in its log "
        "before that; Bytewax has one worker and keeps nothing. Structured Streaming has one "
        "micro-batch after the other, with a checkpoint; its lines are made within the JVM.",
        f"Restoring: {s.restored:,} MB, from `StatefulLoop.resume` on resident Spark processors to "
        "the first answers.",
        f"Recommendations: {s.ratings:,} ratings of 943 users and 1,682 items, as MovieLens 100K, "
        f"then {s.requests} requests of each ratio. The Structured Streaming job does the same by "
        "joins in `foreachBatch`, the requests of a round in one micro-batch.",
        "All answers, counts and scores equal those of NumPy or SciPy.",
    ]  # fmt: skip


def _table(head: list[str], rows: Iterable[list[str]]) -> Table | None:
    """The rows that have a figure."""
    filled = [row for row in rows if set(row[1:]) != {"–"}]
    return Table(head, filled) if filled else None


def _bulk(r: Results) -> Table | None:
    kinds = ("put", "get")
    head = ["", "put/s", "get/s", "one put", "one get"]
    return _table(head, (
        [
            title, *(cells.number(r.median(case, kind)) for kind in kinds),
            *(cells.middle(r.figures(case, f"one {kind}")) for kind in kinds),
        ]
        for case, title in _BULK.items()
    ))  # fmt: skip


def _snapshots(r: Results, case: str, measured: list[tuple[str, float]]) -> Table | None:
    rows = []
    for name, every in measured:
        for kind in r.sizes.kinds:
            figure = f"{name} {kind} {every:g}"
            if r.figures(case, figure):
                rows.append([
                    "" if case.startswith("chain") else name, f"{every:g} s", kind,
                    cells.number(r.median(case, figure)),
                    cells.times(r.kept(case, name, kind, every)),
                    cells.middle(r.figures(case, f"{figure} longest")),
                ])  # fmt: skip
    head = ["", "interval", "snapshots", "calls/s", "/ none", "longest"]
    return Table(head, rows) if rows else None


def _counted(r: Results) -> Table | None:
    titles = {"count-lmdb": "stateful class", "count-spark": "transformWithStateInPandas"}
    head = ["", "rows/s"]
    return _table(head, (
        [title, cells.number(r.median(case, "events"))] for case, title in titles.items()
    ))  # fmt: skip


def _words(r: Results) -> Table | None:
    titles = {"words-lmdb": "stateful class", "words-bytewax": "Bytewax"}
    head = ["words/s", *(f"{window} ms" for window in r.sizes.windows)]
    return _table(head, (
        [title, *(_rate(r.median(case, f"{window} ms")) for window in r.sizes.windows)]
        for case, title in titles.items()
    ))  # fmt: skip


def _rate(rate: float | None) -> str:
    return "not kept up with" if rate == 0 else cells.number(rate)


def _micro_batches(r: Results) -> Table | None:
    """How long one of Structured Streaming is, and so which windows it could keep up with."""
    rows = []
    for lines in LINES:
        seconds = r.median("words-spark", f"micro-batch {lines}")
        if seconds is not None:
            rate = cells.number(lines * WORDS_OF_A_LINE / seconds)
            rows.append([f"{lines:,} lines", f"{cells.seconds(seconds)} s", rate])
    head = ["Structured Streaming", "takes", "words/s"]
    return Table(head, rows) if rows else None


def _restored(r: Results) -> Table | None:
    head = ["from", "by", "seconds"]
    rows = [[str(m), str(n), cells.spread(r.figures("restore", f"{m} to {n}"))] for m, n in PAIRS]
    return Table(head, rows) if any(row[2] != "–" for row in rows) else None


def _ratings(r: Results) -> Table | None:
    titles = {"ratings-lmdb": "stateful class", "ratings-spark": "Structured Streaming"}
    ratios = [f"{reads}:{writes}" for reads, writes in RATIOS]
    return _table(["requests/s, reads to writes", *ratios], (
        [title, *(cells.number(r.median(case, ratio)) for ratio in ratios)]
        for case, title in titles.items()
    ))  # fmt: skip
