"""Partitions on Spark: held by tasks that stay, see `resident`; else every hop is a job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from pyspark import RDD
from pyspark.sql import SparkSession

from vertexsdk.arrays import shared_memory
from vertexsdk.transport.jvm import spark_failure
from vertexsdk.transport.locality import other_hosts
from vertexsdk.transport.resident import ResidentWorkers, SharedValue


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
        return [] if self._local else other_hosts(self.spark.sparkContext)
