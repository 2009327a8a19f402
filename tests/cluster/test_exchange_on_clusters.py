"""Hops as jobs where partitions are on different executors, and when executors die."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.clusters import Driver, await_executors, executor
from vertexsdk.errors import RunError
from vertexsdk.transport.shuffle import ShuffleWorkers
from vertexsdk.transport.transport import DRIVER, Blocks

pytestmark = pytest.mark.cluster


def count(
    partition: int, command: tuple[int, str, bool], blocks: Blocks
) -> Iterator[tuple[int, bytes]]:
    """Send one more than the sum of what came to every partition, and who sends it.

    Report it too. If there is a file to mark it by, partition 1 once kills its executor, and
    perhaps those first which hold the messages that came.
    """
    partitions, mark, senders_too = command
    came = [(source, *pickle.loads(block)) for source, block in blocks]
    number, here = 1 + sum(number for _, number, _ in came), executor()
    if partition == 1 and mark and not Path(mark).exists():
        Path(mark).touch()
        for sender in {sender for *_, sender in came if senders_too} - {here}:
            os.kill(sender, signal.SIGKILL)
        os.kill(here, signal.SIGKILL)
    yield DRIVER, pickle.dumps((number, [source for source, *_ in came], here))
    for destination in range(partitions):
        yield destination, pickle.dumps((number, here))


def hops(spark: SparkSession, partitions: int) -> list[list[tuple[int, list[int], int]]]:
    with closing(ShuffleWorkers(spark, partitions).exchange(count)) as exchange:
        return [
            [pickle.loads(report) for report in exchange.hop((partitions, "", False))]
            for _ in range(4)
        ]


def killed(spark: SparkSession, at: int, mark: str, senders_too: bool) -> list[list[int]]:
    await_executors(spark)
    with closing(ShuffleWorkers(spark, 2).exchange(count)) as exchange:
        return [
            [
                pickle.loads(report)[0]
                for report in exchange.hop((2, mark if hop == at else "", senders_too))
            ]
            for hop in range(4)
        ]


def check(found: list[list[tuple[int, list[int], int]]], partitions: int) -> None:
    number = 1
    for hop, reports in enumerate(found):
        sources = list(range(partitions)) if hop else []
        assert [report[:2] for report in reports] == [(number, sources)] * partitions
        number = 1 + partitions * number


@pytest.mark.parametrize(
    ("driver", "partitions"), [("local_cluster", 2), ("standalone_cluster", 7)], indirect=["driver"]
)
def test_hops(driver: Driver, partitions: int) -> None:
    driver.run(await_executors)  # a test before this one may have killed one
    found = driver.run(hops, partitions)
    check(found, partitions)
    places = {tuple(executor for *_, executor in reports) for reports in found}
    assert len(set(next(iter(places)))) == 2, "partitions are not spread over the executors"
    if partitions == 2:
        assert len(places) == 1, "a partition moved to another executor"


def interrupt(spark: SparkSession) -> tuple[float, list[list[tuple[int, list[int], int]]]]:
    """Ctrl-C in a hop that takes long: the seconds to get out, and what hops do afterwards."""

    def slow(partition: int, command: float, blocks: Blocks) -> Iterator[tuple[int, bytes]]:
        time.sleep(command)
        yield DRIVER, b""

    with closing(ShuffleWorkers(spark, 1).exchange(slow)) as exchange:
        exchange.hop(0.0)
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            exchange.hop(30.0)
        return time.monotonic() - start, hops(spark, 2)


def test_one_core_and_interrupt() -> None:
    with Driver("local[1]") as driver:
        check(driver.run(hops, 1), 1)
        check(driver.run(hops, 2), 2)
        seconds, after = driver.run(interrupt)
        assert seconds < 10
        check(after, 2)


def test_a_killed_executor_never_gives_a_wrong_answer(
    local_cluster: Driver, tmp_path: Path
) -> None:
    def run(at: int, senders_too: bool) -> Any:
        mark = tmp_path / f"hop-{at}"
        try:
            return local_cluster.run(killed, at, str(mark), senders_too)
        finally:
            assert mark.exists(), "nothing was killed"

    assert run(0, False) == [[1, 1], [3, 3], [7, 7], [15, 15]]  # there are no messages yet
    with pytest.raises(RunError, match=r"^an executor was lost"):
        run(2, True)  # they go with the executors which sent them
