"""Asks the process of a main loop for an exact answer; see `query_service`."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

import zmq

from vertexsdk.errors import InputError, RunError
from vertexsdk.state import open_store
from vertexsdk.state.address import Address
from vertexsdk.transport.channels import Keys, beat

_LOOK_MS = 200
_GRACE = 60.0  # seconds beside those that iterations may take, for what goes before and after them
_LONGEST = 3600.0  # seconds for an answer without a limit of its own
_CLOSED = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_CONNECT_RETRIED
_REFUSED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL


def record_name(loop: str) -> str:
    """The name of the manifest that says where the queries of a loop are answered."""
    return f"service.{hashlib.sha256(loop.encode()).hexdigest()[:32]}"


def ask(backend: str | Address, loop: str, timeout: float | None = None) -> str:
    """Have the process of a main loop compute the exact answer.

    Args:
        backend: URL of the loop's store.
        timeout: seconds after which its iterations are stopped.

    Returns:
        The name of the answer in the store.

    Raises:
        InputError: no process answers the queries of the loop.
        RunError: the answer could not be computed, its process ended, or it did not answer in
            `timeout` seconds and a minute (in an hour without `timeout`).
    """
    with open_store(backend, create=False) as store:
        if store.head(loop) is None:
            raise store.unknown_loop(loop)
        data = store.backend.get_manifest(record_name(loop))
        if data is None:
            raise InputError(
                f"no process answers the queries of loop {loop!r} in {store.backend.location}: "
                "start `vertexsdk stream --follow`, or call serve_queries() of its MainLoop; "
                "or read its newest version, without asking for an exact answer"
            )
    record = json.loads(data)
    public, secret, driver = (record[name].encode() for name in ("public", "secret", "driver"))
    with zmq.Context() as made, made.socket(zmq.REQ) as sock:
        Keys(driver, public, secret).connect(sock, driver)
        beat(sock)
        sock.linger = 0
        monitor = sock.get_monitor_socket(_CLOSED | _REFUSED)
        try:
            sock.connect(record["address"])
            sock.send_json({"timeout": timeout})
            seconds = _LONGEST if timeout is None else timeout + _GRACE
            deadline = time.monotonic() + seconds
            while not sock.poll(_LOOK_MS):
                if time.monotonic() > deadline:
                    raise RunError(
                        f"the process of loop {loop!r} has not answered in {seconds:,.0f} s: ask "
                        "again with another timeout=, or read the loop's newest version, without "
                        "asking for an exact answer"
                    )
                if monitor.poll(0):
                    raise RunError(
                        f"the process of loop {loop!r}, which listened on {record['address']}, "
                        "has ended or cannot be reached: resume the loop, or read its newest "
                        "version, without asking for an exact answer"
                    )
            reply: Any = sock.recv_json()
        finally:
            sock.disable_monitor()
            monitor.close(linger=0)
    if "error" in reply:
        raise InputError(reply["error"]) if reply["status"] == 2 else RunError(reply["error"])
    return str(reply["loop"])
