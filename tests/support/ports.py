"""Ports for the servers of tests."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

__all__ = ["free_port"]

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_reserved: list[int] = []  # open files, whose locks end with this process


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody else takes while this process lives.

    It is below the ports that the system gives to connections, so none gets it before the server
    starts or while it is restarted; and no other process of the tests has reserved it.
    """
    first = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    folder = Path(tempfile.gettempdir(), f"vertexsdk-test-ports-{os.getuid()}")
    folder.mkdir(0o700, exist_ok=True)
    low = min(10_000, first // 2)
    for port in random.SystemRandom().sample(range(low, first), first - low):
        file = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:  # another process has reserved it, or listens there
            os.close(file)
            continue
        _reserved.append(file)
        return port
    raise OSError(f"no port from {low} to {first - 1} is free")
