"""The task of a hop of an `EventsEngine`: from one version of a partition to the next.

A task is a pure function of the version it is told and the blocks it is given, see `task`.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Generator
from typing import Any, Literal

import numpy as np

from vertexsdk.arrays import shared_memory
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._processor import load_topology, with_classes
from vertexsdk.engine.events._commands import EventsCommand, EventsReport, master_at
from vertexsdk.engine.events._event_changes import places
from vertexsdk.engine.events._events_partition import EDGES, EventPartition, attributes_of
from vertexsdk.engine.events._node import Strings
from vertexsdk.engine.events._node_segments import put_checkpoint, restore
from vertexsdk.engine.supersteps import SuperstepEnd, end_superstep
from vertexsdk.errors import LostError
from vertexsdk.state import open_store
from vertexsdk.state.version_writer import DeltaLayers
from vertexsdk.transport.transport import DRIVER

_KEPT = 8  # partitions in a process, of all engines

_live: dict[tuple[str, int], EventPartition] = {}  # (key of the version, partition)


class EventTask:
    """The callable which an `Exchange` runs on every partition."""

    def __init__(self, plan: Plan, *, strings: bool, undirected: bool) -> None:
        self.plan, self.strings, self.undirected = plan, strings, undirected

    def __call__(
        self, partition: int, order: EventsCommand, blocks: list[tuple[int, bytes]]
    ) -> Generator[tuple[int, bytes], Any, None]:
        """Run a hop."""
        for key in order.drop:
            shared_memory.drop(key)
        said = EventsReport(partition)
        if order.load:
            sent = self._graph(partition, order)
            said.bytes = sum(len(b) for _, b in sent)
            yield from sent
            yield DRIVER, pickle.dumps(said)
            return
        try:
            part = self._open(partition, order)
        except LostError as lost:
            said.lost = str(lost)
            yield DRIVER, pickle.dumps(said)
            return
        sent = yield from self._advance(part, order, blocks, said)
        yield from sent
        yield DRIVER, pickle.dumps(said)

    def _open(self, partition: int, order: EventsCommand) -> EventPartition:
        chain = order.chains[partition]
        key = (chain[-1][0] if chain else "", partition)
        part = _live.get(key)
        if part is not None and part.vertices[0].loop == order.loop:
            del _live[key]  # an attempt that fails leaves it changed
        else:
            part = EventPartition(
                self.plan, partition, order.num_vertices, order.loop, chain,
                names=Strings() if self.strings else None, undirected=self.undirected,
            )  # fmt: skip
        part.set_vertices(order.num_vertices)
        part.born = []
        return part

    def _advance(
        self,
        part: EventPartition,
        order: EventsCommand,
        blocks: list[tuple[int, bytes]],
        said: EventsReport,
    ) -> Generator[tuple[int, bytes], Any, list[tuple[int, bytes]]]:
        clock = time.perf_counter()
        part.receive(blocks)
        if order.restore:
            assert self.plan.store is not None
            said.remembered = restore(part, self.plan.store, order.restore)
        if order.wake:
            part.wake()
        if order.batch is not None:
            said.taken = part.take(order.batch)
            if order.strict and said.taken.absent:
                return []
        said.seconds["ingest"] = time.perf_counter() - clock
        clock = time.perf_counter()
        if order.steps and (order.unfinished or said.taken.effects):
            yield from self._run(part, order, said)
        said.seconds["kernel"] = time.perf_counter() - clock
        clock = time.perf_counter()
        if order.checkpoint or (order.write and (not order.steps or said.reason)):
            self._write(part, order, said)
        said.seconds["commit"] = time.perf_counter() - clock
        clock = time.perf_counter()
        said.chain = part.keep(f"{order.key}/p{part.partition}")
        while len(_live) >= _KEPT:
            del _live[next(iter(_live))]
        _live[said.chain[-1][0], part.partition] = part
        said.seconds["save"] = time.perf_counter() - clock
        said.vertices, said.edges, said.moved = part.count, part.edges, part.moved
        said.born = part.born
        return _sent(part, said)

    def _run(
        self, part: EventPartition, order: EventsCommand, said: EventsReport
    ) -> Generator[tuple[int, bytes], Any, None]:
        master = master_at(
            self.plan, order.iteration, order.aggregates, order.num_vertices, order.limit
        )
        began = time.monotonic()
        alone = part.partitions == 1
        for _ in range(order.steps):
            if alone:
                part.set_vertices(part.count)
            progress = part.step(master.iteration, master.aggregates)
            said.history.append(progress)
            if not (alone or self.plan.resident):
                return
            end = SuperstepEnd(progress, part.count, time.monotonic() - began > order.seconds)
            received, ends = yield from end_superstep(
                [] if alone else _sent(part, said), end, alone
            )
            part.receive(received)
            if not alone:
                said.exchanged += said.bytes
            if not master.advance(master.total(e.progress for e in ends)):
                said.reason = master.reason
                return
            if ends[0].late:
                return
            part.set_vertices(sum(e.vertices for e in ends))

    def _write(self, part: EventPartition, order: EventsCommand, said: EventsReport) -> None:
        plan = self.plan
        assert plan.store is not None
        at = part.partition, max(order.iteration + len(said.history) - 1, 0)
        with open_store(plan.store) as store:
            if order.write:
                said.wrote = True
                alone_moved = part.partitions == 1 and part.moved
                said.whole = order.write == "base" or alone_moved or part.layers is None
                columns = part.columns(order.names, whole=said.whole)
                if said.whole or len(columns["id"]):
                    layers = None
                    if part.layers is not None and not said.whole:
                        layers = part.layers.add(len(columns["id"]), part.count)
                        if layers is None:
                            columns = part.columns(order.names, whole=True)
                    part.layers = layers or DeltaLayers()
                    kind: Literal["base", "delta"] = "base" if layers is None else "delta"
                    said.segments.append(store.put_segment(plan.loop, *at, kind, columns))
                part.moved, part.nodes.unwritten = False, set()
            if order.checkpoint:
                said.segments += put_checkpoint(
                    part, store, plan.loop, at, order.names, order.remember
                )

    def _graph(self, partition: int, order: EventsCommand) -> list[tuple[int, bytes]]:
        """The graph which was loaded here, as blocks to the places of its vertices."""
        plan, count = self.plan, len(self.plan.topologies)
        rows: list[tuple[Any, ...]] = []
        if plan.topologies[partition]:
            t = with_classes(load_topology(plan.topologies[partition], partition), plan)
            slots = np.concatenate([t.ids, t.ghost_ids])
            ends: list[list[Any]] = [
                np.repeat(t.ids, np.diff(t.start)).tolist(), slots[t.target].tolist()
            ]  # fmt: skip
            values = t.value.tolist() if t.value is not None else [1] * t.m
            ids: list[Any] = t.ids.tolist()
            if order.names is not None:
                name = order.names.sorted.to_pylist()
                ends = [[name[i] for i in row] for row in ends]
                ids = [name[i] for i in ids]
            kinds = t.kind.tolist() if t.kind is not None else [0] * t.n
            rows += [("v", i, k, False) for i, k in zip(ids, kinds, strict=True)]
            decode = None if order.names is None else name.__getitem__
            rows += [("a", ids[k], f, x) for k, f, x in attributes_of(plan, t, decode)]
            rows += [("o", a, b, x) for a, b, x in zip(*ends, values, strict=True)]
            rows += [("i", b, a, x) for a, b, x in zip(*ends, values, strict=True)]
        if partition == 0 and order.named is not None:
            rows += [("v", i, 0, True) for i in order.named.to_pylist()]
        sent: list[list[tuple[Any, ...]]] = [[] for _ in range(count)]
        for row, p in zip(rows, places([r[1] for r in rows], count), strict=True):
            sent[p].append(row)
        return [(p, EDGES + pickle.dumps(x, 5)) for p, x in enumerate(sent) if x]


def _sent(part: EventPartition, said: EventsReport) -> list[tuple[int, bytes]]:
    """What a partition has for others, which is on its way from now on."""
    blocks = part.blocks()
    part.outgoing = {}
    said.bytes = sum(len(b) for _, b in blocks)
    return blocks
