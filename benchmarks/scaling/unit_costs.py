"""What single things cost: each read off a line through the points of an experiment of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.document import Section, Table
from benchmarks.scaling.context import ITERATIONS
from benchmarks.scaling.fit import Fit, least_squares
from benchmarks.scaling.results import Results

__all__ = ["UnitCost", "section", "unit_costs"]


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


def section(r: Results) -> Section | None:
    """The table of all costs; None where the run had none of these experiments."""
    if not r.cases.keys() & {"costs", "costs-driver"}:
        return None
    try:
        costs = list(unit_costs(r))
    except ValueError as error:
        return Section("What things cost", f"Not known: {error}.")
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
    return Section("What things cost", text, [Table(["", "cost", "experiment"], rows)])


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
