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
from typing import TYPE_CHECKING, Any, TypeVar

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.threads import default_threads
from vertexsdk.errors import InputError, RunError, VertexError, typed_line
from vertexsdk.transport.task_times import HopTimes
from vertexsdk.transport.transport import (
    Block,
    Blocks,
    BlockSource,
    Task,
    require_all,
    run_superstep,
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
                ends = [
                    run_superstep(task, answers[p], self.partitions, reports[p])
                    for p, task in enumerate(tasks)
                ]
                told = [report for report, _ in ends]
                received: list[Blocks] = [
                    [(source, block) for source, (_, sent) in enumerate(ends) for block in sent[p]]
                    for p in range(self.partitions)
                ]
                if all(report is None for report in told):
                    break
                require_all(told)
                answers = [(blocks, told) for blocks in received]
        self._inbox = received
        return [b"".join(own) for own in reports]

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
