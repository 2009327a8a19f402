"""`spark-submit --py-files WHEEL`: the executors' Python has the dependencies, not the package."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from tests.support.clusters import standalone
from tests.support.servers import RedisServer
from vertexsdk.state import open_store

pytestmark = [pytest.mark.packaging, pytest.mark.cluster, pytest.mark.timeout(280)]

ROOT = Path(__file__).parents[2]
PASSWORD = "s3cret/p@ss"
JOB = """
import runpy
import sys

from vertexsdk import session


def places(partition):
    import vertexsdk, vertexsdk.algorithms, vertexsdk.backends

    yield [m.__file__ for m in (vertexsdk, vertexsdk.backends, vertexsdk.algorithms)]


spark = session(app="submitted")
found = spark.sparkContext.parallelize(range(2), 2).mapPartitions(places).collect()
for place in (place for task in found for place in task):
    print("IMPORTED", place)
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


PROGRAM = '''
from beside import LONGEST
from vertexsdk import Max, Vertex, inf, param, state


class Height(Vertex):
    """The largest sum of edge values on a way that ends here; one edge more an iteration."""

    least: float = param()
    height: float = state(0.0)
    messages = Max(float)

    def gather(self, iteration, source, delta):
        self.height = min(max(self.least, delta.value), LONGEST)

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.height + target.value)
'''


def submit(python: Path, wheel: Path, master: str, script: Path, *arguments: str, cwd: Path) -> str:
    """Run a script on two executors of one core each, which import from nothing but the wheel.

    Returns what it printed, without a password on either stream.
    """
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
        *("--master", master),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=1g"),
        *("--py-files", str(wheel)),
        str(script),
        *arguments,
    ]
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600
    )
    said = [line for line in done.stderr.splitlines() if "Error" in line] or [done.stderr]
    assert done.returncode == 0, "\n".join(said)
    assert "s3cret" not in done.stdout + done.stderr  # quoted or not
    return done.stdout


def heights(edges: list[tuple[int, int, float]], steps: int) -> dict[str, str]:
    """By the definition: one step after the other."""
    height = dict.fromkeys([v for s, t, _ in edges for v in (s, t)], 0.0)
    for _ in range(steps):
        before = height
        height = dict.fromkeys(before, 0.5)
        for source, target, value in edges:
            height[target] = max(height[target], before[source] + value)
    return {str(v): str(x) for v, x in height.items()}


def test_a_stranger_s_program(bare_python: Path, wheel: Path, tmp_path: Path) -> None:
    """A class in a file of its own, which imports another beside it; its versions go to Redis.

    One submission, as it starts five JVMs: first tasks say where they import the package from.
    """
    pairs = {(k * 7 % 31, k * k % 37) for k in range(150)}
    edges = [(s, t, float((3 * s + t) % 11)) for s, t in sorted(pairs)]
    (tmp_path / "edges.txt").write_text("".join(f"{s} {t} {x}\n" for s, t, x in edges))
    (tmp_path / "mine.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("LONGEST = 1e9\n")
    run = ["run", f"{tmp_path}/mine.py:Height", "--edges", f"{tmp_path}/edges.txt"]
    run += ["--param", "least=0.5", "--max-iterations", "4", "--compiled", "require"]
    run += ["--partitions", "2", "--output", "out.csv"]
    script = ROOT / "examples" / "submit.py"
    job = tmp_path / "job.py"
    job.write_text(JOB)
    with RedisServer(password=PASSWORD) as server, standalone(workers=2) as master:
        run += ["--backend", server.url()]
        printed = submit(bare_python, wheel, master, job, str(script), *run, cwd=tmp_path)
        with open_store(server.url()) as store:
            (loop,) = store.loops()
            version = store.version(loop)
            assert {ref.key.partition for ref in store.segments(version)} == {0, 1}
            assert "s3cret" not in json.dumps(version.statistics)
            assert store.verify() == []
    places = [line.split()[1] for line in printed.splitlines() if line.startswith("IMPORTED")]
    assert len(places) == 6
    assert all(wheel.stem in place for place in places)
    rows = (tmp_path / "out.csv").read_text().split()
    assert dict(row.split(",") for row in rows[1:]) == heights(edges, 4)
