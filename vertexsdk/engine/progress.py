"""The display of a run's progress: a live line on a terminal or in a notebook, else log lines."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType

from vertexsdk.notebook.live_display import Throttled, in_notebook

_log = logging.getLogger("vertexsdk")
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class ProgressBar:
    """The state of one run: iteration, updates/s, messages/s.

    Args:
        name: the loop's name.
        show: draw a live line on standard error; None draws it where that is a terminal. In a
            notebook either is a widget below the cell.
        total: the number of iterations, where it is known.
    """

    def __init__(self, name: str, show: bool | None, total: int | None = None) -> None:
        self.name = name
        self._cell = Throttled(name, total) if show is not False and in_notebook() else None
        self.live = self._cell is None and (sys.stderr.isatty() if show is None else show)
        self._text = "starting"
        self._noted: set[str] = set()
        self._began = self._updated = time.monotonic()
        self._counts = 0, 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Begin to draw, if that is not done already."""
        if self.live and self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._draw, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Take the line away; `open` draws it again."""
        if self._cell is not None:
            self._cell.close()
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def __enter__(self) -> ProgressBar:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def say(self, text: str, done: int | None = None) -> None:
        """Show the current activity, and the number of completed iterations."""
        self._text = text
        _log.info("%s: %s", self.name, text)
        if self._cell is not None:
            self._cell.show(text, done)

    def note(self, text: str) -> None:
        """Tell something that is to stay on the screen, once."""
        if text in self._noted:
            return
        self._noted.add(text)
        if self.live:
            sys.stderr.write("\r\x1b[K")
        if self._cell is not None:
            sys.stderr.write(f"{self.name}: {text}\n")
        else:
            _log.warning("%s: %s", self.name, text)

    @contextlib.contextmanager
    def noted_after(self, seconds: float, text: str) -> Iterator[None]:
        """Tell something, to stay on the screen, if the block takes longer than some seconds.

        In a notebook what is said meanwhile suffices, and nothing stays below the cell.
        """
        if self._cell is not None:
            yield
            return
        timer = threading.Timer(seconds, self.note, (text,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def update(self, iteration: int, updates: int, messages: int) -> None:
        """Tell the last iteration, and how many updates and messages there were in all."""
        now = time.monotonic()
        seconds = max(now - self._updated, 1e-6)
        rates = [
            _short((a - b) / seconds)
            for a, b in zip((updates, messages), self._counts, strict=True)
        ]
        self._updated, self._counts = now, (updates, messages)
        text = f"iteration {iteration} · {rates[0]} updates/s · {rates[1]} messages/s"
        self.say(text, iteration)

    def _draw(self) -> None:
        frame = 0
        while not self._stop.wait(0.1):
            frame += 1
            seconds = time.monotonic() - self._began
            spinner = _SPINNER[frame % len(_SPINNER)]
            line = f"{spinner} {self.name} {seconds:5.1f} s · {self._text}"
            sys.stderr.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()


def _short(rate: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate >= size:
            return f"{rate / size:.1f} {unit}"
    return f"{rate:.0f}"
