"""`spark-submit --py-files WHEEL`: the executors' Python has the dependencies, not the package."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.cluster, pytest.mark.timeout(180)]

JOB = """
import sys

from vertexsdk.session import session


def places(partition):
    import vertexsdk, vertexsdk.algorithms, vertexsdk.backends

    yield [m.__file__ for m in (vertexsdk, vertexsdk.backends, vertexsdk.algorithms)]


spark = session(app="submitted")
try:
    found = spark.sparkContext.parallelize(range(2), 2).mapPartitions(places).collect()
    for place in (place for task in found for place in task):
        print("IMPORTED", place)
finally:
    spark.stop()
"""


def test_wheel_on_executors(bare_python: Path, wheel: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    home = Path(pyspark.__file__).parent
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": str(bare_python),
        "PYSPARK_DRIVER_PYTHON": str(bare_python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [
        str(home / "bin" / "spark-submit"),
        *("--master", "local-cluster[2,1,1024]"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=1g"),
        *("--py-files", str(wheel)),
        str(job),
    ]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    places = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("IMPORTED")]
    assert len(places) == 6
    assert all(wheel.stem in place for place in places)
