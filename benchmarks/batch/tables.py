"""The tables of the suite ``batch`` about one graph: seconds, edges per second, memory, aims."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.batch import charts, targets
from benchmarks.batch.results import OURS, Run, median
from benchmarks.batch.runner import MeasureResult, SystemResult
from benchmarks.cells import QUIET, seconds, spread
from benchmarks.document import Chart, Table
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME, MEASURES, Measure


def graph(graph: BenchGraph, standings: list[SystemResult]) -> str:
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
        *charts.of_measures(there, rows),
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
