"""The Spark task that stays: it holds one partition, takes commands, and talks to its peers.

Messages from the driver have a number, by which they are answered. Blocks go from worker to
worker: of each hop every worker sends one message to each of the others, perhaps without blocks,
so a worker knows when it has all of them.
"""

from __future__ import annotations

import math
import os
import pickle
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

import zmq

from vertexsdk.arrays import shared_memory
from vertexsdk.transport._channels import (
    Keys,
    Lost,
    beat,
    context,
    disconnected,
    join,
    local_address,
    split,
)
from vertexsdk.transport._worker_hops import Aborted, Number, Waiting, WorkerHops
from vertexsdk.transport.task_times import Clock
from vertexsdk.transport.transport import DRIVER, Task
from vertexsdk.transport.wire import ABORTED, FAILURE, describe

READY_SECONDS = 30.0  # for the workers of a launch to connect to each other
_T = TypeVar("_T")
_LONGEST_PATH = 100  # of a socket's file
_POLL_MS = 500  # between looks at whether the driver or a peer is gone


class _Worker:
    """One partition's process; see the module.

    Args:
        partition: its number.
        partitions: of the launch.
        driver: where the driver's socket is bound.
        keys: of the launch.
        idle: seconds without a command after which it ends.
        place: shared-memory key of the sockets of the launch.
    """

    def __init__(
        self, partition: int, partitions: int, driver: str, keys: Keys, idle: float, place: str
    ) -> None:
        self.partition, self.partitions, self.idle = partition, partitions, idle
        self.context, self.authenticator = context(keys)
        self.keys = keys
        host = driver.removeprefix("tcp://").rpartition(":")[0].strip("[]")
        self.inbox = self.context.socket(zmq.ROUTER)
        keys.serve(self.inbox, keys.secret)
        self.lost_peer = self.inbox.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        port = self.inbox.bind_to_random_port(f"tcp://{local_address(host)}")
        self.nearby = self.context.socket(zmq.ROUTER)  # for peers on this host
        beat(self.nearby)
        self.lost_neighbour = self.nearby.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self.sockets = f"{place}-{partition}"
        path = str(shared_memory.directory(self.sockets) / "inbox")
        if len(path) <= _LONGEST_PATH:
            self.nearby.bind(f"ipc://{path}")
        self.inboxes = zmq.Poller()
        for sock in (self.inbox, self.nearby):
            self.inboxes.register(sock, zmq.POLLIN)
        self.driver = self.context.socket(zmq.DEALER)
        keys.connect(self.driver, keys.driver)
        self.monitor = self.driver.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self.driver.connect(driver)
        address = f"tcp://{local_address(host)}:{port}"
        where = pickle.dumps((partition, (address, path)))
        self.driver.send_multipart(split([b"register", where]))
        self.peers: dict[int, zmq.Socket[bytes]] = {}
        self.exchanges: dict[bytes, WorkerHops] = {}

    def run(self) -> None:
        """Serve until the driver says so, is gone, or has been silent for too long."""
        poller = zmq.Poller()
        poller.register(self.driver, zmq.POLLIN)
        poller.register(self.monitor, zmq.POLLIN)
        while True:
            ready = dict(poller.poll(int(self.idle * 1000)))
            if self.driver in ready:
                number, kind, *parts = join(self.driver.recv_multipart())
                if kind == b"end":
                    return
                self._answer(number, kind, parts)
            elif not ready or disconnected(self.monitor):
                return

    def _answer(self, number: bytes, kind: bytes, parts: list[bytes]) -> None:
        clock = Clock()
        code, report = DRIVER, b""
        try:
            if kind == b"peers":
                self._connect(pickle.loads(parts[0]))
            elif kind == b"task":
                self.exchanges[parts[0]] = self._hops(parts[0], pickle.loads(parts[1]))
            elif kind == b"drop":
                self.exchanges.pop(parts[0], None)
                return
            elif kind == b"call":
                report = pickle.dumps(pickle.loads(parts[0])(self.partition))
            else:
                report = self._hop(clock, *parts)
        except Lost:
            raise
        except Exception as error:
            code = ABORTED if isinstance(error, Aborted) else FAILURE
            report = describe(error)
        stamped = clock.stamp().before(report)
        self.driver.send_multipart(split([number, pickle.dumps(code), stamped]), copy=False)

    def _connect(self, addresses: list[tuple[str, str]]) -> None:
        """Connect to every peer, and wait until every peer has connected to this worker."""
        for p, (address, path) in enumerate(addresses):
            if p == self.partition:
                continue
            self.peers[p] = sock = self.context.socket(zmq.DEALER)
            if _is_own_socket(path):
                beat(sock)
                sock.reconnect_ivl = -1
                sock.connect(f"ipc://{path}")
            else:
                self.keys.connect(sock, self.keys.public)
                sock.connect(address)
        hello = self.exchanges[b""] = self._hops(b"", lambda *_: ())
        hello.end_superstep([[b""] for _ in range(self.partitions)])
        self._finish(hello.receive(), time.monotonic() + READY_SECONDS)
        del self.exchanges[b""]

    def _hops(self, exchange: bytes, task: Task) -> WorkerHops:
        return WorkerHops(task, self.partition, self.partitions, partial(self._send, exchange))

    def _hop(self, clock: Clock, exchange: bytes, again: bytes, command: bytes) -> bytes:
        def decode() -> Any:
            order = pickle.loads(command)
            clock.decoded = time.time()
            return order

        return self._finish(self.exchanges[exchange].run(decode, again=bool(again)))

    def _send(self, exchange: bytes, number: Number, parts: list[list[bytes]]) -> None:
        head = pickle.dumps(number)
        for p, sock in self.peers.items():
            sock.send_multipart(split([exchange, head, *parts[p]]), copy=False)

    def _finish(self, steps: Waiting[_T], end: float = math.inf) -> _T:
        """Take messages from peers while the steps wait for some.

        Raises:
            Lost: the driver or another worker is gone, or has sent nothing by the time `end`.
        """
        with closing(steps):
            while True:
                try:
                    next(steps)
                except StopIteration as ended:
                    result: _T = ended.value
                    return result
                ready = self.inboxes.poll(_POLL_MS)
                if not ready:
                    monitors = self.monitor, self.lost_peer, self.lost_neighbour
                    if any(map(disconnected, monitors)) or time.monotonic() > end:
                        raise Lost
                for inbox, _ in ready:
                    exchange, head, *parts = join(inbox.recv_multipart()[1:])
                    if (other := self.exchanges.get(exchange)) is not None:  # else it was dropped
                        other.put(pickle.loads(head), parts)

    def close(self) -> None:
        """Close the sockets, and delete the directory that they are in."""
        self.driver.disable_monitor()
        self.inbox.disable_monitor()
        self.nearby.disable_monitor()
        self.authenticator.stop()
        self.context.destroy(linger=1_000)
        shared_memory.drop(self.sockets)


def _is_own_socket(path: str) -> bool:
    """Whether a path is a socket on this host, in a directory of this user alone."""
    try:
        found, above = os.stat(path, follow_symlinks=False), os.stat(os.path.dirname(path))
    except OSError:
        return False
    private = above.st_uid == os.getuid() and not stat.S_IMODE(above.st_mode) & 0o077
    return private and stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid()


def serve(
    partitions: int,
    driver: str,
    keys: Keys,
    idle: float,
    place: str,
    partition: int,
    records: Iterable[bytes],
) -> Iterator[int]:
    """Hold a partition until the launch ends; what Spark runs as its task."""
    for _ in records:
        pass  # Spark ends a worker which has not read its input
    worker = _Worker(partition, partitions, driver, keys, idle, place)
    try:
        worker.run()
    except Lost:
        pass
    finally:
        worker.close()
    yield partition
