"""No test outlives its limit: a test that hangs is named, and its process is ended.

pytest-timeout raises an exception in the main thread, once, and cancels its timer at the first
failure. So a `close()`, the teardown of a fixture or the exit of the process may still hang. The
timer here is that of `faulthandler`: it needs neither the interpreter lock nor an exception. It is
set for each test, again after a failure, and once more when the tests of a process are done.

Written to `build/ci`, one file for each process:
    journal-*: which tests began and ended, and which threads they left running;
    stacks-*: what each thread did when the process was ended.
"""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

__all__ = ["PLACE", "FilesOnce", "Watchdog", "hung_tests"]

# Where the files of a run go; `./dev` gives each run of tests a directory of its own.
_DIRECT = Path(__file__).parents[2] / "build" / "ci" / "direct"
PLACE = Path(os.environ.get("VERTEXSDK_TEST_REPORTS", _DIRECT))
GRACE = float(os.environ.get("VERTEXSDK_TEST_GRACE", "30"))  # seconds after a test's own limit


class Watchdog:
    """A pytest plugin.

    Args:
        config: of this process: pytest's own, or that of a worker of pytest-xdist.
        place: the directory of the files.
    """

    def __init__(self, config: pytest.Config, place: Path = PLACE) -> None:
        self.config, self.place = config, place
        self._worker = hasattr(config, "workerinput")
        place.mkdir(parents=True, exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        name = f"{worker}-{os.getpid()}.txt"
        self._stacks = (place / f"stacks-{name}").open("w")  # tests capture file descriptor 2
        self._journal = (place / f"journal-{name}").open("w", buffering=1)

    def _set(self, item: pytest.Item) -> None:
        """Give a test, or what is left of it, its limit."""
        mark = item.get_closest_marker("timeout")
        limit = mark.args[0] if mark and mark.args else self.config.getini("timeout")
        faulthandler.dump_traceback_later(float(limit) + GRACE, exit=True, file=self._stacks)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run a test under its limit."""
        began, threads = time.monotonic(), set(threading.enumerate())
        self._journal.write(f"begin {item.nodeid}\n")
        self._set(item)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            for thread in set(threading.enumerate()) - threads:
                if not thread.daemon:
                    self._journal.write(f"thread {thread.name} of {item.nodeid}\n")
            self._journal.write(f"end {time.monotonic() - began:.1f} {item.nodeid}\n")

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self, node: Any) -> None:
        """Set the timer again: pytest-timeout has just cancelled its own."""
        if isinstance(node, pytest.Item):
            self._set(node)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Limit the exit of the process, in which threads are joined and fixtures are closed.

        That of a worker begins when the others have ended too.
        """
        if self._worker:
            threading._register_atexit(self._limit_exit)  # type: ignore[attr-defined]
        else:
            self._limit_exit()

    def _limit_exit(self) -> None:
        self._journal.write("exit\n")
        faulthandler.dump_traceback_later(2 * GRACE, exit=True, file=self._stacks)


class FilesOnce(LoadFileScheduling):
    """The scheduler of pytest-xdist for `--dist loadfile`, which runs each test once.

    That of pytest-xdist gives another worker all files of one that has ended: with the test that
    ended it, and with files of which all is done, after which it waits for ever; as it does where
    another worker gets a file of one test.
    """

    def remove_node(self, node: Any) -> str | None:
        """Give the tests which a worker has not begun to others; return the one that it was in."""
        units = self.assigned_work[node]
        tests = ((unit, test) for unit in units.values() for test, done in unit.items() if not done)
        unit, crashed = next(tests, ({}, None))
        if crashed is not None:
            unit[crashed] = True
        for scope in [scope for scope, unit in units.items() if all(unit.values())]:
            del units[scope]
        super().remove_node(node)
        return crashed

    def _reschedule(self, node: Any) -> None:
        """Give a worker files until it has more than two tests, as it keeps its last one back."""
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 2:
            super()._reschedule(node)


def hung_tests(place: Path = PLACE) -> list[str]:
    """Return a line for each process that was ended: its test, or the tests that left threads."""
    lines = []
    for stacks in sorted(place.glob("stacks-*.txt")):
        if "Timeout" not in stacks.read_text(errors="replace"):
            continue
        journal = (
            stacks.with_name(stacks.name.replace("stacks", "journal")).read_text().splitlines()
        )
        begun = [line.partition(" ")[2] for line in journal if line.startswith("begin ")]
        if journal and journal[-1].startswith("begin "):
            lines.append(f"{begun[-1]} hung; see {stacks}")
            continue
        threads = [line.removeprefix("thread ") for line in journal if line.startswith("thread ")]
        of = "; threads left: " + ", ".join(threads[-5:]) if threads else ""
        after = f", after {begun[-1]}" if begun else ""
        lines.append(f"a process hung at its exit{after}{of}; see {stacks}")
    return lines
