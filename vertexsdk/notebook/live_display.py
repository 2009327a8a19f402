"""Progress that a cell of a notebook shows while it runs: a widget of tqdm, or a line of text.

Both are replaced in place, so that a saved notebook has one output and not a hundred.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
import warnings
from typing import Any, Protocol

_EVERY = 0.2  # seconds, at least, between two updates


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook.

    >>> in_notebook()
    False
    """
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


class LiveDisplay(Protocol):
    """One progress display below a cell."""

    def show(self, text: str, done: int | None) -> None:
        """Show what happens, and how many iterations are done."""

    def close(self) -> None:
        """Take the display away."""


def live_display(name: str, total: int | None) -> LiveDisplay:
    """Return a display: tqdm's widget where tqdm is installed, a line of text otherwise.

    Args:
        name: the name of what runs.
        total: the number of iterations, where it is known.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets it is a bar of text, and warns of that
        try:
            tqdm: Any = importlib.import_module("tqdm.auto").tqdm
        except ImportError:
            return _Line(name)
        return _Bar(tqdm(desc=name, total=total, leave=False, unit=" iterations"))


class _Bar:
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def show(self, text: str, done: int | None) -> None:
        if done is not None:
            self._bar.n = done if self._bar.total is None else min(done, self._bar.total)
        self._bar.set_postfix_str(text)  # and refresh

    def close(self) -> None:
        self._bar.close()


class _Line:
    def __init__(self, name: str) -> None:
        self._name, self._began = name, time.monotonic()
        self._handle: Any = None
        self._display: Any = importlib.import_module("IPython.display").display

    def show(self, text: str, done: int | None) -> None:
        seconds = time.monotonic() - self._began
        shown = {"text/plain": f"{self._name} {seconds:.1f} s · {text}"}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


class Throttled:
    """A display that is updated at most five times a second; it appears when something is said.

    Args:
        name, total: as for `live_display`.
    """

    def __init__(self, name: str, total: int | None) -> None:
        self._name, self._total = name, total
        self._display: LiveDisplay | None = None
        self._shown = float("-inf")

    def show(self, text: str, done: int | None = None) -> None:
        """Show what happens; without `done` at once."""
        now = time.monotonic()
        if done is not None and now - self._shown < _EVERY:
            return
        self._shown = now
        if self._display is None:
            self._display = live_display(self._name, self._total)
        with contextlib.suppress(Exception):  # a display that fails must not end a run
            self._display.show(text, done)

    def close(self) -> None:
        """Take the display away; the next `show` brings it back."""
        if self._display is not None:
            with contextlib.suppress(Exception):
                self._display.close()
            self._display = None
