"""Branches beside a main loop, on Spark: what they share, how they end, what a merge keeps."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from vertexsdk import Graph, InputError, MainLoop, RunError, Sum, Vertex, aggregate, state
from vertexsdk.algorithms import ConnectedComponents, PageRank, ShortestPaths
from vertexsdk.program.vertex import Aggregates, Delta
from vertexsdk.state import StateInputError
from vertexsdk.testing.oracles import disagreements, expected

ROWS = [(1, 2, 1.0), (2, 3, 1.0), (3, 4, 1.0), (7, 8, 1.0)]
inf = float("inf")


class Endless(Vertex):
    """It never ends by itself, and says how far it is from doing so."""

    count: int = state(0)
    messages = Sum(int)
    left = aggregate(Sum(int))

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.count = self.count + 1
        self.left.contribute(3)

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.count)

    def converged(self, iteration: int, aggregates: Aggregates) -> bool:
        return bool(aggregates.left == 0)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"lmdb://{tmp_path}/state"


@pytest.fixture
def roads(spark: SparkSession, url: str) -> Iterator[MainLoop]:
    graph = Graph.from_arrays(*zip(*ROWS, strict=True), spark=spark)
    with MainLoop(ShortestPaths, graph, params={"origin": 1}, backend=url, loop="roads") as main:
        yield main


def lengths(result: Any) -> dict[Any, float]:
    with contextlib.closing(result):
        found: dict[Any, float] = result.to_dict()
        return found


def test_what_if(roads: MainLoop) -> None:
    roads.query().close()
    with roads.fork("what-if") as branch, branch.fork() as other:
        assert branch.apply([("+", 1, 4, 0.5), ("-", 9, 9)])["absent"] == 1
        roads.ingest([("-", 1, 2)])
        other.apply([("+", 8, 9, 1)])
        now = {1: 0.0, 2: 1.0, 3: 2.0, 4: 0.5, 7: inf, 8: inf}
        assert lengths(branch.result(60)) == now
        assert branch.progress()["state"] == "done"
        assert lengths(other.result(60)) == {**now, 4: 3.0, 9: inf}
        found = branch.diff(other)
        assert (found.field, found.ids.tolist()) == ("length", [4, 9])
        assert found.mine.tolist() == [0.5, None]
        assert found.theirs.tolist() == [3.0, inf]
        rows = {"id": [4, 9], "mine": [0.5, None], "theirs": [3.0, inf]}
        assert found.to_arrow().to_pydict() == rows
        assert found.to_pandas().columns.tolist() == [*rows]
        gone = [2, 3, 4]
        assert lengths(roads.query()) == {**now, **dict.fromkeys(gone, inf)}
        assert roads.diff(branch).ids.tolist() == gone
        with pytest.raises(InputError, match="no field 'width'"):
            roads.diff(branch, "width")
        with pytest.raises(StateInputError, match="'what-if' is open: close"):
            roads.fork("what-if")
    with roads.fork("what-if") as again:  # the name of a closed branch is free
        assert lengths(again.result(60)) == {**now, **dict.fromkeys(gone, inf)}
    with pytest.raises(StateInputError, match="already"):
        roads.fork(roads.loop)


def test_a_merge_keeps_what_came(roads: MainLoop) -> None:
    first, second = roads.fork(), roads.fork()
    first.result(60).close()
    first.apply([("+", 4, 5, 1)])
    before = roads.iteration
    first.merge()  # iterates first; before any input main goes on from it, at its next iteration
    assert first.merged
    assert roads.iteration == before + 1
    assert roads.lookup([5])[5]["length"] == 4.0
    assert roads.changes == 1
    second.result(60).close()
    with pytest.raises(InputError, match="1 changes came to loop 'roads' since"):
        second.merge()
    with pytest.raises(InputError, match="was merged into 'roads'"):
        first.apply([("+", 1, 2)])
    assert lengths(first.result(60))[5] == 4.0
    roads.ingest([("+", 1, 9, 1)])
    third = roads.fork(merge="auto")
    assert third.result(60).statistics["merged"]
    roads.ingest([("-", 1, 9)])
    late = roads.fork(merge="auto")
    roads.ingest([("+", 5, 6, 1)])
    result = late.result(60)
    assert not result.statistics["merged"]
    assert 6 not in lengths(result)
    assert roads.lookup([5])[5]["behind"] == 2  # neither the branch nor its fork changed it
    assert lengths(roads.query())[6] == 5.0
    for branch in (first, second, third, late):
        branch.close()


def test_merges_and_input_in_any_order(roads: MainLoop) -> None:
    """Both at once, again and again: whichever is first, no change is lost."""
    for number in range(4):
        roads.query().close()
        with roads.fork() as branch:
            branch.result(60).close()
            ready = threading.Barrier(2)
            refused: list[Exception] = []

            def merge(branch: Any = branch, ready: Any = ready, refused: Any = refused) -> None:
                ready.wait()
                try:
                    branch.merge()
                except InputError as error:
                    refused.append(error)

            thread = threading.Thread(target=merge)
            thread.start()
            ready.wait()
            if number % 2:
                time.sleep(0.02)
            roads.ingest([("+", 4, 20 + number, 1)])
            thread.join(60)
            assert branch.merged != bool(refused)
        assert {20 + k for k in range(number + 1)} < set(lengths(roads.query()))
    assert roads.changes == 4


def test_an_earlier_version(roads: MainLoop) -> None:
    graphs = {roads.iteration: 3.0}
    for value in (0.5, 0.25):
        roads.ingest([("+", 1, 4, value)])
        graphs[roads.iteration] = value
    roads._history.take_snapshot()
    roads.ingest([("-", 1, 4)])
    graphs[roads.iteration] = 3.0
    for at, length in graphs.items():
        with roads.fork(at=at) as branch:
            result = branch.result(60)
            assert result.statistics["start"] == "init"
            assert lengths(result)[4] == length
            with pytest.raises(InputError, match="is of an earlier version"):
                branch.merge()


@pytest.mark.parametrize("compiled", ["require", False])
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_name_that_a_branch_said_first(partitions: int, compiled: Any) -> None:
    graph = Graph.from_arrays(["a", "b"], ["b", "c"], [1.0, 1.0], partitions=partitions)
    with MainLoop(
        ConnectedComponents, graph, backend="memory://names", compiled=compiled, replace=True
    ) as main:
        with main.fork() as branch:
            branch.apply([("~", "a", "d", 2.0)])  # absent, so it makes no vertex
            assert set(lengths(branch.result())) == {"a", "b", "c"}
        main.query().close()  # which has no use for the name
        main.ingest([("+", "a", "d", 2.0)])
        assert lengths(main.query()) == dict.fromkeys("abcd", "a")


def test_a_failure_ends_with_the_graph_it_was_of() -> None:
    chain = Graph.from_arrays(range(9), range(1, 10))
    options: Any = {"backend": "memory://branch-failure", "compiled": False}
    with MainLoop(ConnectedComponents, chain, **options) as main, main.fork() as branch:
        branch.apply([("+", 20, 0)])
        with pytest.raises(RunError, match="met its limit"):
            branch.start(max_iterations=1).result()
        with pytest.raises(RunError, match="met its limit"):
            branch.result()  # of the same graph
        with branch.fork() as nested:
            nested.apply([("-", 4, 5)])
            nested.merge()
        assert branch.result().to_dict() == {
            v: 0 if v < 5 or v == 20 else 5 for v in (*range(10), 20)
        }
        assert branch.progress()["state"] != "failed"


def test_a_merge_of_a_branch_that_was_restored_shows_its_graph_at_once() -> None:
    graph = Graph.from_arrays(["a"], ["b"])
    options: Any = {"backend": "memory://branch-restored", "compiled": False}
    with MainLoop(ConnectedComponents, graph, **options) as main, main.fork() as branch:
        branch.apply([("+", "b", "c")])
        branch._history.stale = True  # as after a snapshot that failed
        branch.apply([("+", "0", "c")])
        branch.merge()
        assert main.progress()["edges"] == 3
        assert main.query().to_dict() == dict.fromkeys("0abc", "0")


def test_no_snapshot_is_committed_while_a_branch_is_deleted() -> None:
    options: Any = {"backend": "memory://branch-deleted", "compiled": False}
    held: list[bool] = []
    with MainLoop(ConnectedComponents, Graph.from_arrays([1], [2]), **options) as main:
        branch = main.fork()
        history, delete = branch._history, branch._history.store.delete

        def look() -> None:
            held.append(not history.lock.acquire(blocking=False))
            if not held[0]:
                history.lock.release()

        def deletes(loop: str) -> None:
            other = threading.Thread(target=look)
            other.start()
            other.join()
            delete(loop)

        history.store.delete = deletes  # type: ignore[method-assign]
        branch.close(forget=True)
    assert held == [True]


def test_limits_and_cancelling(spark: SparkSession, url: str) -> None:
    graph = Graph.from_arrays([1, 2], [2, 1], spark=spark, partitions=2)
    with MainLoop(Endless, graph, backend=url, compiled=False) as main:
        with pytest.raises(
            RunError, match=r"met its limit of iterations.* 5 iterations, residual 6"
        ):
            main.query(max_iterations=5)
        assert main.read().statistics["exact"] is False
        with main.fork() as branch:
            with pytest.raises(RunError, match=r"met its time limit after \d"):
                branch.start(timeout=0.3).result(60)
            branch.start()
            with pytest.raises(InputError, match="is running"):
                branch.start()
            with pytest.raises(RunError, match="still running after"):
                branch.result(0.2)
            while branch.progress()["iterations"] < 3:
                time.sleep(0.01)
            branch.cancel()
            with pytest.raises(RunError, match="was cancelled"):
                branch.result(60)
            assert branch.progress()["state"] == "failed"
            assert branch.read().lookup([1])[1]["count"] >= 3


def test_many_beside_a_loop_that_goes_on(spark: SparkSession, url: str) -> None:
    rows = [(k, (7 * k + 3) % 20) for k in range(20)]
    graph = Graph.from_arrays(*zip(*rows, strict=True), spark=spark)
    with MainLoop(PageRank, graph, params={"epsilon": 1e-12}, backend=url) as main:
        main.shared = True
        wanted, branches = [], []
        for k in range(4):
            main.ingest([("+", k, 30 + k), ("-", *rows[0])])
            rows = [*rows[1:], (k, 30 + k)]
            wanted.append(expected("pagerank", rows, [], {"epsilon": 1e-12}))
            branches.append(main.fork().start(timeout=60))
        for branch, answer in zip(branches, wanted, strict=True):
            ranks = lengths(branch.result(60))
            assert not disagreements(answer, {v: {"rank": x} for v, x in ranks.items()}, 1e-9)
            branch.close(forget=True)
        result = main.query()
        assert result.loop == "pagerank-1"
        assert result.statistics["start"] == "init"  # no branch was merged before
        ranks = lengths(result)
        assert not disagreements(wanted[-1], {v: {"rank": x} for v, x in ranks.items()}, 1e-9)
        assert main.lookup([30])[30]["behind"] == 0  # as it was merged
        main.ingest([("+", 5, 6)])
        assert main.query().statistics["start"] == "warm"


def test_the_memory_of_branches_is_freed(spark: SparkSession, url: str) -> None:
    graph = Graph.from_arrays([1, 2], [2, 3], spark=spark)
    main = MainLoop(ConnectedComponents, graph, backend=url)
    main.query().close()
    place = Path("/dev/shm") / f"vertexsdk-{graph.key.split('/')[0]}" / graph.key.split("/")[1]

    def kept() -> int:
        return len([p for p in place.rglob("*") if p.is_file()])

    before = kept()
    for _ in range(3):
        with main.fork() as branch:
            branch.apply([("+", 8, 9)])
            branch.result(60).close()
    assert kept() == before
    branch = main.fork()
    main.close()  # the branch outlives it
    assert branch.apply([("+", 8, 9)])["added"] == 1
    assert branch.result(60).lookup([9])[9] == {"component": 8}
    branch.close()
    assert kept() == 0


def test_branches_are_bounded(tmp_path: Path) -> None:
    """Branches of branches count too; what is closed, merged and closed, or forgotten does not."""
    graph = Graph.from_arrays([1, 2], [2, 3])
    options: Any = {"backend": f"lmdb://{tmp_path}/state", "max_branches": 2}
    message = "'wcc' cannot be forked: its main loop has 2 open branches, as many as max_branches"
    for limit in (0, -1):
        with pytest.raises(InputError, match=f"max_branches is {limit}; give 1 or more, or None"):
            MainLoop(ConnectedComponents, graph, **{**options, "max_branches": limit})
    MainLoop(ConnectedComponents, graph, loop="wcc", **options).close()
    with MainLoop.resume(None, ConnectedComponents, loop="wcc", **options) as main:
        branch = main.fork("a")
        with pytest.raises(StateInputError, match="'a'"):  # which does not count
            main.fork("a")
        with branch.fork("b") as nested:
            for loop in (main, branch, nested):
                with pytest.raises(InputError, match="cannot be forked: its main loop has 2 open"):
                    loop.fork()
            with pytest.raises(InputError, match=message):
                main.fork("c", at=0)
            main.shared = True
            main.query().close()  # in a branch of its own
        other = main.fork("d")
        assert sorted(main._history.store.loops()) == ["a", "b", "d", "wcc", "wcc-1"]
        other.result().close()
        other.merge()
        other.close()
        other.close()
        main.fork("e")  # and nobody has it any more
        gc.collect()
        main.fork("f").close()
        branch.close()
