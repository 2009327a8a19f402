"""What every case stands on: a session, a graph on disk, runs that are checked, and their figures.

A figure's name is the run's name, a blank, and what it is: ``"B=16 hops"``. Every run of a name
adds one to each of its lists.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import graphs
from benchmarks.asynchrony import grid
from benchmarks.asynchrony.sizes import Sizes
from benchmarks.evolving.answers import Wrong
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME
from vertexsdk import read
from vertexsdk.algorithms.sssp import ShortestPaths
from vertexsdk.algorithms.wcc import ConnectedComponents
from vertexsdk.graph import Graph
from vertexsdk.loops import Branch
from vertexsdk.session import session

__all__ = ["COUNTED", "Ground", "Run", "graph_of"]

Tell = Callable[..., None]

PROGRAMS: dict[str, tuple[Any, str]] = {
    "shortest_paths": (ShortestPaths, "length"),
    "components": (ConnectedComponents, "component"),
}
COUNTED = (
    "iterations", "hops", "updates", "prepares", "prepare_messages", "acknowledges", "held",
    "messages", "bytes", "delay_bound", "boundary_share", "cut",
)  # fmt: skip
"""Statistics of a run which are noted beside its seconds."""
_LATE = "its time was over"
_BEGUN = 2.0  # seconds of a run which is not counted
_TINY = 8  # R-MAT scale of what makes kernels and workers warm


def graph_of(name: str, sizes: Sizes, cache: Path) -> BenchGraph:
    """The graph "rmat" or "grid" with its answers; made once."""
    if name == "grid":
        return grid.of_side(sizes.grid, cache)
    return graphs.of_scale(sizes.scale, cache)


class Run:
    """One program with one bound on a graph that is loaded, to be run again and again.

    Args:
        ground: of the case.
        name: of its figures.
        program: "shortest_paths" or "components".
        bound: a number, or "auto".
        loaded: the graph as the SDK has it.
        told: the graph's answers.
        around: entered for each run; what it gives is called when the run is over.
        threads: for each partition; the SDK's choice by default.
    """

    def __init__(
        self,
        ground: Ground,
        name: str,
        program: str,
        bound: str,
        loaded: Graph,
        told: BenchGraph,
        around: Callable[[], Any] | None = None,
        threads: int | None = None,
    ) -> None:
        self.ground, self.name, self.program = ground, name, program
        self.loaded, self.told, self.around, self.threads = loaded, told, around, threads
        self.bound: Any = int(bound) if bound.isdigit() else bound
        self.spent, self.runs, self.late = 0.0, 0, False

    def once(self, counts: bool = True) -> None:
        """Run, note what it took, and check the answer; or only have it begin.

        Raises:
            Wrong: the answer is not the graph's.
        """
        vertex, field = PROGRAMS[self.program]
        params = {"origin": self.told.origin} if self.program == "shortest_paths" else {}
        branch = Branch(
            vertex, self.loaded, params=params, delay_bound=self.bound, threads=self.threads,
            backend=f"lmdb://{self.ground.scratch}/state", progress=False,
        )  # fmt: skip
        until = time.monotonic() + (self.ground.sizes.limit if counts else _BEGUN)
        branch.stop = lambda _, __: _LATE if time.monotonic() > until else None
        branch.go()
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
                columns = result.columns()
            answer = {"ids": columns["id"], "value": columns[field]}
            wrong = BY_NAME[self.program].check(self.told, answer)
            if wrong:
                raise Wrong(f"{self.name}, {self.program}: {wrong}")
            self._note("checked", 1)

    def _note(self, name: str, value: Any) -> None:
        self.ground.note(f"{self.name} {name}", value)


class Ground:
    """One case's own; ``note`` tells a figure to the parent, where it joins a list of its name."""

    def __init__(self, sizes: Sizes, cache: Path, scratch: Path, note: Tell, slots: int) -> None:
        self.sizes, self.cache, self.scratch, self.note = sizes, cache, scratch, note
        self.spark = session(f"local[{slots}]", "vertexsdk-benchmark")

    def load(
        self, graph: BenchGraph, program: str, partitions: int, partitioner: Any = "hash"
    ) -> Graph:
        """The graph, ready for the program."""
        loaded = Graph.read(
            self.spark, edges=graph.parquet, multi=True, partitions=partitions,
            partitioner=partitioner,
        )  # fmt: skip
        loaded.materialise(
            ("undirected", None, "combined")
            if program == "components"
            else ("out", "float64", "combined")
        )
        return loaded

    def warm(self, runs: list[Run]) -> None:
        """Run each of them on a tiny graph, and begin the last one on its own: workers, kernels
        and the store are warm then."""
        told = graphs.of_scale(_TINY, self.cache)
        graph: dict[tuple[str, int], Graph] = {}
        for run in runs:
            key = run.program, run.loaded.partitions
            if key not in graph:
                graph[key] = self.load(told, *key)
            Run(
                self, run.name, run.program, str(run.bound), graph[key], told, threads=run.threads
            ).once(counts=False)
        for tiny in graph.values():
            tiny.unpersist()
        runs[-1].once(counts=False)

    def take_turns(self, runs: list[Run]) -> None:
        """All of them once, then all again: what else the machine does then falls on all alike."""
        self.warm(runs)
        for _ in range(self.sizes.repeats):
            for run in runs:
                if not run.late and (not run.runs or run.spent < self.sizes.budget):
                    if run.around is None:
                        run.once()
                    else:
                        with run.around():
                            run.once()
