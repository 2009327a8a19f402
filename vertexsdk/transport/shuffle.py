"""Hops as Spark jobs: a task on every partition, whose blocks go to the next hop by a shuffle.

A superstep is one job of public RDD methods. Its tasks are pure in the command and their input
blocks, which they get with their own state by its version; they yield blocks and reports as
(destination, record) pairs. The shuffle's output is checkpointed on the executors, so that the
lineage does not grow, and stays until the next hop has read it.

Invariants: a hop that fails leaves its input in place; a partition receives blocks in order of
their source; on a cluster partition p runs on the host where partition p of the anchor is, a cached
RDD of a record each, as long as that lives.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import cloudpickle
from py4j.protocol import Py4JError
from pyspark import RDD, StorageLevel
from pyspark.core.broadcast import Broadcast
from pyspark.sql import SparkSession

from vertexsdk.arrays import shared_memory
from vertexsdk.errors import LostError, RunError
from vertexsdk.transport._descriptions import described
from vertexsdk.transport._spark_internals import unpersist_checkpoint, wait_for_hosts
from vertexsdk.transport.outcomes import FAILURE, describe, outcome
from vertexsdk.transport.spark_failures import spark_failure
from vertexsdk.transport.task_times import Clock, HopTimes
from vertexsdk.transport.transport import DRIVER, BlockSource, Task, run_task

Returned = TypeVar("Returned")
Record = tuple[int, int, bytes]  # BLOCK, its source, and the block; or a report's kind, and whose

BLOCK = 0
BROADCAST_COMMAND = 1 << 18  # bytes above which a command is sent once per executor
LARGEST_INPUT = 2**31 - 2**20  # bytes of what Python's and Spark's processes give each other
_modules_frozen = 0


class ShuffleWorkers:
    """The workers of a graph whose partitions Spark jobs hold.

    Args:
        spark: the session.
        partitions: how many there are.
    """

    def __init__(self, spark: SparkSession, partitions: int) -> None:
        self.spark, self.partitions = spark, partitions
        sc = spark.sparkContext
        self._anchor: RDD[int] | None = None
        if (sc.master or "").split("[")[0] != "local":
            with spark_failure(), described(sc, f"place {partitions} partitions"):
                self._anchor = sc.parallelize(range(partitions), partitions)
                # On disk rather than evicted: a partition without its record has no executor.
                self._anchor.persist(StorageLevel.MEMORY_AND_DISK).count()

    @contextlib.contextmanager
    def jobs(self) -> Iterator[None]:
        """Run jobs within, whose tasks wait for the hosts of their partitions."""
        waits: AbstractContextManager[None] = contextlib.nullcontext()
        if self._anchor is not None:
            waits = wait_for_hosts(self.spark.sparkContext)
        with spark_failure(), waits:
            yield

    def inputs(self, routed: RDD[tuple[int, Record]] | None = None) -> RDD[list[Record]]:
        """Return an RDD with the input of each partition's task, where the partition is."""
        anchor = self._anchor
        if routed is None:
            if anchor is None:
                anchor = self.spark.sparkContext.parallelize(
                    range(self.partitions), self.partitions
                )
            return anchor.map(_nothing)
        together = routed.mapPartitionsWithIndex(_input)
        return together if anchor is None else anchor.zip(together).values()

    def exchange(self, task: Task, blocks: BlockSource | None = None) -> ShuffleExchange:
        """Return the hops of a task."""
        return ShuffleExchange(self, task, blocks)

    def run(self, function: Callable[[int], Returned]) -> list[Returned]:
        """Call a function with each partition's number on its worker, in one job."""
        call = partial(_call, function)
        with self.jobs():
            return self.inputs().mapPartitionsWithIndex(call).collect()

    def forget(self, prefix: str) -> None:
        """Free the arrays under a key; an unreachable host does it when a run starts there."""
        if self._anchor is not None:
            with contextlib.suppress(RunError, Py4JError, ConnectionError):
                self.run(lambda _: shared_memory.drop(prefix))

    def close(self) -> None:
        """Release the workers; may be called twice."""
        with contextlib.suppress(Py4JError, ConnectionError, AttributeError):  # Spark has stopped
            if self._anchor is not None:
                self._anchor.unpersist()


class ShuffleExchange:
    """An exchange whose hops are Spark jobs.

    Args:
        workers: where the partitions are; they outlive the exchange.
        task: it must be pure, because Spark may run it twice.
        blocks: the blocks that the first hop gets.

    >>> from vertexsdk.transport.transport import DRIVER
    >>> def task(partition, command, blocks):
    ...     yield DRIVER, b"".join(block for _, block in blocks)
    ...     yield 1 - partition, command
    >>> exchange = ShuffleWorkers(spark, 2).exchange(task)
    >>> exchange.hop(b"a"), exchange.hop(b"b")
    ([b'', b''], [b'a', b'a'])
    >>> exchange.close()
    """

    def __init__(
        self, workers: ShuffleWorkers, task: Task, blocks: BlockSource | None = None
    ) -> None:
        self._workers, self.partitions, self._task = workers, workers.partitions, task
        self.times: HopTimes | None = None
        self._routed: RDD[tuple[int, Record]] | None = None  # input of the next hop
        if blocks is not None:
            keyed = blocks.rdd(workers.spark).mapPartitionsWithIndex(_keyed)
            self._routed = keyed.partitionBy(self.partitions, _to_partition)

    def hop(self, command: Any) -> list[bytes]:
        """Run the task once on every partition; return their reports in partition order."""
        began, sc = time.time(), self._workers.spark.sparkContext
        pickled = cloudpickle.dumps(command)
        shared = sc.broadcast(pickled) if len(pickled) > BROADCAST_COMMAND else None
        function = partial(_run_task, _ByValue(self._task), shared or pickled, self.partitions)
        routed: RDD[tuple[int, Record]] | None = None
        try:
            with self._workers.jobs():
                tasks = self._workers.inputs(self._routed).mapPartitionsWithIndex(function)
                routed = tasks.partitionBy(self.partitions, _to_partition)
                routed.persist(StorageLevel.MEMORY_AND_DISK)
                routed.localCheckpoint()  # which the job does when its tasks have ended
                submitted = time.time()
                reports = sorted(sc.runJob(routed, _reports, [0]), key=lambda report: report[1])
            if [partition for _, partition, _ in reports] != list(range(self.partitions)):
                raise LostError(f"{len(reports)} of {self.partitions} partitions reported")
            stamped = [outcome(kind, report) for kind, _, report in reports]
            routed, self._routed = self._routed, routed
        finally:
            self._free(routed)
            if shared is not None:
                with contextlib.suppress(Py4JError, ConnectionError, AttributeError):
                    shared.destroy()
        self.times = HopTimes(began, submitted, time.time(), [stamp for stamp, _ in stamped])
        return [report for _, report in stamped]

    def close(self) -> None:
        """Free the blocks of the hops; may be called twice."""
        self._free(self._routed)
        self._routed = None

    def _free(self, routed: RDD[Any] | None) -> None:
        with contextlib.suppress(Py4JError, ConnectionError, AttributeError):  # Spark has stopped
            if routed is not None and routed.is_cached:
                unpersist_checkpoint(self._workers.spark.sparkContext, routed)


@dataclass(frozen=True)
class _ByValue:
    """A task that unpickles as itself, with the modules that `shipping` has registered.

    PySpark pickles by a copy of cloudpickle of its own, which does not know them. It collects the
    broadcasts that are pickled meanwhile.
    """

    task: Task

    def __reduce__(self) -> Any:
        return pickle.loads, (cloudpickle.dumps(self.task),)


def _to_partition(key: int) -> int:
    """The partition function of all RDDs here: a key is its partition."""
    return key


def _nothing(_: int) -> list[Record]:
    return []


def _input(partition: int, records: Iterable[tuple[int, Record]]) -> Iterator[list[Record]]:
    """Put the blocks for a partition into one record, as the anchor has one."""
    blocks = [record for _, record in records if record[0] == BLOCK]
    size = sum(len(block) for *_, block in blocks)
    if size > LARGEST_INPUT:
        raise RunError(
            f"partition {partition} is sent {size:,} bytes in one superstep, more than "
            f"{LARGEST_INPUT:,}, which is the most by a Spark shuffle; use more partitions"
        )
    blocks.sort(key=lambda record: record[1])
    yield blocks


def _keyed(part: int, blocks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, Record]]:
    for destination, block in blocks:
        yield destination, (BLOCK, part, block)


def _reports(records: Iterable[tuple[int, Record]]) -> list[Record]:
    return [record for _, record in records if record[0] != BLOCK]


def _call(function: Callable[[int], Returned], partition: int, _: object) -> Iterator[Returned]:
    yield function(partition)


def _run_task(
    task: Any,
    order: bytes | Broadcast[bytes],
    partitions: int,
    partition: int,
    inputs: Iterable[list[Record]],
) -> Iterator[tuple[int, Record]]:
    """Run a task for one superstep; Spark calls this on each partition."""
    clock = Clock()
    blocks = [(source, block) for records in inputs for _, source, block in records]
    kind, reports = DRIVER, list[bytes]()
    blocks_to: list[list[bytes]] = []
    try:
        command = pickle.loads(order if isinstance(order, bytes) else order.value)
        clock.decoded = time.time()
        pause = run_task(iter(task(partition, command, blocks)), None, partitions, reports)
        assert pause.destination is None, "a job is one superstep"
        blocks_to = pause.blocks
    except Exception as error:
        kind, reports = FAILURE, [describe(error)]
    with clock.importing():
        _freeze()
    yield 0, (kind, partition, clock.stamp().prepend_to(b"".join(reports)))
    for destination, outgoing in enumerate(blocks_to):
        for block in outgoing:
            yield destination, (BLOCK, partition, block)


def _freeze() -> None:
    """Exclude imported modules from the `gc.collect()` that Spark calls after every task."""
    global _modules_frozen
    if len(sys.modules) != _modules_frozen:
        gc.collect()
        gc.freeze()
        _modules_frozen = len(sys.modules)
