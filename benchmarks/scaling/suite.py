"""Suite ``scaling``: time against edges, partitions, executors and changes; what things cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import cells, graphs
from benchmarks.document import Chart, Series, Table
from benchmarks.evolving.stream import EdgeStream
from benchmarks.programs import ITERATIONS
from benchmarks.runner import SuiteResults
from benchmarks.scaling.cases import CASES, context, needed
from benchmarks.scaling.context import PROGRAMS
from benchmarks.scaling.fit import Fit, least_squares, power
from benchmarks.scaling.sizes import Sizes
from benchmarks.suite import CaseSuite

Points = dict[tuple[float, ...], list[float]]
"""Figures by the numbers that they depend on."""


class Results(SuiteResults[Sizes]):
    """Figures by case, and by the numbers that they depend on."""

    __slots__ = ()

    def points(self, case: str, name: str) -> Points:
        """What a case noted under a name, ascending; nothing beside a wrong answer."""
        found = self.cases.get(case)
        if found is None or found.wrong:
            return {}
        head = f"{name} @"
        points = {
            tuple(float(x) for x in key[len(head) :].split(",")): list(values)
            for key, values in found.figures.items()
            if key.startswith(head)
        }
        return dict(sorted(points.items()))

    def medians(self, case: str, name: str) -> tuple[list[float], list[float]]:
        """The first numbers of such figures, and the median of each."""
        points = self.points(case, name)
        return [x[0] for x in points], [statistics.median(y) for y in points.values()]

    def median_at(self, case: str, name: str, *at: float) -> float | None:
        """None where there is no such figure."""
        found = self.points(case, name).get(at)
        return statistics.median(found) if found else None


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


def _sections(r: Results) -> list[tuple[Any, ...]]:
    return [*_edges(r), *_partitions(r), *_changes(r), *_costs(r)]


def _edges(r: Results) -> Iterator[tuple[Any, ...]]:
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
    yield ("Time against edges", text, [chart, Table(head, rows)])


def exponent(x: list[float], y: list[float]) -> str:
    """That of the power of x which y is, with its standard error; or a dash."""
    try:
        value, error = power(x, y)
    except ValueError:
        return "–"
    return f"{value:.2f}" + ("" if math.isnan(error) else f" ± {error:.2f}")


def _partitions(r: Results) -> Iterator[tuple[Any, ...]]:
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
        yield ("Time against partitions", text, [*charts, Table(head, rows)])


def _changes(r: Results) -> Iterator[tuple[Any, ...]]:
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
        yield ("Time against changes", text, [chart, table])


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


@dataclass(frozen=True, slots=True)
class UnitCost:
    """One cost in seconds or bytes, its standard error, and the experiment that it is from."""

    title: str
    value: float
    error: float
    experiment: str

    @property
    def uncertain(self) -> bool:
        """Whether the standard error is more than half of it."""
        return not self.error <= 0.5 * self.value


def _costs(r: Results) -> Iterator[tuple[Any, ...]]:
    """The table of all costs; nothing where the run had none of these experiments."""
    if not r.cases.keys() & {"costs", "costs-driver"}:
        return
    try:
        costs = list(unit_costs(r))
    except ValueError as error:
        yield ("What things cost", f"Not known: {error}.", [])
        return
    rows = [
        [c.title + (" (*uncertain*)" if c.uncertain else ""), _amount(c), c.experiment]
        for c in costs
    ]
    text = (
        "Each by least squares through an experiment of its own in this run, which changes one "
        "thing; ± is the standard error. Seconds are those of one core where cores work side by "
        "side, else of the clock. *Uncertain*: the standard error is more than half of the cost. "
        "A cost below zero is shown as zero."
    )
    yield ("What things cost", text, [Table(["", "cost", "experiment"], rows)])


def _amount(cost: UnitCost) -> str:
    if "bytes of" in cost.title:
        return f"{cost.value:.3g} ± {cost.error:.1g} B"
    largest = max(cost.value, cost.error) if cost.error > 0 else cost.value
    unit, size = next((u for u in (("ms", 1e-3), ("µs", 1e-6)) if largest >= u[1]), ("ns", 1e-9))
    error = "" if math.isnan(cost.error) else f" ± {cost.error / size:.2g}"
    return f"{cost.value / size:.3g}{error} {unit}"


def unit_costs(r: Results) -> Iterator[UnitCost]:
    """Every cost.

    Raises:
        ValueError: an experiment has too few figures; names it.
    """
    cores = r.sizes.cores
    hop, task, pair = _hops(r, "costs", "hop shuffle")
    tasks = f"hops by the shuffle with 1 to {r.sizes.tasks} tasks that send 8 bytes to each other"
    yield _cost("a hop, whatever it does", hop, tasks)
    yield _cost("a task in an executor", task, tasks, cores)
    yield _cost("a block from one partition to another", pair, tasks, cores)
    _, task, pair = _hops(r, "costs-driver", "driver hop")
    tasks = "processor time of the driver's Python and JVM in such hops on two executors"
    yield _cost("the driver, per task", task, tasks)
    yield _cost("the driver, per pair of partitions", pair, tasks)
    byte = _slope(r, "bytes shuffle")
    message, size = _slope(r, "messages"), _slope(r, "message bytes")
    coded = message[0] - max(size[0], 0.0) * max(byte[0], 0.0)
    runs = "iterations of PageRank on random graphs with more and more edges between two partitions"
    title = "a message: coded, sent and taken in"
    yield _cost(title, (coded, message[1]), f"{runs}; less what its bytes cost", cores)
    yield _cost("bytes of a message", size, runs)
    hops = f"hops of 2 tasks that send up to {r.sizes.megabytes} MiB"
    yield _cost("a byte by the shuffle", byte, hops, cores)
    yield _cost("a byte by the driver", _slope(r, "bytes driver"), hops)
    for store in ("lmdb", "redis"):
        if store == "lmdb" or r.points("costs", f"commit {store}"):
            commit, byte = _line(r, f"commit {store}")
            put = f"states of up to {r.sizes.megabytes} MiB put into {store} and committed"
            yield _cost(f"a commit to {store}", commit, put)
            yield _cost(f"a byte of a commit to {store}", byte, put)
    case, used = ("local-1", 1) if "local-1" in r.cases else ("local-2", cores)
    if case in r.cases:
        scales = f"R-MAT {r.sizes.scales[0]} to {r.sizes.scales[-1]}, one partition, cores: {used}"
        edge = _slope(r, "edges pagerank kernel", case)
        yield _cost("an edge in an iteration of PageRank", edge, scales, used / ITERATIONS)
        load = _slope(r, "edges pagerank load", case)
        yield _cost("an edge loaded from Parquet", load, scales, used)
    graphs = "random graphs of different degree, two partitions"
    for what, bytes_ in zip(("edge", "vertex", "ghost"), _memory(r), strict=True):
        yield _cost(f"bytes of memory for a graph's {what}", bytes_, graphs)


def _cost(title: str, fit: tuple[float, float], experiment: str, by: float = 1) -> UnitCost:
    return UnitCost(title, max(fit[0], 0.0) * by, fit[1] * by, experiment)


def _hops(r: Results, case: str, name: str) -> Fit:
    """Fixed, per task, per pair of tasks; of the least seconds, as noise only adds to a hop."""
    points = {x[0]: min(y) for x, y in r.points(case, name).items()}
    columns = [[1.0] * len(points), list(points), [p * p for p in points]]
    return _fitted(f"{case}: {name}", columns, list(points.values()), relative=True)


def _line(r: Results, name: str, case: str = "costs") -> Fit:
    x, y = r.medians(case, name)
    return _fitted(f"{case}: {name}", [[1.0] * len(x), x], y)


def _slope(r: Results, name: str, case: str = "costs") -> tuple[float, float]:
    return _line(r, name, case)[1]


def _memory(r: Results) -> Fit:
    points = [(x, y) for x, values in r.points("costs", "memory").items() for y in values]
    columns = [[x[k] for x, _ in points] for k in range(3)]
    return _fitted("costs: memory", columns, [y for _, y in points])


def _fitted(
    name: str, columns: Sequence[Sequence[float]], y: Sequence[float], *, relative: bool = False
) -> Fit:
    try:
        return least_squares(columns, y, relative=relative)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _prepare(parts: Sequence[str], sizes: Sizes, cache: Path) -> None:
    most = max(sizes.changes)
    if most > 8 << sizes.scale:
        raise ValueError(
            f"--changes {most} is more than half of the edges of R-MAT {sizes.scale}; give fewer, "
            "or a larger --scale"
        )
    for scale in needed(parts, sizes):
        graphs.of_scale(scale, cache)
    if "changes" in parts:
        EdgeStream(sizes.scale, cache)


SUITE = CaseSuite(
    name="scaling",
    title="Suite scaling",
    about="How the time of ours grows with edges, partitions, executors and changes, and what "
    "single things cost.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes, prepare=_prepare,
    context=context,
    stem=lambda s: f"scaling-r-mat-{s.scales[0]}-to-r-mat-{s.scales[-1]}",
    quick=(
        "--scales", "8,10,12", "--scale", "12", "--partitions", "1,2", "--changes", "1,10,100,1000",
        "--parts", "local-2,costs,costs-driver", "--repeats", "1", "--hops", "3",
        "--tasks", "8", "--megabytes", "16", "--log-edges", "16",
    ),  # less than a minute
)  # fmt: skip
