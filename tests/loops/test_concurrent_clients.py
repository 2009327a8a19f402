"""Clients in threads on one loop see what some order of their operations explains."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.client_histories import History, Operation, record
from tests.support.seeds import seeds_until
from vertexsdk import Graph, MainLoop
from vertexsdk.algorithms import ConnectedComponents, Degree
from vertexsdk.engine.commands import Budget
from vertexsdk.errors import StateInputError
from vertexsdk.loops.branch_loop import BranchLoop


@pytest.mark.parametrize("backend", ["memory", "lmdb"])
def test_histories_of_clients(backend: str, tmp_path: Path) -> None:
    kinds: Counter[str] = Counter()
    for number in seeds_until(kinds, {"write": 9, "read": 9}, 1):
        url = f"lmdb://{tmp_path}/{number}" if backend == "lmdb" else f"memory://clients-{number}"
        history = record(url, number, steps=10, partitions=1 + number % 2)
        history.check()
        kinds.update(op.kind for op in history.operations)


def test_a_query_beside_a_merge_while_changes_are_ingested() -> None:
    """The merge has its turn and waits for the loop; the query must not wait the other way."""
    graph = Graph.from_arrays([0], [1])
    with MainLoop(ConnectedComponents, graph, backend="memory://turns") as main:
        main.query().close()
        main.shared = True  # the query is a branch
        history, in_turn = main._history, threading.Event()

        def merge() -> None:
            with history.turn():
                in_turn.set()
                time.sleep(0.1)  # in which the query comes
                with history.lock:
                    pass

        threads = [threading.Thread(target=merge, daemon=True)]
        threads += [threading.Thread(target=lambda: main.query().close(), daemon=True)]
        with history.config.turns.ingest():
            threads[0].start()
            assert in_turn.wait(20)
            threads[1].start()
            for thread in threads:
                thread.join(20)
            assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("earlier", [False, True])
def test_an_answer_that_is_computed_while_later_ones_are_kept(
    earlier: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is none of the earlier ones, which are deleted: its first commit claims its name."""
    graph, wait = Graph.from_arrays([0], [1]), threading.Event()
    url = f"memory://slow-answer-{earlier}"
    if earlier:
        with MainLoop(Degree, graph, backend=url, loop="m") as main:
            main.query().close()
    options: Any = {"keep_answers": 1, "replace": earlier}
    with MainLoop(Degree, graph, backend=url, loop="m", **options) as main:
        main.ingest([("+", 0, 2)])
        main.shared = True  # queries are branches
        work, computing = BranchLoop._run, threading.Event()

        def slow(branch: BranchLoop, budget: Budget) -> None:
            if branch.loop == "m-1":
                computing.set()
                assert wait.wait(20)
            work(branch, budget)

        monkeypatch.setattr(BranchLoop, "_run", slow)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(main.query)
            assert computing.wait(20)
            for _ in range(2):
                main.query(persist=True).close()
            wait.set()
            with first.result(20) as answer:
                assert answer.to_dict("degree") == {0: 2, 1: 1, 2: 1}
        with pytest.raises(StateInputError, match="'m-7' is the name of an answer of loop 'm'"):
            main.fork("m-7")
        main.fork("m-b").close()


def test_what_no_order_explains_is_noticed() -> None:
    def write(begin: float, *batches: int, client: str = "a") -> Operation:
        return Operation("write", client, begin, begin + 1, frozenset(batches))

    def read(begin: float, *batches: int, version: int | None = None) -> Operation:
        return Operation("read", "b", begin, begin + 1, frozenset(batches), version)

    def noticed(*operations: Operation) -> bool:
        try:
            History([*operations]).check()
        except AssertionError:
            return True
        return False

    one, two, merge = write(0, 1), write(2, 2), write(0, 3, 4, client="c")
    assert not noticed(one, two, merge, read(0.5, 1), read(4, 1, 2, 3, 4))
    assert noticed(one, read(4))  # an acknowledged write is lost
    assert noticed(one, two, read(0.5, 1, 2))  # read before it was written
    assert noticed(one, read(1.5, 1, 9))  # written by nobody
    assert noticed(merge, read(0.5, 3))  # a part of a merge
    late = replace(two, end=9.0)
    assert noticed(replace(one, end=9.0), late, read(4, 1), read(4, 2))  # in no order
    assert noticed(replace(one, client="x", end=9.0), replace(late, client="x"), read(4, 2))
    assert noticed(one, read(4, 1, version=3), read(6, 1, version=2))  # versions go back
    assert noticed(replace(one, end=9.0), read(4, version=3), read(4, 1, version=3))
