"""The suite's document: time against edges, partitions and changes, and what things cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from benchmarks import cells
from benchmarks.document import Chart, Document, Section, Series, Table
from benchmarks.scaling.context import PROGRAMS
from benchmarks.scaling.fit import power
from benchmarks.scaling.results import Points, Results
from benchmarks.scaling.unit_costs import section as unit_costs

__all__ = ["document"]

TITLES = {
    "pagerank": "PageRank, 10 iterations",
    "components": "components",
    "shortest_paths": "shortest paths",
}
PLACES = {
    "local-1": "1 core",
    "local-2": "2 cores",
    "cluster-1": "1 executor",
    "cluster-2": "2 executors",
}

_TIMES = ("seconds", "kernel")


def document(r: Results) -> Document:
    """Everything that the run has to say."""
    sections = [*_edges(r), *_partitions(r), *_changes(r)]
    if costs := unit_costs(r):
        sections.append(costs)
    problems = "\n".join(f"- **Not measured:** {problem}" for problem in r.problems())
    if problems:
        sections.insert(0, Section("Not measured", problems))
    return Document(
        suite="scaling",
        title="Suite scaling",
        about=(
            "How the time of ours grows with edges, partitions, executors and changes, and what "
            "single things cost."
        ),
        command=" ".join(["./dev", *r.command]),
        machine=r.machine,
        settings=f"{r.sizes.cores} of {r.machine['cores']} cores used",
        warning=cells.disturbed(r.others(), "during a case"),
        sections=[section for section in sections if section.parts or section.text],
        notes=_notes(r),
    )


def _edges(r: Results) -> Iterator[Section]:
    cases = ("local-1", "local-2")
    every = [r.points(case, f"edges {program} seconds") for case in cases for program in PROGRAMS]
    x = sorted({at for points in every for (at,) in points})
    if not x:
        return
    rows, series = [], []
    for program in PROGRAMS:
        for case in cases:
            name = f"edges {program}"
            points = r.points(case, f"{name} seconds")
            if points:
                said = f"{TITLES[program]}, {PLACES[case]}"
                told = [exponent(*r.medians(case, f"{name} {what}")) for what in _TIMES]
                rows.append([said, *_cells(points, x), *told])
                series.append(Series(said, _medians(points, x)))
    for case in cases:
        points = r.points(case, "edges pagerank load")
        if points:
            said = f"load from Parquet, {PLACES[case]}"
            told = [exponent(*r.medians(case, "edges pagerank load")), "–"]
            rows.append([said, *_cells(points, x), *told])
            series.append(Series(said, _medians(points, x)))
    titles = [f"{edges:,.0f}" for edges in x]
    text = (
        "One partition. Seconds of the whole `run()`: Spark job, iterations, commit to LMDB; the "
        "graph is loaded before. The exponent b is that of *seconds = a · edges^b*, by least "
        "squares in logarithms of both, ± its standard error: 1 is linear; below 1, fixed costs "
        "still weigh. The last column has it for the time in tasks alone, without Spark's."
    )
    head = ["edges", *titles, "exponent", "exponent, in tasks"]
    chart = Chart(
        "lines", "Time against edges", "s", titles, series, log=True, x=x, x_title="edges"
    )
    yield Section("Time against edges", text, [chart, Table(head, rows)])


def exponent(x: list[float], y: list[float]) -> str:
    """That of the power of x which y is, with its standard error; or a dash."""
    try:
        value, error = power(x, y)
    except ValueError:
        return "–"
    return f"{value:.2f}" + ("" if math.isnan(error) else f" ± {error:.2f}")


def _partitions(r: Results) -> Iterator[Section]:
    rows: list[list[str]] = []
    charts: list[Table | Chart] = []
    counts = [float(p) for p in r.sizes.partitions]
    titles = [f"{p:g}" for p in counts]
    for program in PROGRAMS:
        series = []
        for case, place in PLACES.items():
            points = r.points(case, f"partitions {program} seconds")
            if points:
                hops = [r.median_at(case, f"partitions {program} hops", p) for p in counts]
                told = " / ".join("–" if h is None else f"{h:.0f}" for h in hops)
                rows.append([f"{TITLES[program]}, {place}", *_cells(points, counts), told])
                series.append(Series(place, _medians(points, counts)))
        if series:
            title = f"{TITLES[program]} against partitions"
            charts.append(
                Chart("lines", title, "s", titles, series, log=True, x=counts,
                      x_title="partitions")
            )  # fmt: skip
    if rows:
        text = (
            f"R-MAT {r.sizes.scale}. Cores are those of one process (`local[n]`); each executor is "
            "a process with one core (`local-cluster[n,1,...]`), so that one executor beside one "
            "core shows what a cluster costs, and two executors beside two cores the same. With "
            "one partition all cores work inside it; every further one adds hops in which Spark "
            "runs a task for it and moves its messages, so on one machine one partition is least."
        )
        head = ["seconds of run(), by partitions", *titles, "hops"]
        yield Section("Time against partitions", text, [*charts, Table(head, rows)])


def _changes(r: Results) -> Iterator[Section]:
    rows: list[list[str]] = []
    series: list[Series] = []
    x = [float(count) for count in r.sizes.changes]
    for program in PROGRAMS:
        points = r.points("changes", f"query {program}")
        if points:
            said = TITLES[program].split(",")[0]
            series.append(Series(said, _medians(points, x)))
            told = exponent(*r.medians("changes", f"query {program}"))
            rows.append([f"query: {said}", *_cells(points, x), told])
            updates = _medians(r.points("changes", f"updates {program}"), x)
            counts = map(cells.number, updates)
            rows.append([f"updates of vertices: {said}", *counts, "–"])
    taken = r.points("changes", f"ingest {next(iter(PROGRAMS))}")
    if taken:
        rows.append(["taking them in, durably", *_cells(taken, x), "–"])
    if rows:
        text = (
            f"R-MAT {r.sizes.scale} without parallel edges, one partition; half of the changes "
            "remove an edge, half add one. Seconds of `query()`, exact after so many changes since "
            "the one before; the main loop does nothing between queries. PageRank to 1e-6 (L1)."
        )
        titles = [f"{count:,.0f}" for count in x]
        chart = Chart(
            "lines", "Time of a query against changes", "s", titles, series, log=True, x=x,
            x_title="changes",
        )  # fmt: skip
        table = Table(["changes since the query before", *titles, "exponent"], rows)
        yield Section("Time against changes", text, [chart, table])


def _cells(points: Points, x: Sequence[float]) -> list[str]:
    return [_cell(points.get((at,), [])) for at in x]


def _medians(points: Points, x: Sequence[float]) -> list[float | None]:
    return [statistics.median(points[(at,)]) if (at,) in points else None for at in x]


def _cell(found: list[float]) -> str:
    return f"**{cells.seconds(found[0])}**" if len(found) == 1 else cells.spread(found)


def _notes(r: Results) -> list[str]:
    return [
        "A cell is the median (runs, least to greatest); each case ran in processes of its own, "
        "with kernels and workers warm.",
        "Every distance and component is compared with the plainest code there is, and has to be "
        "exactly that; PageRank to 1e-9 relative L1, after changes to the error that its epsilon "
        "leaves. A case with a wrong answer has no figures, and the exit status is 1.",
    ]
