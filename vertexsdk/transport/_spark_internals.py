"""The few calls to Spark that its public Python API lacks, and a substitute for each.

Each is tried once; where another Spark does not have it, the substitute is good enough.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext

_ABSENT = (Py4JError, ConnectionError, AttributeError, TypeError)
_WAIT, _BUSY_WAIT = "spark.locality.wait.node", "1h"
_lock = threading.Lock()
_waiting = 0
_usual: str | None = None


def stopped(sc: SparkContext) -> bool:
    """Return whether the session was stopped; without `_jsc`, a job says so."""
    return getattr(sc, "_jsc", sc) is None


def executor_cores(sc: SparkContext) -> list[int]:
    """The cores of each executor that is there; on a local master those of this process.

    PySpark's `StatusTracker` lacks `getExecutorInfos`, which has no cores either. Without it:
    all cores as those of one executor, which Spark knows by its `defaultParallelism`.
    """
    local = (sc.master or "").split("[")[0] == "local"
    try:
        store = sc._jsc.sc().statusStore().executorList(True)
        infos = [store.apply(k) for k in range(store.size())]
        return [int(i.totalCores()) for i in infos if local or str(i.id()) != "driver"]
    except _ABSENT:
        return [int(sc.defaultParallelism)]


def other_hosts(sc: SparkContext) -> list[str]:
    """The hosts of executors, other than this one.

    PySpark's `StatusTracker` lacks `getExecutorInfos`. Without it: none, so a store of this host
    is not refused before its tasks fail to open it.
    """
    try:
        infos = sc._jsc.sc().statusTracker().getExecutorInfos()
        hosts = {str(i.host()) for i in infos}
    except _ABSENT:
        return []
    local_names = {"localhost", "127.0.0.1", os.uname().nodename, *_addresses()}
    return sorted(h for h in hosts if h not in local_names and not h.startswith("127."))


def _addresses() -> set[str]:
    try:
        return {str(a[4][0]) for a in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return set()


@contextlib.contextmanager
def wait_for_hosts(sc: SparkContext) -> Iterator[None]:
    """Have tasks of jobs within wait for the host that has their partition, however busy it is.

    Spark reads this setting when a stage starts; a session's public settings are those at its
    start. Other jobs must not wait so long, so it is reset when none of ours runs. Without it:
    Spark waits for three seconds, and a task that runs elsewhere has the graph loaded again.
    """
    global _waiting, _usual
    try:
        conf: Any = sc._conf
        with _lock:
            if _waiting == 0:
                _usual = conf.get(_WAIT)
                conf.set(_WAIT, _BUSY_WAIT)
            _waiting += 1
    except _ABSENT:
        yield
        return
    try:
        yield
    finally:
        with _lock, contextlib.suppress(*_ABSENT, OSError):  # Spark may have stopped
            _waiting -= 1
            if _waiting == 0 and _usual is not None:
                conf.set(_WAIT, _usual)
            elif _waiting == 0:
                conf._jconf.remove(_WAIT)


def unpersist_checkpoint(sc: SparkContext, rdd: RDD[Any]) -> None:
    """Free an RDD that was checkpointed on the executors.

    Spark's own `unpersist`, which is used without this, warns each time that it is gone then.
    """
    try:
        sc._jsc.sc().unpersistRDD(rdd.id(), False)
    except _ABSENT:
        rdd.unpersist()


def stop_progress_bar(sc: SparkContext) -> None:
    """Take Spark's progress bar off the terminal: it would show the processors while they live.

    Without it: it does.
    """
    with contextlib.suppress(*_ABSENT):
        bar = sc._jsc.sc().progressBar()
        if bar.isDefined():
            bar.get().finishAll()
            bar.get().stop()


def default_filesystem(sc: SparkContext) -> str:
    """The URL of the file system of paths without a scheme; without it: that of this machine."""
    try:
        return str(sc._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///"))
    except _ABSENT:
        return "file:///"


def java_cause(error: Exception) -> Any:
    """The Java exception behind one of PySpark's; without it the error's text is read."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)
