"""The Spark task that stays: it holds one partition, takes commands, and talks to its peers.

Messages from the driver have a number, by which they are answered. Hops of several exchanges, such
as those of a main loop and its branches, take turns by supersteps. Blocks go from worker to
worker: of each hop every worker sends one message to each of the others, perhaps without blocks,
so a worker knows when it has all of them.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import zmq

from vertexsdk.arrays import shared_memory
from vertexsdk.transport.block_receiver import close_receivers
from vertexsdk.transport.channels import (
    Keys,
    Lost,
    beat,
    context,
    disconnected,
    join,
    local_address,
    split,
)
from vertexsdk.transport.outcomes import ABORTED, FAILURE, describe
from vertexsdk.transport.task_times import Clock
from vertexsdk.transport.transport import DRIVER, Task
from vertexsdk.transport.worker_hops import Aborted, Number, Waiting, WorkerHops

READY_SECONDS = 30.0  # for the workers of a launch to connect to each other
_LONGEST_PATH = 100  # of a socket's file
_DROPPED = 4096  # exchanges
_POLL_MS = 500  # between looks at whether the driver or a peer is gone


@dataclass(eq=False)
class _Hop:
    """A hop that has begun: the driver's number of it, and its next steps."""

    number: bytes
    clock: Clock
    hops: WorkerHops
    steps: Waiting[bytes]


class Worker:
    """One partition's process; see the module.

    Args:
        partition: its number.
        partitions: the launch's number of partitions.
        driver: where the driver's socket is bound.
        keys: the launch's keys.
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
        port = self.inbox.bind_to_random_port(f"tcp://{local_address(host)}")
        self.nearby = self.context.socket(zmq.ROUTER)  # for peers on this host
        beat(self.nearby)
        self.sockets = f"{place}-{partition}"
        path = str(shared_memory.directory(self.sockets) / "inbox")
        if len(path) <= _LONGEST_PATH:
            self.nearby.bind(f"ipc://{path}")
        self.driver = self.context.socket(zmq.DEALER)
        keys.connect(self.driver, keys.driver)
        self.monitor = self.driver.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self.driver.connect(driver)
        address = f"tcp://{local_address(host)}:{port}"
        where = pickle.dumps((partition, (address, path)))
        self.driver.send_multipart(split([b"register", where]))
        self.peers: dict[int, zmq.Socket[bytes]] = {}
        self.peer_monitors: list[zmq.Socket[bytes]] = []
        self.exchanges: dict[bytes, WorkerHops] = {}
        self.early: dict[bytes, list[tuple[Number, list[bytes]]]] = {}  # of exchanges to come
        self.dropped: deque[bytes] = deque(maxlen=_DROPPED)  # of which messages may still come
        self.hops: list[_Hop] = []  # that have begun, and are not over
        self.poller, self.peer_poller = zmq.Poller(), zmq.Poller()
        for sock in (self.inbox, self.nearby):
            self.poller.register(sock, zmq.POLLIN)
            self.peer_poller.register(sock, zmq.POLLIN)
        for sock in (self.driver, self.monitor):
            self.poller.register(sock, zmq.POLLIN)

    def run(self) -> None:
        """Serve until the driver says so, is gone, or has been silent for too long.

        Hops of several exchanges take turns, a superstep each; none waits for the messages of
        another one.

        Raises:
            Lost: another worker is gone.
        """
        asked = time.monotonic()
        while True:
            turns = [hop for hop in self.hops if hop.hops.complete]
            for hop in turns:
                self._step(hop)
            wait = 0 if turns else _POLL_MS if self.hops else int(self.idle * 1000)
            ready = dict(self.poller.poll(wait))
            self._take_messages(ready)
            if self.driver in ready:
                while cast(int, self.driver.events) & zmq.POLLIN:  # none waits for a superstep
                    number, kind, *parts = join(self.driver.recv_multipart())
                    if kind == b"end":
                        return
                    if kind != b"alive":
                        asked = time.monotonic()
                        self._answer(number, kind, parts)
                continue
            silent = not self.hops and time.monotonic() - asked > self.idle
            if silent or (self.monitor in ready and disconnected(self.monitor)):
                return

    def _take_messages(self, ready: Mapping[Any, int]) -> None:
        """Take the messages of peers that have come.

        Raises:
            Lost: another worker is gone.
        """
        for inbox in (self.inbox, self.nearby):
            while inbox in ready and cast(int, inbox.events) & zmq.POLLIN:
                exchange, head, *parts = join(inbox.recv_multipart()[1:])
                number = Number(*pickle.loads(head))
                if (hops := self.exchanges.get(exchange)) is not None:
                    hops.put(number, parts)
                elif exchange not in self.dropped:  # the peer has heard of it first
                    self.early.setdefault(exchange, []).append((number, parts))
        if any(monitor in ready and disconnected(monitor) for monitor in self.peer_monitors):
            raise Lost

    def _answer(self, number: bytes, kind: bytes, parts: list[bytes]) -> None:
        clock = Clock()
        code, report = DRIVER, b""
        try:
            if kind == b"peers":
                self._connect(pickle.loads(parts[0]))
            elif kind == b"task":
                self._add(parts[0], pickle.loads(parts[1]))
            elif kind == b"drop":
                self.exchanges.pop(parts[0], None)
                self.dropped.append(parts[0])
                return
            elif kind == b"call":
                report = pickle.dumps(pickle.loads(parts[0])(self.partition))
            else:
                self._begin(number, clock, *parts)
                return
        except Lost:
            raise
        except Exception as error:
            code, report = FAILURE, describe(error)
        self._send_report(number, clock, code, report)

    def _begin(
        self, number: bytes, clock: Clock, exchange: bytes, again: bytes, command: bytes
    ) -> None:
        """Begin a hop, and run its first superstep."""

        def decode() -> Any:
            order = pickle.loads(command)
            clock.decoded = time.time()
            return order

        hops = self.exchanges[exchange]
        hop = _Hop(number, clock, hops, hops.run(decode, again=bool(again)))
        self.hops.append(hop)
        self._step(hop)

    def _step(self, hop: _Hop) -> None:
        """Go on with a hop until it waits, or others have a turn; report it if it is over."""
        try:
            with hop.clock.working():
                next(hop.steps)
                while (
                    hop.hops.complete
                    and not hop.hops.posts
                    and len(self.hops) == 1
                    and not cast(int, self.driver.events) & zmq.POLLIN
                ):
                    next(hop.steps)
            return
        except StopIteration as ended:
            code, report = DRIVER, ended.value
        except Exception as error:
            code = ABORTED if isinstance(error, Aborted) else FAILURE
            report = describe(error)
        self.hops.remove(hop)
        self._send_report(hop.number, hop.clock, code, report)

    def _send_report(self, number: bytes, clock: Clock, code: int, report: bytes) -> None:
        stamped = clock.stamp().prepend_to(report)
        self.driver.send_multipart(split([number, pickle.dumps(code), stamped]), copy=False)

    def _connect(self, addresses: list[tuple[str, str]]) -> None:
        """Connect to every peer, and wait until every peer has connected to this worker."""
        for p, (address, path) in enumerate(addresses):
            if p == self.partition:
                continue
            self.peers[p] = sock = self.context.socket(zmq.DEALER)
            monitor = sock.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            self.peer_monitors.append(monitor)
            self.poller.register(monitor, zmq.POLLIN)
            self.peer_poller.register(monitor, zmq.POLLIN)
            if is_own_socket(path):
                beat(sock)
                sock.reconnect_ivl = -1
                sock.connect(f"ipc://{path}")
            else:
                self.keys.connect(sock, self.keys.public)
                sock.connect(address)
        hello = self._add(b"", lambda *_: ())
        hello.end_superstep([[b""] for _ in range(self.partitions)])
        end = time.monotonic() + READY_SECONDS
        while not hello.complete:
            if time.monotonic() > end:
                raise Lost
            self._take_messages(dict(self.peer_poller.poll(_POLL_MS)))
        del self.exchanges[b""]

    def _add(self, exchange: bytes, task: Task) -> WorkerHops:
        """Begin to take part in an exchange."""
        send = partial(self._send, exchange)
        hops = WorkerHops(task, self.partition, self.partitions, send, yields=True)
        for number, parts in self.early.pop(exchange, ()):
            hops.put(number, parts)
        self.exchanges[exchange] = hops
        return hops

    def _send(self, exchange: bytes, destination: int, number: Number, parts: list[bytes]) -> None:
        head = pickle.dumps(tuple(number))
        self.peers[destination].send_multipart(split([exchange, head, *parts]), copy=False)

    def close(self) -> None:
        """Abort the hops, close the sockets, and delete the directory that they are in."""
        for hop in self.hops:
            with contextlib.suppress(zmq.ZMQError):  # peers may be gone
                hop.steps.close()
        for sock in (self.driver, *self.peers.values()):
            sock.disable_monitor()
        self.authenticator.stop()
        self.context.destroy(linger=1_000)
        shared_memory.drop(self.sockets)


def is_own_socket(path: str) -> bool:
    """Return whether a path is a socket on this host, in a directory of this user alone."""
    try:
        status, directory = os.stat(path, follow_symlinks=False), os.stat(os.path.dirname(path))
    except OSError:
        return False
    private = directory.st_uid == os.getuid() and not stat.S_IMODE(directory.st_mode) & 0o077
    return private and stat.S_ISSOCK(status.st_mode) and status.st_uid == os.getuid()


def serve(
    partitions: int,
    driver: str,
    keys: Keys,
    idle: float,
    place: str,
    partition: int,
    records: Iterable[bytes],
) -> Iterator[int]:
    """Hold a partition until the launch ends; Spark runs this as a task."""
    for _ in records:
        pass  # Spark ends a worker which has not read its input
    worker = Worker(partition, partitions, driver, keys, idle, place)
    try:
        worker.run()
    except Lost:
        pass
    finally:
        close_receivers()
        worker.close()
    yield partition
