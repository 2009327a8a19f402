"""Runs of a program with a delay bound, taken in turns, checked, and their figures noted.

A figure's name is the run's name, a blank, and what it is: ``"B=16 hops"``. Every run of a name
adds one to each of its lists.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks import graphs
from benchmarks.asynchrony import grid
from benchmarks.asynchrony.sizes import Sizes
from benchmarks.graphs import BenchGraph
from benchmarks.programs import PROGRAMS, TINY_SCALE, Context, check, params_of
from vertexsdk import Graph, Program, read
from vertexsdk.engine import batch_run
from vertexsdk.engine.run_options import RunOptions

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
        return grid.of_side(sizes.grid, cache)
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
