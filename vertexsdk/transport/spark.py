"""Partitions on Spark: held by tasks that stay (`resident`); else every hop is a job."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from vertexsdk.arrays import shared_memory
from vertexsdk.errors import InputError, RunError
from vertexsdk.transport import resident
from vertexsdk.transport._descriptions import described
from vertexsdk.transport._spark_internals import (
    default_filesystem,
    executor_cores,
    other_hosts,
    stopped,
)
from vertexsdk.transport.inprocess import InProcessExchange
from vertexsdk.transport.resident import Launch, ResidentExchange, SharedValue
from vertexsdk.transport.shipping import prepare_workers
from vertexsdk.transport.shuffle import ShuffleWorkers
from vertexsdk.transport.spark_failures import spark_failure
from vertexsdk.transport.transport import BlockSource, Exchange, Task, collect_unused

Returned = TypeVar("Returned")

_KILL_IDLE = "spark.python.worker.killOnIdleTimeout"
_IDLE_TIMEOUT = "spark.python.worker.idleTimeoutSeconds"
_log = logging.getLogger("vertexsdk")
_told: set[tuple[str, str | None]] = set()  # by application, why it has no processors
_slots_before: dict[str, int] = {}  # by application, when processors started last
RETURN_SECONDS = 60.0  # for an executor to be replaced that was lost with a processor
CLOSE_SECONDS = 10.0  # for unused processors to end
_LOOK_SECONDS = 0.1  # between looks whether it is
_starting = threading.RLock()  # free slots are counted, and a launch starts, one at a time


_all: weakref.WeakSet[SparkWorkers] = weakref.WeakSet()


class SparkWorkers:
    """Workers that are processors, which start when first needed, or else Spark jobs.

    Args:
        spark: the session.
        partitions: how many there are.
        by_jobs: no processors are wanted.
    """

    def __init__(self, spark: SparkSession, partitions: int, *, by_jobs: bool = False) -> None:
        if partitions < 1:
            raise InputError(f"partitions is {partitions}; it must be at least 1")
        if stopped(spark.sparkContext):
            raise RunError(
                "the graph's Spark session was stopped; start one, and make the graph with it"
            )
        self.spark, self.sc, self.partitions = spark, spark.sparkContext, partitions
        self._local = (self.sc.master or "").split("[")[0] == "local"  # one process runs all tasks
        self._by_jobs = by_jobs
        self._held: Launch | ShuffleWorkers | None = None
        self.application, self.title = self.sc.applicationId, ""
        _all.add(self)

    @property
    def resident(self) -> bool:
        """True if processors hold the partitions; with too few free slots, every hop is a job."""
        return isinstance(self._holder(), Launch)

    def _holder(self) -> Launch | ShuffleWorkers:
        with _starting:
            if self._held is None:
                launch = None if self._by_jobs else self._launched()
                self._held = launch or ShuffleWorkers(self.spark, self.partitions)
            return self._held

    @property
    def holder(self) -> str:
        """A text that says what holds slots, and how many; "" if nothing does."""
        if not isinstance(self._held, Launch) or not self._held.alive:
            return ""
        return f"{self.title or 'a graph that is being loaded'} ({self.partitions} slots)"

    def _launched(self) -> Launch | None:
        """Start processors, or say why every hop is a job."""
        application = self.sc.applicationId
        while True:
            taken = self._await_slots(application)
            reason = self._why_none(self._slots() - taken, application)
            if reason is not None:
                quiet = self._local and self.partitions == 1  # it has nothing to exchange
                quiet |= (application, reason) in _told
                _told.add((application, reason))
                _log.log(
                    logging.INFO if quiet else logging.WARNING,
                    "no processors hold the graph (%s): a run takes a Spark job per iteration, a "
                    "main loop stays in the driver's process", reason,
                )  # fmt: skip
                return None
            try:
                launch = Launch(self.sc, self.partitions)
            except RunError as error:
                _log.warning(
                    "processors did not start, so each iteration is a Spark job: %s", error
                )
                return None
            slots = self._slots()
            if taken + self.partitions + 1 <= slots:
                _slots_before[application] = slots
                return launch
            launch.close()  # an executor has gone
            if not self._may_return(application):
                return None

    def _await_slots(self, application: str) -> int:
        """Wait for the executor that was lost, if there are too few slots without it.

        Returns:
            How many slots other graphs have taken.
        """
        said = collected = False
        while True:
            taken = sum(
                x.partitions for x in resident._launches if x.application == application and x.alive
            )
            enough = self._slots() - taken > self.partitions
            if not enough and not collected:
                collected = True
                collect_unused(CLOSE_SECONDS)
                continue
            if enough or not self._may_return(application):
                return taken
            if not said:
                said = True
                _log.warning(
                    "an executor was lost; waiting up to %.0f s for another", RETURN_SECONDS
                )
            time.sleep(_LOOK_SECONDS)

    def _may_return(self, application: str) -> bool:
        """Return whether an executor was lost a short time ago, and Spark may replace it."""
        lost = resident.lost_at.get(application, float("-inf"))
        recent = time.monotonic() < lost + RETURN_SECONDS
        return recent and self._slots() < _slots_before.get(application, 0)

    def _why_none(self, free: int, application: str) -> str | None:
        """Why the cluster, with as many free slots, can keep no processors; None if it can."""
        conf, need = self.sc.getConf(), self.partitions + 1
        idle = conf.get(_IDLE_TIMEOUT) or "0"
        if conf.get(_KILL_IDLE) == "true" and idle.rstrip("s") != "0":
            return f"{_KILL_IDLE} would end them after {idle.rstrip('s')} s; set it to false"
        if free >= need:
            return None
        dynamic = conf.get("spark.dynamicAllocation.enabled") == "true"
        more = "raise spark.dynamicAllocation.minExecutors" if dynamic else "give Spark more cores"
        taken = ""
        if holders := sorted(x.holder for x in _all if x.application == application and x.holder):
            taken = (
                f", as {', '.join(holders)} have some; call close() of loops and unpersist() of "
                "graphs that you do not use"
            )
        return (
            f"{self.partitions} partitions need {need} free slots, and there are {free}{taken}; "
            f"{more}, or take fewer partitions, and call graph.unpersist()"
        )

    def _slots(self) -> int:
        """The number of tasks that can run at a time on the present executors."""
        return sum(executor_cores(self.sc)) // int(self.sc.getConf().get("spark.task.cpus", "1"))

    def exchange(
        self, task: Task, *, resident: bool = True, blocks: BlockSource | None = None
    ) -> Exchange:
        """Return the hops of a task."""
        holder = self._holder()
        if isinstance(holder, Launch):
            return ResidentExchange(holder, task, blocks)
        if not resident:
            return holder.exchange(task, blocks)
        if not self._local and other_hosts(self.sc):
            raise InputError(
                f"{self.partitions} partitions of a main loop stay in tasks of their own, and need "
                f"{self.partitions + 1} free slots: give Spark more cores, or take fewer partitions"
            )
        return InProcessExchange(self.partitions, task, blocks)

    def intact(self) -> bool:
        """Return whether no worker is known to be lost; a job finds out by itself."""
        return not isinstance(self._held, Launch) or self._held.alive

    def described(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Have Spark's web interface show a text with the jobs that this thread starts within."""
        return described(self.sc, text)

    def run(self, function: Callable[[int], Returned]) -> list[Returned]:
        """Call a function with each partition's number on its worker."""
        return self._holder().run(function)

    def forget(self, prefix: str) -> None:
        """Free the arrays under a key; where processors have ended, tasks do it on executors."""
        shared_memory.drop(prefix)
        if self._local or self._held is None:
            return
        if isinstance(self._held, ShuffleWorkers):
            self._held.forget(prefix)
            return
        with contextlib.suppress(RunError):
            if self._held.alive:
                self._held.run(lambda _: shared_memory.drop(prefix))
                return

        def drop(records: Iterable[int]) -> Iterator[int]:
            shared_memory.drop(prefix)
            return iter(records)

        with contextlib.suppress(RunError, Py4JError, ConnectionError, AttributeError):
            tasks = 2 * len(executor_cores(self.sc))
            if tasks:
                with spark_failure(), described(self.sc, "free a graph"):
                    self.sc.parallelize(range(tasks), tasks).mapPartitions(drop).count()

    def close(self) -> None:
        """Release the workers; may be called twice."""
        if self._held is not None:
            self._held.close()


def paths_are_local(spark: SparkSession) -> bool:
    """Return whether a path without a scheme is on this machine."""
    return default_filesystem(spark.sparkContext).startswith("file:")


class SparkTransport:
    """The transport that runs tasks on Spark."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self.spark, sc = spark, spark.sparkContext
        prepare_workers(sc)
        self.application = shared_memory.application(sc.applicationId)
        self._local = (sc.master or "").split("[")[0] == "local"  # this process is its executor

    @property
    def cores(self) -> int:
        """Number of cores of all tasks together."""
        cores = int(self.spark.sparkContext.defaultParallelism)
        return min(cores, os.cpu_count() or cores) if self._local else cores

    def default_partitions(self) -> int:
        """Return one per executor, whose cores are used by threads."""
        return 1 if self._local else max(1, len(executor_cores(self.spark.sparkContext)))

    def threads(self, partitions: int) -> int:
        """Return the number of cores that each of so many partitions may use."""
        return max(1, self.cores // partitions)

    def workers(self, partitions: int, *, by_jobs: bool = False) -> SparkWorkers:
        """Return workers for so many partitions."""
        return SparkWorkers(self.spark, partitions, by_jobs=by_jobs)

    def broadcast(self, value: Any) -> SharedValue:
        """Return a handle with the value, which is sent to each process once."""
        return SharedValue(self.spark.sparkContext, value)

    def other_hosts(self) -> list[str]:
        """The hosts, other than this one, on which tasks run."""
        return [] if self._local else other_hosts(self.spark.sparkContext)
