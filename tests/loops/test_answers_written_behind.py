"""Answers that are written to the store while the caller goes on."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vertexsdk import Graph, MainLoop, read
from vertexsdk.algorithms import ConnectedComponents
from vertexsdk.loops.branch_loop import BranchLoop
from vertexsdk.state import FencedError, FullError, StateError, Store, open_store

ANSWER = {1: 1, 2: 1, 3: 1}
OTHER_PROCESS = """
import sys, vertexsdk
print(sorted(vertexsdk.read(sys.argv[1], "loop-1").to_dict().items()))
"""
OTHER_THREAD = """
import sys, threading, time
from vertexsdk import Graph, MainLoop
from vertexsdk.algorithms import ConnectedComponents
graph = Graph.from_arrays([1, 2], [2, 3])
main = MainLoop(ConnectedComponents, graph, backend=sys.argv[1], loop="loop")
def work():
    for k in (4, 5):
        time.sleep(0.5)
        main.ingest([("+", 3, k)])
        print(len(main.query().to_dict()))
    main.close()
threading.Thread(target=work).start()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"lmdb://{tmp_path}/state"


@pytest.fixture
def main(url: str) -> Iterator[MainLoop]:
    graph = Graph.from_arrays([1, 2], [2, 3])
    with MainLoop(ConnectedComponents, graph, backend=url, loop="loop") as main:
        yield main


def wrap(monkeypatch: pytest.MonkeyPatch, before: Callable[[], None]) -> None:
    """Call a function in the thread that writes, before each version."""
    publish = Store._publish

    def wrapped(self: Store, *args: Any) -> Any:
        if threading.current_thread().name.startswith("vertexsdk-writes"):
            before()
        return publish(self, *args)

    monkeypatch.setattr(Store, "_publish", wrapped)


def fill(*_: Any) -> None:
    raise FullError("no room")


def grow(main: MainLoop) -> None:
    """Have a loop with several deltas, of the vertices 1 to 7."""
    for k in range(4, 8):
        main.ingest([("+", 3, k)])
        main.query(persist=True).close()


def compacts(monkeypatch: pytest.MonkeyPatch, url: str) -> threading.Event:
    """Have the loop compacted once while an answer is written; return what is set then."""
    compacted = threading.Event()

    def compact() -> None:
        if not compacted.is_set():
            compacted.set()
            with open_store(url) as store:
                store.compact("loop")

    wrap(monkeypatch, compact)
    return compacted


def to_dict(result: Any) -> dict[Any, Any]:
    with contextlib.closing(result):
        found: dict[Any, Any] = result.to_dict()
        return found


def test_an_answer_is_read_before_it_is_written(
    main: MainLoop, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    wrap(monkeypatch, lambda: None if go_on.wait(60) else pytest.fail("nobody went on"))
    answer = main.query()
    assert answer.lookup([3]) == {3: {"component": 1}}
    assert to_dict(main.read()) == ANSWER
    assert main.lookup(2)[2]["component"] == 1
    threading.Timer(0.2, go_on.set).start()
    assert to_dict(read(url, "loop-1")) == ANSWER  # waits, as all of this process
    main.ingest([("-", 2, 3), ("+", 5, 6)])
    main.query().close()
    assert to_dict(answer) == ANSWER


@pytest.mark.full
def test_persist_waits_so_that_others_can_read(main: MainLoop, url: str) -> None:
    main.query(persist=True).close()
    command = [sys.executable, "-c", OTHER_PROCESS, url]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert out.strip() == str(sorted(ANSWER.items()))


def test_a_store_without_room_for_an_answer(
    main: MainLoop, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        wrap(full, fill)
        answer = main.query()
        assert answer.to_dict() == ANSWER
        with pytest.raises(FullError, match="no room"):
            main.query(persist=True)
        full.setattr(Store, "_publish", fill)
        with pytest.raises(StateError, match="no room"):
            main.ingest([("+", 3, 4)])
    assert main.ingest([("+", 3, 4)])["added"] == 1
    assert to_dict(main.query()) == {**ANSWER, 4: 1}
    assert to_dict(answer) == ANSWER
    with open_store(url) as store:
        store.collect(0, alone=True)
        assert store.audit().unreferenced == []
        assert store.verify() == []


def test_a_failure_at_the_end_is_told(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    graph = Graph.from_arrays([1, 2], [2, 3])
    main = MainLoop(ConnectedComponents, graph, backend=url, loop="loop")
    main.ingest([("+", 3, 4)])
    wrap(monkeypatch, fill)
    with caplog.at_level(logging.WARNING, "vertexsdk"):
        main.query().close()
        main.close()
    assert any("not in the store: no room" in r.getMessage() for r in caplog.records)
    monkeypatch.undo()
    again = MainLoop.resume(None, ConnectedComponents, backend=url, loop="loop")
    assert to_dict(again.query()) == {**ANSWER, 4: 1}
    again.close()


def test_a_driver_that_took_over_stops_this_one(main: MainLoop, url: str) -> None:
    main.query(persist=True).close()
    other = MainLoop.resume(None, ConnectedComponents, backend=url, loop="loop")
    main.query().close()
    with pytest.raises(FencedError):
        main.ingest([("+", 3, 4)])
    with pytest.raises(FencedError):
        main.query()
    assert to_dict(other.query()) == ANSWER
    other.close()


def test_a_branch_of_an_answer_that_is_not_written(
    main: MainLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrap(monkeypatch, lambda: time.sleep(0.05))
    main.query().close()
    with main.fork() as branch:
        branch.apply([("+", 3, 4)])
        assert to_dict(branch.result()) == {**ANSWER, 4: 1}
        with branch.fork() as second:
            second.apply([("-", 1, 2)])
            assert to_dict(second.result()) == {2: 2, 3: 2, 4: 2}
        branch.merge()
    assert to_dict(main.query()) == {**ANSWER, 4: 1}


def test_a_loop_compacted_while_an_answer_is_written(
    main: MainLoop, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(main)
    compacted = compacts(monkeypatch, url)
    main.ingest([("+", 3, 9)])
    main.query().close()
    main.ingest([("+", 3, 10)])
    everything = {1, 2, 3, 4, 5, 6, 7, 9, 10}
    assert to_dict(main.query(persist=True)) == dict.fromkeys(everything, 1)
    assert compacted.is_set()
    assert to_dict(read(url, "loop")) == dict.fromkeys(everything, 1)


def test_an_answer_that_cannot_be_stored_is_no_other_one(
    main: MainLoop, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.query(persist=True).close()
    main.ingest([("+", 3, 4)])
    with monkeypatch.context() as full:
        wrap(full, fill)
        answer = main.query()
        with open_store(url) as store:
            assert store.loops() == ["loop", "loop-1"]  # where loop-2 would be the old version
    with pytest.raises(StateError, match="no room"):
        main.ingest([("+", 4, 5)])
    with open_store(url) as store:  # nothing in it refers to what the answer was built on
        main.ingest([("+", 4, 5)])
        main.query(persist=True).close()
        store.prune("loop", 1)
        store.delete("loop-1")
        store.collect(0, alone=True)
        assert to_dict(answer) == {**ANSWER, 4: 1}
        store.collect(0, alone=True)
        assert store.audit().unreferenced == store.verify() == []


def test_an_answer_of_a_fenced_loop_replaces_none(main: MainLoop, url: str) -> None:
    main.query(persist=True).close()
    with MainLoop.resume(None, ConnectedComponents, backend=url, loop="loop") as other:
        other.ingest([("+", 3, 9)])
        other.query(persist=True).close()
        other.ingest([("+", 9, 10)])
        main.query().close()
        assert to_dict(read(url, "loop-2")) == {**ANSWER, 9: 1}


def without_merge(*args: Any, merge: object) -> BranchLoop:
    return BranchLoop(*args)


def test_a_query_beside_a_stream_persists_too(
    main: MainLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.shared = True
    monkeypatch.setattr("vertexsdk.loops.main_loop.BranchLoop", without_merge)
    main.query(persist=True).close()
    main.ingest([("+", 3, 4)])
    with monkeypatch.context() as full:
        full.setattr(Store, "_publish", fill)
        with pytest.raises(FullError, match="no room"):
            main.query(persist=True)
    assert to_dict(main.query(persist=True)) == {**ANSWER, 4: 1}


def test_a_branch_of_an_answer_that_was_compacted(
    main: MainLoop, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(main)
    main.ingest([("+", 3, 9)])
    compacted = compacts(monkeypatch, url)
    answer = main.query()
    with main.fork() as branch:
        main.ingest([("+", 3, 10)])
        main.query(persist=True).close()
        branch.apply([("+", 3, 11)])
        assert to_dict(branch.result()) == dict.fromkeys([*range(1, 8), 9, 11], 1)
    assert compacted.is_set()
    with open_store(url) as store:
        store.prune("loop", 1)
        for loop in store.loops():
            if loop != "loop":
                store.delete(loop)
        store.collect(0, alone=True)
    assert to_dict(answer) == dict.fromkeys([*range(1, 8), 9], 1)


def test_a_branch_of_a_version_that_was_compacted(main: MainLoop, url: str) -> None:
    grow(main)
    with open_store(url) as store:
        store.compact("loop")
    with main.fork() as branch:
        branch.apply([("+", 3, 9)])
        assert to_dict(branch.result()) == dict.fromkeys([*range(1, 8), 9], 1)


@pytest.mark.full
def test_a_forked_process_does_not_wait_for_its_parent(
    main: MainLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrap(monkeypatch, lambda: time.sleep(0.5))
    answer = main.query()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        same = answer.to_dict() == ANSWER
        main.close()
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    main.query(persist=True).close()
    assert to_dict(answer) == ANSWER


@pytest.mark.full
def test_a_thread_may_outlive_the_main_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OTHER_THREAD, f"lmdb://{tmp_path}/state"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["4", "5"], done.stderr
