"""SIGTERM to a driver of one's own: the call of a loop is finished, and the loop is closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vertexsdk import MainLoop, exit_on_sigterm
from vertexsdk.loops import signals
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.signals import finished_first
from vertexsdk.state import open_store

DRIVER = """
import sys
from vertexsdk import Graph, MainLoop, exit_on_sigterm

graph = Graph.from_arrays([0], [1])
options = {"backend": sys.argv[1], "snapshot_every": "1h"}
with exit_on_sigterm(), MainLoop("wcc", graph, **options) as main:
    for k in range(50):
        main.ingest([("+", k, k + 1)], source="s", offset=k)
    print("ready", flush=True)
    while True:
        k += 1
        main.ingest([("-", 49, 50), ("+", 49, 50)] * (k == 50), source="s", offset=k)
"""


@pytest.fixture(autouse=True)
def _main_thread() -> Iterator[None]:
    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) is before


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.processes
@pytest.mark.full
def test_a_driver_closes_its_loop(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", DRIVER, url]
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n"
        time.sleep(0.2)
        driver.terminate()
        _, said = driver.communicate(timeout=60)
    assert (driver.returncode, said) == (143, "")
    with open_store(url) as store:
        ledger = Ledger.read(store.version("wcc"))
    assert (ledger.received, ledger.graph) == (52, 52)  # it has taken a snapshot
    with MainLoop.resume(None, "wcc", backend=url) as main:
        assert main.changes == 52
        assert main.query().lookup([50]) == {50: {"component": 0}}


def status_of(work: Callable[[], None]) -> object:
    """The exit status of a driver that does that."""
    with pytest.raises(SystemExit) as ended, exit_on_sigterm():
        work()
    return ended.value.code


@pytest.mark.full
def test_a_call_is_finished_first() -> None:
    done = []

    def work() -> None:
        with finished_first():
            with finished_first():
                terminate()
                time.sleep(0.05)
            done.append(1)
        done.append(2)

    assert status_of(work) == 143
    assert done == [1]


@pytest.mark.full
def test_outside_a_call_it_ends_at_once() -> None:
    began = time.monotonic()

    def work() -> None:
        terminate()
        time.sleep(30)

    assert status_of(work) == 143
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("second", [True, False])
@pytest.mark.full
def test_a_call_that_takes_long_is_cut_short(second: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "WAIT_SECONDS", 60.0 if second else 0.2)
    began = time.monotonic()

    def work() -> None:
        with finished_first():
            terminate()
            if second:
                terminate()
            time.sleep(30)

    assert status_of(work) == 143
    assert time.monotonic() - began < 10
    time.sleep(0.3)  # no late signal comes


@pytest.mark.full
def test_a_handler_of_one_s_own_stays() -> None:
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    try:
        with exit_on_sigterm():
            terminate()
            time.sleep(0.05)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [1]


def test_another_thread_changes_nothing() -> None:
    def work() -> None:
        with exit_on_sigterm(), finished_first():
            handlers.append(signal.getsignal(signal.SIGTERM))

    handlers: list[object] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]
