"""Suite ``triggers``: triggers on tables that change, beside batch jobs on all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks import cells
from benchmarks.case_process import CaseProcess
from benchmarks.document import Chart, Series, Table
from benchmarks.runner import SuiteResults
from benchmarks.suite import CaseSuite, Parts, filled
from benchmarks.targets import Target, median
from benchmarks.triggers import accumulations, clustering, ranks, words, writes
from benchmarks.triggers.accumulations import ALGEBRAS, SCHEDULES
from benchmarks.triggers.programs import DIMENSIONS
from benchmarks.triggers.ranks import TOLERANCE
from benchmarks.triggers.sizes import Sizes
from benchmarks.triggers.writes import KINDS

CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "writes-memory": partial(writes.writes, backend="memory://bench"),
    "writes-lmdb": writes.writes,
    "preemption": accumulations.preemption,
    "reuse": accumulations.reuse,
    "words-ours": words.words,
    "words-spark": words.words_by_spark,
    "words-pathway": words.words_by_pathway,
    "pagerank-ours": ranks.ranks,
    "pagerank-spark": ranks.ranks_by_spark,
    "clustering": clustering.clustering,
}


STORES = {"writes-memory": "memory", "writes-lmdb": "LMDB"}
BATCH_JOBS = {"words": "word count", "pagerank": "PageRank"}
_AIM = 1.0  # percent of the pages that change


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def faster(self, part: str, percent: float) -> float | None:
        """How many times as fast as the batch job, if so much changes."""
        return self.ratio(f"{part}-spark", "batch", f"{part}-ours", f"{percent:g}")

    def crossover(self, part: str) -> str:
        """The percent of changes from which on the batch job is faster, in words."""
        measured = [(p, self.faster(part, p)) for p in self.sizes.shares]
        there = [(p, ratio) for p, ratio in measured if ratio is not None]
        if not there:
            return "–"
        slower = next((k for k, (_, ratio) in enumerate(there) if ratio < 1), None)
        if slower is None:
            return f"above {there[-1][0]:g} %"
        if not slower:
            return f"below {there[0][0]:g} %"
        (low, above), (high, below) = there[slower - 1 : slower + 1]
        part_of_way = math.log(above) / math.log(above / below)  # straight, by logarithms of both
        return f"{low * (high / low) ** part_of_way:.2g} %"

    def clustering(self) -> float | None:
        """MLlib's seconds to ours, the least of all numbers of items; None where one is missing."""
        ratios = [
            self.ratio("clustering", f"mllib {n}", "clustering", f"{n}") for n in self.sizes.items
        ]
        there = [ratio for ratio in ratios if ratio is not None]
        return min(there) if len(there) == len(ratios) else None


def _targets() -> Iterator[Target[Results]]:
    for case, store in STORES.items():
        for kind, what, bound in (
            ("silent", "a trigger that does not run", 0.97), ("+1", "a +1 for each", 0.88)
        ):  # fmt: skip
            title = f"writes with {what}, {store}"
            yield Target(title, median(case, f"{kind} kept"), bound, "×", True, "no triggers")
    for part, title in BATCH_JOBS.items():
        measure = partial(Results.faster, part=part, percent=_AIM)
        yield Target(f"{title}, {_AIM:g} % changes", measure, 20.0, "×", True, "Spark")
    title = "clustering, least of all numbers of items"
    yield Target(title, Results.clustering, 1.0, "×", True, "MLlib")


def _shown(r: Results) -> Iterator[list[str]]:
    for part, title in BATCH_JOBS.items():
        if (where := r.crossover(part)) != "–":
            yield [f"{title}: the batch job is faster from", "Spark", where, "–", "shown"]
    title = f"{BATCH_JOBS['words']}, {_AIM:g} % changes"
    if r.figures("words-pathway", "not installed"):
        yield [title, "Pathway", "not installed", "–", "shown"]
    elif value := r.ratio("words-pathway", f"{_AIM:g}", "words-ours"):
        yield [title, "Pathway", cells.times(value), "–", "shown"]


_KINDS = {"none": "no trigger", "silent": "one that does not run", "+1": "a +1 for each write"}


def _sections(r: Results) -> list[tuple[str, Parts]]:
    return [
        ("Writes", [_writes(r)]),
        ("Preemption", [_preemption(r)]),
        ("Reuse of results", [_reuse(r)]),
        *((title[0].upper() + title[1:], [_changes(r, part), _chart(r, part, title)])
          for part, title in BATCH_JOBS.items()),
        ("Clustering", [_clustering(r)]),
    ]  # fmt: skip


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


def _writes(r: Results) -> Table | None:
    return filled(["", "trigger", "rows/s", "kept"], (
        [
            store, _KINDS[kind], cells.number(r.median(case, kind)),
            cells.times(r.median(case, f"{kind} kept")),
        ]
        for case, store in STORES.items() for kind in KINDS
    ), 2)  # fmt: skip


def _preemption(r: Results) -> Table | None:
    case = "preemption"
    return filled(["links into a page", "schedule", "events", "runs", "seconds"], (
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
    return filled(head, rows, 2)


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
    return filled(head, rows)


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
    return filled(["items", "iterations", "ours", "MLlib", "MLlib / ours"], (
        [
            f"{n:,}", cells.number(r.median(case, f"{n} iterations")),
            cells.seconds(r.median(case, f"{n}")), cells.seconds(r.median(case, f"mllib {n}")),
            cells.times(r.ratio(case, f"mllib {n}", case, f"{n}")),
        ]
        for n in r.sizes.items
    ))  # fmt: skip


SUITE = CaseSuite(
    name="triggers",
    title="Suite triggers: programs over tables that change",
    about="What triggers cost, and how soon their results are those of what has changed, beside "
    "batch jobs on everything.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes, shown=_shown,
    targets=tuple(_targets()),
    stated=("rows", "texts", "pages", "items", "clusters"),
    stem=lambda s: f"triggers-{s.texts}",
    groups={
        group: tuple(case for case in CASES if case.startswith(group))
        for group in ("writes", "words", "pagerank")
    },
    time_limit=3600,
    quick=(
        "--rows", "5000", "--pairs", "3", "--graph", "60", "--degrees", "5,10",
        "--partials", "100,800", "--totals", "20", "--texts", "5000", "--pages", "500",
        "--shares", "0.1,1,10", "--items", "500,1000", "--clusters", "20", "--turns", "1",
    ),  # about two minutes
)  # fmt: skip
