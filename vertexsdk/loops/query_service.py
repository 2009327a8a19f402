"""Exact answers for other processes: they ask the process of a main loop to fork a branch.

The answer is a loop of the store, which the other process reads as it reads any other.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vertexsdk.errors import InputError, RunError, VertexError
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.request_service import RequestService
from vertexsdk.state import StateInputError, open_store

if TYPE_CHECKING:
    from vertexsdk.loops.branch_loop import BranchLoop
    from vertexsdk.loops.history import LoopHistory


KEEP = 100  # answers that stay in the store


class QueryService:
    """Answers the queries of other processes, in threads, until it is closed.

    Args:
        history: the loop's history.
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
        try:
            self._delete_answers(self._left_over())
            self._service = RequestService(self._store, self._loop, "queries", self._reply, host)
        except BaseException:
            self._store.close()
            raise

    def _reply(self, request: Any) -> dict[str, str]:
        return {"loop": self._answer(_timeout_of(request))}

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
        self._service.close()
        with contextlib.suppress(VertexError):  # the store may be gone
            self._delete_answers([*self._answers])
        self._store.close()


def _timeout_of(request: Any) -> float | None:
    """The seconds that a request allows.

    Raises:
        InputError: it is not a request.
    """
    if isinstance(request, dict) and "timeout" in request:
        timeout = request["timeout"]
        if timeout is None or (type(timeout) in (int, float) and timeout >= 0):
            return timeout  # type: ignore[no-any-return]
    raise InputError('a query is one frame of JSON, {"timeout": seconds or null}')
