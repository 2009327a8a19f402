"""Several programs on one graph that changes: one input, one change log, an answer per program."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from vertexsdk.arrays.json_values import to_scalars
from vertexsdk.engine.commands import Command
from vertexsdk.engine.run_options import RunOptions
from vertexsdk.errors import InputError, first_line
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.topology.edge_attributes import attribute_types
from vertexsdk.loops._open_loop import restorer, without_values
from vertexsdk.loops.arguments import as_program, with_parameters
from vertexsdk.loops.history import LoopHistory
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.main_loop import MainLoop
from vertexsdk.loops.result import Result
from vertexsdk.loops.snapshot_policy import SnapshotPolicy
from vertexsdk.loops.streams.file_stream import start_stream
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Vertex
from vertexsdk.state import SegmentRef, Store, open_store
from vertexsdk.state.address import Address, address_or_default
from vertexsdk.transport.select import transport_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from vertexsdk.loops.streams.intake import Stream


AnyProgram = type[Vertex] | Program | str


class MainLoops(Mapping[str, MainLoop]):
    """Several programs on one graph that changes.

    Changes are ingested once, into one change log: when `ingest` returns, they are in the graph of
    every program, however the process ends. Each program has its answers, by its name.

    The programs share the stored graph and the log. In memory each has a graph of its own, so
    memory and the time to edit the graph grow with their number. While a query runs, `ingest`
    waits.

    Args:
        programs: those to run, with different names; each declares its messages.
        graph: as for `MainLoop`.
        params: for each program that needs some, by its name, its parameters.
        loop: the name of the loop that has the log, and beginning of those of the others; by
            default the programs' names, joined by "+".
        options: those of `MainLoop`, for all programs.

    Attributes:
        loop: the name of the loop that has the log.
        names: those of the programs.
        strict: refuse a batch with a change that removes or changes an absent edge.

    Raises:
        InputError: programs that do not fit each other, or as for `MainLoop`.

    Example:
        >>> from vertexsdk import Graph
        >>> options = {"backend": "memory://several", "params": {"bfs": {"origin": 1}}}
        >>> with MainLoops(["wcc", "bfs"], Graph.from_arrays([1], [2]), **options) as loops:
        ...     counts = loops.ingest([("+", 2, 3)])
        ...     {name: answer.to_dict() for name, answer in loops.query().items()}
        {'wcc': {1: 1, 2: 1, 3: 1}, 'bfs': {1: 0, 2: 1, 3: 2}}
    """

    def __init__(
        self,
        programs: Sequence[AnyProgram],
        graph: Any,
        *,
        params: Mapping[str, Mapping[str, Any]] | None = None,
        loop: str | None = None,
        **options: Any,
    ) -> None:
        self._open(programs, params, loop, options)
        leader = self._programs[0]
        with ExitStack() as undo:
            self._leader = MainLoop(
                leader, graph, params=self._params.get(leader.name), loop=self.loop, **options
            )
            undo.callback(self._leader.close)
            self._follow(options, undo)
            undo.pop_all()

    @classmethod
    def resume(
        cls,
        spark: SparkSession | None,
        programs: Sequence[AnyProgram],
        *,
        params: Mapping[str, Mapping[str, Any]] | None = None,
        loop: str | None = None,
        **options: Any,
    ) -> MainLoops:
        """Continue loops from the store, in any process; the next answers start from `init`.

        Args:
            spark: as for `MainLoop.resume`.
            programs, loop, options: as when they were opened.
            params: the parameters of each program, by its name; others are as they were. With
                the same `loop` there may be other programs, but for the one that has the log: the
                first that reads edge values, or else the first of all.

        Raises:
            StateInputError: no such loop.
            InputError: as for `MainLoops`.
        """
        self = cls.__new__(cls)
        self._open(programs, params, loop, options, resumes=True)
        leader = self._programs[0]
        with ExitStack() as undo:
            self._leader = MainLoop.resume(
                spark, leader, params=self._params.get(leader.name), loop=self.loop, **options
            )
            undo.callback(self._leader.close)
            self._follow(options, undo)
            undo.pop_all()
        return self

    def _open(
        self,
        programs: Sequence[AnyProgram],
        params: Mapping[str, Mapping[str, Any]] | None,
        loop: str | None,
        options: Mapping[str, Any],
        *,
        resumes: bool = False,
    ) -> None:
        if isinstance(programs, str) or not isinstance(programs, Sequence) or not programs:
            raise InputError("MainLoops takes a list of programs; MainLoop takes a single one")
        named = [as_program(program) for program in programs]
        self.loop = loop or "+".join(program.name for program in named)
        self._params = dict(params or {})
        leader: str | None = None
        if resumes:
            backend = address_or_default(options.get("backend"))
            leader, stored = _stored(backend, self.loop, [program.name for program in named])
            self._params |= {n: {**x, **self._params.get(n, {})} for n, x in stored.items()}
        checked = [with_parameters(p, self._params.get(p.name))[0] for p in named]
        self.names = [program.name for program in checked]
        _require_fit(checked, self._params)
        for name in ("budget", "migrate"):
            if options.get(name) is not None:
                raise InputError(f"{name} is only for a MainLoop of one program: leave it out")
        # The log has the values that the leader reads, so it leads that reads some.
        self._programs = sorted(checked, key=lambda p: (p.name != leader, p.value_dtype is None))

    def _follow(self, options: Mapping[str, Any], undo: ExitStack) -> None:
        """Open the other programs' loops."""
        leader = self._leader._history
        self.strict = self._leader.strict
        if leader.engine.reads_loop:
            raise _reads_loop(self._programs[0])
        known = {field.name for field in fields(RunOptions)} - {"commit_every"}
        run_options = {name: x for name, x in options.items() if name in known}
        self._loops = {self._programs[0].name: self._leader}
        with leader.lock:
            for program in self._programs[1:]:
                params, loop = self._params.get(program.name, {}), f"{self.loop}/{program.name}"
                follower = follow(leader, program, params, loop, run_options)
                main = MainLoop.of_history(
                    program, follower.history, run_options, self._leader.backend,
                    self._leader.keep_answers, self._leader._branches,
                )  # fmt: skip
                undo.callback(main.close)
                if follower.history.engine.reads_loop:
                    raise _reads_loop(program)
                leader.on_changes.append(follower.apply)
                self._loops[program.name] = main

    def __getitem__(self, program: AnyProgram) -> MainLoop:
        """The loop of a program, to be read, looked up in and forked; it ingests nothing itself.

        Raises:
            KeyError: there is none of that program.
        """
        name = program if isinstance(program, str) else as_program(program).name
        self._catch_up()
        return self._loops[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def integers(self) -> bool:
        """True if ids are int64, False if they are strings."""
        return self._leader.integers

    @property
    def value(self) -> str | None:
        """The dtype of the edge values which the programs read, or None."""
        return self._leader.value

    @property
    def windowed(self) -> bool:
        """True if the loops have a `window`."""
        return self._leader.windowed

    @property
    def event_time(self) -> float | None:
        """The newest time of a change, in seconds; None before the first, or without a window."""
        return self._leader.event_time

    @property
    def offsets(self) -> dict[str, Any]:
        """The offset that was committed last, by source."""
        return self._leader.offsets

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of edges added, removed, changed, left unchanged, or absent."""
        return self._leader.counts

    def ingest(
        self,
        changes: Changes | DataFrame | Iterable[Sequence[Any]],
        *,
        time: Any = None,
        source: str | None = None,
        offset: Any = None,
        bad: int = 0,
    ) -> dict[str, int]:
        """Apply changes to the graph of all programs, as `MainLoop.ingest` does."""
        return self._leader.ingest(changes, time=time, source=source, offset=offset, bad=bad)

    def window(self, length: str | float | timedelta) -> Self:
        """Have edges expire, as `MainLoop.window` does."""
        self._leader.window(length)
        return self

    def advance(self, time: str | float | datetime) -> int:
        """Move event time on, as `MainLoop.advance` does."""
        return self._leader.advance(time)

    def start(
        self,
        stream: DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        **options: Any,
    ) -> Stream:
        """Start to ingest a stream in the background, as `MainLoop.start` does."""
        started = start_stream(self, stream, options)
        self._leader.own(started)
        return started

    def query(
        self, *, timeout: float | None = None, max_iterations: int | None = None
    ) -> dict[str, Result]:
        """Return the exact answer of every program, all for the same instant.

        Args:
            timeout: seconds after which the iterations of each program are stopped.
            max_iterations: number of iterations after which they are stopped.

        Returns:
            The answers by the programs' names, for the caller to close.

        Raises:
            InputError, RunError: as `MainLoop.query`; no answer is left open.
        """
        answers: dict[str, Result] = {}
        with ExitStack() as undo, self._leader._history.lock:
            self._catch_up()
            for name in self.names:
                loop = self._loops[name]
                loop.shared = False  # in place: a branch would wait for the lock
                answers[name] = loop.query(timeout=timeout, max_iterations=max_iterations)
                undo.callback(answers[name].close)
            undo.pop_all()
        return answers

    def progress(self) -> dict[str, dict[str, Any]]:
        """Return what `MainLoop.progress` does, by program."""
        return {name: self._loops[name].progress() for name in self.names}

    def _catch_up(self) -> None:
        with self._leader._history.lock:
            for name in self.names:
                self._loops[name]._history.recover()

    def close(self) -> None:
        """Stop the streams, and free the memory; the loops stay in the store."""
        self._leader.stop_streams()
        for name in reversed(self._programs):
            self._loops[name.name].close()


def _stored(
    backend: Address, loop: str, programs: Sequence[str]
) -> tuple[str | None, dict[str, Mapping[str, Any]]]:
    """Return the program that has the log, and with which parameters each was opened last."""
    params: dict[str, Mapping[str, Any]] = {}
    with open_store(backend, create=False) as store:
        for name in programs:
            for head in map(store.head, (f"{loop}/{name}", loop)):
                ledger = None if head is None or head.program != name else Ledger.of(head)
                if ledger is not None:
                    params.setdefault(name, ledger.params)
        leader = store.head(loop)
    return None if leader is None else leader.program, params


def _require_fit(programs: Sequence[Program], params: Mapping[str, Any]) -> None:
    """Raise InputError unless the programs can have one log."""
    names = [program.name for program in programs]
    for program in programs:
        if names.count(program.name) > 1:
            raise InputError(f"{program.name} is named twice; each program has one answer")
        if program.algebra is None:
            raise InputError(
                f"{program.name} declares no messages, and takes other input than edges: give it "
                "a MainLoop of its own"
            )
    unknown = sorted(params.keys() - set(names))
    if unknown:
        raise InputError(f"params name {unknown[0]!r}; give them by program: {', '.join(names)}")
    values = {p.value_dtype: p for p in programs if p.value_dtype is not None}
    if len(values) > 1:
        (one, a), (other, b) = [*values.items()][:2]
        shown = [", ".join(attribute_types(v)) or v for v in (one, other)]
        shown = [one, other] if shown[0] == shown[1] else shown  # names of other types
        raise InputError(
            f"{a.name} reads edges as {shown[0]}, {b.name} as {shown[1]}: a log has values of one "
            "kind; give each its MainLoop"
        )


def _reads_loop(program: Program) -> InputError:
    return InputError(f"{program.name} reads in which loop it runs: give it a MainLoop of its own")


_log = logging.getLogger("vertexsdk")
# A program on the graph of another program's main loop: it has no log and no input of its own.
#
# The *leader* is the main loop that takes changes in. Each of its *followers* edits its own graph
# in memory by what the leader has committed. A version of a follower refers to the leader's
# checkpoint and change log in the store, so a change that the leader has acknowledged is in all
# of them, however the process ends: a follower that fails is restored from there.

_NONE = SnapshotPolicy(changes=1 << 62)  # the leader's are enough, as answers follow from the graph


class Follower:
    """Keeps a history at the changes of its leader, whose lock it shares.

    Attributes:
        history: the follower's.
    """

    def __init__(self, leader: LoopHistory, history: LoopHistory) -> None:
        self._leader, self.history = leader, history
        self._applied = leader.ledger.received  # of the leader's changes, by the engine
        history.lock = leader.lock
        history.catch_up = self.catch_up

    def apply(self, changes: Changes) -> None:
        """Apply what the leader has committed; the lock is held."""
        history = self.history
        if history.stale:
            return
        if history.config.program.value_dtype is None:
            changes = without_values(changes)
        try:
            history.engine.execute(Command(changes))
            self._applied += len(changes)
        except Exception as error:  # restored from the leader's log before it is used again
            _log.warning("%s: %s; restoring from the store", history.loop, first_line(error))
            history.stale = True

    def catch_up(self) -> None:
        """Commit a version with the leader's changes, if there are new ones.

        Raises:
            StateError: the store cannot be written.
        """
        leader, history = self._leader, self.history
        with leader.lock:
            leader.settle()
            history.settle()
            old, new = history.ledger, leader.ledger
            if self._applied != new.received:  # what a merged branch brought, or a failure
                history.stale = True
            names = ("received", "counts", "repeated", "bad", "window", "graph")
            ledger = replace(old, **{name: getattr(new, name) for name in names})
            if ledger != old:
                ledger = replace(ledger, exact=old.exact and new.received == old.received)
                known = {ref.key for ref in history.store.segments(history.manifest)}
                refs = _of_graph(leader.store, leader)
                added = [r for r in refs if r.key not in known]
                if any(r.kind == "topology" for r in added):  # a new graph drops the log before it
                    added = [r for r in refs if r in added or r.kind == "changes"]
                history.follow(added, leader.log, ledger, leader.manifest.offsets)
            self._applied = new.received


def follow(
    leader: LoopHistory,
    program: Program,
    params: Mapping[str, Any],
    loop: str,
    options: Mapping[str, Any],
) -> Follower:
    """Open a follower, whose versions replace those of an earlier loop of its name.

    Args:
        params, loop, options: as for `MainLoop`.

    Raises:
        InputError: the program cannot follow, or arguments do not fit.
        OwnerError: the name is that of another program's loop.
    """
    config = leader.config
    program.bind(params)
    transport = transport_for(config.spark)
    checked = RunOptions.checked(program, params, **options).on(transport)
    store = open_store(config.address, create=False)
    try:
        earlier = store.claim(loop, program=program.name)
        with leader.lock:
            leader.settle()
            ledger = replace(
                leader.ledger, params=to_scalars(params), reflected=0, queries=0, state=False,
                exact=False, residual=None, snapshot=None,
            )  # fmt: skip
            if earlier is not None and (earlier_ledger := Ledger.of(earlier)) is not None:
                ledger = replace(ledger, queries=earlier_ledger.queries)
            manifest = store.commit(
                loop,
                iteration=0,
                segments=_of_graph(leader.store, leader),
                schema=program.schema(),
                program=program.name,
                statistics={"result": program.result, **ledger.statistics()},
                offsets=leader.manifest.offsets,
                partitions=leader.manifest.partitions,
                ids=leader.manifest.ids,
            )
            restore = restorer(config.spark, program, checked, loop)
            engine = restore(store, manifest)
            if engine.integers != leader.integers:
                engine.close()
                raise InputError(
                    f"{program.name}: its parameters name vertices by strings, and the graph's ids "
                    "are integers: name them by integers"
                )
            changed = replace(config, program=program, restore=restore, snapshots=_NONE)
            history = LoopHistory(changed, store, loop, engine, (manifest, ledger), leader.log)
            return Follower(leader, history)
    except BaseException:
        store.close()
        raise


def _of_graph(store: Store, leader: LoopHistory) -> list[SegmentRef]:
    """The segments of the leader's checkpoint and change log."""
    return [r for r in store.segments(leader.manifest) if r.kind in ("topology", "changes")]
