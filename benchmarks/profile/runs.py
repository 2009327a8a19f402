"""What is profiled: loads, runs of algorithms, and a main loop, each as phases of its wall time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import vertexsdk
from benchmarks import answers
from benchmarks.evolving.context import changes_of
from benchmarks.evolving.stream import EdgeStream
from benchmarks.graphs import BenchGraph
from benchmarks.programs import PROGRAMS, check, params_of
from vertexsdk import Graph, MainLoop
from vertexsdk.algorithms.sssp import ShortestPaths

CHANGES = 1000  # to a main loop, between queries


@dataclass(slots=True)
class Sample:
    """One timed call: when it began and ended (seconds since the epoch), and its phases.

    ``warm``: not the first of its kind. ``phases``: by the SDK's own count; empty for loads.
    """

    name: str
    partitions: int
    warm: bool
    began: float
    ended: float
    phases: dict[str, float]

    def plain(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def of_partitions(
    spark: Any, graph: BenchGraph, partitions: int, repeats: int, folder: Path
) -> Iterator[Sample]:
    """Loads, then first and repeated runs of every algorithm.

    Raises:
        answers.Wrong: an answer is not the reference's.
    """
    loaded = None
    for k in range(3):
        if loaded is not None:
            loaded.unpersist()
        loaded = Graph.read(spark, edges=graph.parquet, multi=True, partitions=partitions)
        yield _timed("load", partitions, k > 0, partial(_load, loaded))
    assert loaded is not None
    for name, (program, _) in PROGRAMS.items():
        for k in range(repeats + 1):
            sample, result = _run(
                name, program, loaded, params_of(name, graph.origin), folder, k > 0
            )
            if k == 0:
                check(name, result.columns(), graph)
            yield sample
    loaded.unpersist()


def main_loop(spark: Any, scale: int, cache: Path, repeats: int, folder: Path) -> Iterator[Sample]:
    """Batches of changes to a main loop of shortest paths, and a query after each."""
    stream = EdgeStream(scale, cache)
    graph = Graph.read(spark, edges=stream.parquet, partitions=1)
    params = {"origin": stream.origin}
    with MainLoop(
        ShortestPaths, graph, params=params, backend=f"lmdb://{folder}/main", budget=None
    ) as main:
        main.query()
        for k in range(repeats + 1):
            changes = changes_of(stream.take(CHANGES))
            yield _of_main("ingest", main, k > 0, partial(main.ingest, changes))
            yield _of_main("query", main, k > 0, main.query)
        answers.check("shortest_paths", stream, main.read().columns())


def _load(graph: Graph) -> dict[str, float]:
    graph.materialise(("out", None, "combined"))
    return {}


def _run(
    name: str, program: Any, graph: Graph, params: Any, folder: Path, warm: bool
) -> tuple[Sample, Any]:
    held: list[Any] = []

    def call() -> dict[str, float]:
        backend = f"lmdb://{folder}/state"
        held.append(vertexsdk.run(program, graph, params=params, backend=backend))
        spent: dict[str, float] = held[0].statistics["spent"]
        return spent

    return _timed(name, graph.partitions, warm, call), held[0]


def _of_main(name: str, main: MainLoop, warm: bool, work: Callable[[], Any]) -> Sample:
    def call() -> dict[str, float]:
        before = dict(main.spent)
        work()
        return {phase: x - before[phase] for phase, x in main.spent.items()}

    return _timed(name, 1, warm, call)


def _timed(name: str, partitions: int, warm: bool, call: Callable[[], dict[str, float]]) -> Sample:
    began = time.time()
    phases = call()
    return Sample(name, partitions, warm, began, time.time(), phases)
