"""A program run by the engine's own tasks in this process, without Spark: for many small runs.

Topologies are built here from rows in plain Python; hops are calls, one partition after the other,
or those of the simulator where one is installed.
"""

from __future__ import annotations

import itertools
import os
import pickle
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from tests.support.adjacency import Edge, adjacency
from tests.support.simulator import exchange_in_process
from vertexsdk.arrays import shared_memory
from vertexsdk.compile.kernel_cache import compiled_plan
from vertexsdk.compile.plan import Plan, shape_of, shippable
from vertexsdk.engine import loop_task
from vertexsdk.engine.auto_bound import BoundChoice
from vertexsdk.engine.commands import AnswerStart, LoopCommand, LoopReport, WorkDone
from vertexsdk.engine.iterations import (
    combining,
    end_block,
    make_master,
    step_partition,
    sweep_block,
)
from vertexsdk.engine.loop_task import LoopTask
from vertexsdk.engine.loop_task import forget as forget_partitions
from vertexsdk.engine.master import IterationStats
from vertexsdk.engine.pace import Pace
from vertexsdk.engine.precompile import compile_plan
from vertexsdk.engine.run_partition import RunPartition
from vertexsdk.engine.sweeps import SweepReport, Sweeps
from vertexsdk.errors import RunError
from vertexsdk.graph.load.transpose import order_producers
from vertexsdk.graph.topology.placement import Placement
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.program.analysis.delay_bound import by_blocks
from vertexsdk.program.program import Program
from vertexsdk.transport.inprocess import InProcessExchange
from vertexsdk.transport.transport import Blocks, Exchange

__all__ = ["InProcess", "topologies"]

_numbers = itertools.count()
SYNCHRONOUS = BoundChoice(1, False, "in step")


def topologies(
    rows: Mapping[int, list[Edge]],
    partitions: int,
    *,
    each: bool,
    placement: Placement | None = None,
) -> list[Topology]:
    """Build every partition's topology from the targets of every vertex.

    Args:
        rows: from `adjacency`.
        partitions: how many.
        each: a ghost per remote edge, instead of one per remote target.
        placement: which partition owns each vertex; by the hash if None.
    """
    ids = np.array(sorted(rows), np.int64)
    found = (placement or Placement(partitions)).of(ids)
    owners = dict(zip(ids.tolist(), found.tolist(), strict=True))
    local = [[v for v in ids.tolist() if owners[v] == p] for p in range(partitions)]
    index = [{v: k for k, v in enumerate(mine)} for mine in local]
    ghosts = []  # (owner, target, source's local index, edge number), in ghost order
    for p, mine in enumerate(local):
        edges = enumerate((u, e) for u in mine for e in rows[u])
        remote = [(owners[e.id], e.id, index[p][u], k) for k, (u, e) in edges if owners[e.id] != p]
        ghosts.append(sorted(remote))
    slots = [_slots(g, len(mine), each) for g, mine in zip(ghosts, local, strict=True)]
    made = []
    for p, mine in enumerate(local):
        edges_ = [(u, e) for u in mine for e in rows[u]]
        slot_of, ghost_ids = slots[p]
        target = [index[p].get(e.id, slot_of.get(k, -1)) for k, (_, e) in enumerate(edges_)]
        inbound = [[v for v in slots[q][1] if owners[v] == p] for q in range(partitions)]
        into: list[list[int]] = [[] for _ in range(len(mine) + len(ghost_ids))]
        for (u, _), slot in zip(edges_, target, strict=True):
            into[slot].append(index[p][u])
        for j, v in enumerate(v for q in inbound for v in q):
            into[index[p][v]].append(len(mine) + j)
        behind = [
            local[q][u] for q in range(partitions) for owner, _, u, _ in ghosts[q] if owner == p
        ]
        counts = np.bincount([owners[v] for v in ghost_ids], minlength=partitions)
        t = Topology(
            partition=p,
            partitions=partitions,
            ids=np.array(mine, np.int64),
            start=_starts([len(rows[u]) for u in mine]),
            target=np.array(target, np.int32),
            ghost_ids=np.array(ghost_ids, np.int64),
            ghost_start=_starts(counts.tolist()),
            inbound=np.array([index[p][v] for q in inbound for v in q], np.int32),
            inbound_start=_starts([len(q) for q in inbound]),
            in_start=_starts([len(row) for row in into]),
            in_source=np.array([u for row in into for u in row], np.int32),
            value=np.array([e.value for _, e in edges_]),
            reverse=np.array([e.reverse for _, e in edges_], np.bool_),
            placement=placement,
        )
        if each:
            producers = np.array(behind, np.int64)
            in_order, inbound_order = order_producers(
                t.ids, t.in_start, t.in_source, producers, t.inbound_start
            )
            t = replace(t, producers=producers, in_order=in_order, inbound_order=inbound_order)
        made.append(t)
    return made


def _slots(
    ghosts: list[tuple[int, int, int, int]], n: int, each: bool
) -> tuple[dict[int, int], list[int]]:
    """The slot of every remote edge, and the ghosts' ids."""
    slot_of: dict[int, int] = {}
    ids: list[int] = []
    for _, target, _, edge in ghosts:
        if each or not ids or ids[-1] != target:
            ids.append(target)
        slot_of[edge] = n + len(ids) - 1
    return slot_of, ids


def _starts(counts: list[int]) -> Any:
    return np.concatenate([[0], np.cumsum(np.array(counts, np.int64))]).astype(np.int64)


@dataclass(frozen=True)
class _Order:
    """In which order partitions run, and how many hops at most."""

    bound: int
    patient: bool
    rng: random.Random | None
    most: int


@dataclass
class Hop:
    """What a partition did in its turn."""

    swept: SweepReport = field(default_factory=SweepReport)
    history: list[IterationStats] = field(default_factory=list)


class InProcess:
    """A program over a small graph, to be run on any number of partitions, in any way.

    Args:
        program: its vertices' ids must be int.
        edges, vertices, undirected: as for `reference`.
    """

    def __init__(
        self,
        program: Program,
        edges: Iterable[Sequence[Any]],
        vertices: Iterable[Any] = (),
        *,
        undirected: bool = False,
    ) -> None:
        self.program, self.undirected = program, undirected
        names = {spec.name: k for k, spec in enumerate(program.classes)}
        first = program.classes[0].name
        self.kinds = {
            v[0] if isinstance(v, tuple) else v: names[v[1] if isinstance(v, tuple) else first]
            for v in vertices
        }
        dtype = np.dtype(program.value_dtype or "float64")
        typed = [(s, t, dtype.type(x[0] if x else 1)) for s, t, *x in edges]
        self.rows = adjacency(typed, self.kinds, program.direction, undirected=undirected)
        self._topologies: dict[tuple[int, Placement | None], list[Topology]] = {}
        # Of the last asynchronous run:
        self.hops = 0
        self.delays: Any = None
        self.inbox: list[list[tuple[int, bytes]]] = []  # by partition, what is on its way to it

    def run(
        self,
        params: Mapping[str, Any] | None = None,
        *,
        partitions: int = 1,
        compiled: bool | Literal["require"] = False,
        threads: int = 1,
        forget: bool = False,
        placement: Placement | None = None,
        delay_bound: int = 1,
        patient: bool = False,
        rng: random.Random | None = None,
        max_hops: int = 10_000,
    ) -> tuple[dict[int, dict[str, Any]], WorkDone, int]:
        """Run to the end; return the state by vertex, the work done, and iterations.

        With `forget`, in step, every task loads its partition as a new worker would. Vertices are
        where `placement` says. With `rng` and a `delay_bound` above 1 partitions take turns at
        random, instead of all in each hop; `patient` is for `asynchronous.sweeps`.

        Raises:
            RunError: so many asynchronous hops were no end.
        """
        plan = self._plan(params or {}, partitions, threads, placement)
        plan = compiled_plan(plan, compiled, False, lambda text: None, compile_plan)
        plan = replace(plan, program=shippable(self.program))
        try:
            if delay_bound == 1 or partitions == 1:
                return self._synchronous(plan, partitions, forget)
            order = _Order(delay_bound, patient, rng, max_hops)
            return self._asynchronous(plan, partitions, order)
        finally:
            shared_memory.drop(plan.run)
            forget_partitions(plan.run, partitions)

    def _plan(
        self,
        params: Mapping[str, Any],
        partitions: int,
        threads: int,
        placement: Placement | None = None,
    ) -> Plan:
        algebra = self.program.algebra
        each = algebra is not None and algebra.kind == "latest" and partitions > 1
        made = self._topologies.setdefault((partitions, placement), [])
        if not made:
            made += topologies(self.rows, partitions, each=each, placement=placement)
        run = f"inprocess-{os.getpid()}/run-{next(_numbers)}"
        kept = None if placement is None else placement.keep(f"{run}/placement")
        keys = []
        for t in made:
            t = replace(t, placement=kept)
            if len(self.program.classes) > 1:
                last = len(self.program.classes) - 1  # codes of a file need not be class numbers
                codes_ = [last - self.kinds.get(v, 0) for v in t.ids.tolist()]
                t = replace(t, kind=np.array(codes_, np.uint8))
            if self.program.value_dtype is None:
                t = replace(t, value=None)
            if self.program.direction != "both" or self.undirected:
                t = replace(t, reverse=None)
            keys.append(f"{run}/graph-{t.partition}")
            shared_memory.save(keys[-1], *t.to_columns())
        bound = self.program.bind(params)
        named = {n: int(x) for n, x in self.program.named_vertices(bound).items()}
        return Plan(
            program=self.program,
            kernels=tuple(None for _ in self.program.classes),
            shape="many" if algebra is None else shape_of(self.program.classes),
            params=bound | named,
            tolerance=float(self.program.classes[0].cls.tolerance),
            threads=threads,
            topologies=tuple(keys),
            run=run,
            loop="main",
            store=None,
            max_iterations=self.program.classes[0].cls.max_iterations,
            each=each,
            kinds=tuple(reversed(range(len(self.program.classes)))),
        )

    def _synchronous(
        self, plan: Plan, partitions: int, forget: bool
    ) -> tuple[dict[int, dict[str, Any]], WorkDone, int]:
        """Run in step; with `forget` by tasks that do not stay, each in a new worker."""
        plan = replace(plan, resident=not forget)
        start = AnswerStart("init", SYNCHRONOUS)
        task = LoopTask(plan, "directed", plan.run, start, run=len(self.rows))

        def forgetful(partition: int, command: Any, blocks: Any) -> Any:
            loop_task._partitions.clear()
            return task(partition, command, blocks)

        if forget:
            exchange: Exchange = InProcessExchange(partitions, forgetful)
        else:
            exchange = exchange_in_process(partitions, task)
        work, report = WorkDone(), LoopReport(0)
        while not report.work.quiet:
            command = LoopCommand(report.version, iterate=True, position=report.position)
            report = LoopReport.total([pickle.loads(r) for r in exchange.hop(command)])
            if report.failure:
                raise report.failure
            work.add(report.work)
        parts = [loop_task._partitions.pop((plan.run, p))[1] for p in range(partitions)]
        return self._state([part.processor for part in parts]), work, report.clock

    def _part(self, plan: Plan, partition: int) -> RunPartition:
        return RunPartition(plan, partition, len(self.rows), SYNCHRONOUS)

    def _asynchronous(
        self, plan: Plan, partitions: int, order: _Order
    ) -> tuple[dict[int, dict[str, Any]], WorkDone, int]:
        """Run with a delay bound: partitions take turns, all of them or some at random."""
        parts = [self._part(plan, p).processor for p in range(partitions)]
        inbox: list[Blocks] = [[] for _ in parts]
        master, work = make_master(replace(plan, program=self.program), len(self.rows)), WorkDone()

        def end(p: int, sent: Blocks) -> None:
            """Hand on what a partition sends."""
            for destination, block in sent:
                inbox[destination].append((p, bytes(block)))

        ends = [step_partition(plan, part, master) for part in parts]
        for p, part in enumerate(parts):
            if (failure := ends[p].failure) is not None:
                raise failure
            work.add(ends[p].progress)
            end(p, part.blocks())
        master.advance(master.total(e.progress for e in ends))
        self.hops = 1
        if by_blocks(self.program):
            return self._by_blocks(plan, parts, inbox, master, work, order, end)
        paces = [
            Pace(part, order.bound, plan.max_iterations, 1, patient=order.patient,
                 terminated=_ignore)
            for part in parts
        ]  # fmt: skip
        self._at_own_pace(plan, paces, parts, inbox, work, order, end)
        self.delays = sum(pace.delays for pace in paces)
        self.inbox = inbox
        return self._state(parts), work, max(pace.clock for pace in paces)

    def _by_blocks(
        self,
        plan: Plan,
        parts: list[Any],
        inbox: list[Blocks],
        master: Any,
        work: WorkDone,
        order: _Order,
        end: Any,
    ) -> tuple[dict[int, dict[str, Any]], WorkDone, int]:
        """Go by blocks of sweeps, all partitions in each."""
        frontier = 1
        while master.reason is None:
            done = []
            came, inbox[:] = list(inbox), [[] for _ in parts]
            for p, blocks in enumerate(came):
                parts[p].set_vertices(len(self.rows))
                parts[p].reading = dict(master.aggregates)
                hop = Hop()
                hop.swept, sent = sweep_block(
                    plan, Sweeps(parts[p], frontier, order.bound, 600.0), blocks, hop.history
                )
                end(p, sent)
                done.append(hop)
                for progress in hop.history:
                    work.add(progress)
            self.hops += 1
            end_block(master, done, frontier + order.bound - 1)
            frontier += order.bound
        self.delays, self.inbox = sum(hop.swept.delays for hop in done), inbox
        return self._state(parts), work, frontier - 1

    def _at_own_pace(
        self,
        plan: Plan,
        paces: list[Pace],
        parts: list[Any],
        inbox: list[Blocks],
        work: WorkDone,
        order: _Order,
        end: Any,
    ) -> None:
        """Have partitions step in turns, or in any order, with posts that take their time."""
        rng, coordinator = order.rng, paces[0].coordinator
        assert coordinator is not None
        before: list[Blocks | None] = [*inbox]  # all that iteration 0 sent, until the first step
        inbox[:] = [[] for _ in parts]
        while coordinator.reason is None:
            turn = [p for p, pace in enumerate(paces) if inbox[p] or not pace.waits]
            if self.hops >= order.most or not turn:
                raise RunError(f"no end after {self.hops} steps")
            if rng is not None:
                turn = rng.sample(turn, rng.randint(1, len(turn)))
            for p in turn:
                first, before[p] = before[p], None
                came = [] if first is not None else self._come(inbox, p, rng)
                seconds = 0.0 if rng is not None and rng.random() < 0.3 else 600.0
                parts[p].set_vertices(len(self.rows))
                with combining(plan):
                    sent = paces[p].step(
                        came, first or [], seconds, lambda _, progress: work.add(progress)
                    )
                end(p, sent)
                self.hops += 1
                if coordinator.reason is not None:
                    break

    def _come(self, inbox: list[Blocks], p: int, rng: random.Random | None) -> Blocks:
        """Take what has come of the blocks on their way: the first ones of each source."""
        blocks, inbox[p] = inbox[p], []
        if rng is None:
            return blocks
        came: Blocks = []
        for source in {source for source, _ in blocks}:
            own = [block for block in blocks if block[0] == source]
            cut = rng.choice([len(own), rng.randint(0, len(own))])
            came += own[:cut]
            inbox[p] += own[cut:]
        return came

    def _state(self, parts: Sequence[Any]) -> dict[int, dict[str, Any]]:
        state: dict[int, dict[str, Any]] = {}
        for processor in parts:
            columns = processor.result()
            kinds = columns.get("kind", np.zeros(len(columns["id"]), np.uint8)).tolist()
            for k, v in enumerate(columns["id"].tolist()):
                spec = self.program.classes[kinds[k]]
                state[v] = {
                    f: _plain(columns[self.program.column(kinds[k], f)][k]) for f in spec.states
                }
        return state


def _ignore(iteration: int) -> None:
    pass


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
