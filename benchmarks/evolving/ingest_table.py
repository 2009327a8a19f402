"""How fast changes are taken in, what single ones touch; and how all was measured."""

from __future__ import annotations

import statistics

from benchmarks import cells
from benchmarks.document import Chart, Series, Table
from benchmarks.evolving import beside_table
from benchmarks.evolving.results import Results


def ingest(r: Results) -> list[Table | Chart]:
    """Of parts d and f."""
    head = ["", "changes per second, all", "slowest batch", "fastest batch", "batches"]
    rows: list[list[str]] = []
    rates: list[float | None] = []
    for case, name, title in (
        ("d-shortest_paths", "rate", "shortest paths kept up"),
        ("f-shortest_paths", "alone", "the same, in turns with"),
        ("f-shortest_paths", "forked", "a branch forked every second"),
    ):
        found, rate = r.figures(case, name), r.rate(case, name)
        if rate is not None:
            rates.append(rate)
            all_of_it = f"**{rate:,.0f}**"
            rows.append(
                [title, all_of_it, f"{min(found):,.0f}", f"{max(found):,.0f}", f"{len(found)}"]
            )
    if not rows:
        return []
    bars = [Series("changes per second", rates)]
    chart = Chart(
        "bars", "Changes taken in per second", "changes/s", [row[0] for row in rows], bars
    )
    return [Table(head, rows), chart]


def branches(r: Results) -> str:
    """How long the forks took that were asked meanwhile."""
    found = r.figures("f-shortest_paths", "branch")
    middle = cells.seconds(r.median("f-shortest_paths", "branch"))
    told = f"{len(found)} branches; from fork to answer, median: {middle} s."
    return told if found else ""


def singles(r: Results) -> list[Table | Chart]:
    """Of part e."""
    case = "e-shortest_paths"
    found = r.figures(case, "touched")
    if not found:
        return []
    touched = [f"{r.percentile(case, 'touched', share):,.0f}" for share in (0.5, 0.9, 0.99)]
    head = ["vertices touched: median", "90 %", "99 %", "most", "query, median"]
    row = [
        f"**{touched[0]}**",
        *touched[1:],
        f"{max(found):,.0f}",
        cells.seconds(r.median(case, "query")),
    ]
    return [Table(head, [row])]


def said_of_singles(r: Results) -> str:
    """How many of the single changes touch anything."""
    case = "e-shortest_paths"
    found = r.figures(case, "touched")
    if not found:
        return ""
    added, removed = (len(r.figures(case, name)) for name in ("added", "removed"))
    some = [count for count in found if count]
    told = (
        f"{len(found)} changes, {added} of them add an edge, {removed} remove one. "
        f"{len(some)} touch any vertex"
    )
    told += f"; of those the median is {statistics.median(some):,.0f}." if some else "."
    return told


def notes(r: Results) -> list[str]:
    """How everything was measured."""
    s = r.sizes
    lines = [
        "Times are seconds: medians, (how many). A percentile is by nearest rank. Each case ran "
        "in a process of its own, one after another, first some rounds which are not counted.",
        "Answers are compared with the plainest code there is, on the edges of that instant: "
        "after the first query that counts and after the last one, or the last one of the case. "
        "Distances and components exactly, PageRank to the error that its epsilon leaves. A case "
        "with a wrong answer has no times.",
        "Query: the whole call `main.query()`, from the fork to the exact answer committed. "
        "Where queries follow every so many changes the main loop does nothing between, so all "
        "the work is in the query.",
        f"Shares of the edges arrive in batches of at most {s.batch:,} changes, and of a hundredth "
        "of the edges. As a batch is ingested the main loop approximates, up to "
        f"{s.batch_seconds:g} s, or, under *batch*, not at all (figure 5 of the paper). *Last "
        "batch and query*: from the arrival of the last changes to the answer.",
        "Sustained ingest: each batch is taken in, approximated until nothing moves, and "
        "committed, before the next one. The changes are made before the clock runs.",
    ]  # fmt: skip
    every = {s.title: s for s in [*r.standings.values(), *r.from_scratch()]}
    lines += [f"{title}: {s.about}" for title, s in every.items() if not s.unavailable]
    return [*lines, *beside_table.notes(r)]
