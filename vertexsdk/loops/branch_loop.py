"""A loop forked from another, to compute the exact answer at that instant, or a what-if.

A branch has its own engine, change log and name in the store, so any number of branches run beside
a main loop. They share the data that none of them changes.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from vertexsdk.engine.answer_checks import endless
from vertexsdk.engine.commands import Budget, WorkDone
from vertexsdk.errors import InputError, RunError, StateInputError
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.loops._diff import ReadableLoop
from vertexsdk.loops.history import LoopHistory
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.result import Result
from vertexsdk.loops.turns import SLICE
from vertexsdk.notebook.card import card, summary_line
from vertexsdk.program.program import Program

Merge = Literal["auto"] | None
MAX_BRANCHES = 256


class OpenBranches:
    """The open branches of a main loop, those of its branches included.

    Args:
        limit: how many there may be, at least 1; None for any number.

    Raises:
        InputError: another limit.
    """

    def __init__(self, limit: int | None) -> None:
        if limit is not None and limit < 1:
            raise InputError(f"max_branches is {limit}; give 1 or more, or None for any number")
        self._limit, self._lock = limit, threading.Lock()
        self._open: weakref.WeakSet[BranchLoop] = weakref.WeakSet()
        self._closed: set[str] = set()  # names of branches

    def add(self, branch: BranchLoop, loop: str) -> None:
        """Count a branch of `loop` until it is closed or garbage-collected.

        Raises:
            InputError: there are as many as there may be.
        """
        with self._lock:
            if self._limit is not None and len(self._open) >= self._limit:
                raise InputError(
                    f"{loop!r} cannot be forked: its main loop has {len(self._open)} open "
                    "branches, as many as max_branches allows; close() one, or open the loop with "
                    "a larger max_branches"
                )
            self._open.add(branch)

    @property
    def count(self) -> int:
        """The number of open branches."""
        with self._lock:
            return len(self._open)

    def remove(self, branch: BranchLoop) -> None:
        """Count a branch no more; its name may be used again."""
        with self._lock:
            self._open.discard(branch)
            if hasattr(branch, "loop"):  # else it could not be forked
                self._closed.add(branch.loop)

    def fork(self, parent: LoopHistory, name: str | None, at: int | None) -> LoopHistory:
        """Fork a loop; without a name, under one that is free.

        Raises:
            StateInputError: the branch of this name is open, there is another loop of this name,
                or no such version.
        """
        if name is not None:
            self._free(name, parent)
            return parent.fork(name, at)
        with parent.lock:
            parent.settle()
            number = 0
            while True:
                loops = set(parent.store.backend.list_heads())
                number += 1
                while f"{parent.loop}-fork-{number}" in loops:
                    number += 1
                try:
                    return parent.fork(f"{parent.loop}-fork-{number}", at)
                except StateInputError:  # of a fork before, whose outcome was unknown until now
                    if parent.store.head(f"{parent.loop}-fork-{number}") is None:
                        raise

    def _free(self, name: str, parent: LoopHistory) -> None:
        """Delete the versions of an earlier branch of this name, if it was closed."""
        with self._lock:
            if any(getattr(branch, "loop", None) == name for branch in self._open):
                raise StateInputError(
                    f"branch {name!r} is open: close() it, or choose another name"
                )
            closed = name in self._closed
        newest = parent.store.head(name)
        ledger = None if newest is None else Ledger.of(newest)
        if newest is None or ledger is None:
            return  # `fork` refuses the name of a run
        main = parent.ledger.branch_of or parent.loop
        if closed or (newest.loop == name and ledger.branch_of == main):
            parent.store.delete(name)


class BranchLoop(ReadableLoop):
    """A fork of a loop, as `MainLoop.fork` returns it; a context manager that closes it.

    Its versions stay in the store under its name.

    Args:
        parent: the loop to fork.
        branches: those of the main loop, of which this is one; None does not count it.
        name, at, merge: those of `MainLoop.fork`.

    Attributes:
        loop: its name in the store.
        backend: URL of the store.
        merged: whether its result was merged into the loop that it was forked from.

    Example:
        >>> from vertexsdk import Graph, MainLoop
        >>> from vertexsdk.algorithms import ShortestPaths
        >>> graph = Graph.from_arrays([1, 2, 1], [2, 3, 3], [1.0, 1.0, 5.0], spark=spark)
        >>> main = MainLoop(ShortestPaths, graph, params={"origin": 1}, backend="memory://fork")
        >>> with main.fork() as branch:
        ...     counts = branch.apply([("-", 2, 3)])
        ...     branch.start(timeout=60).result().lookup(3)
        {3: {'length': 5.0}}
        >>> main.query().lookup(3)  # the main loop has the edge still
        {3: {'length': 2.0}}
        >>> main.close()
    """

    def __init__(
        self,
        parent: LoopHistory,
        branches: OpenBranches | None,
        name: str | None = None,
        at: int | None = None,
        merge: Merge = None,
    ) -> None:
        if merge not in (None, "auto"):
            raise InputError(f"merge is {merge!r}; it must be None or 'auto'")
        self._branches = branches or OpenBranches(None)
        self._branches.add(self, parent.loop)
        try:
            with parent.turn(parent.lock if at is None else None):
                history = self._branches.fork(parent, name, at)
        except BaseException:
            self._branches.remove(self)
            raise
        self._history, self._parent, self._merge = history, parent, merge
        self.loop, self.backend = history.loop, history.config.backend
        self.merged = False
        # By the parent, when this was forked; only a fork of the newest version can be merged.
        self._received = history.ledger.received if at is None else -1
        self._thread: threading.Thread | None = None
        self._cancelled = threading.Event()
        self._failure: tuple[Any, BaseException] | None = None  # and of which changes it is
        self._work = WorkDone()
        self._began = time.monotonic()

    def start(
        self, *, timeout: float | None = None, max_iterations: int | None = None
    ) -> BranchLoop:
        """Start to iterate to the fixed point in a background thread; `result` waits for it.

        Args:
            timeout: seconds after which the iterations are stopped.
            max_iterations: number of iterations after which they are stopped.

        Returns:
            This branch.

        Raises:
            InputError: the branch is running.
        """
        self._refuse_running()
        self._cancelled.clear()
        self._failure, self._work, self._began = None, WorkDone(), time.monotonic()
        budget = Budget(max_iterations, timeout, self._cancelled.is_set, self._report, SLICE)
        self._thread = threading.Thread(
            target=self._run, args=(budget,), name=f"vertexsdk-{self.loop}", daemon=True
        )
        self._thread.start()
        return self

    def _report(self, work: WorkDone) -> None:
        self._work = work
        self._history.config.turns.pause()

    def _run(self, budget: Budget) -> None:
        with self._history.turn():
            self._iterate(budget)

    def _iterate(self, budget: Budget) -> None:
        try:
            out = self._history.execute(budget=budget)
            self._work = out.work
            if not out.work.quiet:
                raise not_converged(self.loop, out.work, self._history.config.program)
            if self._merge == "auto" and self._history.ledger.received == self._received:
                with contextlib.suppress(InputError):  # changes arrived: they would be lost
                    self._do_merge()
        except BaseException as error:
            self._failure = self._reflected, error

    @property
    def _reflected(self) -> tuple[int, int, bool]:
        """The key of the state; another one, by `apply` or a merge, ends a failure."""
        ledger = self._history.ledger
        return ledger.received, ledger.reflected, ledger.exact

    @property
    def _error(self) -> BaseException | None:
        """Why the iterations failed, if they did so for the graph as it is now."""
        if self._failure is None or self._failure[0] != self._reflected:
            return None
        return self._failure[1]

    @property
    def running(self) -> bool:
        """True while it is iterating."""
        return self._thread is not None and self._thread.is_alive()

    def _refuse_running(self) -> None:
        if self.running:
            raise InputError(
                f"branch {self.loop!r} is running: wait for its result(), or cancel() it"
            )

    def result(self, timeout: float | None = None) -> Result:
        """Return the exact answer; iterate first if `start` was not called.

        Args:
            timeout: seconds to wait; the iterations continue after them.

        Returns:
            The answer, for the caller to close.

        Raises:
            RunError: the branch failed, met a limit, was cancelled, or is still running.
            InputError: the branch was merged or closed.
        """
        ledger = self._history.ledger
        merges = self._merge is not None and self._thread is None
        if not self.running and self._error is None:
            if merges or not (ledger.exact and ledger.state):
                self.start()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                raise RunError(
                    f"branch {self.loop!r} is still running after {self._work.iterations} "
                    "iterations: wait longer, or cancel() it"
                )
        if self._error is not None:
            raise self._error
        return self.read()

    def read(self) -> Result:
        """Return the newest version; its `statistics["exact"]` tells whether it is exact.

        Raises:
            InputError: the branch has no state yet.
        """
        current = self._history.newest
        ledger = current[1].ledger
        require_state(self.loop, ledger)
        exact = {"exact": ledger.exact, "merged": self.merged}
        statistics = {**self._history.statistics, **ledger.counts, **exact}
        return self._history.result(self.loop, statistics, current)

    def cancel(self) -> None:
        """Stop the iterations; `result` then raises, and `read` returns the state so far."""
        self._cancelled.set()

    def progress(self) -> dict[str, Any]:
        """Return the branch's progress.

        Returns:
            `state` (waiting, running, done or failed), and `iterations`, `updates`, `messages`,
            `residual` and `seconds` so far.
        """
        work = self._work
        state = "waiting" if self._thread is None else "running"
        if self._thread is not None and not self.running:
            state = "done" if self._error is None else "failed"
        return {
            "state": state,
            "iterations": work.iterations,
            "updates": work.updates,
            "messages": work.messages,
            "residual": work.residual,
            "seconds": time.monotonic() - self._began if state == "running" else work.seconds,
        }

    def _facts(self) -> dict[str, Any]:
        ledger, progress = self._history.ledger, self.progress()
        state = "merged" if self.merged else progress["state"]
        return {
            "of": self._parent.loop, "state": state, "exact": ledger.exact and ledger.state,
            "version": self._history.manifest.iteration, "iterations": progress["iterations"],
            "changes": ledger.received,
        }  # fmt: skip

    def __repr__(self) -> str:
        return summary_line(f"BranchLoop {self.loop}", self._facts())

    def _repr_html_(self) -> str:
        return card(f"Branch loop {self.loop}", self._facts())

    def apply(self, changes: Changes | Iterable[Sequence[Any]]) -> dict[str, int]:
        """Apply changes to this branch alone, for a what-if.

        Args:
            changes: as for `MainLoop.ingest`.

        Returns:
            As `MainLoop.ingest`.

        Raises:
            InputError: changes of another form, or the branch is running.
        """
        self._refuse_running()
        with self._history.turn(), self._history.lock:
            batch = self._history.cast(changes)
            return dict(self._history.execute(batch).counts)

    def fork(self, name: str | None = None, *, merge: Merge = None) -> BranchLoop:
        """Fork a branch of this branch; the arguments are those of `MainLoop.fork`.

        Raises:
            InputError: the branch is running, or the main loop has `max_branches` open branches.
        """
        self._refuse_running()
        return BranchLoop(self._history, self._branches, name, merge=merge)

    def merge(self) -> None:
        """Merge the result into the loop that this was forked from, at its next iteration.

        A branch that is not at its fixed point yet iterates first, as by `result`. Changes of
        `apply` become part of that loop too. Afterwards the branch can only be read.

        Raises:
            InputError: that loop has ingested changes since; or the branch is of an earlier
                version.
            RunError: the branch failed, met a limit, or was cancelled.
        """
        if self.merged:
            return
        self._refuse_merge()
        ledger = self._history.ledger
        if self.running or not (ledger.exact and ledger.state):
            self.result().close()
        if not self.merged:  # as `merge="auto"` does
            with self._history.turn():
                self._do_merge()

    def _refuse_merge(self) -> None:
        if self._received < 0:
            raise InputError(f"branch {self.loop!r} is of an earlier version: fork the newest one")
        self._parent.refuse_merge(self.loop, self._received)

    def _do_merge(self) -> None:
        self._refuse_merge()
        self._parent.merge(self._history, self._received)
        self.merged = True

    def close(self, *, forget: bool = False) -> None:
        """Cancel the iterations and free the memory.

        Args:
            forget: also delete its versions from the store.
        """
        self.cancel()
        if self._thread is not None:
            self._thread.join()
        with self._history.turn(), self._history.lock:  # no snapshot is committed meanwhile
            if forget and self._history.store.head(self.loop) is not None:
                self._history.store.delete(self.loop)
            self._history.close()
        self._branches.remove(self)


def require_state(loop: str, ledger: Ledger) -> None:
    """Raise InputError if a loop has no state yet."""
    if not ledger.state:
        raise InputError(f"loop {loop!r} has no state yet: ask for its result first")


def not_converged(loop: str, work: WorkDone, program: Program) -> RunError:
    """Return the error for iterations that ended before the fixed point."""
    if work.reason == "default_limit":
        return RunError(f"{endless(program.classes[0], work.iterations)} (loop {loop!r})")
    residual = "it has no residual" if work.residual is None else f"residual {work.residual:g}"
    why = {
        "cancelled": "was cancelled",
        "seconds": f"met its time limit after {work.seconds:.1f} s",
        "max_iterations": "met its limit of iterations",
    }.get(str(work.reason), f"ended ({work.reason})")
    return RunError(
        f"loop {loop!r} {why}, before its fixed point: {work.iterations} iterations, {residual}; "
        "the state so far can be read"
    )
