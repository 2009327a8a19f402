"""Hops as Spark jobs: blocks arrive where they were sent, once, in the next hop."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest
from pyspark.sql import SparkSession

from vertexsdk.errors import InputError, LostError, ProgramError, RunError, VertexError
from vertexsdk.transport import shuffle
from vertexsdk.transport.shuffle import BLOCK, ShuffleExchange, ShuffleWorkers
from vertexsdk.transport.spark import SparkWorkers
from vertexsdk.transport.spark_failures import spark_failure
from vertexsdk.transport.transport import DRIVER, Blocks, LocalBlocks

Sent = Iterator[tuple[int, bytes]]
BIG = 20 << 20


def sends(hop: int, source: int, partitions: int) -> list[tuple[int, bytes]]:
    """What a partition sends in a hop: none, one or two blocks to each, some of them empty."""
    return [
        (q, f"{hop} {source}>{q} {i}".encode() * ((hop + q) % 3))
        for q in range(partitions)
        for i in range((hop + source + 2 * q) % 3)
    ]


def echo(partition: int, command: tuple[int, int], blocks: Blocks) -> Sent:
    """Report what came; send what `sends` says."""
    hop, partitions = command
    yield DRIVER, pickle.dumps(blocks)
    yield from sends(hop, partition, partitions)


def expected(hop: int, partition: int, partitions: int) -> Blocks:
    if hop == 0:
        return []
    return [
        (source, block)
        for source in range(partitions)
        for q, block in sends(hop - 1, source, partitions)
        if q == partition
    ]


def misbehave(partition: int, command: tuple[str, Any], blocks: Blocks) -> Sent:
    """Send "block" to partition 0, report what came, and on partition 1 do as commanded."""
    what, argument = command
    yield DRIVER, b",".join(block for _, block in blocks)
    yield 0, b"block"
    if partition == 1 and what == "raise":
        raise argument
    if partition == 1 and what == "send":
        yield argument, b""
    if partition == 1 and what == "die" and not (argument and Path(argument).exists()):
        if argument:
            Path(argument).touch()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def workers(spark: SparkSession) -> ShuffleWorkers:
    return ShuffleWorkers(spark, 2)


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_each_block_arrives_once_in_the_next_hop(spark: SparkSession, partitions: int) -> None:
    exchange = ShuffleWorkers(spark, partitions).exchange(echo)
    for hop in range(4):
        reports = [pickle.loads(report) for report in exchange.hop((hop, partitions))]
        assert reports == [expected(hop, p, partitions) for p in range(partitions)], hop
    exchange.close()


def test_big_blocks_and_a_big_command(workers: ShuffleWorkers) -> None:
    def swap(partition: int, command: bytes, blocks: Blocks) -> Sent:
        yield DRIVER, repr([(s, len(b), zlib.crc32(b)) for s, b in blocks]).encode()
        yield 1 - partition, bytes([partition + 1]) * len(command)

    exchange = workers.exchange(swap)
    assert exchange.hop(bytes(BIG)) == [b"[]", b"[]"]
    for partition, report in enumerate(exchange.hop(b"")):
        crc = zlib.crc32(bytes([2 - partition]) * BIG)
        assert report == repr([(1 - partition, BIG, crc)]).encode()
    exchange.close()


def test_more_than_a_record_holds_is_refused() -> None:
    class Long(bytes):
        def __len__(self) -> int:
            return shuffle.LARGEST_INPUT // 2 + 1

    records = [(3, (BLOCK, source, Long())) for source in range(2)]
    with pytest.raises(RunError, match=r"partition 3 is sent 2,.* bytes .*; use more partitions"):
        list(shuffle._input(3, records))
    assert list(shuffle._input(3, records[:1])) == [[records[0][1]]]


def test_a_failed_hop_says_why_and_may_be_run_again(workers: ShuffleWorkers) -> None:
    exchange = workers.exchange(misbehave)
    exchange.hop(("work", None))
    with pytest.raises(RunError, match=r"(?m)^ZeroDivisionError: by nothing$") as failure:
        exchange.hop(("raise", ZeroDivisionError("by nothing\nsecond line")))
    assert "in misbehave" in failure.value.__notes__[0]
    with pytest.raises(ProgramError, match=r"(?m)^bad program$"):
        exchange.hop(("raise", ProgramError("bad program")))
    with pytest.raises(RunError, match="partition 5, which does not exist"):
        exchange.hop(("send", 5))
    with pytest.raises(RunError, match="a Python worker died") as failure:
        exchange.hop(("die", None))
    assert "\n" not in str(failure.value)
    assert exchange.hop(("work", None)) == [b"block,block", b""]
    exchange.close()


def test_neither_lineage_nor_memory_grows(spark: SparkSession, workers: ShuffleWorkers) -> None:
    def held() -> int:
        return int(spark.sparkContext._jsc.sc().getPersistentRDDs().size())

    before, sizes = held(), []
    exchange = workers.exchange(echo)
    for hop in range(6):
        exchange.hop((hop, 2))
        assert exchange._routed is not None
        sizes.append(len(exchange._routed.toDebugString() or b""))
        assert held() == before + 1
    assert sizes[-1] <= sizes[1] + 50
    for _ in range(2):
        exchange.close()
        workers.close()
        assert held() == before


def test_partitions_must_be_positive(spark: SparkSession) -> None:
    with pytest.raises(InputError, match="at least 1"):
        SparkWorkers(spark, 0)


def test_blocks_for_the_first_hop(spark: SparkSession) -> None:
    def join(partition: int, command: None, blocks: Blocks) -> Sent:
        yield DRIVER, b",".join(sorted(block for _, block in blocks))

    source = LocalBlocks([(k % 3, bytes([65 + k])) for k in range(7)])
    exchange: ShuffleExchange = ShuffleWorkers(spark, 3).exchange(join, source)
    assert exchange.hop(None) == [b"A,D,G", b"B,E", b"C,F"]
    assert exchange.hop(None) == [b"", b"", b""]
    exchange.close()


def test_blocks_that_an_executor_took_along_are_a_loss() -> None:
    class Java:
        def toString(self) -> str:
            return "SparkException: Checkpoint block rdd_7_0 not found! Either the executor ..."

        def getCause(self) -> None:
            return None

    error = ConnectionError("job aborted")
    error.java_exception = Java()  # type: ignore[attr-defined]
    with (
        pytest.raises(LostError, match=r"^an executor was lost with its messages"),
        spark_failure(),
    ):
        raise error


def test_an_error_which_cannot_be_pickled_is_told_by_its_line(workers: ShuffleWorkers) -> None:
    class Local(VertexError):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(f"{a} and {b}")

    def task(partition: int, command: None, blocks: Blocks) -> Sent:
        yield DRIVER, b""
        raise Local(1, 2)

    with pytest.raises(RunError, match="Local: 1 and 2"):
        workers.exchange(task).hop(None)


def test_modules_of_the_user_travel_with_the_task(
    workers: ShuffleWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("only_in_the_driver")
    exec("def answer(): return b'42'", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    cloudpickle.register_pickle_by_value(module)
    answer = module.answer

    def task(partition: int, command: None, blocks: Blocks) -> Sent:
        yield DRIVER, answer()

    try:
        assert workers.exchange(task).hop(None) == [b"42", b"42"]
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def test_every_hop_has_the_broadcasts_of_its_task(spark: SparkSession) -> None:
    held = spark.sparkContext.broadcast(b"held")

    def task(partition: int, command: bool, blocks: Blocks) -> Sent:
        yield DRIVER, held.value
        if command:
            os._exit(0)  # the next hop is in a worker which has not seen the task

    exchange = ShuffleWorkers(spark, 1).exchange(task)
    assert exchange.hop(False) == [b"held"]
    with pytest.raises(RunError):
        exchange.hop(True)
    assert exchange.hop(False) == [b"held"]
    exchange.close()
    held.destroy()
