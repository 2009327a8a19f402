"""Signals that end a process which runs a main loop, in good order.

What a loop has acknowledged is in its store, so a process may end at any instant. One that ends in
good order also closes its loops, so that resuming them replays less. A loop whose call
was cut short cannot be closed like that: its engine holds half of it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from types import FrameType

WAIT_SECONDS = 10.0  # for the call of a loop that a signal meets


@contextlib.contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Have SIGTERM end the process as `sys.exit(143)` does: by an exception, in the main thread.

    Python's own answer to SIGTERM is to end at once, without leaving any `with` block. Within this
    one the call of a main loop that runs (`ingest`, `query`) is finished first, if that takes no
    longer than ten seconds; then `SystemExit` is raised, so main loops are closed, and those that
    take snapshots take one. A second SIGTERM does not wait for the call, a third ends the process
    at once. Does nothing outside the main thread, or if the process handles SIGTERM already.

    Returns:
        A context manager.

    Example:
        >>> from vertexsdk import Graph, MainLoop, exit_on_sigterm
        >>> graph = Graph.from_arrays([1], [2])
        >>> with exit_on_sigterm(), MainLoop("wcc", graph, backend="memory://signals") as main:
        ...     counts = main.ingest([("+", 2, 3)])
    """
    with _raised({signal.SIGTERM: SystemExit(128 + signal.SIGTERM)}, waits=True):
        yield


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Have Ctrl-C and SIGTERM raise a KeyboardInterrupt that says which; a second ends at once."""
    errors: dict[int, BaseException] = {
        signal.SIGINT: KeyboardInterrupt("interrupted"),
        signal.SIGTERM: KeyboardInterrupt("ended by SIGTERM"),
    }
    with _raised(errors, waits=False):
        yield


class _Pending:
    """The signal that waits for a call, of the main thread.

    Attributes:
        calls: how many are running, one within the other.
        number: the signal's number; None if there is none.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.number: int | None = None
        self._timer: threading.Timer | None = None

    def wait(self, number: int) -> None:
        """Have a signal wait for the calls, and come again if they take long."""
        self.number = number
        self._timer = threading.Timer(WAIT_SECONDS, os.kill, (os.getpid(), number))
        self._timer.daemon = True
        self._timer.start()

    def forget(self) -> None:
        """Wait no more."""
        self.number = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_pending = _Pending()


@contextlib.contextmanager
def finished_first() -> Iterator[None]:
    """Have a signal wait for the block, which is a call of a main loop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _pending.calls += 1
    try:
        yield
    finally:
        _pending.calls -= 1
        if _pending.number is not None and not _pending.calls:
            signal.raise_signal(_pending.number)


@contextlib.contextmanager
def _raised(errors: Mapping[int, BaseException], *, waits: bool) -> Iterator[None]:
    """Raise errors at signals that the process does not handle."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    silent = logging.NullHandler()
    usual = {number: signal.getsignal(number) for number in errors}

    def end(number: int, _: FrameType | None) -> None:
        if waits and _pending.calls and _pending.number is None:
            _pending.wait(number)
            return
        _pending.forget()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        logging.getLogger().addHandler(silent)  # py4j logs the call that is cut short
        raise errors[number]

    for number, handler in usual.items():
        if handler in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, end)
    try:
        yield
    finally:
        _pending.forget()
        logging.getLogger().removeHandler(silent)
        for number, handler in usual.items():
            signal.signal(number, handler)
