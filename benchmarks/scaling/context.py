"""What a case works with: runs that are checked, and figures that depend on numbers.

A figure's name is what it is, ``" @"``, and the numbers it depends on: ``"run pagerank @4,18"``.
"""

from __future__ import annotations

from typing import Any

from benchmarks import graphs, programs
from benchmarks.case_process import CaseProcess
from benchmarks.graphs import BenchGraph
from benchmarks.programs import TINY_SCALE, check, params_of
from benchmarks.scaling.sizes import Sizes
from vertexsdk import Graph, Result, run

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
