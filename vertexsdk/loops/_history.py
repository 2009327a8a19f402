"""An engine and the versions of its loop: orders are carried out, then committed as one version.

What was carried out and could not be committed never happened: the engine is made again from the
newest version before it is used again. So what is in the store and what is on the executors do
not part, whatever fails in between.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from vertexsdk.arrays.json_values import as_json
from vertexsdk.engine.engine import Budget, Effort, Engine, Orders, Outcome
from vertexsdk.engine.phases import Spent
from vertexsdk.errors import InputError, RunError, StateError
from vertexsdk.graph.changes.cast import cast_changes
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.changes.deltas import edges_only
from vertexsdk.loops._change_log import ChangeLog
from vertexsdk.loops._ledger import Ledger
from vertexsdk.loops.result import Result
from vertexsdk.program.program import Program
from vertexsdk.state import FencedError, Manifest, SegmentRef, Store, open_store
from vertexsdk.state.address import Address

__all__ = ["HistoryConfig", "LoopHistory"]

_log = logging.getLogger("vertexsdk")

_LOGGED = 1 << 20  # changes in the log that make a checkpoint, or a quarter of the edges if more
_LOST = "an executor was lost"
_TRIES = 3
_LONG = 8  # of what makes a checkpoint, as a part, is enough when the loop is closed
_PRUNE = 64  # commits at least between looks at old versions
_MOMENT = 0.2  # seconds for which a fork may hold up a loop, to be at its fixed point
_SECONDS = 1e-3  # which such looks may take, per commit
_NONE = {
    "iterations": 0, "hops": 0, "updates": 0, "prepares": 0, "acknowledges": 0, "messages": 0,
    "bytes": 0, "seconds": 0.0, "total_seconds": 0.0,
}  # fmt: skip


@dataclass(frozen=True)
class HistoryConfig:
    """What the versions of a loop and of its forks have in common.

    Attributes:
        program: whose state it is.
        address: URL of the store.
        restore: makes an engine that stands at a version.
        checkpoint_every: changes in the log that make a checkpoint; None is judged by the edges.
        retain: versions that are kept.
        trusted: read fields that are Python objects.
    """

    program: Program
    address: Address
    restore: Callable[[Store, Manifest], Engine]
    checkpoint_every: int | None = None
    retain: int = 64
    trusted: bool = False


_Done = TypeVar("_Done")


@dataclass(frozen=True)
class _LazyFork:
    """A fork of a loop at its fixed point, whose answer is in the store: often needs no engine.

    Attributes:
        integers, value: see `Engine`.
        make: makes an engine that stands where the branch was forked.
        known: what `Engine.advance` would report while nothing has changed.
    """

    integers: bool
    value: str | None
    make: Callable[[], Engine]
    known: Outcome


class LoopHistory:
    """The versions of one loop, and the engine which makes the next ones.

    Attributes:
        current: the newest version and its ledger; read without the lock.
        lock: held while orders are carried out.
        integers, value: see `Engine`.
        spent: where the time of carrying them out went, beside the engine's.
    """

    def __init__(
        self,
        config: HistoryConfig,
        store: Store,
        loop: str,
        engine: Engine | _LazyFork,
        current: tuple[Manifest, Ledger],
        log: ChangeLog,
    ) -> None:
        self.config, self.store, self.loop = config, store, loop
        self._engine = engine
        self.integers, self.value = engine.integers, engine.value
        self.current, self.log = current, log
        self.lock = threading.RLock()
        self.statistics = {k: v for k, v in current[0].statistics.items() if k != "main"}
        self.aggregates = current[0].aggregates
        self.spent = Spent()
        self._iteration = 0  # of the engine
        self._stale = False
        self._branch = False
        self._ended: Exception | None = None
        self._commits, self._prune = 0, _PRUNE
        self._least = config.checkpoint_every or _LOGGED  # changes in the log for a checkpoint

    @property
    def engine(self) -> Engine:
        """The engine, which is made if there is none yet."""
        if isinstance(self._engine, _LazyFork):
            self._engine = self._engine.make()
        return self._engine

    @property
    def manifest(self) -> Manifest:
        """The newest version."""
        return self.current[0]

    @property
    def ledger(self) -> Ledger:
        """What the newest version has taken in."""
        return self.current[1]

    def cast(self, changes: Changes | DataFrame | Iterable[Sequence[Any]]) -> Changes:
        """Return changes as this loop's graph takes them; see `cast`."""
        undirected = self.ledger.undirected
        return cast_changes(
            changes, integers=self.integers, value=self.value, undirected=undirected
        )

    def result(
        self,
        backend: Address,
        loop: str,
        iteration: int,
        statistics: Mapping[str, Any],
        spark: SparkSession,
    ) -> Result:
        """Open a version of this loop or of a fork, to be read."""
        config = self.config
        schema = config.program.schema()
        return Result(backend, loop, iteration, statistics, spark, config.trusted, schema)

    def execute(
        self,
        changes: Changes | None = None,
        *,
        strict: bool = False,
        budget: Budget | None = None,
        offsets: Mapping[str, Any] | None = None,
        **counters: int,
    ) -> Outcome:
        """Have the engine take in changes and iterate, and commit what came of it.

        Args:
            offsets: of sources, to be remembered with it.
            counters: more of the ledger's, to be added to.

        Raises:
            InputError: the changes do not fit; nothing happened.
            RunError, StateError: nothing happened, as far as any reader can tell.
        """
        with self.lock:
            self.recover()
            ref, log = None, self.log
            changes = None if changes is None else edges_only(self.config.program, changes)
            batch = changes if changes is not None and len(changes) else None
            if batch is not None:
                number = self.manifest.iteration + 1
                with self.spent.timed("commit"):
                    ref, log = log.write(self.store, self.loop, number, batch)
            whole = (
                ref if ref is not None and batch is not None and ref.rows == len(batch) else None
            )
            orders = Orders(batch, whole, strict, budget, write=budget is not None)
            try:
                if isinstance(self._engine, _LazyFork) and batch is None:
                    out = copy.deepcopy(self._engine.known)
                else:
                    out = self._on_engine(lambda engine: engine.advance(orders))
            except BaseException:
                # Refused changes leave an engine as it was; iterations need not.
                self._stale = self._stale or budget is not None
                self._discard(ref)
                raise
            if strict and out.absent:
                self._discard(ref)
                return out
            ledger = self.ledger.after(out, len(batch or ()), iterated=budget is not None)
            more = {name: getattr(ledger, name) + n for name, n in counters.items()}
            ledger = replace(ledger, **more)
            if out.segments or budget is not None:
                self._describe(out)
            if ref is not None or out.segments or offsets or ledger != self.ledger:
                segments = [*([ref] if ref is not None else []), *out.segments]
                self._commit(segments, log, ledger, out.iteration, offsets)
            self._least = self.config.checkpoint_every or max(_LOGGED, out.num_edges // 4)
            if self.log.size > self._least:
                try:
                    self.checkpoint()
                except (RunError, StateError) as error:  # what came is in the log all the same
                    _log.warning("%s: no checkpoint was written: %s", self.loop, error)
            return out

    def _describe(self, out: Outcome) -> None:
        effort = out.effort
        said = {
            "iterations": effort.iterations, "updates": effort.updates,
            "messages": effort.messages, "seconds": effort.seconds, "reason": effort.reason,
            "num_vertices": out.num_vertices, "num_edges": out.num_edges,
        }  # fmt: skip
        start = {"start": out.start, "start_reason": out.start_reason, "touched": effort.touched}
        result = {"result": self.config.program.result}
        self.statistics = {**_NONE, **said, **result, **out.statistics, **start}
        self.aggregates = as_json(out.aggregates)

    def _commit(
        self,
        segments: list[SegmentRef],
        log: ChangeLog,
        ledger: Ledger,
        iteration: int | None = None,
        offsets: Mapping[str, Any] | None = None,
        content: Manifest | None = None,
    ) -> None:
        """Make a version of what the engine stands at; its number grows by one or more."""
        parent = self.manifest
        steps = 1 if iteration is None else max(iteration - self._iteration, 1)
        began = time.perf_counter()
        try:
            manifest = self.store.commit(
                self.loop,
                iteration=parent.iteration + steps,
                segments=segments,
                parent=parent,
                content=content,
                aggregates=self.aggregates,
                statistics={**self.statistics, **ledger.statistics()},
                offsets={**parent.offsets, **(offsets or {})},
            )
        except BaseException as error:
            self._stale = True
            if isinstance(error, FencedError):
                self._ended = error
            raise
        self.spent.add("commit", time.perf_counter() - began)
        self._iteration = self._iteration if iteration is None else iteration
        self.current, self.log = (manifest, ledger), log
        self._commits += 1
        if self._commits >= self._prune:
            began = time.perf_counter()
            with contextlib.suppress(StateError):
                self.store.prune(self.loop, self.config.retain)
            seconds = time.perf_counter() - began  # a store with many loops takes longer
            self._prune = self._commits + max(_PRUNE, int(seconds / _SECONDS))

    def _log_of(self, manifest: Manifest, store: Store | None = None) -> ChangeLog:
        sent, undirected = self.config.program.algebra is None, Ledger.read(manifest).undirected
        return ChangeLog.of(store or self.store, manifest, sent=sent, undirected=undirected)

    def _enter(self) -> None:
        """Let the engine of a branch know in which loop it is, if its program may ask."""
        enter = getattr(self._engine, "enter", None)
        if enter is not None and self._branch:
            enter(self.loop)

    def _discard(self, ref: SegmentRef | None) -> None:
        if ref is not None:
            with contextlib.suppress(StateError):
                self.store.backend.delete_segments([ref.key])

    def recover(self) -> None:
        """Stand where the newest version stands, if something failed since; with the lock held."""
        if self._ended is not None:
            raise self._ended
        if self._stale:
            self._close_engine()
            newest = self.store.version(self.loop)
            if newest.name != self.manifest.name:  # it was committed, and what followed failed
                self.current, self.log = (newest, Ledger.read(newest)), self._log_of(newest)
            self._engine = self.config.restore(self.store, self.manifest)
            self._iteration, self._stale = 0, False
            self._enter()

    def _close_engine(self) -> None:
        if not isinstance(self._engine, _LazyFork):
            with contextlib.suppress(Exception):
                self._engine.close()

    def _on_engine(self, work: Callable[[Engine], _Done]) -> _Done:
        """Have the engine do something; if an executor took it along, another from the store."""
        for left in reversed(range(_TRIES)):
            try:
                return work(self.engine)
            except InputError:
                raise
            except BaseException as error:
                self._stale = True
                if not left or not isinstance(error, RunError) or _LOST not in str(error):
                    raise
                _log.warning("%s: %s; it is made again from the store", self.loop, _LOST)
                self.recover()
        raise AssertionError("unreachable")

    def checkpoint(self) -> None:
        """Write the graph as it is, which takes the place of the logged changes."""
        with self.lock:
            self.recover()
            segments = self._on_engine(lambda engine: engine.checkpoint())
            self._commit(segments, ChangeLog(), self.ledger)

    def fork(self, name: str, at: int | None = None) -> LoopHistory:
        """The versions of a new loop which stands here, or where version `at` stood.

        Raises:
            StateInputError: there is a loop of that name, or no such version.
        """
        store = open_store(self.config.address, create=False)
        try:
            if at is None:
                with self.lock:
                    engine = self._forked()
                    current, log = self.current, self.log
                    try:
                        self.store.fork(self.loop, name)
                    except BaseException:
                        if not isinstance(engine, _LazyFork):
                            engine.close()
                        raise
            else:
                manifest = store.fork(self.loop, name, at)
                try:
                    engine = self.config.restore(store, manifest)
                except BaseException:
                    store.delete(name)
                    raise
                current, log = (manifest, Ledger.read(manifest)), self._log_of(manifest, store)
            made = LoopHistory(self.config, store, name, engine, current, log)
            made._iteration = self._iteration if at is None else 0
            made._branch = True
            made._enter()
            return made
        except BaseException:
            store.close()
            raise

    def _forked(self) -> Engine | _LazyFork:
        """An engine for a fork; a lazy one where an engine would hold up this loop.

        That needs the fixed point, to which this loop is brought if it takes a moment.
        """
        self.recover()
        lazy = isinstance(self._engine, _LazyFork) or getattr(self._engine, "fork_copies", False)
        if not lazy or not self.ledger.state:
            return self._on_engine(lambda engine: engine.fork())
        if not self.ledger.exact:
            self.execute(budget=Budget(seconds=_MOMENT))
        if not self.ledger.exact:
            return self._on_engine(lambda engine: engine.fork())
        manifest, said = self.manifest, self.statistics
        known = Outcome(
            effort=Effort(residual=self.ledger.residual, quiet=True, reason="quiet"),
            iteration=self._iteration,
            start="warm",
            start_reason="the loop that it was forked from was at its fixed point",
            num_vertices=said.get("num_vertices", 0),
            num_edges=said.get("num_edges", 0),
            aggregates=dict(self.aggregates),
        )

        def make() -> Engine:
            with self.lock:
                if self._ended is None and self.manifest.name == manifest.name:
                    self.recover()
                    return self._on_engine(lambda engine: engine.fork())
            with open_store(self.config.address, create=False) as store:
                return self.config.restore(store, manifest)

        return _LazyFork(self.integers, self.value, make, known)

    def merge(self, branch: LoopHistory, received: int) -> None:
        """Stand where a fork stands now, if nothing was received since it was made.

        With this loop at iteration τ, its result is written at τ+B, B being the delay bound: no
        update made here can be of so late an iteration, so what was in transit is dropped
        (section 5.2). What it took in by itself is taken in here.

        Args:
            received: of this loop when the fork was made.

        Raises:
            InputError: input arrived since; nothing happened.
        """
        with self.lock, branch.lock:
            self.recover()
            branch.recover()
            arrived = self.ledger.received - received
            if arrived:
                raise InputError(
                    f"{arrived:,} changes came to loop {self.loop!r} since {branch.loop!r} was "
                    "forked from it: fork again, so that none of them is lost"
                )
            ledger = replace(
                branch.ledger,
                queries=max(self.ledger.queries, branch.ledger.queries),
                bad=self.ledger.bad,
                repeated=self.ledger.repeated,
            )
            self.statistics, self.aggregates = branch.statistics, branch.aggregates
            bound = int(branch.statistics.get("delay_bound") or 1)
            later = self._iteration + bound
            self._commit([], branch.log, ledger, later, content=branch.manifest)
            self._stale = branch._stale = True
            if not isinstance(branch._engine, _LazyFork):  # which stands where this one does
                self.engine.adopt(branch._engine)
            self._stale, self._iteration = False, branch._iteration
            branch._ended = InputError(
                f"{branch.loop!r} was merged into {self.loop!r}: fork again; its result can be read"
            )

    def close(self, *, tidy: bool = False) -> None:
        """Free the engine, and let go of the store; may be called twice.

        Args:
            tidy: write a checkpoint if replaying the log would take long.
        """
        with self.lock:
            usable = self._ended is None and not self._stale
            if tidy and usable and self.log.size > self._least // _LONG:
                with contextlib.suppress(RunError, StateError):
                    self.checkpoint()
            if not isinstance(self._ended, _Closed):
                self._ended = _Closed(f"loop {self.loop!r} was closed; resume it")
                self._close_engine()
                self.store.close()


class _Closed(InputError):
    """The loop was closed."""
