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

import contextlib
import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from vertexsdk.engine.engine import Budget, CanReadLoop, Command, CommandResult, Engine, WorkDone
from vertexsdk.engine.events._commands import EventsCommand, EventsReport, master_at
from vertexsdk.engine.events._event_changes import EventBatch, sorted_names
from vertexsdk.engine.events._records import Chain
from vertexsdk.engine.events._resident_versions import Position, VersionPool
from vertexsdk.errors import InputError, LostError
from vertexsdk.graph.changes.changes import ADD, COUNTS
from vertexsdk.graph.changes.deltas import Deltas
from vertexsdk.graph.checkpoint import put_names
from vertexsdk.program.vertex import MAIN_LOOP
from vertexsdk.state import SegmentRef, open_store
from vertexsdk.transport.transport import Exchange

SHUFFLE = 1 << 20  # bytes of messages in a hop above which they go by the shuffle
_GONE = "start the stream again, or resume its loop"
_MANY, _SLICE = 1 << 62, 1.0  # iterations, seconds of one task
_FIRST = "it is the first time"
_GOES_ON = "an events program goes on from what its vertices hold"


class _RefusedError(Exception):
    """A change met no edge, and none was to be taken in then."""


class EventsEngine(CanReadLoop):
    """Vertices of an events program on the executors, in the versions that loops stand at.

    A command is carried out wholly or not at all: where it fails the engine stands as before.
    Made by `event_setup`.

    Attributes:
        at: the version.
        integers, value: see `Engine`.
        loop: what `self.loop` is in methods: `MAIN_LOOP`, or the name of the branch.
        reads_loop: the program reads `self.loop`. Then every vertex scatters once when a branch
            begins, as it may do there what it did not in the main loop.
    """

    from_init: str | None = None

    def __init__(
        self, family: VersionPool, at: Position, *, loop: str = MAIN_LOOP, reads_loop: bool
    ) -> None:
        self.family, self.at, self.loop = family, at, loop
        self.integers = not family.task.strings
        self.value = family.plan.program.value_dtype
        self._hops: Exchange | None = None
        self._open = True
        self._sent = 0  # bytes in the last hop
        self._counted = {"hops": 0, "bytes": 0}
        self._phases: dict[str, float] = {}
        self._made: tuple[Chain, ...] = ()  # by the order which is carried out now
        self.reads_loop = reads_loop
        self._forks = 0
        family.join()
        family.hold(at.chains)

    def execute(self, command: Command) -> CommandResult:
        """See `Engine`.

        Raises:
            InputError: ids which are not the graph's, or the engine was closed.
            RunError: a method failed, or an executor was lost; the engine stands as before.
        """
        began = time.perf_counter()
        done = CommandResult(start="warm", start_reason=_GOES_ON)
        if self.at.iteration == 0 and command.budget is not None:
            done.start, done.start_reason = "init", _FIRST
        with self._all_or_nothing():
            if self._carry_out(command, done):
                raise _RefusedError
        at = self.at
        done.iteration = max(at.iteration - 1, 0)
        done.num_vertices, done.num_edges = at.vertices, at.edges
        done.aggregates = dict(at.aggregates)
        done.statistics |= {**self._counted, "phases": self._phases, "compiled": False}
        done.statistics["total_seconds"] = time.perf_counter() - began
        return done

    def _carry_out(self, command: Command, done: CommandResult) -> bool:
        """Do it; return whether it was refused, as a change met no edge."""
        batch = self._batch(command.changes)
        budget, alone = command.budget, len(self.at.chains) == 1
        if batch is not None and not (alone and budget and not self.family.plan.max_iterations):
            if self._take(self._hop(batch=batch, strict=command.strict), command, done):
                return True
            batch = None
        wrote = False
        if budget is not None:
            refused, wrote = self._iterate(budget, done, batch, command)
            if refused:
                return True
        if command.write and not wrote:
            at = self.at
            names = 0 if at.names is None else len(at.names)
            base = at.moved or at.written != names
            self._wrote(self._hop(write="base" if base else "delta", names=at.names), done)
        return False

    def _batch(self, changes: Any) -> EventBatch | None:
        if changes is None or not len(changes):
            return None
        batch = EventBatch.of(Deltas.of_changes(changes), integers=self.integers, value=self.value)
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

    # Hops, each to a new version. -----------------------------------------------------------

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Stand as before if what is done within fails."""
        if not self._open:
            raise InputError(f"the engine of loop {self.loop!r} was closed; resume the loop")
        self._counted, self._phases, self._sent = {"hops": 0, "bytes": 0}, {}, 0
        before = self.at
        try:
            yield
        except BaseException as error:
            if self._hops is not None:  # it may hold letters
                self._hops.close()
            self._hops, self.at = None, before
            if self._made:
                self.family.release(self._made)
            self._made = ()
            if not isinstance(error, _RefusedError):
                raise
        else:
            if self._made:
                self.family.release(before.chains)
            self._made = ()

    def _learn(self, ids: list[Any]) -> None:
        if ids and not self.integers:
            self.at = replace(self.at, names=sorted_names(self.at.names, ids))

    def _hop(self, **wanted: Any) -> list[EventsReport]:
        """Run one; the engine then stands at the version which it made."""
        at, family = self.at, self.family
        if self._hops is None:
            self._hops = family.hops()
        order = EventsCommand(
            f"{family.plan.run}/{next(family.numbers)}", at.chains, self.loop,
            at.iteration, at.aggregates, at.vertices, drop=family.garbage(), **wanted,
        )  # fmt: skip
        via: Literal["driver", "shuffle"] = "shuffle" if self._sent > SHUFFLE else "driver"
        reports: list[EventsReport] = [pickle.loads(r) for r in self._hops.hop(order, via=via)]
        lost = next((r.lost for r in reports if r.lost), None)
        if lost is not None:
            raise LostError(f"{lost}; {_GONE}")
        self._sent = sum(r.bytes for r in reports)
        alone = len(at.chains) == 1
        self._counted["hops"] += 1 if alone else max(len(reports[0].history), 1)
        self._counted["bytes"] += self._sent + sum(r.exchanged for r in reports)
        for name in reports[0].seconds:
            spent = sum(r.seconds.get(name, 0.0) for r in reports) / len(reports)
            self._phases[name] = self._phases.get(name, 0.0) + spent
        if all(r.chain for r in reports):
            chains = tuple(r.chain for r in reports)
            family.hold(chains)
            if self._made:
                family.release(self._made)
            self._made = chains
            self.at = replace(
                at,
                chains=chains,
                vertices=sum(r.vertices for r in reports),
                edges=sum(r.edges for r in reports),
                moved=any(r.moved for r in reports),
            )
            self._learn([i for r in reports for i in r.born])
        return reports

    def _wrote(self, reports: Sequence[EventsReport], done: CommandResult) -> None:
        at = self.at
        done.segments = [ref for r in reports for ref in r.segments]
        done.whole = any(r.whole for r in reports)
        self.at = replace(at, moved=False, written=0 if at.names is None else len(at.names))

    def _take(self, reports: Sequence[EventsReport], command: Command, done: CommandResult) -> bool:
        """Note what became of changes; return whether they were refused."""
        taken = [r.taken for r in reports]
        done.counts = {name: sum(t.counts[name] for t in taken) for name in COUNTS}
        done.absent = sorted(k for t in taken for k in t.absent)
        if command.strict and done.absent:
            return True
        if any(t.effects for t in taken):
            self.at = replace(self.at, reason=None, since=self.at.iteration)
        return False

    def _iterate(
        self, budget: Budget, done: CommandResult, batch: EventBatch | None, command: Command
    ) -> tuple[bool, bool]:
        """Run iterations; return whether the batch was refused, and whether the state is written.

        With one partition the batch is taken in, and the state written, by the tasks that iterate.
        """
        work, began, stop, wrote = done.work, time.perf_counter(), None, False
        alone = len(self.at.chains) == 1
        while batch is not None or self.at.reason is None:
            at = self.at
            steps = _MANY if budget.iterations is None else budget.iterations - work.iterations
            seconds = _SLICE
            if budget.seconds is not None:
                seconds = min(seconds, budget.seconds - (time.perf_counter() - began))
            stop = "max_iterations" if steps <= 0 else "timeout" if seconds <= 0 else None
            if budget.cancelled is not None and budget.cancelled():
                stop = "cancelled"
            if stop is not None and batch is None:
                break
            steps = 0 if stop else steps + (at.iteration == 0)
            limit = self._last()
            many = alone or self.family.plan.resident
            reports = self._hop(
                batch=batch, strict=command.strict, wake=at.wake, unfinished=at.reason is None,
                steps=steps if many else min(steps, 1), seconds=max(seconds, 0.0), limit=limit,
                write="delta" if command.write and alone and self.integers else None,
            )  # fmt: skip
            if batch is not None and self._take(reports, command, done):
                return True, False
            batch = None
            self._count(at, reports, limit, work)
            wrote = any(r.wrote for r in reports)
            if wrote:
                self._wrote(reports, done)
            if budget.report is not None:
                budget.report(replace(work, seconds=time.perf_counter() - began))
            if not reports[0].history:
                break
        if self._sent:
            self._hop()  # so that what is on its way is part of the version
        work.quiet = self.at.reason is not None
        work.reason = self.at.reason or stop
        work.seconds = time.perf_counter() - began
        return False, wrote

    def _last(self) -> int | None:
        """The iteration after which the program's own limit ends the loop."""
        limit = self.family.plan.max_iterations
        return limit if limit is None or not self.at.since else self.at.since + limit - 1

    def _count(
        self, at: Position, reports: Sequence[EventsReport], limit: int | None, work: WorkDone
    ) -> None:
        """Follow what the tasks ran."""
        master = master_at(self.family.plan, at.iteration, at.aggregates, self.at.vertices, limit)
        for k in range(len(reports[0].history)):
            step = master.total(r.history[k] for r in reports)
            work.iterations += master.iteration > 0
            work.updates += step.updates
            work.messages += step.messages
            work.touched += step.changed
            master.advance(step)
        if reports[0].history:
            self.at = replace(
                self.at, iteration=master.iteration, aggregates=master.aggregates,
                reason=master.reason, wake=False,
            )  # fmt: skip

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
        """See `CanReadLoop`."""
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
                segments.append(
                    put_names(store, plan.loop, max(at.iteration - 1, 0), at.names.sorted)
                )
        return segments

    def close(self) -> None:
        """See `Engine`; may be called twice."""
        if self._open:
            self._open = False
            if self._hops is not None:
                self._hops.close()
            self.family.release(self.at.chains)
            self.family.leave()
