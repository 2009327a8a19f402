"""A run of the suite ``batch`` as a `Document`: a section for each graph, notes on each system."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from benchmarks.batch import targets
from benchmarks.batch.results import OURS, Run, median
from benchmarks.batch.runner import MeasureResult, SystemResult
from benchmarks.cells import QUIET, seconds, spread
from benchmarks.document import Chart, Document, Section, Series, Table
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME, MEASURES, Measure


def of_measures(there: list[SystemResult], rows: list[Measure]) -> list[Chart]:
    """For each measure a bar of seconds for every system that has it."""
    charts = []
    for measure in rows:
        found = [(s.title, median(s.outcomes.get(measure.name))) for s in there]
        known = [(title, value) for title, value in found if value is not None]
        if known:
            titles, values = [title for title, _ in known], [value for _, value in known]
            series = [Series("seconds", list(values))]
            charts.append(Chart("bars", measure.title, "s", titles, series, log=True))
    return charts


def against_edges(run: Run) -> list[Table | Chart]:
    """Of each measure a chart of seconds against edges, and a table of time per edge."""
    graphs = [graph for graph, _ in run.results]
    names = [graph.name for graph in graphs]
    edges = [float(graph.edges) for graph in graphs]
    rows: list[list[str]] = []
    charts: list[Table | Chart] = []
    for measure in MEASURES:
        if measure.name in targets.OWN:
            continue
        lines = [line for line in _lines(run, measure) if any(v is not None for v in line.values)]
        for line in lines:
            each = [None if v is None else v / m for v, m in zip(line.values, edges, strict=True)]
            known = [v for v in each if v is not None]
            cells = [
                "–" if v is None else f"{seconds(v)} ({v / m * 1e9:.3g})"
                for v, m in zip(line.values, edges, strict=True)
            ]
            flat = f"{max(known) / min(known):.2f}"
            rows.append([f"{measure.title}: {line.name}", *cells, flat])
        if lines:
            charts.append(
                Chart("lines", measure.title, "s", names, lines, True, edges, "edges of the graph")
            )
    table = Table(
        ["", *names, "most / least"],
        rows,
        "Seconds (nanoseconds per edge)",
        "Most / least: of the nanoseconds per edge.",
    )
    return [table, *charts]


def _lines(run: Run, measure: Measure) -> list[Series]:
    """A line for every system: its median seconds on each graph."""
    everyone = [s for _, found in run.results for s in found if s.unavailable is None]
    systems = {s.system: s.title for s in everyone}
    lines = []
    for system, title in systems.items():
        mine = [next((s for s in found if s.system == system), None) for _, found in run.results]
        values = [median(s.outcomes.get(measure.name)) if s else None for s in mine]
        lines.append(Series(title, values))
    return lines


def _facts(graph: BenchGraph, standings: list[SystemResult]) -> str:
    """What the graph is, and which systems are not there."""
    text = (
        f"{graph.vertices:,} vertices (ids with an edge), {graph.edges:,} edges: "
        f"{graph.duplicates:,} duplicates and {graph.self_loops:,} self-loops are kept by every "
        f"system. Values are {graph.values}. Paths start at {graph.origin}, the vertex with the "
        "most out-edges."
    )
    missing = [f"- {s.title}: not available: {s.unavailable}" for s in standings if s.unavailable]
    return "\n\n".join([text, "\n".join(missing)]) if missing else text


def parts(run: Run, k: int) -> list[Table | Chart]:
    """All tables and charts about the graph of the run's ``k``-th result."""
    graph, standings = list(run.every())[k]
    there = [s for s in standings if s.unavailable is None]
    if not there:
        return []
    rows = list(_measured(there))
    tables = [
        _seconds(there, rows),
        *of_measures(there, rows),
        _rates(graph, there, rows),
        _memory(graph, there),
        _prepared(there),
        targets.table(graph, standings),
        targets.beside_limits(graph, standings, run.limits["cores"]),
    ]
    return [each for each in tables if isinstance(each, Chart) or (each and each.rows)]


def _measured(there: list[SystemResult]) -> Iterator[Measure]:
    for measure in MEASURES:
        if measure.name not in targets.OWN and any(measure.name in s.outcomes for s in there):
            yield measure


def _table(
    title: str,
    note: str,
    there: list[SystemResult],
    rows: list[Measure],
    cell: Callable[[SystemResult, Measure], str],
) -> Table:
    body = [[measure.title, *(cell(s, measure) for s in there)] for measure in rows]
    return Table(["", *(s.title for s in there)], body, title, note)


def _seconds(there: list[SystemResult], rows: list[Measure]) -> Table:
    ours = next((s for s in there if s.system == OURS), None)

    def cell(s: SystemResult, measure: Measure) -> str:
        outcome = s.outcomes.get(measure.name)
        mine = median(ours.outcomes.get(measure.name)) if ours else None
        return _cell(outcome, mine if s is not ours else None)

    note = (
        "Median in seconds (runs, least to greatest), and how many times that of ours with one "
        "partition."
    )
    return _table("Seconds", note, there, rows, cell)


def _cell(outcome: MeasureResult | None, mine: float | None) -> str:
    if outcome is None:
        return "–"
    if outcome.problem:
        return outcome.problem.replace("|", "/")
    text = spread(outcome.seconds)
    if mine:
        text += f" {(median(outcome) or 0.0) / mine:.3g}×"
    # A ratio of times that were taken beside different loads says nothing.
    return f"{text} ⚠ {outcome.others:.0%}" if outcome.others > QUIET else text


def _rates(graph: BenchGraph, there: list[SystemResult], rows: list[Measure]) -> Table:
    def cell(s: SystemResult, measure: Measure) -> str:
        middle = median(s.outcomes.get(measure.name))
        if not middle:
            return "–"
        each = (graph.edges, graph.edges + graph.vertices)
        return " / ".join(f"{number / middle / 1e6:.3g}" for number in each)

    note = (
        "The graph's edges over the median seconds / its edges and vertices over them: EPS and "
        "EVPS of LDBC Graphalytics, which counts the graph once, however many iterations there are."
    )
    return _table("Processed per second, in millions", note, there, rows, cell)


def _memory(graph: BenchGraph, there: list[SystemResult]) -> Table:
    rows = [
        [s.title, f"{s.peak / 2**30:.2f}", f"{s.peak / graph.edges:,.0f}"] for s in there if s.peak
    ]
    note = "Resident memory of all processes of the system together, its largest sum."
    return Table(["", "GiB", "bytes per edge"], rows, "Memory at the peak", note)


def _prepared(there: list[SystemResult]) -> Table:
    rows = []
    for s in there:
        for name, outcome in s.outcomes.items():
            made = f"{seconds(outcome.prepared)}" if outcome.prepared > 0.01 else ""
            phases = {k[6:]: v for k, v in outcome.facts.items() if k.startswith("phase ")}
            told = ", ".join(f"{k} {seconds(v)}" for k, v in phases.items() if v >= 0.001)
            if made or told:
                rows.append([f"{s.title}: {BY_NAME[name].title}", made or "–", told or "–"])
    return Table(
        ["", "made ready before the clock, once", "parts of the last run"],
        rows,
        "Seconds besides, and inside",
    )


def notes(run: Run) -> list[str]:
    """How it was measured, and each system's own words."""
    lines = [
        "Every system ran alone in processes of its own, first all measures on R-MAT 8 untimed, "
        "then on this graph. A time is shown only if the answer equals the reference: PageRank to "
        "1e-9 relative L1, coefficients to 1e-9, all others exactly.",
        "PageRank: damping 0.85, from 1/n, the rank of vertices without out-edges spread evenly. "
        "Community detection: in each iteration the most frequent label at the other ends of a "
        "vertex's edges, the least of several; duplicates count. Local clustering coefficient: of "
        "the directed graph without duplicates and self-loops, or where a system's is for "
        "undirected graphs, of that graph; the triangles to be found are the same.",
    ]
    lines += [
        f"{measure.title}: on graphs of up to {measure.most_edges:,} edges."
        for measure in MEASURES
        if measure.most_edges is not None
    ]
    for title, s in {s.title: s for s in run.standings()}.items():
        versions = ", ".join(f"{name} {version}" for name, version in s.versions.items())
        lines.append(f"{title}{f' ({versions})' if versions else ''}: {s.about}")
    return lines


def plain(run: Run) -> dict[str, Any]:
    """The figures, for JSON."""

    def graph_facts(graph: BenchGraph) -> dict[str, Any]:
        return {k: v for k, v in asdict(graph).items() if k != "folder"}

    return {
        "limits": run.limits,
        "results": [
            {"graph": graph_facts(graph), "systems": [asdict(s) for s in standings]}
            for graph, standings in run.every()
        ],
    }


def of_run(run: Run) -> Document:
    """All that the run says."""
    cores = run.limits["cores"]
    sections = [
        Section(graph.name, _facts(graph, standings), parts(run, k))
        for k, (graph, standings) in enumerate(run.every())
    ]
    if run.small:
        asked = ", ".join(graph.name for graph, _ in run.results)
        sections[-1].title += f", for what takes too long on {asked}"
    if len(run.results) > 1:
        sections.append(Section("Time against edges", parts=against_edges(run)))
    return Document(
        "batch",
        f"The whole answer, from scratch: {', '.join(graph.name for graph, _ in run.results)}",
        "A graph that does not change, from its file to the answers, by every system in turn: the "
        "six algorithms of LDBC Graphalytics, loading and memory.",
        f"./dev {' '.join(run.command)}",
        run.machine,
        f"{cores} of {run.machine['cores']} cores used",
        _disturbed(run),
        sections,
        notes(run),
    )


def _disturbed(run: Run) -> str:
    every = [outcome for outcome in run.outcomes() if outcome.seconds]
    loud = [o.others for o in every if o.others > QUIET]
    if not loud:
        return ""
    return (
        f"**Not to be quoted: the machine was not quiet.** During {len(loud)} of {len(every)} "
        f"measures other programs used more than {QUIET:.0%} of its cores, up to {max(loud):.0%}; "
        "these are marked ⚠ with that share. Times, ratios and whether an aim was reached hold "
        "for this load only, and the load was not the same for every system."
    )
