"""ZeroMQ sockets of one launch: encrypted, and open only to holders of the launch's key.

The key pairs are made for each launch and travel by Spark's own channels, so that no earlier launch
and no other process completes the handshake. Between workers of one host sockets are files instead,
in a directory of this user alone, as encryption takes longer than all the rest. The heartbeats of
ZMTP, which ZeroMQ's own threads answer however long a task computes, show that a peer is gone,
stopped or cut off.

Lost connections are noticed at the ends that made them, never at a socket that listens: its events
are also of strangers' connections, and stop ZeroMQ's thread if they are not read.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import zmq
from zmq.auth.thread import ThreadAuthenticator

HEARTBEAT_MS, SILENT_MS = 1_000, 5_000  # between beats; after which a silent peer is gone
CHUNK = 4 << 20  # bytes of a frame: heartbeats go between frames, so a longer one looks silent
HANDSHAKE_MS = 10_000  # after which who has connected, and has not shown a key, is cut off
_MOST = CHUNK + 1024  # bytes of a frame that comes, with what encryption adds
_DOMAIN = "vertexsdk"


class Lost(Exception):
    """The other end of a channel is gone."""


@dataclass(frozen=True)
class Keys:
    """The key pairs of a launch, as CURVE has them (Z85): the driver's, and that of its workers.

    Attributes:
        driver: public key; the secret one stays with the driver.
        public, secret: the keys of every worker.
    """

    driver: bytes
    public: bytes
    secret: bytes

    @classmethod
    def fresh(cls) -> tuple[Keys, bytes]:
        """Return new keys, and the driver's secret key."""
        driver, driver_secret = zmq.curve_keypair()
        public, secret = zmq.curve_keypair()
        return cls(driver, public, secret), driver_secret

    def serve(self, sock: zmq.Socket[bytes], secret: bytes) -> None:
        """Have a socket take connections from workers of the launch only; before it is bound."""
        beat(sock)
        sock.curve_secretkey, sock.curve_server = secret, True
        sock.zap_domain = _DOMAIN.encode()

    def connect(self, sock: zmq.Socket[bytes], server: bytes) -> None:
        """Have a worker's socket connect to who has the secret of the public key `server`."""
        beat(sock)
        sock.curve_publickey, sock.curve_secretkey = self.public, self.secret
        sock.curve_serverkey = server
        sock.reconnect_ivl = -1  # a lost connection is a lost peer

    def callback(self, domain: str, key: bytes) -> bool:
        """Return whether a client's public key may connect; called by `ThreadAuthenticator`."""
        return domain == _DOMAIN and key == self.public


def context(keys: Keys) -> tuple[zmq.Context[zmq.Socket[bytes]], ThreadAuthenticator]:
    """Return a context whose servers admit the workers of a launch, and what admits them."""
    made = zmq.Context()
    made.setsockopt(zmq.IPV6, 1)
    authenticator = ThreadAuthenticator(made)
    authenticator.start()
    authenticator.configure_curve_callback(_DOMAIN, credentials_provider=keys)
    return made, authenticator


def beat(sock: zmq.Socket[bytes]) -> None:
    """Have the other end of a socket noticed as gone when it is silent, or says too much at once.

    Limits hold before the handshake too: a stranger's frame takes no more memory than ours do.
    """
    sock.linger = 1_000
    sock.sndhwm = sock.rcvhwm = 0  # a superstep's blocks; their number says nothing of their size
    sock.heartbeat_ivl, sock.heartbeat_timeout = HEARTBEAT_MS, SILENT_MS
    sock.handshake_ivl, sock.maxmsgsize = HANDSHAKE_MS, _MOST


def split(parts: Sequence[bytes]) -> list[bytes | memoryview]:
    """Cut the parts of a message into frames of at most `CHUNK` bytes, for `join`.

    >>> join([bytes(frame) for frame in split([b"a", b""])])
    [b'a', b'']
    """
    counts = [max(1, -(-len(part) // CHUNK)) for part in parts]
    frames: list[bytes | memoryview] = [pickle.dumps(counts)]
    for part, count in zip(parts, counts, strict=True):
        view = memoryview(part)
        cut = [view[k * CHUNK : (k + 1) * CHUNK] for k in range(count)]
        frames += cut if count > 1 else [part]
    return frames


def join(frames: list[bytes]) -> list[bytes]:
    """Return the parts of a message from a peer of the launch."""
    rest = iter(frames[1:])
    counts = pickle.loads(frames[0])
    return [next(rest) if n == 1 else b"".join(islice(rest, n)) for n in counts]


def disconnected(monitor: zmq.Socket[bytes]) -> bool:
    """Return whether the monitor of a socket that connects has reported a disconnection."""
    from zmq.utils.monitor import recv_monitor_message

    disconnected = False
    while monitor.poll(0):
        event: Any = recv_monitor_message(monitor, zmq.NOBLOCK)
        disconnected |= event["event"] in (zmq.EVENT_DISCONNECTED, zmq.EVENT_CLOSED)
    return disconnected


def local_address(peer: str) -> str:
    """The address of this host on the network by which it reaches another host, as in a URL."""
    addresses = socket.getaddrinfo(peer.strip("[]"), 9, type=socket.SOCK_DGRAM)
    family, _, _, _, where = min(addresses, key=lambda one: one[0] != socket.AF_INET)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(where)
        address = str(probe.getsockname()[0])
    return f"[{address}]" if family == socket.AF_INET6 else address
