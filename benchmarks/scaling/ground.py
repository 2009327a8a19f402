"""What every case stands on: a session on its master, graphs that are loaded, checked runs.

A figure's name is what it is, ``" @"``, and the numbers it depends on: ``"run pagerank @4,18"``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import graphs
from benchmarks.evolving.answers import Wrong
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME
from benchmarks.scaling.sizes import Sizes
from vertexsdk.algorithms.pagerank import PageRank
from vertexsdk.algorithms.sssp import ShortestPaths
from vertexsdk.algorithms.wcc import ConnectedComponents
from vertexsdk.graph import Graph, VariantInfo
from vertexsdk.program import Program
from vertexsdk.results import Result
from vertexsdk.running import run
from vertexsdk.session import session

__all__ = ["ITERATIONS", "PROGRAMS", "Ground", "made_ready"]

Tell = Callable[..., None]

ITERATIONS = 10  # of PageRank
PROGRAMS: dict[str, tuple[Any, str]] = {
    "pagerank": (PageRank, "rank"),
    "components": (ConnectedComponents, "component"),
    "shortest_paths": (ShortestPaths, "length"),
}
_TINY = 8  # R-MAT scale of what makes kernels and workers warm


def made_ready(loaded: Graph, program: str) -> VariantInfo:
    """Load the form of the graph which a program needs."""
    needs = Program(PROGRAMS[program][0])
    return loaded.materialise((needs.direction, needs.value_dtype, "combined"))


class Ground:
    """One case's own; ``note`` tells a figure to the parent, where it joins a list of its name."""

    def __init__(self, sizes: Sizes, cache: Path, scratch: Path, note: Tell, master: str) -> None:
        self.sizes, self.cache, self.scratch, self._note = sizes, cache, scratch, note
        self.master = master
        self.backend = f"lmdb://{scratch}/state"
        self.spark = session(master, "vertexsdk-benchmark")

    def note(self, name: str, value: float, *at: float) -> None:
        """Tell a figure, and the numbers that it depends on."""
        self._note(f"{name} @{','.join(f'{x:.15g}' for x in at)}" if at else name, value)

    def load(self, told: BenchGraph, program: str, partitions: int) -> tuple[Graph, VariantInfo]:
        """The graph, ready for a program, and what loading found."""
        loaded = Graph.read(self.spark, edges=told.parquet, multi=True, partitions=partitions)
        return loaded, made_ready(loaded, program)

    def once(self, program: str, loaded: Graph, told: BenchGraph, **options: Any) -> Result:
        """Run a program over a graph that is loaded."""
        params: dict[str, dict[str, Any]] = {
            "shortest_paths": {"origin": told.origin},
            "pagerank": {"iterations": ITERATIONS},
        }
        return run(
            PROGRAMS[program][0], loaded, params=params.get(program), backend=self.backend,
            progress=False, **options,
        )  # fmt: skip

    def check(self, program: str, result: Result, told: BenchGraph) -> None:
        """Raises `Wrong` unless the answer is the graph's."""
        columns = result.columns()
        answer = {"ids": columns["id"], "value": columns[PROGRAMS[program][1]]}
        wrong = BY_NAME[program].check(told, answer)
        if wrong:
            raise Wrong(f"{program} on {told.name}: {wrong}")
        self.note("checked", 1)

    def warm(self, partitions: int) -> None:
        """Every program once on a tiny graph: workers, kernels and the store are warm then."""
        told = graphs.of_scale(_TINY, self.cache)
        for program in PROGRAMS:
            loaded, _ = self.load(told, program, partitions)
            self.once(program, loaded, told)
            loaded.unpersist()
