"""What the Spark systems share: a quiet local session, and reading pairs back from the JVM."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from benchmarks.peers import Settings


def jvm_session(settings: Settings, **conf: str) -> SparkSession:
    """A session on ``local[cores]`` whose JVM may use two thirds of the memory allowed."""
    builder = (
        SparkSession.builder.master(f"local[{settings.cores}]")
        .appName("vertexsdk-benchmark")
        .config("spark.driver.memory", f"{max(1, settings.memory * 2 // 3 >> 30)}g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", settings.scratch)
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", str(settings.cores))
    )
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def versions(spark: SparkSession) -> dict[str, str]:
    jvm: Any = spark.sparkContext._jvm
    return {"spark": spark.version, "java": str(jvm.System.getProperty("java.version"))}


def pairs(rdd: Any, scratch: str, pattern: str) -> tuple[Any, Any]:
    """An RDD of Scala pairs with a number in each, by way of text files.

    ``pattern`` finds the two numbers in ``(key,value)``; a pair without a second one is left out.
    """
    folder = Path(scratch) / "pairs"
    shutil.rmtree(folder, ignore_errors=True)
    rdd.saveAsTextFile(folder.as_uri())
    found: list[tuple[str, str]] = []
    for part in sorted(folder.glob("part-*")):
        found += re.findall(pattern, part.read_text(), re.MULTILINE)
    shutil.rmtree(folder)
    ids = np.array([key for key, _ in found], dtype=np.int64)
    return ids, np.array([value for _, value in found], dtype=np.float64)
