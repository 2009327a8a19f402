"""Suite ``processors``: what commands, programs, executors, loading and branches cost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cells, graphs, processes, programs, rmat
from benchmarks.answers import Wrong
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME
from benchmarks.options import option, scales
from benchmarks.programs import TINY_SCALE
from benchmarks.runner import CaseProcess, SuiteResults
from benchmarks.suite import CaseSuite, Part, Parts, filled
from benchmarks.targets import Target, median, ratio
from vertexsdk import Changes, Graph, MainLoop, run, session
from vertexsdk.algorithms.cdlp import LabelPropagation
from vertexsdk.algorithms.sssp import ShortestPaths
from vertexsdk.transport.spark import SparkWorkers
from vertexsdk.transport.transport import DRIVER, PEERS


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    scale: int = option(20, "of R-MAT")
    slope: tuple[int, ...] = option((18, 20), "scales for memory: 18,20", scales)
    repeats: int = option(5, "runs of each kind")
    commands: int = option(200, "that are timed, of each kind")
    branches: tuple[int, ...] = option((1, 4, 16), "beside ingest: 1,4,16")
    branch_scale: int = option(16, "R-MAT, for branches")
    batch: int = option(20_000, "changes in a batch beside branches")
    seconds: float = option(10.0, "of ingest, for each number of them")
    executor_memory: int = option(2048, "MiB of a JVM")
    cores: int = 2


PROGRAMS: dict[str, tuple[Any, str]] = {**programs.PROGRAMS, "cdlp": (LabelPropagation, "label")}


_SLOTS = 2  # beside those of processors


_EDGES = 4_000  # of the graph for whole commands


def commands(process: CaseProcess, sizes: Sizes) -> None:
    """A command to some processors and back; the same with an empty superstep."""

    def task(partition: int, supersteps: int, blocks: Any) -> Iterator[Any]:
        for _ in range(supersteps):
            yield PEERS, partition  # any report but None
        yield DRIVER, b""

    for count in (2, 8):
        spark = session(f"local[{count + _SLOTS}]")
        workers = SparkWorkers(spark, count)
        exchange = workers.exchange(task)
        for steps in (0, 10):
            for k in range(sizes.commands + 20):
                name = f"{count} processors, {steps} supersteps"
                process.timed(name if k >= 20 else "", partial(exchange.hop, steps))
        workers.close()
        spark.stop()


def _once(
    graph: Graph, program: str, told: BenchGraph, backend: str, threads: int | None = None
) -> Any:
    params = {"iterations": 10} if program == "cdlp" else programs.params_of(program, told.origin)
    return run(
        PROGRAMS[program][0], graph, params=params, backend=backend, progress=False,
        threads=threads,
    )  # fmt: skip


def _check(program: str, result: Any, told: BenchGraph) -> None:
    columns = result.columns()
    if program == "cdlp":
        answer = {"ids": columns["id"], "value": columns["label"]}
        if problem := BY_NAME[program].check(told, answer):
            raise Wrong(f"{program} on {told.name}: {problem}")
    else:
        programs.check(program, columns, told)


def _turns(
    process: CaseProcess,
    sizes: Sizes,
    held: dict[str, Graph],
    told: BenchGraph,
    threads: int | None = None,
) -> None:
    """Run every program on each graph in turn, and check its first answer."""
    backend = f"lmdb://{process.scratch}/state"
    for program in PROGRAMS:
        for k in range(sizes.repeats + 1):
            for name, graph in held.items():
                once = partial(_once, graph, program, told, backend, threads)
                result = process.timed(f"{program} {name}" if k else "", once)
                if not k:
                    _check(program, result, told)
                result.close()


def _read(spark: Any, path: str, partitions: int) -> Graph:
    return Graph.read(spark, edges=path, multi=True, partitions=partitions)


def beside(process: CaseProcess, sizes: Sizes) -> None:
    """One processor with all cores beside two of one core, in one session."""
    spark = session(f"local[{3 + _SLOTS}]")
    tiny, told = (graphs.of_scale(s, process.cache) for s in (programs.TINY_SCALE, sizes.scale))
    told.find("cdlp")
    for count in (1, 2):
        graph = _read(spark, tiny.parquet, count)
        for program in PROGRAMS:
            _once(graph, program, tiny, "memory://warm").close()
        graph.unpersist()
    for _ in range(sizes.repeats):
        for kind, path in (("text", told.text), ("parquet", told.parquet)):
            for count in (1, 2):
                graph = _read(spark, path, count)
                process.timed(f"load {kind} {count}", partial(programs.prepare, graph, "pagerank"))
                graph.unpersist()
    for count in (1, 2):  # the second graph of a session
        graph = _read(spark, told.parquet, count)
        process.timed(f"first load {count}", partial(programs.prepare, graph, "components"))
        first = partial(_once, graph, "components", told, "memory://first")
        process.timed(f"first answer {count}", first).close()
        graph.unpersist()
    held = {str(count): _read(spark, told.parquet, count) for count in (1, 2)}
    _turns(process, sizes, held, told)


def executors(count: int, process: CaseProcess, sizes: Sizes) -> None:
    """Executors with a processor of one core each."""
    spark = session(f"local-cluster[{count},2,{sizes.executor_memory}]")
    told = graphs.of_scale(sizes.scale, process.cache)
    told.find("cdlp")
    # A second slot of each executor is for its other tasks: its processor has one thread.
    _turns(process, sizes, {str(count): _read(spark, told.parquet, count)}, told, threads=1)


def memory(count: int, process: CaseProcess, sizes: Sizes) -> None:
    """Bytes that processors hold after a run of PageRank, by edges."""
    spark = session(f"local[{count + _SLOTS}]")
    for scale in (sizes.slope[0], *sizes.slope):
        told = graphs.of_scale(scale, process.cache)
        graph = _read(spark, told.parquet, count)
        _once(graph, "pagerank", told, "memory://memory").close()
        held = processes.held_by_workers(processes.members(os.getsid(0)))
        process.note(f"scale {scale}", held.workers)
        graph.unpersist()


def branches(process: CaseProcess, sizes: Sizes) -> None:
    """Ingest at full rate alone, and beside branches that ask without pause, in this process."""
    n, made = 1 << sizes.branch_scale, 16 << sizes.branch_scale
    source, target = rmat.pairs(sizes.branch_scale, 0, made)
    source, target = np.unique([source, target], axis=1)
    graph = Graph.from_arrays(source, target, rmat.values(0, len(source)))
    origin = int(np.bincount(source).argmax())
    backend = f"lmdb://{process.scratch}/state"
    with MainLoop(ShortestPaths, graph, params={"origin": origin}, backend=backend) as main:
        main.query().close()
        _Beside(process, sizes, main, n).measure(made)


class _Beside:
    """Threads that fork and ask while the main one ingests."""

    def __init__(self, process: CaseProcess, sizes: Sizes, main: MainLoop, n: int) -> None:
        self.process, self.sizes, self.main, self.n = process, sizes, main, n
        self.active = 0
        self.ended = threading.Event()

    def measure(self, first: int) -> None:
        """Note rates and latencies for every number of branches."""
        most = max(self.sizes.branches)
        for k in range(most):
            threading.Thread(target=self._ask, args=(k,), daemon=True).start()
        batches = self._batches(first)
        self._ingest(batches, 2.0)
        for _ in range(4):
            for count in self.sizes.branches:
                for active in (0, count):
                    self.active = active
                    rate = self._ingest(batches, self.sizes.seconds / 4)
                    self.process.note(f"rate {count} {active}", rate)
                self.active = 0
                time.sleep(0.5)
        self.ended.set()

    def _batches(self, first: int) -> Iterator[Changes]:
        size = self.sizes.batch
        made = []
        for k in range(100):
            source, target = rmat.pairs(self.sizes.branch_scale, first + k * size, size)
            values = rmat.values(first + k * size, size)
            made.append(Changes.from_arrays(np.zeros(size, np.int8), source, target, values))
            made.append(Changes.from_arrays(np.ones(size, np.int8), source, target))
        while True:
            yield from made

    def _ingest(self, batches: Iterator[Changes], seconds: float) -> float:
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            self.main.ingest(next(batches))
            count += self.sizes.batch
        return count / (time.perf_counter() - began)

    def _ask(self, number: int) -> None:
        rng = np.random.default_rng(number)
        while not self.ended.is_set():
            if number >= self.active:
                time.sleep(0.01)
                continue
            active = self.active
            ends = rng.integers(0, self.n, (10, 2)).tolist()
            query = partial(self._query, [("+", *pair) for pair in ends])
            self.process.timed(f"query {active}", query)

    def _query(self, changes: list[tuple[str, int, int]]) -> None:
        branch = self.main.fork()
        branch.apply(changes)
        branch.result().close()
        branch.close(forget=True)


def command(process: CaseProcess, sizes: Sizes) -> None:
    """The whole command on a small graph, beside a session that starts and stops."""
    rng = np.random.default_rng(1)
    edges = Path(process.scratch, "edges.txt")
    np.savetxt(edges, rng.integers(0, 1_000, (_EDGES, 2)), "%d")
    bare = [sys.executable, "-c", "from vertexsdk import session; session().stop()"]
    words = ["run", "pagerank", "--edges", str(edges), "--engine", "spark"]
    words += ["--backend", f"lmdb://{process.scratch}/state", "--loop"]
    whole = [sys.executable, "-m", "vertexsdk", *words]
    for k in range(sizes.repeats + 1):
        for name, line in (("bare", bare), ("whole", [*whole, f"run{k}"])):
            command = partial(subprocess.run, line, check=True, capture_output=True)
            process.timed(name if k else "", command)


CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "commands": commands,
    "beside": beside,
    "executors-1": partial(executors, 1),
    "executors-2": partial(executors, 2),
    "memory-1": partial(memory, 1),
    "memory-2": partial(memory, 2),
    "branches": branches,
    "command": command,
}


_LOSSES = {1: 10.0, 4: 25.0, 16: 50.0}


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def slope(self, case: str) -> float | None:
        """Bytes for each edge, between the smallest and the largest graph."""
        least, most = self.sizes.slope[0], self.sizes.slope[-1]
        small, large = (self.median(case, f"scale {scale}") for scale in (least, most))
        if small is None or large is None or least == most:
            return None
        return (large - small) / ((16 << most) - (16 << least))

    def loss(self, count: int) -> float | None:
        """Percent of the rate of ingest that so many branches take."""
        kept = self.ratio("branches", f"rate {count} {count}", "branches", f"rate {count} 0")
        return None if kept is None else 100 * (1 - kept)


def _superstep(count: int, r: Results) -> float | None:
    one, ten = (r.median("commands", f"{count} processors, {k} supersteps") for k in (0, 10))
    return None if one is None or ten is None else 1e2 * (ten - one)


def _slopes(r: Results) -> float | None:
    one, two = r.slope("memory-1"), r.slope("memory-2")
    return None if not one or two is None else two / one


def _start(r: Results) -> float | None:
    bare, whole = r.median("command", "bare"), r.median("command", "whole")
    return None if bare is None or whole is None else whole - bare


def _targets() -> Iterator[Target[Results]]:
    for count, bound in ((2, 0.5), (8, 2.0)):
        command = median("commands", f"{count} processors, 0 supersteps", 1e3)
        yield Target(f"a command to {count} processors and back", command, bound, "ms")
        yield Target(f"an empty superstep of {count}", partial(_superstep, count), bound, "ms")
    for program in PROGRAMS:
        bound = 1.2 if program == "pagerank" else 1.3
        find = ratio("beside", f"{program} 2", other=f"{program} 1")
        yield Target(f"{program}, 2 processors / 1, same cores", find, bound)
    for program in PROGRAMS:
        if program != "bfs":
            find = ratio("executors-1", f"{program} 1", "executors-2", f"{program} 2")
            yield Target(f"{program}, one executor of one core / two", find, 1.5, "×", True)
    yield Target("memory for each edge, 2 processors / 1", _slopes, 1.3)
    for kind in ("text", "parquet"):
        find = ratio("beside", f"load {kind} 2", other=f"load {kind} 1")
        yield Target(f"load from {kind}, 2 processors / 1", find, 1.2)
    for count in (1, 2):
        title = f"first answer of a second graph after its load, {count} processors"
        yield Target(title, median("beside", f"first answer {count}"), 2.0, "s")
    yield Target("command on 4,000 edges, beyond a bare session", _start, 3.0, "s")
    for count, percent in _LOSSES.items():
        title = f"ingest lost beside {count} asking branches"
        yield Target(title, partial(Results.loss, count=count), percent, "%")


def _notes(r: Results) -> list[str]:
    return [
        "Ratios are of medians. *Same cores*: one processor with all cores as threads, two "
        "with half of them each, in turn in one session. Executors have a processor with one "
        "thread each, and are measured in sessions of their own.",
        f"Branches: R-MAT {r.sizes.branch_scale}, shortest paths, batches of "
        f"{r.sizes.batch:,}; each branch forks, adds 10 edges, asks for the exact answer, and "
        "closes, without a pause.",
    ]


def _prepare(parts: Sequence[str], sizes: Sizes, cache: Path) -> None:
    memory = sizes.slope if any(part.startswith("memory") for part in parts) else ()
    for scale in {TINY_SCALE, sizes.scale, *memory}:
        graphs.of_scale(scale, cache)


def _sections(r: Results) -> list[tuple[str, Parts]]:
    return [("Programs", [_programs(r)]), ("Branches beside ingest", [_branches(r)])]


def _programs(r: Results) -> Part:
    places = [("beside", 1), ("beside", 2), ("executors-1", 1), ("executors-2", 2)]
    head = ["", "1 processor", "2 processors", "1 executor", "2 executors"]
    return filled(head, (
        [program, *(r.spread(case, f"{program} {n}") for case, n in places)] for program in PROGRAMS
    ))  # fmt: skip


def _branches(r: Results) -> Part:
    head = ["branches", "changes/s alone", "beside", "queries", "median", "99 %"]
    return filled(head, (
        [
            str(n), r.number("branches", f"rate {n} 0"), r.number("branches", f"rate {n} {n}"),
            str(len(took)), cells.middle(took),
            cells.seconds(took[max(len(took) * 99 // 100 - 1, 0)]),
        ]
        for n in r.sizes.branches if (took := sorted(r.figures("branches", f"query {n}")))
    ))  # fmt: skip


SUITE = CaseSuite(
    name="processors",
    title="Suite processors: what processors cost and gain",
    about="Commands to processors, the same programs on one and two of them, executors, memory, "
    "loading, and ingest beside branches.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes, prepare=_prepare,
    targets=tuple(_targets()), stated=("scale",), time_limit=1800,
    quick="--parts commands,beside,branches --scale 10 --repeats 1 --commands 10 --branches 1 "
    "--branch-scale 10 --batch 1000 --seconds 2",  # less than a minute
)  # fmt: skip
