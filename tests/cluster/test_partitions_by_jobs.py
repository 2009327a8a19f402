"""Partitions stay where they were loaded, and what is lost with an executor is loaded again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.support.clusters import Driver, Hosts, await_executors, executor
from vertexsdk.algorithms import PageRank, ShortestPaths
from vertexsdk.engine.loop_task import LoopTask
from vertexsdk.graph.graph import Graph
from vertexsdk.loops.run import run
from vertexsdk.testing.oracles import disagreements, expected
from vertexsdk.transport.shuffle import ShuffleExchange, ShuffleWorkers
from vertexsdk.transport.transport import DRIVER, Blocks

pytestmark = pytest.mark.cluster

PROGRAMS: Any = {
    "sssp": (ShortestPaths, {"origin": 0}),
    "pagerank": (PageRank, {"iterations": 5}),
}


def edges() -> list[tuple[int, int, float]]:
    rng = np.random.default_rng(7)
    pairs = [(k, k + 1, 1.0) for k in range(8)]  # so that there are some hops
    pairs += [(8, k, 1.0) for k in range(9, 24)]
    pairs += [(int(a), int(b), float(v)) for a, b, v in rng.integers(20, 60, (150, 3))]
    return pairs


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def resident_files(application: str, partition: int) -> int:
    """How many files of this application are kept where this task runs."""
    from vertexsdk.arrays import shared_memory as resident

    kept = [list(root.glob(f"vertexsdk-{application}/**/*.columns")) for root in resident._roots()]
    return sum(map(len, kept))


def answers(
    spark: SparkSession,
    store: str,
    partitions: int,
    names: list[str],
    kill: int | None,
    with_host: bool = False,
) -> tuple[dict[str, Any], int, list[int]]:
    """Run programs; return results, how often the graph was loaded again, files left.

    Before the hop number `kill` the executor of partition 0 is killed (0: right after loading),
    or the whole of its host: the worker, which would start another one.
    """
    await_executors(spark)
    source, target, value = zip(*edges(), strict=True)
    whole = Graph.from_arrays(source, target, value, spark=spark, partitions=partitions)
    graph = whole.held_by_jobs()
    found, reloads, hops = {}, 0, 0
    unpersist, hop = graph.unpersist, ShuffleExchange.hop

    def counted() -> None:
        nonlocal reloads
        reloads += 1
        unpersist()

    def deadly(exchange: ShuffleExchange, command: Any) -> list[bytes]:
        nonlocal hops
        if not isinstance(exchange._task, LoopTask):
            return hop(exchange, command)
        if hops == kill:
            for process in [parent(victim)] * with_host + [victim]:
                os.kill(process, signal.SIGKILL)
        hops += 1
        return hop(exchange, command)

    graph.unpersist = counted  # type: ignore[method-assign]
    ShuffleExchange.hop = deadly  # type: ignore[method-assign]
    try:
        places = graph.workers.run(executor)
        victim = places[0]
        assert len(set(places)) == min(2, partitions)
        for name in names:
            program, params = PROGRAMS[name]
            options: Any = {"backend": f"lmdb://{store}", "exchange": "shuffle"}
            result = run(program, whole, params=params, **options)
            found[name] = {v: result.lookup([v])[v] for v in range(0, 60, 7)}
    finally:
        ShuffleExchange.hop = hop  # type: ignore[method-assign]
    from vertexsdk.arrays import shared_memory as resident

    files = partial(resident_files, resident.application(spark.sparkContext.applicationId))
    assert graph._workers is not None
    assert min(graph._workers.run(files)) > 0
    unpersist()
    with contextlib.closing(ShuffleWorkers(spark, partitions)) as workers:
        return found, reloads, workers.run(files)


def check(found: dict[str, Any]) -> None:
    for name, got in found.items():
        wanted = expected(name, edges(), params=PROGRAMS[name][1])
        wanted = {f: {v: x for v, x in values.items() if v in got} for f, values in wanted.items()}
        assert disagreements(wanted, got, 1e-12) == []


@pytest.mark.parametrize(
    ("driver", "partitions"),
    [("local_cluster", 2), ("standalone_cluster", 1), ("standalone_cluster", 7)],
    indirect=["driver"],
)
def test_nothing_is_lost(driver: Driver, tmp_path: Path, partitions: int) -> None:
    found, reloads, left = driver.run(answers, str(tmp_path), partitions, list(PROGRAMS), None)
    check(found)
    assert reloads == 0
    assert left == [0] * partitions


@pytest.mark.parametrize("hop", [0, 3])
def test_a_lost_executor_is_made_good(standalone_cluster: Driver, tmp_path: Path, hop: int) -> None:
    found, reloads, _ = standalone_cluster.run(answers, str(tmp_path), 2, ["sssp"], hop)
    check(found)
    assert reloads == 1


def test_a_lost_host_is_made_good(standalone_cluster: Driver, hosts: Hosts, tmp_path: Path) -> None:
    try:
        found, reloads, _ = standalone_cluster.run(answers, str(tmp_path), 2, ["sssp"], 3, True)
    finally:
        hosts.start()
    check(found)
    assert reloads == 1


def place(partition: int, seconds: list[float], blocks: Blocks) -> Iterator[tuple[int, bytes]]:
    time.sleep(seconds[partition])
    yield DRIVER, str(executor(partition)).encode()


def waits(spark: SparkSession) -> tuple[list[int], list[int], list[str | None]]:
    """Where partitions are; where tasks ran of a hop which one host delays; Spark's setting."""
    await_executors(spark)
    setting = "spark.locality.wait.node"
    before = spark.sparkContext._conf.get(setting)
    workers = ShuffleWorkers(spark, 4)
    places = workers.run(executor)
    slow = [5.0 if p == places[0] else 0.0 for p in places]
    with contextlib.closing(workers.exchange(place)) as exchange:
        ran = [int(report) for report in exchange.hop(slow)]
    workers.close()
    return places, ran, [before, spark.sparkContext._conf.get(setting)]


def test_a_task_waits_for_its_host(standalone_cluster: Driver) -> None:
    places, ran, settings = standalone_cluster.run(waits)
    assert len(set(places)) == 2
    assert ran == places
    assert settings == [None, None], "jobs of others wait as long"
