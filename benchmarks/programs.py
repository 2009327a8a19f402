"""The programs that several suites run, and what their cases share: a session, graphs, answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers import Wrong
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME
from vertexsdk import Graph, Program, session
from vertexsdk.algorithms.bfs import BreadthFirstSearch
from vertexsdk.algorithms.pagerank import PageRank
from vertexsdk.algorithms.sssp import ShortestPaths
from vertexsdk.algorithms.wcc import ConnectedComponents
from vertexsdk.graph.graph import VariantInfo

ITERATIONS = 10  # of PageRank
TINY_SCALE = 8  # of the R-MAT graph that makes kernels and workers warm
PROGRAMS: dict[str, tuple[Any, str]] = {
    "pagerank": (PageRank, "rank"),
    "components": (ConnectedComponents, "component"),
    "shortest_paths": (ShortestPaths, "length"),
    "bfs": (BreadthFirstSearch, "depth"),
}
"""Class, and field of the answer, by the name of the measure that checks it."""

_UNREACHED = np.iinfo(np.int64).max


def params_of(program: str, origin: int) -> dict[str, Any]:
    """The parameters to run a program with."""
    if program == "pagerank":
        return {"iterations": ITERATIONS}
    return {"origin": origin} if program in ("shortest_paths", "bfs") else {}


def prepare(loaded: Graph, program: str) -> VariantInfo:
    """Load the form of the graph that a program needs."""
    needs = Program(PROGRAMS[program][0])
    return loaded.materialise((needs.direction, needs.value_dtype, "combined"))


def check(program: str, columns: Mapping[str, Any], graph: BenchGraph) -> None:
    """Compare an answer with the graph's.

    Raises:
        Wrong: they differ.
    """
    value = columns[PROGRAMS[program][1]]
    if program == "bfs":
        value = np.where(value == _UNREACHED, np.inf, value)
    problem = BY_NAME[program].check(graph, {"ids": columns["id"], "value": value})
    if problem:
        raise Wrong(f"{program} on {graph.name}: {problem}")


class Context:
    """What a case works with: sizes, folders, a Spark session, and a way to note its figures."""

    def __init__(
        self, sizes: Any, cache: Path, scratch: Path, note: Callable[..., None], master: str
    ) -> None:
        self.sizes, self.cache, self.scratch, self.note = sizes, cache, scratch, note
        self.spark = session(master, "vertexsdk-benchmark")
        self.backend = f"lmdb://{scratch}/state"

    def load(
        self, graph: BenchGraph, program: str, partitions: int, partitioner: Any = "hash"
    ) -> tuple[Graph, VariantInfo]:
        """The graph, ready for a program, and what loading found."""
        loaded = Graph.read(
            self.spark, edges=graph.parquet, multi=True, partitions=partitions,
            partitioner=partitioner,
        )  # fmt: skip
        return loaded, prepare(loaded, program)
