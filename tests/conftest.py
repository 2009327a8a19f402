"""What every test may ask for: one Spark session for the whole run, nothing else that is heavy."""

from __future__ import annotations

import gc
import os
import random
import re
import shutil
import signal
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.failures import Failures
from tests.support.process_guard import ProcessGuard
from tests.support.seeds import BASE, seed
from tests.support.watchdog import PLACE, FilesOnce, Watchdog

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
DRAWN = "spark_or_none"  # the fixture that has no session in the gate

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

# Tests with one of these markers, fixtures or parameters are not part of the gate.
BEYOND_THE_GATE = {"cluster", "processes", "packaging", "slow", "full"}
STARTED = {"spark", "redis", "postgres"}
MORE = 4  # times as many drawn sets of parameters are run from a fresh seed as by the gate
KILLS = "test_killed_at_random_instants"  # of the suite that is shipped, without markers of ours


def in_gate(item: pytest.Item) -> bool:
    """Return whether `./dev test` runs a test: it is quick, and starts no process of its own."""
    marks = {mark.name for mark in item.iter_markers()}
    if "smoke" in marks or HERE / "benchmarks" in item.path.parents:
        return "smoke" in marks
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    needs = [*getattr(item, "fixturenames", ()), *filter(lambda x: isinstance(x, str), parameters)]
    first_words = {re.split("[-_]", name, maxsplit=1)[0] for name in needs if name != DRAWN}
    kills = item.name.startswith(KILLS)
    return not kills and not marks & BEYOND_THE_GATE and not first_words & STARTED


def sampled(items: list[pytest.Item], base: int, times: int) -> set[pytest.Item]:
    """Leave out parameters of tests marked `sample`, of which so many are run, drawn.

    Args:
        base: decides which ones.
        times: how many times as many as the mark says.
    """
    by_test: dict[tuple[Path, str], list[pytest.Item]] = {}
    chosen = set()
    for item in items:
        if item.get_closest_marker("sample"):
            name = item.nodeid.partition("[")[0]
            by_test.setdefault((item.path, name), []).append(item)
        else:
            chosen.add(item)
    for (_, name), group in by_test.items():
        mark = group[0].get_closest_marker("sample")
        assert mark is not None
        count = min(times * mark.args[0], len(group))
        chosen.update(random.Random(f"{base or ''}{name}").sample(group, count))
    return chosen


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not run with `--gate` or a fresh seed; put files that take long first."""
    for item in items:
        waits = any(item.get_closest_marker(name) for name in ("cluster", "processes"))
        if waits and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))
    gate, base = config.getoption("gate"), config.getoption("seed")
    if gate or base:
        wanted = [item for item in items if in_gate(item)] if gate else items
        chosen = sampled(wanted, base, 1 if gate else MORE)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
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
        "--seed", type=int, default=0,
        help="from which `tests.support.seeds.seed` makes what each test draws; default 0",
    )  # fmt: skip
    parser.addoption(
        "--gate", action="store_true",
        help="leave out tests that are slow, or start Spark, servers or other processes",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Have this process and those that tests start draw from `--seed`."""
    from hypothesis import settings

    # A shell has its jobs in the background ignore it, and so what these start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    base = config.getoption("seed")
    os.environ[BASE] = str(base)
    settings.register_profile("fixed", derandomize=base == 0, deadline=None, print_blob=True)
    settings.load_profile("fixed")
    if not hasattr(config, "workerinput"):
        shutil.rmtree(PLACE, ignore_errors=True)  # of an earlier run
    config.pluginmanager.register(Watchdog(config))
    config.pluginmanager.register(Failures(config))
    if config.getoption("gate"):
        config.pluginmanager.register(ProcessGuard())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesOnce | None:
    """Have what a worker has finished stay so when the worker ends."""
    return FilesOnce(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_report_header(config: pytest.Config) -> str:
    """Print the seed of the run."""
    return f"seed: {config.getoption('seed')} (repeat with --seed)"


@pytest.fixture(autouse=True)
def _simulated(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--simulate`, run the test under the simulator; its seed is that and the test's name."""
    chosen = request.config.getoption("simulate")
    if chosen is None or "spark" in request.fixturenames:
        yield
        return
    from tests.support.simulator import Simulator

    number = zlib.crc32(f"{chosen} {request.node.nodeid}".encode())
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

    With `--master` all have the session, with `--simulate` and `--gate` none.
    """
    if request.config.getoption("gate"):
        return None
    drawn = random.Random(seed()).random() < 1 / 3
    drawn |= request.config.getoption("master") != LOCAL
    if not drawn or request.config.getoption("simulate") is not None:
        return None
    session: SparkSession = request.getfixturevalue("spark")
    return session


@pytest.fixture(autouse=True, scope="module")
def _nothing_left_for_the_next_module() -> Iterator[None]:
    """What a module abandoned is closed before the next one begins, and warns in its own tests.

    So are processors of loops that tests which failed still refer to, which would have the slots
    of the session; and its stores in memory: another module may use their names.
    """
    from vertexsdk.backends import memory

    yield
    gc.collect()
    if (resident := sys.modules.get("vertexsdk.transport.resident")) is not None:
        for launch in [*resident._launches]:
            launch.close()
    for key in [*memory._owned]:
        shutil.rmtree(memory._owned.pop(key), ignore_errors=True)


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
