"""Vertices on their way from one partition to another, between two iterations.

Three hops, with all that the partitions hold carried over as it is:

- *send*: partitions take in what is on its way to them, send the vertices that leave with their
  edges, state and messages, and tell the owners-to-be of targets whose ghosts there will be.
- *build*: they build their new topologies of what stays and what came, and send for every ghost
  the aggregate of what its producers here last sent.
- *settle*: they take these in, which schedules nobody: it has all been taken in before.

Every stage is a pure function of a version and the blocks that came, and makes a new version.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk import task as tasks
from vertexsdk.balance import Move
from vertexsdk.columns import decode, encode_bytes
from vertexsdk.errors import LostError
from vertexsdk.load.transpose import transpose
from vertexsdk.moving_rows import joined, taken
from vertexsdk.partition import Topology
from vertexsdk.placement import Placement
from vertexsdk.processor import Processor

if TYPE_CHECKING:
    from vertexsdk.task import HopTask

__all__ = ["move"]

Array = NDArray[Any]
Columns = dict[str, Array]


def move(
    task: HopTask, partition: int, command: Move, blocks: Sequence[tuple[int, bytes]]
) -> Iterator[tuple[int, bytes]]:
    """Run one stage in a task; yields as `HopTask` does."""
    report = tasks.Report(partition, command.version)
    try:
        processor: Processor = task._processor(partition, command)
    except LostError as lost:
        report.lost = str(lost)
        yield tasks.DRIVER, pickle.dumps(report)
        return
    place = (task.plan.run, partition)
    tasks._kept.pop(place, None)  # an attempt that fails leaves it changed
    outgoing: list[tuple[int, bytes]] = []
    if command.stage == "send":
        processor.receive(blocks)
        outgoing = _send(processor, command)
    elif command.stage == "build":
        processor = _build(processor, command, [(p, decode(b, trusted=True)[0]) for p, b in blocks])
        outgoing = processor.blocks()
    else:
        _settle(processor, [(p, decode(b, trusted=True)[0]) for p, b in blocks])
    report.version += 1
    processor.save(report.version)
    tasks._kept[place] = (report.version, processor)
    report.vertices = processor.count
    report.bytes = sum(len(b) for _, b in outgoing)
    yield from outgoing
    yield tasks.DRIVER, pickle.dumps(report)


def _placement(t: Topology, command: Move) -> Placement:
    return (t.placement or Placement(t.partitions)).moved(command.ids, command.to)


def _send(processor: Processor, command: Move) -> list[tuple[int, bytes]]:
    t, each = processor.v.topology, processor.plan.each
    placement = _placement(t, command)
    mine = placement.of(t.ids)
    of_slot = np.concatenate([mine, placement.of(t.ghost_ids)])
    degree = np.diff(t.start)
    source, to = np.repeat(np.arange(t.n), degree), of_slot[t.target]
    crossing = np.flatnonzero(mine[source] != to)
    ghosts = mine[source[crossing]].astype(np.int64), t.target[crossing].astype(np.int64)
    if not each:
        both = np.sort(ghosts[0] * len(of_slot) + ghosts[1])
        both = both[np.diff(both, prepend=-1) != 0]
        ghosts = both // len(of_slot), both % len(of_slot)
    slot_ids = np.concatenate([t.ids, t.ghost_ids])
    outgoing = []
    for p in range(t.partitions):
        columns: Columns = {}
        leaving = np.flatnonzero(mine == p)
        if p != t.partition and len(leaving):
            columns = taken(processor, leaving)
        told = of_slot[ghosts[1]] == p
        if told.any():
            columns["told.from"] = ghosts[0][told]
            columns["told.target"] = slot_ids[ghosts[1][told]]
            if each:
                columns["told.source"] = t.ids[source[crossing]][told]
        if columns:
            outgoing.append((p, encode_bytes(columns)))
    return outgoing


def _build(processor: Processor, command: Move, blocks: Sequence[tuple[int, Columns]]) -> Processor:
    old, each, plan = processor.v.topology, processor.plan.each, processor.plan
    partition, partitions = old.partition, old.partitions
    placement = _placement(old, command).keep(command.key)
    stay = np.flatnonzero(placement.of(old.ids) == partition)
    parts = [taken(processor, stay), *(c for _, c in sorted(blocks, key=_first) if "id" in c)]
    rows = joined(parts)
    ids = rows.columns["id"]
    n = len(ids)
    targets = rows.columns["target"]
    owners = placement.of(targets)
    slot = np.searchsorted(ids, targets)
    away = np.flatnonzero(owners != partition)
    if each:
        order = away[np.lexsort((targets[away], owners[away]))]
        ghost_ids, number = targets[order], np.empty(len(order), np.int64)
        slot[order] = n + np.arange(len(order))
    else:
        ghost_ids, number = np.unique(targets[away], return_inverse=True)
        order = np.argsort(placement.of(ghost_ids), kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        slot[away] = n + rank[number]
        ghost_ids = ghost_ids[order]
    sizes = np.bincount(placement.of(ghost_ids), minlength=partitions)
    told = [c for _, c in sorted(blocks, key=_first) if "told.from" in c]
    inbound, inbound_start, producers = _inbound(told, ids, partitions, each)
    start = np.concatenate([[0], np.cumsum(rows.columns["degree"])]).astype(np.int64)
    target = slot.astype(np.int32)
    in_start, in_source = transpose(start, target, n + len(ghost_ids), inbound, plan.threads)
    topology = Topology(
        partition=partition,
        partitions=partitions,
        ids=ids,
        start=start,
        target=target,
        ghost_ids=ghost_ids,
        ghost_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        inbound=inbound,
        inbound_start=inbound_start,
        in_start=in_start,
        in_source=in_source,
        kind=rows.columns.get("kind"),
        value=rows.columns.get("value"),
        reverse=rows.columns.get("reverse"),
        names=rows.names,
        placement=placement,
    )
    for array in topology.to_columns()[0].values():
        array.flags.writeable = False  # as those that were loaded, or kernels would compile twice
    made = Processor.__new__(Processor)
    made.prepare(plan, partition, command.num_vertices, topology)
    made.restructured = True
    rows.fill(made)
    if made.v.producers is not None:
        made.v.producers = producers
        made.delivery.order(producers)
    everyone = np.arange(n + len(ghost_ids), dtype=np.int32)
    made.delivery.combine(everyone, made.v.msg, made.v.agg)
    made.outgoing = {}
    made._send(everyone[n:])
    return made


def _first(pair: tuple[int, Columns]) -> int:
    return pair[0]


def _inbound(
    told: Sequence[Columns], ids: Array, partitions: int, each: bool
) -> tuple[Array, Array, Array]:
    """The local index behind each ghost of the others, bounds by partition, and the producers."""
    none = np.empty(0, np.int64)
    p, target = (
        np.concatenate([none, *(c[name] for c in told)]) for name in ("told.from", "told.target")
    )
    if each:
        source = np.concatenate([none, *(c["told.source"] for c in told)])
        order = np.lexsort((source, target, p))
        p, target, source = p[order], target[order], source[order]
    else:
        source = none
        order = np.lexsort((target, p))
        p, target = p[order], target[order]
        first = np.ones(len(p), np.bool_)  # a ghost that several partitions told of is one
        first[1:] = (p[1:] != p[:-1]) | (target[1:] != target[:-1])
        p, target = p[first], target[first]
    bounds = np.searchsorted(p, np.arange(partitions + 1)).astype(np.int64)
    return np.searchsorted(ids, target).astype(np.int32), bounds, source


def _settle(processor: Processor, blocks: Sequence[tuple[int, Columns]]) -> None:
    v, t = processor.v, processor.v.topology
    for p, columns in blocks:
        at = processor.delivery.base + int(t.inbound_start[p]) + columns["index"]
        v.msg[at] = columns["value"]
    processor.delivery.combine(np.arange(t.n, dtype=np.int32), v.msg, v.agg)
