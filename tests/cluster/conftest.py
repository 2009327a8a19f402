"""Drivers on real clusters of two executors, each in a process of its own, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vertexsdk.testing.clusters import Driver, standalone


@pytest.fixture(scope="session")
def local_cluster() -> Iterator[Driver]:
    """A driver with two executors of two cores, which Spark starts and ends by itself."""
    with Driver("local-cluster[2,2,2048]") as driver:
        yield driver


@pytest.fixture(scope="session")
def standalone_cluster() -> Iterator[Driver]:
    """A driver on a standalone master with two workers, one executor each."""
    with standalone(workers=2) as master, Driver(master) as driver:
        yield driver


@pytest.fixture(params=["local_cluster", "standalone_cluster"])
def driver(request: pytest.FixtureRequest) -> Driver:
    """Each of the two in turn."""
    found: Driver = request.getfixturevalue(request.param)
    return found
