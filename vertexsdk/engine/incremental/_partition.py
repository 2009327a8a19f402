"""A partition whose graph changes under a program's state, in an arena: changes, iterations, state.

Changes of edges are changes of messages: one that comes, goes or has another value. What that
withdraws is trimmed at once (see `_trimming`), so that a budget of iterations may end anywhere.
Between two calls every aggregate is what the messages of all producers come to, and `pending` are
the vertices whose state may not follow from their aggregate yet.

A vertex that goes keeps its place, in case it returns, until most places are of vertices that went.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.json_values import to_scalars
from vertexsdk.compile.delivery import Delivery
from vertexsdk.compile.mutation_log import MutationLog
from vertexsdk.compile.plan import Plan, delivery_module
from vertexsdk.compile.vertex_arrays import VertexArrays
from vertexsdk.engine._master import IterationStats, combine_aggregates
from vertexsdk.engine._processor import Methods, merged, methods_of
from vertexsdk.engine._trimming import MESSAGES_WORSE, unsupported, withdraw
from vertexsdk.engine.incremental._adjacency import Adjacency
from vertexsdk.engine.incremental._arena import Arena
from vertexsdk.engine.incremental._edge_messages import EdgeMessages
from vertexsdk.engine.incremental._local_index import VertexIndex
from vertexsdk.engine.incremental._mirrors import Mirrors
from vertexsdk.engine.incremental._new_partition import NewPartition
from vertexsdk.engine.incremental._partition_end import PartitionEnd, Steps
from vertexsdk.engine.incremental._restart_policy import RestartPolicy
from vertexsdk.engine.incremental._row_edits import Edits, distinct
from vertexsdk.engine.incremental._row_kernels import INSERT
from vertexsdk.engine.incremental._vertex_names import VertexNames
from vertexsdk.engine.supersteps import end_superstep
from vertexsdk.errors import VertexError
from vertexsdk.graph.id_codec import IdCodec
from vertexsdk.state.version_writer import DeltaLayers
from vertexsdk.transport.transport import Blocks

__all__ = ["IncrementalPartition"]

Array = NDArray[Any]
SPARE = 1 << 16  # places of vertices that went which are always kept


class IncrementalPartition:
    """The vertices, edges and messages of a loop with one partition, whose graph changes.

    Args:
        plan: of the loop; one class, messages per vertex or derived.
        layout: of the adjacency.
        arena: where it is; `create` fills a new one.
        partition: its number.
    """

    def __init__(self, plan: Plan, layout: str, arena: Arena, partition: int = 0) -> None:
        self.plan, self.arena, self.partition = plan, arena, partition
        self.mirrors = Mirrors(arena, partition, len(plan.topologies))
        self.alone = self.mirrors.alone
        assert plan.program.algebra is not None
        self.algebra = plan.program.algebra
        self.adjacency = Adjacency(arena, layout, plan.threads)
        self.index = VertexIndex(arena, plan.threads)
        self.names = VertexNames(arena)
        self.module = delivery_module(self.algebra)
        self.comparing = self.algebra.kind != "sum"  # and so values are trimmed
        self.refused = False  # the changes of the last batch

    @cached_property
    def methods(self) -> Methods:
        """The program's methods."""
        names = IdCodec(self.names) if "name.code" in self.arena else None
        return methods_of(self.plan, 0, self.module, names)[0]

    def create(self, new: NewPartition) -> None:
        """Begin with a graph, before iteration 0."""
        t = new.topology
        self.mirrors.create(new.placement)
        self.index.create(t.ids)
        if new.names is not None:
            self.names.create(*new.names)
        self.adjacency.create(t, new.edges)
        self.arena.put("named", new.named)
        for name, f in self.plan.program.states().items():
            self.arena.resize(f"state.{name}", 0, f.dtype)
            self.arena.resize(f"tracked.{name}", 0, f.dtype)
        kinds: dict[str, Any] = {"alive": np.uint8, "dirty": np.uint8, "level": np.int32}
        kinds |= dict.fromkeys(("agg", "seen", "msg"), self.algebra.dtype)
        for name, dtype in kinds.items():
            self.arena.resize(name, 0, dtype)
        self.arena.resize("pending", 0, np.int32)
        self.arena.meta |= {
            "clock": 0, "aggregates": {}, "due": False, "whole": True, "layers": DeltaLayers(),
            "vertices": 0, "all": 0, "frozen": [0, 0], "shared": [],
            "begun": False, "unsure": False, "unsent": False, "falling": False, "worse": False,
            "restarted": "",
            "settled": False,
        }  # fmt: skip
        self._grow(0)
        for kept in ("state", "tracked"):
            columns = {n: self.arena[f"{kept}.{n}"] for n in self.plan.program.states()}
            self.plan.fill(columns, new.ranks)  # only constant fields, see `Facts`
        alive = self.arena["alive"]
        everyone = np.arange(t.n)
        alive[...] = ((self._degrees(everyone) > 0) | new.named) & self.mirrors.are_local(everyone)
        self.arena.meta["vertices"] = int(alive.sum())
        self.refresh()

    def refresh(self) -> None:
        """Make the views anew, after arrays were moved or made longer."""
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
            self.delivery.derived = lambda slots: self.methods.repair(
                self.v, self.delivery, slots, none
            )
        self.messages = EdgeMessages(plan.shape, self.methods, self.delivery)
        self.methods.num_vertices = self.all_vertices
        self.aggregates = {**none, **a.meta["aggregates"]}
        self.log = MutationLog(self.algebra, plan.program.value_dtype)

    def keep(self) -> None:
        """Leave in the arena what a later task needs to know."""
        a = self.arena
        a.meta["due"] = self.delivery.due
        a.meta["aggregates"] = to_scalars(self.aggregates)

    @property
    def vertices(self) -> int:
        """How many vertices the partition has."""
        return int(self.arena.meta["vertices"])

    @property
    def all_vertices(self) -> int:
        """How many vertices all partitions have."""
        return self.vertices if self.alone else int(self.arena.meta["all"])

    @property
    def clock(self) -> int:
        """The level of what changes now; it grows with every iteration."""
        return int(self.arena.meta["clock"])

    def _tick(self) -> int:
        self.arena.meta["clock"] += 1
        self.delivery.worse = False  # edges that go may withdraw messages
        return self.clock

    def columns(self) -> list[str]:
        """The names of the arrays with an entry for each place."""
        fields = self.plan.program.states()
        kept = [f"{kind}.{name}" for kind in ("state", "tracked") for name in fields]
        return [*kept, "alive", "dirty", "level", "agg", "seen", "msg", "named"]

    def _grow(self, before: int) -> None:
        n = self.index.n
        self.adjacency.grow(n)
        self.mirrors.grow(self.arena["ids"])
        for name, f in self.plan.program.states().items():
            for kept in ("state", "tracked"):
                self.arena.resize(f"{kept}.{name}", n)[before:] = f.default
        for name in ("alive", "dirty", "level"):
            self.arena.resize(name, n)[before:] = 0
        for name in ("agg", "seen", "msg"):
            self.arena.resize(name, n)[before:] = self.algebra.identity
        count = self.arena.length("named")
        self.arena.resize("named", n)[count:] = False

    def _degrees(self, places: Array) -> Array:
        """Edges in and out of vertices."""
        total = np.zeros(len(places), np.int64)
        for rows in (self.adjacency.out, self.adjacency.into):
            total += rows.array("stop")[places] - rows.array("start")[places]
        return total

    def refresh_topology(self) -> None:
        """Make the views anew and keep what was found."""
        self.keep()
        self.refresh()

    def _everyone(self) -> Array:
        alive = self.arena["alive"]
        if self.vertices == len(alive):
            return np.arange(len(alive), dtype=np.int32)
        return np.flatnonzero(alive).astype(np.int32)

    def _schedule(self, places: Array) -> None:
        places = self.mirrors.local(places)
        if len(places):
            self.arena.put("pending", merged(self.arena["pending"], places))

    # Between partitions. --------------------------------------------------------------------------

    def exchange(
        self, end: PartitionEnd, blocks: Blocks | None = None
    ) -> Steps[tuple[Blocks, PartitionEnd]]:
        """End a superstep; return what came, and what all partitions say together."""
        meta = self.arena.meta
        end.vertices, end.unsure = self.vertices, meta["unsure"]
        end.falling = meta["falling"] or meta["worse"]
        received, ends = yield from end_superstep(blocks or [], end, self.alone)
        total = PartitionEnd.total(ends, self.plan.program.aggregators)
        meta |= {"all": total.vertices, "falling": total.falling, "unsure": total.unsure}
        meta["worse"] = False
        self.methods.num_vertices = total.vertices
        return received, total

    def _end(self, **counts: int) -> PartitionEnd:
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
        order = np.argsort(places)
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
        if not delivery.due:
            self._schedule(delivery.finish(v.msg, v.agg))

    def waiting(self) -> Steps[bool]:
        """Whether a vertex of any partition is to gather."""
        end = self._end()
        end.progress.pending = self.arena.length("pending")
        _, total = yield from self.exchange(end)
        return total.progress.pending > 0

    # Changes of the graph. ------------------------------------------------------------------------

    def take(
        self, kind: Array, source: Array, target: Array, value: Array, *, strict: bool
    ) -> Steps[tuple[dict[str, int], list[int], int]]:
        """Take in changes, in order; with `strict` none if one of them is absent.

        Args:
            kind, source, target, value: as those of `Changes`, ids as int64.

        Returns:
            Counts (see `edge_kernels`), the changes which were absent, and vertices touched. A
            change is counted by the partition of its source.
        """
        meta, mirrors = self.arena.meta, self.mirrors
        number, own = np.arange(len(kind)), mirrors.owns(source)
        if not self.alone:
            number = np.flatnonzero(own | mirrors.owns(target))
            kind, source, target, value = (x[number] for x in (kind, source, target, value))
            own = own[number]
        a, b = self._places(kind, source, target)
        edits, counts, absent = self.adjacency.resolve(kind, a, b, value)
        if not self.alone:
            counts = self.adjacency.resolve(kind[own], a[own], b[own], value[own])[1]
            absent &= own
        missing = number[absent].tolist()
        self.refused = False
        if strict:
            _, total = yield from self.exchange(self._end(absent=len(missing)))
            self.refused = total.absent > 0
            if self.refused:
                return counts, missing, 0
        begun = bool(meta["begun"])
        if self.alone and not len(edits):
            return counts, missing, 0
        counted = mirrors.are_local(edits.row)
        rows = edits
        if len(edits):
            rows = self.adjacency.edit(edits, tuple(meta["frozen"]), counted)
        fresh = self._update_presence(edits)
        self.refresh_topology()
        touched = 0
        if begun:
            before = self.all_vertices
            end = self._end(edits=int(counted.sum()), removed=int((edits.what != INSERT).sum()))
            _, total = yield from self.exchange(end)
            if not total.edits:
                return counts, missing, 0
            RestartPolicy(meta).changed(total.edits)
            if meta["falling"]:
                self.restart(MESSAGES_WORSE)
            else:
                touched = yield from self._propagate_edits(fresh, rows, total, before)
        meta["settled"] = False
        self.adjacency.compact()
        if self._sparse():
            self._renumber()
        self.refresh_topology()
        return counts, missing, touched

    def _places(self, kind: Array, source: Array, target: Array) -> tuple[Array, Array]:
        a, b = self.index.find(source), self.index.find(target)
        unknown = (kind == 0) & ((a < 0) | (b < 0))
        if unknown.any():
            ids = np.concatenate([source[unknown & (a < 0)], target[unknown & (b < 0)]])
            before = self.index.n
            self.index.add(np.unique(ids))
            self._grow(before)
            self.refresh_topology()
            a, b = self.index.find(source), self.index.find(target)
        return a, b

    def _update_presence(self, edits: Edits) -> Array:
        """Note which vertices are there; return those which came (int32, ascending)."""
        a = self.arena
        places = distinct(np.concatenate([edits.row, edits.key]), self.index.n)
        places = self.mirrors.local(places)
        there = (self._degrees(places) > 0) | a["named"][places]
        was = a["alive"][places] != 0
        fresh: Array = places[there & ~was]
        gone = places[was & ~there]
        a["alive"][places] = there
        a.meta["vertices"] += len(fresh) - len(gone)
        a["dirty"][gone] = 1
        return fresh.astype(np.int32)

    def _propagate_edits(
        self, fresh: Array, rows: Edits, total: PartitionEnd, before: int
    ) -> Steps[int]:
        """Have messages and state follow changes of edges which have been made.

        Args:
            fresh: the vertices which came.
            rows: edits of out-rows.
            total: of the changes of all partitions.
            before: how many vertices all partitions had.
        """
        level = self._tick()
        end = self._end()
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
            if self.all_vertices != before and not self.plan.always:
                self._schedule(self._everyone())
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
        """As `_update_mirrors`; aggregates take in what `init` of new vertices contributed."""
        total = yield from self._update_mirrors(senders, end)
        self.aggregates = combine_aggregates(
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
        gone, gathers = yield from withdraw(
            v, delivery, self.methods, suspects, a["seen"], level, self.log,
            partial(self.messages.support, v, a["seen"]), self._dependants,
            self._exchange_withdrawals,
        )  # fmt: skip
        a["seen"][gone] = self.algebra.identity
        if self.plan.shape == "uniform":  # a state of `init` need not be sent
            old = v.msg[gone]
            v.msg[gone] = self.algebra.identity
            delivery.push([(gone, old)], v.msg, v.agg)
        self._scatter(gone, 1)
        a["dirty"][gone] = 1
        self._schedule(delivery.finish(v.msg, v.agg))
        self._schedule(gone)
        yield from self._update_mirrors(gone, self._end())
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
        """Initialise vertices which came to be; `progress` takes what they contribute."""
        if not len(fresh):
            return
        a, v = self.arena, self.v
        for name, f in self.plan.program.states().items():
            a[f"state.{name}"][fresh] = f.default
        for name in ("agg", "seen", "msg"):
            a[name][fresh] = self.algebra.identity
        v.level[fresh] = level  # type: ignore[index]
        a["dirty"][fresh] = 1
        self.methods.init(v, fresh, dict(self.aggregates), progress.aggregates, self.log)
        self._schedule(fresh)

    def _scatter(self, vertices: Array, iteration: int = 0) -> None:
        """Have vertices send; in iteration 0 for the first time."""
        if len(vertices):
            into, read = dict(self.aggregates), dict(self.aggregates)
            self.methods.scatter(self.v, self.delivery, vertices, iteration, read, into, self.log)

    def _sparse(self) -> bool:
        """Whether most places are of vertices that went."""
        places = self.index.n - int(self.arena.meta["mirrors"])
        return places > 2 * self.vertices + SPARE

    def _renumber(self) -> None:
        """Give places to the vertices that are there, ascending by id, and to no others."""
        a = self.arena
        order = a["order"]
        places = order[(a["alive"][order] != 0) | self._used_mirrors()[order]]
        new = self.index.renumber(places)
        self.mirrors.renumber(places)
        self.adjacency.renumber(places, new)
        for name in self.columns():
            a.put(name, a[name][places])
        pending = new[a["pending"]]
        pending.sort()
        a.put("pending", pending[pending >= 0])
        a.meta |= {"whole": True, "frozen": [0, 0]}
        self.refresh_topology()

    def _used_mirrors(self) -> Array:
        """Whether each place is a mirror with an edge (bool[n])."""
        everyone = np.arange(self.index.n)
        used: Array = (self._degrees(everyone) > 0) & ~self.mirrors.are_local(everyone)
        return used

    # Iterations. ----------------------------------------------------------------------------------

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
                iteration changed is sent when the loop goes on.
            late: whether the time of the command is up.

        Returns:
            What the iteration did here, and what all partitions say of it.
        """
        end, senders = self._end(), self.v.pending[:0]
        try:
            if self.arena.meta["begun"]:
                senders = self._gather_and_scatter(iteration, aggregates, ends, end.progress)
            else:
                senders = self._initialise(end.progress)
        except VertexError as error:
            end.failure = error
        end.late = late()
        total = yield from self._update_mirrors(senders, end)
        self._note_worse()
        return end.progress, total

    def _initialise(self, progress: IterationStats) -> Array:
        """Run iteration 0 of this partition, `init` and the first scatter; return all vertices."""
        a = self.arena
        everyone = self._everyone()
        self._tick()
        read, into = dict(self.aggregates), progress.aggregates
        self.methods.init(self.v, everyone, read, into, self.log)
        a["level"][everyone] = self.clock
        a["dirty"][everyone] = 1
        progress.messages = self.methods.scatter(
            self.v, self.delivery, everyone, 0, read, into, self.log
        )
        a.meta["begun"] = True
        self._finish(progress)
        self._check_init(everyone)
        self._schedule(everyone)
        progress.updates = progress.changed = len(everyone)
        return everyone

    def _gather_and_scatter(
        self,
        iteration: int,
        aggregates: dict[str, Any],
        ends: Callable[[dict[str, Any]], bool],
        progress: IterationStats,
    ) -> Array:
        """Run an iteration of this partition; return the vertices that sent."""
        a, v, delivery = self.arena, self.v, self.delivery
        read, into = dict(aggregates), progress.aggregates
        delivery.settle(v.msg, v.agg)
        todo = self._everyone() if self.plan.always else a["pending"].copy()
        level = self._tick()
        senders = self.methods.gather(v, delivery, todo, iteration, read, into, self.log)
        if self.comparing:
            a["seen"][senders] = v.agg[senders]
            a["level"][senders] = level
            self._check_unsupported(todo, senders)
        a["dirty"][senders] = 1
        a.resize("pending", 0)
        progress.updates, progress.changed = len(todo), len(senders)
        if self.plan.always and not self.comparing:
            if a.meta["unsent"]:
                senders = todo
            a.meta["unsent"] = self.alone and ends(into)  # else nobody knows yet
            if a.meta["unsent"]:
                return senders[:0]
        progress.messages = self.methods.scatter(
            v, delivery, senders, iteration, read, into, self.log
        )
        self._finish(progress)
        return senders

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
        a = self.arena
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
            "restarted": reason,
            "aggregates": {},
            "due": False,
        }
        self.refresh()

    def _finish(self, progress: IterationStats) -> None:
        if self.delivery.due:
            progress.pending = self.vertices
        else:
            self._schedule(self.delivery.finish(self.v.msg, self.v.agg))
            self._note_worse()
            progress.pending = self.arena.length("pending")

    def _note_worse(self) -> None:
        """Note that a message got worse in an iteration: the program is not monotone."""
        if self.comparing and self.delivery.worse:
            self.arena.meta["worse"] = True  # what all partitions do follows in the next superstep
