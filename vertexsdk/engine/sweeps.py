"""The iterations which one partition makes by itself between two exchanges.

A *sweep* is an iteration of this partition alone: all of its vertices that have something to do and
may do it gather in iteration L, which is later than all that they have been told. So consumers in
the partition are read directly: none has committed later than L, and rule 3 of the paper's section
4.1 holds. A vertex with a consumer elsewhere prepares first (`boundary`), unless L is the last
iteration that the bound lets it reach.

Updates committed in the bound's last iteration are not gathered until the frontier moves. Where all
vertices have gathered in it they may as well be applied; else they are sent `later`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile.methods import Scope
from vertexsdk.engine.boundary import Block, Boundary
from vertexsdk.engine.master import IterationStats
from vertexsdk.engine.processor import Processor, merged
from vertexsdk.errors import ProgramError

Array = NDArray[Any]


@dataclass(slots=True)
class SweepReport:
    """The work of a hop of sweeps, beside the progress of each.

    Attributes:
        low: the least iteration in which a vertex here may still commit; None: nothing to do.
        sent: by partition, the iterations of the updates that were sent to it: the first one, and
            the bound's last one if there are some of it.
        clock: the iteration of the last sweep.
        prepares: updates that were prepared; `asks` the PREPARE messages for them.
        acknowledges: ACKNOWLEDGE messages sent.
        held: updates that were held because of the bound.
        delays: number of commits by delay, in iterations: 0, 1, 2 to 3, 4 to 7, ...
        out_of_time: there is more that may be done now.
    """

    low: int | None = None
    sent: dict[int, list[int]] = field(default_factory=dict)
    clock: int = 0
    prepares: int = 0
    asks: int = 0
    acknowledges: int = 0
    held: int = 0
    delays: Array = field(default_factory=lambda: np.zeros(32, np.int64))
    out_of_time: bool = False
    reading: dict[str, Any] | None = None  # what aggregators read next, where sweeps are blocks


class Sweeps:
    """One hop of a partition: take in blocks, sweep as far as the bound allows, say what follows.

    Args:
        processor: the partition; its `boundary` is made at the first hop.
        frontier: the first iteration that has not terminated.
        bound: the delay bound.
        seconds: no further sweep after so many.
        patient: when nothing else is left to do, let vertices that prepare commit in the bound's
            last iteration, which needs no asking, instead of asking. Rule 2 of
            section 4.1 lets an update wait. It takes one hop instead of three, and holds the
            others up where one of the partitions is behind.
        allowed: the last iteration in which a vertex may commit; that of the bound, if others know
            of the same frontier.
    """

    def __init__(
        self,
        processor: Processor,
        frontier: int,
        bound: int,
        seconds: float,
        patient: bool = False,
        allowed: int | None = None,
    ) -> None:
        self.patient = patient
        self.p, self.v, self.t = processor, processor.v, processor.v.topology
        if processor.boundary is None:
            processor.boundary = Boundary.fresh(self.t, frontier - 1)
        self.b: Boundary = processor.boundary
        self.frontier, self.last = frontier, frontier + bound - 1
        self.allowed = self.last if allowed is None else min(allowed, self.last)
        self.until = time.monotonic() + seconds
        self.done = SweepReport()
        self.blocks: dict[int, Block] = {}
        self._changed: list[Array] = []  # ghosts to send, since the last `_pack`
        self._first = self._latest = 0
        self._holds = True  # whether any vertex is held

    # What came. -----------------------------------------------------------------------------

    def receive(self, blocks: list[tuple[int, Block, dict[str, Any]]]) -> None:
        """Take in what the others said, and the updates that the frontier lets go.

        Args:
            blocks: source, columns and meta of each.
        """
        b, held = self.b, self.b.queue
        b.queue = []
        for source, index, values, first, last in held:
            self._update(source, index, values, first, last)
        for source, columns, meta in blocks:
            if (update := self.p.inbound_values(source, columns)) is not None:
                first, last = meta.get("update", (self.frontier - 1,) * 2)  # of the first hop
                self._update(source, *update, first, last)
            if "last.index" in columns:
                at = meta["last"]
                self._update(source, columns["last.index"], columns["last.value"], at, at)
            b.take(self.t, source, columns, meta.get("lamport", 0))
        self._settle()
        self._holds = bool(b.holds.any())
        later, b.later = b.later, b.later[:0]
        if len(later) and b.clock < self.last:
            self._scatter(later, b.clock, IterationStats())
            b.sealed = True
        else:
            b.later = later

    def _update(self, source: int, index: Array, values: Array, first: int, last: int) -> None:
        if last >= self.last:
            self.done.held += len(index)
            self.b.queue.append((source, index, values, first, last))
            return
        self.b.floor = max(self.b.floor, last)
        self.p.delivery.inbound(source, index, values, self.v.msg, self.v.agg)

    def _settle(self) -> None:
        """Have vertices whose aggregate changed gather; remember the ghosts for which it did."""
        changed = self.p.delivery.finish(self.v.msg, self.v.agg)
        cut = int(np.searchsorted(changed, self.t.n))
        if cut:
            pending = self.v.pending
            self.v.pending = merged(pending, changed[:cut]) if len(pending) else changed[:cut]
        if cut < len(changed):
            self._changed.append(changed[cut:])

    # Sweeps. --------------------------------------------------------------------------------

    def run(self, note: Callable[[int, IterationStats], None]) -> SweepReport:
        """Sweep until nothing is left that may be done now; `note` is told of every sweep."""
        b = self.b
        while True:
            at = max(b.clock + b.sealed, self.frontier, b.floor + 1)
            if at > self.allowed:
                break  # where that is the bound's last one, no vertex prepares (`_sweep`)
            ready, least = b.ready(self.t, self.allowed)
            at = max(at, least)
            if at == self.last:  # which needs no asking
                ready = b.preparing[b.holds[b.preparing] == 0]
            todo, rest = self._split(ready)
            waits = rest if len(ready) == len(b.preparing) else merged(rest, b.preparing)
            b.wait(waits, at, self.t)
            if not len(todo) and not len(ready):
                done = not self.patient or not len(b.preparing) or at == self.last
                if done or self.allowed < self.last:
                    break
                at, ready = self.last, b.preparing[b.holds[b.preparing] == 0]
                todo, rest = self._split(ready)
            self._sweep(at, todo, rest, ready, note)
            if time.monotonic() > self.until:
                self.done.out_of_time = True
                break
        self.done.low, self.done.clock = self._low(), b.clock
        return self.done

    def run_block(self, note: Callable[[int, IterationStats], None]) -> SweepReport:
        """Sweep every vertex in each iteration up to the bound; no vertex needs to ask.

        Vertices with consumers elsewhere commit in the last iteration, all others in each. The
        first sweep reads what all vertices last committed, as a synchronous iteration does, so
        what is contributed in it is what the rule of convergence sees (the first `note`); what
        is contributed in the last is what aggregators read next (`SweepReport.reading`).
        """
        b, v, algebras = self.b, self.v, self.p.plan.program.aggregators
        all_vertices = np.arange(self.t.n, dtype=np.int32)
        waiting = all_vertices[:0]
        for at in range(self.frontier, self.last + 1):
            progress = IterationStats(updates=len(all_vertices))
            into = {k: a.identity for k, a in algebras.items()}
            senders = merged(self._gather(all_vertices, at, into), waiting)
            if at < self.last:
                crosses = b.crossings(self.t)[senders]
                waiting, senders = senders[crosses], senders[~crosses]
            else:
                self._pack()
            self._scatter(senders, at, progress, into)
            b.committed[senders] = at
            b.clock = at
            progress.changed, progress.pending = len(senders), len(v.pending)
            progress.aggregates = self.done.reading = into
            note(at, progress)
        v.pending = v.pending[:0]
        self.done.low, self.done.clock = self.last + 1, b.clock
        return self.done

    def _split(self, ready: Array) -> tuple[Array, Array]:
        """The pending vertices that may gather now, and those that others keep from it."""
        b, pending = self.b, self.v.pending
        if self.v.all_pending:
            pending = np.arange(self.t.n, dtype=np.int32)
            self.v.all_pending = False
        if not len(b.preparing) and not self._holds:
            return pending, pending[:0]
        free = (b.holds[pending] == 0) & (b.began[pending] == 0)
        free |= np.isin(pending, ready)
        return pending[free], pending[~free]

    def _sweep(
        self,
        at: int,
        todo: Array,
        rest: Array,
        ready: Array,
        note: Callable[[int, IterationStats], None],
    ) -> None:
        b, v = self.b, self.v
        progress = IterationStats(updates=len(todo))
        senders = self._gather(todo, at)
        waited = todo[(b.due[todo] != 0) & (b.began[todo] == 0)]
        if len(waited):
            b.content(waited[~np.isin(waited, senders)])
        if at < self.last:
            crosses = b.crossings(self.t)[senders] & (b.began[senders] == 0)
            starting, senders = senders[crosses], senders[~crosses]
            b.due[starting[b.due[starting] == 0]] = at
            b.prepare(starting, self.t)
            self.done.prepares += len(starting)
        commits = merged(senders, ready) if len(ready) else senders
        self._count_delays(commits, at)
        b.commit(commits, at)
        v.pending = rest
        b.clock, b.sealed = at, True
        if at == self.last and (len(rest) or len(b.preparing)):
            b.later = merged(b.later, commits)  # some have still to gather in this iteration
            b.sealed = False
        else:
            if at == self.last:
                self._pack()
            commits = merged(commits, b.later) if len(b.later) else commits
            b.later = b.later[:0]
            self._scatter(commits, at, progress)
        progress.changed = len(commits)
        progress.pending = len(v.pending)
        progress.aggregates = {k: a.identity for k, a in self.p.plan.program.aggregators.items()}
        note(at, progress)

    def _gather(self, todo: Array, at: int, into: dict[str, Any] | None = None) -> Array:
        p, v = self.p, self.v
        log = p.new_log()
        read = dict(p.reading)
        into = dict(read) if into is None else into  # contributions that are not read
        scope = Scope(v, p.delivery, at, read, into, log)
        parts = [methods.gather(scope, part) for methods, part in p.by_class(todo)]
        self._refuse(log)
        return np.sort(np.concatenate([todo[:0], *parts])) if len(parts) != 1 else parts[0]

    def _scatter(
        self, commits: Array, at: int, progress: IterationStats, into: dict[str, Any] | None = None
    ) -> None:
        p, v = self.p, self.v
        log = p.new_log()
        read = dict(p.reading)
        into = dict(read) if into is None else into
        scope = Scope(v, p.delivery, at, read, into, log)
        for methods, part in p.by_class(commits):
            progress.messages += methods.scatter(scope, part)
        self._refuse(log)
        previous = len(self._changed)
        self._settle()
        if len(self._changed) > previous:
            self._first = self._first or at
            self._latest = at

    def _refuse(self, log: Any) -> None:
        if log:
            raise ProgramError(
                f"{self.p.plan.program.name}: emit to a vertex which is not a target needs "
                "synchronous iterations (delay_bound=1)"
            )

    def _count_delays(self, commits: Array, at: int) -> None:
        due = self.b.due[commits]
        late = due[due != 0]
        delays = (at - late[late < at]).astype(np.int64)
        buckets = np.bincount(np.log2(delays).astype(np.int64) + 1, minlength=32)[:32]
        self.done.delays += buckets
        self.done.delays[0] += len(commits) - len(delays)

    def _low(self) -> int | None:
        b = self.b
        lows = [first + 1 for *_, first, _ in b.queue]
        waits = [b.preparing]
        if len(self.v.pending):
            due = b.due[self.v.pending] != 0  # which have waited, and perhaps still do
            waits.append(self.v.pending[due])
            if not due.all():
                lows.append(max(b.clock + b.sealed, self.frontier, b.floor + 1))
        lows += [int(b.due[w].min()) for w in waits if len(w)]
        if len(b.later):
            lows.append(b.clock + 1)
        return min(lows, default=None)

    # What is to be said. --------------------------------------------------------------------

    def _pack(self) -> None:
        """Queue the aggregates of ghosts that changed for their owners, as one set of updates."""
        if not self._changed:
            return
        changed = merged(*self._changed) if len(self._changed) > 1 else self._changed[0]
        self._changed = []
        final = self._first == self.last
        names = ("last.index", "last.value") if final else ("index", "value")
        for q, index, values in self.p.ghost_values(changed):
            block = self.blocks.setdefault(q, {})
            block[names[0]], block[names[1]] = index, values
            meta = block.setdefault("meta", {})
            if final:
                meta["last"] = self._first
            else:
                meta["update"] = [self._first, self._latest]
            self.done.sent.setdefault(q, []).append(self._first)
        self._first = self._latest = 0

    def outgoing(self) -> dict[int, Block]:
        """The blocks for other partitions, each with its meta under that name.

        PREPAREs are sent only when nothing else is left to do: most values that a partition has on
        the way to its own fixed point are not worth asking for.
        """
        self._pack()
        ask = not self.patient and not self.done.out_of_time
        spoken, self.done.asks, self.done.acknowledges = self.b.say(self.t, ask=ask)
        for q, columns in spoken.items():
            self.blocks.setdefault(q, {}).update(columns)
        for block in self.blocks.values():
            block["meta"] = {**block.get("meta", {}), "lamport": self.b.lamport}
        return self.blocks
