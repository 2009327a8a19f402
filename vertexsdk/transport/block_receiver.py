"""A processor's thread that takes blocks from loader tasks, beside its other work.

A loader task is one attempt at a part of a job's input; Spark may run several attempts. Blocks come
in chunks with the part and the attempt that they are of, and are kept until the driver says which
attempts have succeeded. Every chunk is acknowledged once it is in place, and a loader waits for
that, so what is on the way is bounded.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping

import zmq

from vertexsdk.arrays import shared_memory
from vertexsdk.transport.channels import Keys, beat, context, local_address

HEADER = struct.Struct(">qqqqq")  # part, attempt, block, its size, place of the chunk in it
_POLL_MS = 100  # between looks at whether it is to end
_LONGEST_PATH = 100  # of a socket's file
_receivers: dict[str, BlockReceiver] = {}


class BlockReceiver(threading.Thread):
    """Takes the blocks for one partition, in a thread.

    Args:
        name: the load's name.
        keys: the launch's keys.
        host: the driver's host; loaders use the network that reaches it.
        place: shared-memory key of the directory of the socket for loaders of this host.

    Attributes:
        addresses: where loaders connect: by TCP, and by a file on this host.
    """

    def __init__(self, name: str, keys: Keys, host: str, place: str) -> None:
        super().__init__(daemon=True, name=f"vertexsdk-load-{name}")
        self._context, self._authenticator = context(keys)
        self._far, self._near = (self._context.socket(zmq.ROUTER) for _ in range(2))
        keys.serve(self._far, keys.secret)
        beat(self._near)
        address = local_address(host)
        port = self._far.bind_to_random_port(f"tcp://{address}")
        path = str(shared_memory.directory(place) / f"load-{name}")
        if len(path) <= _LONGEST_PATH:
            self._near.bind(f"ipc://{path}")
        self.addresses = f"tcp://{address}:{port}", path
        self._blocks: dict[tuple[int, int], dict[int, bytearray]] = {}  # by part and attempt
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        """Take chunks until `close`."""
        poller = zmq.Poller()
        for sock in (self._far, self._near):
            poller.register(sock, zmq.POLLIN)
        while not self._ended.is_set():
            for sock, _ in poller.poll(_POLL_MS):
                route, header, chunk = sock.recv_multipart(copy=False)
                part, attempt, number, size, place = HEADER.unpack(header.buffer)
                blocks = self._blocks.setdefault((part, attempt), {})
                block = blocks.get(number)
                if block is None:
                    block = blocks[number] = bytearray(size)
                block[place : place + len(chunk.buffer)] = chunk.buffer
                sock.send_multipart([route, max(len(chunk.buffer), 1).to_bytes(8, "big")])

    def take(self, attempts: Mapping[int, int]) -> list[bytearray]:
        """Stop; return the blocks of the attempt of each part that has succeeded, in order."""
        self.close()
        kept = [self._blocks.pop((p, attempts[p]), {}) for p in sorted(attempts)]
        self._blocks.clear()
        return [block for blocks in kept for _, block in sorted(blocks.items())]

    def close(self) -> None:
        """Stop, and close the sockets; may be called twice."""
        self._ended.set()
        self.join()
        self._authenticator.stop()
        self._context.destroy(linger=0)


def open_receiver(name: str, keys: Keys, host: str, place: str, partition: int) -> tuple[str, str]:
    """Take blocks in this process from now on; return where. Those of a load before are dropped."""
    close_receivers()
    receiver = _receivers[name] = BlockReceiver(name, keys, host, f"{place}-{partition}")
    return receiver.addresses


def received(name: str, attempts: Mapping[int, int]) -> list[bytearray]:
    """Return the blocks of a load, once."""
    receiver = _receivers.pop(name, None)
    return [] if receiver is None else receiver.take(attempts)


def close_receivers() -> None:
    """Drop the blocks that no task has asked for."""
    while _receivers:
        _receivers.popitem()[1].close()
