"""A password in a backend URL is in nothing that Spark keeps or shows of an application."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.support.servers import RedisServer
from vertexsdk.transport.session import SETTINGS, without_secrets

PASSWORD = "s3cret/p@ss"
JOB = """
import sys
from urllib.request import urlopen

from vertexsdk import Graph, MainLoop, VertexError, run, session
from vertexsdk.loops.data_source import ResultSource

url = sys.argv[-1]
spark = session()
for partitions, exchange in (1, "auto"), (2, "shuffle"):
    graph = Graph.from_arrays([1, 2], [2, 3], spark=spark, partitions=partitions)
    with run("wcc", graph, backend=url, loop=f"r{partitions}", exchange=exchange) as result:
        print(result.dataframe().collect())
with MainLoop("wcc", graph, backend=url, loop="m") as main:
    main.ingest([("+", 3, 4)])
    main.query().close()
spark.dataSource.register(ResultSource)
frame = spark.read.format("vertexsdk").option("loop", "r1").load(url)
frame.explain("extended")
frame.createOrReplaceTempView("answer")
print(spark.sql("SELECT count(*) FROM answer").collect())
try:
    run("wcc", graph, backend=url.replace("@", "wrong@"), loop="x")
except VertexError as error:
    print(error)
try:  # in tasks
    spark.read.format("vertexsdk").schema("id long").option("loop", "no").load(url).collect()
except Exception as error:
    print(error)
page = spark.sparkContext.uiWebUrl
for name in "environment/", "jobs/", "SQL/execution/?id=0", "stages/stage/?id=1&attempt=0":
    try:
        print(urlopen(f"{page}/{name}", timeout=60).read().decode())
    except OSError as error:
        print(name, error)
spark.stop()
print("the end")
"""


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_what_spark_keeps(tmp_path: Path) -> None:
    """The URL is on the command line, which Spark's environment page would show.

    Spark hides properties whose values have words such as "password", so no path here has one.
    """
    job, events = tmp_path / "job.py", tmp_path / "events"
    job.write_text(JOB)
    events.mkdir()
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }
    command = [str(home / "bin" / "spark-submit"), "--master", "local[4]"]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    with RedisServer(password=PASSWORD) as server:
        done = subprocess.run(
            [*command, str(job), "--backend", server.url()], env=environment,
            capture_output=True, text=True, timeout=280,
        )  # fmt: skip
    assert "the end" in done.stdout, done.stdout + done.stderr
    logged = "".join(f.read_text() for f in events.rglob("*") if f.is_file())
    assert "SparkListenerEnvironmentUpdate" in logged
    assert "redis://:***@" in logged  # the command
    for kept in (logged, done.stdout, done.stderr):
        assert re.findall(".{,200}s3cret.{,40}", kept) == []


def test_passwords_of_a_command_are_hidden() -> None:
    words = "Submit --conf spark.eventLog.dir=hdfs://h:1/d x.py run --edges s3a://b/e"
    url = "redis://:s3cret%2Fp%40ss@127.0.0.1:6379/0"
    hidden = "redis://:***@127.0.0.1:6379/0"
    assert without_secrets(f"{words} --backend {url}") == f"{words} --backend {hidden}"
    assert without_secrets(f"{words} --backend={url} --x") == f"{words} --backend={hidden} --x"
    assert without_secrets("") == ""


def test_passwords_of_a_plan_are_hidden() -> None:
    """What Spark leaves out of plans; places without a password stay."""
    pattern = SETTINGS["spark.redaction.string.regex"]
    for url, hidden in [
        ("redis://:s3cret%2Fp%40ss@127.0.0.1:6379/0", "redis://***@127.0.0.1:6379/0"),
        ("postgresql://me:s3cret@h/db?schema=g", "postgresql://***@h/db?schema=g"),
        ("postgresql://h/db?password=s3cret&schema=g", "postgresql://h/db?password=***&schema=g"),
        ("hdfs://host:9000/graph", "hdfs://host:9000/graph"),
        ("lmdb:///tmp/state", "lmdb:///tmp/state"),
    ]:
        assert re.sub(pattern, "***", f"[path={url}, loop=r1]") == f"[path={hidden}, loop=r1]"
