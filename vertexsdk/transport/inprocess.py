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
    """See `Workers`."""

    def __init__(self, partitions: int) -> None:
        if partitions < 1:
            raise InputError(f"partitions is {partitions}; it must be at least 1")
        self.partitions = partitions

    resident = True
    title = ""  # nobody waits for their slots

    def exchange(
        self, task: Task, *, resident: bool = True, blocks: BlockSource | None = None
    ) -> InProcessExchange:
        """See `Workers`."""
        return InProcessExchange(self.partitions, task, blocks)

    def whole(self) -> bool:
        """See `Workers`."""
        return True

    def described(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """See `Workers`; there are no jobs."""
        return contextlib.nullcontext(_ignore)

    def run(self, function: Callable[[int], Returned]) -> list[Returned]:
        """See `Workers`."""
        return [function(p) for p in range(self.partitions)]

    def forget(self, prefix: str) -> None:
        """See `Workers`."""
        shared_memory.drop(prefix)

    def close(self) -> None:
        """See `Workers`."""


class InProcessExchange:
    """See `Exchange`: hops are calls, one partition after the other.

    Args:
        blocks: see `Workers.exchange`.
    """

    def __init__(self, partitions: int, task: Task, blocks: BlockSource | None = None) -> None:
        self.partitions, self._task = partitions, task
        self.times: HopTimes | None = None
        self._inbox: list[Blocks] = [[] for _ in range(partitions)]
        for destination, block in [] if blocks is None else blocks.collect(_same):
            self._inbox[destination].append((0, block))

    def hop(self, command: Any) -> list[bytes]:
        """See `Exchange`."""
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
        return [b"".join(own) for own in reports]

    def _superstep(
        self, tasks: list[Any], answers: list[Any], reports: list[list[bytes]]
    ) -> tuple[list[Any], list[Blocks]]:
        """Run all tasks to the end of a superstep; return what they tell, and what came to each.

        Raises:
            RunError: all of those left wait for blocks, and none is on its way.
        """
        everyone = range(self.partitions)
        posts: list[Blocks] = [[] for _ in everyone]
        ends: dict[int, Pause] = {}
        waits: dict[int, bool] = {}  # of those that have posted
        while len(ends) < self.partitions:
            before = dict(waits), len(ends)
            for p in everyone:
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
                for q, sent in enumerate(pause.sent):
                    posts[q] += [(p, block) for block in sent]
            if all(waits.values()) and before == (waits, len(ends)) and not any(posts):
                raise RunError("the tasks of all partitions wait for blocks of each other")
        for source in everyone:
            for q, sent in enumerate(ends[source].sent):
                posts[q] += [(source, block) for block in sent]
        return [ends[p].told for p in everyone], [
            sorted(blocks, key=itemgetter(0)) for blocks in posts
        ]

    def close(self) -> None:
        """See `Exchange`."""
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
    """See `Transport`."""

    name = "local"

    def __init__(self, spark: SparkSession | None = None) -> None:
        self.spark = spark  # a remote one
        self.application = shared_memory.application(f"local-{os.getpid()}")

    @property
    def cores(self) -> int:
        """See `Transport`."""
        return default_threads()

    def default_partitions(self) -> int:
        """See `Transport`: one, whose kernels use all cores."""
        return 1

    def threads(self, partitions: int) -> int:
        """See `Transport`: all, as one partition goes on after the other."""
        return self.cores

    def workers(self, partitions: int, *, by_jobs: bool = False) -> InProcessWorkers:
        """See `Transport`."""
        return InProcessWorkers(partitions)

    def broadcast(self, value: Any) -> LocalValue:
        """See `Transport`."""
        return LocalValue(value)

    def other_hosts(self) -> list[str]:
        """See `Transport`."""
        return []
