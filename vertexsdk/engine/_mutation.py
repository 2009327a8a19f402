"""A graph changed by its own program: edges added and removed, vertices created.

The topology is immutable, so a change makes a new one and moves the arrays over. The numbers
by which other partitions know this one's ghosts stay what they are: new ghosts are appended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile.delivery import filled
from vertexsdk.compile.mutation_log import ADD, EMIT, REMOVE, LogEntry
from vertexsdk.compile.vertex_arrays import VertexArrays, default_column
from vertexsdk.graph.load.transpose import transpose
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.program.algebra import Algebra
from vertexsdk.program.program import Program

Array = NDArray[Any]


@dataclass
class GraphMutations:
    """The changes to be made to one partition's graph."""

    removed_edges: list[int] = field(default_factory=list)  # edge numbers
    values: dict[int, Any] = field(default_factory=dict)  # new value by edge number
    added: list[tuple[int, int, Any]] = field(default_factory=list)  # vertex, target id, value
    touched: set[int] = field(default_factory=set)  # vertices whose targets change
    create: set[int] = field(default_factory=set)  # ids to own, if they are not yet there
    registered: dict[int, Array] = field(default_factory=dict)  # ghosts appended elsewhere
    producers: dict[int, Array] = field(default_factory=dict)  # ids of their producers (Latest)

    def __bool__(self) -> bool:
        return bool(self.touched or self.create or self.registered)

    def note(self, entries: Sequence[LogEntry], topology: Topology) -> None:
        """Take in all logged requests; what leaves a row as it is counts as none."""
        wishes: dict[tuple[int, int], tuple[bool, bool, Any]] = {}  # removed first, added, value
        for e in entries:
            if e.what == REMOVE:
                wishes[e.vertex, e.target] = (True, False, None)
            elif e.what == ADD:
                removed, _, value = wishes.get((e.vertex, e.target), (False, False, None))
                wishes[e.vertex, e.target] = (removed, True, value if e.value is None else e.value)
        rows = _Rows(topology)
        for (vertex, target), wish in wishes.items():
            self._wish(vertex, target, wish, rows.find(vertex, target), topology)
        ids = [e.target for e in entries if e.what == EMIT] + [
            target for _, target, _ in self.added
        ]
        if ids:
            known = np.array(ids, np.int64)
            mine = known[topology.owners(known) == topology.partition]
            self.create |= set(mine[~np.isin(mine, topology.ids)].tolist())

    def _wish(
        self, vertex: int, target: int, wish: tuple[bool, bool, Any], edges: range, t: Topology
    ) -> None:
        removed, added, value = wish
        anew = len(edges) == 0
        if removed:
            value = 1 if value is None else value
            # Added again, it is the edge there was, if that was one and pointed this way.
            backward = t.reverse is not None and bool(edges) and bool(t.reverse[edges[0]])
            anew |= len(edges) > 1 or backward
        if not added or anew:
            self.removed_edges += edges
        if added and anew:
            self.added.append((vertex, target, 1 if value is None else value))
        elif added and value is not None and t.value is not None:
            old, new = t.value[edges[0]], t.value.dtype.type(value)
            if old == new or (old != old and new != new):
                return
            self.values[edges[0]] = new
        elif added:
            return
        if added or edges:
            self.touched.add(vertex)


class _Rows:
    """Finds a vertex's edges to a target; quick for many questions about one vertex."""

    def __init__(self, t: Topology) -> None:
        self.t, self.slot_ids = t, np.concatenate([t.ids, t.ghost_ids])
        self.vertex, self.row = -1, t.ids[:0]

    def find(self, vertex: int, target: int) -> range:
        """The numbers of the edges from local vertex `vertex` to the id `target`."""
        lo, hi = int(self.t.start[vertex]), int(self.t.start[vertex + 1])
        if vertex != self.vertex:
            self.vertex, self.row = vertex, self.slot_ids[self.t.target[lo:hi]]
        first = int(np.searchsorted(self.row, target))
        return range(lo + first, lo + int(np.searchsorted(self.row, target, side="right")))


@dataclass
class Restructured:
    """The new vertices, and how to find the old ones in them."""

    vertices: VertexArrays
    moved: Array  # int32: new local index of each old vertex
    created: Array  # int32: local indices of new vertices
    appended: dict[int, Array]  # per partition: ids of ghosts it has to learn
    sources: dict[int, Array]  # and, with a ghost per edge, of their producers
    touched: Array  # int32: vertices whose targets changed, new local indices
    lost: Array  # int32: slots which lost an in-edge


def restructure(
    v: VertexArrays, changes: GraphMutations, program: Program, each: bool
) -> Restructured:
    """Return the partition with the changes made; messages are kept per edge.

    Args:
        v: the partition; not changed.
        changes: what to do.
        program: its fields and algebra.
        each: there is a ghost per remote edge (Latest) instead of one per remote vertex.
    """
    t = v.topology
    registered = {p: ids for p, ids in changes.registered.items() if len(ids)}
    create = set(changes.create)
    for ids in registered.values():
        create |= set(ids[~np.isin(ids, t.ids)].tolist())
    created_ids = np.array(sorted(create), np.int64)
    ids = np.sort(np.concatenate([t.ids, created_ids]))
    moved = np.searchsorted(ids, t.ids).astype(np.int32)
    created = np.searchsorted(ids, created_ids).astype(np.int32)
    n = len(ids)

    table = _EdgeTable.of(t, moved)
    lost_ids, lost_ghosts = table.apply(changes, moved, t)
    ghost_ids, ghost_start, ordinal, appended, behind = _ghosts(t, table, each)
    slot = np.where(table.local >= 0, np.searchsorted(ids, table.ids), n + ordinal).astype(np.int64)
    order = np.lexsort((table.reverse, table.ids, table.source))
    source, slot = table.source[order], slot[order]
    edge = table.edge[order]  # old edge number, -1 for a new one
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=n), out=start[1:])

    inbound, inbound_start = _inbound(t, moved, registered, ids)
    target = slot.astype(np.int32)
    in_start, in_source = transpose(start, target, n + len(ghost_ids), inbound)
    topology = replace(
        t,
        ids=ids,
        start=start,
        target=target,
        ghost_ids=ghost_ids,
        ghost_start=ghost_start,
        inbound=inbound,
        inbound_start=inbound_start,
        in_start=in_start,
        in_source=in_source,
        producers=None,
        in_order=None,
        inbound_order=None,
        kind=None if t.kind is None else _spread(t.kind, moved, n, 0),
        value=None if t.value is None else table.value[order].astype(t.value.dtype),
        reverse=None if t.reverse is None else table.reverse[order],
    )
    for array in topology.to_columns()[0].values():
        array.flags.writeable = False  # as those that were loaded, or kernels would compile twice
    lost = np.concatenate(
        [np.searchsorted(ids, lost_ids), n + _ghost_shift(t, ghost_start)[lost_ghosts]]
    )
    return Restructured(
        _carry(v, topology, program, moved, edge, changes.producers),
        moved,
        created,
        appended,
        {p: ids[x] for p, x in behind.items()},
        moved[sorted(changes.touched)],
        lost.astype(np.int32),
    )


@dataclass
class _EdgeTable:
    """Edges as columns: source (new index), target id, value, old edge number, old ghost."""

    source: Array
    ids: Array
    value: Array
    reverse: Array
    edge: Array
    ghost: Array  # old ghost number, -1 where local, -2 where remote and new
    local: Array  # >= 0 where the target is owned here

    @classmethod
    def of(cls, t: Topology, moved: Array) -> _EdgeTable:
        sources = np.repeat(np.arange(t.n), np.diff(t.start))
        slot_ids = np.concatenate([t.ids, t.ghost_ids])
        target = t.target.astype(np.int64)
        return cls(
            source=moved[sources].astype(np.int64),
            ids=slot_ids[target],
            value=t.value if t.value is not None else np.zeros(t.m),
            reverse=t.reverse if t.reverse is not None else np.zeros(t.m, np.bool_),
            edge=np.arange(t.m),
            ghost=np.where(target >= t.n, target - t.n, -1),
            local=np.where(target < t.n, 0, -1),
        )

    def apply(self, changes: GraphMutations, moved: Array, t: Topology) -> tuple[Array, Array]:
        """Remove, update and append edges; return the local ids and old ghosts that lost one."""
        value = self.value.copy()
        for edge, x in changes.values.items():
            value[edge] = x
        keep = np.ones(len(self.source), np.bool_)
        keep[changes.removed_edges] = False
        lost = (self.ids[~keep & (self.local >= 0)], self.ghost[~keep & (self.ghost >= 0)])
        added = changes.added
        new_ids = np.array([target for _, target, _ in added], np.int64)
        mine = t.owners(new_ids) == t.partition
        count = len(added)

        def join(old: Array, new: Any) -> Array:
            return np.concatenate([old[keep], np.asarray(new, old.dtype)])

        self.source = join(self.source, [moved[vertex] for vertex, _, _ in added])
        self.value = join(value, [x for _, _, x in added])
        self.ids = join(self.ids, new_ids)
        self.reverse = join(self.reverse, np.zeros(count, np.bool_))
        self.edge = join(self.edge, np.full(count, -1))
        self.ghost = join(self.ghost, np.where(mine, -1, -2))
        self.local = join(self.local, np.where(mine, 0, -1))
        return lost


def _ghosts(
    t: Topology, table: _EdgeTable, each: bool
) -> tuple[Array, Array, Array, dict[int, Array], dict[int, Array]]:
    """Append ghosts for new remote targets.

    Returns ids, starts, number per edge, and per partition the new ids and their sources.
    """
    number = table.ghost.copy()
    fresh = np.flatnonzero(number == -2)
    if not each and len(fresh):
        known = np.argsort(t.ghost_ids, kind="stable")
        at = np.searchsorted(t.ghost_ids[known], table.ids[fresh])
        at_safe = np.minimum(at, max(len(known) - 1, 0))
        hit = (at < len(known)) & (
            (t.ghost_ids[known][at_safe] == table.ids[fresh]) if len(known) else False
        )
        number[fresh[hit]] = known[at_safe[hit]]
        fresh = fresh[~hit]
    owners = t.owners(table.ids[fresh])
    pieces, starts, appended, behind = [], [0], {}, {}
    placed = np.full(len(number), -1, np.int64)
    shift = np.zeros(len(t.ghost_ids), np.int64)
    total = 0
    for p in range(t.partitions):
        lo, hi = int(t.ghost_start[p]), int(t.ghost_start[p + 1])
        shift[lo:hi] = total - lo
        mine = fresh[owners == p]
        wanted = table.ids[mine] if each else np.unique(table.ids[mine])
        pieces += [t.ghost_ids[lo:hi], wanted]
        first = total + hi - lo
        placed[mine] = first + (
            np.arange(len(mine)) if each else np.searchsorted(wanted, table.ids[mine])
        )
        total = first + len(wanted)
        starts.append(total)
        if len(wanted):
            appended[p] = wanted
            if each:
                behind[p] = table.source[mine]
    old = number >= 0
    placed[old] = number[old] + shift[number[old]]
    return np.concatenate(pieces), np.array(starts, np.int64), placed, appended, behind


def _ghost_shift(t: Topology, ghost_start: Array) -> Array:
    """The new number of every old ghost."""
    groups = np.repeat(np.arange(t.partitions), np.diff(t.ghost_start))
    return np.arange(t.ghosts) + (ghost_start[:-1] - t.ghost_start[:-1])[groups]


def _inbound(
    t: Topology, moved: Array, registered: Mapping[int, Array], ids: Array
) -> tuple[Array, Array]:
    pieces, starts = [], [0]
    for p in range(t.partitions):
        old = moved[t.inbound[int(t.inbound_start[p]) : int(t.inbound_start[p + 1])]]
        new = np.searchsorted(ids, registered.get(p, np.empty(0, np.int64)))
        pieces += [old, new.astype(np.int32)]
        starts.append(starts[-1] + len(old) + len(new))
    return np.concatenate(pieces).astype(np.int32), np.array(starts, np.int64)


def _spread(old: Array, moved: Array, n: int, default: Any) -> Array:
    new = np.empty((n, *old.shape[1:]), old.dtype)
    new[...] = default
    new[moved] = old
    return new


def _carry(
    v: VertexArrays,
    t: Topology,
    program: Program,
    moved: Array,
    edge: Array,
    learnt: Mapping[int, Array],
) -> VertexArrays:
    """Move states, messages and one-shots to the new numbering; aggregates start empty."""
    states, tracked = {}, {}
    for name, f in program.states().items():
        states[name] = default_column(t.n, f)
        states[name][moved] = v.states[name]
        if name in v.tracked:
            tracked[name] = default_column(t.n, f)
            tracked[name][moved] = v.tracked[name]
    algebra = program.algebra
    assert algebra is not None
    old = v.topology
    msg = filled(t.m + len(t.inbound), algebra)
    msg[np.flatnonzero(edge >= 0)] = v.msg[edge[edge >= 0]]
    for p in range(t.partitions):
        lo, hi = int(old.inbound_start[p]), int(old.inbound_start[p + 1])
        first = t.m + int(t.inbound_start[p])
        msg[first : first + hi - lo] = v.msg[old.m + lo : old.m + hi]
    producers = None
    if v.producers is not None:
        empty = np.empty(0, np.int64)
        cuts = old.inbound_start
        producers = np.concatenate(
            [
                x
                for p in range(t.partitions)
                for x in (v.producers[int(cuts[p]) : int(cuts[p + 1])], learnt.get(p, empty))
            ]
        )
    agg = v.agg if algebra.kind == "latest" else _carry_slots(v.agg, old, t, moved, algebra)
    return VertexArrays(
        t, states, msg, agg, np.sort(moved[v.pending]), tracked,
        {int(moved[k]): x for k, x in v.once.items()}, dict(v.extra), v.all_pending,
        moved[v.created], moved[v.moved], producers,
        None if v.gathered is None else _carry_slots(v.gathered, old, t, moved, algebra),
    )  # fmt: skip


def _carry_slots(
    values: Array, old: Topology, t: Topology, moved: Array, algebra: Algebra
) -> Array:
    """Move a value per slot to the new numbering; new slots have the identity."""
    result = filled(t.n + t.ghosts, algebra)
    result[moved] = values[: old.n]
    result[t.n + _ghost_shift(old, t.ghost_start)] = values[old.n :]
    return result
