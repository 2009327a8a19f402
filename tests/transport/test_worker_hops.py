"""Hops of workers between which messages are late, repeated or lost with their connection."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from tests.support.seeds import seed
from tests.support.simulated_network import Faults
from tests.support.simulator import SimulatedTransport, Simulator
from vertexsdk.errors import InputError, LostError, RunError
from vertexsdk.transport.inprocess import InProcessExchange
from vertexsdk.transport.transport import DRIVER, PEERS, POSTS, Blocks
from vertexsdk.transport.worker_hops import Aborted, Number, WorkerHops, _Channel

FAULTS = Faults(late=0.1, repeated=0.3, disconnected=0.1, slow=0.1)


def talk(partition: int, command: Any, blocks: Blocks) -> Iterator[tuple[int, bytes]]:
    """Send random blocks in random supersteps; report all that came."""
    number, partitions, supersteps, failing = command
    rng = random.Random(f"{number} {partition}")
    yield DRIVER, repr(blocks).encode()
    for superstep in range(supersteps):
        early = yield from chatter(rng, partition, partitions, f"{number} {superstep}")
        for _ in range(rng.randint(0, 3)):
            yield rng.randrange(partitions), f"{number} {superstep} {rng.random()}".encode()
        if (partition, superstep) == failing:
            raise InputError(f"hop {number}")
        came, told = yield PEERS, f"{partition} {superstep}".encode()
        yield DRIVER, repr((sorted(early + came, key=lambda block: block[0]), told)).encode()
    yield rng.randrange(partitions), f"{number} end".encode()


def chatter(rng: random.Random, partition: int, partitions: int, name: str) -> Any:
    """Post within a superstep, until the last posts of all others have come or it is over."""
    came: Blocks = []
    others = [p for p in range(partitions) if p != partition]
    for k in range(4):
        for q in others:
            if rng.random() < 0.5:
                yield q, f"{name} {k}".encode()
        blocks, _ = yield POSTS, False
        came += blocks
    for q in others:
        yield q, b"last"
    over = False
    while not over and sum(block == b"last" for _, block in came) < len(others):
        blocks, over = yield POSTS, True
        assert blocks or over
        came += blocks
    for q in others:
        yield q, b"late"
    blocks, _ = yield POSTS, False
    return came + blocks


def commands(rng: random.Random, partitions: int) -> list[Any]:
    """Commands; some of them fail, and are given again."""
    found = []
    for number in range(8):
        supersteps = rng.randint(0, 5)
        if supersteps and rng.random() < 0.4:
            failing = rng.randrange(partitions), rng.randrange(supersteps)
            found.append((number, partitions, supersteps, failing))
        found.append((number, partitions, supersteps, None))
    return found


def reports(exchange: Any, given: list[Any]) -> list[Any]:
    """What the tasks report of each command, or why it failed."""
    found: list[Any] = []
    for command in given:
        try:
            found.append(exchange.hop(command))
        except InputError as error:
            found.append(str(error))
    return found


def talk_once(number: int) -> dict[str, int]:
    """Talk under the simulator and without it; return what faults there were."""
    rng = random.Random(number)
    partitions = rng.randint(1, 5)
    given = commands(rng, partitions)
    simulator = Simulator(number, FAULTS)
    exchange = SimulatedTransport(simulator).workers(partitions).exchange(talk)
    assert reports(exchange, given) == reports(InProcessExchange(partitions, talk), given), number
    return simulator.faulted


def test_every_block_comes_once_in_its_superstep() -> None:
    first = seed()
    faulted = [talk_once(first + k) for k in range(60)]
    for kind in ("late", "repeated", "disconnected", "slow"):
        assert sum(each.get(kind, 0) for each in faulted) > 20


def unnumbered(hops: WorkerHops, number: Number, parts: list[bytes]) -> None:
    """Take every post as the next one of its sender."""
    channels = hops._came.setdefault((number.attempt, number.superstep), defaultdict(_Channel))
    channel = channels[number.source]
    order = number.order if number.ends else channel.taken + len(channel.posts)
    channel.put(number._replace(order=order), parts)


def of_any_attempt(hops: WorkerHops, number: Number, parts: list[bytes]) -> None:
    """Take messages of attempts that failed."""
    if number.superstep >= hops._taken:
        at = hops._attempt, number.superstep
        hops._came.setdefault(at, defaultdict(_Channel))[number.source].put(number, parts)


@pytest.mark.parametrize("put", [unnumbered, of_any_attempt])
def test_a_mistake_in_the_numbers_is_seen(put: Any) -> None:
    with mock.patch.object(WorkerHops, "put", put), pytest.raises((AssertionError, RunError)):
        _ = [talk_once(k) for k in range(60)]


def test_what_was_taken_in_is_not_stored_when_it_comes_again() -> None:
    hops = WorkerHops(lambda *_: (), 0, 2, lambda *_: None)
    for superstep in range(3):
        hops.end_superstep([[pickle.dumps("mine")], [b""]])
        hops.put(Number(0, superstep, 1, 0, True), [pickle.dumps("theirs")])
        hops.put(Number(0, superstep, 1, 0, True), [pickle.dumps("theirs")])
        with pytest.raises(StopIteration) as ended:
            next(hops.receive())
        assert ended.value.value == ([], ["mine", "theirs"])
        hops.put(Number(0, superstep, 1, 0, True), [b"theirs"])
    assert hops._came == {}
    hops.put(Number(0, 3, 1, 0, True), [b"of an attempt that fails"])
    hops.put(Number(1, 0, 1, 0, True), [b"of the next one"])
    with pytest.raises(StopIteration):
        next(hops.run(lambda: None, again=True))
    hops.put(Number(0, 3, 1, 0, True), [b"of an attempt that failed"])
    assert {at: {p: c.end for p, c in came.items()} for at, came in hops._came.items()} == {
        (1, 0): {0: [b""], 1: [b"of the next one"]}
    }


def test_tasks_that_all_wait_for_posts_are_seen() -> None:
    def task(partition: int, command: Any, blocks: Blocks) -> Any:
        yield POSTS, True

    with pytest.raises(RunError, match="wait for blocks of each other"):
        InProcessExchange(3, task).hop(None)


@pytest.mark.parametrize("how", ["fails", "ends"])
def test_a_partition_that_waits_for_posts_is_woken_by_an_end(how: str) -> None:
    def task(partition: int, command: Any, blocks: Blocks) -> Any:
        if partition == 1:
            if how == "fails":
                raise InputError("not here")
        else:
            yield DRIVER, repr((yield POSTS, True)).encode()
        yield PEERS, b"x"

    exchange = SimulatedTransport(Simulator(1)).workers(3).exchange(task)
    for exchange_ in (exchange, InProcessExchange(3, task)):
        if how == "ends":
            assert exchange_.hop(None) == [b"([], True)", b"", b"([], True)"]
        else:
            with pytest.raises(InputError, match="not here"):
                exchange_.hop(None)


def test_a_task_that_waits_for_one_that_has_ended_is_seen() -> None:
    def task(partition: int, command: Any, blocks: Blocks) -> Any:
        for _ in range(2 + partition):
            yield PEERS, b"x"

    exchange = SimulatedTransport(Simulator(1)).workers(3).exchange(task)
    for exchange_ in (exchange, InProcessExchange(3, task)):
        with pytest.raises(RunError, match="the task of partition 0 ended before the others did"):
            exchange_.hop(None)


def test_other_tasks_are_aborted_where_one_fails() -> None:
    aborted: list[int] = []

    def task(partition: int, command: Any, blocks: Blocks) -> Any:
        if partition == 1:
            raise ValueError("not here")
        yield PEERS, b"x"

    with mock.patch.object(WorkerHops, "receive", wraps_receive(aborted)):
        exchange = SimulatedTransport(Simulator(2)).workers(3).exchange(task)
        with pytest.raises(RunError, match="not here"):
            exchange.hop(None)
    assert sorted(aborted) == [0, 2]


def wraps_receive(aborted: list[int]) -> Any:
    receive = WorkerHops.receive

    def wrapped(hops: WorkerHops) -> Any:
        try:
            return (yield from receive(hops))
        except Aborted:
            aborted.append(hops.partition)
            raise

    return wrapped


def test_a_lost_processor_ends_its_launch_at_any_point() -> None:
    points = set()
    for number in range(40):
        simulator = Simulator(number, Faults(lost=0.5, calm=0))
        workers = SimulatedTransport(simulator).workers(3)
        exchange = workers.exchange(talk)
        with pytest.raises(LostError):
            _ = [exchange.hop((command, 3, 3, None)) for command in range(100)]
        assert simulator.losses == 1
        assert not workers.intact()
        what = [line.split()[0] for line in reversed(simulator.trace)]
        points.add(what.index("command") - what.index("lost"))
        with pytest.raises(LostError):
            workers.exchange(talk)
        with pytest.raises(LostError):
            workers.run(lambda p: p)
    assert len(points) > 10
