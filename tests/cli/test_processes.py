"""The command line as a process: the script, the module, spark-submit; terminals and limits."""

from __future__ import annotations

import os
import pty
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

import vertexsdk
from tests.cli.conftest import Call

MODULE = [sys.executable, "-m", "vertexsdk"]
FAST = ("--master", "local[1]")

pytestmark = pytest.mark.processes


def call(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, timeout=240, **options
    )


def test_the_script(edges: str, state: str) -> None:
    script = Path(sys.executable).parent / "vertexsdk"
    if not script.exists():
        pytest.skip("the package is not installed, only on the path")
    done = call(script, "run", "bfs", "--edges", edges, "--param", "origin=1", "--output", "o.csv")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert len(done.stderr.splitlines()) == 3  # nothing of Spark's
    assert Path("o.csv").read_text().split()[1:3] == ["1,0", "2,1"] or (
        Path("o.csv").read_text().split()[1:3] == ["1,0.0", "2,1.0"]
    )
    assert call(script, "query", "bfs", "--vertex", "3").stdout.startswith("3 ")


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("spark://127.0.0.1:9", "no Spark master answers at spark://127.0.0.1:9; start it, or"),
        ("spark.example", "master 'spark.example' is not a Spark master; give local[N]"),
    ],
)
def test_no_master(edges: str, state: str, master: str, said: str) -> None:
    began = time.monotonic()
    done = call(*MODULE, "run", "wcc", "--edges", edges, "--master", master)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"vertexsdk: {said}")
    assert time.monotonic() - began < 45  # Spark itself would try for a minute
    assert not Path("state").exists()


def test_a_live_line_on_a_terminal(edges: str, state: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*MODULE, "run", "pagerank", "--edges", edges, *FAST], stderr=theirs, stdout=theirs
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait() == 0
    text = shown.decode()
    assert "starting Spark" in text
    assert re.search(r"pagerank-run +\d+\.\d s · (loading|compiling|iteration)", text)
    # What stays on the screen: what follows the last clearing of each line.
    stays = [line.rpartition("\x1b[K")[2].strip() for line in text.split("\n")]
    stays = [line for line in stays if line]
    assert len(stays) == 2, stays
    assert stays[0].startswith("pagerank-run: 5 vertices, 4 edges; ")


def limited(size: int):
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def test_a_full_disk(vertexsdk: Call, state: str) -> None:
    # No file may grow beyond a size: to a program that is a disk which is full.
    pairs = [(k, t % 20000) for k in range(20000) for t in (k * k + 1, 7 * k + 3)]
    Path("e.txt").write_text("".join(f"{s} {t}\n" for s, t in pairs))  # all ranks go on changing
    run = ["run", "pagerank", "--edges", "e.txt", "--commit-every", "1", "--max-iterations"]
    assert vertexsdk(*run, "2").status == 0
    before = vertexsdk("query", "pagerank").out
    assert len(before.splitlines()) == 20000
    assert vertexsdk(*run, "1", "--loop", "more").status == 0

    done = call(*MODULE, *run, "20", "--loop", "more", *FAST, preexec_fn=limited(2_500_000))
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.splitlines()
    assert re.match("vertexsdk: .*no room left for the store .*free some space", line)
    assert vertexsdk("query", "pagerank").out == before
    assert len(vertexsdk("query", "more").out.splitlines()) == 20000  # its last version

    done = call(*MODULE, "query", "more", "--output", "o.csv", preexec_fn=limited(10_000))
    assert done.returncode == 1
    assert re.fullmatch(r"vertexsdk: o\.csv: .*free some room and write again\n", done.stderr)
    assert not Path("o.csv").exists()


PROGRAM = '''
from vertexsdk import Sum, Vertex, state


class Hog(Vertex):
    """Needs more memory than there is, in iteration 2."""

    x: float = state(0.0)
    note: str = state("")
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.x = delta.value
        if iteration == 2:
            self.note = str(len(bytearray(3 << 30)))

    def scatter(self, iteration):
        self.emitAll(1.0 + self.x)
'''


def test_spark_submit_with_too_little_memory(edges: str, state: str) -> None:
    Path("hog.py").write_text(PROGRAM)
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = call(
        *(home / "bin" / "spark-submit", "--master", "local[1]", "--conf"),
        *("spark.executor.pyspark.memory=2g", Path(vertexsdk.__file__).parent / "__main__.py"),
        "run",
        *("hog.py:Hog", "--edges", edges, "--commit-every", "1"),
        env=environment,
    )
    assert done.returncode == 1, done.stderr
    # spark-submit joins the two streams of a Python program
    lines = (done.stdout + done.stderr).splitlines()
    said = [line for line in lines if line.startswith("vertexsdk: ")]
    assert re.search(
        r"hog\.py:\d+: Hog\.gather: MemoryError \(vertex \d+, iteration 2\)$", said[-1]
    ), done.stderr
    query = call(*MODULE, "query", "hog", "--field", "x")
    assert query.stdout.splitlines()[0] == "1 x=1.0"


def test_a_closed_pipe(vertexsdk: Call, edges: str, state: str) -> None:
    Path("e.txt").write_text("".join(f"{k} {k + 1}\n" for k in range(30000)))
    assert vertexsdk("run", "degree", "--edges", "e.txt").status == 0
    query = subprocess.Popen(
        [*MODULE, "query", "degree"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert query.stdout is not None
    assert query.stderr is not None
    assert query.stdout.readline().startswith(b"0 ")
    query.stdout.close()
    assert query.stderr.read() == b""
    query.stderr.close()
    assert query.wait() == 0
