"""Processors that live: equal answers, and what happens when one is lost, stopped or not needed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.clusters import Driver
from vertexsdk import Graph, MainLoop, Program, run
from vertexsdk.algorithms import ConnectedComponents, PageRank, ShortestPaths

pytestmark = pytest.mark.cluster

SLOTS = 6
SEED = random.SystemRandom().randrange(1 << 32)


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver(f"local[{SLOTS},4]") as started:
        yield started


def edges(seed: int) -> tuple[list[int], list[int]]:
    rng = random.Random(seed)
    pairs = sorted({(rng.randrange(60), rng.randrange(60)) for _ in range(200)} | {(0, 1)})
    return [a for a, _ in pairs], [b for _, b in pairs]


def rows(result: Any) -> dict[str, float]:
    try:
        return {f"{v}.{k}": float(x) for v, row in result.rows() for k, x in row.items()}
    finally:
        result.close()


def taken(spark: SparkSession) -> int:
    from vertexsdk.transport import resident

    return resident._taken[spark.sparkContext.applicationId]


def same_answers(spark: SparkSession, seed: int, partitions: int, text: bool) -> list[Any]:
    """Answers of resident processors, of Spark jobs and of this process, by program."""
    ids = [[f"v{x}" if text else x for x in column] for column in edges(seed)]
    origin = {"origin": ids[0][0]}
    programs: list[tuple[Any, dict[str, Any]]] = [
        (PageRank, {"iterations": 5}), (ShortestPaths, origin),
    ]  # fmt: skip
    if not text:
        programs.append((ConnectedComponents, {}))
    found: list[Any] = []
    for program, params in programs:
        for compiled in (True, False):
            given: Any = {"params": params, "backend": "memory://", "compiled": compiled}
            graph = Graph.from_arrays(*ids, spark=spark, partitions=partitions)
            stays = run(program, graph, **given)
            jobs = run(program, graph, exchange="driver", **given)
            assert graph.workers.resident
            assert taken(spark) == partitions
            local = run(program, Graph.from_arrays(*ids, partitions=partitions), **given)
            found.append([rows(r) for r in (stays, jobs, local)])
            graph.unpersist()
            assert taken(spark) == 0
    return found


@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize("text", [False, True])
def test_answers_of_other_transports(driver: Driver, partitions: int, text: bool) -> None:
    print("seed", SEED)
    for stays, jobs, local in driver.run(same_answers, SEED, partitions, text):
        assert stays == local  # bit for bit
        assert stays == pytest.approx(jobs)


def stream(spark: SparkSession, store: str, partitions: int, hurt: str) -> tuple[list[Any], float]:
    """Answers of a main loop whose last processor is killed or stopped on the way."""
    graph = Graph.from_arrays(*edges(7), spark=spark, partitions=partitions)
    found = []
    slowest = 0.0
    with MainLoop(ShortestPaths, graph, params={"origin": 0}, backend=store) as loop:
        rows(loop.query())
        engine: Any = loop._history.engine
        workers = (engine.graph if hasattr(engine, "graph") else graph).workers
        for k in range(3):
            if k == 1 and hurt:
                victim = workers.run(lambda partition: os.getpid())[-1]
                os.kill(victim, getattr(signal, hurt))
            began = time.monotonic()
            loop.ingest([("+", 0, 100 + k, 1.0), ("-", 0, 99 + k)])
            found.append(rows(loop.query()))
            slowest = max(slowest, time.monotonic() - began)
            if k == 1 and hurt == "SIGSTOP":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGCONT)
    graph.unpersist()
    assert taken(spark) == 0
    return found, slowest


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("hurt", ["SIGKILL", "SIGSTOP"])
def test_a_lost_processor_is_restored(
    driver: Driver, partitions: int, hurt: str, tmp_path: Path
) -> None:
    expected, _ = driver.run(stream, f"lmdb://{tmp_path}/whole", partitions, "")
    found, slowest = driver.run(stream, f"lmdb://{tmp_path}/hurt", partitions, hurt)
    assert found == expected
    assert slowest < 120.0


def too_few_slots(spark: SparkSession) -> tuple[bool, bool, dict[str, Any]]:
    graphs = [Graph.from_arrays(*edges(1), spark=spark, partitions=p) for p in (SLOTS - 1, 1)]
    results = [run(PageRank, g, params={"iterations": 3}, backend="memory://") for g in graphs]
    resident = [g.workers.resident for g in graphs]
    answers = [rows(r) for r in results]
    assert answers[0] == pytest.approx(answers[1])
    for graph in graphs:
        graph.unpersist()
    return resident[0], resident[1], answers[0]


def test_without_free_slots_every_hop_is_a_job(driver: Driver) -> None:
    assert driver.run(too_few_slots)[:2] == (True, False)


def left_alone(spark: SparkSession) -> tuple[list[int], list[bool]]:
    graph = Graph.from_arrays(*edges(1), spark=spark, partitions=2)
    run(PageRank, graph, params={"iterations": 2}, backend="memory://").close()
    processes = graph.workers.run(lambda partition: os.getpid())
    del graph
    end = time.monotonic() + 20
    while taken(spark) and time.monotonic() < end:
        time.sleep(0.1)
    return processes, [bool(taken(spark))]


def test_a_graph_that_is_no_longer_used_frees_its_slots(driver: Driver) -> None:
    assert driver.run(left_alone)[1] == [False]


def failing(spark: SparkSession) -> list[str]:
    from vertexsdk import RunError, Sum, Vertex, state

    class Fails(Vertex):
        total: float = state(0.0)
        messages = Sum(float)

        def init(self) -> None:
            self.total = 1.0

        def gather(self, iteration, source, delta):  # type: ignore[no-untyped-def]
            raise ValueError("vertex 7 is wrong")

        def scatter(self, iteration):  # type: ignore[no-untyped-def]
            for target in self.targets:
                self.emit(target, 1.0)

    graph = Graph.from_arrays(*edges(1), spark=spark, partitions=2)
    said = []
    for _ in range(2):
        try:
            run(Program(Fails), graph, backend="memory://", compiled=False)
        except RunError as error:
            said.append(str(error))
    said.append(str(run(PageRank, graph, backend="memory://").statistics["reason"]))
    graph.unpersist()
    return said


def test_a_method_that_fails_leaves_the_processors_alive(driver: Driver) -> None:
    first, second, reason = driver.run(failing)
    assert "vertex 7 is wrong" in first
    assert first == second
    assert reason == "converged"
