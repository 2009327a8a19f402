"""Loops over changing graphs in this process, without Spark: for many short histories of them.

The graph is a dict; iterations are those of `InProcess`, by the engine's own tasks, from `init` or
from the answer before. Everything above the engine is what users have.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from tests.support.inprocess import InProcess
from vertexsdk.arrays.id_hash import hash_partition
from vertexsdk.compile.plan import ResidentAnswer
from vertexsdk.engine import select
from vertexsdk.engine._trimming import MESSAGES_WORSE
from vertexsdk.engine.engine import Budget, Command, CommandResult, Engine, Setting, WorkDone
from vertexsdk.graph.changes.changes import ADD, REMOVE
from vertexsdk.graph.checkpoint import put_edges
from vertexsdk.loops import _open_loop as open_loop
from vertexsdk.program.analysis.warm_start import why_from_init
from vertexsdk.state import Manifest, SegmentRef, Store, open_store
from vertexsdk.transport.select import transport_for

__all__ = ["DictEngine", "DictGraph", "without_spark"]

Edges = dict[tuple[int, int], float]


@dataclass
class DictGraph:
    """A graph of int ids, as a loop takes it `without_spark`."""

    edges: Edges
    undirected: bool = False
    partitions: int = 1
    spark: Any = None
    transport: Any = field(default_factory=lambda: transport_for(None))
    vertex_input: Any = None
    multi: bool = False
    placed: bool = False
    options: dict[str, Any] = field(default_factory=dict)


class DictEngine:
    """See `Engine`; an answer before is kept by whoever needs it until the process ends."""

    def __init__(self, setting: Setting) -> None:
        graph: Any = setting.graph
        self.setting, self.partitions, self.undirected = setting, graph.partitions, graph.undirected
        self.program = setting.program
        self.edges: Edges = dict(graph.edges)
        self.vertices = [int(x) for x in self.program.named_vertices(setting.params).values()]
        self.integers, self.value = True, self.program.value_dtype
        bound = self.program.bind(setting.params)
        self.from_init = why_from_init(self.program, bound, 0.0, self.partitions)
        self.iteration = 0
        self._kept: ResidentAnswer | None = None
        self._quiet = False
        self._state: dict[int, dict[str, Any]] | None = None

    def execute(self, command: Command) -> CommandResult:
        """See `Engine`."""
        out = CommandResult()
        edges = dict(self.edges)
        if command.changes is not None:
            self._take(command, edges, out)
            if command.strict and out.absent:
                return out
            self.edges, self._quiet = edges, False
        if command.budget is not None:
            self._iterate(command.budget, out)
        if command.write and self._state:
            out.segments, out.whole = self._write(self._state), True
            self._state = None
        out.iteration, out.num_edges = self.iteration, len(self.edges)
        return out

    def _take(self, command: Command, edges: Edges, out: CommandResult) -> None:
        c = command.changes
        assert c is not None
        rows = zip(
            c.kind.tolist(), c.source.to_pylist(), c.target.to_pylist(), c.value.tolist(),
            strict=True,
        )  # fmt: skip
        for number, (kind, a, b, x) in enumerate(rows):
            key = (a, b)
            assert not self.undirected or a <= b, "an undirected edge has one spelling here"
            x = x if self.value and x == x else edges.get(key, 1.0)
            if kind == ADD and key not in edges:
                out.counts["added"] += 1
                edges[key] = x
            elif key not in edges:
                out.counts["absent"] += 1
                out.absent.append(number)
            elif kind == REMOVE:
                out.counts["removed"] += 1
                del edges[key]
            else:
                out.counts["unchanged" if edges[key] == x else "changed"] += 1
                edges[key] = x

    def _iterate(self, budget: Budget, out: CommandResult) -> None:
        if self._quiet or not (self.edges or self.vertices):
            out.work = WorkDone(quiet=True, reason="nothing changed")
            out.num_vertices = len({v for e in self.edges for v in e} | set(self.vertices))
            return
        if budget.cancelled is not None and budget.cancelled():
            out.work = WorkDone(reason="cancelled")
            out.num_vertices = 1
            return
        rows = [(a, b, x) for (a, b), x in self.edges.items()]
        bound: Any = self.setting.options.delay_bound
        runs = InProcess(self.program, rows, self.vertices, undirected=self.undirected)
        warm = None if self.from_init else self._kept
        state, total, iterations = runs.run(
            self.setting.params, partitions=self.partitions, warm=warm,
            compiled=bool(self.setting.options.compiled), keep=not self.from_init,
            delay_bound=bound, rng=self._turns(),
            max_hops=2000,
        )  # fmt: skip
        if runs.worse:
            self.from_init, self._kept = MESSAGES_WORSE, None
            if warm is not None:
                self._iterate(budget, out)
                return
        self._kept, self._quiet, self._state = None if self.from_init else runs.kept, True, state
        self.iteration += iterations
        out.work = WorkDone(iterations, total.updates, total.messages, total.updates, quiet=True)
        out.start, out.num_vertices = "warm" if warm else "init", len(state)

    def _turns(self) -> random.Random | None:
        """Every other run has partitions take turns at random."""
        return random.Random(len(self.edges)) if len(self.edges) % 2 else None

    def _write(self, state: dict[int, dict[str, Any]]) -> list[SegmentRef]:
        ids = np.array(sorted(state), np.int64)
        owners = hash_partition(ids, self.partitions)
        refs = []
        with open_store(self.setting.backend, create=False) as store:
            for p in range(self.partitions):
                mine = ids[owners == p]
                columns = {
                    name: np.array([state[v][name] for v in mine.tolist()], f.dtype)
                    for name, f in self.program.states().items()
                }
                refs.append(
                    store.put_segment(self.setting.loop, p, 0, "base", {"id": mine, **columns})
                )
        return refs

    def fork(self) -> Engine:
        """See `Engine`."""
        other = copy(self)
        other.edges = dict(self.edges)
        return other

    def adopt(self, fork: Engine) -> None:
        """See `Engine`."""
        assert isinstance(fork, DictEngine)
        self.__dict__.update(fork.__dict__)

    def checkpoint(self) -> list[SegmentRef]:
        """See `Engine`."""
        rows = sorted((a, b, x) for (a, b), x in self.edges.items())
        columns = [np.array([r[k] for r in rows], t) for k, t in enumerate(("i8", "i8", "f8"))]
        owners = hash_partition(columns[0], self.partitions)
        refs = []
        with open_store(self.setting.backend, create=False) as store:
            for p in range(self.partitions):
                source, target, value = (c[owners == p] for c in columns)
                refs.append(put_edges(store, self.setting.loop, p, 0, (source, target, value)))
        return refs

    def close(self) -> None:
        """See `Engine`."""
        self.edges = {}


def _stored(
    spark: Any, store: Store, manifest: Manifest, *, undirected: bool, partitions: int
) -> DictGraph:
    edges: Edges = {}
    for ref in store.segments(manifest):
        if ref.kind == "topology":
            columns = store.segment(ref)
            rows = zip(*(columns[n].tolist() for n in ("source", "target", "value")), strict=True)
            edges.update({(a, b): x for a, b, x in rows})
    return DictGraph(edges, undirected, partitions)


@contextmanager
def without_spark() -> Iterator[None]:
    """Have loops take a `DictGraph`, and run in this process."""
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    with (
        mock.patch.object(select, "FACTORIES", [DictEngine]),
        mock.patch.object(open_loop, "stored_graph", _stored),
        mock.patch.object(open_loop, "refuse_other_hosts"),
    ):
        yield
