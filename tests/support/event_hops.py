"""An `EventsEngine` in this process, without Spark: for many small runs."""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from vertexsdk.arrays import shared_memory
from vertexsdk.engine.engine import Command
from vertexsdk.engine.events import _events_task as events_task
from vertexsdk.engine.events._events_engine import EventsEngine
from vertexsdk.engine.events._events_partition import EventPartition
from vertexsdk.engine.events._events_task import EventTask
from vertexsdk.engine.events._node import Strings
from vertexsdk.engine.events._resident_versions import VersionPool
from vertexsdk.engine.events._setup import begin, bound_params, named_ids, plan_for
from vertexsdk.graph.changes.deltas import Deltas
from vertexsdk.graph.string_ids import StringIds
from vertexsdk.program.program import Program
from vertexsdk.state import SegmentRef
from vertexsdk.state.address import Address
from vertexsdk.transport.transport import DRIVER

__all__ = ["engine_in_process", "mail_of", "state_of", "targets_of"]

_numbers = itertools.count()


class _Hops:
    """Tasks as calls, one partition after the other."""

    def __init__(self, task: EventTask, *, forget: bool) -> None:
        self.task, self.forget = task, forget
        self._held: list[list[tuple[int, bytes]]] = [[] for _ in task.plan.topologies]

    def hop(self, command: Any, *, via: Any = "driver") -> list[bytes]:
        """See `Hops`."""
        reports: list[bytes] = []
        sent: list[list[tuple[int, bytes]]] = [[] for _ in self._held]
        pickled = pickle.dumps(command)
        for p, blocks in enumerate(self._held):
            if self.forget:
                events_task._live.clear()
            for destination, block in self.task(p, pickle.loads(pickled), list(blocks)):
                if destination == DRIVER:
                    reports.append(block)
                else:
                    sent[destination].append((p, block))
        self._held = sent
        return reports

    def close(self) -> None:
        """See `Hops`."""


def engine_in_process(
    program: Program,
    edges: Iterable[Sequence[Any]] = (),
    vertices: Iterable[Any] = (),
    params: Mapping[str, Any] | None = None,
    *,
    partitions: int = 1,
    undirected: bool = False,
    strings: bool = False,
    forget: bool = False,
    store: str | Address | None = None,
    loop: str = "main",
    nodes: Sequence[SegmentRef] = (),
    names: StringIds | None = None,
) -> EventsEngine:
    """Return the engine of a main loop over a small graph.

    Args:
        edges, vertices, params, undirected: as for `reference`.
        strings: ids are strings.
        forget: every task loads its partition as a new worker would.
        store: URL to which segments are written.
        nodes, names: of a checkpoint, to begin from.

    >>> engine = engine_in_process(Program(PaperPaths), [(1, 2)])  # doctest: +SKIP
    >>> engine.execute(Command(budget=QUIET)).work.quiet  # doctest: +SKIP
    True
    """
    given = dict(params or {})
    plan = plan_for(
        program,
        bound_params(program, given, strings=strings),
        run=f"inprocess-{os.getpid()}/events-{next(_numbers)}",
        topologies=("",) * partitions,
        loop=loop,
        store=store,
    )
    task = EventTask(plan, strings=strings, undirected=undirected)
    family = VersionPool(plan, task, lambda t: _Hops(t, forget=forget), shared_memory.drop)
    ids = named_ids(program, given, strings=strings)
    ids = pa.concat_arrays([pa.array(list(vertices), ids.type), ids])
    if strings and names is None:
        names = StringIds.of(pa.array([], pa.large_string()))
    engine = begin(family, program, names, named=ids, nodes=nodes)
    rows = {(s, t): (x[0] if x else 1) for s, t, *x in edges}
    if undirected:
        rows = {(min(k), max(k)): x for k, x in rows.items()}
    if rows:
        engine.execute(Command(Deltas.mixed(("+", s, t, x) for (s, t), x in sorted(rows.items()))))
    return engine


def state_of(engine: EventsEngine) -> dict[Any, dict[str, Any]]:
    """The state of every vertex that is there, maps of producers too, read where it is."""
    found: dict[Any, dict[str, Any]] = {}
    for p, chain in enumerate(engine.at.chains):
        part = _partition(engine, p, chain)
        for i in part.everyone():
            found[i] = part.nodes.peek(i).state
    return dict(sorted(found.items()))


def targets_of(engine: EventsEngine) -> dict[Any, dict[Any, Any]]:
    """The targets which every vertex that is there has declared."""
    found: dict[Any, dict[Any, Any]] = {}
    for p, chain in enumerate(engine.at.chains):
        part = _partition(engine, p, chain)
        found |= {i: part.nodes.peek(i).targets for i in part.everyone()}
    return dict(sorted(found.items()))


def mail_of(engine: EventsEngine) -> dict[Any, list[Any]]:
    """What is on its way, by receiver."""
    found: dict[Any, list[Any]] = {}
    for p, chain in enumerate(engine.at.chains):
        found |= _partition(engine, p, chain).mail
    return dict(sorted(found.items()))


def _partition(engine: EventsEngine, p: int, chain: Any) -> Any:
    task = engine.family.task
    return EventPartition(
        engine.family.plan, p, 0, engine.loop, chain, undirected=task.undirected,
        names=Strings() if task.strings else None,
    )  # fmt: skip
