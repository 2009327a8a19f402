"""Iterations of a partition whose graph changes: each ends with everything as it must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine._master import Progress
from vertexsdk.engine.incremental._partition_state import LiveState

__all__ = ["LiveIterations"]

Array = NDArray[Any]


class LiveIterations(LiveState):
    """A partition that iterates; see `Processor` for one whose graph stays."""

    def begin(self) -> Progress:
        """Run iteration 0: `init` and the first scatter of every vertex."""
        a = self.arena
        everyone = self._everyone()
        self._tick()
        progress = Progress()
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
        self._schedule(everyone)
        progress.updates = progress.changed = len(everyone)
        progress.aggregates = into
        return progress

    def step(
        self, iteration: int, aggregates: dict[str, Any], ends: Callable[[dict[str, Any]], bool]
    ) -> Progress:
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
            self._doubt(todo, senders)
        a["dirty"][senders] = 1
        a.resize("pending", 0)
        progress = Progress(updates=len(todo), changed=len(senders), aggregates=into)
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

    def _doubt(self, todo: Array, senders: Array) -> None:
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
        aggregates = v.agg[same]
        kept = {name: column[same] for name, column in v.states.items()}
        v.agg[same] = self.algebra.identity
        changed = self.methods.gather(v, self.delivery, same, 1, {}, {}, self.log)
        v.agg[same] = aggregates
        for name, column in v.states.items():
            column[same] = kept[name]
        a.meta["unsure"] = len(changed) > 0

    def restart(self, reason: str) -> None:
        """Stand before iteration 0 again, on the graph as it is."""
        a = self.arena
        self.delivery.due = False
        self.delivery.finish(self.v.msg, self.v.agg)  # for its marks
        for name, f in self.plan.program.states().items():
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

    def _finish(self, progress: Progress) -> None:
        if self.delivery.due:
            progress.pending = self.vertices
        else:
            self._schedule(self.delivery.finish(self.v.msg, self.v.agg))
            if self.comparing and len(self.delivery.withdrawn):
                self.arena.meta["falling"] = True  # no monotone program: a message got worse
            progress.pending = self.arena.length("pending")
