"""Sockets of clients who do not keep to the protocol of requests to a loop."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import zmq

from vertexsdk.loops.request_client import record_name
from vertexsdk.state import open_store
from vertexsdk.transport.channels import Keys

__all__ = ["request_socket"]


@contextlib.contextmanager
def request_socket(url: str, loop: str) -> Iterator[zmq.Socket[bytes]]:
    """A socket of somebody who has the keys of a loop, and may send it what they like."""
    with open_store(url) as store:
        data = store.backend.get_manifest(record_name(loop))
    assert data is not None
    record = json.loads(data)
    keys = Keys(*(record[name].encode() for name in ("driver", "public", "secret")))
    with zmq.Context() as context, context.socket(zmq.DEALER) as sock:
        keys.connect(sock, keys.driver)
        sock.linger = 0
        sock.connect(record["address"])
        yield sock
