"""What the suite measured, as a document."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks import cells
from benchmarks.beside import add_sections
from benchmarks.document import Chart, Document, Series, Table
from benchmarks.triggers import targets
from benchmarks.triggers.accumulations import ALGEBRAS, SCHEDULES
from benchmarks.triggers.programs import DIMENSIONS
from benchmarks.triggers.ranks import TOLERANCE
from benchmarks.triggers.targets import BATCH_JOBS, STORES, Results
from benchmarks.triggers.writes import KINDS

__all__ = ["Results", "document"]

_KINDS = {"none": "no trigger", "silent": "one that does not run", "+1": "a +1 for each write"}


def document(r: Results) -> Document:
    """The whole report."""
    report = Document(
        "triggers",
        "Suite triggers: programs over tables that change",
        "What triggers cost, and how soon their results are those of what has changed, beside "
        "batch jobs on everything.",
        f"./dev {' '.join(r.command)}",
        r.machine,
        f"{r.sizes.cores} cores used",
        cells.disturbed(r.others(), "during a case"),
        notes=_notes(r),
    )
    shown: list[tuple[str, list[Table | Chart | None]]] = [
        ("What must be reached", [targets.table(r)]),
        ("Writes", [_writes(r)]),
        ("Preemption", [_preemption(r)]),
        ("Reuse of results", [_reuse(r)]),
        *((title[0].upper() + title[1:], [_changes(r, part), _chart(r, part, title)])
          for part, title in BATCH_JOBS.items()),
        ("Clustering", [_clustering(r)]),
    ]  # fmt: skip
    add_sections(report, r, shown)
    return report


def _notes(r: Results) -> list[str]:
    s = r.sizes
    return [
        "Ours is in this process, one partition, interpreted, its log in LMDB unless a row says "
        "otherwise. Medians.",
        f"Writes: all {s.rows:,} rows in one `upsert`, by loops that take turns, {s.pairs} times "
        "each. *Kept* is the median of the ratios of one turn.",
        f"Preemption: PageRank of {s.graph:,} pages from nothing, with as many links into each. "
        'With `schedule="every"` triggers run for each event, also where a later one makes it '
        "redundant.",
        f"Reuse: one partial result of each of {s.totals:,} totals changes. *The write* is all of "
        "`upsert`, divided by the totals; *accumulation* is what the accumulator takes of that. "
        "*One addition after the other* is an `Algebra` of a user with an inverse.",
        f"Word count: {s.texts:,} pages of 50 words, of 20,000 by Zipf's law, some of which have "
        f"other texts. The batch job is a DataFrame on local[{s.cores}], with all pages in memory; "
        "what it counts is not kept.",
        f"PageRank: {s.pages:,} pages with ten links each, some of which have other ones, until "
        f"no rank changes by {TOLERANCE:g} (their mean is 1). The batch job joins and aggregates "
        f"DataFrames that are in memory on local[{s.cores}], begins with 1 everywhere, and is told "
        "how many iterations that takes.",
        "*The batch job is faster from*: where a line through the two neighbours, both axes "
        "logarithmic, meets it.",
        f"Clustering: {DIMENSIONS} dimensions, {s.clusters} clusters; items are added until there "
        "are so many, then no item changes its cluster any more. MLlib begins with all items in "
        f"memory on local[{s.cores}], from the same centres, and has as many iterations.",
        "All counts equal those of Python, and centres those of MLlib; the L1 error of ranks is "
        "what the tolerance allows, on both sides.",
    ]  # fmt: skip


def _table(head: list[str], rows: Iterable[list[str]], names: int = 1) -> Table | None:
    """The rows that have a figure after their names."""
    there = [row for row in rows if set(row[names:]) - {"–"}]
    return Table(head, there) if there else None


def _writes(r: Results) -> Table | None:
    return _table(["", "trigger", "rows/s", "kept"], (
        [
            store, _KINDS[kind], cells.number(r.median(case, kind)),
            cells.times(r.median(case, f"{kind} kept")),
        ]
        for case, store in STORES.items() for kind in KINDS
    ), 2)  # fmt: skip


def _preemption(r: Results) -> Table | None:
    case = "preemption"
    return _table(["links into a page", "schedule", "events", "runs", "seconds"], (
        [
            f"{degree}", schedule,
            *(cells.number(r.median(case, f"{degree} {schedule} {w}")) for w in ("events", "runs")),
            cells.seconds(r.median(case, f"{degree} {schedule}")),
        ]
        for degree in r.sizes.degrees for schedule in SCHEDULES
    ), 2)  # fmt: skip


def _reuse(r: Results) -> Table | None:
    rows = []
    for algebra in ALGEBRAS:
        for partials in r.sizes.partials:
            row = [algebra, f"{partials:,}"]
            for what in ("", " accumulation"):
                both = [f"{partials} {algebra} {how}{what}" for how in ("with", "without")]
                row += [_micro(r.median("reuse", figure)) for figure in both]
                row.append(cells.times(r.ratio("reuse", both[1], "reuse", both[0])))
            rows.append(row)
    head = ["algebra", "partial results", "the write, µs", "without reuse", "without / with"]
    head += ["accumulation, µs", "without reuse", "without / with"]
    return _table(head, rows, 2)


def _micro(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1e6 * seconds:.1f}"


def _changes(r: Results, part: str) -> Table | None:
    pathway = bool(part == "words" and r.figures("words-pathway", f"{r.sizes.shares[0]:g}"))
    shares = [*(f"{percent:g}" for percent in r.sizes.shares), "all pages"]
    rows = []
    for share in shares:
        batch = r.median(f"{part}-spark", "batch")
        rows.append([
            "all pages, new" if share == "all pages" else f"{share} %",
            cells.spread(r.figures(f"{part}-ours", share)), cells.seconds(batch),
            cells.times(r.ratio(f"{part}-spark", "batch", f"{part}-ours", share)),
            *([cells.middle(r.figures("words-pathway", share))] if pathway else []),
        ])  # fmt: skip
    head = ["changes", "ours", "Spark, everything", "Spark / ours", *["Pathway"] * pathway]
    return _table(head, rows)


def _chart(r: Results, part: str, title: str) -> Chart | None:
    shares = list(r.sizes.shares)
    batch = r.median(f"{part}-spark", "batch")
    lines = {
        "ours": [r.median(f"{part}-ours", f"{share:g}") for share in shares],
        "Spark": [batch for _ in shares],
    }
    series = [Series(name, values) for name, values in lines.items() if None not in values]
    if len(shares) < 2 or not series:
        return None
    names = [f"{share:g}" for share in shares]
    what = f"Until the results are there, {title}"
    return Chart("lines", what, "s", names, series, True, shares, "percent of the pages")


def _clustering(r: Results) -> Table | None:
    case = "clustering"
    return _table(["items", "iterations", "ours", "MLlib", "MLlib / ours"], (
        [
            f"{n:,}", cells.number(r.median(case, f"{n} iterations")),
            cells.seconds(r.median(case, f"{n}")), cells.seconds(r.median(case, f"mllib {n}")),
            cells.times(r.ratio(case, f"mllib {n}", case, f"{n}")),
        ]
        for n in r.sizes.items
    ))  # fmt: skip
