"""In the gate a test starts no process and ends none: one that does is told, by an audit hook."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

__all__ = ["ProcessGuard"]

_EVENTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.kill", "os.killpg"}
_ALLOWED = (
    "Removes directories of shared arrays",  # the sweeper, which is part of `memory://`
    "fc-list",  # by which Matplotlib looks for fonts, once on a machine
    "uname",  # by which `platform` looks for the name of the processor
)


class ProcessGuard:
    """A pytest plugin: tests raise where they start or end a process, but those marked `smoke`.

    The hook stays in the process, so a run of tests has one guard.
    """

    def __init__(self) -> None:
        self._test: str | None = None
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._test is None or event not in _EVENTS:
            return
        if not any(word in str(arguments) for word in _ALLOWED):
            raise RuntimeError(
                f"{self._test}: a test of the gate must not call {event} {arguments}: mark it full"
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watch a test."""
        self._test = None if item.get_closest_marker("smoke") else item.nodeid
        try:
            return (yield)
        finally:
            self._test = None
