"""A partition whose graph changes under a program's state, in an arena: changes, iterations, state.

Changes of edges are changes of messages: one that comes, goes or has another value. What that
withdraws is trimmed at once (see `_trimming`), so that a budget of iterations may end anywhere.
Between two calls every aggregate is what the messages of all producers come to, and `pending` are
the vertices whose state may not follow from their aggregate yet.

A vertex that goes keeps its place, in case it returns, until most places are of vertices that went.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.json_values import to_scalars
from vertexsdk.compile.delivery import Delivery
from vertexsdk.compile.mutation_log import MutationLog
from vertexsdk.compile.native import NativeMethods
from vertexsdk.compile.plan import Plan, delivery_module
from vertexsdk.compile.vertex_arrays import VertexArrays
from vertexsdk.engine._master import IterationStats
from vertexsdk.engine._processor import merged, methods_of
from vertexsdk.engine._trimming import MESSAGES_WORSE, unsupported, withdraw
from vertexsdk.engine.incremental._adjacency import Adjacency
from vertexsdk.engine.incremental._arena import Arena
from vertexsdk.engine.incremental._edge_messages import EdgeMessages
from vertexsdk.engine.incremental._local_index import VertexIndex
from vertexsdk.engine.incremental._restart_policy import RestartPolicy
from vertexsdk.engine.incremental._row_edits import Edits, distinct
from vertexsdk.engine.incremental._row_kernels import INSERT
from vertexsdk.engine.incremental._vertex_names import VertexNames
from vertexsdk.graph.topology import Topology
from vertexsdk.state.reading import NAME_COLUMNS, TOMBSTONE
from vertexsdk.state.version_writer import DeltaLayers

__all__ = ["IncrementalPartition"]

Array = NDArray[Any]
SPARE = 1 << 16  # places of vertices that went which are always kept


class IncrementalPartition:
    """The vertices, edges and messages of a loop with one partition, whose graph changes.

    Args:
        plan: of the loop; one class, compiled, messages per vertex or derived.
        layout: of the adjacency.
        arena: where it is; `create` fills a new one.
    """

    def __init__(self, plan: Plan, layout: str, arena: Arena) -> None:
        self.plan, self.arena = plan, arena
        assert plan.program.algebra is not None
        self.algebra = plan.program.algebra
        self.adjacency = Adjacency(arena, layout, plan.threads)
        self.index = VertexIndex(arena, plan.threads)
        self.names = VertexNames(arena)
        self.module = delivery_module(self.algebra)
        methods = methods_of(plan, 0, self.module)[0]
        assert isinstance(methods, NativeMethods)
        self.methods = methods
        self.comparing = self.algebra.kind != "sum"  # and so values are trimmed

    def create(self, t: Topology, edges: int, named: Array, ranks: Array) -> None:
        """Begin with a graph, before iteration 0.

        Args:
            t: the graph in the direction of its edges.
            edges: how many it has.
            named: bool[n], the vertices which are there without edges too.
            ranks: int64[n], by what the vertices' attributes are known: ids, or ranks of names.
        """
        self.index.create(t.ids)
        if t.names is not None:
            self.names.create(t.ids, *t.names)
        self.adjacency.create(t, edges)
        self.arena.put("named", named)
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
            "vertices": 0, "frozen": [0, 0], "shared": [],
            "begun": False, "unsure": False, "unsent": False, "falling": False,
            "restarted": "",
            "settled": False,
        }  # fmt: skip
        self._grow(0)
        for kept in ("state", "tracked"):
            columns = {n: self.arena[f"{kept}.{n}"] for n in self.plan.program.states()}
            self.plan.fill(columns, ranks)  # only constant fields, see `Facts`
        alive = self.arena["alive"]
        alive[...] = (self._degrees(np.arange(t.n)) > 0) | named
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
        self.methods.num_vertices = self.vertices
        self.aggregates = {**none, **a.meta["aggregates"]}
        self.log = MutationLog(self.algebra, plan.program.value_dtype)

    def keep(self) -> None:
        """Leave in the arena what a later task needs to know."""
        a = self.arena
        a.meta["due"] = self.delivery.due
        a.meta["aggregates"] = to_scalars(self.aggregates)

    @property
    def vertices(self) -> int:
        """How many vertices there are."""
        return int(self.arena.meta["vertices"])

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
        if len(places):
            self.arena.put("pending", merged(self.arena["pending"], places))

    # Changes of the graph. ------------------------------------------------------------------------

    def take(
        self, kind: Array, source: Array, target: Array, value: Array, *, strict: bool
    ) -> tuple[dict[str, int], list[int], int]:
        """Take in changes, in order; with `strict` none if one of them is absent.

        Args:
            kind, source, target, value: as those of `Changes`, ids as int64.

        Returns:
            Counts (see `edge_kernels`), the changes which were absent, and vertices touched.
        """
        a, b = self._places(kind, source, target)
        edits, counts, absent = self.adjacency.resolve(kind, a, b, value)
        missing = np.flatnonzero(absent).tolist()
        if (strict and missing) or not len(edits):
            return counts, missing, 0
        self.arena.meta["settled"] = False
        RestartPolicy(self.arena.meta).changed(len(edits))
        rows = self.adjacency.edit(edits, tuple(self.arena.meta["frozen"]))
        if self.arena.meta["falling"] and self.arena.meta["begun"]:
            self.restart(MESSAGES_WORSE)
        touched = 0
        if self.arena.meta["begun"]:
            touched = self._propagate_edits(edits, rows)
        else:
            self._update_presence(edits)
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
        there = (self._degrees(places) > 0) | a["named"][places]
        was = a["alive"][places] != 0
        fresh: Array = places[there & ~was]
        gone = places[was & ~there]
        a["alive"][places] = there
        a.meta["vertices"] += len(fresh) - len(gone)
        a["dirty"][gone] = 1
        return fresh.astype(np.int32)

    def _propagate_edits(self, edits: Edits, rows: Edits) -> int:
        """Have messages and state follow changes of edges which have been made."""
        before = self.vertices
        fresh = self._update_presence(edits)
        self.refresh_topology()
        level = self._tick()
        touched = self._begin(fresh, level)
        self.delivery.pulls = False  # what a pull finds, differences must not be added to
        if self.comparing:
            touched += self._compare(fresh, rows, level)
        else:
            self._add(fresh, rows)
            if self.vertices != before and not self.plan.always:
                self._schedule(self._everyone())
        self.delivery.pulls = True
        return touched

    def _add(self, fresh: Array, rows: Edits) -> None:
        """Have sums follow edits of rows; whose edges changed sends again."""
        v, delivery = self.v, self.delivery
        moved = distinct(rows.row, self.index.n)  # a scatter may look at values too
        senders = merged(moved[self.arena["alive"][moved] != 0], fresh)
        many = 4 * delivery.edges_of(senders) > v.topology.m
        if delivery.due or (delivery.lazy and many):  # all sums will be taken from the messages
            delivery.pulls = delivery.due = True
            self._scatter(senders)
            delivery.forget()
            return
        known = rows.where(~np.isin(rows.row, fresh)) if len(fresh) else rows
        self.messages.deliver(v, known, *self.messages.along(v, known), None)
        self._scatter(senders)
        self._schedule(merged(delivery.finish(v.msg, v.agg), moved))

    def _compare(self, fresh: Array, rows: Edits, level: int) -> int:
        """Have Min or Max follow edits of rows, and trim; return the vertices touched."""
        a, v, delivery = self.arena, self.v, self.delivery
        known = rows.where(~np.isin(rows.row, fresh)) if len(fresh) else rows
        old, new = self.messages.along(v, known)
        first = fresh
        if self.plan.shape == "uniform":
            silent = self._unheard_sources(known)
            new[np.isin(known.row, silent)] = self.algebra.identity
            v.msg[silent] = self.algebra.identity
            first = merged(fresh, silent)
        if len(first):
            self._scatter(first)
            self._schedule(delivery.finish(v.msg, v.agg))
            self._check_init(fresh)
        suspects = self.messages.deliver(v, known, old, new, a["seen"])
        self._schedule(delivery.finish(v.msg, v.agg))
        if a.meta["unsure"] and bool((rows.what != INSERT).any()):
            self.restart("levels cannot tell which values support each other")
            return 0
        if not len(suspects):
            return 0
        gone, gathers = withdraw(
            v, delivery, self.methods, suspects, a["seen"], level, self.log,
            partial(self.messages.support, v, a["seen"]), partial(self.messages.dependants, v),
        )  # fmt: skip
        a["seen"][gone] = self.algebra.identity
        if self.plan.shape == "uniform":  # a state of `init` need not be sent
            old = v.msg[gone]
            v.msg[gone] = self.algebra.identity
            delivery.push([(gone, old)], v.msg, v.agg)
        self.methods.scatter(v, delivery, gone, 1, {}, {}, self.log)
        a["dirty"][gone] = 1
        self._schedule(delivery.finish(v.msg, v.agg))
        self._schedule(gone)
        return gathers

    def _unheard_sources(self, rows: Edits) -> Array:
        """Vertices which have targets again, all of them new; what they sent last is out of date.

        A vertex without targets is not heard when it scatters.
        """
        added = rows.row[rows.what == INSERT]
        sources = distinct(added, self.index.n)
        t = self.v.topology
        count = np.bincount(np.searchsorted(sources, added), minlength=len(sources))
        silent: Array = sources[t.stop[sources] - t.start[sources] == count]
        return silent

    def _begin(self, fresh: Array, level: int) -> int:
        """Initialise vertices which came to be."""
        if not len(fresh):
            return 0
        a, v = self.arena, self.v
        for name, f in self.plan.program.states().items():
            a[f"state.{name}"][fresh] = f.default
        for name in ("agg", "seen", "msg"):
            a[name][fresh] = self.algebra.identity
        v.level[fresh] = level  # type: ignore[index]
        a["dirty"][fresh] = 1
        into = dict(self.aggregates)
        self.methods.init(v, fresh, dict(self.aggregates), into, self.log)
        self.aggregates = into
        self._schedule(fresh)
        return len(fresh)

    def _scatter(self, fresh: Array) -> int:
        """Have vertices send for the first time."""
        into = dict(self.aggregates)
        return self.methods.scatter(
            self.v, self.delivery, fresh, 0, dict(self.aggregates), into, self.log
        )

    def _sparse(self) -> bool:
        """Whether most places are of vertices that went."""
        return self.index.n > 2 * self.vertices + SPARE

    def _renumber(self) -> None:
        """Give places to the vertices that are there, ascending by id, and to no others."""
        a = self.arena
        order = a["order"]
        places = order[a["alive"][order] != 0]
        new = self.index.renumber(places)
        self.adjacency.renumber(places, new)
        for name in self.columns():
            a.put(name, a[name][places])
        pending = new[a["pending"]]
        pending.sort()
        a.put("pending", pending[pending >= 0])
        a.meta |= {"whole": True, "frozen": [0, 0]}
        self.refresh_topology()

    # Iterations. ----------------------------------------------------------------------------------

    def begin(self) -> IterationStats:
        """Run iteration 0: `init` and the first scatter of every vertex."""
        a = self.arena
        everyone = self._everyone()
        self._tick()
        progress = IterationStats()
        read = dict(self.aggregates)
        into = {k: x.identity for k, x in self.plan.program.aggregators.items()}
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
        progress.aggregates = into
        return progress

    def step(
        self, iteration: int, aggregates: dict[str, Any], ends: Callable[[dict[str, Any]], bool]
    ) -> IterationStats:
        """Run an iteration in which the vertices pending gather.

        Args:
            ends: whether the loop ends with an iteration that contributed these aggregates. Sums of
                a program in which all gather again and again need not be sent then: what the last
                iteration changed is sent when the loop goes on.
        """
        a, v, delivery = self.arena, self.v, self.delivery
        read = dict(aggregates)
        into = {k: x.identity for k, x in self.plan.program.aggregators.items()}
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
        progress = IterationStats(updates=len(todo), changed=len(senders), aggregates=into)
        if self.plan.always and not self.comparing:
            if a.meta["unsent"]:
                senders = todo
            a.meta["unsent"] = ends(into)
            if a.meta["unsent"]:
                return progress
        progress.messages = self.methods.scatter(
            v, delivery, senders, iteration, read, into, self.log
        )
        self._finish(progress)
        return progress

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
            if self.comparing and self.delivery.worse:
                self.arena.meta["falling"] = True  # no monotone program
            progress.pending = self.arena.length("pending")

    # Forks, and the store. ------------------------------------------------------------------------

    def fork(self, path: Path) -> None:
        """Make a partition that stands here in another directory; both go their own way then.

        Pools of edges are shared: what is in them now stays until nobody reads it any more.
        """
        other = Arena(path, fresh=True)
        other.meta = {**self.arena.meta, "frozen": [0, 0], "shared": [], "whole": False}
        pools = self.adjacency.pools()
        shared = {str(self.arena.file(name)) for name in pools if name in self.arena}
        for name in self.arena.names():
            if name in pools:
                other.share(self.arena, name)
            else:
                other.put(name, self.arena[name])
        other.commit(1)
        self.arena.meta["frozen"] = list(self.adjacency.frozen())
        self.arena.meta["shared"] = sorted(shared.union(self.arena.meta["shared"]))

    def adopt(self, path: Path) -> None:
        """Stand where a fork of this partition stands."""
        other = Arena(path)
        pools = self.adjacency.pools()
        kept = {name: self.arena.meta[name] for name in ("files", "frozen", "shared")}
        for name in other.names():
            if name not in pools:
                self.arena.put(name, other[name])
            elif other.owns(name):
                values = other[name]
                self.arena.replace(name, len(values))[...] = values
        self.arena.meta = {**other.meta, **kept, "whole": True}
        other.close()
        self.refresh()

    def edges(self) -> tuple[Array, Array, Array, Array | None]:
        """Every edge: ids, how many are out of each, places of targets in the ids, values.

        One without direction comes once.
        """
        t = self.v.topology
        row, at = self.adjacency.entries()
        count = np.bincount(row, minlength=t.n)
        return self.arena["ids"], count, t.target[at], None if t.value is None else t.value[at]

    def written(self) -> tuple[str, dict[str, Array]] | None:
        """The columns of a base, or of a delta of what changed since the last call, if anything."""
        a, meta = self.arena, self.arena.meta
        alive, dirty = a["alive"], a["dirty"]
        rows = np.flatnonzero(dirty)
        if not (meta["whole"] or len(rows)):
            return None
        layers = (
            None if meta["whole"] else DeltaLayers(*meta["layers"]).add(len(rows), self.vertices)
        )
        whole = layers is None
        if whole:
            rows = a["order"]
            rows = rows[alive[rows] != 0]
        else:
            rows = rows[np.argsort(a["ids"][rows])]
        meta |= {"whole": False, "layers": layers or DeltaLayers()}
        dirty[...] = 0
        columns = {"id": a["ids"][rows], **{n: x[rows] for n, x in self.v.states.items()}}
        if "name.code" in a:
            columns |= dict(zip(NAME_COLUMNS, self.names.packed(columns["id"]), strict=True))
        if not whole and not alive[rows].all():
            columns[TOMBSTONE] = alive[rows] == 0
        return ("base" if whole else "delta"), columns
