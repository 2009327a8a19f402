"""Where a graph's partitions are: one anchor, created before loading, decides for all later jobs.

An anchor is a cached RDD of empty records, spread over the executors. A task whose input is zipped
with it runs on the executor that caches the anchor's partition, or else on the same host. So
partition p is loaded on the host on which each hop of p runs, and freed there alone.

Spark's delay scheduling guarantees that: a task waits for its executor for the usual three seconds,
then for its host, while that lives; see `vertexsdk.transport._host_watch`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext, StorageLevel
from pyspark.accumulators import Accumulator, _accumulatorRegistry
from pyspark.sql import SparkSession

from vertexsdk.arrays import shared_memory
from vertexsdk.errors import InputError, RunError
from vertexsdk.transport._descriptions import described
from vertexsdk.transport._host_watch import wait_for_hosts, watched
from vertexsdk.transport.jvm import JavaObject, Jvm, Shuffle, spark_failure
from vertexsdk.transport.wire import Frames, KeyedFrames, Reports, Skip

T = TypeVar("T")


class Anchor:
    """Pins partitions to executors, until it is closed or the executors are lost.

    Args:
        spark: the session.
        partitions: number of partitions.

    >>> Anchor(spark, 2).run(lambda partition: partition * 10)
    [0, 10]
    """

    def __init__(self, spark: SparkSession, partitions: int) -> None:
        if partitions < 1:
            raise InputError(f"partitions is {partitions}; it must be at least 1")
        self.sc = spark.sparkContext
        if self.sc._jsc is None:
            raise RunError(
                "the graph's Spark session was stopped; start one, and make the graph with it"
            )
        self.partitions = partitions
        self._process = os.getpid()
        self.jvm = Jvm(self.sc)
        self.one_process = (self.sc.master or "").split("[")[0] == "local"
        self._places: list[str] = []
        with spark_failure(), described(self.sc, f"place {partitions} partitions"):
            # As many records as a hop has: `zip` needs equal numbers.
            self.rdd = self.jvm.distribute([b""] * partitions**2, partitions)
            # On disk rather than evicted: a partition without its record has no executor.
            self.rdd.persist(self.sc._getJavaStorageLevel(StorageLevel.MEMORY_AND_DISK))
            self.rdd.count()
            if not self.one_process:
                self.rdd.count()  # the scheduler looks for the places as a job begins
                self._places = self._preferred_places()
        # A place is `executor_HOST_ID`, or empty if the record was lost already.
        matches = [re.fullmatch("executor_(.+)_.+", place) for place in self._places]
        self._hosts = frozenset(match[1] for match in matches if match)

    @property
    def forked(self) -> bool:
        """Whether this is a copy in a forked process, whose Spark session is its parent's."""
        return os.getpid() != self._process

    def whole(self) -> bool:
        """Whether each partition is still where it was at first, as far as Spark knows."""
        try:
            return self.one_process or self._preferred_places() == self._places
        except (Py4JError, ConnectionError):
            return True  # Spark has stopped, and the next job will fail

    def _preferred_places(self) -> list[str]:
        rdd, scala_sc = self.rdd.rdd(), self.jvm.scala_sc
        return [
            str(scala_sc.getPreferredLocs(rdd, p).mkString(",")) for p in range(self.partitions)
        ]

    def placed(self) -> AbstractContextManager[None]:
        """Start stages within, whose tasks wait for the hosts of their partitions."""
        return wait_for_hosts(self.sc) if self._hosts else contextlib.nullcontext()

    def watched(self) -> AbstractContextManager[None]:
        """Run jobs on the anchor; they fail with a `RunError` if one of its hosts is lost."""
        return watched(self.jvm, self._hosts)

    def described(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """See `Workers`."""
        return described(self.sc, text)

    def records(self) -> RDD[bytes]:
        """Return the anchor as an RDD of `partitions` empty records in each partition."""
        return RDD(self.rdd, self.sc, Frames())

    def run(self, function: Callable[[int], T]) -> list[T]:
        """Call a function with each partition's number, on the partition's executor.

        Returns:
            The results in order; they are pickled.

        Raises:
            RunError: a task failed.
        """

        def call(partition: int, records: Iterable[bytes]) -> Iterator[T]:
            for _ in records:
                pass  # Spark ends a worker that has not read its input
            yield function(partition)

        with self.watched():
            return self.records().mapPartitionsWithIndex(call).collect()

    def zip(self, blocks: JavaObject, counts: list[int]) -> RDD[bytes]:
        """Pin a JavaRDD<byte[]> whose partition p has `counts[p]` records."""

        def slots(partition: int, records: Iterator[bytes]) -> Iterator[bytes]:
            for _ in records:
                pass
            for _ in range(counts[partition]):
                yield b""

        here = self.jvm.python(self.rdd.rdd(), slots, Frames(), Frames())
        return RDD(here.asJavaRDD().zip(blocks), self.sc, Skip())

    def route(self, blocks: RDD[tuple[int, bytes]]) -> RDD[bytes]:
        """Bring each (destination, block) to partition `destination`, without pickling.

        A partition receives its blocks in no particular order. On a cluster, the tasks that yield
        the blocks run at once: to zip the anchor with the blocks, it must be known how many each
        partition receives.
        """
        sc = self.sc
        counts: Accumulator[Any] | None = (
            None if self.one_process else sc.accumulator({}, Reports())
        )
        keyed = blocks.mapPartitionsWithIndex(partial(_counted, counts))
        keyed._jrdd_deserializer = KeyedFrames()
        shuffle = Shuffle(self.jvm, keyed._jrdd.rdd(), self.partitions)
        if counts is None:
            return RDD(shuffle.bundles, sc, Frames())
        shuffle.write()
        _accumulatorRegistry.pop(counts.aid, None)
        totals: Counter[int] = Counter()
        for _, sent in counts.value.values():
            totals.update(pickle.loads(sent))
        return self.zip(shuffle.bundles, [totals[p] for p in range(self.partitions)])

    def forget(self, prefix: str) -> None:
        """Free the shared memory under `prefix`, on this host and on those of the partitions.

        A host that cannot be reached frees it when another run starts there.
        """
        shared_memory.drop(prefix)
        if self.one_process:
            return
        with contextlib.suppress(RunError, Py4JError, ConnectionError):
            if self.jvm.scala_sc.getExecutorMemoryStatus().size() > 1:  # not the driver alone
                self.run(lambda _: shared_memory.drop(prefix))

    def close(self) -> None:
        """Unpin the partitions; may be called twice."""
        if not self.forked:
            with contextlib.suppress(Py4JError, ConnectionError):  # Spark may have stopped
                self.rdd.unpersist(False)


def _counted(
    counts: Accumulator[Any] | None, partition: int, blocks: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[int, bytes]]:
    """Pass blocks on, and report to `counts`, if given, how many went to each destination."""
    sent: Counter[int] = Counter()
    for destination, block in blocks:
        sent[destination] += 1
        yield destination, block
    if counts is not None:
        counts.add({(0, partition): (0, pickle.dumps(sent))})


def other_hosts(sc: SparkContext) -> list[str]:
    """Return the hosts of executors, other than this one."""
    infos = sc._jsc.sc().statusTracker().getExecutorInfos()
    own = {"localhost", "127.0.0.1", os.uname().nodename, *_addresses()}
    hosts = {str(i.host()) for i in infos}
    return sorted(h for h in hosts if h not in own and not h.startswith("127."))


def _addresses() -> set[str]:
    try:
        return {str(a[4][0]) for a in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return set()
