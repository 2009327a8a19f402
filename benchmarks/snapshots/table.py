"""What the suite measured, as a document."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks import cells
from benchmarks.document import Chart, Document, Section, Table
from benchmarks.snapshots import charts, targets
from benchmarks.snapshots.day import MOMENTS
from benchmarks.snapshots.intervals import KINDS
from benchmarks.snapshots.restoring import AFTER, BEFORE
from benchmarks.snapshots.targets import Results

__all__ = ["Results", "document"]

_PLACES = {
    "intervals-2": "2 processors",
    "intervals-4": "4 processors",
    "intervals-inprocess": "2 partitions in process",
}


def document(r: Results) -> Document:
    """The whole report."""
    report = Document(
        "snapshots",
        "Suite snapshots: what snapshots cost, and what they buy",
        "Main loops that take snapshots while they go on, or stop for each, beside one that takes "
        "none; and how long it takes until they answer again after a loss.",
        f"./dev {' '.join(r.command)}",
        r.machine,
        f"{r.sizes.cores} cores used",
        cells.disturbed(r.others(), "during a case"),
        notes=_notes(r),
    )
    problems = "\n".join(f"- **Not measured:** {p}" for p in r.problems())
    shown: list[tuple[str, str, Iterable[Table | Chart | None]]] = [
        ("What must be reached", problems, [targets.table(r)]),
        ("Throughput by interval", "", [x for case in _PLACES for x in _throughput(r, case)]),
        ("Pauses", "", [_pauses(r)]),
        ("Restoring", "", [_restored(r)]),
        ("A processor is lost", "", [_lost(r), *charts.loss(r)]),
        ("A day of snapshots", "", [_day(r)]),
    ]
    for title, words, parts in shown:
        section = Section(title, words, [part for part in parts if part is not None])
        report.sections += [section] if section.parts or words else []
    return report


def _notes(r: Results) -> list[str]:
    return [
        f"Throughput: R-MAT {r.sizes.scale} without parallel edges, shortest paths, a query after "
        f"each batch of {r.sizes.batch:,} changes, LMDB. Loops of the same graph take turns in one "
        "process; *none* never stores its graph either, which a loop does by default when its "
        "change log is long. The answer of each loop at the end equals one from scratch.",
        "Pauses: a program with 16 fields, 128 bytes for each vertex, in process; between two "
        "snapshots so many percent of the vertices get another state. The pause is that of the "
        "partition that stood still longest.",
        "Restoring: from the call of `MainLoop.resume` to the exact answer of the first query; "
        "the same program, the state alone is so large.",
        "A loss: SIGKILL to the process of one partition of two, snapshots every second; seconds "
        "from the kill to the first answer to a query that was asked after it.",
        "A day: a graph of 4,000 edges, one change and one synchronous snapshot after the other.",
    ]


def _table(head: list[str], rows: list[list[str]], title: str = "") -> Table | None:
    return Table(head, rows, title) if rows else None


def _throughput(r: Results, case: str) -> list[Table | Chart | None]:
    rows = []
    for every in r.sizes.intervals:
        for kind in KINDS:
            name = f"{kind} {every:g}"
            if r.figures(case, name):
                pause, seconds, size = (
                    r.median(case, f"{name} {what}") for what in ("pause", "seconds", "bytes")
                )
                rows.append([
                    f"{every:g} s", kind, cells.number(r.median(case, name)),
                    cells.times(r.kept(case, kind, every)), _milliseconds(pause),
                    cells.seconds(seconds), _megabytes(size),
                ])  # fmt: skip
    head = ["interval", "snapshots", "changes/s", "/ none", "pause, ms", "stored in, s", "MB"]
    return [_table(head, rows, _PLACES[case]), *charts.throughput(r, case, _PLACES[case])]


def _pauses(r: Results) -> Table | None:
    rows = []
    for case, partitions in (("pause-1", "1"), ("pause-2", "2")):
        for megabytes in r.sizes.states:
            for percent in r.sizes.shares:
                name = f"{megabytes} MB {percent} %"
                pauses = r.figures(case, f"{name} pause")
                if pauses:
                    middle, most = (r.percentile(case, f"{name} pause", p) for p in (50, 99))
                    rows.append([
                        f"{megabytes} MB", partitions, f"{percent} %", str(len(pauses)),
                        _milliseconds(middle), _milliseconds(most),
                        cells.seconds(r.median(case, f"{name} stored")),
                        _megabytes(r.median(case, f"{name} bytes")),
                        cells.seconds(r.median(case, f"{name} ingest")),
                    ])  # fmt: skip
    head = [
        "state", "partitions", "rows changed", "snapshots", "pause, ms: median", "99 %",
        "stored in, s", "MB stored", "ingest, s",
    ]  # fmt: skip
    return _table(head, rows)


def _restored(r: Results) -> Table | None:
    rows = [
        [
            str(before), str(after), cells.spread(figures),
            cells.seconds(r.median("restore", f"{before} to {after} resume")),
            _megabytes(r.median("restore", f"bytes {before}")),
        ]
        for before in BEFORE
        for after in AFTER
        if (figures := r.figures("restore", f"{before} to {after}"))
    ]  # fmt: skip
    return _table(["from", "to", "first answer, s", "of it resume", "MB of the snapshot"], rows)


def _lost(r: Results) -> Table | None:
    rows = [
        [what, cells.spread(figures)]
        for name, what in (
            ("answered", "from the kill to the next answer"),
            ("longest", "the longest batch with its query"),
        )
        if (figures := r.figures("loss", name))
    ]
    return _table(["", "seconds"], rows)


def _day(r: Results) -> Table | None:
    rows = []
    for moment in MOMENTS:
        size = r.median("day", f"bytes {moment}")
        if size is not None:
            counts = (r.median("day", f"{what} {moment}") for what in ("segments", "versions"))
            rows.append([f"{moment} %", _megabytes(size), *map(cells.number, counts)])
    head = ["of the day", "MB on disk", "segments", "versions"]
    return _table(head, rows, f"{r.sizes.snapshots:,} snapshots")


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1e3 * seconds:.3g}"


def _megabytes(size: float | None) -> str:
    return "–" if size is None else f"{size / 1e6:.3g}"
