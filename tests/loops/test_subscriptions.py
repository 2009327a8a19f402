"""Subscriptions: the rows of each version, added up, are the state of that version."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import vertexsdk
from tests.support.seeds import draws, seeds_until
from tests.support.subscribed_loops import follow
from vertexsdk import (
    Graph,
    InputError,
    MainLoop,
    MainLoops,
    Min,
    StateError,
    StateInputError,
    Sum,
    Vertex,
    VertexId,
    state,
    subscribe,
)
from vertexsdk.loops.subscription import Subscription
from vertexsdk.program.program import Program
from vertexsdk.state import FencedError, difference, version_history
from vertexsdk.state.difference import unequal


class Nearest(Vertex):
    """The least id that leads here, and fields of other kinds."""

    least: VertexId = state()
    pair: float = state(0.0, size=2)
    memo: object = state()
    messages = Min(VertexId)

    def init(self):
        self.least = self.id
        self.memo = [self.id]

    def gather(self, iteration, source, delta):
        self.least = min(self.least, delta.value)
        self.pair[1] = float("nan")
        self.memo = {"least": self.least}

    def scatter(self, iteration):
        self.emitAll(self.least)


class Reader(Vertex):
    read: int = state(0)
    messages = Sum(int)
    direction = "both"

    def gather(self, iteration, source, delta):
        self.read = delta.value

    def scatter(self, iteration):
        self.emitAll(1)


class Book(Vertex):
    share: float = state(0.0)
    messages = Sum(int)
    direction = "both"

    def gather(self, iteration, source, delta):
        self.share = delta.value / 4

    def scatter(self, iteration):
        self.emitAll(10)


def test_rows_add_up_to_the_state_of_every_version() -> None:
    """Whatever happens to the loop, here and for readers of its store, across resumes."""
    happened, enough = Counter[str](), {"resume": 1, "rows": 100, "versions": 20}
    for number in seeds_until(happened, enough, draws(3, 10)):
        follow(number, f"memory://subscribed-{number}", happened)


def chain(n: int, name: Any = int, **options: Any) -> Graph:
    return Graph.from_arrays(
        [name(v) for v in range(n)], [name(v + 1) for v in range(n)], **options
    )


def opened(url: str, n: int = 3, **options: Any) -> MainLoop:
    return MainLoop("wcc", chain(n), backend=url, loop="chain", **options)


def rows_of(subscription: Subscription) -> list[Any]:
    return [(c.vertex, c.fields and c.fields["component"], c.diff, c.version) for c in subscription]


@pytest.mark.parametrize("names", [int, "v{}".format], ids=["integers", "names"])
def test_vectors_objects_and_ids(names: Any) -> None:
    url = f"memory://kinds-{names is int}"
    graph = chain(3, names, partitions=2)
    options: dict[str, Any] = {"backend": url, "loop": "kinds", "compiled": False}
    with MainLoop(Nearest, graph, trusted=True, **options) as main:
        main.query().close()
        with pytest.raises(StateError, match="trusted=True"):
            subscribe(url, "kinds")
        with main.subscribe(timeout=0) as some:
            first = next(some)
            assert (first.vertex, first.diff) == (names(0), 1)
            assert str(first.fields) == str(
                {"least": names(0), "pair": [0.0, np.nan], "memo": {"least": names(0)}}
            )
            assert [c.vertex for c in some] == [*map(names, (1, 2, 3))]
            main.ingest([("-", names(1), names(2))])
            main.query().close()
            rows = [(c.vertex, c.fields and c.fields["memo"], c.diff) for c in some]
            lost, gained = {"least": names(0)}, {"least": names(2)}
            assert rows == [
                (v, memo, diff)
                for v in map(names, (2, 3))
                for memo, diff in ((lost, -1), (gained, 1))
            ]
        with main.subscribe(timeout=0, as_of=main.iteration) as some:
            batch = next(some.batches())
        name = pa.int64() if names is int else pa.string()
        types = [name, name, pa.list_(pa.float64()), pa.string(), pa.int8(), pa.int64()]
        assert batch.schema.types == types
        assert batch.to_pylist()[3]["memo"] == repr(gained)


def test_only_rows_that_were_written_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("memory://cost", 300) as main, main.subscribe(timeout=0) as some:
        main.query().close()
        assert len(list(some)) == 301
        monkeypatch.setattr(difference, "overlay", None)  # reads all rows
        for k in range(3):
            main.ingest([("+", 300 + k, 301 + k)])
            main.query().close()
        assert [row[:3] for row in rows_of(some)] == [(v, 0, 1) for v in (301, 302, 303)]


def test_without_a_snapshot_and_from_a_version() -> None:
    with opened("memory://as-of") as main:
        first = main.query().iteration
        main.ingest([("-", 2, 3), ("+", 3, 4)])
        second = main.query().iteration
        change = [(3, 0, -1, second), (3, 3, 1, second), (4, 3, 1, second)]
        with main.subscribe(as_of=first, snapshot=False, timeout=0) as some:
            assert some.version == first
            assert rows_of(some) == change
            assert some.version == second
        with main.subscribe(as_of=second - 1, timeout=0) as some:
            assert rows_of(some) == [(v, 0, 1, first) for v in range(4)] + change
        with main.subscribe(snapshot=False, timeout=0, progress=True) as some:
            assert rows_of(some) == [(None, None, 0, second)]
            main.query().close()  # of the same graph
            assert rows_of(some) == [(None, None, 0, second + 1)]
        with pytest.raises(StateInputError, match="version 99 of loop 'chain' is yet to come"):
            main.subscribe(as_of=99)


def test_a_loop_without_an_answer_has_no_rows_yet() -> None:
    with (
        opened("memory://no-answer") as main,
        main.subscribe(snapshot=False, timeout=0) as some,
    ):
        assert rows_of(some) == []
        assert some.version is None
        main.query().close()
        assert [row[:3] for row in rows_of(some)] == [(v, 0, 1) for v in range(4)]


def test_approximations_are_returned_if_asked_for() -> None:
    with opened("memory://approximate", 20, budget=vertexsdk.Budget(1)) as main:
        main.query().close()
        with (
            main.subscribe(approximate=True, timeout=0, progress=True) as every,
            main.subscribe(timeout=0, progress=True) as exact,
        ):
            main.ingest([("+", -5, 20)])
            main.ingest([("-", 7, 8)])
            main.query().close()
            marks = [[c.version for c in some if not c.diff] for some in (every, exact)]
        history = main.history().to_pylist()
        assert marks[0] == [v["version"] for v in history][-4:]
        assert marks[1] == [v["version"] for v in history if v["exact"]]
        assert len(marks[1]) < len(marks[0])


def test_iteration_waits_for_versions_and_ends_with_the_loop() -> None:
    main = opened("memory://waiting")
    versions: list[int] = []
    ready = threading.Semaphore(0)

    def hear(change: Any) -> None:
        if not change.diff:
            versions.append(change.version)
            ready.release()

    subscription = main.subscribe(progress=True)
    subscription.start(hear)
    with pytest.raises(InputError, match="was started already"):
        subscription.start(hear)
    for k in range(3):
        main.ingest([("+", k, k + 9)])
        answer = main.query()
        assert ready.acquire(timeout=60)
        assert versions[-1] == answer.iteration
    main.close()
    assert subscription.join()
    assert list(subscription) == []
    subscription.close()
    with pytest.raises(InputError, match="was closed"):
        main.subscribe()


def test_what_a_function_raises_is_raised_by_join() -> None:
    def fail(batch: pa.RecordBatch) -> None:
        raise ValueError(batch.num_rows)

    with opened("memory://failing") as main, main.subscribe() as subscription:
        with pytest.raises(InputError, match=r"start\(function\) first"):
            subscription.join()
        subscription.start(fail, batches=True)
        main.query().close()
        with pytest.raises(ValueError, match="4"):
            subscription.join()


def test_closing_ends_an_iteration_that_waits() -> None:
    with opened("memory://closing") as main:
        for subscription in (main.subscribe(), subscribe("memory://closing", "chain")):
            subscription.start(print)
            subscription.close()
            assert subscription.join()
            subscription.close()


def test_an_iteration_may_stop_in_a_version_and_continue() -> None:
    with opened("memory://parts") as main, main.subscribe(timeout=0) as some:
        version = main.query().iteration
        assert next(some).vertex == 0
        assert some.version is None
        assert [change.vertex for change in some] == [1, 2, 3]
        assert some.version == version


def prune_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete old versions after every commit."""
    monkeypatch.setattr(version_history, "_PRUNE", 1)
    monkeypatch.setattr(version_history, "_PRUNE_SECONDS", 1e9)


def test_versions_that_were_not_read_stay_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    prune_at_once(monkeypatch)
    url = "memory://unread"
    with opened(url, retain=2) as main:
        main.query().close()
        here, elsewhere = (
            main.subscribe(timeout=0, progress=True),
            subscribe(url, "chain", timeout=0, progress=True),
        )
        versions = [main.iteration]
        for k in range(5):
            main.ingest([("+", k, k + 9)])
            versions.append(main.query().iteration)
        assert [c.version for c in here if not c.diff] == versions
        here.close()
        main.ingest([("+", 1, 30)])
        main.query().close()
        assert len(main.history()) == 2
        with pytest.raises(StateError, match=r"were deleted before .* with a larger retain="):
            list(elsewhere)
        elsewhere.close()
        with pytest.raises(StateInputError, match=r"version 3 .* not in the store any more"):
            main.subscribe(as_of=3)


def test_an_answer_is_read_although_many_changes_came_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prune_at_once(monkeypatch)
    url = "memory://rare-queries"
    with opened(url, retain=2) as main:
        first = main.query().iteration
        with subscribe(url, "chain", timeout=0, snapshot=False) as elsewhere:
            for k in range(6):
                main.ingest([("+", k, k + 9)])
            assert len(main.history()) == 2
            with main.subscribe(timeout=0) as late:
                assert rows_of(late) == [(v, 0, 1, first) for v in range(4)]
            with main.subscribe(as_of=first, snapshot=False, timeout=0) as again:
                last = main.query().iteration
                assert {c.version for c in again} == {last}
            assert {c.version for c in elsewhere} == {last}


def test_a_loop_that_was_started_anew() -> None:
    url = "memory://anew"
    with opened(url) as main:
        main.query().close()
    with subscribe(url, "chain", timeout=0) as some:
        assert len(list(some)) == 4
        with opened(url, replace=True) as main:
            main.query().close()
            main.query().close()
            with pytest.raises(StateError, match="was started anew after version"):
                list(some)


class Hops(Vertex):
    """As `wcc`, with one more field."""

    component: int = state(0)
    hops: int = state(0)
    messages = Min(int)

    def init(self):
        self.component = self.id

    def gather(self, iteration, source, delta):
        self.component = min(self.component, delta.value)

    def scatter(self, iteration):
        self.emitAll(self.component)


def test_a_state_that_was_migrated() -> None:
    """The versions of it are of other columns: rows of the earlier ones cannot be taken back."""
    url = "memory://migrated"
    with opened(url) as main:
        main.query().close()
        main.snapshot()
    elsewhere = subscribe(url, "chain", timeout=0)
    assert len(list(elsewhere)) == 4
    old = elsewhere.version
    columns = {"hops": np.zeros(4, np.int64)}
    with MainLoop.resume(
        None, Program(Hops, name="wcc"), backend=url, loop="chain",
        migrate=lambda stored: {"component": stored["component"], **columns},
    ) as main:  # fmt: skip
        main.ingest([("+", 9, 10)])
        main.query().close()
        with pytest.raises(StateInputError, match=r"hops was added.*subscribe again"):
            list(elsewhere)
        elsewhere.close()
        with pytest.raises(StateInputError, match=r"had other fields, which were migrated in"):
            main.subscribe(as_of=old, snapshot=False, timeout=0)
        for some in (main.subscribe(timeout=0), subscribe(url, "chain", timeout=0)):
            assert Counter(c.vertex for c in some) == Counter([0, 1, 2, 3, 9, 10])
            some.close()


def test_a_loop_that_another_driver_took_over() -> None:
    """A subscription of the loop ends as it does; one of its store reads what the other writes."""
    url = "memory://taken-over"
    with opened(url) as main:
        main.query().close()
        here = main.subscribe(timeout=0)
        elsewhere = subscribe(url, "chain", timeout=0)
        assert rows_of(here) == rows_of(elsewhere)
        with MainLoop.resume(None, "wcc", backend=url, loop="chain") as other:
            other.ingest([("+", 20, 21)])
            other.query(persist=True).close()
            with pytest.raises(FencedError):
                main.ingest([("+", 30, 31)])
            with pytest.raises(FencedError):
                list(here)
            assert {c.vertex for c in elsewhere} == {20, 21}
        elsewhere.close()


def test_what_cannot_be_subscribed_to() -> None:
    with opened("memory://refused") as main:
        with pytest.raises(InputError, match="no field 'depth'; chain has: component"):
            main.subscribe(fields="depth")
        with pytest.raises(InputError, match="as_of is '3'; give the number of a version"):
            main.subscribe(as_of="3")  # type: ignore[arg-type]
        with pytest.raises(StateInputError, match="no loop 'other'"):
            subscribe("memory://refused", "other")
    vertexsdk.run("wcc", chain(2), backend="memory://refused", loop="plain").close()
    with pytest.raises(InputError, match="is not a main loop"):
        subscribe("memory://refused", "plain")


def test_the_chosen_fields_alone_make_a_difference() -> None:
    graph = Graph.from_arrays([1, 2], [2, 3])
    with MainLoop("hits", graph, backend="memory://fields") as main:
        main.query().close()
        with main.subscribe(fields=["hub"], timeout=0) as some:
            batch = next(some.batches())
            assert batch.schema.names == ["id", "hub", "diff", "version"]
        with main.subscribe(fields="hub", timeout=0) as some:
            assert {tuple(change.fields or ()) for change in some} == {("hub",)}


def test_vertices_of_several_classes(tmp_path: Path) -> None:
    (tmp_path / "edges").write_text("1 11\n1 12\n2 12\n2 13\n")
    (tmp_path / "kinds").write_text("1 Reader\n2 Reader\n11 Book\n12 Book\n13 Book\n")
    graph = Graph.read(None, f"{tmp_path}/edges", f"{tmp_path}/kinds", partitions=2)
    program = Program(Reader, Book, name="library")
    with MainLoop(program, graph, backend="memory://classes", compiled=False) as main:
        main.query().close()
        with (
            main.subscribe(timeout=0) as every,
            main.subscribe(fields="share", timeout=0) as shares,
        ):
            rows = [(c.vertex, c.fields) for c in every]
            with main.read() as result:
                assert rows == [*result.rows()]
                batch = next(main.subscribe().batches())
                assert batch.select(range(4)).to_pylist() == result.to_arrow().to_pylist()
            assert [(v, row) for v, row in rows if v > 10] == [(c[0], c[1]) for c in shares]
            main.ingest([("-", 2, 13)])
            main.query().close()
            changed = {(c.vertex, c.diff) for c in every}
            assert {(2, -1), (2, 1), (13, -1)} <= changed
            assert {v for v, _ in changed} <= {2, 13}
            assert {c.vertex for c in shares} == {13}


def test_several_programs_on_one_graph() -> None:
    options: dict[str, Any] = {"backend": "memory://several-subscribed"}
    with MainLoops(["wcc", "degree"], Graph.from_arrays([1], [2]), **options) as loops:
        with loops["degree"].subscribe(fields="degree", timeout=0) as some:
            for _ in range(2):
                loops.ingest([("+", 2, 3)])
                loops.query()
            rows = [(c.vertex, c.fields, c.diff) for c in some]
        assert rows == [(v, {"degree": x}, 1) for v, x in ((1, 1), (2, 2), (3, 1))]


SCRIPT = """
import sys, vertexsdk
version = int(sys.argv[2]) if len(sys.argv) > 2 else None
options = {"as_of": version, "snapshot": version is None, "timeout": 0}
with vertexsdk.subscribe(sys.argv[1], "chain", **options) as subscription:
    for vertex, fields, diff, version in subscription:
        print(vertex, fields["component"], diff)
    print(subscription.version)
"""


@pytest.mark.full
def test_another_process_continues(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"

    def lines(*version: str) -> list[str]:
        command = [sys.executable, "-c", SCRIPT, url, *version]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
        return done.stdout.splitlines()

    with opened(url) as main:
        main.query(persist=True).close()
        *rows, version = lines()
        assert rows == [f"{v} 0 1" for v in range(4)]
        main.ingest([("-", 2, 3), ("+", 3, 4)])
        main.query(persist=True).close()
        assert lines(version) == ["3 0 -1", "3 3 1", "4 3 1", str(main.iteration)]


def test_objects_and_zeros() -> None:
    values = np.array([1, [1, 2], {"a": 1}, np.arange(2), "x"], object)
    others = np.array([1, [1, 3], {"a": 1}, np.arange(2), 5], object)
    assert unequal(values, others).tolist() == [False, True, False, False, True]
