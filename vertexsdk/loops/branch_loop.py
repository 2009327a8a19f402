"""A loop forked from another: iterated to the exact answer for the instant of its fork, or what-if.

It shares what neither changes with the loop that it was forked from, and otherwise has its own
engine, its own name in the store and its own log. So any number of them run beside a main loop.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import SparkSession

from vertexsdk.engine.engine import Budget, Effort
from vertexsdk.errors import InputError, RunError
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.loops._history import LoopHistory
from vertexsdk.loops._ledger import Ledger
from vertexsdk.loops.result import Result
from vertexsdk.state.address import Address

if TYPE_CHECKING:
    from vertexsdk.loops._diff import Comparable, ResultDiff

__all__ = ["BranchLoop", "not_converged", "require_state"]

Merge = Literal["auto"] | None


class BranchLoop:
    """A fork of a loop, made by `MainLoop.fork`; a context manager that frees it.

    Its versions stay in the store under its name.

    Attributes:
        loop: its name in the store.
        merged: whether its result was written into the loop that it was forked from.

    Example:
        >>> branch = main.fork().start(timeout=60)  # doctest: +SKIP
        >>> branch.progress()["iterations"]  # doctest: +SKIP
        17
        >>> branch.result().dataframe().write.parquet("distances")  # doctest: +SKIP
    """

    def __init__(
        self,
        versions: LoopHistory,
        parent: LoopHistory,
        backend: Address,
        spark: SparkSession,
        merge: Merge,
    ) -> None:
        self.versions, self._parent = versions, parent
        self.backend, self._spark, self._merge = backend, spark, merge
        self.loop = versions.loop
        self.merged = False
        self._received = versions.ledger.received  # by the parent, when this was forked
        self._thread: threading.Thread | None = None
        self._cancelled = threading.Event()
        self._error: BaseException | None = None
        self._effort = Effort()
        self._began = time.monotonic()

    @classmethod
    def of(
        cls,
        parent: LoopHistory,
        backend: Address,
        spark: SparkSession,
        name: str | None,
        at: int | None,
        merge: Merge,
    ) -> BranchLoop:
        """Fork a loop; the arguments are those of `MainLoop.fork`."""
        if merge not in (None, "auto"):
            raise InputError(f"merge is {merge!r}; it must be None or 'auto'")
        if name is None:
            with parent.lock:
                there = set(parent.store.backend.list_heads())
                number = 1
                while f"{parent.loop}-fork-{number}" in there:
                    number += 1
                versions = parent.fork(f"{parent.loop}-fork-{number}", at)
        else:
            versions = parent.fork(name, at)
        branch = cls(versions, parent, backend, spark, merge)
        if at is not None:
            branch._received = -1  # no version but the newest can be merged
        return branch

    def start(
        self, *, timeout: float | None = None, max_iterations: int | None = None
    ) -> BranchLoop:
        """Iterate to the end in a thread of its own; `result` waits for it.

        Args:
            timeout: seconds after which it is ended.
            max_iterations: after which it is ended, unless it was at its fixed point before.

        Raises:
            InputError: it runs already.
        """
        self._refuse_running()
        self._cancelled.clear()
        self._error, self._effort, self._began = None, Effort(), time.monotonic()
        budget = Budget(max_iterations, timeout, self._cancelled.is_set, self._report)
        self._thread = threading.Thread(
            target=self._run, args=(budget,), name=f"vertexsdk-{self.loop}", daemon=True
        )
        self._thread.start()
        return self

    def _report(self, effort: Effort) -> None:
        self._effort = effort

    def _run(self, budget: Budget) -> None:
        try:
            out = self.versions.execute(budget=budget)
            self._effort = out.effort
            if out.num_vertices == 0:
                raise InputError("the graph has no edge left, and so no vertex to answer for")
            if not out.effort.quiet:
                raise not_converged(self.loop, out.effort)
            if self._merge == "auto" and self.versions.ledger.received == self._received:
                with contextlib.suppress(InputError):  # input came: what is merged would lose it
                    self._do_merge()
        except BaseException as error:
            self._error = error

    @property
    def running(self) -> bool:
        """Whether it iterates now."""
        return self._thread is not None and self._thread.is_alive()

    def _refuse_running(self) -> None:
        if self.running:
            raise InputError(
                f"branch {self.loop!r} is running: wait for its result(), or cancel() it"
            )

    def result(self, timeout: float | None = None) -> Result:
        """Return the exact answer; iterates first, if `start` was not called.

        Args:
            timeout: seconds to wait for it; it goes on if they have passed.

        Raises:
            RunError: it failed, met a limit, was cancelled, or is still running.
            InputError: the graph has no vertex.
        """
        ledger = self.versions.ledger
        merges = self._merge is not None and self._thread is None
        if not self.running and self._error is None:
            if merges or not (ledger.exact and ledger.state):
                self.start()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                raise RunError(
                    f"branch {self.loop!r} is still running after {self._effort.iterations} "
                    "iterations: wait longer, or cancel() it"
                )
        if self._error is not None:
            raise self._error
        return self.read()

    def read(self) -> Result:
        """Return the newest version, whether it is exact or not; `statistics["exact"]` says so.

        Raises:
            InputError: there is no state yet.
        """
        manifest, ledger = self.versions.current
        require_state(self.loop, ledger)
        statistics = {**self.versions.statistics, "changes": ledger.received, **ledger.counts}
        statistics |= {"version": manifest.iteration, "behind": ledger.behind}
        statistics |= {"residual": ledger.residual, "exact": ledger.exact, "merged": self.merged}
        return self.versions.result(
            self.backend, self.loop, manifest.iteration, statistics, self._spark
        )

    def cancel(self) -> None:
        """End the iterations; `result` then says so. What was reached stays readable."""
        self._cancelled.set()

    def progress(self) -> dict[str, Any]:
        """Return `state` (waiting, running, done, failed), and of the iterations what is known."""
        effort = self._effort
        state = "waiting" if self._thread is None else "running"
        if self._thread is not None and not self.running:
            state = "done" if self._error is None else "failed"
        return {
            "state": state,
            "iterations": effort.iterations,
            "updates": effort.updates,
            "messages": effort.messages,
            "residual": effort.residual,
            "seconds": time.monotonic() - self._began if state == "running" else effort.seconds,
        }

    def apply(self, changes: Changes | Iterable[Sequence[Any]]) -> dict[str, int]:
        """Take in changes which the loop that this was forked from never sees: what if?

        Returns:
            As `MainLoop.ingest`.

        Raises:
            InputError: changes of another form, or it is running.
        """
        self._refuse_running()
        with self.versions.lock:
            batch = self.versions.cast(changes)
            self._error = None
            return dict(self.versions.execute(batch).counts)

    def fork(self, name: str | None = None, *, merge: Merge = None) -> BranchLoop:
        """Return a branch of this branch.

        Raises:
            InputError: it is running.
        """
        self._refuse_running()
        return BranchLoop.of(self.versions, self.backend, self._spark, name, None, merge)

    def merge(self) -> None:
        """Write the result into the loop that this was forked from, at its next iteration.

        Changes of `apply` are made there too. This branch ends with it; its result can be read.

        Raises:
            InputError: it is not exact yet, or input came to that loop since the fork.
        """
        self._refuse_running()
        if not self.versions.ledger.exact:
            raise InputError(
                f"branch {self.loop!r} is not at its fixed point: ask for its result() first"
            )
        self._do_merge()

    def _do_merge(self) -> None:
        if self._received < 0:
            raise InputError(f"branch {self.loop!r} stands at an earlier version: fork the newest")
        self._parent.merge(self.versions, self._received)
        self.merged = True

    def diff(self, other: Comparable, field: str | None = None) -> ResultDiff:
        """Compare the newest version with another branch, a main loop, or a result.

        Args:
            other: it is read as it is.
            field: the program's result by default.

        Returns:
            The ids that differ, ascending, with both values.

        Raises:
            InputError: there is no such field, or no state yet.
        """
        from vertexsdk.loops._diff import diff_results

        with contextlib.closing(self.read()) as mine:
            return diff_results(mine, other, field)

    def close(self, *, forget: bool = False) -> None:
        """Cancel what runs and free the memory.

        Args:
            forget: delete its versions from the store too.
        """
        self.cancel()
        if self._thread is not None:
            self._thread.join()
        if forget and self.versions.store.head(self.loop) is not None:
            self.versions.store.delete(self.loop)
        self.versions.close()

    def __enter__(self) -> BranchLoop:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def require_state(loop: str, ledger: Ledger) -> None:
    """Refuse to read a loop which has no state yet."""
    if not ledger.state:
        raise InputError(f"loop {loop!r} has no state yet: ask for its result first")


def not_converged(loop: str, effort: Effort) -> RunError:
    """The error of iterations that a limit ended."""
    residual = "it has no residual" if effort.residual is None else f"residual {effort.residual:g}"
    why = {
        "cancelled": "was cancelled",
        "seconds": f"met its time limit after {effort.seconds:.1f} s",
        "max_iterations": "met its limit of iterations",
    }.get(str(effort.reason), f"was ended ({effort.reason})")
    return RunError(
        f"loop {loop!r} {why}, before its fixed point: {effort.iterations} iterations, {residual}; "
        "what it reached can be read"
    )
