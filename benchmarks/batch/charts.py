"""The charts of the suite ``batch``, and the table of time per edge that says the same as one."""

from __future__ import annotations

from benchmarks.batch import targets
from benchmarks.batch.results import Run, median
from benchmarks.batch.runner import SystemResult
from benchmarks.cells import seconds
from benchmarks.document import Chart, Series, Table
from benchmarks.measures import MEASURES, Measure


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
