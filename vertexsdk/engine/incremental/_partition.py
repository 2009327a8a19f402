"""A partition whose graph changes under a program's state: changes in, iterations, state out.

Changes of edges are changes of messages: one that comes, goes or has another value. What that
withdraws is trimmed at once (see `_trimming`), so that a budget of iterations may end anywhere.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine._processor import merged
from vertexsdk.engine._trimming import withdraw
from vertexsdk.engine.incremental._iterations import LiveIterations
from vertexsdk.engine.incremental._renumber import renumber, sparse
from vertexsdk.engine.incremental._restart_policy import Pace
from vertexsdk.engine.incremental._row_edits import Edits, distinct
from vertexsdk.engine.incremental._row_kernels import INSERT

__all__ = ["LivePartition"]

Array = NDArray[Any]


class LivePartition(LiveIterations):
    """A partition that takes in changes."""

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
        Pace(self.arena.meta).changed(len(edits))
        rows = self.adjacency.edit(edits, tuple(self.arena.meta["frozen"]))
        if self.arena.meta["falling"] and self.arena.meta["begun"]:
            self.restart("messages got worse, so the answer depends on the start")
        touched = 0
        if self.arena.meta["begun"]:
            touched = self._live(edits, rows)
        else:
            self._come_and_go(edits)
        self.adjacency.compact()
        if sparse(self):
            renumber(self)
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

    def _come_and_go(self, edits: Edits) -> Array:
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

    def _live(self, edits: Edits, rows: Edits) -> int:
        """Have messages and state follow changes of edges which have been made."""
        before = self.vertices
        fresh = self._come_and_go(edits)
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
            silent = self._silent(known)
            new[np.isin(known.row, silent)] = self.algebra.identity
            v.msg[silent] = self.algebra.identity
            first = merged(fresh, silent)
        if len(first):
            self._scatter(first)
            self._schedule(delivery.finish(v.msg, v.agg))
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
        self.methods.scatter(v, delivery, gone, 1, {}, {}, self.log)
        a["dirty"][gone] = 1
        self._schedule(delivery.finish(v.msg, v.agg))
        self._schedule(gone)
        return gathers

    def _silent(self, rows: Edits) -> Array:
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
