"""Makes an archive of the classes that Spark loads, for the JVMs of tests to begin with.

    python tests/support/class_archive.py FILE

A JVM that finds its classes parsed and linked in such a file starts in less than half the time
(JDK's class data sharing), and the tests start some fifty. `./dev test` makes it once, in `.venv`;
`conftest.py` lets every JVM use it, if it is there. It is bound to the Java and the PySpark that
made it: a JVM for which it does not fit goes on without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# What most tests do: jobs with Python tasks and a shuffle, a query, reading and writing files.
_WORK = """
import sys, tempfile
from pyspark.sql import functions
from vertexsdk import session
spark = session("local[2]", "classes")
pairs = spark.sparkContext.parallelize([(k % 3, bytes(8)) for k in range(9)], 2)
assert len(pairs.groupByKey(2).mapValues(len).collect()) == 3
frame = spark.range(100).withColumn("b", functions.col("id") % 7)
with tempfile.TemporaryDirectory() as folder:
    frame.write.parquet(folder + "/p")
    frame.write.csv(folder + "/c", header=True)
    read = spark.read.parquet(folder + "/p").groupBy("b").count().orderBy("b")
    assert read.toArrow().num_rows == 7
    assert spark.read.csv(folder + "/c", header=True).count() == 100
spark.stop()
"""


def main(path: Path) -> int:
    """Write the archive; the exit status of the Spark program that it is taken from."""
    path = path.absolute()
    made = path.with_suffix(f".{os.getpid()}")
    quiet = "-Xlog:cds=off -Xlog:cds+dynamic=off"
    environment = os.environ | {"SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={made} {quiet}"}
    command = [sys.executable, "-c", _WORK]
    # Its output is read to the end, as the JVM holds it until the archive is written.
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    elif made.exists():
        made.replace(path)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
