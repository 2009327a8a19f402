"""The engine of programs of the events level over a graph that changes; see `Engine`.

A change of an edge becomes a delta for the vertex whose target it concerns: ADD_TARGET where the
edge is new or has a new value, REMOVE_TARGET where it has gone. So a program that answers them as
`Vertex.gather` does has the edges as `targets`; `addedTargets` are those which are new, or have
another value, since the last scatter. A change that changes nothing makes no delta. Deltas that
are no edges come with `delta.kind` as sent, and None for the source. What came in is gathered in
the next iteration, in the order in which it came, where the vertex itself stands in the order of
sources.

Vertices stay once they were created, with their state; the answers have those which an edge, the
vertex file, a parameter, a delta that is no edge, or (if they had not been there) a message names.
A version holds what is on its way too. Versions never change, and share what they can, so a fork
copies nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vertexsdk.engine.engine import Engine, Orders, Outcome
from vertexsdk.engine.events._driver import EventDriver, RefusedError
from vertexsdk.engine.events._event_changes import Batch
from vertexsdk.engine.events._node_segments import put_names
from vertexsdk.engine.events._resident_versions import At, Family
from vertexsdk.errors import InputError
from vertexsdk.graph.changes.changes import ADD
from vertexsdk.graph.changes.deltas import Deltas
from vertexsdk.program.vertex import MAIN_LOOP
from vertexsdk.state import SegmentRef, open_store

__all__ = ["EventsEngine"]

_FIRST = "it is the first time"
_GOES_ON = "an events program goes on from what its vertices hold"


class EventsEngine(EventDriver):
    """Vertices of an events program on the executors, in the versions that loops stand at.

    Orders are carried out wholly or not at all: where they fail the engine stands as before.
    Made by `event_setup`.

    Attributes:
        loop: what `self.loop` is in methods: `MAIN_LOOP`, or the name of the branch.
        reads_loop: the program reads `self.loop`. Then every vertex scatters once when a branch
            begins, as it may do there what it did not in the main loop.
    """

    from_init: str | None = None

    def __init__(self, family: Family, at: At, *, loop: str = MAIN_LOOP, reads_loop: bool) -> None:
        super().__init__(family, at, loop)
        self.reads_loop = reads_loop
        self._forks = 0

    def advance(self, orders: Orders) -> Outcome:
        """See `Engine`.

        Raises:
            InputError: ids which are not the graph's, or the engine was closed.
            RunError: a method failed, or an executor was lost; the engine stands as before.
        """
        began = time.perf_counter()
        done = Outcome(start="warm", start_reason=_GOES_ON)
        if self.at.iteration == 0 and orders.budget is not None:
            done.start, done.start_reason = "init", _FIRST
        with self._all_or_nothing():
            if self._carry_out(orders, done):
                raise RefusedError
        at = self.at
        done.iteration = max(at.iteration - 1, 0)
        done.num_vertices, done.num_edges = at.vertices, at.edges
        done.aggregates = dict(at.aggregates)
        done.statistics |= {**self._counted, "phases": self._phases, "compiled": False}
        done.statistics["total_seconds"] = time.perf_counter() - began
        return done

    def _carry_out(self, orders: Orders, done: Outcome) -> bool:
        """Do it; return whether it was refused, as a change met no edge."""
        batch = self._batch(orders.changes)
        budget, alone = orders.budget, len(self.at.chains) == 1
        if batch is not None and not (alone and budget and not self.family.plan.max_iterations):
            if self._take(self._hop(batch=batch, strict=orders.strict), orders, done):
                return True
            batch = None
        wrote = False
        if budget is not None:
            refused, wrote = self._iterate(budget, done, batch, orders)
            if refused:
                return True
        if orders.write and not wrote:
            at = self.at
            names = 0 if at.names is None else len(at.names)
            base = at.moved or at.written != names
            self._wrote(self._hop(write="base" if base else "delta", names=at.names), done)
        return False

    def _batch(self, changes: Any) -> Batch | None:
        if changes is None or not len(changes):
            return None
        batch = Batch.of(Deltas.of_changes(changes), integers=self.integers, value=self.value)
        edges = zip(batch.kind, batch.source, batch.target, strict=True)
        self._learn([i for kind, a, b in edges if kind == ADD for i in (a, b)])
        self._learn([s.vertex for s in batch.deltas.sent])
        return batch

    def load(self, named: Any, nodes: Sequence[SegmentRef]) -> None:
        """Take in the graph which was loaded, or what a checkpoint has; called once, at first."""
        with self._all_or_nothing():
            if nodes:
                reports = self._hop(restore=tuple(nodes))
                kept = next(r.remembered for r in reports if r.remembered is not None)
                now = self.at
                self.at = replace(
                    kept, chains=now.chains, vertices=now.vertices, edges=now.edges,
                    names=now.names, moved=True,
                )  # fmt: skip
            else:
                self._hop(load=True, named=named, names=self.at.names)
                self._hop()

    # Other engines, and the store. ----------------------------------------------------------

    def fork(self, name: str | None = None) -> Engine:
        """See `Engine`; `name` is what `self.loop` is there, by default `branch-1`, `-2`, ..."""
        if not self._open:
            raise InputError(f"the engine of loop {self.loop!r} was closed; resume the loop")
        self._forks += 1
        own = "branch" if self.loop == MAIN_LOOP else self.loop
        made = EventsEngine(self.family, self.at, reads_loop=self.reads_loop)
        made.enter(name or f"{own}-{self._forks}")
        return made

    def enter(self, loop: str) -> None:
        """Be the engine of a branch of this name."""
        if self.reads_loop:
            self.at = replace(self.at, wake=True, reason=None)
        self.loop = loop

    def adopt(self, fork: Engine) -> None:
        """See `Engine`."""
        other: object = fork
        assert isinstance(other, EventsEngine)
        self.family.hold(other.at.chains)
        self.family.release(self.at.chains)
        self.at = replace(other.at, iteration=max(self.at.iteration, other.at.iteration))

    def checkpoint(self) -> list[SegmentRef]:
        """See `Engine`; beside the edges are the vertices, in group "nodes"."""
        at = self.at
        with self._all_or_nothing():
            kept = replace(at, chains=(), names=None, written=None)
            reports = self._hop(checkpoint=True, names=at.names, remember=kept)
        segments = [ref for r in reports for ref in r.segments]
        plan = self.family.plan
        if at.names is not None and plan.store is not None:
            with open_store(plan.store) as store:
                segments.append(put_names(store, plan.loop, max(at.iteration - 1, 0), at.names))
        return segments
