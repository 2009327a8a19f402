"""Partitions in this process: no Spark, no JVM. For small graphs, notebooks and tests.

A remote session (Spark Connect) has no way to tasks that stay and connect to each other, so its
graphs are here too.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.threads import default_threads
from vertexsdk.errors import InputError, RunError, VertexError, typed_line
from vertexsdk.transport.task_times import HopTimes
from vertexsdk.transport.transport import Blocks, Dataset, Task, require_all, run_superstep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Returned = TypeVar("Returned")


@dataclass(frozen=True)
class LocalValue:
    """A value in the process that reads it, as a broadcast has it."""

    value: Any


class LocalDataset(Dataset):
    """A list of parts, computed when they are collected.

    >>> LocalDataset.of([[1, 2], [3]]).mapPartitions(lambda part: [sum(part)]).collect()
    [3, 3]
    """

    def __init__(self, parts: Sequence[Callable[[], Iterable[Any]]]) -> None:
        self._parts = parts

    @classmethod
    def of(cls, parts: Iterable[Iterable[Any]]) -> LocalDataset:
        """Take the records of every part."""
        return cls([partial(iter, part) for part in parts])

    def mapPartitionsWithIndex(
        self, function: Callable[[int, Iterator[Any]], Iterable[Any]]
    ) -> LocalDataset:
        """See `Dataset`."""

        def call(k: int, part: Callable[[], Iterable[Any]]) -> Iterable[Any]:
            return function(k, iter(part()))

        return LocalDataset([partial(call, k, part) for k, part in enumerate(self._parts)])

    def collect(self) -> list[Any]:
        """See `Dataset`."""
        return [record for part in self._parts for record in part()]


class InProcessWorkers:
    """See `Workers`."""

    def __init__(self, partitions: int) -> None:
        if partitions < 1:
            raise InputError(f"partitions is {partitions}; it must be at least 1")
        self.partitions = partitions

    resident = True

    def exchange(self, task: Task, *, resident: bool = True) -> InProcessExchange:
        """See `Workers`."""
        return InProcessExchange(self.partitions, task)

    def whole(self) -> bool:
        """See `Workers`."""
        return True

    def watched(self) -> AbstractContextManager[None]:
        """See `Workers`."""
        return contextlib.nullcontext()

    def described(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """See `Workers`; there are no jobs."""
        return contextlib.nullcontext(_ignore)

    def records(self) -> LocalDataset:
        """See `Workers`."""
        return LocalDataset.of([[] for _ in range(self.partitions)])

    def route(self, blocks: LocalDataset) -> LocalDataset:
        """See `Workers`."""
        parts: list[list[bytes]] = [[] for _ in range(self.partitions)]
        for destination, block in blocks.collect():
            parts[destination].append(block)
        return LocalDataset.of(parts)

    def run(self, function: Callable[[int], Returned]) -> list[Returned]:
        """See `Workers`."""
        return [function(p) for p in range(self.partitions)]

    def forget(self, prefix: str) -> None:
        """See `Workers`."""
        shared_memory.drop(prefix)

    def close(self) -> None:
        """See `Workers`."""


class InProcessExchange:
    """See `Exchange`: hops are calls, one partition after the other."""

    def __init__(self, partitions: int, task: Task) -> None:
        self.partitions, self._task = partitions, task
        self.times: HopTimes | None = None
        self._inbox: list[Blocks] = [[] for _ in range(partitions)]

    def hop(self, command: Any, *, via: Literal["driver", "shuffle"] = "driver") -> list[bytes]:
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

    def workers(self, partitions: int) -> InProcessWorkers:
        """See `Transport`."""
        return InProcessWorkers(partitions)

    def broadcast(self, value: Any) -> LocalValue:
        """See `Transport`."""
        return LocalValue(value)

    def parallelize(self, items: Sequence[Any]) -> LocalDataset:
        """See `Transport`."""
        return LocalDataset.of([[item] for item in items] or [[]])

    def collect(self, dataset: LocalDataset) -> list[Any]:
        """See `Transport`."""
        return dataset.collect()

    def other_hosts(self) -> list[str]:
        """See `Transport`."""
        return []
