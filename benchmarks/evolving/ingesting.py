"""How fast changes are taken in, with answers kept up; and what forks beside it cost."""

from __future__ import annotations

import threading
import time
from copy import copy
from functools import partial

from benchmarks.evolving.context import Context, changes_of, pieces
from benchmarks.timing import timed
from vertexsdk import MainLoop
from vertexsdk.engine.commands import QUIET

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
