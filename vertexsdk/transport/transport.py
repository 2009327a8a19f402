"""The interface between graphs and engines, and what runs their tasks: Spark, or this process."""

from __future__ import annotations

import gc
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard, TypeVar

from vertexsdk.errors import RunError
from vertexsdk.transport.task_times import HopTimes

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

DRIVER = -1  # the destination of a task's report
PEERS = -3  # the destination of a report to all partitions, which ends a superstep
POSTS = -4  # has the blocks that were yielded sent before the superstep ends

Block = tuple[int, bytes]
Blocks = list[Block]
Task = Callable[[int, Any, Blocks], Iterable[tuple[int, Any]]]
"""From the partition's number, the command and the blocks that came to (destination, block) pairs.

Where workers are resident, a task may go through several supersteps: it yields `PEERS` and a
report, any object that never changes, as the tasks of all other partitions do, and the `yield`
returns the blocks that came since, and the reports of all partitions.

Within a superstep it may yield `POSTS`, and whether to wait. The blocks that it has yielded are
sent at once, and the `yield` returns the blocks that came from others so, in the order of each
sender, and whether a partition has ended the superstep. With a wait it returns as soon as there is
one of the two. Blocks that came so and were not returned are the first ones of the superstep's end.
"""
Returned = TypeVar("Returned")


class BlockSource(ABC):
    """Blocks, each with the partition that it is for, made part by part where their input is."""

    @abstractmethod
    def collect(self, function: Callable[[int, Iterator[Block]], Iterable[Any]]) -> list[Any]:
        """Call a function with each part's number and blocks, where they are made.

        Returns:
            What it yields, for all parts in order; it is pickled on the way.

        Raises:
            RunError: a task failed.
        """

    @abstractmethod
    def rdd(self, spark: SparkSession) -> RDD[Block]:
        """Return the blocks as an RDD."""


class LocalBlocks(BlockSource):
    """Blocks that are made in this process.

    Args:
        blocks: (destination, block) pairs.
    """

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._blocks = blocks

    def collect(self, function: Callable[[int, Iterator[Block]], Iterable[Any]]) -> list[Any]:
        """Call a function with part 0 and all blocks; return what it yields."""
        return list(function(0, iter(self._blocks)))

    def rdd(self, spark: SparkSession) -> RDD[Block]:
        """Return the blocks as an RDD."""
        return spark.sparkContext.parallelize(self._blocks)


class Exchange(Protocol):
    """The hops of one loop: a task on every partition, and the blocks that they send each other.

    Attributes:
        times: those of the last hop; None if hops are not jobs.
    """

    partitions: int
    times: HopTimes | None

    def hop(self, command: Any) -> list[bytes]:
        """Run the task once on every partition; return their reports in partition order.

        Args:
            command: passed to the task.

        Raises:
            VertexError: raised by a task; the same hop may be run again.
            RunError: a task failed; the same hop may be run again.
        """

    def close(self) -> None:
        """Free the blocks of the hops; may be called twice."""


class Workers(Protocol):
    """The workers that have the partitions of one graph, until they are closed.

    Attributes:
        title: a text that says what has them, for other users that need their slots.
    """

    partitions: int
    title: str

    @property
    def resident(self) -> bool:
        """True if an exchange's tasks run where the earlier ones did, so what they hold stays."""

    def exchange(
        self, task: Task, *, resident: bool = True, blocks: BlockSource | None = None
    ) -> Exchange:
        """Return the hops of a task.

        Args:
            resident: what the task holds stays between hops, and it may go through several
                supersteps; False has nothing stay. Where tasks cannot stay and all partitions are
                on this host, it runs in this process.
            blocks: which the first hop gets, from any source and in any order.

        Raises:
            InputError: tasks cannot stay, and partitions are on several hosts.
            RunError: the blocks could not be brought to the workers.
        """

    def intact(self) -> bool:
        """Return whether no worker is known to be lost."""

    def described(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Have Spark's web interface show a text with the jobs that this thread starts within.

        Yields a function that gives the jobs after it another text.
        """

    def run(self, function: Callable[[int], Returned]) -> list[Returned]:
        """Call a function with each partition's number on its worker; results are pickled."""

    def forget(self, prefix: str) -> None:
        """Free the arrays under a shared-memory key, on all workers."""

    def close(self) -> None:
        """Release the workers; may be called twice."""


_closing: set[threading.Thread] = set()


def close_unused(workers: Workers, prefix: str) -> None:
    """Free what an unreferenced graph holds, and close its workers, in a thread.

    Garbage collection may come in the middle of a call to Spark, when its thread can make no other.

    Args:
        prefix: the prefix of the graph's shared-memory keys.
    """

    def close() -> None:
        try:
            workers.forget(prefix)
            workers.close()
        finally:
            _closing.discard(threading.current_thread())

    thread = threading.Thread(target=close, name="vertexsdk-close", daemon=True)
    _closing.add(thread)
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends, when all workers are closed
        _closing.discard(thread)


def collect_unused(seconds: float) -> None:
    """Have the workers of unreferenced graphs closed; wait for that so long at most."""
    gc.collect()
    end = time.monotonic() + seconds
    for thread in list(_closing):
        thread.join(max(end - time.monotonic(), 0.0))


class Transport(Protocol):
    """Starts workers, and carries commands and blocks to them.

    Attributes:
        name: "spark" or "local".
        spark: the session, or None. A remote one, of Spark Connect, runs no tasks of graphs.
        application: the first part of shared-memory keys.
        cores: number of cores of all tasks together.
    """

    name: str
    application: str

    @property
    def spark(self) -> SparkSession | None: ...

    @property
    def cores(self) -> int: ...

    def default_partitions(self) -> int:
        """The default number of partitions of a graph."""

    def threads(self, partitions: int) -> int:
        """Return the number of cores that each of so many partitions may use."""

    def workers(self, partitions: int, *, by_jobs: bool = False) -> Workers:
        """Return workers for so many partitions.

        Args:
            by_jobs: every hop is to be a Spark job; ignored without Spark.
        """

    def broadcast(self, value: Any) -> Any:
        """Return a handle with the value as its `value`, which is sent to each process once."""

    def other_hosts(self) -> list[str]:
        """The hosts, other than this one, on which tasks run."""


class Pause(NamedTuple):
    """A point at which a task waits for others, or has ended.

    Attributes:
        destination: `PEERS` or `POSTS`; None where it has ended.
        told: what it yielded with that.
        blocks: by partition, the blocks that it has yielded since the last pause.
    """

    destination: int | None
    told: Any
    blocks: list[list[bytes]]


def run_task(task: Any, answer: Any, partitions: int, reports: list[bytes]) -> Pause:
    """Run a task until it pauses.

    Args:
        task: the iterator that a `Task` returned.
        answer: what its last pause returns; None where it starts.
        partitions: number of partitions.
        reports: takes its reports to the driver.

    Raises:
        RunError: it sends a block to a partition that does not exist.
    """
    blocks: list[list[bytes]] = [[] for _ in range(partitions)]
    try:
        while True:
            destination, block = next(task) if answer is None else task.send(answer)
            answer = None
            if destination in (PEERS, POSTS):
                return Pause(destination, block, blocks)
            if destination == DRIVER:
                reports.append(block)
            elif 0 <= destination < partitions:
                blocks[destination].append(block)
            else:
                raise RunError(
                    f"a task sent a block to partition {destination}, which does not exist"
                )
    except StopIteration:
        return Pause(None, None, blocks)


def require_all(reports: list[Any]) -> None:
    """Require that all partitions continue after a superstep.

    Raises:
        RunError: the task of one has ended, so it has no report.
    """
    if any(report is None for report in reports):
        raise RunError(f"the task of partition {reports.index(None)} ended before the others did")


def is_remote(spark: object) -> bool:
    """Return whether a session is one of Spark Connect; does not import that.

    >>> is_remote(None)
    False
    """
    connect = sys.modules.get("pyspark.sql.connect.session")
    return connect is not None and isinstance(spark, connect.SparkSession)


def is_dataframe(value: object) -> TypeGuard[DataFrame]:
    """Return whether a value is a Spark DataFrame; does not import Spark."""
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import DataFrame

    return isinstance(value, DataFrame)
