"""Real Spark clusters on this machine, started from the PySpark package, on loopback only.

`standalone` starts a master and workers, `connect_server` a Spark Connect server. `Driver` is a
process of its own with a session on any master: a process can have only one Spark context, and a
test run already has its own.

    with standalone(workers=2) as master, Driver(master) as driver:
        assert driver.run(count_to, 10) == 10     # def count_to(spark, n): ...
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import cloudpickle
import pyspark
from pyspark.sql import SparkSession

from tests.support.ports import free_port
from tests.support.worker_daemon import CONF
from vertexsdk.errors import RunError

__all__ = [
    "LOCAL_CLUSTER", "Driver", "Hosts", "await_executors", "connect_server", "executor",
    "standalone",
]  # fmt: skip

LOCAL_CLUSTER = "local-cluster[2,2,2048]"  # which Spark starts by itself: two executors
START_SECONDS = 60.0
STOP_SECONDS = 5.0
SLOT_SECONDS = 60.0  # for processors to get slots: the machine may be busy
CALL_SECONDS = 240.0  # that a function takes in a driver at most


@contextlib.contextmanager
def standalone(workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """Run a standalone master with `workers` workers; yields its URL.

    Each worker has `cores` cores and `memory` for executors (one executor of Spark's default
    1 GiB fits the default). Raises `RunError` when they are not up within a minute. All
    processes, executors included, are gone when the context ends.
    """
    with (
        tempfile.TemporaryDirectory(prefix="vertexsdk-cluster-", ignore_cleanup_errors=True) as tmp,
        contextlib.ExitStack() as running,
    ):
        port, web_port = free_port(), free_port()
        url = f"spark://127.0.0.1:{port}"
        log = Path(tmp, "log")
        listen = ["--host", "127.0.0.1", "--port"]
        start = running.enter_context
        start(_daemon(log, "master.Master", *listen, str(port), "--webui-port", str(web_port)))
        size = ["--cores", str(cores), "--memory", memory, "--webui-port", "0"]
        for number in range(workers):
            work = ["--work-dir", str(Path(tmp, f"worker-{number}"))]
            start(_daemon(log, "worker.Worker", *listen, "0", *size, *work, url))
        _await_workers(web_port, workers, log)
        yield url


@contextlib.contextmanager
def connect_server() -> Iterator[str]:
    """Run a Spark Connect server on `local[2]`; yields its URL.

    Raises `RunError` when it does not listen within a minute. It is gone when the context ends.
    """
    with tempfile.TemporaryDirectory(
        prefix="vertexsdk-connect-", ignore_cleanup_errors=True
    ) as tmp:
        port, log = free_port(), Path(tmp, "log")
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(Path(tmp, "warehouse")),
        }
        name = "org.apache.spark.sql.connect.service.SparkConnectServer"
        given = [x for key, value in settings.items() for x in ("--conf", f"{key}={value}")]
        submit = ["--master", "local[2]", *given, "--class", name, "spark-internal"]
        with _spark(log, "org.apache.spark.deploy.SparkSubmit", *submit, memory="1g") as process:
            deadline = time.monotonic() + START_SECONDS
            while not _listens(port):
                if time.monotonic() > deadline or process.poll() is not None:
                    said = log.read_text(errors="replace").strip().splitlines()[-40:]
                    raise RunError("Spark Connect did not start: " + "\n".join(said))
                time.sleep(0.1)
            yield f"sc://127.0.0.1:{port}"


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


@contextlib.contextmanager
def _daemon(log: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of Spark's daemons, see `_spark`."""
    with _spark(log, f"org.apache.spark.deploy.{name}", *arguments) as process:
        yield process


@contextlib.contextmanager
def _spark(
    log: Path, name: str, *arguments: str, memory: str = "384m"
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a class of Spark and, after, end it with all that it started."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": memory,
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), name, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # so that its executors can be ended with it
        )
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await_workers(web_port: int, workers: int, log: Path) -> None:
    """Wait until the master's page counts all workers alive."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            address = f"http://127.0.0.1:{web_port}/json/"
            with urllib.request.urlopen(address, timeout=2) as page:
                if json.load(page)["aliveworkers"] == workers:
                    return
        time.sleep(0.1)
    last = log.read_text(errors="replace").strip().splitlines()[-1:]
    raise RunError(f"the cluster did not start in {START_SECONDS:.0f} s: {' '.join(last)}")


def executor(partition: int = 0) -> int:
    """Return the process id of the executor which this task's Python worker belongs to."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()  # of the Python daemon
    return int(stat.rpartition(")")[2].split()[1])


def await_executors(spark: SparkSession, number: int = 2) -> None:
    """Wait until tasks run on `number` executors, after one was killed.

    Spark's own list counts a dead executor until its loss is noticed. Raises `RunError` when
    there are fewer after a minute.
    """

    def place(records: Iterable[int]) -> Iterator[int]:
        list(records)
        time.sleep(0.2)  # so that one executor does not run all
        yield executor()

    deadline = time.monotonic() + START_SECONDS
    slots = 2 * max(number, spark.sparkContext.defaultParallelism)
    tasks = spark.sparkContext.range(slots, numSlices=slots).mapPartitions(place)
    while time.monotonic() < deadline:
        if len(set(tasks.collect())) >= number:
            return
    raise RunError(f"there are no {number} executors after {START_SECONDS:.0f} s")


class Hosts:
    """Workers of a standalone master, each with an address and a directory of its own.

    As far as Spark can see they are different machines.
    """

    def __init__(self, master: str, number: int, directory: Path) -> None:
        self.master = master
        self._directory = directory
        self._running = contextlib.ExitStack()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._names = [f"127.0.0.{k + 2}" for k in range(number)]

    def start(self) -> None:
        """Start the workers which do not run: all at first, later those which were killed."""
        for name in self._names:
            if name in self._processes and self._processes[name].poll() is None:
                continue
            where = ["--host", name, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            where += ["--work-dir", str(self._directory / name)]
            daemon = _daemon(self._directory / "log", "worker.Worker", *where, self.master)
            self._processes[name] = self._running.enter_context(daemon)

    def __enter__(self) -> Hosts:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()


class Driver:
    """A process with a session on `master`, which runs functions until the context ends."""

    def __init__(self, master: str, **conf: str) -> None:
        self.master = master
        self._conf = CONF | conf if master.startswith("local[") else conf
        self._process = self._started()

    @staticmethod
    def _started() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return `function(spark, *arguments)` as computed there, or raise what it raised.

        The function's module is sent along, so a test may pass a function of its own file.
        """
        module = sys.modules[function.__module__]
        cloudpickle.register_pickle_by_value(module)
        try:
            call = cloudpickle.dumps((function, arguments))
        finally:
            cloudpickle.unregister_pickle_by_value(module)
        return self._result(self._process.submit(_call, self.master, self._conf, call))

    def _result(self, call: Future[Any]) -> Any:
        """Wait for a call; one that is stuck ends with its process, and the next has a new one."""
        try:
            return call.result(CALL_SECONDS)
        except TimeoutError:
            if call.done():  # it raised that itself
                raise
            stuck, self._process = self._process, self._started()
            for process in [*stuck._processes]:
                kill_tree(process)
            stuck.shutdown()  # it is dead, so that this takes a moment
            raise RunError(f"a driver was stuck for {CALL_SECONDS:.0f} s, and was killed") from None

    def close(self) -> None:
        """Stop the session and end the process."""
        with contextlib.suppress(Exception):  # the process may have died, as a test may want
            self._result(self._process.submit(_stop))
        self._process.shutdown()

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def kill_tree(process: int) -> None:
    """Kill a process and all that it has started, as long as they are its descendants."""
    found = [process]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    for one in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def _call(master: str, conf: dict[str, str], call: bytes) -> Any:
    from vertexsdk.transport import resident
    from vertexsdk.transport.session import session

    resident.SLOT_SECONDS = SLOT_SECONDS
    function, arguments = cloudpickle.loads(call)
    return function(session(master, app="tests", **conf), *arguments)


def _stop() -> None:
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()
