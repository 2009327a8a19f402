"""The state of a run's partition between two supersteps, in snapshots, and how to go on from one.

A segment of kind "snapshot" has all that the next iterations depend on: the arrays of
`VertexArrays`, with the messages that came last taken in; the graph, if the program has changed
it; and what the master knows. A graph that is divided as it was then goes on bit for bit. One that
is divided otherwise takes the rows of its vertices from all segments, and combines their messages
anew.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile.delivery import Delivery
from vertexsdk.engine._iterations import Iterations
from vertexsdk.engine._processor import Processor, merged
from vertexsdk.engine.commands import WorkDone
from vertexsdk.engine.events._events_partition import PICKLED, EventPartition
from vertexsdk.engine.supersteps import RunPosition, Steps, SuperstepEnd, end_superstep
from vertexsdk.errors import InputError
from vertexsdk.graph.topology import Topology
from vertexsdk.program.algebra import Algebra
from vertexsdk.state import CorruptError, SegmentRef, Store
from vertexsdk.state.stored_columns import Described, accepted_values
from vertexsdk.state.stored_pickles import unpickle

Array = NDArray[Any]
Columns = dict[str, Array]
_AGGREGATE = "aggregate."
_META: dict[str, type] = {
    "all_pending": bool, "changed": bool, "iteration": int, "vertices": int, "placed": int,
    "python": list,
}  # fmt: skip
_NOBODY = np.empty(0, np.int32)


def graph_of(run: Iterations) -> Topology:
    """The partition's graph, as it was loaded if nothing has run yet."""
    part = run.processor
    topology: Topology = part.v.topology if isinstance(part, Processor) else part.topology
    return topology


def captured(run: Iterations, loaded: Array) -> tuple[Columns, dict[str, Any]]:
    """Return copies of what `restore` takes, as the columns and the meta of a segment.

    What was sent to the partition has been delivered, and settled.

    Args:
        loaded: int64[n], the vertices of the partition's graph as it was loaded.
    """
    master = run.master
    columns, meta = run.processor.captured()
    python = []
    for name, value in master.aggregates.items():
        column = np.empty(1, object)
        column[0] = value
        if run.plan.program.aggregators[name].dtype != object:
            column = np.array([value])
        columns[_AGGREGATE + name] = column
        if not isinstance(value, np.ndarray | np.generic):
            python.append(name)
    meta |= {
        "iteration": master.iteration, "vertices": run.vertices, "placed": zlib.crc32(loaded.data),
        "python": python,
    }  # fmt: skip
    return columns, meta


def restore(
    run: Iterations, store: Store, refs: Sequence[SegmentRef], *, alike: bool, trusted: bool
) -> Steps[None]:
    """Have a partition that has not begun go on from a snapshot of the same graph.

    Args:
        refs: of all partitions that there were.
        alike: the graph is divided as it was then.
        trusted: pickled objects may be read.

    Raises:
        InputError: the graph is divided otherwise, and messages are not kept for each vertex.
        CorruptError: the snapshot does not fit the graph.
    """
    part = run.processor
    events = isinstance(part, EventPartition)
    own = [ref for ref in refs if ref.key.partition == part.partition] if alike else refs
    aggregates = run.plan.program.aggregators
    described = _described(part, aggregates)
    read = [_read(store, ref, described, trusted=trusted) for ref in own]
    columns, meta = read[0]
    if alike and meta["placed"] != zlib.crc32(graph_of(run).ids.data):
        raise InputError(
            f"{run.plan.program.name}: vertices are in other partitions than when the snapshot "
            "was taken; give the partitioner that the run had, or leave out resume=True"
        )
    if events:
        part.clear()
        for ref, (pickled, _) in zip(own, read, strict=True):
            with store.naming_segment(ref):
                content = unpickle(pickled["pickle"].tobytes(), *PICKLED)
                part.take_over(*content)
    elif alike:
        part.restore(columns, meta)
    else:
        yield from _divided(part, read)
    values = {
        name: _value(columns[_AGGREGATE + name], python=name in meta["python"])
        for name in aggregates
    }
    run.resume(RunPosition(meta["iteration"], values, meta["vertices"]), [], WorkDone())


def _described(
    part: Processor | EventPartition, aggregators: Mapping[str, Algebra]
) -> dict[str, Described]:
    """What the segments of a snapshot must have."""
    if isinstance(part, EventPartition):
        return {"pickle": Described(np.uint8, rows="")}
    described = part.described()
    for name, one in aggregators.items():
        shape = () if one.size is None else (one.size,)
        described[_AGGREGATE + name] = Described(one.dtype, shape, rows="aggregate")
    return described


def _read(
    store: Store, ref: SegmentRef, described: Mapping[str, Described], *, trusted: bool
) -> tuple[Columns, dict[str, Any]]:
    """The columns and the meta of a segment; places are within its vertices."""
    columns = store.segment(ref, described=described, trusted=trusted)
    with store.naming_segment(ref):
        meta = accepted_values(store.table(ref).meta, _META)
        n = len(columns["id"]) if "id" in columns else 0
        for name in ("pending", "once.vertex"):
            places = columns.get(name, _NOBODY)
            if len(places) and not 0 <= places.min() <= places.max() < n:
                raise CorruptError(f"column {name!r} has a vertex that is not there")
        if len(columns.get("gathered", columns.get("id", _NOBODY))) < n:
            raise CorruptError("column 'gathered' is too short")
    return columns, meta


def _value(column: Array, *, python: bool) -> Any:
    value = column[0]
    if not python or column.dtype == object:
        return value.copy() if isinstance(value, np.ndarray) else value
    return value.item() if column.ndim == 1 else tuple(value.tolist())


def _divided(part: Processor, read: Sequence[tuple[Columns, dict[str, Any]]]) -> Steps[None]:
    """Take the rows of this partition's vertices from the segments of all that there were."""
    v, plan = part.v, part.plan
    why = _undivided(part, read)
    if why is not None:
        raise InputError(
            f"{plan.program.name}: {why}, so it goes on with {len(read)} partitions only "
            f"(partitions={len(read)})"
        )
    ids, n = v.topology.ids, v.topology.n
    everyone = np.zeros(n, np.bool_)
    pending, same = [ids[:0]], np.zeros(n, np.bool_)
    for columns, meta in read:
        then = columns["id"]
        rows = np.flatnonzero(np.isin(then, ids))
        at = np.searchsorted(ids, then[rows])
        everyone[at] = True
        for name, values in v.states.items():
            values[at] = columns[f"state.{name}"][rows]
        for name, values in v.tracked.items():
            values[at] = columns[f"tracked.{name}"][rows]
        if plan.shape == "uniform":
            v.msg[at] = columns["msg"][rows]
        if v.gathered is not None:
            v.gathered[at] = columns["gathered"][rows]
            same[at] = _equal(columns["gathered"], columns["agg"])[rows]
        pending.append(then[columns["pending"]])
        if "once.vertex" in columns:
            for k, vertex in enumerate(then[columns["once.vertex"]].tolist()):
                there = int(np.searchsorted(ids, vertex))
                if there < n and ids[there] == vertex:
                    v.once[there] = columns["once.value"][k]
        v.all_pending = bool(meta["all_pending"])
    if not everyone.all():
        raise InputError(
            f"{plan.program.name}: the snapshot lacks {np.count_nonzero(~everyone):,} vertices of "
            "the graph; resume with the graph of which it is"
        )
    yield from _combine(part)
    waiting = np.concatenate(pending)
    waiting = waiting[np.isin(waiting, ids)]
    v.pending = merged(np.searchsorted(ids, waiting).astype(np.int32))
    if v.gathered is not None:
        v.gathered[:n][same] = v.agg[:n][same]
        v.gathered[n:] = v.agg[n:]


def _undivided(part: Processor, read: Sequence[tuple[Columns, dict[str, Any]]]) -> str | None:
    """Why rows of a snapshot cannot be taken by other partitions; None if they can."""
    if part.plan.shape not in ("uniform", "derived"):
        return "its messages are kept for each edge"
    if any(meta["changed"] for _, meta in read):
        return "it has changed the graph"
    if part.plan.reaches:
        return "it reads the targets of targets"
    return None


def _combine(part: Processor) -> Steps[None]:
    """Combine the messages of all vertices, of this partition and others."""
    v, t, delivery = part.v, part.v.topology, part.delivery
    ghosts = np.arange(t.n, t.n + t.ghosts, dtype=np.int32)
    combines = part.algebra.kind != "latest"
    if combines:
        _recompute(delivery, ghosts, v.msg, v.agg)
    part.outgoing = {}
    part.send(ghosts)
    received, _ = yield from end_superstep(part.blocks(), SuperstepEnd())
    part.receive(received)
    if combines:
        _recompute(delivery, np.arange(t.n, dtype=np.int32), v.msg, v.agg)


def _recompute(delivery: Delivery, slots: Array, msg: Array, agg: Array) -> None:
    if len(slots):
        delivery.recompute(slots, msg, agg)
        delivery.finish(msg, agg)


def _equal(a: Array, b: Array) -> Array:
    """Which rows have the same values."""
    rows = min(len(a), len(b))
    a, b = a[:rows], b[:rows]
    same: Array = (a == b) | ((a != a) & (b != b))
    if same.ndim > 1:
        same = np.logical_and.reduce(same, axis=1)
    return same
