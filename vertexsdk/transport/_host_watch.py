"""Tasks of a job wait for their hosts, and the loss of a host ends the job.

A task can only run on the host that has its partition in memory. Spark's delay scheduling keeps it
there: it waits however long the host is busy. It would wait for a lost host as well, so a thread
watches the hosts: when one of them has had no executor for a few seconds, it cancels the job, and
the run loads the graph again on the remaining hosts.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark import SparkContext

from vertexsdk.errors import LostError, RunError
from vertexsdk.transport.jvm import Jvm, spark_failure

BUSY_WAIT = "1h"
GONE_SECONDS = 5.0  # time for a cluster to start another executor on the host
LOOK_SECONDS = 0.5

_WAIT = "spark.locality.wait.node"
_lock = threading.Lock()
_running = 0
_usual: str | None = None


@contextlib.contextmanager
def watched(jvm: Jvm, hosts: frozenset[str]) -> Iterator[None]:
    """Run the jobs that this thread starts within the block, while the hosts live.

    Args:
        hosts: the hosts to wait for and to watch.

    Raises:
        RunError: a job failed, or one of the hosts was lost; the message has one line.
    """
    if not hosts:
        with spark_failure():
            yield
        return
    tag = f"vertexsdk-{uuid.uuid4().hex}"
    gone: list[str] = []
    done = threading.Event()
    watcher = threading.Thread(target=_look, args=(jvm, hosts, tag, gone, done), daemon=True)
    try:
        with spark_failure(), wait_for_hosts(jvm.sc):
            jvm.sc.addJobTag(tag)
            watcher.start()
            try:
                yield
            finally:
                done.set()
                jvm.sc.removeJobTag(tag)
    except RunError as error:
        if not gone:
            raise
        raise LostError(f"an executor was lost: {', '.join(gone)} has none any more") from error


def _look(
    jvm: Jvm, hosts: frozenset[str], tag: str, gone: list[str], done: threading.Event
) -> None:
    """Cancel the jobs with the tag when a host has had no executor for `GONE_SECONDS`."""
    since: dict[str, float] = {}
    with contextlib.suppress(Py4JError, OSError):  # Spark has stopped, so the job fails
        while not done.wait(LOOK_SECONDS):
            now, alive = time.monotonic(), jvm.hosts()
            since = {host: since.get(host, now) for host in hosts - alive}
            lost = sorted(host for host, when in since.items() if now - when >= GONE_SECONDS)
            if lost and not done.is_set():
                gone[:] = lost
                jvm.sc.cancelJobsWithTag(tag)


@contextlib.contextmanager
def wait_for_hosts(sc: SparkContext) -> Iterator[None]:
    """Make tasks wait for the host that has their partition.

    Spark reads this setting when a stage starts. Other jobs of the session must not wait so long,
    so the user's value is restored when none of our jobs runs.
    """
    global _running, _usual
    conf = sc._conf
    with _lock:
        if _running == 0:
            _usual = conf.get(_WAIT)
            conf.set(_WAIT, BUSY_WAIT)
        _running += 1
    try:
        yield
    finally:
        with _lock, contextlib.suppress(Py4JError, OSError):  # Spark may have stopped
            _running -= 1
            if _running == 0 and _usual is not None:
                conf.set(_WAIT, _usual)
            elif _running == 0:
                conf._jconf.remove(_WAIT)  # type: ignore[union-attr]
