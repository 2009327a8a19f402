"""Spark's daemon of Python workers, with what a worker of vertexsdk imports imported already.

Each worker is a fork of the daemon. Without this it imports a second's worth of modules, and the
tests' session starts hundreds of workers: a task that fails, and processors that end, end theirs.
`CONF` goes to the tests' session, and to the drivers of `tests.support.clusters` on local masters;
clusters, the command line and other programs that tests start have Spark's own daemon, as users.
"""

from __future__ import annotations

import importlib
import pkgutil

__all__ = ["CONF"]

CONF = {"spark.python.daemon.module": "tests.support.worker_daemon"}
ROOMS = ("arrays", "backends", "compile", "engine", "graph", "program", "state", "transport")


def load() -> None:
    """Import every module of the rooms that work in tasks; none of them starts a thread."""
    for room in ROOMS:
        package = importlib.import_module(f"vertexsdk.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


if __name__ == "__main__":
    from pyspark.daemon import manager

    load()
    manager()
