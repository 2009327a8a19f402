"""Snapshots of stateful classes while calls go on, other numbers of partitions, and forks."""

from __future__ import annotations

import copy
import random
import threading
from typing import Any

import pytest

from tests.stateful.forty_programs import Recommender
from tests.stateful.histories import History, state_of
from tests.stateful.programs import Divided, KeyValue, Visits, WordCount
from tests.support.seeds import draws, seed
from vertexsdk import (
    InputError,
    Map,
    Partitioned,
    PerPartition,
    StateError,
    Stateful,
    StatefulLoop,
    StateInputError,
    Value,
    gather_all,
    on_all,
)
from vertexsdk.engine.keyed.capture import PartitionSnapshot
from vertexsdk.engine.keyed.keyed_engine import KeyedEngine
from vertexsdk.errors import LostError
from vertexsdk.state import Store, open_store

CLASSES = [WordCount, KeyValue, Visits, Divided, Recommender]


class Gate:
    """Has the threads of snapshots wait before they copy anything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        store = PartitionSnapshot._store

        def after_gate(snapshot: PartitionSnapshot) -> None:
            self.open.wait()
            store(snapshot)

        monkeypatch.setattr(PartitionSnapshot, "_store", after_gate)


def collect(flow: StatefulLoop) -> None:
    """Wait for a snapshot that is being stored."""
    with flow._lock:
        flow._snapshots.collect(waits=True)


@pytest.mark.sample(5)
@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_calls_go_on_while_a_snapshot_is_stored(
    cls: type[Stateful], partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, gate = random.Random(seed()), Gate(monkeypatch)
    url = f"memory://goes-on-{cls.__name__}-{partitions}"
    flow = StatefulLoop(cls, backend=url, partitions=partitions, snapshot_every=60)
    history = History(cls, flow, chance)
    for _ in range(draws(2, 6)):
        collect(flow)
        gate.open.clear()
        while flow._snapshots._cut is None:  # more calls, until one is due
            history.step()
        number, version = flow._snapshots.last.number, flow.progress()["version"]
        for _ in range(4):
            history.step()
        history.check()
        assert flow._snapshots.last.number == number
        with flow._lock:  # so that no other one begins before this one is counted
            gate.open.set()
            collect(flow)
            progress = flow.progress()
        assert (progress["snapshots"], progress["version"] > version) == (number + 1, True)
        history.step()
        if chance.random() < 0.5:
            flow._end(ValueError("the driver ended"))
            flow = history.flow = StatefulLoop.resume(
                cls, backend=url, partitions=chance.choice([1, 2, 7]), snapshot_every=60
            )
        history.check()
    flow.close()


def test_small_blocks_of_calls_before_and_after_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are joined in the log, but not those before with those after."""
    gate = Gate(monkeypatch)
    flow = StatefulLoop(WordCount, backend="memory://small-blocks", snapshot_every=50)
    for _ in range(50):
        flow.add("a")
    assert flow._snapshots._cut is not None
    for _ in range(100):
        flow.add("a")
    gate.open.set()
    collect(flow)
    assert flow.progress()["calls_since_snapshot"] == 100
    flow._end(ValueError("the driver ended"))
    flow = StatefulLoop.resume(WordCount, backend="memory://small-blocks", snapshot_every=50)
    assert flow.count("a") == 150
    flow.close()


def test_a_snapshot_that_cannot_be_stored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    flow = StatefulLoop(WordCount, backend="memory://not-stored", snapshot_every=3, partitions=2)
    flow.add.map(["a", "b", "c"])
    collect(flow)
    assert flow.progress()["snapshots"] == 1

    def full(*_: Any, **__: Any) -> None:
        raise StateError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put_segment", full)
        engine = flow._engine
        assert engine is not None
        parts = engine.snapshot(99, whole=True, waits=True)
        assert {part.failure for part in parts or ()} == {"the disk is full"}
        with pytest.raises(StateError, match="the disk is full"):
            flow.snapshot()
    assert flow.count("a") == 1
    flow.add.map(["a", "b", "c"])
    collect(flow)
    assert flow.progress()["snapshots"] == 2
    assert {ref.kind for ref in flow._history.state()} == {"base"}
    flow._end(ValueError("the driver ended"))
    with StatefulLoop.resume(WordCount, backend="memory://not-stored") as flow:
        assert flow.count.map(["a", "b", "c"]) == [2, 2, 2]


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_snapshot_that_is_interrupted(partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends what waits for a snapshot, and the loop goes on."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    url = f"memory://interrupted-{partitions}"
    with StatefulLoop(
        WordCount, backend=url, partitions=partitions, snapshot_every=3, snapshots="synchronous"
    ) as flow:
        flow.add.map(["a", "b"])
        for work in (flow.snapshot, lambda: flow.add.map(["a"] * 3)):  # asked for, and due
            with monkeypatch.context() as patch:
                patch.setattr("vertexsdk.engine.keyed.keyed_engine.open_store", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    work()
        assert flow.count.map(["a", "b"]) == [4, 1]
        flow.snapshot()
    with StatefulLoop.resume(WordCount, backend=url) as flow:
        assert flow.count.map(["a", "b"]) == [4, 1]


def test_a_snapshot_after_some_time_without_calls() -> None:
    with StatefulLoop(WordCount, backend="memory://some-time", snapshot_every="1h") as flow:
        flow.add("a")
        flow._snapshots.look()
        assert flow._snapshots._cut is None
        flow._snapshots._begun -= 3600
        flow._snapshots.look()
        collect(flow)
        assert flow.progress()["calls_since_snapshot"] == 0
        flow._snapshots._begun -= 3600
        flow._snapshots.look()  # nothing has changed
        assert flow._snapshots._cut is None


class Totals(Stateful):
    """Partial state of each kind."""

    total = PerPartition(Value(int))
    latest = PerPartition(Map(str, str), combine=max)
    users = Partitioned(Map(int, int), key="user")

    def add(self, user: int, name: str) -> None:
        self.users[user] += 1
        self.total.value += user
        self.latest[name] = max(self.latest[name], str(user))

    def sum(self) -> int:
        return sum(gather_all(on_all(self.total).value))

    def newest(self, name: str) -> str:
        return max(gather_all(on_all(self.latest).get(name, "")))


@pytest.mark.parametrize("snapshots", ["asynchronous", "synchronous"])
def test_partial_state_at_other_numbers_of_partitions(snapshots: Any) -> None:
    chance = random.Random(seed())
    plain = Totals()
    with StatefulLoop(
        Totals, backend=f"memory://partial-{snapshots}", partitions=4, snapshot_every=20,
        snapshots=snapshots,
    ) as flow:  # fmt: skip
        for partitions in (7, 2, 1, 3, 3):
            for _ in range(15):
                user, name = chance.randrange(40), chance.choice("ab")
                flow.add(user, name)
                plain.add(user, name)
            flow.rescale(partitions)
            assert flow.progress()["partitions"] == flow.partitions == partitions
            assert flow.sum() == plain.sum()
            assert [flow.newest(x) for x in "ab"] == [plain.newest(x) for x in "ab"]
            assert flow.lookup(range(40), "users") == state_of(plain)["users"]


def test_a_number_of_partitions_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with StatefulLoop(WordCount, backend="memory://cannot-be", partitions=2) as flow:
        flow.add("a")
        with pytest.raises(InputError, match="partitions"):
            flow.rescale(0)
        start = KeyedEngine.__init__

        def too_many(self: KeyedEngine, *args: Any) -> None:
            if args[2] == 3:
                raise InputError("needs 3 free slots, and there are 2")
            start(self, *args)

        monkeypatch.setattr(KeyedEngine, "__init__", too_many)
        with pytest.raises(InputError, match="free slots"):
            flow.rescale(3)
        assert flow.partitions == 2
        assert flow.count("a") == 1


def test_a_fork_goes_on_by_itself() -> None:
    url = "memory://forks"
    flow = StatefulLoop(WordCount, backend=url, partitions=2)
    flow.add("a b")
    fork, kept = flow.fork(), flow.fork("kept")
    assert fork.loop == "WordCount-fork-1"
    with pytest.raises(StateInputError, match="there is a loop 'kept' already"):
        flow.fork("kept")
    again = fork.fork()
    again.add("a")
    fork.add("b")
    kept.add("c")
    flow.close()
    assert again.count.map([*"abc"]) == [2, 1, 0]
    assert fork.count.map([*"abc"]) == [1, 2, 0]
    fork.snapshot()
    fork._lose_engine()
    assert fork.count.map([*"abc"]) == [1, 2, 0]  # read again from the store
    for loop in (again, fork, kept):
        loop.close()
    with open_store(url) as store:
        assert sorted(store.backend.list_heads()) == ["WordCount", "kept"]
    with StatefulLoop.resume(WordCount, backend=url, loop="kept") as kept:
        assert kept.count.map([*"abc"]) == [1, 1, 1]
    with StatefulLoop.resume(WordCount, backend=url) as flow:
        assert flow.count.map([*"abc"]) == [1, 1, 0]


def test_a_fork_while_a_snapshot_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, url = Gate(monkeypatch), "memory://fork-meanwhile"
    flow = StatefulLoop(KeyValue, backend=url, partitions=2, snapshot_every=10)
    flow.put.map(range(10), [1.0] * 10)
    assert flow._snapshots._cut is not None
    fork = flow.fork("other")
    fork.put(1, 2.0)
    flow.put(2, 3.0)
    gate.open.set()
    collect(flow)
    fork.snapshot()
    for loop, changed in ((fork, {1: 2.0}), (flow, {2: 3.0})):
        loop._end(ValueError("the driver ended"))
        with StatefulLoop.resume(KeyValue, backend=url, loop=loop.loop, partitions=3) as resumed:
            assert resumed.get.map(range(10)) == [changed.get(k, 1.0) for k in range(10)]


def test_a_fork_of_a_loop_that_lost_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = StatefulLoop(WordCount, backend="memory://fork-lost", partitions=2)
    flow.add("a")
    with monkeypatch.context() as patch:

        def lost(*_: Any) -> None:
            raise LostError("a processor was lost")

        patch.setattr(KeyedEngine, "fork", lost)
        with pytest.raises(LostError):
            flow.fork()
    with flow.fork() as fork:
        assert (fork.loop, fork.count("a")) == ("WordCount-fork-1", 1)
    flow.close()


def test_values_of_a_fork_are_copies() -> None:
    """Those of tables in memory, which are Python objects, too."""
    plain = Recommender()
    flow = StatefulLoop(Recommender, backend="memory://fork-copies", partitions=2)
    for target in (plain, flow):
        target.add_rating(1, 10, 5.0)
    fork, other = flow.fork(), copy.deepcopy(plain)
    for target in (fork, other):
        target.add_rating(1, 11, 4.0)
        target.add_rating(1, 10, 1.0)
    assert fork.recommend(1) == other.recommend(1) != flow.recommend(1) == plain.recommend(1)
    fork.close()
    flow.close()
