"""Writes to a store in a thread, in order, while the caller continues.

In this process nothing reads the store past them: a reader of a loop's versions waits for the
writes that were handed over earlier (`wait_for_writes`).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

from vertexsdk.errors import StateError

T = TypeVar("T")
_pending: dict[str, set[Future[Any]]] = {}  # by the location of the store
_all: weakref.WeakSet[WriteBehind] = weakref.WeakSet()
_lock = threading.Lock()
_writing = threading.local()  # in a thread that writes


class WriteBehind:
    """One thread that writes to the store at `location`.

    Attributes:
        lock: held while it writes, and by other users of its connection.

    Example:
        >>> writes = WriteBehind("memory://docs")
        >>> writes.submit(lambda: 7).result()
        7
        >>> writes.close()
    """

    def __init__(self, location: str) -> None:
        self._location = location
        self.lock = threading.RLock()
        self._thread: ThreadPoolExecutor | None = None
        self._pending: set[Future[Any]] = set()
        _all.add(self)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Call `work` after what was submitted before; what that raised does not matter to it."""
        future: Future[T] | None = None
        with _lock:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "vertexsdk-writes", _begin)
            try:
                future = self._thread.submit(self._locked, work)
            except RuntimeError:  # the interpreter ends when its other threads have ended
                pass
            else:
                self._pending.add(future)
                _pending.setdefault(self._location, set()).add(future)
        if future is None:
            self.wait()
            return _done(partial(self._locked, work))
        future.add_done_callback(self._forget)
        return future

    def _locked(self, work: Callable[[], T]) -> T:
        with self.lock:
            return work()

    def _forget(self, future: Future[Any]) -> None:
        with _lock:
            self._pending.discard(future)
            writes = _pending.get(self._location, set())
            writes.discard(future)
            if not writes:
                _pending.pop(self._location, None)

    def wait(self) -> None:
        """Wait until everything that was submitted is written, or failed."""
        if self._pending:
            with _lock:
                pending = set(self._pending)
            wait(pending)

    def close(self) -> None:
        """Wait for all writes, and end the thread."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
            self._thread = None


def wait_for_writes(location: str) -> None:
    """Wait for what this process is writing to the store at `location`, written or failed."""
    if location not in _pending or getattr(_writing, "now", False):
        return
    with _lock:
        writes = set(_pending.get(location, ()))
    wait(writes)


def _done(work: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
    return future


def _begin() -> None:
    _writing.now = True


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for future in set[Future[Any]]().union(*_pending.values()):
        Future.__init__(future)  # a thread of the parent may hold its lock
        future.set_exception(StateError("this process was forked while its parent wrote"))
    _pending.clear()
    for writes in list(_all):
        writes._thread, writes._pending, writes.lock = None, set(), threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
