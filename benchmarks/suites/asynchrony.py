"""Suite ``asynchrony``: what delay bounds above 1 buy on Spark, and what they cost.

Parts: a, the paper's table 2; b, hops and time to convergence by bound, on R-MAT and on a grid of
streets, by hash and by structure; c, one partition at a time slower than the others; d, the
protocol's cost where everything is in one partition.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from benchmarks import cells, graphs, rmat
from benchmarks.document import Chart, Table, bars
from benchmarks.graphs import BenchGraph
from benchmarks.options import option
from benchmarks.programs import PROGRAMS, TINY_SCALE, Context, check, params_of
from benchmarks.runner import CaseProcess, SuiteResults
from benchmarks.suite import CaseSuite, Parts, filled, grouped
from benchmarks.targets import Target, median, ratio
from vertexsdk import Graph, Program, read
from vertexsdk.engine import batch_run, loop_engine
from vertexsdk.engine.iterations import Iterations
from vertexsdk.engine.loop_task import LoopTask
from vertexsdk.engine.run_options import RunOptions
from vertexsdk.engine.run_partition import RunPartition

_GRAPHS = {"rmat": "R-MAT", "grid": "grid"}


def _read_bounds(text: str) -> tuple[str, ...]:
    found = tuple(filter(None, text.split(",")))
    if found[:1] != ("1",) or not all(b == "auto" or (b.isdigit() and int(b)) for b in found):
        raise argparse.ArgumentTypeError(f"{text!r}: give bounds, the first one 1, as 1,16,auto")
    return found


def _read_seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of seconds above 0")
    return seconds


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        paper, paper_partitions: bounds and numbers of partitions of the paper's table 2.
        cost: the bound whose protocol's cost is measured.
    """

    scale: int = option(20, "of R-MAT")
    grid: int = option(1000, "vertices along one side")
    paper: tuple[str, ...] = ("1", "256", "65536")
    paper_partitions: tuple[int, ...] = (4, 8)
    bounds: tuple[str, ...] = option(
        ("1", "4", "16", "64", "256", "auto"), "of parts b and c: 1,4,auto", _read_bounds
    )
    partitions: int = option(4, "of parts b and c")
    partitioner: str = option("ldg", "beside the hash: ldg, fennel or metis")
    times: float = option(4.0, "how much slower the straggler is")
    least: float = option(0.001, "seconds of its work in a hop, at least")
    turn: float = option(1.0, "seconds until another one is slow", _read_seconds)
    cost: str = "256"
    repeats: int = option(3, "runs of each bound")
    budget: float = option(60.0, "seconds after which none is begun")
    limit: float = option(600.0, "seconds for one run")
    cores: int = 2


IntArray = npt.NDArray[np.int64]


MISSING = 0.05


def grid_blocks(side: int, seed: int = rmat.SEED) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """All edges as one block of (source, target, length).

    >>> source, target, length = next(grid_blocks(3))
    >>> sorted({abs(s - t) for s, t in zip(source.tolist(), target.tolist())})
    [1, 3]
    """
    at = np.arange(side * side, dtype=np.int64).reshape(side, side)
    one = np.concatenate([at[:, :-1].ravel(), at[:-1, :].ravel()])
    other = np.concatenate([at[:, 1:].ravel(), at[1:, :].ravel()])
    length = rmat.values(0, one.size, seed)
    there = rmat.values(0, one.size, seed + 1) > rmat.LARGEST_VALUE * MISSING
    one, other, length = one[there], other[there], length[there]
    order = np.lexsort((other, one))  # as a file of streets would have them
    one, other, length = one[order], other[order], length[order]
    yield np.concatenate([one, other]), np.concatenate([other, one]), np.tile(length, 2)


def of_side(side: int, cache: Path) -> graphs.BenchGraph:
    """The grid with ``side`` * ``side`` crossings, made once."""
    name = f"grid {side} x {side}"
    return graphs.of_blocks(cache / f"grid-{side}", name, None, partial(grid_blocks, side))


@dataclass(frozen=True, slots=True)
class Straggler:
    """Who is slow: one partition after the other, in turns.

    Attributes:
        partitions: how many there are.
        times: how much longer; 1 is as long as they take.
        log: a file of this host to which every task adds a line; see `read_log`.
        least: seconds that its own work is taken to last at least, as what Spark does around it
            is slow there too.
        turn: seconds after which the next partition is slow, by the clock `time.monotonic`.
    """

    partitions: int
    times: float
    log: str
    least: float = 0.0
    turn: float = 1.0

    def slow_at(self, now: float) -> int:
        """The partition that is slow at a time.

        >>> [Straggler(3, 4.0, "log").slow_at(now) for now in (0.5, 1.0, 2.9, 3.0)]
        [0, 1, 2, 0]
        """
        return int(now / self.turn) % self.partitions


@dataclass(frozen=True, slots=True)
class Spell:
    """A task's time at work: seconds of the clock `time.monotonic`, which a host has one of."""

    partition: int
    began: float
    ended: float


class SlowIterations(Iterations):
    """Iterations which take longer where their partition is the straggler."""

    straggler: Straggler

    def _compute(self, *args: Any) -> Any:
        with self._slowed():
            return super()._compute(*args)

    def _sweep(self, *args: Any) -> Any:
        with self._slowed():
            return super()._sweep(*args)

    def _step(self, *args: Any) -> Any:
        with self._slowed():
            return super()._step(*args)

    @contextlib.contextmanager
    def _slowed(self) -> Iterator[None]:
        """Log the work of a partition, which takes longer if it is the straggler."""
        partition, straggler = self.processor.partition, self.straggler
        began = time.monotonic()
        yield
        if partition == straggler.slow_at(began):
            own = max(time.monotonic() - began, straggler.least)
            time.sleep((straggler.times - 1) * own)
        with Path(straggler.log).open("a") as log:
            log.write(json.dumps([partition, began, time.monotonic()]) + "\n")


class SlowTask(LoopTask):
    """A task with `SlowIterations`."""

    def __init__(self, straggler: Straggler, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.straggler = straggler

    def _begin_run(self, partition: int) -> RunPartition:
        part = super()._begin_run(partition)
        run = part.iterations
        part.iterations = SlowIterations(part.processor, run.master, run.choice)
        part.iterations.straggler = self.straggler
        return part


@contextlib.contextmanager
def straggling(straggler: Straggler) -> Iterator[None]:
    """Have runs that begin in this block run `SlowTask`."""
    with mock.patch.object(loop_engine, "LoopTask", partial(SlowTask, straggler)):
        yield


def read_log(log: str) -> list[Spell]:
    """When tasks were at work, in the order in which they ended."""
    return [Spell(*json.loads(line)) for line in Path(log).read_text().splitlines()]


def idle(spells: list[Spell]) -> float:
    """The share of the time, from the first task of any partition to the last, 0 to 1, in which
    partitions were not at work; one that is slow is at work as long as it takes."""
    number = len({s.partition for s in spells})
    whole = max(s.ended for s in spells) - min(s.began for s in spells)
    return 1 - sum(s.ended - s.began for s in spells) / (number * whole)


COUNTED = (
    "iterations", "hops", "updates", "prepares", "prepare_messages", "acknowledges", "held",
    "messages", "bytes", "delay_bound", "boundary_share", "cut",
)  # fmt: skip
"""Statistics of a run which are noted beside its seconds."""


_LATE = "its time was over"


_BEGUN = 2.0  # seconds of a run which is not counted


def graph_of(name: str, sizes: Sizes, cache: Path) -> BenchGraph:
    """The graph "rmat" or "grid" with its answers; made once."""
    if name == "grid":
        return of_side(sizes.grid, cache)
    return graphs.of_scale(sizes.scale, cache)


class Run:
    """One program with one bound on a graph that is loaded, to be run again and again.

    Args:
        context: of the case.
        name: of its figures.
        program: "shortest_paths" or "components".
        bound: a number, or "auto".
        loaded: the graph as the SDK has it.
        told: the graph's answers.
        around: makes the context manager in which each run is made.
        threads: for each partition; the SDK's choice by default.
    """

    def __init__(
        self,
        context: Context,
        name: str,
        program: str,
        bound: str,
        loaded: Graph,
        told: BenchGraph,
        around: Callable[[], Any] = nullcontext,
        threads: int | None = None,
    ) -> None:
        self.context, self.name, self.program = context, name, program
        self.loaded, self.told, self.around, self.threads = loaded, told, around, threads
        self.bound: Any = int(bound) if bound.isdigit() else bound
        self.spent, self.runs, self.late = 0.0, 0, False

    def once(self, counts: bool = True) -> None:
        """Run, note what it took, and check the answer; or only have it begin.

        Raises:
            Wrong: the answer is not the graph's.
        """
        program = Program(PROGRAMS[self.program][0])
        params = params_of(self.program, self.told.origin)
        options = RunOptions.checked(
            program, params, delay_bound=self.bound, threads=self.threads, progress=False
        )
        branch = batch_run.Run(
            program, self.loaded, options, params=params, backend=self.context.backend
        )
        until = time.monotonic() + (self.context.sizes.limit if counts else _BEGUN)
        branch.stop = lambda _, __: _LATE if time.monotonic() > until else None
        branch.go()[1].close()
        found = branch.statistics
        if not counts:
            return
        self.runs += 1
        self.spent += found["total_seconds"]
        self.late = found["reason"] == _LATE
        self._note("late" if self.late else "seconds", found["total_seconds"])
        self._note("kernel", found["phases"]["kernel"] * self.loaded.partitions)
        for name in COUNTED:
            if name in found:
                self._note(name, found[name])
        if self.runs == 1 and not self.late:
            with contextlib.closing(read(branch.backend, branch.loop)) as result:
                check(self.program, result.columns(), self.told)
            self._note("checked", 1)

    def _note(self, name: str, value: Any) -> None:
        self.context.note(f"{self.name} {name}", value)


def take_turns(runs: list[Run]) -> None:
    """All of them once, then all again: what else the machine does then falls on all alike."""
    _warm(runs)
    sizes = runs[0].context.sizes
    for _ in range(sizes.repeats):
        for run in runs:
            if not run.late and (not run.runs or run.spent < sizes.budget):
                with run.around():
                    run.once()


def _warm(runs: list[Run]) -> None:
    """Run each of them on a tiny graph, and begin the last one on its own: workers, kernels and
    the store are warm then."""
    context = runs[0].context
    tiny = graphs.of_scale(TINY_SCALE, context.cache)
    loaded: dict[tuple[str, int], Graph] = {}
    for run in runs:
        key = run.program, run.loaded.partitions
        if key not in loaded:
            loaded[key], _ = context.load(tiny, *key)
        Run(
            context, run.name, run.program, str(run.bound), loaded[key], tiny, threads=run.threads
        ).once(counts=False)
    for graph in loaded.values():
        graph.unpersist()
    runs[-1].once(counts=False)


def named(bound: str) -> str:
    """The name of a bound's figures."""
    return bound if bound == "auto" else f"B={bound}"


def paper(which: int, context: Context) -> None:
    """The paper's table 2: shortest paths, a number of partitions, by the hash of ids."""
    sizes, told = context.sizes, graph_of("rmat", context.sizes, context.cache)
    loaded, _ = context.load(told, "shortest_paths", sizes.paper_partitions[which])
    take_turns([Run(context, named(b), "shortest_paths", b, loaded, told) for b in sizes.paper])


def converging(name: str, structural: bool, context: Context) -> None:
    """Hops and time to convergence, by bound."""
    sizes, told = context.sizes, graph_of(name, context.sizes, context.cache)
    how = sizes.partitioner if structural else "hash"
    loaded, _ = context.load(told, "shortest_paths", sizes.partitions, how)
    take_turns([Run(context, named(b), "shortest_paths", b, loaded, told) for b in sizes.bounds])


def straggler(name: str, context: Context) -> None:
    """Synchronous and auto, with one partition at a time that is slow and without."""
    sizes, told = context.sizes, graph_of(name, context.sizes, context.cache)
    loaded, _ = context.load(told, "shortest_paths", sizes.partitions, sizes.partitioner)
    runs = []
    for bound in (sizes.bounds[0], sizes.bounds[-1]):
        for times, said in ((1.0, "even"), (sizes.times, "straggler")):
            title = f"{named(bound)} {said}"
            around = partial(_logged, context, title, times)
            runs.append(Run(context, title, "shortest_paths", bound, loaded, told, around))
    take_turns(runs)


@contextlib.contextmanager
def _logged(context: Context, name: str, times: float) -> Iterator[None]:
    log, sizes = context.scratch / "spells", context.sizes
    log.write_text("")
    with straggling(Straggler(sizes.partitions, times, str(log), sizes.least, sizes.turn)):
        yield
    context.note(f"{name} idle", idle(read_log(str(log))))


def cost(program: str, context: Context) -> None:
    """Everything in one partition: alone, and as one of two of which the other one is empty."""
    sizes, told = context.sizes, graph_of("rmat", context.sizes, context.cache)
    alone, _ = context.load(told, program, 1)
    ids = np.asarray(told.answer("ids"))
    beside, _ = context.load(told, program, 2, (ids, np.zeros(len(ids), np.int64)))
    runs = [
        Run(context, f"{named(b)} {where}", program, b, loaded, told, threads=sizes.cores)
        for where, loaded in (("alone", alone), ("beside", beside))
        for b in ("1", sizes.cost)
    ]
    take_turns(runs)


CASES: dict[str, Callable[[Context], None]] = {
    "a-few": partial(paper, 0),
    "a-many": partial(paper, 1),
    "b-rmat-hash": partial(converging, "rmat", False),
    "b-rmat-structure": partial(converging, "rmat", True),
    "b-grid-hash": partial(converging, "grid", False),
    "b-grid-structure": partial(converging, "grid", True),
    "c-rmat": partial(straggler, "rmat"),
    "c-grid": partial(straggler, "grid"),
    "d-shortest_paths": partial(cost, "shortest_paths"),
    "d-components": partial(cost, "components"),
}
"""By name: the part's letter, and what it is run on."""


def graphs_of(case: str) -> str:
    """The graph that a case needs."""
    return "grid" if "grid" in case else "rmat"


def slots(case: str, sizes: Sizes) -> int:
    """Tasks at once: one for each partition of the case's graphs, whose processors stay, and two
    beside them. With fewer, every iteration would be a Spark job."""
    few, many = sizes.paper_partitions
    partitions = {"a-few": few, "a-many": many, "d-shortest_paths": 3, "d-components": 3}
    return partitions.get(case, sizes.partitions) + 2


@contextlib.contextmanager
def context(process: CaseProcess, sizes: Sizes) -> Iterator[tuple[Context]]:
    """What a case is given."""
    graph = graph_of(graphs_of(process.case), sizes, process.cache)
    master = f"local[{slots(process.case, sizes)}]"
    given = Context(sizes, process.cache, process.scratch, process.note, master)
    process.ready(graph.edges, graph.origin)
    process.note("vertices", graph.vertices)
    yield (given,)
    given.spark.stop()


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def ratio(self, case: str, name: str, beside: str, other: str | None = None) -> float | None:
        """Of two medians; None where either is missing. Where a run was ended, over the seconds
        that it had."""
        top, bottom = self.median(case, name), self.median(beside, other or name)
        if top is None and name.endswith(" seconds"):
            top = self.median(case, name.removesuffix("seconds") + "late")
        return top / bottom if top is not None and bottom else None


def _slowed(r: Results) -> float | None:
    """What a straggler costs asynchronous runs, over what it costs synchronous ones; at most, where
    a synchronous run with a straggler was ended."""
    if r.median("c-grid", "auto straggler seconds") is None:
        return None
    auto = r.ratio("c-grid", "auto straggler seconds", "c-grid", "auto even seconds")
    waiting = r.ratio("c-grid", "B=1 straggler seconds", "c-grid", "B=1 even seconds")
    return auto / waiting if auto is not None and waiting else None


def _targets() -> Iterator[Target[Results]]:
    for case, many in (("a-few", 4), ("a-many", 8)):
        prepares = median(case, "B=1 prepares")
        yield Target(f"prepares at B=1, R-MAT, {many} partitions", prepares, 0, "")
    for what, bound in (("hops", 5), ("seconds", 3)):
        find = ratio("b-grid-structure", f"B=1 {what}", other=f"auto {what}")
        yield Target(f"{what} on the grid by structure, B=1 / auto", find, bound, "×", True)
    find = median("b-grid-structure", "auto seconds")
    yield Target("the grid by structure, auto", find, 2.0, "s")
    yield Target("one slow / none slow on the grid, auto over B=1", _slowed, 0.6)
    find = ratio("b-rmat-hash", "B=256 seconds", other="B=1 seconds")
    yield Target("seconds on R-MAT by hash, B=256 / B=1", find, 2.0)
    for case in ("hash", "structure"):
        find = ratio(f"b-rmat-{case}", "auto seconds", other="B=1 seconds")
        yield Target(f"seconds on R-MAT by {case}, auto / B=1", find, 1.05)
    for case, said in (("shortest_paths", "shortest paths"), ("components", "components")):
        cost = f"B={Sizes().cost}"  # the targets are judged at this bound only
        for place, title in (("alone", "one partition"), ("beside", "one of two partitions")):
            find = ratio(f"d-{case}", f"{cost} {place} seconds", other=f"B=1 {place} seconds")
            yield Target(f"all in {title}, {said}, B=256 / B=1", find, 1.15)
        find = ratio(f"d-{case}", f"{cost} beside kernel", other="B=1 alone kernel")
        yield Target(f"the same, time in tasks: sweeps / iterations, {said}", find, 1.15)


def _notes(r: Results) -> list[str]:
    s = r.sizes
    return [
        "Seconds are those of the whole run(): Spark jobs, iterations, commit to LMDB; the graph "
        "was loaded and the workers were warm before. Medians, (runs, least to greatest). "
        "The bounds of a case take turns in one process, each "
        "case has a process of its own. A run "
        f"that takes more than {s.limit:g} s is ended and shown as > that, and ratios over it are "
        "at least what is shown.",
        "Every distance and component is compared with the plainest code there is after the "
        "first run of each bound, and has to be exactly that. A case with a wrong answer has no "
        "figures, and the exit status is 1.",
        "Updates: vertices that gathered; prepares: updates that asked their consumers in other "
        "partitions first; prepare_messages: what they asked with, one for each consumer and not "
        "for each producer; held: updates that waited at the bound until the frontier moved.",
        f"Straggler: tasks of one partition, another one each {s.turn:g} s, sleep {s.times - 1:g} "
        f"times their own time, which is taken to be {1000 * s.least:g} ms at least. Each "
        "partition has a slot of its own (local[partitions + 2]), as one that sleeps uses no core. "
        "Idle: the share of the time in which tasks were not at work, sleep being work: the fixed "
        "cost of hops is in.",
        "Everything in one partition: alone, it has nobody to ask, and the SDK runs it as with "
        "B=1. As one of two, all of the protocol is there, with nobody to answer. Seconds in tasks "
        "are those that kernels and protocol took, without Spark's; all cores in both.",
    ]  # fmt: skip


def _ran(r: Results, case: str, name: str) -> bool:
    return bool(r.figures(case, f"{name} seconds") or r.figures(case, f"{name} late"))


def _bound(r: Results, case: str, name: str) -> str:
    taken = r.median(case, f"{name} delay_bound")
    return f"auto: {taken:.0f}" if name == "auto" and taken else name.removeprefix("B=")


def _answer(r: Results, case: str, name: str) -> str:
    return "exact" if r.figures(case, f"{name} checked") else "–"


def _seconds(r: Results, case: str, name: str) -> str:
    found = r.figures(case, f"{name} seconds")
    if not found:
        late = r.figures(case, f"{name} late")
        return f"> {cells.seconds(late[0])}" if late else "–"
    return cells.spread(found)


def _prepare(parts: Sequence[str], sizes: Sizes, cache: Path) -> None:
    for name in dict.fromkeys(map(graphs_of, parts)):
        graph_of(name, sizes, cache)


def _placed(r: Results) -> list[tuple[str, str, str]]:
    """The cases of part b, with their graph and their partitioner."""
    return [
        (f"b-{graph}-{how}", said, r.sizes.partitioner if how == "structure" else how)
        for graph, said in _GRAPHS.items()
        for how in ("hash", "structure")
    ]


def _bounds_chart(r: Results, what: str, unit: str) -> Chart | None:
    """Bars for each bound, a series for each graph and placement."""
    names = [named(bound) for bound in r.sizes.bounds]
    series = {
        f"{said}, {how}": [r.median(case, f"{name} {what}") for name in names]
        for case, said, how in _placed(r)
    }
    return bars(f"{what.capitalize()} to convergence", unit, names, series)


def _straggler_chart(r: Results) -> Chart | None:
    """Bars of seconds, with a partition that is slow and without."""
    pairs = [(f"c-{graph}", said, name) for graph, said in _GRAPHS.items() for name in _ends(r)]
    series = {
        title: [r.median(case, f"{name} {kind} seconds") for case, _, name in pairs]
        for kind, title in (("even", "none slow"), ("straggler", "one slow"))
    }
    categories = [f"{said}, {name}" for _, said, name in pairs]
    return bars("Seconds with and without a straggler", "s", categories, series)


def _ends(r: Results) -> list[str]:
    """The first bound and the last one."""
    return list(dict.fromkeys(map(named, (r.sizes.bounds[0], r.sizes.bounds[-1]))))


def _sections(r: Results) -> list[tuple[str, Parts]]:
    title = f"Shortest paths, {r.sizes.partitions} partitions: hops and time by bound"
    charts = _bounds_chart(r, "hops", "hops"), _bounds_chart(r, "seconds", "s")
    return [
        (f"The paper's table 2: shortest paths on R-MAT {r.sizes.scale}", [_paper(r)]),
        (title, [_bounds(r), *charts]),
        ("A straggler", [_straggler(r), _straggler_chart(r)]),
        ("Everything in one partition", [_cost(r)]),
    ]


def _graphs(r: Results) -> list[str]:
    told = {}
    for name, case in r.cases.items():
        kind = f"R-MAT {r.sizes.scale}"
        if "grid" in name:
            kind = f"grid {r.sizes.grid} x {r.sizes.grid}"
        if case.edges:
            told[kind] = (
                f"- {kind}: {case.figures['vertices'][0]:,.0f} vertices, {case.edges:,} edges; "
                f"paths start at {case.origin}."
            )
    return list(told.values())


def _paper(r: Results) -> Table | None:
    counted = ("iterations", "hops", "updates", "prepares", "prepare_messages", "held")
    head = ["partitions", "B", "seconds", *counted, "prepares / updates", "answer"]
    return filled(head, (
        [
            str(many), bound, _seconds(r, case, name),
            *(r.number(case, f"{name} {what}") for what in counted),
            f"{r.ratio(case, f'{name} prepares', case, f'{name} updates') or 0:.3g}",
            _answer(r, case, name),
        ]
        for case, many in zip(("a-few", "a-many"), r.sizes.paper_partitions, strict=False)
        for bound in r.sizes.paper if _ran(r, case, name := named(bound))
    ), 2)  # fmt: skip


def _bounds(r: Results) -> Table | None:
    head = ["", "B", "hops", "B=1 / this", "seconds", "B=1 / this", "iterations", "updates"]
    return filled([*head, "answer"], (
        [
            f"{said}, {how}, {r.median(case, f'{name} boundary_share') or 0.0:.2%} of vertices at "
            "a boundary",
            _bound(r, case, name),
            r.number(case, f"{name} hops"), r.times(case, "B=1 hops", case, f"{name} hops"),
            _seconds(r, case, name), r.times(case, "B=1 seconds", case, f"{name} seconds"),
            r.number(case, f"{name} iterations"), r.number(case, f"{name} updates"),
            _answer(r, case, name),
        ]
        for case, said, how in _placed(r)
        for name in map(named, r.sizes.bounds) if _ran(r, case, name)
    ), 2)  # fmt: skip


def _straggler(r: Results) -> Table | None:
    head = ["", "B", "seconds, none slow", "one slow", "slow / none", "B=1 / this, one slow"]
    first = f"{_ends(r)[0]} straggler seconds"
    return filled([*head, "idle, none slow", "one slow"], (
        [
            said, name, _seconds(r, case, even), _seconds(r, case, slow),
            r.times(case, f"{slow} seconds", case, f"{even} seconds"),
            r.times(case, first, case, f"{slow} seconds"),
            *(_share(r.median(case, f"{n} idle")) for n in (even, slow)),
        ]
        for case, said in ((f"c-{graph}", said) for graph, said in _GRAPHS.items())
        for name in _ends(r)
        if _ran(r, case, even := f"{name} even") and (slow := f"{name} straggler")
    ), 2)  # fmt: skip


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _cost(r: Results) -> Table | None:
    head = ["", "", "B", "seconds", "over B=1", "seconds in tasks", "over 1 partition, B=1"]
    return filled([*head, "hops", "iterations"], (
        [
            said, place, bound, _seconds(r, case, name),
            r.times(case, f"{name} seconds", case, f"B=1 {where} seconds"),
            cells.seconds(r.median(case, f"{name} kernel") or 0),
            r.times(case, f"{name} kernel", case, "B=1 alone kernel"),
            r.number(case, f"{name} hops"), r.number(case, f"{name} iterations"),
        ]
        for case, said in (("d-shortest_paths", "shortest paths"), ("d-components", "components"))
        for where, place in (("alone", "1 partition"), ("beside", "1 of 2, the other is empty"))
        for bound in ("1", r.sizes.cost) if _ran(r, case, name := f"{named(bound)} {where}")
    ), 2)  # fmt: skip


SUITE = CaseSuite(
    name="asynchrony",
    title="Suite asynchrony: what delay bounds buy and cost",
    about="The same program on the same graph under different delay bounds B: with B=1 partitions "
    "wait for each other in every iteration, above it they go on by themselves.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes, facts=_graphs,
    context=context, prepare=_prepare, targets=tuple(_targets()), groups=grouped(CASES, *"abcd"),
    stated=("scale", "grid", "partitions", "paper_partitions", "cost"), time_limit=7200,
    quick="--parts b-grid-structure --scale 12 --grid 60 --bounds 1,16,auto --repeats 1 --budget 5",
)  # fmt: skip
