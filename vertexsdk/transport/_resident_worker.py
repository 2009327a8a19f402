"""The Spark task that stays: it holds one partition, takes commands, and talks to its peers.

Messages from the driver have a number, by which they are answered. Blocks go from worker to
worker: of each hop every worker sends one message to each of the others, perhaps without blocks,
so a worker knows when it has all of them.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator
from typing import Any

import zmq

from vertexsdk.transport._channels import Keys, Lost, context, disconnected, local_address
from vertexsdk.transport.task_times import Clock
from vertexsdk.transport.transport import DRIVER, PEERS, Blocks, Task
from vertexsdk.transport.wire import ABORTED, FAILURE, describe

__all__ = ["serve"]

_READY_SECONDS = 60.0  # for all peers of a launch to be there


class Aborted(Exception):
    """The task of another partition failed."""


class _Hops:
    """One exchange as a worker has it: the task, and the blocks that came for its next hop."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.superstep = 0  # the next one that ends
        self.came: dict[int, dict[int, list[bytes]]] = {}  # by superstep, by source

    def put(self, superstep: int, source: int, parts: list[bytes]) -> None:
        """Take in what a peer sent in a superstep: a report and blocks; nothing if it failed."""
        self.came.setdefault(superstep, {})[source] = parts


class _Worker:
    """One partition's process; see the module.

    Args:
        partition: its number.
        partitions: of the launch.
        driver: where the driver's socket is bound.
        keys: of the launch.
        idle: seconds without a command after which it ends.
    """

    def __init__(
        self, partition: int, partitions: int, driver: str, keys: Keys, idle: float
    ) -> None:
        self.partition, self.partitions, self.idle = partition, partitions, idle
        self.context, self.authenticator = context(keys)
        self.keys = keys
        host = driver.removeprefix("tcp://").rpartition(":")[0].strip("[]")
        self.inbox = self.context.socket(zmq.ROUTER)
        keys.serve(self.inbox, keys.secret)
        port = self.inbox.bind_to_random_port(f"tcp://{local_address(host)}")
        self.driver = self.context.socket(zmq.DEALER)
        keys.connect(self.driver, keys.driver)
        self.monitor = self.driver.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self.driver.connect(driver)
        address = f"tcp://{local_address(host)}:{port}"
        self.driver.send_multipart([b"register", pickle.dumps((partition, address))])
        self.peers: dict[int, zmq.Socket[bytes]] = {}
        self.exchanges: dict[bytes, _Hops] = {}
        self.early: list[list[bytes]] = []  # blocks of exchanges that are not known yet

    def run(self) -> None:
        """Serve until the driver says so, is gone, or has been silent for too long."""
        poller = zmq.Poller()
        poller.register(self.driver, zmq.POLLIN)
        poller.register(self.monitor, zmq.POLLIN)
        while True:
            ready = dict(poller.poll(int(self.idle * 1000)))
            if self.driver in ready:
                number, kind, *parts = self.driver.recv_multipart()
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
                self._begin(*parts)
            elif kind == b"drop":
                self.exchanges.pop(parts[0], None)
                return
            elif kind == b"call":
                report = pickle.dumps(pickle.loads(parts[0])(self.partition))
            else:
                report = self._hop(parts[0], parts[1], clock)
        except Lost:
            raise
        except Exception as error:
            code = ABORTED if isinstance(error, Aborted) else FAILURE
            report = describe(error)
        stamped = clock.stamp().before(report)
        self.driver.send_multipart([number, pickle.dumps(code), stamped], copy=False)

    def _connect(self, addresses: list[str]) -> None:
        for p, address in enumerate(addresses):
            if p != self.partition:
                self.peers[p] = sock = self.context.socket(zmq.DEALER)
                self.keys.connect(sock, self.keys.public)
                sock.connect(address)

    def _begin(self, exchange: bytes, task: bytes) -> None:
        self.exchanges[exchange] = hops = _Hops(pickle.loads(task))
        early, self.early = self.early, []
        for message in early:
            if message[0] == exchange:
                hops.put(*_read(message))
            else:
                self.early.append(message)

    def _hop(self, exchange: bytes, command: bytes, clock: Clock) -> bytes:
        hops = self.exchanges[exchange]
        received, _ = self._receive(hops)
        order = pickle.loads(command)
        clock.decoded = time.time()
        reports: list[bytes] = []
        sent = self._nothing()
        task: Any = iter(hops.task(self.partition, order, received))
        answer: Any = None
        try:
            while True:
                destination, block = next(task) if answer is None else task.send(answer)
                answer = None
                if destination == PEERS:
                    self._send(exchange, hops, [[block, *blocks] for blocks in sent])
                    sent, answer = self._nothing(), self._receive(hops)
                else:
                    (reports if destination == DRIVER else sent[destination]).append(block)
        except StopIteration:
            self._send(exchange, hops, [[b"", *blocks] for blocks in sent])
            return b"".join(reports)
        except BaseException:
            self._send(exchange, hops, self._nothing())
            raise

    def _nothing(self) -> list[list[bytes]]:
        return [[] for _ in range(self.partitions)]

    def _send(self, exchange: bytes, hops: _Hops, parts: list[list[bytes]]) -> None:
        """End a superstep."""
        head = pickle.dumps((hops.superstep, self.partition))
        for p, sock in self.peers.items():
            sock.send_multipart([exchange, head, *parts[p]], copy=False)
        hops.put(hops.superstep, self.partition, parts[self.partition])
        hops.superstep += 1

    def _receive(self, hops: _Hops) -> tuple[Blocks, list[bytes]]:
        """Wait for what was sent in the superstep before: blocks, and the reports of all."""
        if hops.superstep == 0:
            return [], []
        came = hops.came.setdefault(hops.superstep - 1, {})
        while len(came) < self.partitions:
            if not self.inbox.poll(1_000):
                if disconnected(self.monitor):
                    raise Lost
                continue
            message = self.inbox.recv_multipart()[1:]  # without the sender's routing id
            if (other := self.exchanges.get(message[0])) is not None:
                other.put(*_read(message))
            else:
                self.early.append(message)
        del hops.came[hops.superstep - 1]
        if not all(came.values()):
            raise Aborted
        blocks = [(source, block) for source in sorted(came) for block in came[source][1:]]
        return blocks, [came[source][0] for source in sorted(came)]

    def close(self) -> None:
        """Let go of the sockets."""
        self.driver.disable_monitor()
        self.authenticator.stop()
        self.context.destroy(linger=1_000)


def _read(message: list[bytes]) -> tuple[int, int, list[bytes]]:
    hop, source = pickle.loads(message[1])
    return hop, source, message[2:]


def serve(
    partitions: int, driver: str, keys: Keys, idle: float, partition: int, records: Iterable[bytes]
) -> Iterator[int]:
    """Hold a partition until the launch ends; what Spark runs as its task."""
    for _ in records:
        pass  # Spark ends a worker which has not read its input
    worker = _Worker(partition, partitions, driver, keys, idle)
    try:
        worker.run()
    except Lost:
        pass
    finally:
        worker.close()
    yield partition
