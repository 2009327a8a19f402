"""The session starts quietly, refuses what cannot work at once, and respects what runs."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from vertexsdk.errors import InputError
from vertexsdk.transport.session import check_master, pass_on, session

pytestmark = pytest.mark.full  # starts sessions


def test_a_running_session_is_used(spark: SparkSession) -> None:
    assert session("local[1]", app="another").sparkContext is spark.sparkContext


def test_settings(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert conf.get("spark.ui.enabled") == "false"
    assert (conf.get("spark.driver.memory") or "").endswith("m")


@pytest.mark.parametrize("master", ["sparky", "local[", "spark:/host:1", "local-cluster[2,2]", ""])
def test_what_is_no_master(master: str) -> None:
    with pytest.raises(InputError, match="is not a Spark master"):
        check_master(master)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,3]", "yarn", "k8s://https://h:1"])
def test_what_is_a_master(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connections: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *to: connections.append(to))
    check_master(master)
    assert connections == []  # only a standalone master is asked whether it is there


def test_an_unreachable_master() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    start = time.monotonic()
    for master in (f"spark://127.0.0.1:{port}", "spark://no-such-host.invalid:7077", "spark://x:y"):
        with pytest.raises(InputError, match="no Spark master answers at spark://"):
            check_master(master)
    assert time.monotonic() - start < 10


def test_noise_is_left_out_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    trace = b"Traceback (most recent call last):\n"
    users = trace + b'  File "program.py", line 1, in gather\nValueError: no\n'
    daemons = trace + b'  File "/x/pyspark.zip/pyspark/daemon.py", line 9, in worker\n'
    noise = b"WARNING: Using incubator modules: x\n" + trace + daemons + b"BrokenPipeError: pipe\n"
    pass_on(io.BytesIO(noise + b"one\n" + users + daemons))
    assert capfd.readouterr().err == "one\n" + users.decode()


def test_spark_submit_settings_come_first(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("""
from vertexsdk import session
conf = session(spark__app__x="y").sparkContext.getConf()
print(*(conf.get(key) for key in ("spark.master", "spark.shuffle.compress", "spark.app.x",
        "spark.python.unix.domain.socket.enabled")))
""")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [submit, "--master", "local[1]", "--conf", "spark.shuffle.compress=true", script],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.split() == ["local[1]", "true", "y", "true"], done.stderr


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_nothing_is_said_but_what_a_task_says() -> None:
    code = """
from vertexsdk import session
spark = session("local[1]", spark__sql__shuffle__partitions="3")
assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
assert spark.range(3).count() == 3
def speak(number):
    print("task says", number)
    return number
print(spark.sparkContext.parallelize([5], 1).map(speak).collect())
try:
    spark.sparkContext.parallelize([5], 1).map(lambda number: 1 / 0).collect()
except Exception as error:
    print(type(error).__name__)
spark.stop()
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "[5]"
    assert done.stderr.splitlines() == ["task says 5"]


OWN = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
print("the session is there", file=sys.stderr, flush=True)
from vertexsdk import Graph, MainLoop, run
graph = Graph.from_arrays([1, 2], [2, 3], spark=spark)
with run("wcc", graph) as result:
    print(result.dataframe().count())
with run("pagerank", Graph.from_arrays([1, 2], [2, 3], spark=spark, partitions=2)) as result:
    print(len(result.to_dict()))
print(spark.sparkContext.parallelize([1], 1).map(lambda _: sys.executable).first())
spark.stop()
"""


def test_a_session_of_the_user_stays_quiet(tmp_path: Path) -> None:
    """Its log is on, and the Python on the path is another one, without vertexsdk.

    One partition is held by a processor while Spark stops; for two there are not enough slots.
    """
    (tmp_path / "python3").symlink_to("/bin/false")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environment.pop("PYSPARK_PYTHON", None)
    done = subprocess.run(
        [sys.executable, "-c", OWN], env=environment, cwd=tmp_path,
        capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["3", "3", sys.executable]
    said = done.stderr.partition("the session is there\n")[2].splitlines()
    assert [line for line in said if "partitions need 3 free slots" not in line] == []
    assert len(said) == 1


def test_no_java() -> None:
    code = """
from vertexsdk.errors import InputError
from vertexsdk import session
try:
    session("local[1]")
except InputError as error:
    print(error)
"""
    done = run_python(code, JAVA_HOME="/no/java/here")
    assert "install Java 17 or newer" in done.stdout, done.stderr
