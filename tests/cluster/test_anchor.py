"""Partitions stay where they were loaded. Each executor is a host of its own here.

An executor keeps resident arrays in its own work directory, so that a task which runs elsewhere
finds nothing, as on another machine. The standalone cluster's workers have two addresses too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from vertexsdk.algorithms import PageRank, ShortestPaths
from vertexsdk.anchor import Anchor
from vertexsdk.exchange import DRIVER, Exchange
from vertexsdk.frames import Blocks
from vertexsdk.graph import Graph
from vertexsdk.loops import run
from vertexsdk.testing.clusters import Driver, _daemon, standalone
from vertexsdk.testing.oracles import disagreements, expected

pytestmark = pytest.mark.cluster

PROGRAMS: Any = {
    "sssp": (ShortestPaths, {"origin": 0}),
    "pagerank": (PageRank, {"iterations": 5}),
}
RESIDENT = {"spark.executorEnv.VERTEXSDK_RESIDENT_DIR": "resident"}


@pytest.fixture(scope="module", params=["local-cluster", "standalone"])
def hosts(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Driver]:
    """A driver whose two executors share no memory, with it or each other."""
    here = tmp_path_factory.mktemp("hosts")
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as running:
        patch.setenv("VERTEXSDK_RESIDENT_DIR", str(here / "driver"))
        if request.param == "local-cluster":
            master = "local-cluster[2,2,1024]"
        else:
            master = running.enter_context(standalone(workers=0))
            for number in (2, 3):
                where = ["--host", f"127.0.0.{number}", "--cores", "1", "--memory", "1g"]
                where += ["--webui-port", "0", "--work-dir", str(here / f"worker-{number}")]
                running.enter_context(_daemon(here / "log", "worker.Worker", *where, master))
        yield running.enter_context(Driver(master, **RESIDENT))


def edges() -> list[tuple[int, int, float]]:
    rng = np.random.default_rng(7)
    pairs = [(k, k + 1, 1.0) for k in range(40)]  # so that there are some hops
    pairs += [(int(a), int(b), float(v)) for a, b, v in rng.integers(20, 60, (150, 3))]
    return pairs


def executor(partition: int) -> int:
    """The process id of the executor which this task runs in."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()  # of the Python daemon
    return int(stat.rpartition(")")[2].split()[1])


def resident_files(partition: int) -> int:
    """How many files this executor keeps."""
    return len(list(Path("resident").rglob("*.columns")))


def both_executors(spark: SparkSession) -> None:
    deadline = time.monotonic() + 40
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:
        assert time.monotonic() < deadline, "there are no two executors"
        time.sleep(0.1)


def answers(
    spark: SparkSession, store: str, partitions: int, names: list[str], via: Any, kill: int | None
) -> tuple[dict[str, Any], int, list[int]]:
    """Run programs; return results, how often the graph was loaded again, files left.

    Before the hop number `kill` the executor of partition 0 is killed (0: right after loading).
    """
    import vertexsdk.loops

    both_executors(spark)
    vertexsdk.loops._refuse_other_hosts = lambda *_: None  # these hosts share their files
    source, target, value = zip(*edges(), strict=True)
    graph = Graph.from_arrays(source, target, value, spark=spark, partitions=partitions)
    found, reloads, hops = {}, 0, 0
    unpersist, hop = graph.unpersist, Exchange.hop

    def counted() -> None:
        nonlocal reloads
        reloads += 1
        unpersist()

    def deadly(exchange: Exchange, *command: Any, **how: Any) -> list[bytes]:
        nonlocal hops
        if hops == kill:
            os.kill(victim, signal.SIGKILL)
        hops += 1
        return hop(exchange, *command, **how)

    graph.unpersist = counted  # type: ignore[method-assign]
    Exchange.hop = deadly  # type: ignore[method-assign]
    try:
        places = graph.anchor.run(executor)
        victim = places[0]
        assert len(set(places)) == min(2, partitions)
        for name in names:
            program, params = PROGRAMS[name]
            result = run(program, graph, params=params, backend=f"lmdb://{store}", exchange=via)
            found[name] = {v: result.lookup([v])[v] for v in range(0, 60, 7)}
    finally:
        Exchange.hop = hop  # type: ignore[method-assign]
    held = graph.anchor.run(resident_files)
    assert min(held) > 0
    unpersist()
    with contextlib.closing(Anchor(spark, partitions)) as anchor:
        return found, reloads, anchor.run(resident_files)


def check(found: dict[str, Any]) -> None:
    for name, got in found.items():
        wanted = expected(name, edges(), params=PROGRAMS[name][1])
        wanted = {f: {v: x for v, x in values.items() if v in got} for f, values in wanted.items()}
        assert disagreements(wanted, got, 1e-12) == []


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_nothing_is_lost(hosts: Driver, tmp_path: Path, partitions: int) -> None:
    found, reloads, left = hosts.run(
        answers, str(tmp_path), partitions, list(PROGRAMS), "driver", None
    )
    check(found)
    assert reloads == 0
    assert left == [0] * partitions


@pytest.mark.parametrize(("via", "hop"), [("driver", 0), ("driver", 3), ("shuffle", 3)])
def test_a_lost_host_is_made_good(hosts: Driver, tmp_path: Path, via: str, hop: int) -> None:
    found, reloads, _ = hosts.run(answers, str(tmp_path), 2, ["sssp"], via, hop)
    check(found)
    assert reloads == 1


def place(partition: int, seconds: list[float], blocks: Blocks) -> Iterator[tuple[int, bytes]]:
    time.sleep(seconds[partition])
    yield DRIVER, str(executor(partition)).encode()


def waits(spark: SparkSession) -> tuple[list[int], list[int]]:
    """Where the partitions are, and where the tasks of a hop ran which one host delays."""
    both_executors(spark)
    anchor = Anchor(spark, 4)
    places = anchor.run(executor)
    slow = [5.0 if p == places[0] else 0.0 for p in places]
    with Exchange(spark, 4, task=place, anchor=anchor) as exchange:
        ran = [int(report) for report in exchange.hop(slow)]
    anchor.close()
    return places, ran


def test_a_task_waits_for_its_host(hosts: Driver) -> None:
    if hosts.master.startswith("local"):
        pytest.skip("the executors have cores enough, and one address")
    places, ran = hosts.run(waits)
    assert ran == places
