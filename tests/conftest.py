"""What every test may ask for: one Spark session for the whole run, nothing else that is heavy."""

from __future__ import annotations

import gc
import os
import random
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent

# Workers, drivers and other processes that tests start import `tests.support` too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
)

# The hundreds of processes that tests start need not compile the package each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Every JVM that a test starts lives for seconds or minutes: what its second compiler and its
# parallel collector do to make it fast later is never won back, and takes the cores from others.
# They write no archive of their own (-Xshare:auto is the default).
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
# Written by `support/class_archive.py`; a JVM that the archive does not fit ignores it.
ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
if ARCHIVE.exists():
    SHORT_LIVED += f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"
os.environ["JAVA_TOOL_OPTIONS"] = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {SHORT_LIVED}".strip()

LOCAL = "local[6]"  # the master of the tests' session

# Files that take long come first, so that in the end no worker is left alone with one of them.
FIRST = (
    "engine/test_engine_parity.py",
    "docs/test_readme.py",
    "docs/test_demo.py",
    "transport/test_session.py",
    "benchmarks/test_evolving.py",
    "docs/test_docs.py",
    "transport/test_class_archive.py",
    "loops/test_edge_attributes.py",
    "loops/test_vertex_attributes.py",
    "examples/test_engine_examples.py",
    "algorithms/test_engine_algorithms.py",
    "benchmarks/test_batch.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of those files first, in that order."""
    order = {HERE / name: k for k, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(item.path, len(FIRST)))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the simulator and of the session."""
    parser.addoption(
        "--simulate", type=int, metavar="SEED",
        help="run tests without Spark under the simulator, see tests/support/simulator.py",
    )  # fmt: skip
    parser.addoption(
        "--master", default=LOCAL,
        help="of the tests' session: standalone (started with two workers), local-cluster "
        "(of two executors), or the URL of any Spark master; default local[6]",
    )  # fmt: skip
    parser.addoption(
        "--seed", type=int, default=random.randrange(1 << 32),
        help="of what tests draw by `spark_or_none`: they print it",
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _simulated(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--simulate`, run the test under the simulator; its seed is that and the test's name."""
    seed = request.config.getoption("simulate")
    if seed is None or "spark" in request.fixturenames:
        yield
        return
    from tests.support.simulator import Simulator

    number = zlib.crc32(f"{seed} {request.node.nodeid}".encode())
    print(f"simulator {number}")
    with Simulator(number).installed():
        yield


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session on `--master`, as the SDK itself starts one. Tests must not stop it."""
    from tests.support.clusters import LOCAL_CLUSTER, standalone
    from tests.support.worker_daemon import CONF
    from vertexsdk.transport.session import session

    with ExitStack() as running:
        master = request.config.getoption("master")
        if master == "standalone":
            master = running.enter_context(standalone(workers=2, cores=3, memory="2g"))
        elif master == "local-cluster":
            master = LOCAL_CLUSTER
        few = {"spark.sql.shuffle.partitions": "2"}  # of Spark's own 200, most would be empty
        started = session(master, app="tests", **CONF, **few)
        running.callback(started.stop)
        yield started


@pytest.fixture
def spark_or_none(request: pytest.FixtureRequest) -> SparkSession | None:
    """For what must be the same in both: drawn, in a third of the tests a session, else None.

    With `--master` all have the session, with `--simulate` none.
    """
    seed = request.config.getoption("seed")
    print(f"--seed {seed}")
    drawn = random.Random(f"{seed} {request.node.nodeid}").random() < 1 / 3
    drawn |= request.config.getoption("master") != LOCAL
    if not drawn or request.config.getoption("simulate") is not None:
        return None
    session: SparkSession = request.getfixturevalue("spark")
    return session


_ABANDON = {  # tests whose loops end as if their processes had been killed, with files open
    "test_concurrent_clients", "test_interrupted_calls", "test_nth_failure",
    "test_simulated_loops", "test_simulated_stores", "test_snapshots", "test_store_mutants",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_files_of_abandoned_loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close them, as Spark's callbacks need descriptors below 1,024."""
    yield
    if request.node.path.stem in _ABANDON:
        gc.collect()
