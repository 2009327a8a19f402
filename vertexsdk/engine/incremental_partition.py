"""A partition whose graph changes under a program's state, in an arena: changes, iterations, state.

Changes of edges are changes of messages: one that comes, goes or has another value. What that
withdraws is trimmed at once (`withdraw`), so that a budget of iterations may end anywhere.
Between two calls every aggregate is what the messages of all producers come to, and `pending` are
the vertices whose state may not follow from their aggregate yet.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.json_values import to_scalars
from vertexsdk.compile.adjacency_kernels import entries_of
from vertexsdk.compile.delivery import Delivery, filled
from vertexsdk.compile.methods import Edges, Methods, Scope
from vertexsdk.compile.mutation_log import MutationLog
from vertexsdk.compile.plan import Plan, delivery_module
from vertexsdk.compile.vertex_arrays import VertexArrays
from vertexsdk.engine._arena_partition import UNWRITTEN, ArenaPartition
from vertexsdk.engine._mirrors import Mirrors
from vertexsdk.engine._row_kernels import DELETE, INSERT
from vertexsdk.engine.adjacency import Edits, distinct
from vertexsdk.engine.arena import Arena
from vertexsdk.engine.commands import LoopCommand, LoopReport, RestoreState
from vertexsdk.engine.iterations import combining, make_master
from vertexsdk.engine.master import IterationStats, Master, combine_aggregates
from vertexsdk.engine.new_partition import NewPartition
from vertexsdk.engine.processor import merged
from vertexsdk.engine.snapshot_writer import SNAPSHOT_LAYERS, WriteSnapshot
from vertexsdk.engine.snapshots import SnapshotRequest
from vertexsdk.engine.supersteps import Steps, SuperstepEnd, end_superstep
from vertexsdk.errors import VertexError
from vertexsdk.program.algebra import Algebra, VertexId
from vertexsdk.state import CorruptError, SegmentRef, Store, open_store
from vertexsdk.state.stored_columns import Described, accepted_values, described_like
from vertexsdk.state.version_writer import DeltaLayers
from vertexsdk.transport.transport import Blocks

Array = NDArray[Any]
CHANGED = np.uint8(2)  # bit of the column "dirty": since the last snapshot
_DIRTY = UNWRITTEN | CHANGED
_SMALL = 1 << 20  # bytes of rows that are copied at once; more are read from a fork
_DRIFT = 1e-6  # fields are scaled where their sum changes by this part of what they change
_FAR = 32.0  # fields are scaled by no more than so many times what an iteration changes
_NUMBER = (int, float, type(None))
_META: dict[str, type | tuple[type, ...]] = {  # what snapshots have of `Arena.meta`
    "clock": int, "aggregates": dict, "falling": bool, "settled": bool, "unsent": bool,
    "unsure": bool, "gathered": list, "slice": (list, type(None)), "since": int, "spent": int,
    "good": _NUMBER, "from init": _NUMBER, "bad": _NUMBER, "scaling": str,
}  # fmt: skip


class IncrementalPartition(ArenaPartition):
    """A partition of a loop that continues from the previous answer.

    Args:
        plan: plan of the loop; one class, messages per vertex or derived.
        layout: layout of the adjacency.
        partition: its number.
    """

    def __init__(self, plan: Plan, layout: str, partition: int = 0) -> None:
        assert plan.program.algebra is not None
        self.algebra = plan.program.algebra
        columns: dict[str, Any] = {"dirty": (np.uint8, 0), "level": (np.int32, 0)}
        for name, f in plan.program.states().items():
            columns |= {f"{kind}.{name}": (f.dtype, f.default) for kind in ("state", "tracked")}
        columns |= dict.fromkeys(
            ("agg", "seen", "msg"), (self.algebra.dtype, self.algebra.identity)
        )
        self.module = delivery_module(self.algebra)
        self.comparing = self.algebra.kind != "sum"  # and so values are trimmed
        super().__init__(plan, layout, partition, columns)

    def _place(self, arena: Arena) -> None:
        super()._place(arena)
        self.mirrors, self.alone = self.graph.mirrors, self.graph.alone
        self.adjacency, self.index = self.graph.adjacency, self.graph.index

    @cached_property
    def sums_read(self) -> list[str]:
        """The aggregators that are sums, and that gather reads in every iteration."""
        program = self.plan.program
        if self.comparing or not self.plan.always:
            return []
        names = program.classes[0].facts.aggregates_read
        return [n for n in sorted(names) if program.aggregators[n].kind == "sum"]

    def begin(self, new: NewPartition) -> None:
        """Begin with a graph, before iteration 0."""
        super().begin(new)
        self.arena.resize("pending", 0, np.int32)
        self.arena.meta |= {
            "clock": 0, "aggregates": {}, "due": False, "layers": None,
            "all": 0, "begun": False, "unsure": False, "unsent": False, "falling": False,
            "worse": False, "settled": False, "scaling": "",
        }  # fmt: skip
        for kept in ("state", "tracked"):
            columns = {n: self.arena[f"{kept}.{n}"] for n in self.plan.program.states()}
            self.plan.fill(columns, new.topology.ids)  # only constant fields (`Facts`)
        self.refresh()

    def refresh(self) -> None:
        """Take the arrays of the arena again, after they were moved or made longer."""
        a, plan = self.arena, self.plan
        t: Any = self.adjacency.topology(a.read("ids"))
        states = {name: a[f"state.{name}"] for name in plan.program.states()}
        uniform = plan.shape == "uniform"
        self.v = VertexArrays(
            t, states, a["msg"] if uniform else a["msg"][:0], a["agg"], a["pending"]
        )
        self.v.level, self.v.all_pending = a["level"], False
        if plan.tracked:
            self.v.tracked = {name: a[f"tracked.{name}"] for name in states}
        self.delivery = Delivery(t, self.algebra, plan.shape, self.module, plan.threads)
        self.delivery.lazy, self.delivery.due = plan.always, bool(a.meta["due"])
        none = {k: x.identity for k, x in plan.program.aggregators.items()}
        if plan.shape == "derived":
            part = weakref.proxy(self)  # so that its arrays are freed with it
            self.delivery.derived = lambda slots: part.methods.repair(part.v, part.delivery, slots)
        self.messages = EdgeMessages(plan.shape, self.methods, self.delivery)
        self.methods.num_vertices = self.all_vertices
        self._aggregates = {**none, **a.meta["aggregates"]}
        self.log = MutationLog(self.algebra, plan.program.value_dtype)

    def keep(self) -> None:
        """Save in the arena what a fork needs to know."""
        a = self.arena
        a.meta["due"] = self.delivery.due
        a.meta["aggregates"] = to_scalars(self.aggregates)

    @property
    def begun(self) -> bool:
        """True if iteration 0 has run."""
        return bool(self.arena.meta["begun"])

    @property
    def pending(self) -> int:
        return self.arena.length("pending")

    @property
    def aggregates(self) -> dict[str, Any]:
        return self._aggregates

    @property
    def all_vertices(self) -> int:
        """The number of vertices of all partitions."""
        return self.graph.vertices if self.alone else int(self.arena.meta["all"])

    def _tick(self) -> int:
        self.arena.meta["clock"] += 1
        self.delivery.worse = False  # edges that go may withdraw messages
        return self.clock

    def refresh_topology(self) -> None:
        """Make the views anew and keep what was found."""
        self.keep()
        self.refresh()

    def _schedule(self, places: Array) -> None:
        places = self.mirrors.local(places)
        if len(places):
            self.arena.put("pending", merged(self.arena["pending"], places))

    def written(self) -> tuple[str, dict[str, Array]] | None:
        return self.written_layer(self.v.states)

    # Snapshots: a segment of kind "snapshot" has a row for each vertex, in any order, and `pending`
    # has the ids of all vertices that are to gather. Groups "all" and "" have all vertices, group
    # "delta" those that changed since the segment before. What belongs to the partition as a whole
    # is in the segment's meta. Aggregates are not stored, as they follow from the messages of the
    # producers: any number of partitions can continue from a snapshot.

    def capture(self, request: SnapshotRequest) -> tuple[bool, WriteSnapshot]:
        """Take the graph and the state for a snapshot, as they are now."""
        state = self._capture_state(request)
        _, graph = super().capture(request)
        if state is None:
            return False, graph
        return True, lambda store: [*graph(store), *state(store)]

    def _capture_state(self, request: SnapshotRequest) -> WriteSnapshot | None:
        """Return what writes the state as it is now; None before iteration 0."""
        self.keep()
        arena, meta = self.arena, self.arena.meta
        if not meta["begun"]:
            return None
        _, layers = (None if request.whole else meta.get(SNAPSHOT_LAYERS)) or ("", None)
        rows, layers = self.take_dirty(CHANGED, layers)
        if layers is None:
            group, rows = "all" if request.whole else "", self.graph.present_places()
        else:
            group, rows = "delta", rows[arena["alive"][rows] != 0]
        meta[SNAPSHOT_LAYERS] = request.token, layers or DeltaLayers()
        names = self._columns_of_state()
        about = {
            "meta": {name: meta[name] for name in _META if name in meta},
            "placed": 0 if self.mirrors.placement is not None else len(self.plan.topologies),
        }
        pending = arena["ids"][arena["pending"]]
        size = len(rows) * sum(arena[name].itemsize for name in names)
        at, content = (self.plan.loop, self.partition, self.clock), dict[str, Array]()
        if request.waits or size <= _SMALL:
            content = {name: arena[name][rows] for name in names}
        else:
            arena = arena.fork(names)
            self.refresh()

        def write(store: Store) -> list[SegmentRef]:
            columns = content or {name: arena[name][rows] for name in names}
            columns = {"id": columns["ids"], **columns, "pending": pending}
            del columns["ids"]
            return [store.put_segment(*at, "snapshot", columns, about, group=group)]

        return write

    def _columns_of_state(self) -> list[str]:
        """The arrays of which a snapshot has the rows."""
        fields = list(self.plan.program.states())
        names = ["ids", *(f"state.{name}" for name in fields)]
        if self.plan.tracked:
            names += [f"tracked.{name}" for name in fields]
        if self.plan.shape == "uniform":
            names.append("msg")
        if self.comparing:
            names += ["level", "seen"]
        return names

    def restore(self, state: RestoreState) -> Steps[None]:
        """Continue from the state of a snapshot, before iteration 0."""
        arena, refs = self.arena, state.segments
        hashed = self.mirrors.placement is None
        newest = {ref.key.partition: ref for ref in refs}
        pending = [np.zeros(0, np.int64)]
        meta: dict[str, Any] = {}
        ids, *names = self._columns_of_state()
        described = {
            "id": Described(arena[ids].dtype), **described_like({n: arena[n] for n in names}),
            "pending": Described(np.int64, rows=""),
        }  # fmt: skip
        assert self.plan.store is not None
        with open_store(self.plan.store, create=False) as store:
            for ref in refs:
                table = store.table(ref)
                with store.naming_segment(ref):
                    about = accepted_values(table.meta, {"meta": dict, "placed": int})
                    meta = _accepted_meta(about["meta"], self.plan.program.aggregators)
                alike = hashed and about["placed"] == len(self.plan.topologies)
                if alike and state.codes is None and ref.key.partition != self.partition:
                    continue
                columns = store.segment(ref, described=described)
                with store.naming_segment(ref):
                    columns = self._renamed(columns, state.codes)
                vertices, waiting = columns.pop("id"), columns.pop("pending")
                if newest[ref.key.partition] is ref:
                    pending.append(waiting[self.mirrors.owns(waiting)])
                places = np.full(len(vertices), -1, np.int64)
                owned = self.mirrors.owns(vertices)
                places[owned] = self.index.find(vertices[owned])
                there = places >= 0
                for name, values in columns.items():
                    arena[name][places[there]] = values[there]
        none = {"layers": None, SNAPSHOT_LAYERS: None}
        arena.meta |= {**meta, "begun": True, "due": False, **none}
        self.refresh()
        yield from self._send_all()
        places = np.unique(self.index.find(np.concatenate(pending))).astype(np.int32)
        arena.put("pending", places[places >= 0])

    def _renamed(
        self, columns: dict[str, Array], codes: tuple[Array, Array] | None
    ) -> dict[str, Array]:
        """Return columns with the codes of string ids now; an id may stand as its complement."""
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

        fields = self.plan.program.states()
        ids = {"id", "pending"}
        ids |= {f"{kind}.{n}" for n, f in fields.items() if f.type is VertexId
                for kind in ("state", "tracked")}  # fmt: skip
        if self.algebra.type is VertexId:
            ids |= {"msg", "seen"}
        return {n: renamed(x) if n in ids else x for n, x in columns.items()}

    def _send_all(self) -> Steps[None]:
        """Tell mirrors what their vertices sent last, and have all aggregates follow from it."""
        yield from self._update_mirrors(self.graph.present_places(), self._end())
        v, delivery = self.v, self.delivery
        if delivery.derived is None:
            delivery.due = True
        else:
            delivery.derived(self.mirrors.local(np.arange(self.index.n, dtype=np.int32)))
        delivery.finish(v.msg, v.agg)
        delivery.worse = self.arena.meta["worse"] = False

    # Between partitions. --------------------------------------------------------------------------

    def exchange(
        self, end: PartitionEnd, blocks: Blocks | None = None
    ) -> Steps[tuple[Blocks, PartitionEnd]]:
        """End a superstep; return what came, and what all partitions say together."""
        meta = self.arena.meta
        end.vertices, end.unsure = self.graph.vertices, meta["unsure"]
        end.falling = meta["falling"] or meta["worse"]
        self.bytes_sent += sum(len(block) for _, block in blocks or ())
        received, ends = yield from end_superstep(blocks or [], end)
        total = PartitionEnd.total(ends, self.plan.program.aggregators)
        meta |= {"all": total.vertices, "falling": total.falling, "unsure": total.unsure}
        meta["worse"] = False
        self.methods.num_vertices = total.vertices
        return received, total

    def _end(self, **counts: Any) -> PartitionEnd:
        """The report of this partition at the end of a superstep, with an empty progress."""
        aggregators = self.plan.program.aggregators
        aggregates = {k: x.identity for k, x in aggregators.items()}
        end = PartitionEnd(IterationStats(aggregates=aggregates))
        for name, count in counts.items():
            setattr(end, name, count)
        return end

    def _update_mirrors(self, senders: Array, end: PartitionEnd) -> Steps[PartitionEnd]:
        """End a superstep in which vertices scattered; their mirrors take it over."""
        v = self.v
        if self.plan.shape == "uniform":
            columns = {"msg": v.msg}
        else:
            columns = {f"state.{name}": x for name, x in v.states.items()}
        if self.comparing:
            columns["level"] = self.arena["level"]
        blocks = self.mirrors.blocks(senders, v.topology, self.arena["ids"], columns)
        end.progress.sent += len(blocks)
        received, total = yield from self.exchange(end, blocks)
        updates = Mirrors.read(received)
        if updates is not None:
            self._apply_updates(updates)
        return total

    def _apply_updates(self, updates: dict[str, Array]) -> None:
        """Give mirrors the messages or states of their vertices, and deliver what changed."""
        v, delivery, a = self.v, self.delivery, self.arena
        places = self.index.find(updates["id"])
        if (places[1:] <= places[:-1]).any():
            order = np.argsort(
                places, kind="stable"
            )  # quick, as what each partition sent is in order
            places, updates = places[order], {name: x[order] for name, x in updates.items()}
        if self.comparing:
            a["level"][places] = updates["level"]
        has_value = a["has_value"][places]
        a["has_value"][places] = True
        if self.plan.shape == "uniform":
            old = v.msg[places]
            v.msg[places] = updates["msg"]
            if not delivery.due:
                changed = old != updates["msg"]
                delivery.push([(places[changed], old[changed])], v.msg, v.agg)
        else:
            changed = np.zeros(len(places), np.bool_)
            for name, column in v.states.items():
                changed |= column[places] != updates[f"state.{name}"]
                column[places] = updates[f"state.{name}"]
            for iteration, some in ((0, places[~has_value]), (1, places[has_value & changed])):
                self._scatter(some, iteration)
            self._forget_earlier_states(places[~has_value])
        if not delivery.due:
            self._schedule(delivery.finish(v.msg, v.agg))

    def _forget_earlier_states(self, mirrors: Array) -> None:
        """Repair what was computed from the states of mirrors before they had their values again.

        A mirror that had no target is not told what becomes of its vertex. If it has one again,
        an edge that goes in the same batch may have had the aggregate read its earlier state.
        """
        if self.delivery.derived is None or not len(mirrors):
            return
        t = self.v.topology
        at, _ = entries_of(mirrors, t.start, t.stop)
        targets = self.mirrors.local(distinct(t.target[at], self.index.n))
        self.delivery.derived(targets)
        self._schedule(targets)

    def waiting(self) -> Steps[bool]:
        """Return whether a vertex of any partition is to gather."""
        end = self._end()
        end.progress.pending = self.arena.length("pending")
        _, total = yield from self.exchange(end)
        return total.progress.pending > 0

    # Changes of the graph. ------------------------------------------------------------------------

    def take(
        self, columns: Mapping[str, Array], *, strict: bool
    ) -> Steps[tuple[dict[str, int], list[int], int]]:
        """Take in changes, in order; messages and states follow them."""
        meta = self.arena.meta
        self.expect_changes(len(columns["kind"]))
        changes = self.graph.resolve(columns)
        edits, counts, absent = changes.edits, changes.counts, changes.absent
        self.refused = False
        if strict:
            _, total = yield from self.exchange(self._end(absent=len(absent)))
            self.refused = total.absent > 0
            if self.refused:
                return counts, absent, 0
        begun = bool(meta["begun"])
        if self.alone and not len(edits):
            return counts, absent, 0
        contributed = self._contributions(edits) if begun else {}
        rows, fresh, dropped = self.graph.edit(changes)
        self.arena["dirty"][dropped] = _DIRTY
        self.refresh_topology()
        touched = 0
        if begun:
            vertices_before = self.all_vertices
            removed = int((edits.what != INSERT).sum())
            end = self._end(edits=int(changes.counted.sum()), removed=removed)
            _, total = yield from self.exchange(end)
            if not total.edits:
                return counts, absent, 0
            RestartPolicy(meta).changed(total.edits)
            if meta["falling"]:
                self.restart(MESSAGES_WORSE)
            else:
                for name, new in self._contributions(edits, fresh).items():
                    contributed[name] = new - contributed[name]
                touched = yield from self._propagate_edits(
                    fresh, rows, total, vertices_before, contributed
                )
        meta["settled"] = False
        new = self.graph.tidy()
        if new is not None:
            pending = new[self.arena["pending"]]
            pending.sort()
            self.arena.put("pending", pending[pending >= 0])
            meta["layers"] = None
        self.refresh_topology()
        return counts, absent, touched

    def _contributions(self, edits: Edits, fresh: Array | None = None) -> dict[str, Any]:
        """Return what vertices at edges that change contribute to the sums which gather reads.

        They gather what they have gathered already, and their states are taken back. What differs
        after the edits, as it depends on targets, is what these sums are wrong by; it would fade
        more slowly than all else.

        Args:
            fresh: vertices which came, and have contributed nothing.
        """
        program, a = self.plan.program, self.arena
        if not self.sums_read or "gathered" not in a.meta:
            return {}
        places = distinct(np.concatenate([edits.row, edits.key]), self.graph.index.n)
        places = self.mirrors.local(places[a["alive"][places] != 0])
        if fresh is not None:
            places = places[~np.isin(places, fresh)]
        gathered = np.zeros(len(places), np.bool_)  # others begin with these defaults
        for name, f in program.states().items():
            gathered |= self.v.states[name][places] != f.default
        places = places[gathered]
        into = {k: x.identity for k, x in program.aggregators.items()}
        aggregates, self.methods.num_vertices = a.meta["gathered"]  # as in the last iteration
        preview_gather(self.methods, self._scope(1, aggregates, into), places)
        self.methods.num_vertices = self.all_vertices
        return {name: into[name] for name in self.sums_read}

    def _propagate_edits(
        self,
        fresh: Array,
        rows: Edits,
        total: PartitionEnd,
        vertices_before: int,
        contributed: dict[str, Any],
    ) -> Steps[int]:
        """Have messages and state follow changes of edges which have been made.

        Args:
            fresh: the vertices which came.
            rows: edits of out-rows.
            total: the changes of all partitions.
            vertices_before: how many vertices all partitions had.
            contributed: how much more vertices here contribute to aggregates.
        """
        level = self._tick()
        end = self._end()
        end.progress.aggregates |= contributed
        self._begin(fresh, level, end.progress)
        without_value = self._mirrors_without_value(rows)
        known = rows.where(~np.isin(rows.row, fresh)) if len(fresh) else rows
        if len(without_value):
            known = known.where(~np.isin(known.row, without_value) | (known.what != INSERT))
        messages = self.messages.along(self.v, known)
        if self.plan.shape == "uniform":
            self.v.msg[without_value] = self.algebra.identity
        self.delivery.pulls = False  # what a pull finds, differences must not be added to
        if self.comparing:
            touched = yield from self._compare(
                fresh, rows, (known, *messages), level, total.removed > 0, end
            )
        else:
            yield from self._add(fresh, rows, (known, *messages), end)
            touched = 0
            if self.all_vertices != vertices_before and not self.plan.always:
                self._schedule(self.graph.present_places())
        self.delivery.pulls = True
        return len(fresh) + touched

    def _mirrors_without_value(self, rows: Edits) -> Array:
        """Mirrors which have targets again, all of them new; their owners update them."""
        if self.alone:
            return rows.row[:0]
        sources = self._with_new_targets_only(rows)
        without_value: Array = sources[~self.mirrors.are_local(sources)]
        self.arena["has_value"][without_value] = False
        return without_value

    def _add(
        self, fresh: Array, rows: Edits, known: tuple[Edits, Array, Array], end: PartitionEnd
    ) -> Steps[None]:
        """Have sums follow edits of rows; whose edges changed sends again."""
        v, delivery = self.v, self.delivery
        moved = distinct(rows.row, self.index.n)  # a scatter may look at values too
        senders = merged(moved[self.arena["alive"][moved] != 0], fresh)
        self.arena["dirty"][senders] |= CHANGED
        many = 4 * delivery.edges_of(senders) > v.topology.m
        if delivery.due or (delivery.lazy and many):  # all sums will be taken from the messages
            delivery.pulls = delivery.due = True
            self._scatter(senders)
            delivery.forget()
        else:
            self.messages.deliver(v, *known, None)
            self._scatter(senders)
            self._schedule(merged(delivery.finish(v.msg, v.agg), moved))
        yield from self._update_mirrors_and_aggregates(senders, end)

    def _update_mirrors_and_aggregates(
        self, senders: Array, end: PartitionEnd
    ) -> Steps[PartitionEnd]:
        """As `_update_mirrors`; aggregates take in what vertices contributed."""
        total = yield from self._update_mirrors(senders, end)
        self._aggregates = combine_aggregates(
            self.aggregates, total.progress.aggregates, self.plan.program.aggregators
        )
        return total

    def _compare(
        self,
        fresh: Array,
        rows: Edits,
        known: tuple[Edits, Array, Array],
        level: int,
        removed: bool,
        end: PartitionEnd,
    ) -> Steps[int]:
        """Have Min or Max follow edits of rows, and trim; return the vertices touched.

        Args:
            known: edits whose sources have sent, and what the edges carried before and after.
        """
        a, v, delivery = self.arena, self.v, self.delivery
        edits, old, new = known
        first = fresh
        if self.plan.shape == "uniform":
            silent = self.mirrors.local(self._with_new_targets_only(edits))
            new[np.isin(edits.row, silent)] = self.algebra.identity
            v.msg[silent] = self.algebra.identity
            first = merged(fresh, silent)
        if len(first):
            a["dirty"][first] |= CHANGED
            self._scatter(first)
            self._schedule(delivery.finish(v.msg, v.agg))
            self._check_init(fresh)
        suspects = self.mirrors.local(self.messages.deliver(v, edits, old, new, a["seen"]))
        self._schedule(delivery.finish(v.msg, v.agg))
        end.suspects = len(suspects)
        inserted = self.mirrors.local(distinct(rows.row[rows.what == INSERT], self.index.n))
        total = yield from self._update_mirrors_and_aggregates(merged(inserted, first), end)
        if a.meta["unsure"] and removed:
            self.restart("levels cannot tell which values support each other")
            return 0
        if not total.suspects:
            return 0
        withdrawn, less, gathers = yield from withdraw(
            v, delivery, self.methods, suspects, a["seen"], level, self.log,
            partial(self.messages.support, v, a["seen"]), self._dependants,
            self._exchange_withdrawals,
        )  # fmt: skip
        a["seen"][withdrawn] = self.algebra.identity
        a["dirty"][less] |= CHANGED
        if self.plan.shape == "uniform":  # a state of `init` need not be sent
            old = v.msg[withdrawn]
            v.msg[withdrawn] = self.algebra.identity
            delivery.push([(withdrawn, old)], v.msg, v.agg)
        self._scatter(withdrawn, 1)
        a["dirty"][withdrawn] = _DIRTY
        self._schedule(delivery.finish(v.msg, v.agg))
        self._schedule(withdrawn)
        yield from self._update_mirrors(withdrawn, self._end())
        return gathers

    def _dependants(self, vertices: Array, seen: Array, mark: Array) -> Array:
        return self.mirrors.local(self.messages.dependants(self.v, vertices, seen, mark))

    def _exchange_withdrawals(self, vertices: Array) -> Steps[Array | None]:
        """Tell mirrors of vertices whose value is withdrawn; return the mirrors here of such.

        Returns:
            Places (int32, ascending); None where nothing was withdrawn in any partition.
        """
        blocks = self.mirrors.blocks(vertices, self.v.topology, self.arena["ids"], {})
        received, total = yield from self.exchange(self._end(suspects=len(vertices)), blocks)
        if not total.suspects:
            return None
        updates = Mirrors.read(received)
        return np.zeros(0, np.int32) if updates is None else np.sort(self.index.find(updates["id"]))

    def _with_new_targets_only(self, rows: Edits) -> Array:
        """Vertices which have targets again, all of them new; what they sent last is out of date.

        A vertex without targets is not heard when it scatters.
        """
        added = rows.row[rows.what == INSERT]
        sources = distinct(added, self.index.n)
        t = self.v.topology
        count = np.bincount(np.searchsorted(sources, added), minlength=len(sources))
        silent: Array = sources[t.stop[sources] - t.start[sources] == count]
        return silent

    def _begin(self, fresh: Array, level: int, progress: IterationStats) -> None:
        """Initialise vertices which came to be; `progress` takes what they contribute.

        Those of a sum begin with the defaults of their fields, which add nothing to what all
        vertices have together: what is too much there fades more slowly than all else. It is
        exact from any start.
        """
        if not len(fresh):
            return
        a, v = self.arena, self.v
        for name, f in self.plan.program.states().items():
            a[f"state.{name}"][fresh] = f.default
        for name in ("agg", "seen", "msg"):
            a[name][fresh] = self.algebra.identity
        v.level[fresh] = level  # type: ignore[index]
        a["dirty"][fresh] = _DIRTY
        if self.comparing:
            self.methods.init(self._scope(0, self.aggregates, progress.aggregates), fresh)
        self._schedule(fresh)

    def _scatter(self, vertices: Array, iteration: int = 0) -> None:
        """Have vertices send; in iteration 0 for the first time."""
        if len(vertices):
            scope = self._scope(iteration, self.aggregates, dict(self.aggregates))
            self.methods.scatter(scope, vertices)

    def _scope(self, iteration: int, aggregates: Mapping[str, Any], into: dict[str, Any]) -> Scope:
        """Return the scope that methods work in; `into` takes their contributions."""
        return Scope(self.v, self.delivery, iteration, dict(aggregates), into, self.log)

    # Iterations. ----------------------------------------------------------------------------------

    def iterate(self, command: LoopCommand, report: LoopReport) -> Steps[None]:
        began = time.monotonic()
        meta, pace = self.arena.meta, RestartPolicy(self.arena.meta)
        work = report.work
        waiting = yield from self.waiting()
        if meta["begun"] and (meta["settled"] or not (self.plan.always or waiting)):
            work.reason, work.quiet = "quiet", True
            return
        if command.iterations == 0:
            return
        sums, goes_on = not self.comparing, command.goes_on and "slice" in meta
        if sums and meta["begun"] and pace.slower and not goes_on:
            self.restart(pace.reason)
        warm = bool(meta["begun"])
        master = self._master()
        if goes_on:  # so that answers do not depend on when a slice of time was over
            master.iteration, warm = meta["slice"]
            report.warm = warm
        else:
            meta["scaling"] = "measure" if sums and warm and self.plan.always else ""
        meta.pop("slice", None)
        while True:
            ends = partial(_ends, master.iteration, master)
            with combining(self.plan):
                progress, total = yield from self.step(
                    max(master.iteration, 1), dict(master.aggregates), ends,
                    lambda: time.monotonic() - began > command.seconds,
                )  # fmt: skip
            if total.failure is not None:
                report.failure = total.failure
                return
            work.add(progress)
            measured = meta["scaling"] == "measure"
            meta["scaling"] = "apply" if measured and total.drifts else ""
            more = master.advance(total.progress)
            self._aggregates = dict(master.aggregates)
            fell = meta["falling"] and report.warm
            if fell or (more and sums and warm and pace.tired(1)):
                report.warm = warm = False
                self.restart(MESSAGES_WORSE if fell else pace.reason)
                master, meta["scaling"] = self._master(), ""
                continue
            if not more:
                work.reason, work.quiet = master.reason, True
                meta["settled"] = True
                pace.quiet(from_init=not warm, iterations=master.iteration)
                return
            if command.iterations is not None and work.iterations >= command.iterations:
                return
            if total.late:
                meta["slice"] = master.iteration, warm
                return

    def _master(self) -> Master:
        master = make_master(self.plan, self.all_vertices)
        if self.arena.meta["begun"]:
            # With sums the first iteration reads aggregates of the graph before, and ends nothing.
            master.aggregates = dict(self.aggregates)
            master.iteration = 1 if self.comparing else 0
        return master

    def step(
        self,
        iteration: int,
        aggregates: dict[str, Any],
        ends: Callable[[dict[str, Any]], bool],
        late: Callable[[], bool],
    ) -> Steps[tuple[IterationStats, PartitionEnd]]:
        """Run an iteration in which the vertices pending gather; iteration 0 is `init`.

        Args:
            ends: whether the loop ends with an iteration that contributed these aggregates. Sums of
                a program in which all gather again and again need not be sent then: what the last
                iteration changed is sent when the loop continues.
            late: whether the time of the command is up.

        Returns:
            What the iteration did here, and what all partitions say of it.
        """
        end, senders = self._end(), self.v.pending[:0]
        try:
            if self.arena.meta["begun"]:
                senders = yield from self._gather_and_scatter(iteration, aggregates, ends, end)
            else:
                senders = self._initialise(end.progress)
        except VertexError as error:
            end.failure = error
        end.late = late()
        total = yield from self._update_mirrors(senders, end)
        self._note_worse()
        return end.progress, total

    def _initialise(self, progress: IterationStats) -> Array:
        """Run iteration 0 of this partition, `init` and the first scatter; return all vertices.

        Sums that begin here are those of any partition with this graph, to the last bit.
        """
        a = self.arena
        if self.graph.order_rows():
            a.meta["layers"] = None
            self.refresh_topology()
        vertices = self.graph.present_places()
        self._tick()
        scope = self._scope(0, self.aggregates, progress.aggregates)
        self.methods.init(scope, vertices)
        a["level"][vertices] = self.clock
        a["dirty"][vertices] = _DIRTY
        progress.messages = self.methods.scatter(scope, vertices)
        a.meta["begun"] = True
        self._finish(progress)
        self._check_init(vertices)
        self._schedule(vertices)
        progress.updates = progress.changed = len(vertices)
        return vertices

    def _gather_and_scatter(
        self,
        iteration: int,
        aggregates: dict[str, Any],
        ends: Callable[[dict[str, Any]], bool],
        end: PartitionEnd,
    ) -> Steps[Array]:
        """Run an iteration of this partition; return the vertices that sent."""
        a, v, delivery, progress = self.arena, self.v, self.delivery, end.progress
        into = progress.aggregates
        scope = self._scope(iteration, aggregates, into)
        delivery.settle(v.msg, v.agg)
        todo = self.graph.present_places() if self.plan.always else a["pending"].copy()
        level = self._tick()
        scaling = a.meta["scaling"]
        earlier = self._variable_states(todo) if scaling else {}
        try:
            senders = self.methods.gather(scope, todo)
        except VertexError:
            if scaling == "apply":  # other partitions wait in `_scale`
                yield from self.exchange(self._end(distance=np.nan))
            raise
        if scaling == "apply" and (yield from self._scale(todo, earlier, scope, ends)):
            senders = todo
        elif scaling == "measure":
            end.measure(self._variable_states(todo), earlier)
        if self.comparing:
            a["seen"][senders] = v.agg[senders]
            a["level"][senders] = level
            self._check_unsupported(todo, senders)
        a["dirty"][senders] = _DIRTY
        a.resize("pending", 0)
        a.meta["gathered"] = [to_scalars(aggregates), self.methods.num_vertices]
        progress.updates, progress.changed = len(todo), len(senders)
        if self.plan.always and not self.comparing:
            if a.meta["unsent"]:
                senders = todo
            a.meta["unsent"] = self.alone and ends(into)  # else not known yet
            if a.meta["unsent"]:
                return senders[:0]
        progress.messages = self.methods.scatter(scope, senders)
        self._finish(progress)
        return senders

    def _variable_states(self, places: Array) -> dict[str, Array]:
        """The fields of vertices that iterations change, by name."""
        constants = self.plan.program.classes[0].facts.constants
        states = self.v.states.items()
        return {name: column.take(places) for name, column in states if name not in constants}

    def _scale(
        self,
        todo: Array,
        earlier: Mapping[str, Array],
        scope: Scope,
        ends: Callable[[dict[str, Any]], bool],
    ) -> Steps[bool]:
        """Scale what vertices have gathered so that the sum over all of them stays as it is now.

        After changes that sum may be wrong, and an error in it fades more slowly than all others.
        As methods only add and scale, an iteration is x -> A·x + b. The factor c is the one with
        which c·x and A·(c·x) + b have the same sum, and vertices get the latter. It is the step of
        iterative aggregation and disaggregation, with all vertices in one group.

        Args:
            todo: all vertices, which have gathered.
            earlier: their fields before, by name.
            scope: where they gathered.
            ends: whether the loop ends with this iteration; nothing is scaled then.

        Returns:
            Whether it was scaled.

        Source: Stewart, "Introduction to the Numerical Solution of Markov Chains", 1994, chapter 6.
        """
        if self.alone and ends(scope.into):
            return False
        v, end, constant = self.v, self._end(), dict[str, Array]()  # fields without messages
        contributed = dict(end.progress.aggregates)
        without_messages = replace(scope, read=dict(contributed), into=contributed)
        now, messages = self._variable_states(todo), v.agg[todo]
        v.agg[todo] = self.algebra.identity
        end.measure(now, earlier)
        try:
            _, constant = preview_gather(self.methods, without_messages, todo)
        except VertexError:
            end.distance = np.nan  # so that nothing is scaled
        else:
            with np.errstate(all="ignore"):
                for name, column in now.items():
                    end.constant += float(constant[name].sum())
                    end.size += float(np.abs(column - constant[name]).sum())
        v.agg[todo] = messages
        end.progress.aggregates = dict(scope.into)
        _, total = yield from self.exchange(end)
        with np.errstate(all="ignore"):
            more = total.difference / np.float64(total.constant - total.difference)
        scales = abs(more) * total.size <= _FAR * total.distance
        if not scales or ends(total.progress.aggregates):
            return False
        for name, column in now.items():
            v.states[name][todo] = column + more * (column - constant[name])
        for name in self.sums_read:
            scope.into[name] += more * (scope.into[name] - contributed[name])
        return True

    def _check_unsupported(self, todo: Array, senders: Array) -> None:
        """Note whether a state stands on a message which came after it, which levels cannot tell.

        So it is where an aggregate has changed and the state has not, unless that would be the
        same without any message.
        """
        a, v = self.arena, self.v
        if a.meta["unsure"]:
            return
        same = todo[v.agg[todo] != a["seen"][todo]]
        if len(senders) and len(same):
            same = same[~np.isin(same, senders, assume_unique=True)]
        if not len(same):
            return
        a.meta["unsure"] = len(unsupported(v, self.delivery, self.methods, same, self.log)) > 0

    def _check_init(self, fresh: Array) -> None:
        """Note whether `init` is not what a vertex without messages comes to.

        A program for which it is not may start above or below its fixed point.
        """
        if self.comparing:
            other = unsupported(self.v, self.delivery, self.methods, fresh, self.log)
            self.arena.meta["falling"] |= len(other) > 0

    def restart(self, reason: str) -> None:
        """Stand before iteration 0 again, on the graph as it is."""
        a, self.restarted = self.arena, reason
        self.delivery.due = False
        self.delivery.finish(self.v.msg, self.v.agg)  # for its marks
        for name, f in self.plan.program.states().items():
            if name not in self.plan.program.classes[0].facts.constants:
                a[f"state.{name}"][...] = a[f"tracked.{name}"][...] = f.default
        for name in ("agg", "seen", "msg"):
            a[name][...] = self.algebra.identity
        a.resize("pending", 0)
        self.mirrors.restart()
        a.meta |= {
            "begun": False,
            "unsent": False,
            "unsure": False,
            "aggregates": {},
            "due": False,
        }
        self.refresh()

    def _finish(self, progress: IterationStats) -> None:
        if self.delivery.due:
            progress.pending = self.graph.vertices
        else:
            self._schedule(self.delivery.finish(self.v.msg, self.v.agg))
            self._note_worse()
            progress.pending = self.arena.length("pending")

    def _note_worse(self) -> None:
        """Note that a message got worse in an iteration: the program is not monotone."""
        if self.comparing and self.delivery.worse:
            self.arena.meta["worse"] = True  # what all partitions do follows in the next superstep


def _accepted_meta(stored: dict[str, Any], aggregators: Mapping[str, Algebra]) -> dict[str, Any]:
    """Return what belongs to a partition as a whole, of the types that it has here."""
    meta = accepted_values(stored, _META)
    gathered, number = meta.get("gathered", ({}, 0))
    for name, value in [*meta.get("aggregates", {}).items(), *gathered.items()]:
        one = aggregators[name]
        if np.asarray(value, one.dtype).shape != (() if one.size is None else (one.size,)):
            raise CorruptError(f"aggregate {name!r} in its meta has another shape")
    iteration, warm = meta.get("slice") or (0, False)
    if not (type(number) is type(iteration) is int and type(warm) is bool):
        raise CorruptError("'gathered' or 'slice' in its meta is of another type")
    return meta


def _ends(iteration: int, master: Master, aggregates: dict[str, Any]) -> bool:
    """Return whether the loop ends with an iteration that contributed these aggregates."""
    return iteration > 0 and master.converged(iteration, aggregates)


@dataclass(slots=True)
class PartitionEnd(SuperstepEnd):
    """The report of one partition, and, as `total`, that of all of them.

    Attributes:
        edits: edges that changes add, remove or give another value.
        removed: how many of them are not added.
        absent: changes which met no edge.
        suspects: vertices whose value may have to be withdrawn.
        falling: a message got worse in an iteration, or `init` is not a fixed point.
        unsure: levels do not tell which values support each other.
        difference: the sum of what an iteration added to fields.
        distance: the sum of the absolute values of that.
        constant: the sum of fields as they are without messages.
        size: the sum of the absolute values of what they are beyond that.
    """

    edits: int = 0
    removed: int = 0
    absent: int = 0
    suspects: int = 0
    falling: bool = False
    unsure: bool = False
    difference: float = 0.0
    distance: float = 0.0
    constant: float = 0.0
    size: float = 0.0

    def measure(self, now: Mapping[str, Array], earlier: Mapping[str, Array]) -> None:
        """Add what an iteration added to fields, by name."""
        with np.errstate(all="ignore"):
            for name, column in earlier.items():
                added = now[name] - column
                self.difference += float(added.sum())
                self.distance += float(np.abs(added).sum())

    @property
    def drifts(self) -> bool:
        """True if an iteration changes the sum of all fields."""
        return abs(self.difference) > _DRIFT * self.distance

    @classmethod
    def total(cls, ends: Sequence[PartitionEnd], algebras: Mapping[str, Algebra]) -> PartitionEnd:
        """Combine the reports of all partitions; `late` is for partition 0 to say."""
        total = cls(IterationStats(aggregates={k: a.identity for k, a in algebras.items()}))
        for end in ends:
            total.vertices += end.vertices
            total.edits += end.edits
            total.removed += end.removed
            total.absent += end.absent
            total.suspects += end.suspects
            total.falling |= end.falling
            total.unsure |= end.unsure
            total.difference += end.difference
            total.distance += end.distance
            total.constant += end.constant
            total.size += end.size
            total.failure = total.failure or end.failure
            total.progress.add(end.progress, algebras)
        total.late = ends[0].late
        return total


# Whether a sum begins with `init` again, because from the answer before it would take longer.
#
# Both are exact. After few changes the answer before is close; after many, what it is wrong by
# may fade more slowly than what `init` is wrong by. So it is remembered how many iterations
# `init` took, and after how many changes the answer before took fewer, or more.

_FEW = 1 << 10  # changes after which the answer before is taken to be close


class RestartPolicy:
    """Counts changes and iterations since the loop was last at its fixed point.

    Args:
        meta: where the counts are kept.

    >>> pace = RestartPolicy({})
    >>> pace.quiet(from_init=True, iterations=10)
    >>> pace.changed(50_000)
    >>> pace.slower, pace.tired(10), pace.tired(1)
    (False, False, True)
    >>> pace.quiet(from_init=True, iterations=10)
    >>> pace.changed(40_000)
    >>> pace.slower
    True
    >>> pace.reason[:20]
    '40,000 changes came,'
    """

    def __init__(self, meta: dict[str, Any]) -> None:
        self._meta = meta
        for name, value in (("since", 0), ("spent", 0), ("good", _FEW)):
            meta.setdefault(name, value)
        for name in ("from init", "bad"):
            meta.setdefault(name, None)

    def changed(self, changes: int) -> None:
        """So many changes were taken in."""
        self._meta["since"] += changes

    @property
    def slower(self) -> bool:
        """True if it is better to begin with `init` now."""
        meta = self._meta
        if meta["spent"] or meta["bad"] is None:
            return False
        limit: float = (meta["good"] * meta["bad"]) ** 0.5
        return bool(meta["since"] > limit)

    @property
    def reason(self) -> str:
        """Why the loop begins with `init`; asked where `slower` or `tired` is true."""
        meta = self._meta
        if meta["spent"]:
            return (
                f"continuing from the previous answer took more than the {meta['from init']} "
                "iterations that init takes"
            )
        return (
            f"{meta['since']:,} changes came, and after {meta['bad']:,} of them continuing from "
            "the previous answer took more iterations than init"
        )

    def tired(self, iterations: int) -> bool:
        """Count iterations from the answer before; whether they are more than from `init`."""
        meta = self._meta
        meta["spent"] += iterations
        if meta["from init"] is None or meta["spent"] <= meta["from init"]:
            return False
        bad = meta["bad"]
        meta["bad"] = meta["since"] if bad is None else min(bad, meta["since"])
        meta["good"] = min(meta["good"], meta["bad"])
        return True

    def quiet(self, *, from_init: bool, iterations: int) -> None:
        """The loop is at its fixed point, after so many iterations since `init`, or in this job."""
        meta = self._meta
        if from_init:
            meta["from init"] = iterations
        else:
            meta["good"] = max(meta["good"], meta["since"])
        meta["since"] = meta["spent"] = 0


# Values which lost what they came from, withdrawn: where iterations on a changed graph begin.
#
# With Min and Max a vertex may hold a value which came along an edge that has gone, and vertices
# on a cycle may support each other in it for ever. Every vertex has a *level*, which grows from a
# producer to who took its value, as the iteration does in which a value last changed. So a value
# stands if the messages of producers of lower levels still give it, and what stands is well
# founded. What does not is withdrawn (`init`), and all that rested on it is looked at again.
#
# The levels do the work of the dependence trees in Vora, Gupta and Xu, "KickStarter", ASPLOS
# 2017.

# Why every answer begins with `init`
MESSAGES_WORSE = "messages got worse, so the answer depends on the start"


def unsupported(
    v: VertexArrays,
    delivery: Delivery,
    methods: Methods,
    vertices: Array,
    log: MutationLog,
) -> Array:
    """The vertices (int32) whose state would be another one without any message; none is changed.

    Args:
        vertices: which to look at (int32, ascending); they have sent their state.
        log: takes what methods log, which is nothing.
    """
    aggregates = v.agg[vertices]
    v.agg[vertices] = delivery.algebra.identity
    changed, _ = preview_gather(methods, Scope(v, delivery, 1, {}, {}, log), vertices)
    v.agg[vertices] = aggregates
    return changed


def preview_gather(
    methods: Methods, scope: Scope, vertices: Array
) -> tuple[Array, dict[str, Array]]:
    """Gather on vertices, and leave their fields as they are.

    Args:
        scope: takes what is contributed.
        vertices: places (int32, ascending).

    Returns:
        The vertices (int32) whose fields would change, and all fields as they would be, by name.
    """
    states = scope.v.states
    fields = {name: column[vertices] for name, column in states.items()}
    try:
        changed = methods.gather(scope, vertices).copy()
        return changed, {name: column[vertices] for name, column in states.items()}
    finally:
        for name, column in fields.items():
            states[name][vertices] = column


def withdraw(
    v: VertexArrays,
    delivery: Delivery,
    methods: Methods,
    suspects: Array,
    seen: Array,
    level: int,
    log: MutationLog,
    support: Callable[[Array, Array], Array],
    dependants: Callable[[Array, Array, Array], Array],
    exchange: Callable[[Array], Generator[tuple[int, bytes], Any, Array | None]],
) -> Generator[tuple[int, bytes], Any, tuple[Array, Array, int]]:
    """Find the vertices whose value is not well founded, and give them the state of `init`.

    Args:
        suspects: vertices (int32) which may have lost what their value came from.
        seen: the aggregate which the state of each vertex was computed from; what still stands
            on less has that noted.
        level: level of a vertex whose value is withdrawn.
        support: given vertices and withdrawn flags (uint8[n]): what producers of lower levels which
            are not withdrawn give to each of the vertices.
        dependants: given vertices, `seen` and marks (uint8[n]): targets not marked, to which one of
            the vertices may have given their value.
        exchange: tells other partitions which values are withdrawn; returns the mirrors of vertices
            whose values others withdrew, or None if there are none.

    Returns:
        The vertices withdrawn (int32, ascending), which have not sent; those of which `seen` is
        less now; and the number of gathers.
    """
    assert v.level is not None
    is_withdrawn, mark = np.zeros(v.topology.n, np.uint8), np.zeros(v.topology.n, np.uint8)
    lesser = np.minimum if delivery.algebra.kind == "min" else np.maximum
    waves: list[Array] = []
    lessened = [suspects[:0]]
    todo, gathers = np.sort(suspects).astype(np.int32), 0
    mark[todo] = 1
    while True:
        first_wave = len(waves)
        while len(todo):
            gathers += len(todo)
            mark[todo] = 0  # what loses its support later is looked at again
            supported = support(todo, is_withdrawn)
            aggregates = v.agg[todo]
            states = {name: column[todo] for name, column in v.states.items()}
            v.agg[todo] = supported
            changed = methods.gather(Scope(v, delivery, 1, {}, {}, log), todo)
            v.agg[todo] = aggregates
            was = seen[todo]
            better = (supported != was) & (lesser(supported, was) == supported)
            for name, column in v.states.items():
                column[todo] = states[name]  # a better value is taken in its iteration
            bad = changed[~better[np.searchsorted(todo, changed)]]
            is_withdrawn[bad] = 1
            less = ~better & (is_withdrawn[todo] == 0)
            seen[todo[less]] = supported[less]
            lessened.append(todo[less])
            waves.append(bad)
            mark[bad] = 1
            todo = np.sort(dependants(bad, seen, mark))
        mirrors = yield from exchange(np.sort(np.concatenate([todo, *waves[first_wave:]])))
        if mirrors is None:
            break
        is_withdrawn[mirrors] = mark[mirrors] = 1
        todo = np.sort(dependants(mirrors, seen, mark))
    withdrawn: Array = np.sort(np.concatenate([*waves, todo]))
    v.level[withdrawn] = level
    methods.init(Scope(v, delivery, 0, {}, {}, log), withdrawn)
    return withdrawn, np.concatenate(lessened), gathers


# Messages along edges that come and go, and who stands on a message: uniform and derived shapes.
#
# Where messages are uniform each vertex has the one that it sent; where they are derived, they
# follow from the state at the last scatter and the edge's value.


class EdgeMessages:
    """The messages on the edges of one partition, in the program's shape of messages."""

    def __init__(self, shape: str, methods: Methods, delivery: Delivery) -> None:
        self.derived = shape == "derived"
        self.methods, self.delivery = methods, delivery

    def along(self, v: VertexArrays, edits: Edits) -> tuple[Array, Array]:
        """Return what edges carried before and after edits of out-rows; their sources have sent."""
        d = self.delivery
        old, new = filled(len(edits), d.algebra), filled(len(edits), d.algebra)
        existed, after = edits.what != INSERT, edits.what != DELETE
        if not self.derived:
            existed &= edits.what == DELETE  # a value is not read
            after &= edits.what == INSERT
        old[existed] = self._edge_messages(v, edits.where(existed), edits.old[existed])
        new[after] = self._edge_messages(v, edits.where(after), edits.new[after])
        return old, new

    def deliver(
        self, v: VertexArrays, edits: Edits, old: Array, new: Array, seen: Array | None
    ) -> Array:
        """Have aggregates follow edits, of which edges carried `old`, and carry `new`.

        Args:
            seen: the aggregate which the state of each vertex was computed from, or None.

        Returns:
            Targets (int32, ascending) which lost a message not worse than what they saw.
        """
        d = self.delivery
        d.module.apply_each(edits.key, old, new, v.agg, d.ch, d.list, d.counts)
        if seen is None:
            return edits.key[:0]
        want = seen[edits.key]
        lesser = np.minimum if d.algebra.kind == "min" else np.maximum
        lost = (
            (edits.what != INSERT)
            & (old != new)
            & (lesser(old, want) == old)
            & (lesser(old, new) == old)
        )
        return distinct(edits.key[lost], v.topology.n)

    def _edge_messages(self, v: VertexArrays, edits: Edits, values: Array) -> Array:
        """The messages along edges with these values."""
        if not self.derived:
            return v.msg[edits.row]
        given = None if v.topology.value is None else values
        return self.methods.offers(v, edits.row, Edges(edits.key, given))

    def support(self, v: VertexArrays, want: Array, todo: Array, removed: Array) -> Array:
        """Return what producers of lower levels that are not removed give to each of `todo`."""
        d, t = self.delivery, v.topology
        if self.derived:
            return self.methods.support(v, todo, removed, want)
        out = np.empty(len(todo), v.agg.dtype)
        d.module.support(
            todo, t.in_start, t.in_stop, t.in_source, v.level, removed, want, d.algebra.identity,
            out, t.start, t.stop, t.target, v.msg,
        )  # fmt: skip
        return out

    def dependants(self, v: VertexArrays, vertices: Array, seen: Array, mark: Array) -> Array:
        """Targets not marked to which `vertices` sent nothing worse than they saw; marks them."""
        d, t = self.delivery, v.topology
        if self.derived:
            return self.methods.dependants(v, vertices, seen, mark)
        out = np.empty(len(mark), np.int32)
        return out[
            : d.module.dependants(vertices, seen, mark, out, t.start, t.stop, t.target, v.msg)
        ]
