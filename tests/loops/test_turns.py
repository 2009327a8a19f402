"""How much of the time branches have beside the ingest of changes, on a clock of our own."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from tests.support.seeds import seed
from vertexsdk import Graph, InputError, MainLoop
from vertexsdk.algorithms import ConnectedComponents
from vertexsdk.loops import turns as turns_module
from vertexsdk.loops.turns import Turns


class Clock:
    """Time that passes only where somebody works or waits."""

    def __init__(self) -> None:
        self.now = self.cpu = 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.cpu

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.cpu += seconds / turns_module._THREAD

    def wait(self, seconds: float | None = None) -> bool:
        assert seconds is not None, "nobody would wake this thread"
        self.now += seconds
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(turns_module, "time", clock)
    return clock


def turns_of(clock: Clock, weight: float, others: int = 0) -> Turns:
    turns = Turns(weight)
    turns._changed.wait = clock.wait  # type: ignore[method-assign]
    turns._asking = others
    return turns


@pytest.mark.parametrize(("branches", "share"), [(1, 1 / 17), (4, 1 / 5), (16, 1 / 2)])
def test_branches_have_their_share_while_changes_are_ingested(
    clock: Clock, branches: int, share: float
) -> None:
    rng = random.Random(seed())
    turns = turns_of(clock, 1 / 16, branches - 1)
    with turns.ingest():
        while clock.now < 100:
            with turns.branch(lambda: 0.0):
                clock.work(rng.uniform(0, 0.05))
                turns.pause()
                clock.work(rng.uniform(0, 0.05))
    assert clock.cpu * turns_module._THREAD == pytest.approx(share * clock.now, rel=0.02)


def test_work_of_other_processes_is_charged_too(clock: Clock) -> None:
    turns, elsewhere = turns_of(clock, 1.0), [0.0]
    with turns.ingest():
        while clock.now < 10:
            with turns.branch(lambda: elsewhere[0]):
                clock.now += 0.01
                elsewhere[0] += 0.01
    assert elsewhere[0] == pytest.approx(5, rel=0.02)


def test_branches_have_all_the_time_while_nothing_is_ingested(clock: Clock) -> None:
    turns = turns_of(clock, 1 / 16)
    with turns.ingest():
        pass
    for _ in range(100):
        with turns.branch(lambda: 0.0):
            clock.work(0.1)
    assert clock.now == pytest.approx(10, abs=0.1)


def test_a_branch_that_fails_gives_its_turn_back(clock: Clock) -> None:
    turns = turns_of(clock, 1.0)
    with turns.ingest():
        for _ in range(3):
            with pytest.raises(ZeroDivisionError), turns.branch(lambda: 0.0, threading.RLock()):
                clock.work(1 / 0)
    assert (turns._asking, turns._working, turns._locking) == (0, 0, 0)


@pytest.mark.parametrize("weight", [0, -1.0, float("nan")])
def test_a_weight_is_above_zero(weight: float) -> None:
    graph = Graph.from_arrays([1], [2])
    with pytest.raises(InputError, match="give a number above 0"):
        MainLoop(ConnectedComponents, graph, backend="memory://turns", branch_weight=weight)


@pytest.mark.slow
def test_branches_and_ingest_end_beside_each_other() -> None:
    """Forks need the loop's lock, which ingest takes again at once."""
    answers: list[Any] = []
    graph = Graph.from_arrays([1], [2])
    with MainLoop(ConnectedComponents, graph, backend="memory://beside") as main:

        def ask() -> None:
            for _ in range(3):
                with main.fork() as branch:
                    branch.apply([("+", 2, 9)])
                    answers.append(branch.result().to_dict()[9])

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        batches = 0
        while any(thread.is_alive() for thread in threads):
            main.ingest([("+", batches + 10, batches + 11)])
            batches += 1
        assert answers == [1] * 9
        assert main.query().to_dict()[batches + 10] == (10 if batches else 1)
