"""Blocks arrive where they were sent, once, in the next hop, whichever way they travel."""

from __future__ import annotations

import os
import pickle
import signal
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import SparkSession

from vertexsdk.errors import InputError, ProgramError, RunError, VertexError
from vertexsdk.transport.exchange import JobExchange
from vertexsdk.transport.locality import Anchor
from vertexsdk.transport.transport import DRIVER, Blocks
from vertexsdk.transport.wire import Reports

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


def check_hops(exchange: JobExchange, ways: Iterable[Any]) -> None:
    partitions = exchange.partitions
    for hop, via in enumerate(ways):
        reports = exchange.hop((hop, partitions), via=via)
        assert [pickle.loads(report) for report in reports] == [
            expected(hop, partition, partitions) for partition in range(partitions)
        ], (hop, via)


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


def swap_big(partition: int, command: int, blocks: Blocks) -> Sent:
    """Report size and checksum of what came; send `command` bytes to the other partition."""
    yield DRIVER, repr([(s, len(b), zlib.crc32(b)) for s, b in blocks]).encode()
    yield 1 - partition, bytes([partition + 1]) * command


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_each_block_arrives_once_in_the_next_hop(spark: SparkSession, partitions: int) -> None:
    with JobExchange(Anchor(spark, partitions), echo) as exchange:
        ways = ["driver", "driver", "shuffle", "shuffle", "driver", "shuffle", "shuffle"]
        check_hops(exchange, ways)


@pytest.mark.parametrize("via", ["driver", "shuffle"])
def test_big_blocks(spark: SparkSession, via: Any) -> None:
    with JobExchange(Anchor(spark, 2), swap_big) as exchange:
        assert exchange.hop(BIG, via=via) == [b"[]", b"[]"]
        reports = exchange.hop(0, via=via)
    for partition, report in enumerate(reports):
        crc = zlib.crc32(bytes([2 - partition]) * BIG)
        assert report == repr([(1 - partition, BIG, crc)]).encode()


def test_a_task_that_is_a_closure_and_a_big_command(spark: SparkSession) -> None:
    offset = 7

    def task(partition: int, command: bytes, blocks: Blocks) -> Sent:
        yield DRIVER, str(len(command) + offset).encode()

    with JobExchange(Anchor(spark, 2), task) as exchange:
        assert exchange.hop(bytes(3 << 20)) == [str((3 << 20) + 7).encode()] * 2
        assert exchange.hop(bytes(3 << 20), via="shuffle") == [str((3 << 20) + 7).encode()] * 2


@pytest.mark.parametrize("via", ["driver", "shuffle"])
def test_a_failed_hop_says_why_and_may_be_run_again(spark: SparkSession, via: Any) -> None:
    with JobExchange(Anchor(spark, 2), misbehave) as exchange:
        exchange.hop(("work", None), via=via)
        with pytest.raises(RunError, match=r"(?m)^ZeroDivisionError: by nothing$") as failure:
            exchange.hop(("raise", ZeroDivisionError("by nothing\nsecond line")), via=via)
        assert "in misbehave" in failure.value.__notes__[0]
        with pytest.raises(ProgramError, match=r"(?m)^bad program$"):
            exchange.hop(("raise", ProgramError("bad program")), via=via)
        with pytest.raises(RunError, match="partition 5, which does not exist"):
            exchange.hop(("send", 5), via=via)
        assert exchange.hop(("work", None), via=via) == [b"block,block", b""]


@pytest.mark.parametrize("via", ["driver", "shuffle"])
def test_a_killed_worker_is_an_error_of_one_line(spark: SparkSession, via: Any) -> None:
    with JobExchange(Anchor(spark, 2), misbehave) as exchange:
        exchange.hop(("work", None), via=via)
        with pytest.raises(RunError, match="a Python worker died") as failure:
            exchange.hop(("die", None), via=via)
        assert "\n" not in str(failure.value)
        assert exchange.hop(("work", None), via=via) == [b"block,block", b""]


def test_lineage_does_not_grow(spark: SparkSession) -> None:
    sizes = []
    with JobExchange(Anchor(spark, 2), echo) as exchange:
        for hop in range(8):
            exchange.hop((hop, 2), via="shuffle")
            assert not isinstance(exchange._blocks, list)
            sizes.append(len(exchange._blocks.bundles.toDebugString()))
    assert sizes[-1] <= sizes[1] + 50


def test_a_report_counts_once() -> None:
    reports = Reports()
    once = reports.addInPlace(reports.zero({}), {(3, 0): (DRIVER, b"a")})
    assert reports.addInPlace(once, {(3, 0): (DRIVER, b"a")}) == {(3, 0): (DRIVER, b"a")}


def test_partitions_must_be_positive(spark: SparkSession) -> None:
    with pytest.raises(InputError, match="at least 1"):
        JobExchange(Anchor(spark, 0), echo)


def test_close_twice(spark: SparkSession) -> None:
    context = spark.sparkContext._jsc.sc()
    before = context.getPersistentRDDs().size(), len(_accumulatorRegistry)
    anchor = Anchor(spark, 1)
    exchange = JobExchange(anchor, echo)
    exchange.hop((0, 1), via="shuffle")
    assert (context.getPersistentRDDs().size(), len(_accumulatorRegistry)) > before
    for _ in range(2):
        exchange.close()
        anchor.close()
        assert exchange._blocks is None  # the blocks of the last hop
        assert (context.getPersistentRDDs().size(), len(_accumulatorRegistry)) == before


def test_route(spark: SparkSession) -> None:
    blocks = spark.sparkContext.parallelize(range(20), 3).map(lambda i: (i % 4, bytes([i]) * i))
    routed = Anchor(spark, 4).route(blocks).mapPartitionsWithIndex(lambda p, it: [(p, sorted(it))])
    assert routed.collect() == [
        (p, [bytes([i]) * i for i in range(20) if i % 4 == p]) for p in range(4)
    ]


def test_an_error_which_cannot_be_pickled_is_told_by_its_line(spark: SparkSession) -> None:
    class Local(VertexError):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(f"{a} and {b}")

    def task(partition: int, command: None, blocks: Blocks) -> Sent:
        yield DRIVER, b""
        raise Local(1, 2)

    with (
        JobExchange(Anchor(spark, 1), task) as exchange,
        pytest.raises(RunError, match="Local: 1 and 2"),
    ):
        exchange.hop(None)


def test_every_hop_has_the_broadcasts_of_its_task(spark: SparkSession) -> None:
    held = spark.sparkContext.broadcast(b"held")

    def task(partition: int, command: bool, blocks: Blocks) -> Sent:
        yield DRIVER, held.value
        if command:
            os._exit(0)  # the next hop is in a worker which has not seen the task

    with JobExchange(Anchor(spark, 1), task) as exchange:
        assert exchange.hop(False) == [b"held"]
        with pytest.raises(RunError):
            exchange.hop(True)
        assert exchange.hop(False) == [b"held"]
    held.destroy()
