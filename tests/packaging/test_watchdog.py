"""A test that hangs is named, and ends with its process: in its body, in a teardown, at exit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.watchdog import hung_tests

pytestmark = pytest.mark.full

CONFTEST = """
from pathlib import Path
from tests.support.watchdog import FilesOnce, Watchdog

def pytest_configure(config):
    place = Path(config.rootpath) / "ci"
    config.pluginmanager.register(Watchdog(config, place))

def pytest_xdist_make_scheduler(config, log):
    return FilesOnce(config, log)
"""

HANGS = """
import threading
import pytest

def wait_for_ever():
    while True:
        try:
            threading.Lock().acquire() and threading.Event().wait()
        except BaseException:  # pytest-timeout raises once
            pass

def test_quick():
    pass

def test_body():
    wait_for_ever()

@pytest.fixture
def closed():
    yield
    wait_for_ever()

def test_teardown(closed):
    assert False

def test_after():
    pass
"""

EXIT = """
import threading

def test_exit():
    threading.Thread(target=threading.Event().wait, name="forgotten").start()
"""

LONG = """
import time

import pytest

@pytest.mark.parametrize("number", range(10))
def test_long(number):
    time.sleep(0.6)
"""


def run_tests(place: Path, tests: str, *options: str) -> tuple[int, str, float]:
    (place / "conftest.py").write_text(CONFTEST)
    (place / "test_hangs.py").write_text(tests)
    (place / "pytest.ini").write_text("[pytest]\ntimeout = 1\n")
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "VERTEXSDK_TEST_GRACE": "1", "PYTHONPATH": root}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    began = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=place, env=environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    return process.returncode, process.stdout + process.stderr, time.monotonic() - began


def test_bodies_and_teardowns(tmp_path: Path) -> None:
    for k in range(3):  # more files than a worker has at once
        (tmp_path / f"test_a{k}.py").write_text("def test_early(): pass")
        (tmp_path / f"test_z{k}.py").write_text("def test_late(): pass")
    status, output, seconds = run_tests(tmp_path, HANGS, "-n", "1", "--dist", "loadfile")
    assert status == 1, output
    assert "crashed while running 'test_hangs.py::test_body'" in output
    assert "crashed while running 'test_hangs.py::test_teardown'" in output
    assert "8 passed" in output  # the tests before, and those after, by other workers
    tests = [line.partition(" hung; see ")[0] for line in hung_tests(tmp_path / "ci")]
    assert tests == ["test_hangs.py::test_body", "test_hangs.py::test_teardown"]
    stacks = "".join(file.read_text() for file in (tmp_path / "ci").glob("stacks-*"))
    assert "in wait_for_ever" in stacks
    assert seconds < 60  # of which most is the start of processes


@pytest.mark.parametrize("options", [[], ["-n", "1"]])
def test_exits(tmp_path: Path, options: list[str]) -> None:
    status, output, seconds = run_tests(tmp_path, EXIT, *options)
    assert status == (0 if options else 1), output  # what a worker does after its tests
    (line,) = hung_tests(tmp_path / "ci")
    assert line.startswith("a process hung at its exit, after test_hangs.py::test_exit; ")
    assert "forgotten of test_hangs.py::test_exit" in line
    assert seconds < 60


def test_a_worker_without_tests_may_wait_for_the_others(tmp_path: Path) -> None:
    (tmp_path / "test_long.py").write_text(LONG)
    status, output, _ = run_tests(
        tmp_path, "def test_short(): pass", "-n", "2", "--dist", "loadfile"
    )
    assert (status, hung_tests(tmp_path / "ci")) == (0, []), output
