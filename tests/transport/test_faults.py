"""What is left, and what is said, when a driver or its processors end; see docs/processors.md."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.clusters import Driver
from tests.support.waiting import until
from vertexsdk import Graph, MainLoop, run
from vertexsdk.algorithms import PageRank, ShortestPaths
from vertexsdk.arrays import shared_memory
from vertexsdk.transport.spark import SparkWorkers

pytestmark = pytest.mark.cluster

EDGES = [0, 0, 1, 2, 3], [1, 2, 3, 3, 4]
PATIENCE = 60.0  # the machine may be busy


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver("local[4]") as started:
        yield started


def lengths(result: Any) -> dict[int, float]:
    found: dict[int, float] = result.to_dict()
    result.close()
    return found


def processors(loop: MainLoop) -> list[int]:
    engine: Any = loop._history.engine
    found: list[int] = engine.graph.workers.run(lambda partition: os.getpid())
    return found


def killed_often(spark: SparkSession | None, times: int, store: str) -> tuple[list[Any], bool]:
    """Answers of a main loop that loses a processor before each; whether the dead are gone."""
    graph = Graph.from_arrays(*EDGES, spark=spark, partitions=2)
    answers, dead = [], []
    with MainLoop(ShortestPaths, graph, params={"origin": 0}, backend=store) as loop:
        for k in range(times):
            if spark is not None:
                dead.append(processors(loop)[k % 2])
                os.kill(dead[-1], signal.SIGKILL)
            loop.ingest([("+", 4, 100 + k), ("-", 4, 99 + k)])
            answers.append(lengths(loop.query()))
    return answers, until(lambda: not any(Path(f"/proc/{process}").exists() for process in dead))


def test_lost_processors_do_not_use_up_spark_s_failures(driver: Driver, tmp_path: Path) -> None:
    """Spark ends a stage for good after `spark.task.maxFailures`, here 1: each loss has its own."""
    found, gone = driver.run(killed_often, 2, f"lmdb://{tmp_path}/killed")
    assert found == killed_often(None, 2, f"lmdb://{tmp_path}/whole")[0]
    assert gone


def read_meanwhile(spark: SparkSession, store: str) -> tuple[list[Any], int]:
    """What other threads see while a lost processor is replaced, which goes on when they have.

    Returns:
        States with what was looked up, and a vertex's answer after all.
    """
    graph = Graph.from_arrays(*EDGES, spark=spark, partitions=2)
    with MainLoop(ShortestPaths, graph, params={"origin": 0}, backend=store) as loop:
        lengths(loop.query())
        loop.ingest([("+", 0, 4, 2.0)])
        history, looked = loop._history, threading.Event()
        restore = history.config.restore

        def when_looked(*version: Any) -> Any:
            looked.wait(PATIENCE)
            return restore(*version)

        history.config = replace(history.config, restore=when_looked)
        os.kill(processors(loop)[0], signal.SIGKILL)
        ingest = threading.Thread(target=loop.ingest, args=([("+", 4, 100)],))
        ingest.start()
        seen: list[Any] = []
        while ingest.is_alive():
            state, row = loop.progress()["state"], loop.lookup([4])[4]
            with loop.read() as answer:
                read = answer.lookup([4])[4]
            seen.append((state, row["length"], row["behind"], read["length"]))
            if sum("restore" in state for state, *_ in seen) > 3:
                looked.set()
            time.sleep(0.01)
        return seen, lengths(loop.query())[100]


def test_the_last_version_is_served_while_a_processor_is_replaced(
    driver: Driver, tmp_path: Path
) -> None:
    seen, after = driver.run(read_meanwhile, f"lmdb://{tmp_path}/state")
    restored = [row for state, *row in seen if "restore" in state]
    assert len(restored) > 3
    assert all(row == [3.0, 1, 3.0] for row in restored)  # one change is not reflected yet
    assert after == 3.0


def stopped(spark: SparkSession, store: str, seconds: float) -> tuple[bool, bool, bool]:
    """Whether a processor that was stopped is the same after; is fenced; is left."""
    graph = Graph.from_arrays(*EDGES, spark=spark, partitions=2)
    with MainLoop(ShortestPaths, graph, params={"origin": 0}, backend=store) as loop:
        lengths(loop.query())
        before = processors(loop)
        os.kill(before[0], signal.SIGSTOP)
        go_on = threading.Timer(seconds, os.kill, (before[0], signal.SIGCONT))
        go_on.start()
        loop.ingest([("+", 4, 100)])
        right = lengths(loop.query())[100] == 4.0
        after = processors(loop)
        go_on.cancel()
        same = before == after
        gone = same or until(lambda: not Path(f"/proc/{before[0]}").exists())
    return right, same, gone


def test_a_processor_that_is_stopped_for_a_moment_goes_on(driver: Driver, tmp_path: Path) -> None:
    assert driver.run(stopped, f"lmdb://{tmp_path}/state", 2.0) == (True, True, True)


def test_a_processor_that_is_stopped_for_long_is_replaced(driver: Driver, tmp_path: Path) -> None:
    assert driver.run(stopped, f"lmdb://{tmp_path}/state", PATIENCE) == (True, False, True)


def lines_of(work: Any) -> tuple[Any, str]:
    lines = StringIO()
    handler = logging.StreamHandler(lines)
    logging.getLogger("vertexsdk").addHandler(handler)
    try:
        return work(), lines.getvalue()
    finally:
        logging.getLogger("vertexsdk").removeHandler(handler)


def without_slots(spark: SparkSession, hindered: str) -> tuple[bool, str, bool]:
    """Whether processors hold a graph, what is said, and whether they do when made again."""
    from vertexsdk.transport import resident

    graph = Graph.from_arrays(*EDGES, spark=spark, partitions=3 if hindered != "few" else 4)
    usual, ended = resident.SLOT_SECONDS, threading.Event()

    def wait(records: Iterator[int]) -> Iterator[int]:
        time.sleep(4.0)
        yield from records

    def occupy() -> None:
        spark.sparkContext.range(3, numSlices=3).mapPartitions(wait).count()
        ended.set()

    if hindered == "taken":
        resident.SLOT_SECONDS = 1.0
        threading.Thread(target=occupy).start()
        assert until(lambda: spark.sparkContext.statusTracker().getActiveStageIds())
        time.sleep(0.5)
    try:
        stays, lines = lines_of(lambda: graph.workers.resident)
        run(PageRank, graph, params={"iterations": 2}, backend="memory://").close()
    finally:
        resident.SLOT_SECONDS = usual
    if hindered == "taken":
        assert ended.wait(PATIENCE)
    graph.unpersist()
    again = hindered != "few" and graph.workers.resident
    graph.unpersist()
    return stays, lines, again


def test_too_few_slots_are_said(driver: Driver) -> None:
    stays, lines, _ = driver.run(without_slots, "few")
    assert not stays
    assert lines.count("\n") == 1
    assert "4 partitions need 5 free slots, and there are 4; give Spark more cores" in lines


def test_slots_that_other_tasks_have_are_not_waited_for(driver: Driver) -> None:
    stays, lines, again = driver.run(without_slots, "taken")
    assert not stays
    assert lines.count("\n") == 1
    assert "not all of 3 processors got a slot in 1 s" in lines
    assert again


DRIVER = """
import os, signal, sys, time
from vertexsdk import Graph, MainLoop, run, session
from vertexsdk.algorithms import PageRank, ShortestPaths

spark = session("local[4]", **{conf!r})
graph = Graph.from_arrays([0, 1], [1, 2], spark=spark, partitions=2)
loop = MainLoop(ShortestPaths, graph, params={{"origin": 0}}, backend="lmdb://{store}")
loop.ingest([("+", 2, 7)])
workers = loop._history.engine.graph.workers
print(loop.query().to_dict()[7], workers.resident, flush=True)
pids = workers.run(lambda partition: os.getpid()) if workers.resident else []
print(graph.transport.application, *pids, flush=True)
time.sleep(600)
"""


def start(store: Path, **conf: str) -> subprocess.Popen[str]:
    code = DRIVER.format(conf=conf, store=store)
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True)


def test_nothing_is_left_of_a_driver_that_was_killed(tmp_path: Path) -> None:
    killed = start(tmp_path / "state")
    assert killed.stdout is not None
    assert killed.stdout.readline() == "3.0 True\n"
    application, *left = killed.stdout.readline().split()
    places = [root / f"vertexsdk-{application}" for root in shared_memory._roots()]
    assert all(place.exists() for place in places)
    killed.kill()
    _, said = killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL
    assert said == ""
    assert until(lambda: not any(place.exists() for place in places))
    assert until(lambda: not any(Path(f"/proc/{process}").exists() for process in left))
    with MainLoop.resume(None, ShortestPaths, backend=f"lmdb://{tmp_path}/state") as loop:
        assert lengths(loop.query())[7] == 3.0


@pytest.mark.parametrize(("kill", "seconds"), [("true", "30"), ("true", "0"), ("false", "30")])
def test_spark_s_idle_timeout_leaves_no_processors(kill: str, seconds: str) -> None:
    conf = {
        "spark.python.worker.killOnIdleTimeout": kill,
        "spark.python.worker.idleTimeoutSeconds": seconds,
    }
    workers: Any = SimpleNamespace(sc=SimpleNamespace(getConf=lambda: conf), partitions=2)
    reason = SparkWorkers._why_none(workers, 3, "an application")
    if (kill, seconds) == ("true", "30"):
        assert reason is not None
        assert "killOnIdleTimeout would end them after 30 s; set it to false" in reason
    else:
        assert reason is None
