"""The cases: each is one function of a `Context`, run in a process of its own.

Figures that a case notes are in seconds unless their name says otherwise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from copy import copy
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import answers
from benchmarks.evolving.sizes import Sizes
from benchmarks.evolving.stream import Batch, EdgeStream, FileStream, Source
from benchmarks.programs import PROGRAMS
from benchmarks.runner import Notes
from benchmarks.timing import timed
from vertexsdk import Budget, Changes, Graph, MainLoop, Result, session
from vertexsdk.engine.commands import QUIET


class Context:
    """One case's own; ``note`` tells a figure to the parent, where it joins a list of its name."""

    def __init__(
        self,
        sizes: Sizes,
        cache: Path,
        scratch: Path,
        note: Callable[..., None],
        conf: dict[str, str] | None = None,
    ) -> None:
        self.sizes, self.scratch, self.note = sizes, scratch, note
        self.stream = stream_of(sizes, cache, scratch)
        self.spark = session(f"local[{sizes.cores}]", "vertexsdk-benchmark", **(conf or {}))
        self.backend = f"lmdb://{scratch}/state"
        self._until = float("inf")

    timed = Notes.timed

    def start_clock(self) -> None:
        """From here on the case has `Sizes.seconds`."""
        self._until = time.perf_counter() + self.sizes.seconds

    @property
    def late(self) -> bool:
        """Whether nothing more is to be begun."""
        return time.perf_counter() > self._until

    def main(self, program: str, budget: Budget | None) -> MainLoop:
        """A main loop over the edges as drawn; after each batch it approximates within ``budget``,
        not at all if that is None."""
        every: dict[str, dict[str, Any]] = {
            "shortest_paths": {"origin": self.stream.origin},
            "pagerank": {"epsilon": answers.EPSILON},
        }
        params = every.get(program)
        graph = Graph.read(self.spark, edges=self.stream.parquet, partitions=1)
        return MainLoop(
            PROGRAMS[program][0], graph, params=params, backend=self.backend, budget=budget,
            replace=True,
        )  # fmt: skip

    def check(self, program: str, result: Result, at: Source | None = None) -> None:
        """Raises `answers.Wrong` unless the answer is that for the edges of the stream now, or of
        a copy of it made before."""
        answers.check(program, at or self.stream, result.columns())
        self.note("checked", 1)

    def state_bytes(self) -> int:
        """What the store takes on disk."""
        files = (self.scratch / "state").rglob("*")
        return sum(f.stat().st_blocks * 512 for f in files if f.is_file())

    def heap_bytes(self) -> int:
        """What the last collections of the JVM's heap left in it."""
        jvm: Any = self.spark.sparkContext._jvm
        pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        usages = [p.getCollectionUsage() for p in pools if p.getType().name() == "HEAP"]
        return sum(usage.getUsed() for usage in usages if usage is not None)


def stream_of(sizes: Sizes, cache: Path, scratch: Path) -> Source:
    """The graph and changes that the sizes name, from their beginning."""
    if sizes.edges_file:
        changes = [Path(name) for name in sizes.changes_files]
        return FileStream(Path(sizes.edges_file), changes, scratch)
    return EdgeStream(sizes.scale, cache)


def pieces(batch: Batch, most: int) -> list[Changes]:
    """Cut into as few batches of at most so many as will do, all alike."""
    number = max(1, -(-len(batch) // most))
    cuts = [len(batch) * k // number for k in range(number + 1)]
    return [changes_of(batch[a:b]) for a, b in pairwise(cuts)]


def changes_of(batch: Batch) -> Changes:
    """The batch as the loop takes it; ids as Arrow arrays, which costs nothing."""
    source, target = pa.array(batch.source), pa.array(batch.target)
    return Changes.from_arrays(batch.kind, source, target, batch.value)


def arriving(program: str, approximating: bool, context: Context) -> None:
    """A query after 1 %, 5 %, ... of the edges have changed since the one before.

    They arrive in batches; after each the main loop approximates within a budget of seconds, or,
    as in figure 5's batch method, not at all. Both ask at the same instants of the same stream.
    As many rounds of all shares as there is time for, at least one.
    """
    sizes = context.sizes
    budget = Budget(seconds=sizes.batch_seconds) if approximating else None
    edges = context.stream.edges
    with context.main(program, budget) as main:
        main.query()
        main.ingest(changes_of(context.stream.take(sizes.changes)))
        main.query()
        context.start_clock()
        while True:
            for share in sizes.shares:
                arrived = context.stream.take(int(share * edges))
                seconds = [
                    timed(partial(main.ingest, changes))[0]
                    for changes in pieces(arrived, sizes.pieces(edges))
                ]
                query, result = timed(main.query)
                context.note(f"query {share:g}", query)
                context.note(f"ingest {share:g}", sum(seconds))
                context.note(f"last {share:g}", seconds[-1] + query)
            if context.late:
                break
        context.check(program, result)


_WINDOW = 4.0  # seconds for which batches are made before the clock runs


_MOST = 64  # batches


_TURNS = 2  # of ingest alone and with forks, at least


def ingesting(program: str, context: Context) -> None:
    """Batch after batch, each approximated until the main loop is quiet, and committed."""
    with context.main(program, QUIET) as main:
        ahead = _warm(context, main)
        context.start_clock()
        while not context.late:
            _batches(context, main, ahead, "rate")
        seconds, result = timed(main.query)
        context.note("query", seconds)
        context.check(program, result)


def forking(program: str, context: Context) -> None:
    """The same in turns, alone and with a branch forked every second from another thread."""
    with context.main(program, QUIET) as main:
        ahead = _warm(context, main)
        with main.fork() as branch:
            branch.start().result().close()
        context.start_clock()
        turns = 0
        while turns < _TURNS or not context.late:
            turns += 1
            _batches(context, main, ahead, "alone")
            forks = _Forks(main)
            forks.start()
            _batches(context, main, ahead, "forked")
            for seconds in forks.end():
                context.note("branch", seconds)
        _check_beside(program, context, main)
        context.check(program, main.query())


def _check_beside(program: str, context: Context, main: MainLoop) -> None:
    """A branch answers for the instant of its fork, whatever comes in meanwhile."""
    then = copy(context.stream)
    with main.fork() as branch:
        branch.start()
        main.ingest(changes_of(context.stream.take(context.sizes.batch)))
        context.check(program, branch.result(), then)


def _warm(context: Context, main: MainLoop) -> int:
    """Ingest and query a few times; returns how many batches fill a window of time."""
    main.query()
    seconds = 0.0
    for _ in range(max(1, context.sizes.warm)):
        batch = changes_of(context.stream.take(context.sizes.batch))
        seconds = timed(partial(main.ingest, batch))[0]
        main.query()
    window = min(_WINDOW, context.sizes.seconds / 2)
    # Of the edges a quarter is removed in a window at most.
    most = min(_MOST, context.stream.edges // (2 * context.sizes.batch))
    return int(max(1, min(most, window / seconds)))


def _batches(context: Context, main: MainLoop, ahead: int, name: str) -> None:
    """So many batches, made before; one figure for each: changes per second."""
    size = context.sizes.batch
    for batch in pieces(context.stream.take(size * ahead), size):
        seconds, counts = timed(partial(main.ingest, batch))
        assert counts["added"] + counts["removed"] == len(batch), counts
        context.note(name, len(batch) / seconds)


class _Forks(threading.Thread):
    """Forks a branch every second and waits for its answer, until it is told to end."""

    def __init__(self, main: MainLoop) -> None:
        super().__init__(daemon=True)
        self._main, self._told = main, threading.Event()
        self._seconds: list[float] = []
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            while not self._told.is_set():
                begin = time.perf_counter()
                with self._main.fork() as branch:
                    branch.start().result().close()
                self._seconds.append(time.perf_counter() - begin)
                self._told.wait(max(0.0, 1.0 - self._seconds[-1]))
        except Exception as error:  # told to who ends it
            self._error = error

    def end(self) -> list[float]:
        """Seconds of each branch, from the fork to its answer; raises what it failed with."""
        self._told.set()
        self.join(60)
        if self._error is not None:
            raise self._error
        return self._seconds


def queries(program: str, context: Context) -> None:
    """A query after every batch of changes. The main loop does nothing for them in between, so
    that all that they cost is in the query."""
    with context.main(program, None) as main:
        context.note("first", timed(main.query)[0])
        sizes = context.sizes
        for number in range(sizes.warm + sizes.queries):
            warm = number < sizes.warm
            taken = context.stream.take(sizes.changes)
            if not len(taken):
                break  # a file has ended
            batch = changes_of(taken)
            took = timed(partial(main.ingest, batch))[0]
            seconds, result = timed(main.query)
            if number == sizes.warm:
                context.check(program, result)
                context.start_clock()
            if not warm:
                context.note("ingest", took)
                context.note("query", seconds)
                _effort(context, result.statistics)
            if context.late:
                break
        context.check(program, result)


def singles(program: str, context: Context) -> None:
    """A query after every single change: how many vertices it touches."""
    with context.main(program, None) as main:
        main.query()
        batch = context.stream.take(context.sizes.singles)
        for number in range(context.sizes.warm):
            main.ingest(changes_of(batch[number : number + 1]))
            main.query()
        context.start_clock()
        done = context.sizes.warm
        for number in range(context.sizes.warm, len(batch)):
            main.ingest(changes_of(batch[number : number + 1]))
            seconds, result = timed(main.query)
            context.note("query", seconds)
            context.note("added" if batch.kind[number] == 0 else "removed", 1)
            _effort(context, result.statistics)
            done = number + 1
            if context.late:
                break
        main.ingest(changes_of(batch[done:]))
        context.check(program, main.query())


def _effort(context: Context, statistics: dict[str, object]) -> None:
    for name in ("iterations", "updates", "touched"):
        if name in statistics:
            context.note(name, statistics[name])
    context.note(f"start {statistics['start']}", 1)
