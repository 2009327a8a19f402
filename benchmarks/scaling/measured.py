"""What the model is given of a run: each cost by a line through its own experiment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.scaling.fit import Fit, least_squares, line, relative
from benchmarks.scaling.ground import ITERATIONS
from benchmarks.scaling.projection import Costs
from benchmarks.scaling.results import Results

__all__ = ["Cost", "Missing", "costs_of", "measured", "stored_in"]

_LOOSE = 0.5  # standard error over value, above which a cost is said to be loose


class Missing(Exception):
    """An experiment that a cost comes from did not end well; the message names it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One number of `Costs`: its value, its standard error, and by which experiment."""

    name: str
    title: str
    value: float
    error: float
    how: str

    @property
    def loose(self) -> bool:
        """Whether the points hardly tell it."""
        return not self.error <= _LOOSE * self.value


def costs_of(found: list[Cost]) -> Costs:
    """The model's costs."""
    return Costs(**{cost.name: cost.value for cost in found})


def stored_in(r: Results) -> str:
    """The store whose commits the model takes: one that executors can share, if it was there."""
    return "redis" if r.points("costs", "commit redis") else "lmdb"


def measured(r: Results) -> list[Cost]:
    """Every cost, in the order of `Costs`.

    Raises:
        Missing: which experiment has too few figures.
    """
    return list(_costs(r))


def _costs(r: Results) -> Iterator[Cost]:
    cores = r.sizes.cores
    hops = _hops(r, "costs", "hop shuffle")
    said = "hops by the shuffle with {} tasks that only send 8 bytes to each other"
    tasks = said.format(f"1 to {r.sizes.tasks}")
    yield _cost("hop", "a hop, whatever it does", hops, 0, tasks)
    yield _cost("task", "a task in an executor", hops, 1, tasks, cores)
    yield _cost("pair", "a block from one partition to another", hops, 2, tasks, cores)
    driver = _hops(r, "costs-driver", "driver hop")
    spent = "processor time of the driver's Python and JVM in such hops on two executors"
    yield _cost("driver_task", "the driver, per task", driver, 1, spent)
    yield _cost("driver_pair", "the driver, per pair of partitions", driver, 2, spent)
    shuffled = _line(r, "bytes shuffle")
    crossing, per_message = _line(r, "messages"), _line(r, "message bytes")
    size = per_message.at_least(1)
    message = max(crossing.at_least(1) - size * shuffled.at_least(1), 0.0) * cores
    yield Cost(
        "message", "a message: coded, sent and taken in", message, crossing.error[1] * cores,
        "iterations of PageRank on random graphs whose edges lead from one of two partitions to "
        "the other one more and more; less what the bytes cost",
    )  # fmt: skip
    yield _cost("message_bytes", "bytes of a message", per_message, 1, "the same runs")
    bytes_how = f"hops of 2 tasks that send up to {r.sizes.megabytes} MiB"
    yield _cost("byte", "a byte by the shuffle", shuffled, 1, bytes_how, cores)
    yield _cost("driver_byte", "a byte by the driver", _line(r, "bytes driver"), 1, bytes_how)
    store = stored_in(r)
    commits = _line(r, f"commit {store}")
    put = f"states of up to {r.sizes.megabytes} MiB put into {store.title()} and committed"
    yield _cost("commit", "a commit", commits, 0, put)
    yield _cost("commit_byte", "a byte of a commit", commits, 1, put)
    one = bool(r.points("local-1", "edges pagerank kernel"))
    case, used = ("local-1", 1) if one else ("local-2", cores)
    kernel = _scaled(_line(r, "edges pagerank kernel", case), used / ITERATIONS)
    graphs = f"R-MAT {r.sizes.scales[0]} to {r.sizes.scales[-1]}, one partition, cores: {used}"
    yield _cost("edge", "an edge in an iteration of PageRank", kernel, 1, graphs)
    load = _scaled(_line(r, "edges pagerank load", case), used)
    yield _cost("load", "an edge loaded from Parquet", load, 1, graphs)
    columns, size_of = r.scattered("costs", "memory")
    memory = _fitted(columns, size_of, "memory")
    random = "random graphs of different degree, two partitions"
    for k, what in enumerate(("edge", "vertex", "ghost")):
        yield _cost(f"{what}_memory", f"bytes of memory for a graph's {what}", memory, k, random)


def _hops(r: Results, case: str, name: str) -> Fit:
    """Fixed, per task, per pair of tasks; of the least seconds, as a hop is never too quick."""
    points = {x[0]: min(y) for x, y in r.points(case, name).items()}
    columns = [[1.0] * len(points), list(points), [p * p for p in points]]
    try:
        return relative(columns, list(points.values()))
    except ValueError as error:
        raise Missing(f"{case}: {name}: {error}") from error


def _line(r: Results, name: str, case: str = "costs") -> Fit:
    x, y = r.medians(case, name)
    try:
        return line(x, y)
    except ValueError as error:
        raise Missing(f"{case}: {name}: {error}") from error


def _fitted(columns: list[list[float]], y: list[float], name: str) -> Fit:
    try:
        return least_squares(columns, y)
    except ValueError as error:
        raise Missing(f"{name}: {error}") from error


def _scaled(fit: Fit, by: float) -> Fit:
    value, error = (tuple(by * v for v in values) for values in (fit.value, fit.error))
    return Fit(value, error, fit.points)


def _cost(name: str, title: str, fit: Fit, k: int, how: str, by: float = 1.0) -> Cost:
    return Cost(name, title, fit.at_least(k) * by, fit.error[k] * by, how)
