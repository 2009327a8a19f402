"""What the suite found, as Markdown and JSON."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from benchmarks import report
from benchmarks.evolving import aims
from benchmarks.evolving.results import TITLES, Results, ratio

_QUERIES = {
    "a-shortest_paths": "shortest_paths",
    "a-components": "components",
    "b-pagerank": "pagerank",
}


def save(results: Results, out: Path) -> list[Path]:
    """Write ``evolving-r-mat-SCALE-DATE.md`` and ``.json``; returns the two paths."""
    out.mkdir(parents=True, exist_ok=True)
    stem = f"evolving-r-mat-{results.sizes.scale}-{str(results.machine['date'])[:10]}"
    paths = [out / f"{stem}{end}" for end in (".md", ".json")]
    paths[0].write_text(markdown(results))
    paths[1].write_text(json.dumps(results.plain(), indent=1) + "\n")
    return paths


def markdown(r: Results) -> str:
    """The whole report as Markdown."""
    parts = [
        "# Suite evolving",
        report.where(r.machine, r.command, r.sizes.cores),
        report.disturbed(r.others(), "during a measure"),
    ]
    parts += [_graph(r), _problems(r), aims.table(r)]
    for title, text in (
        (f"Queries after {r.sizes.changes:,} changes each", _queries(r)),
        ("From scratch at one of these instants", _scratch(r)),
        ("Queries after a share of the edges has arrived", _arriving(r)),
        ("Ingest", _ingest(r)),
        ("Single changes", _singles(r)),
    ):
        parts += [f"## {title}", text] if text else []
    parts += ["## Notes", _notes(r)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _graph(r: Results) -> str:
    case = next((case for case in r.cases.values() if case.edges), None)
    if case is None:
        return ""
    return (
        f"R-MAT {r.sizes.scale} without parallel edges, {case.edges:,} edges, values 1..100; "
        f"paths start at {case.origin}, the vertex with the most out-edges. Half of the changes "
        "remove an edge that is there, half add one, drawn as the graph was. One partition, LMDB."
    )


def _problems(r: Results) -> str:
    lines = [f"- **Not measured:** {problem}" for problem in r.problems()]
    for case in _QUERIES:
        many = len(r.figures(case, "query"))
        if 0 < many < r.sizes.queries:
            lines.append(f"- **Fewer queries than asked for:** {case}, {many}; its time was over.")
    return "\n".join(lines)


def _queries(r: Results) -> str:
    rows = [["", "query", "99 %", "most", "ingest", "touched", "iterations", "begun"]]
    for case, program in _QUERIES.items():
        found = r.figures(case, "query")
        if not found:
            continue
        starts = [f"{n.removeprefix('start ')} {len(r.figures(case, n))}" for n in _starts(r, case)]
        rows.append([
            TITLES[program],
            f"**{report.seconds(r.median(case, 'query') or 0)}** ({len(found)})",
            report.seconds(r.percentile(case, "query", 0.99) or 0),
            report.seconds(max(found)),
            _seconds(r.median(case, "ingest")),
            _number(r.median(case, "touched")),
            _number(r.median(case, "iterations")),
            ", ".join(starts),
        ])  # fmt: skip
    return report.grid(rows) if len(rows) > 1 else ""


def _starts(r: Results, case: str) -> list[str]:
    return [name for name in r.cases[case].figures if name.startswith("start ")]


def _scratch(r: Results) -> str:
    rows = [["", "query after the changes", "run() from scratch", "GraphX from scratch"]]
    for case, program in _QUERIES.items():
        mine = r.median(case, "query")
        cells = [f"**{report.seconds(mine)}**" if mine else "–"]
        for system in ("ours", "graphx"):
            outcome, found = r.outcome(system, program), r.scratch(system, program)
            if outcome is None or found is None:
                cells.append("–")
                continue
            times = ratio(found, mine)
            text = f"**{report.seconds(found)}** ({len(outcome.seconds)})"
            cells.append(text + (f" {times:.3g}×" if times else ""))
        if cells != ["–"] * 3:
            rows.append([TITLES[program], *cells])
    return f"{r.instant}\n\n{report.grid(rows)}" if r.standings else ""


def _arriving(r: Results) -> str:
    names = ("query", "last batch and query", "all ingest")
    rows = [["", *(f"{how}: {n}" for how in ("approximating", "batch") for n in names)]]
    for program in ("shortest_paths", "pagerank"):
        for share in r.sizes.shares:
            cells = []
            for case in (f"c-{program}", f"c-{program}-batch"):
                many = r.figures(case, f"query {share:g}")
                middle = _seconds(r.median(case, f"query {share:g}"))
                cells.append(f"**{middle}** ({len(many)})" if many else "–")
                cells += [_seconds(r.median(case, f"{n} {share:g}")) for n in ("last", "ingest")]
            if set(cells) != {"–"}:
                rows.append([f"{TITLES[program]}, {share:.0%}", *cells])
    return report.grid(rows) if len(rows) > 1 else ""


def _ingest(r: Results) -> str:
    rows = [["", "changes per second, all", "slowest batch", "fastest batch", "batches"]]
    for case, name, title in (
        ("d-shortest_paths", "rate", "shortest paths kept up"),
        ("f-shortest_paths", "alone", "the same, in turns with"),
        ("f-shortest_paths", "forked", "a branch forked every second"),
    ):
        found, rate = r.figures(case, name), r.rate(case, name)
        if rate is not None:
            all_of_it = f"**{rate:,.0f}**"
            rows.append(
                [title, all_of_it, f"{min(found):,.0f}", f"{max(found):,.0f}", f"{len(found)}"]
            )
    if len(rows) == 1:
        return ""
    text, branches = report.grid(rows), r.figures("f-shortest_paths", "branch")
    if branches:
        middle = report.seconds(r.median("f-shortest_paths", "branch") or 0)
        text += f"\n\n{len(branches)} branches; from fork to answer, median: {middle} s."
    return text


def _singles(r: Results) -> str:
    case = "e-shortest_paths"
    found = r.figures(case, "touched")
    if not found:
        return ""
    added, removed = (len(r.figures(case, name)) for name in ("added", "removed"))
    cells = [f"{r.percentile(case, 'touched', share):,.0f}" for share in (0.5, 0.9, 0.99)]
    some = [count for count in found if count]
    head = ["vertices touched: median", "90 %", "99 %", "most", "query, median"]
    row = [f"**{cells[0]}**", *cells[1:], f"{max(found):,.0f}", _seconds(r.median(case, "query"))]
    told = (
        f"{len(found)} changes, {added} of them add an edge, {removed} remove one. "
        f"{len(some)} touch any vertex"
    )
    told += f"; of those the median is {statistics.median(some):,.0f}." if some else "."
    return f"{report.grid([head, row])}\n\n{told}"


def _notes(r: Results) -> str:
    s = r.sizes
    lines = [
        "- Times are seconds: medians, (how many). A percentile is by nearest rank. Each case ran "
        "in a process of its own, one after another, first some rounds which are not counted.",
        "- Answers are compared with the plainest code there is, on the edges of that instant: "
        "after the first query that counts and after the last one, or the last one of the case. "
        "Distances and components exactly, PageRank to the error that its epsilon leaves. A case "
        "with a wrong answer has no times.",
        "- Query: the whole call `main.query()`, from the fork to the exact answer committed. "
        "Where queries follow every so many changes the main loop does nothing between, so all "
        "the work is in the query.",
        f"- Shares of the edges arrive in batches of at most {s.batch:,} changes. As a batch is "
        f"ingested the main loop approximates, up to {s.batch_seconds:g} s, or, under *batch*, not "
        "at all (figure 5 of the paper). *Last batch and query*: from the arrival of the last "
        "changes to the answer.",
        "- Sustained ingest: each batch is taken in, approximated until nothing moves, and "
        "committed, before the next one. The changes are made before the clock runs.",
    ]  # fmt: skip
    for standing in r.standings.values():
        lines.append(f"- {standing.title}: {standing.about}")
    return "\n".join(lines)


def _seconds(value: float | None) -> str:
    return "–" if value is None else report.seconds(value)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
