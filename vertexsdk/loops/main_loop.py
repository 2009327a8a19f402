"""Run a program on a graph that changes: ingest changes, query exact answers."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from vertexsdk.engine.commands import Budget, CommandResult
from vertexsdk.engine.loop_names import refuse_to_replace
from vertexsdk.errors import InputError, StateError, StateInputError, first_line, shorten
from vertexsdk.graph.changes.changes import COUNTS, Changes
from vertexsdk.graph.graph import as_graph
from vertexsdk.loops._open_loop import Migrate, open_main_loop, resume_main_loop
from vertexsdk.loops._windowed_loop import WindowedLoop
from vertexsdk.loops.arguments import as_program, take_keywords, with_parameters
from vertexsdk.loops.branch_loop import (
    MAX_BRANCHES,
    BranchLoop,
    OpenBranches,
    not_converged,
    require_state,
)
from vertexsdk.loops.history import LoopHistory, LoopRecord
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.result import Result
from vertexsdk.loops.signals import finished_first
from vertexsdk.loops.snapshot_policy import SnapshotEvery, SnapshotKind, SnapshotPolicy
from vertexsdk.loops.subscription import Subscription
from vertexsdk.loops.turns import WEIGHT, Turns
from vertexsdk.loops.window import (
    ingest_events,
    timed,
    untimed,
    window_counts,
)
from vertexsdk.notebook.card import card, seconds_text, summary_line
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Vertex
from vertexsdk.state import Manifest, Store, open_store
from vertexsdk.state.address import Address, address_or_default

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from vertexsdk.loops.metrics import MetricsServer
    from vertexsdk.loops.query_service import QueryService
    from vertexsdk.loops.streams.intake import Stream


# The newest answers of a main loop, which stay in the store as `LOOP-1`, `LOOP-2`, ...
#
# An older answer is deleted when a new one is added, unless its `Result` is open in this process.
# A loop of such a name that a run, or a main loop of another program, has written is never
# deleted.

KEEP = 100


class Answers:
    """Adds answers of a loop to the store, and deletes the oldest; used by one thread.

    Args:
        keep: number of answers that stay, at least 1; None keeps all.
    """

    def __init__(self, history: LoopHistory, keep: int | None) -> None:
        self._history, self._keep = history, keep
        self._names: dict[str, weakref.ref[Result] | None] | None = None  # the oldest first

    def make_room_for(self, name: str) -> None:
        """Delete what an earlier loop left under the name of an answer, before that is forked.

        Raises:
            InputError: it is a main loop with acknowledged changes.
        """
        store = self._history.store
        if self._keep is not None:  # so answers that are being computed are not among the earlier
            self._listed().pop(name, None)
        newest = store.head(name)
        if newest is None:
            return
        ledger = Ledger.of(newest)
        if newest.loop == name and ledger is not None and ledger.branch_of is None:
            refuse_to_replace(newest, name, store.backend.location)
        store.delete(name)

    def add(self, name: str, result: weakref.ref[Result], version: Future[Manifest] | None) -> None:
        """Add an answer, and delete the oldest beyond the limit.

        Args:
            version: the loop's version that becomes the answer; None if the answer is in the store.
        """
        if version is not None:
            iteration = version.result().iteration  # or it could not be stored, and this raises
            self.make_room_for(name)
            self._history.store.fork(self._history.loop, name, iteration)
            self._history.store.show(self._history.loop)
        if self._keep is None:
            return
        with contextlib.suppress(StateError):  # the next query tries again
            names = self._listed()
            names.pop(name, None)
            names[name] = result
            for old in list(names)[: -self._keep]:
                reader = names[old]
                opened = reader() if reader is not None else None
                if opened is None or opened.closed:
                    self._delete(old)
                    del names[old]

    def _listed(self) -> dict[str, weakref.ref[Result] | None]:
        if self._names is None:
            self._names = dict.fromkeys(self._earlier())
        return self._names

    def _earlier(self) -> list[str]:
        """The answers in the store: of a loop that had this name before, then of this one."""
        loop, last = self._history.loop, self._history.ledger.queries
        suffixes = [
            name.removeprefix(f"{loop}-")
            for name in self._history.store.backend.list_heads()
            if name.startswith(f"{loop}-")
        ]
        numbers = [int(text) for text in suffixes if text.isascii() and text.isdecimal()]
        return [f"{loop}-{k}" for k in sorted(numbers, key=lambda k: (k <= last, k))]

    def _delete(self, name: str) -> None:
        store = self._history.store
        manifest = store.head(name)
        if manifest is None or Ledger.of(manifest) is None:
            return
        if manifest.program == self._history.config.program.name:
            store.delete(name)


_log = logging.getLogger("vertexsdk")


class MainLoop(WindowedLoop):
    """A program on a graph that changes.

    `ingest` adds changes; `query` returns the exact answer for the graph at that instant, which
    equals that of a run from scratch. A query continues from the previous state if that gives the
    exact answer, and else starts from `init`; the statistics `start` and `start_reason` tell which
    and why.

    A vertex exists while an edge, the graph's vertex file, or a parameter names it.

    The graph and every batch of changes are durable before they are acknowledged, so another
    process can `resume` the loop, however this one ended.

    Args:
        program: as for `run`.
        graph: the initial graph, without parallel edges, in any form that `run` takes; or
            `Graph.empty()`.
        params: values of the program's parameters.
        backend: URL of the versioned store, or "@FILE" for a file that contains it; the default
            is `VERTEXSDK_BACKEND`, or else a directory `vertexsdk-state`.
        loop: the name of the loop in the store, by default the program's; the answer of query k is
            the loop `LOOP-k`. Answers of these names in the store are replaced.
        strict: refuse a batch with a change that removes or changes an absent edge.
        budget: iterations after each batch, which keep an approximate state up to date; by default
            none. A program whose every answer starts from `init` has none.
        snapshot_every: how often the state and the graph are stored, so that a loop which is
            resumed, or lost a processor, continues from there: a number of changes, or a time as
            "10s". By default only the graph's changes are logged, until they are a million, or a
            quarter of the edges if that is more.
        snapshots: "asynchronous": snapshots are written while the loop continues; "synchronous":
            the loop stops until each is written.
        retain: number of versions that stay in the store, for `fork(at=...)`.
        trusted: unpickle answers' fields that are Python objects. A pickle can run code, so
            all who can write to the store must be trusted.
        keep_answers: number of answers `LOOP-k` that stay in the store; an older one is deleted
            once its `Result` is closed or garbage-collected. None keeps all.
        max_branches: number of branches that may be open at once, branches of branches included;
            one more is refused. Those of queries do not count. None is any number.
        branch_weight: how much of the time a branch, or a query beside a stream, gets while
            changes are ingested, where ingest has the weight 1. A larger one makes queries faster
            and ingest slower. While nothing is ingested branches have all the time.
        replace: start anew although the store has a loop of this name with acknowledged changes,
            which are dropped; without it such a loop is refused, as `resume` continues it.
        history: keep the history of iterations, from which answers follow, of a program for which
            there is one (`explain`); with False each of its answers starts from `init`.
        history_bytes: bytes that it may take in all partitions; where it is larger, answers start
            from `init` and say so. None leaves it to the engine: 192 bytes for each vertex and
            edge. The statistic `history_bytes` has its size.
        options: those of `run`, without `commit_every`, and parameters of the program.

    Attributes:
        shared: a stream uses this loop too, so queries run in a fork.
        seconds: time spent in `ingest`.

    Raises:
        InputError: wrong arguments, or as `replace` says; nothing was run.

    Example:
        >>> from vertexsdk import Graph
        >>> from vertexsdk.algorithms import ShortestPaths
        >>> graph = Graph.from_arrays([1, 2], [2, 3], spark=spark)
        >>> main = MainLoop(ShortestPaths, graph, params={"origin": 1}, backend="memory://docs")
        >>> main.ingest([("+", 1, 7, 0.5), ("-", 1, 2)])
        {'added': 1, 'removed': 1, 'changed': 0, 'unchanged': 0, 'absent': 0}
        >>> main.query().lookup([7])
        {7: {'length': 0.5}}
        >>> main.close()
    """

    def __init__(
        self,
        program: type[Vertex] | Program | str,
        graph: Any,
        *,
        params: Mapping[str, Any] | None = None,
        backend: str | Address | None = None,
        loop: str | None = None,
        strict: bool = False,
        budget: Budget | None = None,
        snapshot_every: SnapshotEvery | None = None,
        snapshots: SnapshotKind = "asynchronous",
        retain: int = 64,
        trusted: bool = False,
        keep_answers: int | None = KEEP,
        max_branches: int | None = MAX_BRANCHES,
        branch_weight: float = WEIGHT,
        replace: bool = False,
        **options: Any,
    ) -> None:
        program, params = with_parameters(program, params, take_keywords(options))
        graph = as_graph(graph)
        self._branches = OpenBranches(max_branches)
        self._set_options(program, backend, loop, strict, budget, keep_answers, options)
        history = open_main_loop(
            program, graph, params, self.backend, self.loop, self.options,
            snapshots=SnapshotPolicy.of(snapshot_every, snapshots), retain=retain, trusted=trusted,
            replaces=replace, turns=Turns(branch_weight),
        )  # fmt: skip
        self._set_up(history)

    @classmethod
    def resume(
        cls,
        spark: SparkSession | None,
        program: type[Vertex] | Program | str,
        *,
        loop: str | None = None,
        params: Mapping[str, Any] | None = None,
        backend: str | Address | None = None,
        strict: bool = False,
        budget: Budget | None = None,
        migrate: Migrate | None = None,
        partitions: int | None = None,
        snapshot_every: SnapshotEvery | None = None,
        snapshots: SnapshotKind = "asynchronous",
        retain: int = 64,
        trusted: bool = False,
        keep_answers: int | None = KEEP,
        max_branches: int | None = MAX_BRANCHES,
        branch_weight: float = WEIGHT,
        **options: Any,
    ) -> MainLoop:
        """Continue a main loop from the store, in any process.

        If the process that ran it before is still running, its next commit fails. The loop
        continues from its newest snapshot (`snapshot_every`); without one the next answer starts
        from `init`.

        Args:
            spark: the session; None runs the loop in this process.
            params: None, or the parameters that the loop was opened with.
            migrate: for a program whose fields have changed: a function from the old columns of
                the state, by name, to the new ones. Without it such a program is refused.
            partitions: how many to continue with; by default as many as before.
            trusted: as for `MainLoop`; a program without `messages` needs it, as the store has its
                vertices as Python objects.

        Returns:
            The loop.

        Raises:
            StateInputError: no such loop, or it belongs to another program.
            StateError: the loop has Python objects, and not `trusted`.
            InputError: it is not a main loop, or has other parameters.

        Example:
            >>> from vertexsdk import Graph
            >>> from vertexsdk.algorithms import ConnectedComponents
            >>> graph = Graph.from_arrays([1, 2], [2, 3], spark=spark)
            >>> MainLoop(ConnectedComponents, graph, backend="memory://resume").close()
            >>> main = MainLoop.resume(spark, ConnectedComponents, backend="memory://resume")
            >>> main.query().to_dict()
            {1: 1, 2: 1, 3: 1}
            >>> main.close()
        """
        program = as_program(program)
        keywords = take_keywords(options)
        params = with_parameters(program, params, keywords)[1]
        self = cls.__new__(cls)
        self._branches = OpenBranches(max_branches)
        self._set_options(program, backend, loop, strict, budget, keep_answers, options)
        history = resume_main_loop(
            spark, program, params, self.backend, self.loop, self.options, migrate,
            snapshots=SnapshotPolicy.of(snapshot_every, snapshots), retain=retain, trusted=trusted,
            turns=Turns(branch_weight), partitions=partitions,
        )  # fmt: skip
        self._set_up(history)
        return self

    @classmethod
    def of_history(
        cls,
        program: Program,
        history: LoopHistory,
        options: dict[str, Any],
        backend: Address,
        keep_answers: int | None,
        branches: OpenBranches,
    ) -> MainLoop:
        """Return a loop that reads and answers, while another one has its input."""
        self = cls.__new__(cls)
        self._branches = branches
        self._set_options(program, backend, history.loop, False, None, keep_answers, options)
        self._set_up(history)
        return self

    def _set_options(
        self,
        program: Program,
        backend: str | Address | None,
        loop: str | None,
        strict: bool,
        budget: Budget | None,
        keep_answers: int | None,
        options: dict[str, Any],
    ) -> None:
        if keep_answers is not None and keep_answers < 1:
            raise InputError(f"keep_answers is {keep_answers}; give 1 or more, or None for all")
        self.backend = address_or_default(backend)
        self.loop = loop or program.name
        self.strict, self.budget, self.keep_answers = strict, budget, keep_answers
        self.options = {k: v for k, v in options.items() if k != "commit_every"}

    def _set_up(self, history: LoopHistory) -> None:
        self._history, self.program = history, history.config.program
        if history.config.snapshots.seconds is not None:
            history.snapshots.thread.start()  # it takes one when the loop is idle too
        self._answers = Answers(history, self.keep_answers)
        self.shared = False
        self.seconds = 0.0
        self._newest: Result | None = None
        self._reading = threading.Lock()
        self._streams: list[Stream] = []
        self._servers: list[MetricsServer | QueryService] = []

    @property
    def integers(self) -> bool:
        """True if ids are int64, False if they are strings."""
        return self._history.integers

    @property
    def value(self) -> str | None:
        """The dtype of the edge values which the program reads, or None."""
        return self._history.value

    @property
    def from_init(self) -> str | None:
        """Why every answer starts from `init`; None if it continues from the previous state."""
        return self._history.engine.start.reason

    @property
    def params(self) -> dict[str, Any]:
        """The program's parameters, as the user passed them."""
        return dict(self._history.ledger.params)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of edges added, removed, changed, left unchanged, or absent.

        With a `window`, also how many of the removed `expired`, and how many changes were `late` or
        `overtaken`.
        """
        ledger = self._history.ledger
        return {**ledger.counts, **window_counts(ledger)}

    @property
    def changes(self) -> int:
        """The number of changes that were ingested."""
        return self._history.ledger.ingested

    @property
    def queries(self) -> int:
        """The number of queries."""
        return self._history.ledger.queries

    @property
    def iteration(self) -> int:
        """The iteration of the newest version, as `fork(at=...)` takes it."""
        return self._history.manifest.iteration

    @property
    def spent(self) -> dict[str, float]:
        """Seconds that this loop has spent so far, by phase."""
        engine, loop_seconds = self._history.engine, self._history.spent.seconds
        return {k: x + engine.phases.seconds[k] for k, x in loop_seconds.items()}

    @property
    def offsets(self) -> dict[str, Any]:
        """The offset that was committed last, by source."""
        return dict(self._history.manifest.offsets)

    @finished_first()
    def ingest(
        self,
        changes: Changes | DataFrame | Iterable[Sequence[Any]],
        *,
        time: Any = None,
        source: str | None = None,
        offset: Any = None,
        bad: int = 0,
    ) -> dict[str, int]:
        """Apply changes in order, either all or none; on return they are durable.

        Args:
            changes: a `Changes` batch; a DataFrame of Spark, pandas or Polars, or an Arrow table,
                with columns `kind,source,target[,value]`; or `(sign, source, target[, value])`
                tuples. An edge that is added without a value, or with None or null, keeps the
                value it has; that of a new edge is 1, or the first member of an attribute that is
                an IntEnum.
            time: for a loop with a `window`, when each change happened: numbers, in seconds, or
                times (datetime64, datetime, ISO 8601), as an array of shape (k,), or one for all;
                of a DataFrame the name of a column.
            source: the name of their source.
            offset: the source's position after them: an int that grows, or any JSON value. It is
                committed with them; a batch whose offset was committed before is skipped.
            bad: number of the source's records that were not valid changes, to be counted.

        Returns:
            How many edges were `added`, `removed`, `changed` or left `unchanged`, and how many
            changes named an `absent` edge. With a window, also how many of the removed edges
            `expired`, and how many changes were `late` or `overtaken`. For a skipped batch, how
            many changes were `repeated`.

        Raises:
            InputError: changes of another form; or, with `strict`, one that names an absent edge.
            RunError, StateError: nothing was applied.
        """
        began = perf_counter()
        history = self._history
        batch = timed(history, changes, time)
        if not len(batch) and source is None and not bad:
            return dict.fromkeys(COUNTS, 0)
        with history.config.turns.ingest(), history.lock, history.counters.doing("ingest"):
            history.recover()
            if source is not None and history.repeats(source, offset):
                history.execute(repeated=len(batch))
                return {**dict.fromkeys(COUNTS, 0), "repeated": len(batch)}
            offsets = {} if source is None else {source: offset}
            options: dict[str, Any] = {
                "strict": self.strict, "budget": self._approximation(), "offsets": offsets,
                "bad": bad,
            }  # fmt: skip
            windowed: dict[str, int] = {}
            if history.ledger.window is None:
                batch = untimed(batch)
                out = history.execute(batch, **options)
            else:
                out, batch, windowed = ingest_events(history, batch, **options)
            self.seconds += perf_counter() - began
        if self.strict and out.absent:
            raise InputError(_absent(batch, out.absent[0], history.ledger.undirected))
        return {**out.counts, **windowed}

    def start(
        self,
        stream: DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        follow: bool | None = None,
        idle: float | None = None,
        time_column: str | int | None = None,
        checkpointLocation: str | None = None,
        deltas: Any = None,
        trigger: Mapping[str, Any] | None = None,
    ) -> Stream:
        """Start to ingest a stream in the background, each change once across restarts.

        Queries are possible meanwhile, and do not delay it.

        Args:
            stream: a streaming DataFrame, of any source, with columns `kind,source,target[,value]`;
                or change files, directories and globs.
            follow: for files: wait for files that grow, and for files moved into directories;
                the default.
            idle: for files: end after so many seconds without a change; None never ends.
            time_column: the column, or the number from 1 of a file's field, that contains a time;
                changes whose time runs backwards are counted, or refused by a strict loop.
            checkpointLocation: for a DataFrame: where Spark stores its offsets, for restarts.
            deltas: for a DataFrame with other columns: an `Ingester`, which receives the rows, or a
                function from each batch, a DataFrame, to changes.
            trigger: for a DataFrame: as for `DataStreamWriter.trigger`.

        Returns:
            The stream: `progress()`, `stop()`, `awaitTermination()`.

        Raises:
            InputError: another kind of stream, or options for the other kind; nothing was started.

        Example:
            >>> stream = main.start("changes/")  # doctest: +SKIP
            >>> stream.progress().behind  # doctest: +SKIP
            0
            >>> stream.stop()  # doctest: +SKIP
        """
        from vertexsdk.loops.streams.file_stream import start_stream

        options = {
            "follow": follow, "idle": idle, "time_column": time_column,
            "checkpointLocation": checkpointLocation, "deltas": deltas, "trigger": trigger,
        }  # fmt: skip
        started = start_stream(self, stream, options)
        self.own(started)
        self.shared = True
        return started

    def own(self, stream: Stream) -> None:
        """Stop a stream when this loop is closed."""
        self._streams.append(stream)

    def stop_streams(self) -> None:
        """Stop the streams that this loop owns."""
        for stream in self._streams:
            stream.stop()

    def _approximation(self) -> Budget | None:
        return self.budget if self._history.engine.saves_state else None

    @finished_first()
    def query(
        self,
        *,
        timeout: float | None = None,
        max_iterations: int | None = None,
        persist: bool = False,
    ) -> Result:
        """Return the exact answer for this instant.

        If nothing else uses the loop, it iterates to the fixed point itself, and the version is
        forked as `LOOP-k`, which copies a pointer. Otherwise a branch is forked, iterates, and is
        merged: the effect is the same, and changes are ingested meanwhile.

        Args:
            timeout: seconds after which the iterations are stopped.
            max_iterations: number of iterations after which they are stopped.
            persist: return when the answer is in the store. Else it is read from memory, and
                written while the caller continues: this process waits for it where it reads the
                store, another process may see it a moment later.

        Returns:
            The answer, for the caller to close.

        Raises:
            RunError: the iterations failed, or met a limit; the changes stay ingested.
            StateError: with `persist`, the answer cannot be stored.
        """
        with self._history.counters.query():
            return self._query(timeout, max_iterations, persist)

    def _query(self, timeout: float | None, max_iterations: int | None, persist: bool) -> Result:
        history = self._history
        if self._sees_loop and not self.shared and self.from_init is None:
            history.execute(budget=Budget(max_iterations, timeout))  # what it does here alone
        if self._sees_loop or self.shared or not history.lock.acquire(blocking=False):
            return self._answer_beside(timeout, max_iterations, persist)
        try:
            out = history.execute(budget=Budget(max_iterations, timeout), queries=1)
            self._require_answer(out)
            name = f"{self.loop}-{history.ledger.queries}"
            return self._result(name, history, history.published, persist=persist)
        finally:
            history.lock.release()

    @property
    def _sees_loop(self) -> bool:
        """True if the program reads in which loop it runs, so that a branch may differ."""
        return self._history.engine.reads_loop

    def answered(self) -> Result | None:
        """Return the newest query's answer again, or None if changes were ingested since.

        For a process that resumes a loop whose process ended between a query and its use.
        """
        history = self._history
        with history.lock:
            history.settle()
            ledger = history.ledger
            if not ledger.queries or not ledger.exact:
                return None
            name = f"{self.loop}-{ledger.queries}"
            answer = history.store.head(name)
            if answer is None:
                history.store.fork(self.loop, name)
            elif Ledger.read(answer).received != ledger.received:
                return None  # else at most offsets have changed
        return self._result(name, history)

    def _answer_beside(
        self, timeout: float | None, max_iterations: int | None, persist: bool
    ) -> Result:
        with self._history.turn(self._history.lock):  # in this order, as a merge takes them
            self._history.execute(queries=1)
            merge: Literal["auto"] | None = None if self._sees_loop else "auto"
            name = f"{self.loop}-{self._history.ledger.queries}"
            self._history.write_behind(partial(self._answers.make_room_for, name)).result()
            branch = BranchLoop(self._history, None, name, merge=merge)
            branch._history.counters = self._history.counters  # its work is of this query
        try:
            branch.start(timeout=timeout, max_iterations=max_iterations).result().close()
            return self._result(name, branch._history, persist=persist)
        finally:
            branch.close()

    def _result(
        self,
        name: str,
        history: LoopHistory,
        version: Future[Manifest] | None = None,
        *,
        persist: bool = False,
    ) -> Result:
        """Open the newest version of a history as an answer of this loop.

        Args:
            version: once that is in the store, it becomes the loop `name`; None if there is one.
            persist: as for `query`.
        """
        result = history.result(name, {**history.statistics, **history.ledger.counts})
        add = partial(self._answers.add, name, weakref.ref(result), version)
        stored = self._history.write_behind(add)
        if persist:
            try:
                history.settle()
                stored.result()
            except BaseException:
                result.close()
                raise
        else:
            stored.add_done_callback(partial(_warn_of_failure, name))
        return result

    def fork(
        self,
        name: str | None = None,
        at: int | None = None,
        *,
        merge: Literal["auto"] | None = None,
    ) -> BranchLoop:
        """Fork a branch loop, from the newest version or an earlier one.

        Args:
            name: the branch's name in the store; by default `LOOP-fork-1`, `-2`, ... That of a
                branch which was closed is free again: its versions are deleted.
            at: start from the version of this iteration, or else the newest one before it. The
                branch then iterates from `init`.
            merge: "auto" merges it at the end of its iterations, if nothing was ingested meanwhile.

        Returns:
            The branch, for the caller to close; `BranchLoop` has an example.

        Raises:
            StateInputError: there is another loop of that name, it is one of answers (`LOOP-k`),
                or the branch of that name is open; or the version does not exist.
            InputError: `max_branches` branches are open.
        """
        if name is not None and re.fullmatch(rf"{re.escape(self.loop)}-[0-9]+", name):
            raise StateInputError(
                f"{name!r} is the name of an answer of loop {self.loop!r}, which queries replace: "
                "choose another name for the branch"
            )
        with self._history.counters.doing("fork"):
            return BranchLoop(self._history, self._branches, name, at, merge)

    def serve_queries(self, host: str = "127.0.0.1") -> None:
        """Answer the queries of other processes, until the loop is closed.

        They call `vertexsdk.read(..., exact=True)`, or `vertexsdk query LOOP --exact`. Each of
        their queries is a branch, so changes are ingested meanwhile. All who can read the store
        can ask; the connections are encrypted.

        Args:
            host: the name or address of this host on which to listen; others than 127.0.0.1 let
                other hosts ask.

        Raises:
            InputError: this process cannot listen there, or it does so already.
            StateError: the store cannot be written.

        Example:
            >>> from vertexsdk import Graph, MainLoop, read
            >>> from vertexsdk.algorithms import ConnectedComponents
            >>> graph = Graph.from_arrays([1], [2])
            >>> with MainLoop(ConnectedComponents, graph, backend="memory://stream") as main:
            ...     main.serve_queries()
            ...     _ = main.ingest([("+", 2, 3)])
            ...     with read("memory://stream", main.loop, exact=True) as answer:
            ...         answer.to_dict()
            {1: 1, 2: 1, 3: 1}
        """
        from vertexsdk.loops.query_service import QueryService

        if any(isinstance(server, QueryService) for server in self._servers):
            raise InputError(f"loop {self.loop!r} answers the queries of other processes already")
        self._servers.append(QueryService(self._history, self._fork_query, host))

    def _fork_query(self, name: str) -> BranchLoop:
        return self.fork(name, merge=None if self._sees_loop else "auto")

    def lookup(self, ids: Any, field: str | None = None) -> dict[Any, dict[str, Any]]:
        """Return the current state of some vertices, and how far it may be from exact.

        Args:
            ids: an id, or several.
            field: only this one.

        Returns:
            For each id its fields, and `version` (the loop's iteration), `behind` (the number of
            ingested changes that the state does not reflect yet) and `residual` (an upper bound of
            the distance to the fixed point, or None). Before the first query this iterates to the
            fixed point, as a query does.

        Raises:
            RunError: the iterations failed.

        Example:
            >>> main.lookup([7])  # doctest: +SKIP
            {7: {'length': 0.5, 'version': 3, 'behind': 12, 'residual': None}}
        """
        self._require_state()
        with self._reading:
            current = self._history.newest
            if self._newest is None or self._newest.iteration != current[0].iteration:
                newest = self._read(current)
                if self._newest is not None:
                    self._newest.close()
                self._newest = newest
            staleness = {n: self._newest.statistics[n] for n in ("version", "behind", "residual")}
            rows = self._newest.lookup(ids, field)
        return {vertex: {**row, **staleness} for vertex, row in rows.items()}

    def read(self) -> Result:
        """Return the newest version, which may be approximate; `lookup` explains its statistics.

        Raises:
            RunError: the loop had no state yet, and its iterations failed.
        """
        self._require_state()
        return self._read(self._history.newest)

    def _read(self, current: tuple[Manifest, LoopRecord]) -> Result:
        manifest, (ledger, _) = current
        require_state(self.loop, ledger)
        statistics = {**manifest.statistics, "exact": ledger.exact}
        del statistics["main"]
        return self._history.result(self.loop, statistics, current)

    def _require_state(self) -> None:
        """Compute the first state, if there is none yet."""
        history = self._history
        if history.ledger.state:
            return
        with history.lock, history.counters.doing("query"):
            if not history.ledger.state:
                self._require_answer(history.execute(budget=Budget()))

    def _require_answer(self, out: CommandResult) -> None:
        if not out.work.quiet:
            raise not_converged(self.loop, out.work, self.program)

    def history(self) -> pa.Table:
        """Return the versions of this loop that are in the store, the oldest first.

        Returns:
            A table with a row for each: `version` (as `fork(at=...)` takes it), `created` (UTC),
            `changes` received until then, `behind` (how many of them its state does not reflect),
            `exact`, `residual`, `queries`; `vertices` and `edges` of the graph that the state
            reflects. `to_pandas()` makes a DataFrame.

        Example:
            >>> from vertexsdk import Graph
            >>> from vertexsdk.algorithms import Degree
            >>> graph = Graph.from_arrays([1], [2])
            >>> with MainLoop(Degree, graph, backend="memory://history") as main:
            ...     _ = main.ingest([("+", 2, 3)])
            ...     main.history().column("changes").to_pylist()
            [0, 1]
        """
        with self._history.lock:
            self._history.settle()
        return versions_table(self._history.store, self.loop)

    def subscribe(
        self,
        *,
        fields: str | Sequence[str] | None = None,
        snapshot: bool = True,
        as_of: int | None = None,
        progress: bool = False,
        approximate: bool = False,
        timeout: float | None = None,
    ) -> Subscription:
        """Subscribe to the answers of this loop: one as a whole, then what differs in each.

        Versions that it has not read stay in the store, beyond `retain`: close one that is no
        longer read.

        Args:
            fields, snapshot, as_of, progress, approximate, timeout: as for `subscribe`, which does
                the same in other processes.

        Returns:
            The subscription, an iterator of `(vertex, fields, diff, version)`, for the caller to
            close.

        Raises:
            StateInputError: the version is not in the store any more, or is yet to come.
            InputError: no such field, or the loop is closed.

        Example:
            >>> from vertexsdk import Graph
            >>> graph = Graph.from_arrays([1], [2])
            >>> with MainLoop("wcc", graph, backend="memory://subscribed") as main:
            ...     main.query().close()
            ...     with main.subscribe(timeout=0) as changes:
            ...         first = [tuple(change) for change in changes]
            ...         _ = main.ingest([("+", 0, 2)])
            ...         main.query().close()
            ...         then = [tuple(change) for change in changes]
            >>> first
            [(1, {'component': 1}, 1, 3), (2, {'component': 1}, 1, 3)]
            >>> [(vertex, row["component"], diff) for vertex, row, diff, version in then]
            [(0, 0, 1), (1, 1, -1), (1, 0, 1), (2, 1, -1), (2, 0, 1)]
        """
        history = self._history
        if history.closed_by is not None:
            raise history.closed_by
        return Subscription(
            open_store(history.config.address, create=False), self.loop, fields=fields,
            snapshot=snapshot, as_of=as_of, progress=progress, approximate=approximate,
            timeout=timeout, trusted=history.config.trusted, history=history,
        )  # fmt: skip

    def _facts(self) -> dict[str, Any]:
        now = self.progress()
        since = f" for {seconds_text(now['behind_seconds'])}" if now["behind"] else ""
        last = now["last_query_seconds"]
        return {
            "program": self.program.name, "state": now["state"], "version": now["version"],
            "changes not reflected": f"{now['behind']:,}{since}",
            "changes": f"{now['changes']:,} ({now['changes_per_second']:,.0f} per second)",
            "vertices": now["vertices"], "edges": now["edges"], "branches": now["branches"],
            "queries": now["queries"], "last query": last and seconds_text(last),
        }  # fmt: skip

    def __repr__(self) -> str:
        return summary_line(f"MainLoop {self.loop}", self._facts())

    def _repr_html_(self) -> str:
        return card(f"Main loop {self.loop}", self._facts())

    def progress(self) -> dict[str, Any]:
        """Return what the loop does and how far it is, from any thread, also while it is busy.

        Returns:
            Numbers and strings, for `json.dumps`:

            - `loop`: its name. `state`: `idle`, `closed`, or what it does now: `ingest`, `query`,
              `snapshot`, `fork`, `merge`, `rescale`, `restore`, several joined by `+`.
            - `version`: the newest one. `vertices` and `edges`: of the graph now.
            - `changes`: acknowledged, over the life of the loop. `changes_per_second`: over the
              last ten seconds. `behind`: changes that the state does not reflect yet;
              `behind_seconds`: how long ago the first of them came, in this process.
            - `branches`: how many are open.
            - Since the loop was opened in this process: `queries` answered, their `query_seconds`
              and the `last_query_seconds` (None before the first); `commits` of versions, and the
              `commit_seconds` that callers waited for them; `supersteps` and the
              `superstep_seconds` of the commands with iterations; `updates`, `messages`, `bytes`
              sent between partitions; `restarts`, how often the engine was restored from the store;
              `snapshots`, of the newest its `snapshot_age` (seconds since its cut, None before the
              first), `snapshot_pause` (seconds for which a partition stood still),
              `snapshot_seconds` (until it was stored) and `snapshot_bytes`.

        Example:
            >>> from vertexsdk.algorithms import ConnectedComponents
            >>> from vertexsdk import Graph
            >>> graph = Graph.from_arrays([1, 2], [2, 3])
            >>> with MainLoop(ConnectedComponents, graph, backend="memory://metrics") as main:
            ...     counts = main.ingest([("+", 3, 4)])
            ...     progress = main.progress()
            >>> progress["state"], progress["changes"], progress["behind"], progress["edges"]
            ('idle', 1, 1, 3)
        """
        return {**self._history.progress(), "branches": self._branches.count}

    def serve_metrics(self, port: int = 0, host: str = "127.0.0.1") -> str:
        """Serve `progress` as OpenMetrics over HTTP, for Prometheus, until the loop is closed.

        It needs the extra `vertexsdk[metrics]`. Each metric has the label `loop`.

        Args:
            port: where to listen; 0 takes any free port.
            host: the address to listen on; "0.0.0.0" lets other machines read.

        Returns:
            The URL of the metrics, as "http://127.0.0.1:9400/metrics".

        Raises:
            InputError: `prometheus_client` is not installed, or the port cannot be used.

        Example:
            >>> main.serve_metrics(9400)  # doctest: +SKIP
            'http://127.0.0.1:9400/metrics'
        """
        from vertexsdk.loops.metrics import MetricsServer

        server = MetricsServer(port, host)
        server.add(self.progress)
        self._servers.append(server)
        return server.address

    @finished_first()
    def snapshot(self) -> None:
        """Store the state and the graph now, and return when they are durable.

        A loop that is resumed continues from there. Usually `snapshot_every` is enough.

        Raises:
            RunError, StateError: it could not be stored; the loop continues.

        Example:
            >>> from vertexsdk.algorithms import ConnectedComponents
            >>> from vertexsdk import Graph
            >>> graph = Graph.from_arrays([1, 2], [2, 3])
            >>> with MainLoop(ConnectedComponents, graph, backend="memory://snapshots") as main:
            ...     main.snapshot()
            ...     main.progress()["snapshots"]
            1
        """
        self._history.take_snapshot()

    @finished_first()
    def rescale(self, partitions: int) -> None:
        """Continue with another number of partitions.

        The loop takes a snapshot, loads it into so many partitions, and continues; changes wait
        meanwhile, and lookups are answered from the newest version. Open branches stay as they are.

        Args:
            partitions: how many, from 1. On Spark each needs a slot, see "Where a graph is held".

        Raises:
            InputError: no such number.
            RunError: too few slots for them; the loop continues as before.

        Example:
            >>> from vertexsdk.algorithms import ConnectedComponents
            >>> from vertexsdk import Graph
            >>> graph = Graph.from_arrays([1, 2], [2, 3])
            >>> with MainLoop(ConnectedComponents, graph, backend="memory://rescaled") as main:
            ...     main.rescale(2)
            ...     main.query().to_dict()
            {1: 1, 2: 1, 3: 1}
        """
        self._history.rescale(partitions)

    @finished_first()
    def close(self) -> None:
        """Stop the streams, and free the graph's memory; the loop stays in the store."""
        for server in self._servers:
            server.close()
        self.stop_streams()
        with self._reading:
            if self._newest is not None:
                self._newest.close()
            self._newest = None
        self._history.close(tidy=True)


def _warn_of_failure(name: str, stored: Future[object]) -> None:
    error = stored.exception()
    if error is not None:
        _log.warning("%s: the answer is not in the store: %s", name, first_line(error))


def _absent(batch: Changes, number: int, undirected: bool) -> str:
    place = batch.places[number] if batch.places else f"change {number + 1} of the batch"
    source, target = (shorten(str(ids[number].as_py())) for ids in (batch.source, batch.target))
    ends = f"between {source} and {target}" if undirected else f"{source} -> {target}"
    return f"{place}: there is no edge {ends} to remove or change"


_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("created", pa.timestamp("ms", "UTC")),
        ("changes", pa.int64()),
        ("behind", pa.int64()),
        ("exact", pa.bool_()),
        ("residual", pa.float64()),
        ("queries", pa.int64()),
        ("vertices", pa.int64()),
        ("edges", pa.int64()),
    ]
)


def versions_table(store: Store, loop: str) -> pa.Table:
    """Return a row for each version, the oldest first."""
    rows: list[dict[str, Any]] = []
    for iteration in store.versions(loop):
        manifest = store.version(loop, iteration)
        ledger = Ledger.read(manifest)
        rows.append(
            {
                "version": iteration, "created": int(manifest.created * 1000),
                "changes": ledger.received, "behind": ledger.behind,
                "exact": ledger.exact and ledger.state, "residual": ledger.residual,
                "queries": ledger.queries,
                "vertices": manifest.statistics.get("num_vertices"),
                "edges": manifest.statistics.get("num_edges"),
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, _SCHEMA)
