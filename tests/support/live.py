"""A live partition driven in this process, without Spark: for many small streams of changes."""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.adjacency import adjacency
from tests.support.inprocess import InProcess
from tests.support.simulator import exchange_in_process
from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.raw_columns import encode_bytes
from vertexsdk.compile.kernel_cache import compiled_plan
from vertexsdk.compile.plan import Plan, shippable
from vertexsdk.engine import loop_task
from vertexsdk.engine.auto_bound import BoundChoice
from vertexsdk.engine.commands import (
    AnswerStart,
    CreatePartition,
    LoopCommand,
    LoopReport,
)
from vertexsdk.engine.loop_task import LoopTask
from vertexsdk.engine.precompile import compile_plan
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.program.analysis.incremental_rules import layout_of, why_from_init
from vertexsdk.program.program import Program

__all__ = ["LiveInProcess"]

WARM = AnswerStart("warm", BoundChoice(1, False, "in step"))
_numbers = itertools.count()


class LiveInProcess:
    """A program over a small graph that changes, run by the tasks of `live`.

    Args:
        program: its vertices' ids must be int.
        edges: `(source, target[, value])`, no pair twice.
        named: vertices which are there without edges too.
        threads: of kernels.
        partitions: of the graph.
        compiled: the methods are kernels.

    >>> from vertexsdk.algorithms import ConnectedComponents
    >>> live = LiveInProcess(Program(ConnectedComponents), [(1, 2), (3, 4)])
    >>> live.take([("+", 2, 3)])["added"], live.answer()[4]
    (1, {'component': 1})
    """

    def __init__(
        self,
        program: Program,
        edges: Iterable[Sequence[Any]],
        named: Iterable[int] = (),
        *,
        params: Mapping[str, Any] | None = None,
        undirected: bool = False,
        threads: int = 1,
        partitions: int = 1,
        compiled: bool = True,
    ) -> None:
        why = why_from_init(program, program.bind(params or {}), undirected=undirected)
        assert why is None, why
        layout = layout_of(program, undirected=undirected)
        assert layout is not None
        names = sorted({int(v) for v in named})
        edges = [tuple(e) for e in edges]
        whole = InProcess(program, edges, names, undirected=undirected)
        dtype = np.dtype(program.value_dtype or "float64")
        typed = [(s, t, dtype.type(x[0] if x else 1)) for s, t, *x in edges]
        whole.rows = adjacency(typed, whole.kinds, "out", undirected=undirected)
        plan = whole._plan(params or {}, partitions, threads)
        if compiled:
            plan = compiled_plan(plan, "require", False, lambda text: None, compile_plan)
        elif plan.shape == "edge":
            plan = replace(plan, shape="derived")
        self.plan: Plan = replace(plan, program=shippable(program))
        self.layout, self.partitions = layout, partitions
        key = f"inprocess-{os.getpid()}/live-{next(_numbers)}"
        self._begin(key, 0)
        create = CreatePartition(plan.topologies, np.array(names, np.int64))
        self.job(create=create)
        shared_memory.drop(plan.run)

    def _begin(self, key: str, version: int) -> None:
        self.key, self.version = key, version
        self.task = LoopTask(self.plan, self.layout, key, WARM)
        self.last: LoopReport | None = None

    def job(self, **orders: Any) -> LoopReport:
        """Run one task; see `LoopCommand`."""
        exchange = exchange_in_process(self.partitions, self.task)
        told = exchange.hop(LoopCommand(self.version, **orders))
        report = LoopReport.total([pickle.loads(block) for block in told])
        if report.failure is not None:
            raise report.failure
        self.version, self.last = report.version, report
        return report

    def take(self, rows: Iterable[Sequence[Any]], *, strict: bool = False) -> dict[str, int]:
        """Take in changes, as `Changes.of` takes them; return their counts."""
        changes = Changes.of(rows)
        changes = changes.canonical() if self.layout == "undirected" else changes
        ids = (np.asarray(changes.source, np.int64), np.asarray(changes.target, np.int64))
        columns = dict(zip(("source", "target"), ids, strict=True))
        data = encode_bytes({"kind": changes.kind, **columns, "value": changes.value})
        return self.job(changes=data, strict=strict).counts

    def answer(self, iterations: int | None = None) -> dict[int, dict[str, Any]]:
        """Iterate, to the end or so often; return the state by vertex."""
        self.job(iterate=True, iterations=iterations, seconds=1e9)
        answer = {}
        for p in range(self.partitions):
            live: Any = loop_task._partitions[self.key, p][1]
            rows = live.graph.in_order()
            ids = live.arena["ids"][rows].tolist()
            states = {name: column[rows].tolist() for name, column in live.v.states.items()}
            for k, v in enumerate(ids):
                answer[v] = {name: states[name][k] for name in states}
        return answer

    def fork(self) -> LiveInProcess:
        """Return one that stands here."""
        key = f"inprocess-{os.getpid()}/live-{next(_numbers)}"
        self.job(fork=key)
        made = object.__new__(LiveInProcess)
        made.plan, made.layout = self.plan, self.layout
        made.partitions = self.partitions
        made._begin(key, 1)
        return made

    def close(self) -> None:
        """Free its memory."""
        self.job(end=True)
