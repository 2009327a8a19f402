"""What the suite found, as a document; what stands beside it is in `beside_table`."""

from __future__ import annotations

from benchmarks import cells
from benchmarks.document import Chart, Document, Section, Series, Table
from benchmarks.evolving import beside_table, ingest_table, targets
from benchmarks.evolving.results import TITLES, Results, ratio

_QUERIES = {
    "a-shortest_paths": "shortest_paths",
    "a-components": "components",
    "b-pagerank": "pagerank",
}


def stem(r: Results) -> str:
    """The beginning of the names of its files."""
    graph = r.graph.lower().replace(" ", "-")
    return f"evolving-{graph.rpartition('.')[0] or graph}"


def document(r: Results) -> Document:
    """All that the run says."""
    judged = targets.table(r)
    sections = [Section("Aims", "", [judged] if judged else [])]
    sections += [
        Section(f"Queries after {r.sizes.changes:,} changes each", "", _queries(r)),
        Section("From scratch at one of these instants", r.instant, _scratch(r)),
        Section("Queries after a share of the edges has arrived", "", _arriving(r)),
        *beside_table.sections(r),
        Section("Ingest", ingest_table.branches(r), ingest_table.ingest(r)),
        Section("Single changes", ingest_table.said_of_singles(r), ingest_table.singles(r)),
    ]
    text = "\n\n".join(filter(None, (_graph(r).strip(), _problems(r))))
    return Document(
        suite="evolving",
        title="Suite evolving",
        about="Exact answers about a graph that changes: ours, others that keep an answer up, and "
        "others from scratch.",
        command=f"./dev {' '.join(r.command)}",
        machine=r.machine,
        settings=f"{r.sizes.cores} of {r.machine['cores']} cores used",
        warning=cells.disturbed(r.others(), "during a measure"),
        sections=[Section("The graph", text), *(one for one in sections if one.parts)],
        notes=ingest_table.notes(r),
    )


def _graph(r: Results) -> str:
    case = next((case for case in r.cases.values() if case.edges), None)
    if case is None:
        return ""
    if r.sizes.edges_file:
        return (
            f"{r.files} Of lines with the same ends the last one counts. Paths start at "
            f"{case.origin}, the vertex with the most out-edges. One partition, LMDB.\n"
        )
    return (
        f"R-MAT {r.sizes.scale} without parallel edges, {case.edges:,} edges, values 1..100; "
        f"paths start at {case.origin}, the vertex with the most out-edges. Half of the changes "
        "remove an edge that is there, half add one, drawn as the graph was. One partition, LMDB.\n"
    )


def _problems(r: Results) -> str:
    lines = [f"- **Not measured:** {problem}" for problem in r.problems()]
    for one in r.beside.values():
        lines += [
            f"- **Not tried:** {one.title}, {case}: {why}" for case, why in one.untried.items()
        ]
    for case in _QUERIES:
        many = len(r.figures(case, "query"))
        if 0 < many < r.sizes.queries:
            lines.append(f"- **Fewer queries than asked for:** {case}, {many}; its time was over.")
    return "\n".join(lines)


def _queries(r: Results) -> list[Table | Chart]:
    head = ["", "query", "99 %", "most", "ingest", "touched", "iterations", "begun"]
    rows = []
    for case, program in _QUERIES.items():
        found = r.figures(case, "query")
        if not found:
            continue
        starts = [f"{n.removeprefix('start ')} {len(r.figures(case, n))}" for n in _starts(r, case)]
        rows.append([
            TITLES[program],
            cells.middle(found),
            cells.seconds(r.percentile(case, "query", 0.99)),
            cells.seconds(max(found)),
            cells.seconds(r.median(case, "ingest")),
            cells.number(r.median(case, "touched")),
            cells.number(r.median(case, "iterations")),
            ", ".join(starts),
        ])  # fmt: skip
    return [Table(head, rows)] if rows else []


def _starts(r: Results, case: str) -> list[str]:
    return [name for name in r.cases[case].figures if name.startswith("start ")]


def _scratch(r: Results) -> list[Table | Chart]:
    there = {name: s for name, s in r.standings.items() if s.outcomes}
    head = ["", "query after the changes", *(s.title for s in there.values())]
    rows: list[list[str]] = []
    bars: dict[str, list[float | None]] = {title: [] for title in ["ours, query", *head[2:]]}
    names: list[str] = []
    for case, program in _QUERIES.items():
        mine = r.median(case, "query")
        row = [f"**{cells.seconds(mine)}**" if mine else "–"]
        for system in there:
            outcome, found = r.outcome(system, program), r.scratch(system, program)
            if outcome is None or found is None:
                row.append("–")
                continue
            times = ratio(found, mine)
            text = f"**{cells.seconds(found)}** ({len(outcome.seconds)})"
            row.append(text + (f" {times:.3g}×" if times else ""))
        if set(row) != {"–"}:
            rows.append([TITLES[program], *row])
            names.append(TITLES[program])
            values = [mine, *(r.scratch(system, program) for system in there)]
            for bar, value in zip(bars.values(), values, strict=True):
                bar.append(value)
    if not rows or not there:
        return []
    series = [Series(title, values) for title, values in bars.items()]
    title = "Seconds to the answer after 1,000 changes" if r.sizes.changes == 1000 else "Seconds"
    return [Table(head, rows), Chart("bars", title, "s", names, series, log=True)]


def _arriving(r: Results) -> list[Table | Chart]:
    names = ("query", "last batch and query", "all ingest")
    head = ["", *(f"{how}: {n}" for how in ("approximating", "batch") for n in names)]
    rows = []
    for program in ("shortest_paths", "pagerank"):
        for share in r.sizes.shares:
            row = []
            for case in (f"c-{program}", f"c-{program}-batch"):
                row.append(cells.middle(r.figures(case, f"query {share:g}")))
                row += [cells.seconds(r.median(case, f"{n} {share:g}")) for n in ("last", "ingest")]
            if set(row) != {"–"}:
                rows.append([f"{TITLES[program]}, {share:.0%}", *row])
    return [Table(head, rows), *beside_table.shares(r)] if rows else []
