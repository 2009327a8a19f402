"""`spark-submit --py-files WHEEL`: the executors' Python has the dependencies, not the package."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.cluster, pytest.mark.timeout(280)]

ROOT = Path(__file__).parents[2]
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


def submit(python: Path, wheel: Path, script: Path, *arguments: str, cwd: Path) -> str:
    """Run a script on two executors of one core each, which import from nothing but the wheel."""
    home = Path(pyspark.__file__).parent
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [
        str(home / "bin" / "spark-submit"),
        *("--master", "local-cluster[2,1,1024]"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=1g"),
        *("--py-files", str(wheel)),
        str(script),
        *arguments,
    ]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if "Error" in line] or [done.stderr]
    assert done.returncode == 0, "\n".join(said)
    return done.stdout


def test_wheel_on_executors(bare_python: Path, wheel: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    printed = submit(bare_python, wheel, job, cwd=tmp_path)
    places = [line.split()[1] for line in printed.splitlines() if line.startswith("IMPORTED")]
    assert len(places) == 6
    assert all(wheel.stem in place for place in places)


def test_command_line(bare_python: Path, wheel: Path, tmp_path: Path) -> None:
    edges, state = tmp_path / "edges.txt", tmp_path / "state"
    edges.write_text("1 2\n2 3\n3 1\n4 5\n")
    arguments = ["--edges", str(edges), "--backend", f"lmdb://{state}", "--output", "out.csv"]
    script = ROOT / "examples" / "submit.py"
    submit(bare_python, wheel, script, "run", "wcc", *arguments, "--partitions", "2", cwd=tmp_path)
    rows = (tmp_path / "out.csv").read_text().split()
    assert sorted(rows[1:]) == ["1,1", "2,1", "3,1", "4,4", "5,4"]
