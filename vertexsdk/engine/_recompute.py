"""The engine for every program: a changing set of edges, of which a graph is built to iterate on.

The edges stay sorted on the executors. Iterations run on a `Graph` of them as they are, by the
tasks of `run`: from the answer before where `warm_start` allows, else from `init`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from vertexsdk.compile.plan import ResidentAnswer
from vertexsdk.engine._trimming import MESSAGES_WORSE
from vertexsdk.engine.batch_run import PendingVersion, Run
from vertexsdk.engine.engine import (
    Budget,
    CanReadLoop,
    Command,
    CommandResult,
    Engine,
    Setting,
    WorkDone,
)
from vertexsdk.graph.edge_set import EdgeSet
from vertexsdk.graph.vertex_file import integer_id, with_ids
from vertexsdk.program.analysis.convergence import residual_of
from vertexsdk.program.analysis.warm_start import why_from_init
from vertexsdk.program.vertex import MAIN_LOOP
from vertexsdk.state import SegmentRef

__all__ = ["RecomputeEngine"]

_FIRST = "it is the first query"


class RecomputeEngine(CanReadLoop):
    """Any program, any number of partitions; see `Engine`.

    Raises:
        InputError: a graph with parallel edges, or a parameter that can be none of its vertices.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting, self.program = setting, setting.program
        facts = [spec.facts for spec in self.program.classes]
        self.reads_loop = any(f.reads_loop or f.adapts for f in facts)
        self.loop = MAIN_LOOP
        graph, options = setting.graph, setting.options
        bound = self.program.bind(setting.params)
        first = self.program.classes[0].cls
        tolerance = float(options.tolerance or first.tolerance)
        self.from_init = why_from_init(self.program, bound, tolerance, graph.partitions)
        if options.max_iterations is not None:
            self.from_init = "it ends after a number of iterations"
        graph.materialise(("out", self.program.value_dtype, "combined"))
        attributes = graph.initial_state(self.program)
        if attributes is not None and attributes.value.changing is not None:
            self.from_init = f"{attributes.value.changing} begins with vertex attributes"
        self._limit = options.limit_of(self.program)
        self.edges = EdgeSet(graph, self.program.value_dtype)
        try:
            self._name_vertices()
        except BaseException:
            self.edges.close()
            raise
        self.integers, self.value = self.edges.names is None, self.edges.value
        self.iteration = 0
        self._kept: ResidentAnswer | None = None
        self._renamed = self.edges.renamed
        self._before: CommandResult | None = None  # if nothing has changed since it was exact
        self._unwritten: PendingVersion | None = None

    def _name_vertices(self) -> None:
        ids = list(self.program.named_vertices(self.setting.params).values())
        if self.edges.names is None:
            ids = [integer_id(vertex) for vertex in ids]
        self._vertices = with_ids(self.edges.base.vertex_input, ids)
        if self._vertices is not None and self.edges.names is not None:
            self.edges.learn(self._vertices.strings())

    def execute(self, command: Command) -> CommandResult:
        """See `Engine`."""
        out = CommandResult()
        refused = False
        if command.changes is not None and len(command.changes):
            out.counts, out.absent = self.edges.apply(command.changes, strict=command.strict)
            refused = command.strict and bool(out.absent)
            if not refused:
                self._before = None
        if command.budget is not None and not refused:
            self._iterate(command.budget, out)
        if command.write and self._unwritten is not None:
            out.segments, out.whole = self._unwritten.segments, True
            self._unwritten = None
        out.iteration, out.num_edges = self.iteration, self.edges.num_edges
        return out

    def _iterate(self, budget: Budget, out: CommandResult) -> None:
        if self._before is not None:  # what is there is exact still
            out.work = WorkDone(residual=self._before.work.residual, quiet=True)
            out.work.reason = "nothing changed"
            self._describe(out, self._before)
        elif self.edges.num_edges == 0 and not (self._vertices and len(self._vertices.column)):
            out.work = WorkDone(quiet=True, reason="the graph has no vertex")
        else:
            self._run(budget, out)
            self._before = out if out.work.quiet else None

    @staticmethod
    def _describe(out: CommandResult, other: CommandResult) -> None:
        out.num_vertices, out.aggregates = other.num_vertices, other.aggregates
        out.start, out.start_reason = other.start, other.start_reason
        done = {"iterations", "hops", "updates", "messages", "bytes", "seconds", "total_seconds"}
        out.statistics = {k: 0 if k in done else v for k, v in other.statistics.items()}

    def _run(self, budget: Budget, out: CommandResult) -> None:
        setting = self.setting
        graph = self.edges.graph(self._vertices)
        warm, reason = self._start()
        keep = None if self.from_init else self.edges.keys.fresh("answer")
        run = Run(
            self.program, graph, setting.options, params=setting.params, backend=setting.backend,
            loop=setting.loop, warm=warm, keep=keep,
        )  # fmt: skip
        run.sees, run.forked = self.loop, self.loop != MAIN_LOOP
        limits = [k for k in (run.max_iterations, budget.iterations) if k is not None]
        run.max_iterations = min(limits) if limits else None
        _limit(run, budget)
        try:
            version = run.collect()
        except BaseException:
            if keep is not None:
                self.edges.keys.drop(keep)
            raise
        finally:
            graph.unpersist()
        if self._kept is not None:
            self.edges.keys.drop(self._kept.key)
        self._kept, self._renamed = run.kept, self.edges.renamed
        if run.worse:
            self.from_init = MESSAGES_WORSE
            if self._kept is not None:
                self.edges.keys.drop(self._kept.key)
            self._kept = None
            if warm is not None:
                self._run(budget, out)
                return
        self._unwritten = version
        self.iteration += version.iteration
        s = run.statistics
        out.work = WorkDone(
            s["iterations"], s["updates"], s["messages"], s["updates"],
            residual_of(self.program, version.aggregates) if s["iterations"] else None,
            self._is_quiet(s), s["reason"], s["seconds"],
        )  # fmt: skip
        out.start = "init" if run.warm is None else "warm"
        out.start_reason, out.statistics, out.aggregates = reason, s, version.aggregates
        out.num_vertices = s["num_vertices"]

    def _is_quiet(self, statistics: Mapping[str, Any]) -> bool:
        reason, done = statistics["reason"], statistics["iterations"]
        own = self._limit is not None and done >= self._limit
        return reason in ("converged", "quiet") or (reason == "max_iterations" and own)

    def _start(self) -> tuple[ResidentAnswer | None, str]:
        """The answer to go on from, or None, and why."""
        if self.from_init is not None:
            return None, self.from_init
        if self._kept is None:
            return None, _FIRST
        if self._renamed != self.edges.renamed:
            return None, "vertices with new names came"
        if self.program.algebra is not None and self.program.algebra.kind == "sum":
            return self._kept, "it went on from the state before"
        return self._kept, "the answer before was trimmed to what still holds"

    def fork(self) -> RecomputeEngine:
        """See `Engine`."""
        other = copy(self)
        other.edges = self.edges.fork()
        if self._kept is not None:
            self.edges.keys.hold(self._kept.key)
        return other

    def enter(self, loop: str) -> None:
        """See `CanReadLoop`."""
        if self.reads_loop:
            self.loop, self._before = loop, None

    def adopt(self, fork: Engine) -> None:
        """See `Engine`."""
        assert isinstance(fork, RecomputeEngine)
        iteration, loop = self.iteration, self.loop
        self.close()
        self.__dict__.update(fork.fork().__dict__)
        self.iteration, self.loop = max(iteration, self.iteration), loop

    def checkpoint(self) -> list[SegmentRef]:
        """See `Engine`."""
        return self.edges.checkpoint(self.setting.backend, self.setting.loop, self.iteration)

    def close(self) -> None:
        """See `Engine`."""
        if self._kept is not None:
            self.edges.keys.drop(self._kept.key)
        self._kept = None
        self.edges.close()


def _limit(run: Run, budget: Budget) -> None:
    """Have a run look at the clock, and at who waits for it, between its hops."""
    began = time.monotonic()

    def stop(iteration: int, work: WorkDone) -> str | None:
        seconds = time.monotonic() - began
        if budget.report is not None:
            budget.report(replace(work, iterations=iteration, seconds=seconds))
        if budget.cancelled is not None and budget.cancelled():
            return "cancelled"
        return "seconds" if budget.seconds is not None and seconds >= budget.seconds else None

    run.stop = stop
    if budget.seconds is not None:
        run.slice = min(run.slice, max(budget.seconds, 0.01))
    if budget.cancelled is not None:
        run.slice = min(run.slice, 0.25)
