"""The state of a loop's partition in snapshots, and a partition that continues from one.

A segment of kind "snapshot" has a row for each vertex, in any order: `id` and the columns of
`_columns_of`; groups "all" and "" have all vertices, group "delta" those that changed since the
segment before.
`pending` are the ids of all vertices that are to gather. What belongs to the partition as a whole
is in its `meta`. Aggregates are not stored: they follow from the messages of the producers. So any
number of partitions can continue from a snapshot; each takes the rows of its own vertices.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile.plan import Plan
from vertexsdk.engine._mirrors import Mirrors
from vertexsdk.engine.arena import Arena
from vertexsdk.engine.commands import RestoreState
from vertexsdk.engine.partition_graph import PartitionGraph
from vertexsdk.engine.snapshot_writer import SNAPSHOT_LAYERS, WriteSnapshot
from vertexsdk.engine.snapshots import SnapshotRequest
from vertexsdk.engine.supersteps import Steps
from vertexsdk.program.algebra import Algebra, VertexId
from vertexsdk.state import CorruptError, SegmentRef, Store, open_store
from vertexsdk.state.stored_columns import Described, accepted_values, described_like
from vertexsdk.state.version_writer import DeltaLayers

Array = NDArray[Any]

CHANGED = np.uint8(2)  # bit of the column "dirty": since the last snapshot
_SMALL = 1 << 20  # bytes of rows that are copied at once; more are read from a fork
_NUMBER = (int, float, type(None))
_META: dict[str, type | tuple[type, ...]] = {
    "clock": int, "aggregates": dict, "falling": bool, "settled": bool, "unsent": bool,
    "unsure": bool, "gathered": list, "slice": (list, type(None)), "since": int, "spent": int,
    "good": _NUMBER, "from init": _NUMBER, "bad": _NUMBER,
}  # fmt: skip


class StatefulPartition(Protocol):
    """The part of an `IncrementalPartition` that snapshots need."""

    plan: Plan
    partition: int
    arena: Arena
    graph: PartitionGraph
    mirrors: Mirrors
    algebra: Algebra
    comparing: bool

    def keep(self) -> None:
        """Leave in the arena what a fork needs to know."""

    def refresh(self) -> None:
        """Take the arrays of the arena again."""

    def send_all(self) -> Steps[None]:
        """Tell mirrors what their vertices sent last, and have all aggregates follow from it."""


def captured(part: StatefulPartition, request: SnapshotRequest) -> WriteSnapshot | None:
    """Return what writes the state as it is now; None before iteration 0."""
    arena = part.arena
    part.keep()
    meta = arena.meta
    if not meta["begun"]:
        return None
    dirty = arena["dirty"]
    rows = np.flatnonzero((dirty & CHANGED).view(np.bool_))
    _, layers = (None if request.whole else meta.get(SNAPSHOT_LAYERS)) or ("", None)
    layers = layers and layers.add(len(rows), part.graph.vertices)
    is_base = layers is None
    if is_base:
        rows = part.graph.present_places()
        dirty &= ~CHANGED
    else:
        dirty[rows] &= ~CHANGED
        rows = rows[arena["alive"][rows] != 0]
    meta[SNAPSHOT_LAYERS] = request.token, layers or DeltaLayers()
    names = _columns_of(part)
    about = {
        "meta": {name: meta[name] for name in _META if name in meta},
        "placed": 0 if part.mirrors.placement is not None else len(part.plan.topologies),
    }
    pending = arena["ids"][arena["pending"]]
    group = "all" if request.whole else "" if is_base else "delta"
    write = partial(_put, part, group, about, pending)
    size = len(rows) * sum(arena[name].itemsize for name in names)
    if request.waits or size <= _SMALL:
        return partial(write, {name: arena[name][rows] for name in names}, None)
    fork = arena.fork(names)
    part.refresh()
    return partial(write, fork, rows)


def _put(
    part: StatefulPartition,
    group: str,
    about: dict[str, Any],
    pending: Array,
    content: Arena | dict[str, Array],
    rows: Array | None,
    store: Store,
) -> list[SegmentRef]:
    """Store the rows of a fork, or columns as they are."""
    if isinstance(content, Arena):
        names = content.names
        columns = {name: content[name][rows] for name in names}
    else:
        columns = dict(content)
    columns = {"id": columns.pop("ids"), **columns, "pending": pending}
    clock = about["meta"]["clock"]
    return [
        store.put_segment(
            part.plan.loop, part.partition, clock, "snapshot", columns, about, group=group
        )
    ]


def _columns_of(part: StatefulPartition) -> list[str]:
    """The arrays of which a snapshot has the rows."""
    fields = list(part.plan.program.states())
    names = ["ids", *(f"state.{name}" for name in fields)]
    if part.plan.tracked:
        names += [f"tracked.{name}" for name in fields]
    if part.plan.shape == "uniform":
        names.append("msg")
    if part.comparing:
        names += ["level", "seen"]
    return names


def restored(part: StatefulPartition, state: RestoreState) -> Steps[None]:
    """Continue from a snapshot of the same graph, in a partition that has not begun."""
    arena, graph, refs = part.arena, part.graph, state.segments
    hashed = part.mirrors.placement is None
    newest = {ref.key.partition: ref for ref in refs}
    pending = [np.zeros(0, np.int64)]
    meta: dict[str, Any] = {}
    described = _described(part)
    assert part.plan.store is not None
    with open_store(part.plan.store, create=False) as store:
        for ref in refs:
            table = store.table(ref)
            with store.naming_segment(ref):
                about = accepted_values(table.meta, {"meta": dict, "placed": int})
                meta = _accepted_meta(part, about["meta"])
            alike = hashed and about["placed"] == len(part.plan.topologies) and state.codes is None
            if alike and ref.key.partition != part.partition:
                continue
            columns = store.segment(ref, described=described)
            with store.naming_segment(ref):
                columns = _renamed(part, columns, state.codes)
            ids, waiting = columns.pop("id"), columns.pop("pending")
            if newest[ref.key.partition] is ref:
                pending.append(waiting[part.mirrors.owns(waiting)])
            places = np.full(len(ids), -1, np.int64)
            owned = part.mirrors.owns(ids)
            places[owned] = graph.index.find(ids[owned])
            there = places >= 0
            for name, values in columns.items():
                arena[name][places[there]] = values[there]
    none = {"layers": None, SNAPSHOT_LAYERS: None}
    arena.meta |= {**meta, "begun": True, "due": False, **none}
    part.refresh()
    yield from part.send_all()
    places = np.unique(graph.index.find(np.concatenate(pending))).astype(np.int32)
    arena.put("pending", places[places >= 0])


def _described(part: StatefulPartition) -> dict[str, Described]:
    """Return what a segment must have for this program; kernels follow it within the arena."""
    ids, *names = _columns_of(part)
    columns = {name: part.arena[name] for name in names}
    pending = Described(np.int64, rows="")
    return {"id": Described(part.arena[ids].dtype), **described_like(columns), "pending": pending}


def _accepted_meta(part: StatefulPartition, stored: dict[str, Any]) -> dict[str, Any]:
    """Return what belongs to the partition as a whole, of the types that it has here."""
    meta = accepted_values(stored, _META)
    aggregators = part.plan.program.aggregators
    gathered, number = meta.get("gathered", ({}, 0))
    for name, value in [*meta.get("aggregates", {}).items(), *gathered.items()]:
        one = aggregators[name]
        if np.asarray(value, one.dtype).shape != (() if one.size is None else (one.size,)):
            raise CorruptError(f"aggregate {name!r} in its meta has another shape")
    iteration, warm = meta.get("slice") or (0, False)
    if not (type(number) is type(iteration) is int and type(warm) is bool):
        raise CorruptError("'gathered' or 'slice' in its meta is of another type")
    return meta


def _renamed(
    part: StatefulPartition, columns: dict[str, Array], codes: tuple[Array, Array] | None
) -> dict[str, Array]:
    """The columns with the codes that string ids have now; an id may stand as its complement."""
    if codes is None:
        return columns
    stored, now = codes

    def renamed(values: Array) -> Array:
        result = values.copy()
        for mine, code in ((values, 1), (~values, -1)):
            at = np.minimum(np.searchsorted(stored, mine), len(stored) - 1)
            known = stored[at] == mine
            result[known] = now[at[known]] if code > 0 else ~now[at[known]]
        return result

    fields = part.plan.program.states()
    ids = {"id", "pending"}
    ids |= {f"{kind}.{n}" for n, f in fields.items() if f.type is VertexId
            for kind in ("state", "tracked")}  # fmt: skip
    if part.algebra.type is VertexId:
        ids |= {"msg", "seen"}
    return {n: renamed(x) if n in ids else x for n, x in columns.items()}
