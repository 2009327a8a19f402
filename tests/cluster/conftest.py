"""Drivers on real clusters of two executors, each in a process of its own, started once.

On the one, which Spark starts by itself, the executors share a host and its memory. On the other
each executor is a host of its own: it has another address, and it keeps resident arrays in its
own work directory, so that a task which runs elsewhere finds nothing, as on another machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.clusters import Driver, Hosts, connect_server, standalone


@pytest.fixture(scope="session")
def local_cluster() -> Iterator[Driver]:
    """A driver with two executors of two cores on this host."""
    with Driver("local-cluster[2,2,1024]") as driver:
        yield driver


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Two workers of one core on a standalone master."""
    place = tmp_path_factory.mktemp("hosts")
    with standalone(workers=0) as master, Hosts(master, 2, place) as workers:
        yield workers


def keep_apart(spark: SparkSession, directory: str) -> None:
    os.environ["VERTEXSDK_RESIDENT_DIR"] = directory


@pytest.fixture(scope="session")
def standalone_cluster(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver on two hosts, which share no memory with it or each other."""
    resident = {"spark.executorEnv.VERTEXSDK_RESIDENT_DIR": "resident"}
    with Driver(hosts.master, **resident) as driver:
        driver.run(keep_apart, str(tmp_path_factory.mktemp("driver")))
        yield driver


@pytest.fixture(scope="session")
def remote() -> Iterator[Driver]:
    """A client of a Spark Connect server."""
    with connect_server() as url, Driver(url) as driver:
        yield driver


@pytest.fixture(params=["local_cluster", "standalone_cluster"])
def driver(request: pytest.FixtureRequest) -> Driver:
    """Each of the two in turn."""
    found: Driver = request.getfixturevalue(request.param)
    return found
