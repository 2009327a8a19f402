"""Asks the process that has a loop open, through its `request_service`."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from typing import Any

import zmq

from vertexsdk.errors import InputError, RunError
from vertexsdk.state import Store, open_store
from vertexsdk.state.address import Address
from vertexsdk.transport.channels import Keys

_START = "start `vertexsdk stream --follow`, or call serve_queries() of its MainLoop"
_INSTEAD = "read its newest version, without asking for an exact answer"
_LOOK_MS = 200
_GRACE = 60.0  # seconds beside those that an answer may take, for what goes before and after it
_LONGEST = 3600.0  # seconds for an answer without a limit of its own
_CLOSED = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_CONNECT_RETRIED
_REFUSED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL


def record_name(loop: str) -> str:
    """Return the name of the manifest that says where the requests of a loop are answered.

    >>> record_name("wcc")[:10]
    'service.60'
    """
    return f"service.{hashlib.sha256(loop.encode()).hexdigest()[:32]}"


class RequestClient:
    """A connection to the process that has a loop open; a context manager that closes it.

    Args:
        store: the loop's store.
        loop: its name.
        what: the process has to answer, "queries" or "calls".
        start: how to have a process answer, for messages.
        instead: what else can be done, for messages.

    Raises:
        InputError: no process answers these.
    """

    def __init__(self, store: Store, loop: str, what: str, start: str, instead: str) -> None:
        self._loop, self._instead = loop, instead
        data = store.backend.get_manifest(record_name(loop))
        record = {} if data is None else json.loads(data)
        if record.get("answers", "queries") != what or not record:
            raise InputError(
                f"no process answers the {what} of loop {loop!r} in {store.backend.location}: "
                f"{start}; or {instead}"
            )
        self._lock, self._address = threading.Lock(), record["address"]
        self._keys = Keys(*(record[name].encode() for name in ("driver", "public", "secret")))
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sock: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None

    def _connected(self) -> tuple[zmq.Socket[bytes], zmq.Socket[bytes]]:
        """Return the socket, and that which says what becomes of its connection."""
        if self._sock is None or self._monitor is None:
            self._sock = self._context.socket(zmq.REQ)
            self._keys.connect(self._sock, self._keys.driver)
            self._sock.linger = 0
            self._monitor = self._sock.get_monitor_socket(_CLOSED | _REFUSED)
            self._sock.connect(self._address)
        return self._sock, self._monitor

    def _disconnect(self) -> None:
        if self._sock is not None and self._monitor is not None:
            self._sock.disable_monitor()
            self._monitor.close(linger=0)
            self._sock.close(linger=0)
        self._sock = self._monitor = None

    def ask(self, request: Any, timeout: float | None = None) -> Any:
        """Return the answer to a request; both are what JSON takes.

        Args:
            timeout: seconds that the answer may take.

        Raises:
            InputError, RunError: what the process says, or it ended, or has not answered in
                `timeout` seconds and a minute (in an hour without `timeout`).
        """
        seconds = _LONGEST if timeout is None else timeout + _GRACE
        with self._lock:
            try:
                reply = self._reply(request, seconds)
            except BaseException:
                self._disconnect()  # its answer may come yet
                raise
        if "error" in reply:
            raise InputError(reply["error"]) if reply["status"] == 2 else RunError(reply["error"])
        return reply

    def _reply(self, request: Any, seconds: float) -> Any:
        sock, _ = self._connected()
        deadline = time.monotonic() + seconds
        self._wait(zmq.POLLOUT, seconds, deadline)
        sock.send_json(request)
        self._wait(zmq.POLLIN, seconds, deadline)
        return sock.recv_json()

    def _wait(self, event: int, seconds: float, deadline: float) -> None:
        """Wait until a request can be sent, or an answer has come."""
        sock, monitor = self._connected()
        while not sock.poll(_LOOK_MS, event):
            if time.monotonic() > deadline:
                raise RunError(
                    f"the process of loop {self._loop!r} has not answered in {seconds:,.0f} s: "
                    f"ask again with another timeout=, or {self._instead}"
                )
            if monitor.poll(0):
                raise RunError(
                    f"the process of loop {self._loop!r}, which listened on {self._address}, has "
                    f"ended or cannot be reached: resume the loop, or {self._instead}"
                )

    def close(self) -> None:
        """End the connection; may be called twice."""
        with self._lock:
            self._disconnect()
            self._context.term()

    def __enter__(self) -> RequestClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ask(backend: str | Address, loop: str, timeout: float | None = None) -> str:
    """Have the process of a main loop compute the exact answer.

    Args:
        backend: URL of the loop's store.
        timeout: seconds after which its iterations are stopped.

    Returns:
        The name of the answer in the store.

    Raises:
        InputError: no process answers the queries of the loop.
        RunError: the answer could not be computed, its process ended, or it did not answer in time.
    """
    with open_store(backend, create=False) as store:
        if store.head(loop) is None:
            raise store.unknown_loop(loop)
        client = RequestClient(store, loop, "queries", _START, _INSTEAD)
    with client:
        return str(client.ask({"timeout": timeout}, timeout)["loop"])
