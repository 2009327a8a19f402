"""A program over a graph that changes: changes go in, exact answers for an instant come out."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import DataFrame, SparkSession

from vertexsdk.engine.engine import Budget
from vertexsdk.engine.phases import Spent
from vertexsdk.errors import InputError, shorten
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.edge_kernels import COUNTS
from vertexsdk.graph.graph import Graph
from vertexsdk.loops._answers import KEEP, Answers
from vertexsdk.loops._history import LoopHistory
from vertexsdk.loops._open_loop import Migrate, open_main_loop, resume_main_loop
from vertexsdk.loops.branch_loop import BranchLoop, not_converged, require_state
from vertexsdk.loops.result import Result
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Vertex
from vertexsdk.state.address import Address
from vertexsdk.state.default_url import chosen_backend

if TYPE_CHECKING:
    from vertexsdk.loops._diff import Comparable, ResultDiff
    from vertexsdk.loops.streams._stream import Stream

__all__ = ["MainLoop"]


class MainLoop:
    """A graph that takes in changes, and queries of it.

    A query answers for this instant: the answer equals that of a run from scratch. It goes on from
    the state before where that is exact, and begins with `init` elsewhere; its statistics say
    which under `start`, and why under `start_reason`.

    A vertex is there while an edge, the graph's vertex file, or a parameter names it.

    The graph and every batch of changes are in the store before they are acknowledged, so another
    process can go on with `resume`, whenever this one ended.

    Args:
        program: a Vertex subclass, or a `Program` of several.
        graph: what it begins with; without parallel edges.
        params: values of the program's parameters.
        backend: URL of the versioned store, or "@FILE" for a file which holds it; see
            `chosen_backend`.
        loop: the name under which versions are kept, the program's name by default; the answer of
            query k is kept as `LOOP-k`. What the store had under these names is replaced.
        strict: refuse a change that removes or alters an edge which is not there.
        budget: iterations that follow each batch, to keep an approximation; none by default. A
            program whose every answer begins with `init` has none.
        checkpoint_every: changes in the log after which the graph is written anew; by default a
            million, or a quarter of the edges where that is more.
        retain: newest versions that are kept, for `fork(at=...)`.
        trusted: unpickle answers' fields that are Python objects. A pickle can run code, so
            whoever can write to the store must be trusted.
        keep_answers: newest answers that are kept, as `LOOP-k`; an older one is deleted when its
            `Result` is closed, or nobody has it any more. None keeps all.
        options: as those of `run`, but for `commit_every`.

    Attributes:
        shared: others use this loop too, so a query does not hold it up but runs in a fork.
        seconds: spent on taking in changes.

    Raises:
        InputError: wrong arguments; nothing was run.

    Example:
        >>> main = MainLoop(ShortestPaths, graph, params={"origin": 1})  # doctest: +SKIP
        >>> main.ingest([("+", 1, 7, 0.5), ("-", 1, 2)])  # doctest: +SKIP
        {'added': 1, 'removed': 1, 'changed': 0, 'unchanged': 0, 'absent': 0}
        >>> main.query().lookup([7])  # doctest: +SKIP
        {7: {'length': 0.5}}
    """

    def __init__(
        self,
        program: type[Vertex] | Program,
        graph: Graph,
        *,
        params: Mapping[str, Any] | None = None,
        backend: str | Address | None = None,
        loop: str | None = None,
        strict: bool = False,
        budget: Budget | None = None,
        checkpoint_every: int | None = None,
        retain: int = 64,
        trusted: bool = False,
        keep_answers: int | None = KEEP,
        **options: Any,
    ) -> None:
        program = program if isinstance(program, Program) else Program(program)
        self._choose(program, backend, loop, strict, budget, keep_answers, options)
        versions = open_main_loop(
            program, graph, dict(params or {}), self.backend, self.loop, self.options,
            checkpoint_every=checkpoint_every, retain=retain, trusted=trusted,
        )  # fmt: skip
        self._hold(graph.spark, versions)

    @classmethod
    def resume(
        cls,
        spark: SparkSession,
        program: type[Vertex] | Program,
        *,
        loop: str | None = None,
        params: Mapping[str, Any] | None = None,
        backend: str | Address | None = None,
        strict: bool = False,
        budget: Budget | None = None,
        migrate: Migrate | None = None,
        checkpoint_every: int | None = None,
        retain: int = 64,
        trusted: bool = False,
        keep_answers: int | None = KEEP,
        **options: Any,
    ) -> MainLoop:
        """Go on with a main loop as the store has it, wherever and whenever it was left.

        The process which ran it before is told at its next commit, if it still runs. The next
        answer begins with `init`.

        Args:
            params: may be left out; where given they must be those that the loop was begun with.
            migrate: makes the columns of the state, by name, from those of a program which had
                other fields; without it such a program is refused.
            trusted: as for `MainLoop`; a program without `messages` needs it, for its vertices
                are kept as Python objects.

        Raises:
            StateInputError: there is no such loop, or it belongs to another program.
            StateError: it holds Python objects, and not `trusted`.
            InputError: it is no main loop, or was begun with other parameters.

        Example:
            >>> main = MainLoop.resume(spark, ShortestPaths, backend=url)  # doctest: +SKIP
        """
        program = program if isinstance(program, Program) else Program(program)
        self = cls.__new__(cls)
        self._choose(program, backend, loop, strict, budget, keep_answers, options)
        versions = resume_main_loop(
            spark, program, params, self.backend, self.loop, self.options, migrate,
            checkpoint_every=checkpoint_every, retain=retain, trusted=trusted,
        )  # fmt: skip
        self._hold(spark, versions)
        return self

    def _choose(
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
        self.program = program
        self.backend = chosen_backend(backend)
        self.loop = loop or program.name
        self.strict, self.budget, self._keep_answers = strict, budget, keep_answers
        self.options = {k: v for k, v in options.items() if k != "commit_every"}

    def _hold(self, spark: SparkSession, versions: LoopHistory) -> None:
        self._spark, self._history = spark, versions
        self._answers = Answers(versions, self._keep_answers)
        self.shared = False
        self.seconds = 0.0
        self._newest: Result | None = None
        self._reading = threading.Lock()
        self._streams: list[Stream] = []

    @property
    def integers(self) -> bool:
        """Whether ids are int64; else they are strings."""
        return self._history.integers

    @property
    def value(self) -> str | None:
        """The dtype of the edge values which the program reads, or None."""
        return self._history.value

    @property
    def from_init(self) -> str | None:
        """Why every answer begins with `init`; None where they go on from before."""
        return self._history.engine.from_init

    @property
    def params(self) -> dict[str, Any]:
        """The program's parameters, as given."""
        return dict(self._history.ledger.params)

    @property
    def counts(self) -> dict[str, int]:
        """The changes that were taken in, by what they met."""
        return dict(self._history.ledger.counts)

    @property
    def changes(self) -> int:
        """How many changes were taken in."""
        return self._history.ledger.received

    @property
    def queries(self) -> int:
        """How many queries there were."""
        return self._history.ledger.queries

    @property
    def iteration(self) -> int:
        """The iteration of the newest version, as `fork(at=...)` takes it."""
        return self._history.manifest.iteration

    @property
    def spent(self) -> dict[str, float]:
        """Seconds that this loop has spent so far, by phase; see `spent.PHASES`."""
        engine: Spent | None = getattr(self._history.engine, "spent", None)
        own = self._history.spent.seconds
        return own if engine is None else {k: x + engine.seconds[k] for k, x in own.items()}

    @property
    def offsets(self) -> dict[str, Any]:
        """How far each source was taken in."""
        return dict(self._history.manifest.offsets)

    def ingest(
        self,
        changes: Changes | DataFrame | Iterable[Sequence[Any]],
        *,
        source: str | None = None,
        offset: Any = None,
        bad: int = 0,
    ) -> dict[str, int]:
        """Take in changes, in order, all of them or none; on return they are durable.

        Args:
            changes: a `Changes` batch, a DataFrame with columns `kind,source,target[,value]`, or
                `(sign, source, target[, value])` tuples.
            source: where they come from.
            offset: how far the source is with them, an int that grows, or anything JSON. It is
                committed with them; a batch whose offset was committed before is left out.
            bad: records of the source beside them that were no changes, to be counted.

        Returns:
            How many edges were `added`, `removed`, `changed` or left `unchanged`, and how many
            changes met no such edge (`absent`). Of a batch that was left out: how many changes
            were `repeated`.

        Raises:
            InputError: changes of another form; or, with `strict`, an absent edge, named.
            RunError, StateError: nothing was taken in.
        """
        began = time.perf_counter()
        batch = self._history.cast(changes)
        none = dict.fromkeys(COUNTS, 0)
        versions = self._history
        if not len(batch) and source is None and not bad:
            return none
        with versions.lock:
            versions.recover()
            if source is not None and _repeats(versions.manifest.offsets, source, offset):
                versions.execute(repeated=len(batch))
                return {**none, "repeated": len(batch)}
            offsets = {} if source is None else {source: offset}
            out = versions.execute(
                batch, strict=self.strict, budget=self._approximation(), offsets=offsets, bad=bad
            )
            self.seconds += time.perf_counter() - began
        if self.strict and out.absent:
            raise InputError(_absent(batch, out.absent[0], versions.ledger.undirected))
        return dict(out.counts)

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
        """Let a stream flow in, in the background, each change once over any number of restarts.

        Queries may be asked meanwhile; they do not hold it up.

        Args:
            stream: a streaming DataFrame, of any source, with columns `kind,source,target[,value]`;
                or change files, directories and globs.
            follow: of files: wait for files that grow, and for files moved into directories, as
                is done by default.
            idle: of files: end when nothing has come for so many seconds; None never ends.
            time_column: the column, or the number of a file's field from 1, which holds a time;
                changes whose time runs backwards are counted, or refused by a strict loop.
            checkpointLocation: of a DataFrame: where Spark keeps its place, to go on from there.
            deltas: of a DataFrame: what makes changes of other columns: an `Ingester`, which is
                given the rows, or a function, which is given each batch as a DataFrame.
            trigger: of a DataFrame: as for `DataStreamWriter.trigger`.

        Raises:
            InputError: the stream is of another kind; nothing was started.

        Example:
            >>> stream = main.start("changes/")  # doctest: +SKIP
            >>> stream.progress().behind  # doctest: +SKIP
            0
            >>> stream.stop()  # doctest: +SKIP
        """
        from vertexsdk.loops.streams._file_stream import start_stream

        options = {
            "follow": follow, "idle": idle, "time_column": time_column,
            "checkpointLocation": checkpointLocation, "deltas": deltas, "trigger": trigger,
        }  # fmt: skip
        started = start_stream(self, stream, options)
        self._streams.append(started)
        self.shared = True
        return started

    def _approximation(self) -> Budget | None:
        return None if self.from_init is not None else self.budget

    def query(self, *, timeout: float | None = None, max_iterations: int | None = None) -> Result:
        """Return the exact answer for this instant.

        While nobody else uses the loop, it is itself iterated to the end, and the version that
        this makes is forked by a pointer as `LOOP-k`: what forking a branch, iterating it and
        merging it leaves, when nothing comes in between. Else that is done, and input goes on.

        Args:
            timeout: seconds.
            max_iterations: at most so many.

        Raises:
            InputError: the graph has no edge left.
            RunError: the run failed, or met a limit; what was ingested stays.
        """
        versions = self._history
        if self._sees_loop and not self.shared:
            versions.execute(budget=Budget(max_iterations, timeout))  # what it does in this loop
        if self._sees_loop or self.shared or not versions.lock.acquire(blocking=False):
            return self._answer_beside(timeout, max_iterations)
        try:
            out = versions.execute(budget=Budget(max_iterations, timeout), queries=1)
            if out.num_vertices == 0:
                raise InputError("the graph has no edge left; ingest some first")
            if not out.effort.quiet:
                raise not_converged(self.loop, out.effort)
            name = self._free_name(versions.ledger.queries)
            with versions.spent.timed("commit"):
                versions.store.fork(self.loop, name)
            versions.store.show(self.loop)
            return self._result(name, versions)
        finally:
            versions.lock.release()

    @property
    def _sees_loop(self) -> bool:
        """Whether the program may do in a branch what it does not do in the main loop."""
        return bool(getattr(self._history.engine, "reads_loop", False))

    def answered(self) -> Result | None:
        """Return the newest query's answer again, if nothing came in since; else None.

        Whoever goes on with a loop that was ended between a query and its use asks this first.
        """
        versions = self._history
        with versions.lock:
            manifest, ledger = versions.current
            if not ledger.queries or not ledger.exact:
                return None
            name = f"{self.loop}-{ledger.queries}"
            kept = versions.store.head(name)
            if kept is None:
                versions.store.fork(self.loop, name)
            elif kept.name != manifest.name:
                return None
        return self._result(name, versions)

    def _answer_beside(self, timeout: float | None, max_iterations: int | None) -> Result:
        with self._history.lock:
            self._history.execute(queries=1)
            merge: Literal["auto"] | None = None if self._sees_loop else "auto"
            branch = self.fork(self._free_name(self._history.ledger.queries), merge=merge)
        try:
            branch.start(timeout=timeout, max_iterations=max_iterations).result().close()
            return self._result(branch.loop, branch.versions)
        finally:
            branch.close()

    def _free_name(self, query: int) -> str:
        name = f"{self.loop}-{query}"
        store = self._history.store
        if store.head(name) is not None:
            store.delete(name)  # of an earlier stream
        return name

    def _result(self, name: str, versions: LoopHistory) -> Result:
        manifest, ledger = versions.current
        statistics = {**versions.statistics, "changes": ledger.received, **ledger.counts}
        statistics |= {"version": manifest.iteration, "behind": 0, "residual": ledger.residual}
        result = versions.result(self.backend, name, manifest.iteration, statistics, self._spark)
        self._answers.add(name, result)
        return result

    def fork(
        self,
        name: str | None = None,
        at: int | None = None,
        *,
        merge: Literal["auto"] | None = None,
    ) -> BranchLoop:
        """Return a branch loop that stands here, and goes its own way from now on.

        Args:
            name: of the new loop in the store; by default `LOOP-fork-1`, `-2`, ...
            at: stand at the version of this iteration, or the newest before it that is kept. Its
                iterations begin with `init`.
            merge: "auto" merges it at the end of its iterations, if no input came meanwhile.

        Raises:
            StateInputError: there is a loop of that name, or no such version.

        Example:
            >>> with main.fork() as what_if:  # doctest: +SKIP
            ...     what_if.apply([("-", 3, 4)])
            ...     what_if.diff(main.query()).ids
            array([4, 9])
        """
        return BranchLoop.of(self._history, self.backend, self._spark, name, at, merge)

    def lookup(self, ids: Any, field: str | None = None) -> dict[Any, dict[str, Any]]:
        """Return the state of some vertices as it is now, and how far it may be from exact.

        Args:
            ids: an id, or several.
            field: only this one.

        Returns:
            For each id its fields, and `version` (of this loop), `behind` (changes that were
            taken in and are not reflected yet) and `residual` (see `Effort`).

        Raises:
            InputError: there is no state yet.

        Example:
            >>> main.lookup([7])  # doctest: +SKIP
            {7: {'length': 0.5, 'version': 3, 'behind': 12, 'residual': None}}
        """
        with self._reading:
            current = self._history.current
            if self._newest is None or self._newest.iteration != current[0].iteration:
                newest = self._read(current)
                if self._newest is not None:
                    self._newest.close()
                self._newest = newest
            said = {n: self._newest.statistics[n] for n in ("version", "behind", "residual")}
            rows = self._newest.lookup(ids, field)
        return {vertex: {**row, **said} for vertex, row in rows.items()}

    def read(self) -> Result:
        """Return the newest version, approximate as it is; see `lookup` for what is said of it.

        Raises:
            InputError: there is no state yet.
        """
        return self._read(self._history.current)

    def _read(self, current: Any) -> Result:
        manifest, ledger = current
        require_state(self.loop, ledger)
        said = {"version": manifest.iteration, "behind": ledger.behind}
        said |= {"residual": ledger.residual, "exact": ledger.exact}
        statistics = {**manifest.statistics, **said, "changes": ledger.received}
        del statistics["main"]
        return self._history.result(
            self.backend, self.loop, manifest.iteration, statistics, self._spark
        )

    def diff(self, other: Comparable, field: str | None = None) -> ResultDiff:
        """Compare the newest version with another loop's; see `BranchLoop.diff`."""
        from vertexsdk.loops._diff import diff_results

        with contextlib.closing(self.read()) as mine:
            return diff_results(mine, other, field)

    def close(self) -> None:
        """End its streams, free the memory of the graph; what was ingested stays in the store."""
        for stream in self._streams:
            stream.stop()
        with self._reading:
            if self._newest is not None:
                self._newest.close()
            self._newest = None
        self._history.close(tidy=True)

    def __enter__(self) -> MainLoop:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _repeats(offsets: Mapping[str, Any], source: str, offset: Any) -> bool:
    if source not in offsets:
        return False
    before = offsets[source]
    if isinstance(offset, int) and isinstance(before, int):
        return offset <= before
    return bool(offset == before)


def _absent(batch: Changes, number: int, undirected: bool) -> str:
    place = batch.places[number] if batch.places else f"change {number + 1} of the batch"
    source, target = (shorten(str(ids[number].as_py())) for ids in (batch.source, batch.target))
    ends = f"between {source} and {target}" if undirected else f"{source} -> {target}"
    return f"{place}: there is no edge {ends} to remove or change"
