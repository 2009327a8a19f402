"""Turns of the hops of a worker, whose messages come exactly when the test says."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from vertexsdk.transport.channels import join, split
from vertexsdk.transport.resident_worker import Worker
from vertexsdk.transport.transport import DRIVER, PEERS, Blocks
from vertexsdk.transport.worker_hops import Number

SUPERSTEPS = 12  # of the slow hop


class Inbox:
    """A socket whose messages are there at once."""

    def __init__(self) -> None:
        self.messages: deque[list[bytes]] = deque()

    @property
    def events(self) -> int:
        return zmq.POLLIN if self.messages else 0

    def put(self, *parts: bytes, route: tuple[bytes, ...] = ()) -> None:
        self.messages.append([*route, *map(bytes, split(parts))])

    def recv_multipart(self) -> list[bytes]:
        return self.messages.popleft()


class DriverSocket(Inbox):
    """The worker's end of the connection to a driver, which ends it after two answers."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[bytes] = []  # their numbers

    def send_multipart(self, frames: list[bytes], copy: bool) -> None:
        self.answers.append(join(frames)[0])
        if len(self.answers) == 2:
            self.put(b"0", b"end")

    def hop(self, exchange: bytes) -> None:
        self.put(exchange, b"hop", exchange, b"", pickle.dumps(None))


class Mirror:
    """A peer in the same superstep, which sends what is sent to it."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def send_multipart(self, frames: list[bytes], copy: bool) -> None:
        exchange, head, *parts = join(frames)
        number = Number(*pickle.loads(head))._replace(source=1)
        self._inbox.put(exchange, pickle.dumps(tuple(number)), *parts, route=(b"peer",))


class Bare(Worker):
    """Partition 0, without sockets."""

    def __init__(self, partitions: int) -> None:
        self.partition, self.partitions, self.idle = 0, partitions, 3600.0
        given: Any = self
        given.inbox, given.nearby, given.driver = Inbox(), Inbox(), DriverSocket()
        given.peers = {1: Mirror(given.inbox)} if partitions > 1 else {}
        given.monitor, given.poller = object(), self
        self.peer_monitors, self.exchanges, self.early, self.hops = [], {}, {}, []
        self.dropped = deque()

    def poll(self, wait: int) -> list[tuple[Any, int]]:
        sockets: list[Any] = [self.inbox, self.driver]
        return [(socket, socket.events) for socket in sockets if socket.events]


@pytest.mark.parametrize(("partitions", "supersteps"), [(1, 1), (2, 2)])
def test_a_hop_waits_for_one_superstep_of_another(partitions: int, supersteps: int) -> None:
    """Where messages of peers are to come, for one more; whatever the driver has sent before it."""
    worker = Bare(partitions)
    driver: Any = worker.driver
    steps: list[str] = []

    def slow(partition: int, command: Any, blocks: Blocks) -> Iterator[tuple[int, Any]]:
        for k in range(SUPERSTEPS):
            steps.append(f"slow {k}")
            if k == 3:
                driver.put(b"0", b"alive")
                for name in (b"a", b"b", b"c"):
                    driver.put(b"0", b"drop", name)
                driver.hop(b"quick")
            yield PEERS, b""
        yield DRIVER, b""

    def quick(partition: int, command: Any, blocks: Blocks) -> Iterator[tuple[int, Any]]:
        steps.append("quick begins")
        yield PEERS, b""
        steps.append("quick ends")
        yield DRIVER, b""

    worker._add(b"slow", slow)
    worker._add(b"quick", quick)
    driver.hop(b"slow")
    worker.run()
    number = [f"slow {k}" for k in range(SUPERSTEPS)]
    after = 4 + supersteps
    assert steps == [
        *number[:4], "quick begins", *number[4:after], "quick ends", *number[after:],
    ]  # fmt: skip
    assert driver.answers == [b"quick", b"slow"]
    assert [*worker.dropped] == [b"a", b"b", b"c"]
