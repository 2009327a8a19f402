"""Snapshots of main loops: taken while the loop goes on, restored by any number of partitions."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from tests.support.random_changes import Edges, random_rows
from tests.support.seeds import seed
from tests.support.waiting import until
from vertexsdk import Graph, MainLoop
from vertexsdk.algorithms import (
    BreadthFirstSearch,
    ConnectedComponents,
    Degree,
    PageRank,
    ShortestPaths,
)
from vertexsdk.cli import main as main_command
from vertexsdk.errors import InputError
from vertexsdk.loops.history import LoopHistory
from vertexsdk.loops.snapshot_policy import SnapshotPolicy
from vertexsdk.state import Manifest, StateError, Store, open_store
from vertexsdk.testing.oracles import disagreements, expected, near

PROGRAMS: list[tuple[Any, str, dict[str, Any]]] = [
    (ConnectedComponents, "wcc", {}),
    (ShortestPaths, "sssp", {"origin": 0}),
    (BreadthFirstSearch, "bfs", {"origin": 0}),
    (PageRank, "pagerank", {"epsilon": 1e-13, "damping": 0.6}),
]


@pytest.fixture
def url() -> str:
    """Of an empty store in memory."""
    return f"memory://snapshots-{time.monotonic_ns()}"


def kinds(url: str, loop: str) -> Counter[str]:
    """How many segments of each kind and group the newest version has."""
    with open_store(url) as store:
        refs = store.segments(store.version(loop))
        return Counter(f"{ref.kind}/{ref.group}" if ref.group else ref.kind for ref in refs)


class History:
    """A main loop whose process is killed now and then, beside an oracle."""

    def __init__(self, rng: random.Random, url: str) -> None:
        self.rng, self.url, self.edges = rng, url, Edges()
        self.program, self.oracle, self.given = rng.choice(PROGRAMS)
        self.strings, self.undirected = rng.random() < 0.5, rng.random() < 0.5
        self.options: Any = {"compiled": rng.choice(["require", False]), "backend": url}
        random_rows(rng, self.edges, 90, undirected=self.undirected, vertices=self.ids(24))
        self.edges[self.id(0), self.id(0)] = 1.0  # so that the origin stays
        ends = [[pair[k] for pair in self.edges] for k in (0, 1)]
        graph = Graph.from_arrays(
            *ends, [*self.edges.values()], undirected=self.undirected,
            partitions=rng.randint(1, 4),
        )  # fmt: skip
        self.main = MainLoop(
            self.program, graph, params=self.params, loop="m", **self.options, **self.snapshots()
        )

    def id(self, number: int) -> Any:
        """A vertex."""
        return f"n{number * 7919 % 1009}" if self.strings else number

    def ids(self, count: int) -> list[Any]:
        """Vertices."""
        return [self.id(k) for k in range(count)]

    @property
    def params(self) -> dict[str, Any]:
        """Of the program."""
        return {k: self.id(0) if k == "origin" else x for k, x in self.given.items()}

    def snapshots(self) -> dict[str, Any]:
        """When they are taken."""
        every = self.rng.choice([1, 4, 15, 40, "2ms"])
        return {
            "snapshot_every": every,
            "snapshots": self.rng.choice(["asynchronous"] * 3 + ["synchronous"]),
        }

    def ingest(self) -> None:
        """Changes, some of which bring new vertices."""
        self.main.ingest(self.rows())

    def rows(self) -> list[Any]:
        """Changes, of which the oracle knows."""
        rows = random_rows(
            self.rng, self.edges, self.rng.randint(1, 9), undirected=self.undirected,
            vertices=self.ids(30),
        )  # fmt: skip
        rows += [("+", self.id(0), self.id(0), 1.0)]
        self.edges[self.id(0), self.id(0)] = 1.0
        return rows

    def kill(self) -> bool:
        """Go on as another process would; whether it goes on from a state."""
        partitions, before = self.rng.choice([None, None, 1, 2, 3, 5]), self.main
        self.main = MainLoop.resume(
            None, self.program, loop="m", partitions=partitions, **self.options, **self.snapshots()
        )
        before.close()  # it was fenced, so nothing of it is stored any more
        return self.main._history.ledger.snapshot is not None

    def merge(self) -> None:
        """Fork a branch, which may compute an answer or take changes of its own, and merge it."""
        with self.main.fork() as branch:
            what = self.rng.random()
            if what < 0.3:
                branch.result().close()
            elif what < 0.6:
                branch.apply(self.rows())
            branch.merge()

    def check(self) -> dict[str, Any]:
        """Compare an answer with the oracle; return its statistics."""
        with closing(self.main.query()) as result:
            got = dict(result.rows())
            statistics = dict(result.statistics)
        numbers = {self.id(k): k for k in range(30)}
        rows = [(numbers[a], numbers[b], x) for (a, b), x in self.edges.items()]
        origin = [0] if "origin" in self.given else []
        right = expected(self.oracle, rows, origin, self.given, undirected=self.undirected)
        for name, values in right.items():
            assert {numbers[v] for v in got} == values.keys()
            if self.strings and self.oracle == "wcc":
                groups: dict[Any, set[Any]] = {}
                for v, row in got.items():
                    groups.setdefault(row[name], set()).add(values[numbers[v]])
                assert all(len(x) == 1 for x in groups.values())
                continue
            for v, row in got.items():
                assert near(row[name], values[numbers[v]], 1e-9), (v, row, values[numbers[v]])
        return statistics


@pytest.mark.sample(2)
@pytest.mark.parametrize("number", range(6))
def test_a_killed_loop_goes_on_from_its_snapshot(
    number: int, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, put = random.Random(seed()), Store.put_segment
    delays = random.Random(rng.random())

    def slow(self: Store, loop: str, partition: int, iteration: int, kind: Any, *a: Any, **k: Any):  # type: ignore[no-untyped-def]
        if kind in ("snapshot", "topology"):
            time.sleep(delays.choice([0.0, 0.0, 0.002, 0.01]))
        return put(self, loop, partition, iteration, kind, *a, **k)

    monkeypatch.setattr(Store, "put_segment", slow)
    history = History(rng, url)
    history.check()
    for _ in range(14):
        for _ in range(rng.randint(1, 3)):
            history.ingest()
            if rng.random() < 0.4:
                history.check()
        what = rng.random()
        if what < 0.35:
            from_state = history.kill()
            statistics = history.check()
            if from_state and history.program is not PageRank:  # a sum may begin anew
                assert statistics["start"] == "warm"
        elif what < 0.5:
            history.main.rescale(rng.randint(1, 5))
            history.check()
        elif what < 0.8:
            history.merge()
    history.main.close()


def test_the_loop_goes_on_while_a_snapshot_is_stored(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()
    put = Store.put_segment

    def slow(self: Store, loop: str, partition: int, iteration: int, kind: Any, *a: Any, **k: Any):  # type: ignore[no-untyped-def]
        if kind == "snapshot":
            assert may_go_on.wait(20)
        return put(self, loop, partition, iteration, kind, *a, **k)

    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4], partitions=2)
    with MainLoop(ConnectedComponents, graph, backend=url, loop="m", snapshot_every=1) as main:
        main.query().close()
        monkeypatch.setattr(Store, "put_segment", slow)
        main.ingest([("+", 4, 5)])
        for k in range(5, 9):
            main.ingest([("+", k, k + 1)])
        assert main.query().to_dict() == dict.fromkeys(range(1, 10), 1)
        assert main.progress()["snapshots"] == 0
        may_go_on.set()
        assert until(lambda: main.progress()["snapshots"] > 0)
        assert main.progress()["snapshot_bytes"] > 0
        monkeypatch.undo()
        again = MainLoop.resume(None, ConnectedComponents, backend=url, loop="m")
        answer = again.query()
        assert answer.to_dict() == dict.fromkeys(range(1, 10), 1)
        assert answer.statistics["start"] == "warm"
        again.close()


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("exact", [False, True])
def test_a_snapshot_that_is_committed_between_a_fork_and_its_merge(
    url: str, monkeypatch: pytest.MonkeyPatch, partitions: int, exact: bool
) -> None:
    """The branch's version has no such snapshot, so the next one is laid over none."""
    may_go_on, put = threading.Event(), Store.put_segment
    may_go_on.set()

    def slow(self: Store, loop: str, partition: int, iteration: int, kind: Any, *a: Any, **k: Any):  # type: ignore[no-untyped-def]
        if kind == "snapshot":
            assert may_go_on.wait(20)
        return put(self, loop, partition, iteration, kind, *a, **k)

    monkeypatch.setattr(Store, "put_segment", slow)
    pairs = np.arange(0, 200, 2)
    graph = Graph.from_arrays(pairs, pairs + 1, partitions=partitions)
    options: dict[str, Any] = {"backend": url, "loop": "m", "compiled": False}
    with MainLoop(ConnectedComponents, graph, snapshot_every=1, **options) as main:
        main.query().close()
        for number, changes in enumerate((40, 4)):  # with the edges, and without
            first = 1000 * (number + 1)
            main.ingest([("+", first + k, first + k + 1) for k in range(0, 2 * changes, 2)])
            assert until(lambda number=number: main.progress()["snapshots"] == number + 1)  # type: ignore[misc]
        may_go_on.clear()
        main.ingest([("+", 3000 + k, 3001 + k) for k in range(0, 120, 2)])
        if exact:
            main.query().close()
        with main.fork("what-if") as branch:
            may_go_on.set()
            assert until(lambda: main.progress()["snapshots"] == 3)
            branch.merge()
        if exact:
            may_go_on.clear()
        main.ingest([("+", k, k + 2) for k in range(0, 20, 2)])
        if not exact:
            assert until(lambda: main.progress()["snapshots"] == 4)
        with MainLoop.resume(None, ConnectedComponents, **options) as again:
            got = dict(again.query().rows())
            may_go_on.set()
        ranges = ((0, 200), (1000, 80), (2000, 8), (3000, 120))
        edges = [(first + k, first + k + 1) for first, end in ranges for k in range(0, end, 2)]
        edges += [(k, k + 2) for k in range(0, 20, 2)]
        assert not disagreements(expected("wcc", [(*edge, 1.0) for edge in edges]), got)


def test_a_snapshot_is_counted_once_it_is_in_the_store(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As others may wait for the number, and then resume the loop."""
    write, fails = LoopHistory._write_version, True
    numbers: list[tuple[int, int]] = []

    def observed(self: LoopHistory, publish: Callable[[], Manifest]) -> Manifest:
        progress = self.progress()
        numbers.append((progress["snapshots"], progress["snapshot_bytes"]))
        if fails:
            raise StateError("the store is away")
        return write(self, publish)

    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4], partitions=2)
    with MainLoop(ConnectedComponents, graph, backend=url, loop="m", snapshot_every=99) as main:
        main.query().close()
        main.ingest([("+", 4, 5)])
        monkeypatch.setattr(LoopHistory, "_write_version", observed)
        with pytest.raises(StateError, match="the store is away"):
            main.snapshot()
        fails = False
        main.query().close()  # restored from the store, which has no state yet
        main.snapshot()
        assert set(numbers) == {(0, 0)}
        assert main.progress()["snapshots"] == 1
        assert main.progress()["snapshot_bytes"] > 0
        monkeypatch.undo()
        again = MainLoop.resume(None, ConnectedComponents, backend=url, loop="m")
        assert again.query().statistics["start"] == "warm"
        again.close()


def test_a_snapshot_that_fails_is_dropped(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put = Store.put_segment
    failing = True

    def broken(
        self: Store, loop: str, partition: int, iteration: int, kind: Any, *a: Any, **k: Any
    ):  # type: ignore[no-untyped-def]
        if kind == "snapshot" and partition == 1 and failing:
            raise OSError("no room for it")
        return put(self, loop, partition, iteration, kind, *a, **k)

    monkeypatch.setattr(Store, "put_segment", broken)
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4], partitions=2)
    options: Any = {"backend": url, "loop": "m"}
    with MainLoop(
        ConnectedComponents, graph, snapshot_every=2, snapshots="synchronous", **options
    ) as main:
        main.query().close()
        with pytest.raises(Exception, match="no room for it"):
            main.snapshot()
        main.ingest([("+", 4, 5), ("+", 7, 8)])
        assert caplog.text.count("m: a snapshot was dropped: no room for it") == 2
        assert main.query().to_dict() == {**dict.fromkeys(range(1, 6), 1), 7: 7, 8: 7}
        assert not kinds(url, "m")["snapshot/all"]
        with open_store(url) as store:
            assert [x for x in store.audit().unreferenced if "snapshot" in x] == []
        failing = False
        main.ingest([("+", 5, 6), ("+", 8, 9)])
        assert kinds(url, "m")["snapshot/all"] == 2


@pytest.mark.slow
def test_segments_stay_few(url: str) -> None:
    graph = Graph.from_arrays(range(60), range(1, 61), partitions=2)
    options: Any = {"backend": url, "loop": "m", "retain": 4}
    with MainLoop(
        ConnectedComponents, graph, snapshot_every=1, snapshots="synchronous", **options
    ) as main:
        most = 0
        for k in range(300):
            sign = "-+"[k // 60 % 2]
            main.ingest([(sign, k % 60, k % 60 + 1), ("+", 0, 0)])
            main.query().close()
            most = max(most, sum(kinds(url, "m").values()))
        assert main.progress()["snapshots"] >= 300
    assert most < 300
    with open_store(url) as store:
        store.collect(0, alone=True)
        assert store.audit().missing == []
        assert store.backend.size() < 64 << 20


def test_a_loop_whose_answers_begin_with_init_stores_the_graph_only(url: str) -> None:
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4])
    options: Any = {"backend": url, "loop": "m", "snapshot_every": 1}
    with MainLoop(Degree, graph, **options) as main:
        main.ingest([("+", 4, 5)])
        main.snapshot()
        assert not [k for k in kinds(url, "m") if k.startswith("snapshot")]
        assert not kinds(url, "m")["changes/tail"]
    with MainLoop.resume(None, Degree, partitions=3, **options) as main:
        assert len(main.query().to_dict()) == 5


@pytest.mark.parametrize(
    ("every", "kind", "said"),
    [
        (0, "asynchronous", "snapshot_every is 0"),
        ("soon", "asynchronous", "is not a length of time"),
        (True, "asynchronous", "give a whole number"),
        (5, "later", "say 'asynchronous' or 'synchronous'"),
    ],
)
def test_what_is_no_policy(every: Any, kind: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        SnapshotPolicy.of(every, kind)


def test_state_rescale(url: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"lmdb://{tmp_path}/state"
    graph = Graph.from_arrays(["a", "b"], ["b", "c"])
    with MainLoop(ConnectedComponents, graph, backend=url, loop="m") as main:
        main.query().close()
        main.ingest([("+", "c", "d")])
        main.snapshot()
    assert main_command(["state", "rescale", "m", "--partitions", "3", "--backend", url]) == 0
    assert "m had 1 partitions; when resumed it has 3" in capsys.readouterr().out
    with MainLoop.resume(None, ConnectedComponents, backend=url, loop="m") as main:
        answer = main.query()
        assert answer.to_dict() == dict.fromkeys("abcd", "a")
        assert (answer.statistics["partitions"], answer.statistics["start"]) == (3, "warm")
    assert main_command(["state", "rescale", "m", "--partitions", "0", "--backend", url]) == 2
