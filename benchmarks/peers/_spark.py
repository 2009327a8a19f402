"""What the Spark systems share: a quiet local session, and reading pairs back from the JVM."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
from pyspark.sql import SparkSession

from benchmarks.peers import Settings, Unavailable

NUMBERS = r"^\((-?\d+),([-+.\dE]+|Infinity)\)$"
"""A pair of a vertex and a number, as Scala prints it."""


def jvm_session(settings: Settings, **conf: str) -> SparkSession:
    """A session on ``local[cores]`` whose JVM may use two thirds of the memory allowed."""
    conf = {
        "spark.driver.memory": f"{max(1, settings.memory * 2 // 3 >> 30)}g",
        "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1", "spark.local.dir": settings.scratch,
        "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": str(settings.cores), **conf,
    }  # fmt: skip
    builder = SparkSession.builder.master(f"local[{settings.cores}]").appName("vertexsdk-benchmark")
    return builder.config(map=conf).getOrCreate()


def scala_jar(source: Path, settings: Settings, *more: Path) -> Path:
    """Compile files of Scala against Spark's jars, by the compiler that is among them.

    Raises:
        Unavailable: it cannot be compiled here.
    """
    jars = sorted(str(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    made = Path(settings.scratch) / f"{source.stem}.jar"
    if made.exists():  # by a process before this one, which was ended
        return made
    path = os.pathsep.join(jars)
    command = [java, "-cp", path, "scala.tools.nsc.Main", "-classpath", path, "-d", str(made)]
    done = subprocess.run(
        [*command, *map(str, (source, *more))], capture_output=True, text=True, timeout=300
    )
    if done.returncode or not made.exists():
        said = " ".join((done.stderr or done.stdout).split())[:200]
        raise Unavailable(f"{source.name} does not compile: {said}")
    return made


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
