"""Partitions on Spark: held by tasks that stay, see `resident`; else every hop is a job."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

from pyspark import RDD
from pyspark.sql import SparkSession

from vertexsdk.arrays import shared_memory
from vertexsdk.transport._shared_value import SharedValue
from vertexsdk.transport.jvm import spark_failure
from vertexsdk.transport.resident import ResidentWorkers

__all__ = ["SparkTransport"]


class SparkTransport:
    """See `Transport`."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self.spark, sc = spark, spark.sparkContext
        self.application = shared_memory.application(sc.applicationId)
        self._local = (sc.master or "").split("[")[0] == "local"  # this process is its executor

    @property
    def cores(self) -> int:
        """See `Transport`."""
        cores = int(self.spark.sparkContext.defaultParallelism)
        return min(cores, os.cpu_count() or cores) if self._local else cores

    def default_partitions(self) -> int:
        """See `Transport`: one per executor, whose cores are used by threads."""
        if self._local:
            return 1
        scala_sc = self.spark.sparkContext._jsc.sc()
        return max(1, int(scala_sc.getExecutorMemoryStatus().size()) - 1)

    def workers(self, partitions: int) -> ResidentWorkers:
        """See `Transport`."""
        return ResidentWorkers(self.spark, partitions)

    def broadcast(self, value: Any) -> SharedValue:
        """See `Transport`."""
        return SharedValue(self.spark.sparkContext, value)

    def parallelize(self, items: Sequence[Any]) -> RDD[Any]:
        """See `Transport`."""
        return self.spark.sparkContext.parallelize(items, max(len(items), 1))

    def collect(self, dataset: RDD[Any]) -> list[Any]:
        """See `Transport`."""
        with spark_failure():
            return dataset.collect()

    def other_hosts(self) -> list[str]:
        """See `Transport`."""
        if self._local:
            return []
        infos = self.spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        own = {"localhost", "127.0.0.1", os.uname().nodename, *_addresses()}
        hosts = {str(i.host()) for i in infos}
        return sorted(h for h in hosts if h not in own and not h.startswith("127."))


def _addresses() -> set[str]:
    try:
        return {str(a[4][0]) for a in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return set()
