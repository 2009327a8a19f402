"""Partitions in this process: no Spark, no JVM. For small graphs, notebooks and tests.

A remote session (Spark Connect) has no way to tasks that stay and connect to each other, so its
graphs are here too.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.threads import default_threads
from vertexsdk.errors import InputError, RunError, VertexError, typed_line
from vertexsdk.transport.task_times import HopTimes
from vertexsdk.transport.transport import (
    POSTS,
    Block,
    Blocks,
    BlockSource,
    Pause,
    Task,
    require_all,
    run_task,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Returned = TypeVar("Returned")


@dataclass(frozen=True)
class LocalValue:
    """A value in the process that reads it, as a broadcast has it."""

    value: Any


class InProcessWorkers:
    """Workers that are calls in this process."""

    def __init__(self, partitions: int) -> None:
        if partitions < 1:
            raise InputError(f"partitions is {partitions}; it must be at least 1")
        self.partitions = partitions

    resident = True
    title = ""  # they take no slots

    def exchange(
        self, task: Task, *, resident: bool = True, blocks: BlockSource | None = None
    ) -> InProcessExchange:
        """Return the hops of a task, which run in this process."""
        return InProcessExchange(self.partitions, task, blocks)

    def intact(self) -> bool:
        """Return True: these workers cannot be lost."""
        return True

    def described(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Do nothing: no job needs a description."""
        return contextlib.nullcontext(_ignore)

    def run(self, function: Callable[[int], Returned]) -> list[Returned]:
        """Call a function with each partition's number, one after the other."""
        return [function(p) for p in range(self.partitions)]

    def forget(self, prefix: str) -> None:
        """Free the arrays under a shared-memory key."""
        shared_memory.drop(prefix)

    def close(self) -> None:
        """Do nothing; there is nothing to release."""


class InProcessExchange:
    """An exchange whose hops are calls, one partition after the other.

    Args:
        blocks: the blocks that the first hop gets.
    """

    def __init__(self, partitions: int, task: Task, blocks: BlockSource | None = None) -> None:
        self.partitions, self._task = partitions, task
        self.times: HopTimes | None = None
        self._inbox: list[Blocks] = [[] for _ in range(partitions)]
        for destination, block in [] if blocks is None else blocks.collect(_same):
            self._inbox[destination].append((0, block))

    def hop(self, command: Any) -> list[bytes]:
        """Run the task once on every partition; return their reports in partition order."""
        with _one_line():
            tasks = [iter(self._task(p, command, b)) for p, b in enumerate(self._inbox)]
            reports: list[list[bytes]] = [[] for _ in tasks]
            answers: list[Any] = [None] * len(tasks)
            while True:
                told, received = self._superstep(tasks, answers, reports)
                if all(report is None for report in told):
                    break
                require_all(told)
                answers = [(blocks, told) for blocks in received]
        self._inbox = received
        return [b"".join(parts) for parts in reports]

    def _superstep(
        self, tasks: list[Any], answers: list[Any], reports: list[list[bytes]]
    ) -> tuple[list[Any], list[Blocks]]:
        """Run all tasks to the end of a superstep; return what they tell, and what came to each.

        Raises:
            RunError: all of those left wait for blocks, and none is on its way.
        """
        partitions = range(self.partitions)
        posts: list[Blocks] = [[] for _ in partitions]
        ends: dict[int, Pause] = {}
        waits: dict[int, bool] = {}  # of those that have posted
        while len(ends) < self.partitions:
            state = dict(waits), len(ends)
            for p in partitions:
                if p in ends or (waits.get(p) and not posts[p] and not ends):
                    continue
                answer = answers[p]
                if p in waits:
                    answer, posts[p] = (posts[p], bool(ends)), []
                pause = run_task(tasks[p], answer, self.partitions, reports[p])
                if pause.destination != POSTS:
                    ends[p] = pause
                    continue
                waits[p] = pause.told
                for q, outgoing in enumerate(pause.blocks):
                    posts[q] += [(p, block) for block in outgoing]
            if all(waits.values()) and state == (waits, len(ends)) and not any(posts):
                raise RunError("the tasks of all partitions wait for blocks of each other")
        for source in partitions:
            for q, outgoing in enumerate(ends[source].blocks):
                posts[q] += [(source, block) for block in outgoing]
        return [ends[p].told for p in partitions], [
            sorted(blocks, key=itemgetter(0)) for blocks in posts
        ]

    def close(self) -> None:
        """Free the blocks of the hops."""
        self._inbox = [[] for _ in range(self.partitions)]


def _ignore(text: str) -> None:
    pass


def _same(part: int, blocks: Iterator[Block]) -> Iterator[Block]:
    return blocks


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Turn what a task raises into a `RunError` of one line, as Spark's workers do."""
    try:
        yield
    except VertexError:
        raise
    except Exception as error:
        failure = RunError(typed_line(error))
        failure.add_note("".join(traceback.format_exception(error)))
        raise failure from error


class InProcessTransport:
    """The transport that runs all tasks in this process."""

    name = "local"

    def __init__(self, spark: SparkSession | None = None) -> None:
        self.spark = spark  # a remote one
        self.application = shared_memory.application(f"local-{os.getpid()}")

    @property
    def cores(self) -> int:
        """Number of threads that kernels use by default."""
        return default_threads()

    def default_partitions(self) -> int:
        """Return one: its kernels use all cores."""
        return 1

    def threads(self, partitions: int) -> int:
        """Return all cores, as partitions run one after the other."""
        return self.cores

    def workers(self, partitions: int, *, by_jobs: bool = False) -> InProcessWorkers:
        """Return workers for so many partitions, in this process."""
        return InProcessWorkers(partitions)

    def broadcast(self, value: Any) -> LocalValue:
        """Return a handle with the value itself."""
        return LocalValue(value)

    def other_hosts(self) -> list[str]:
        """Return none: all tasks run on this host."""
        return []
