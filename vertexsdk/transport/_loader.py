"""How loader tasks bring blocks to processors: straight to their sockets, with bounded bytes ahead.

A loader is a task of an ordinary Spark job, or the driver itself where it has the edges.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import zmq
from pyspark import TaskContext

from vertexsdk.transport._block_receiver import HEADER
from vertexsdk.transport._resident_worker import is_own_socket
from vertexsdk.transport.channels import CHUNK, Keys, Lost, beat, disconnected

WINDOW = 4 * CHUNK  # bytes ahead of what a processor has acknowledged
_POLL_MS = 500


@dataclass(frozen=True)
class Loader:
    """Sends the blocks of parts to the processors of a launch; picklable.

    Attributes:
        keys: of the launch.
        addresses: of each processor's `BlockReceiver`.
        wait: seconds without an acknowledgement after which a processor is lost.
    """

    keys: Keys
    addresses: tuple[tuple[str, str], ...]
    wait: float = 30.0

    def __call__(
        self, part: int, blocks: Iterable[tuple[int, bytes]]
    ) -> Iterator[tuple[int, int] | None]:
        """Send the blocks of a part.

        Yields:
            The part and the attempt, when all blocks have come; None where a processor is lost:
            Spark would run a task that raises again, to fail again.
        """
        task = TaskContext.get()
        attempt = 0 if task is None else int(task.taskAttemptId())
        with contextlib.closing(_Sender(self)) as sender:
            try:
                for number, (destination, block) in enumerate(blocks):
                    sender.send(destination, (part, attempt, number), block)
                sender.flush()
                yield part, attempt
            except Lost:
                yield None
        for _ in blocks:
            pass  # Spark ends a worker which has not read its input


class _Sender:
    def __init__(self, loader: Loader) -> None:
        self._loader, self._context = loader, zmq.Context()
        self._context.setsockopt(zmq.IPV6, 1)
        self._sockets: dict[int, zmq.Socket[bytes]] = {}
        self._monitors: dict[int, zmq.Socket[bytes]] = {}
        self._ahead: dict[int, int] = {}  # bytes that were not acknowledged yet

    def send(self, destination: int, number: tuple[int, int, int], block: bytes) -> None:
        """Send a block in chunks.

        Raises:
            Lost: the processor is gone.
        """
        sock = self._sockets.get(destination) or self._connect(destination)
        whole = memoryview(block)
        for place in range(0, max(len(block), 1), CHUNK):
            chunk = whole[place : place + CHUNK]
            self._await(destination, WINDOW - len(chunk))
            header = HEADER.pack(*number, len(block), place)
            sock.send_multipart([header, chunk], copy=False)
            self._ahead[destination] += max(len(chunk), 1)

    def flush(self) -> None:
        """Wait until all blocks have come.

        Raises:
            Lost: a processor is gone.
        """
        for destination in self._sockets:
            self._await(destination, 0)

    def _connect(self, destination: int) -> zmq.Socket[bytes]:
        address, path = self._loader.addresses[destination]
        sock = self._sockets[destination] = self._context.socket(zmq.DEALER)
        self._monitors[destination] = sock.get_monitor_socket(
            zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
        )
        self._ahead[destination] = 0
        if is_own_socket(path):
            beat(sock)
            sock.reconnect_ivl = -1
            sock.connect(f"ipc://{path}")
        else:
            self._loader.keys.connect(sock, self._loader.keys.public)
            sock.connect(address)
        return sock

    def _await(self, destination: int, most: int) -> None:
        """Wait until at most so many bytes are ahead."""
        sock, silent = self._sockets[destination], 0
        while self._ahead[destination] > most:
            if sock.poll(_POLL_MS):
                self._ahead[destination] -= int.from_bytes(sock.recv(), "big")
                silent = 0
                continue
            silent += _POLL_MS
            if disconnected(self._monitors[destination]) or silent > 1000 * self._loader.wait:
                raise Lost

    def close(self) -> None:
        """Close the sockets."""
        for sock in self._sockets.values():
            sock.disable_monitor()
        self._context.destroy(linger=0)
