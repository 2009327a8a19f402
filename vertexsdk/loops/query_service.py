"""Exact answers for other processes: they ask the process of a main loop to fork a branch.

The loop's process puts the address of a socket, and the keys to it, into the store. So whoever can
read the store can ask, and nobody else completes the handshake (CurveZMQ). The answer is a loop of
the store, which the other process reads as it reads any other.
"""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import zmq

from vertexsdk.errors import InputError, RunError, VertexError, first_line, typed_line
from vertexsdk.loops._ledger import Ledger
from vertexsdk.loops._query_client import record_name
from vertexsdk.state import StateInputError, open_store
from vertexsdk.transport.channels import Keys, context

if TYPE_CHECKING:
    from vertexsdk.loops._history import LoopHistory
    from vertexsdk.loops.branch_loop import BranchLoop

KEEP = 100  # answers that stay in the store
_WORKERS = 4  # requests that are answered at once
_WAITING = 100  # of one client, before it has to wait with more


class QueryService:
    """Answers the queries of other processes, in threads, until it is closed.

    Args:
        history: of the loop.
        fork: forks a branch of the loop, by its name; each query is one.
        host: the name or address of this host on which it listens.

    Raises:
        InputError: it cannot listen there.
        StateError: the store cannot be written.
    """

    def __init__(self, history: LoopHistory, fork: Callable[[str], BranchLoop], host: str) -> None:
        self._loop, self._program = history.loop, history.config.program.name
        self._fork, self._store = fork, open_store(history.config.address, create=False)
        self._lock, self._answers = threading.Lock(), deque[str]()
        self._running: set[BranchLoop] = set()
        self._closed = False
        keys, secret = Keys.fresh()
        self._context, self._authenticator = context(keys)
        self._record = record_name(self._loop)
        try:
            front = self._context.socket(zmq.ROUTER)
            keys.serve(front, secret)
            front.rcvhwm = _WAITING
            address = f"tcp://{host}:{_bind(front, host)}"
            back = self._context.socket(zmq.DEALER)
            back.bind("inproc://requests")
            self._delete_answers(self._left_over())
            record = {"loop": self._loop, "address": address, "driver": keys.driver.decode(),
                      "public": keys.public.decode(), "secret": keys.secret.decode()}  # fmt: skip
            self._store.backend.put_manifest(self._record, json.dumps(record).encode())
        except BaseException:
            self._authenticator.stop()
            self._context.destroy(linger=0)
            self._store.close()
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

    def _reply(self, request: list[bytes]) -> dict[str, Any]:
        try:
            return {"loop": self._answer(_timeout_of(request))}
        except VertexError as error:
            return {"error": first_line(error), "status": error.exit_status}
        except Exception as error:
            return {"error": typed_line(error), "status": 1}

    def _answer(self, timeout: float | None) -> str:
        """Have a branch compute the exact answer; return its name in the store."""
        with self._fork(f"{self._loop}-exact-{uuid.uuid4().hex[:12]}") as branch:
            with self._lock:
                if self._closed:
                    raise RunError(f"the process of loop {self._loop!r} is ending")
                self._running.add(branch)
            try:
                branch.start(timeout=timeout).result().close()
                with branch._history.lock:
                    branch._history.settle()
            except BaseException:
                branch.close(forget=True)
                raise
            finally:
                self._running.discard(branch)
        with self._lock:
            self._answers.append(branch.loop)
            old = [self._answers.popleft() for _ in range(len(self._answers) - KEEP)]
            self._delete_answers(old)
        return branch.loop

    def _left_over(self) -> list[str]:
        """The answers of an earlier process of this loop."""
        prefix, program = f"{self._loop}-exact-", self._program
        names = [n for n in self._store.backend.list_heads() if n.startswith(prefix)]
        heads = {name: self._store.head(name) for name in names}
        return [n for n, m in heads.items() if m and m.program == program and Ledger.of(m)]

    def _delete_answers(self, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(StateInputError):  # somebody else deleted it
                self._store.delete(name)

    def close(self) -> None:
        """Stop listening, and delete the answers; may be called twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for branch in self._running:
                branch.cancel()
        self._authenticator.stop()
        self._context.term()
        for thread in self._threads:
            thread.join()
        with contextlib.suppress(VertexError):  # the store may be gone
            self._store.backend.delete_manifests([self._record])
            self._delete_answers([*self._answers])
        self._store.close()


def _bind(sock: zmq.Socket[bytes], host: str) -> int:
    try:
        return sock.bind_to_random_port(f"tcp://{host}")
    except zmq.ZMQError as error:
        raise InputError(
            f"this process cannot listen on {host!r} ({error}): name an address of this host, "
            "such as 127.0.0.1"
        ) from None


def _timeout_of(request: list[bytes]) -> float | None:
    """The seconds that a request allows.

    Raises:
        InputError: it is not a request.
    """
    try:
        (body,) = request
        timeout = json.loads(body)["timeout"]
        if timeout is None or (type(timeout) in (int, float) and timeout >= 0):
            return timeout  # type: ignore[no-any-return]
    except (LookupError, TypeError, ValueError, RecursionError):
        pass
    raise InputError('a query is one frame of JSON, {"timeout": seconds or null}')


def _forward(front: zmq.Socket[bytes], back: zmq.Socket[bytes]) -> None:
    with contextlib.suppress(zmq.ContextTerminated), front, back:  # the service is closed
        zmq.proxy(front, back)
