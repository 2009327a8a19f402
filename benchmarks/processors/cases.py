"""The cases: each is one function, run in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import graphs, processes, programs, rmat
from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME
from benchmarks.processors.sizes import Sizes
from vertexsdk import Changes, Graph, MainLoop, run, session
from vertexsdk.algorithms.cdlp import LabelPropagation
from vertexsdk.algorithms.sssp import ShortestPaths
from vertexsdk.transport.spark import SparkWorkers
from vertexsdk.transport.transport import DRIVER, PEERS

PROGRAMS: dict[str, tuple[Any, str]] = {**programs.PROGRAMS, "cdlp": (LabelPropagation, "label")}
_SLOTS = 2  # beside those of processors
_EDGES = 4_000  # of the graph for whole commands


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    value = call()
    return time.perf_counter() - began, value


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
                took, _ = _timed(partial(exchange.hop, steps))
                if k >= 20:
                    process.note(f"{count} processors, {steps} supersteps", took)
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
                took, result = _timed(partial(_once, graph, program, told, backend, threads))
                if k:
                    process.note(f"{program} {name}", took)
                else:
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
                took, _ = _timed(partial(programs.prepare, graph, "pagerank"))
                process.note(f"load {kind} {count}", took)
                graph.unpersist()
    for count in (1, 2):  # the second graph of a session
        graph = _read(spark, told.parquet, count)
        load, _ = _timed(partial(programs.prepare, graph, "components"))
        first, result = _timed(partial(_once, graph, "components", told, "memory://first"))
        process.note(f"first answer {count}", first)
        process.note(f"first load {count}", load)
        result.close()
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
            took, _ = _timed(partial(self._query, [("+", *pair) for pair in ends]))
            self.process.note(f"query {active}", took)

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
            took, _ = _timed(partial(subprocess.run, line, check=True, capture_output=True))
            if k:
                process.note(name, took)


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
