"""Suite ``scaling``: time against edges, partitions, executors and changes; what things cost."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from benchmarks import cells, graphs, hop_task, processes, programs
from benchmarks.document import Table, lines
from benchmarks.evolving import cases as evolving
from benchmarks.evolving.sizes import Sizes as Evolving
from benchmarks.evolving.stream import EdgeStream
from benchmarks.graphs import BenchGraph
from benchmarks.options import option, scales
from benchmarks.programs import ITERATIONS, TINY_SCALE, check, params_of, prepare
from benchmarks.runner import CaseProcess, SuiteResults
from benchmarks.suite import CaseSuite, Part
from tests.support.servers import NotInstalled, RedisServer
from vertexsdk import Graph, Result, run
from vertexsdk.state import open_store
from vertexsdk.transport.shuffle import ShuffleWorkers


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    scales: tuple[int, ...] = option(
        (14, 15, 16, 17, 18, 19, 20), "R-MAT: 14..20, or 14,16,18", scales
    )
    scale: int = option(18, "R-MAT, for partitions and changes")
    partitions: tuple[int, ...] = option((1, 2, 4, 8), "1,2,4,8")
    changes: tuple[int, ...] = option(
        (1, 10, 100, 1000, 10_000, 100_000), "between queries: 1,10,100"
    )
    repeats: int = option(3, "runs of each kind")
    budget: float = option(20.0, "seconds after which none is begun")
    executor_memory: int = option(1024, "MiB of a JVM")
    hops: int = option(5, "that are timed, of each kind")
    tasks: int = option(64, "in a hop, at most, to see what one costs")
    megabytes: int = option(64, "in a hop or a commit, at most")
    log_edges: int = option(21, "2**this edges in random graphs")
    cores: int = 2


Fit = list[tuple[float, float]]
"""Coefficients, each with its standard error: NaN where no points are left to tell it."""


def least_squares(
    columns: Sequence[Sequence[float]], y: Sequence[float], *, relative: bool = False
) -> Fit:
    """Fit ``y`` by a sum of the columns, each times a coefficient.

    ``relative``: the noise of each ``y`` is a share of it.

    Raises:
        ValueError: the points do not determine the coefficients.

    >>> [round(value, 9) for value, _ in least_squares([[1, 1, 1], [0, 1, 2]], [5, 7, 9])]
    [5.0, 2.0]
    """
    x, target = np.array(columns, float).T, np.array(y, float)
    if relative and target.min(initial=math.inf) > 0:
        x, target = x / target[:, None], target / target
    size = np.abs(x).max(axis=0, initial=0.0)
    size[size == 0] = 1.0  # columns of bytes and of ones are scaled alike
    x /= size
    if np.linalg.matrix_rank(x) < x.shape[1]:
        raise ValueError(f"{len(y)} points do not determine {x.shape[1]} values")
    inverse = np.linalg.inv(x.T @ x)
    value = inverse @ x.T @ target
    free = len(y) - x.shape[1]
    variance = float(((target - x @ value) ** 2).sum()) / free if free else math.nan
    error = np.sqrt(np.maximum(np.diag(inverse), 0.0) * variance) / size
    return list(zip(np.round(value / size, 15).tolist(), error.tolist(), strict=True))


def power(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """The exponent b of ``y`` = a ``x`` ** b, with its standard error.

    >>> power([1, 10, 100], [3, 300, 30000])[0]
    2.0
    """
    return least_squares([[1.0] * len(x), np.log(x).tolist()], np.log(y).tolist())[1]


PROGRAMS = {name: programs.PROGRAMS[name] for name in ("pagerank", "components", "shortest_paths")}


class Context(programs.Context):
    """One case's own."""

    def __init__(self, process: CaseProcess, sizes: Sizes, master: str) -> None:
        def note(name: str, value: float, *at: float) -> None:
            numbers = ",".join(f"{x:.15g}" for x in at)
            process.note(f"{name} @{numbers}" if at else name, value)

        super().__init__(sizes, process.cache, process.scratch, note, master)

    def once(self, program: str, loaded: Graph, told: BenchGraph, **options: Any) -> Result:
        """Run a program over a graph that is loaded."""
        return run(
            PROGRAMS[program][0], loaded, params=params_of(program, told.origin),
            backend=self.backend, progress=False, **options,
        )  # fmt: skip

    def check(self, program: str, result: Result, told: BenchGraph) -> None:
        """Raises `Wrong` unless the answer is the graph's."""
        check(program, result.columns(), told)
        self.note("checked", 1)

    def warm(self, partitions: int) -> None:
        """Every program once on a tiny graph: workers, kernels and the store are warm then."""
        told = graphs.of_scale(TINY_SCALE, self.cache)
        for program in PROGRAMS:
            loaded, _ = self.load(told, program, partitions)
            self.once(program, loaded, told)
            loaded.unpersist()


SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the edges, that lead to the other partition


COMMIT_FRACTIONS = (64, 16, 4, 1)


_DEGREE = 16


_WARM = 3


_ROUNDS = 12  # iterations of the runs whose messages are counted


def on_one_machine(context: Context) -> None:
    """All that needs no executors of its own."""
    _settle(context)
    for partitions in _counts(context):
        for seconds in _hop_seconds(context, partitions, 8):
            context.note("hop shuffle", seconds, partitions)
    for size in _byte_counts(context):
        for seconds in _hop_seconds(context, 2, size // 4):
            context.note("bytes shuffle", seconds, size)
    _committing(context)
    _messages(context)
    _graph_bytes(context)


def of_the_driver(context: Context) -> None:
    """Processor time of the driver alone, its Python and its JVM, when the tasks run elsewhere."""
    jvm = int(context.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    mine = [os.getpid(), jvm]
    _settle(context)
    for partitions in _counts(context):
        # Ticks of a clock that are 10 ms apart: only the sum tells.
        spent = list(_hop_seconds(context, partitions, 8, lambda: processes.spent(mine)))
        context.note("driver hop", sum(spent) / len(spent), partitions)


def _settle(context: Context) -> None:
    """Hops before the first that counts: the JVM compiles what is called often meanwhile."""
    for _round in range(1 + context.sizes.hops // 2):
        for _seconds in _hop_seconds(context, 4, 8):
            pass


def _counts(context: Context) -> Iterator[int]:
    count = 1
    while count <= context.sizes.tasks:
        yield count
        count *= 2


def _byte_counts(context: Context) -> Iterator[int]:
    most = context.sizes.megabytes << 20
    yield from (0, most // 8, most // 4, most // 2, most)


def _hop_seconds(
    context: Context, partitions: int, size: int, clock: Callable[[], float] = time.perf_counter
) -> Iterator[float]:
    """Seconds of hops in which every partition sends ``size`` bytes to every one, as often as
    sizes say, once those which warm are done."""
    cloudpickle.register_pickle_by_value(hop_task)  # executors need not have the benchmarks
    workers = ShuffleWorkers(context.spark, partitions)
    with (
        contextlib.closing(workers),
        contextlib.closing(workers.exchange(hop_task.sending)) as exchange,
    ):
        for number in range(_WARM + context.sizes.hops):
            begin = clock()
            exchange.hop((partitions, size))
            if number >= _WARM:
                yield clock() - begin


def _committing(context: Context) -> None:
    """Seconds of putting a state of 16 bytes a vertex into a store and committing it."""
    _commits(context, "lmdb", f"lmdb://{context.scratch}/commits")
    try:
        server = RedisServer()
        with server:
            _commits(context, "redis", server.url())
    except NotInstalled:
        return


def _commits(context: Context, name: str, url: str) -> None:
    with open_store(url) as store:
        for fraction in COMMIT_FRACTIONS:
            count = (context.sizes.megabytes << 20) // fraction // 16
            columns = {"id": np.arange(count), "value": np.random.default_rng(0).random(count)}
            for number in range(context.sizes.repeats + 1):
                begin = time.perf_counter()
                ref = store.put_segment("costs", 0, number, "base", columns)
                store.commit("costs", iteration=number, segments=[ref], parent=None)
                if number:  # the first one finds the store cold
                    context.note(f"commit {name}", time.perf_counter() - begin, ref.bytes)
                store.delete("costs")


def _random(context: Context, edges: int, vertices: int, across: float, partitions: int) -> Graph:
    """A random graph, vertices dealt out in turn, of whose edges a share leads to another
    partition, the next one."""
    random = np.random.default_rng(1)
    source = random.integers(0, vertices // 2, edges) * 2
    source[: edges // 2] += 1
    target = random.integers(0, vertices // 2, edges) * 2 + source % 2
    turned = random.random(edges) < across
    target[turned] ^= 1
    ids = np.arange(vertices)
    return Graph.from_arrays(
        source, target, spark=context.spark, vertices=ids, multi=True, partitions=partitions,
        partitioner=(ids, ids % partitions) if partitions > 1 else "hash",
    )  # fmt: skip


def _pagerank(context: Context, graph: Graph) -> dict[str, Any]:
    return run(
        PROGRAMS["pagerank"][0], graph, params={"iterations": _ROUNDS}, backend=context.backend,
        exchange="shuffle", progress=False, threads=1,
    ).statistics  # fmt: skip


def _messages(context: Context) -> None:
    """Seconds of an iteration of PageRank by how many combined messages cross."""
    edges = 1 << context.sizes.log_edges
    for share in SHARES:
        graph = _random(context, edges, edges // _DEGREE, share, 2)
        info = prepare(graph, "pagerank")
        crossing = sum(ghosts for _, _, ghosts in info.sizes)
        for number in range(context.sizes.repeats + 1):
            found = _pagerank(context, graph)
            if number:
                context.note("messages", found["seconds"] / found["hops"], crossing)
        context.note("message bytes", found["bytes"] / found["iterations"], crossing)
        graph.unpersist()


def _graph_bytes(context: Context) -> None:
    """Bytes of a graph by entries, vertices and ghosts."""
    most = 1 << context.sizes.log_edges
    for edges, degree, share in _graphs_of(most):
        graph = _random(context, edges, edges // degree, share, 2)
        info = prepare(graph, "pagerank")
        entries, ghosts = (sum(size[k] for size in info.sizes) for k in (1, 2))
        context.note("memory", info.bytes, entries, info.num_vertices, ghosts)
        graph.unpersist()


def _graphs_of(most: int) -> Iterable[tuple[int, int, float]]:
    return [
        (most, 16, 0.5),
        (most // 2, 8, 0.5),
        (most, 8, 0.0),
        (most, 32, 1.0),
        (most // 2, 4, 1),
    ]


MASTERS = {
    "local-1": "local[1]",
    "local-2": "local[2]",
    "cluster-1": "local-cluster[1,1,{memory}]",
    "cluster-2": "local-cluster[2,1,{memory}]",
}
"""By case: one or two cores of one process, one or two executors of one core each."""


def grown(context: Context) -> None:
    """Time against edges, in one partition; then against partitions."""
    context.warm(1)
    for scale in context.sizes.scales:
        _run_programs(context, "edges", scale, 1)
    divided(context)


def divided(context: Context) -> None:
    """Time against partitions, of one graph."""
    for partitions in context.sizes.partitions:
        context.warm(partitions)
        _run_programs(context, "partitions", context.sizes.scale, partitions)


def _run_programs(context: Context, what: str, scale: int, partitions: int) -> None:
    """Every program on one graph: load, run, check; then run again, and only then tell."""
    told = graphs.of_scale(scale, context.cache)
    at = told.edges if what == "edges" else partitions
    for program in PROGRAMS:
        loaded, info = context.load(told, program, partitions)
        found: list[dict[str, Any]] = []
        spent = 0.0
        while len(found) < context.sizes.repeats and (not found or spent < context.sizes.budget):
            result = context.once(program, loaded, told)
            if not found:
                context.check(program, result, told)
            found.append(result.statistics)
            spent += result.statistics["total_seconds"]
        for each in found:
            _tell(context, f"{what} {program}", each, at)
        context.note(f"{what} {program} load", info.seconds, at)
        context.note(f"{what} {program} vertices", info.num_vertices, at)
        context.note(f"{what} {program} ghosts", sum(size[2] for size in info.sizes), at)
        loaded.unpersist()


def _tell(context: Context, name: str, told: dict[str, Any], at: float) -> None:
    context.note(f"{name} seconds", told["total_seconds"], at)
    context.note(f"{name} loop", told["seconds"], at)
    context.note(f"{name} kernel", told["phases"]["kernel"], at)
    for count in ("iterations", "hops", "messages", "bytes", "worker_memory"):
        context.note(f"{name} {count}", told[count], at)


def changed(context: Context) -> None:
    """Time of a query against the number of changes since the one before."""
    for program in PROGRAMS:
        sizes = Evolving(scale=context.sizes.scale, cores=context.sizes.cores)
        own = evolving.Context(
            sizes, context.cache, context.scratch / program, lambda name, value: None
        )
        with own.main(program, None) as main:
            context.note(f"first {program}", evolving.timed(main.query)[0])
            main.ingest(evolving.changes_of(own.stream.take(2)))
            main.query()  # the first that goes on from an answer: it compiles what that needs
            for count in context.sizes.changes:
                _asked(context, own, main, program, count)


def _asked(context: Context, own: evolving.Context, main: Any, program: str, count: int) -> None:
    found: list[tuple[float, float, dict[str, Any]]] = []
    while len(found) < context.sizes.repeats and sum(f[1] for f in found) < context.sizes.budget:
        batch = evolving.changes_of(own.stream.take(count))
        took = evolving.timed(partial(main.ingest, batch))[0]
        seconds, result = evolving.timed(main.query)
        found.append((took, seconds, result.statistics))
    own.check(program, result)
    context.note("checked", 1)
    for took, seconds, told in found:
        context.note(f"ingest {program}", took, count)
        context.note(f"query {program}", seconds, count)
        context.note(f"updates {program}", told["updates"], count)


CASES: dict[str, Callable[[Context], None]] = {
    "local-1": grown,
    "local-2": grown,
    "cluster-1": divided,
    "cluster-2": divided,
    "changes": changed,
    "costs": on_one_machine,
    "costs-driver": of_the_driver,
}


def master_of(case: str, sizes: Sizes) -> str:
    """The Spark master that a case runs on."""
    if case == "costs-driver":
        case = "cluster-2"
    plain = f"local[{sizes.cores}]"
    return MASTERS.get(case, plain).format(memory=sizes.executor_memory)


def needed(cases: Sequence[str], sizes: Sizes) -> list[int]:
    """The R-MAT scales of the graphs that the cases need."""
    found: set[int] = set()
    if any(case.startswith("local-") for case in cases):
        found |= set(sizes.scales)
    if any(case in MASTERS for case in cases):
        found.add(sizes.scale)
    return sorted(found)


@contextlib.contextmanager
def context(process: CaseProcess, sizes: Sizes) -> Iterator[tuple[Context]]:
    """What a case is given."""
    given = Context(process, sizes, master_of(process.case, sizes))
    process.ready()
    yield (given,)
    given.spark.stop()


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


def _row(points: Points, x: Sequence[float], title: str, *more: str) -> list[str]:
    """A row of a table: the figures at each x."""
    found = [points.get((at,), []) for at in x]
    middles = [f"**{cells.seconds(f[0])}**" if len(f) == 1 else cells.spread(f) for f in found]
    return [title, *middles, *more]


def _medians(points: Points, x: Sequence[float]) -> list[float | None]:
    return [statistics.median(points[(at,)]) if (at,) in points else None for at in x]


def _sections(r: Results) -> list[tuple[Any, ...]]:
    return [*_edges(r), *_partitions(r), *_changes(r), *_costs(r)]


def _edges(r: Results) -> Iterator[tuple[Any, ...]]:
    figures = [
        (f"{TITLES[program]}, {PLACES[case]}", case, f"edges {program}", "seconds", "kernel")
        for program in PROGRAMS for case in ("local-1", "local-2")
    ]  # fmt: skip
    figures += [
        (f"load from Parquet, {PLACES[case]}", case, "edges pagerank", "load", "")
        for case in ("local-1", "local-2")
    ]
    found = {
        title: (points, exponent(*r.medians(case, f"{name} {what}")),
                exponent(*r.medians(case, f"{name} {inside}")))
        for title, case, name, what, inside in figures
        if (points := r.points(case, f"{name} {what}"))
    }  # fmt: skip
    x = sorted({at for points, *_ in found.values() for (at,) in points})
    if not x:
        return
    titles = [f"{edges:,.0f}" for edges in x]
    text = (
        "One partition. Seconds of the whole `run()`: Spark job, iterations, commit to LMDB; the "
        "graph is loaded before. The exponent b is that of *seconds = a · edges^b*, by least "
        "squares in logarithms of both, ± its standard error: 1 is linear; below 1, fixed costs "
        "still weigh. The last column has it for the time in tasks alone, without Spark's."
    )
    head = ["edges", *titles, "exponent", "exponent, in tasks"]
    series = {title: _medians(points, x) for title, (points, *_) in found.items()}
    chart = lines("Time against edges", "s", x, titles, "edges", series)
    rows = [_row(points, x, title, *more) for title, (points, *more) in found.items()]
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
    charts: list[Part] = []
    counts = [float(p) for p in r.sizes.partitions]
    titles = [f"{p:g}" for p in counts]
    for program in PROGRAMS:
        series = {}
        for case, place in PLACES.items():
            points = r.points(case, f"partitions {program} seconds")
            if points:
                hops = [r.median_at(case, f"partitions {program} hops", p) for p in counts]
                told = " / ".join(map(cells.number, hops))
                rows.append(_row(points, counts, f"{TITLES[program]}, {place}", told))
                series[place] = _medians(points, counts)
        title = f"{TITLES[program]} against partitions"
        charts.append(lines(title, "s", counts, titles, "partitions", series))
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
    series: dict[str, list[float | None]] = {}
    x = [float(count) for count in r.sizes.changes]
    for program in PROGRAMS:
        points = r.points("changes", f"query {program}")
        if points:
            said = TITLES[program].split(",")[0]
            series[said] = _medians(points, x)
            told = exponent(*r.medians("changes", f"query {program}"))
            rows.append(_row(points, x, f"query: {said}", told))
            updates = _medians(r.points("changes", f"updates {program}"), x)
            rows.append([f"updates of vertices: {said}", *map(cells.number, updates), "–"])
    taken = r.points("changes", f"ingest {next(iter(PROGRAMS))}")
    if taken:
        rows.append(_row(taken, x, "taking them in, durably", "–"))
    if rows:
        text = (
            f"R-MAT {r.sizes.scale} without parallel edges, one partition; half of the changes "
            "remove an edge, half add one. Seconds of `query()`, exact after so many changes since "
            "the one before; the main loop does nothing between queries. PageRank to 1e-6 (L1)."
        )
        titles = [f"{count:,.0f}" for count in x]
        chart = lines("Time of a query against changes", "s", x, titles, "changes", series)
        table = Table(["changes since the query before", *titles, "exponent"], rows)
        yield ("Time against changes", text, [chart, table])


SUITE = CaseSuite(
    name="scaling",
    about="How the time of ours grows with edges, partitions, executors and changes, and what "
    "single things cost.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes, prepare=_prepare,
    context=context, stem=lambda s: f"scaling-r-mat-{s.scales[0]}-to-r-mat-{s.scales[-1]}",
    quick="--scales 8,10,12 --scale 12 --partitions 1,2 --changes 1,10,100,1000 "
    "--parts local-2,costs,costs-driver --repeats 1 --hops 3 --tasks 8 --megabytes 16 "
    "--log-edges 16",  # less than a minute
)  # fmt: skip
