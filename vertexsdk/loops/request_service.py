"""Answers to other processes, by the process that has a loop open.

It puts the address of a socket, and the keys to it, into the store. So all who can read the store
can ask, and no other client completes the handshake (CurveZMQ). A request and its answer are JSON.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from typing import Any

import zmq

from vertexsdk.errors import InputError, VertexError, first_line, typed_line
from vertexsdk.loops.request_client import record_name
from vertexsdk.state import Store
from vertexsdk.transport.channels import Keys, context

_WORKERS = 4  # requests that are answered at once
_WAITING = 100  # of one client, before it has to wait with more


class RequestService:
    """Answers the requests of other processes, in threads, until it is closed.

    Args:
        store: the loop's store; the service does not close it.
        loop: its name.
        what: it answers, "queries" or "calls".
        answer: makes the answer to a request, or raises what its client is told.
        host: the name or address of this host on which it listens.

    Raises:
        InputError: it cannot listen there.
        StateError: the store cannot be written.
    """

    def __init__(
        self, store: Store, loop: str, what: str, answer: Callable[[Any], Any], host: str
    ) -> None:
        self._store, self._answer, self._record = store, answer, record_name(loop)
        keys, secret = Keys.fresh()
        self._context, self._authenticator = context(keys)
        try:
            front = self._context.socket(zmq.ROUTER)
            keys.serve(front, secret)
            front.rcvhwm = _WAITING
            address = f"tcp://{host}:{_bind(front, host)}"
            back = self._context.socket(zmq.DEALER)
            back.bind("inproc://requests")
            record = {"loop": loop, "answers": what, "address": address,
                      "driver": keys.driver.decode(), "public": keys.public.decode(),
                      "secret": keys.secret.decode()}  # fmt: skip
            self._place = json.dumps(record).encode()
            self._store.backend.put_manifest(self._record, self._place)
        except BaseException:
            self._authenticator.stop()
            self._context.destroy(linger=0)
            raise
        self._threads = [threading.Thread(target=_forward, args=(front, back), daemon=True)]
        for _ in range(_WORKERS):
            self._threads.append(threading.Thread(target=self._serve, daemon=True))
        for thread in self._threads:
            thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(zmq.ContextTerminated), self._context.socket(zmq.REP) as sock:
            sock.linger = 0
            sock.connect("inproc://requests")
            while True:
                sock.send_json(self._reply(sock.recv_multipart()))

    def _reply(self, frames: list[bytes]) -> Any:
        try:
            request: Any = None  # if it cannot be read
            with contextlib.suppress(ValueError, RecursionError):
                request = json.loads(*frames) if len(frames) == 1 else None
            return self._answer(request)
        except VertexError as error:
            return {"error": first_line(error), "status": error.exit_status}
        except Exception as error:
            return {"error": typed_line(error), "status": 1}

    def close(self) -> None:
        """Stop listening; call it once."""
        self._authenticator.stop()
        self._context.term()
        for thread in self._threads:
            thread.join()
        with contextlib.suppress(VertexError):  # the store may be gone
            backend = self._store.backend
            if backend.get_manifest(self._record) == self._place:  # else of who took the loop over
                backend.delete_manifests([self._record])


def _bind(sock: zmq.Socket[bytes], host: str) -> int:
    try:
        return sock.bind_to_random_port(f"tcp://{host}")
    except zmq.ZMQError as error:
        raise InputError(
            f"this process cannot listen on {host!r} ({error}): name an address of this host, "
            "such as 127.0.0.1"
        ) from None


def _forward(front: zmq.Socket[bytes], back: zmq.Socket[bytes]) -> None:
    with contextlib.suppress(zmq.ContextTerminated), front, back:  # the service is closed
        zmq.proxy(front, back)
