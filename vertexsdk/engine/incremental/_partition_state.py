"""The arrays of a partition whose graph changes under a program's state, in an arena.

Between two calls every aggregate is what the messages of all producers come to, and `pending` are
the vertices whose state may not follow from their aggregate yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.json_values import to_scalars
from vertexsdk.compile.delivery import Delivery
from vertexsdk.compile.mutation_log import Log
from vertexsdk.compile.native import NativeMethods
from vertexsdk.compile.plan import Plan, delivery_module
from vertexsdk.compile.vertex_arrays import Vertices
from vertexsdk.engine._processor import merged, methods_of
from vertexsdk.engine.incremental._adjacency import Adjacency
from vertexsdk.engine.incremental._arena import Arena
from vertexsdk.engine.incremental._edge_messages import Messages
from vertexsdk.engine.incremental._local_index import VertexIndex
from vertexsdk.graph.topology import Topology
from vertexsdk.state.reading import TOMBSTONE
from vertexsdk.state.version_writer import DeltaLayers

__all__ = ["LiveState"]

Array = NDArray[Any]


class LiveState:
    """The vertices, edges and messages of a loop with one partition.

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
        self.module = delivery_module(self.algebra)
        methods = methods_of(plan, 0, self.module)[0]
        assert isinstance(methods, NativeMethods)
        self.methods = methods
        self.comparing = self.algebra.kind != "sum"  # and so values are trimmed

    def create(self, t: Topology, edges: int, named: Array) -> None:
        """Begin with a graph, before iteration 0.

        Args:
            t: the graph in the direction of its edges.
            edges: how many it has.
            named: bool[n], the vertices which are there without edges too.
        """
        self.index.create(t.ids)
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
        self.v = Vertices(t, states, a["msg"] if uniform else a["msg"][:0], a["agg"], a["pending"])
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
        self.messages = Messages(plan.shape, self.methods, self.delivery)
        self.methods.num_vertices = self.vertices
        self.aggregates = {**none, **a.meta["aggregates"]}
        self.log = Log(self.algebra, plan.program.value_dtype)

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
        if not whole and not alive[rows].all():
            columns[TOMBSTONE] = alive[rows] == 0
        return ("base" if whole else "delta"), columns
