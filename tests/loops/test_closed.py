"""What is closed holds nothing: no descriptor, process, thread or memory, before any collection."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.open_files import open_files
from vertexsdk import Graph, MainLoop, Min, Vertex, run, state
from vertexsdk.algorithms import ConnectedComponents, Degree, PageRank, ShortestPaths
from vertexsdk.engine import arena
from vertexsdk.engine.loop_task import peak_memory
from vertexsdk.errors import RunError
from vertexsdk.state import open_store

BACKEND = "memory://closed"
NUMBERS = [1, 2, 3, 4], [2, 3, 4, 1]
NAMES = list("abcd"), list("bcda")


class Stumbles(Vertex):
    """Fails once the graph has more than four vertices."""

    least: int = state(0)
    messages = Min(int)

    def init(self) -> None:
        if self.num_vertices > 4:
            raise ValueError("too many vertices")
        self.least = self.id

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        self.least = min(self.id, delta.value)

    def scatter(self, iteration: int) -> None:
        for target in self.targets:
            self.emit(target, self.least)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Without the collector: an object in a cycle keeps what it has."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def held() -> Counter[Any]:
    """What this process has: open files, processes of its own, threads."""
    all: Counter[Any] = Counter()
    for name in open_files():
        all[name.partition(":")[0] if name.startswith(("socket:", "pipe:")) else name] += 1
    all.update(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    # One is there for a while after a store was read; others may end, of earlier tests.
    all.update(t for t in threading.enumerate() if t.name != "vertexsdk-pins")
    return all


def assert_nothing_stays(use: Callable[[], Any]) -> None:
    use()  # the store, and what a process has once
    before = held()
    kept = use()
    assert not held() - before
    del kept


def a_loop(program: type[Vertex], edges: Any, partitions: int, compiled: bool) -> list[Any]:
    """Open a loop, use it in many ways, and close it; return what a user may still refer to."""
    last, new, newer = (4, 5, 6) if edges is NUMBERS else "dzy"
    origin = {"origin": edges[0][0]} if program is ShortestPaths else {}
    graph = Graph.from_arrays(*edges, partitions=partitions)
    loop = MainLoop(program, graph, backend=BACKEND, replace=True, compiled=compiled, **origin)
    kept = [graph, loop, *queried_and_merged(loop, last, new, newer)]
    inner = loop.fork()
    inner.fork().close()
    loop.snapshot()
    loop.rescale(3 - partitions)
    inner.close()
    loop.close()
    return [*kept, inner]


def queried_and_merged(loop: MainLoop, last: Any, new: Any, newer: Any) -> list[Any]:
    """Ingest an edge to `new`, and merge a branch with one to `newer`; query before and after."""
    loop.ingest([("+", last, new)])
    before = loop.query()
    branch = loop.fork()
    branch.apply([("+", new, newer)])
    branch.result().close()
    branch.merge()
    branch.close()
    after = loop.query()
    assert newer in after.to_dict()
    before.close()
    after.close()
    return [branch, before, after]


@pytest.mark.sample(5)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("edges", [NUMBERS, NAMES], ids=["numbers", "names"])
@pytest.mark.parametrize(("program", "partitions"), [
    (ShortestPaths, 1), (ConnectedComponents, 2), (PageRank, 2), (Degree, 1),
])  # fmt: skip
def test_a_loop_that_is_closed_holds_nothing(
    uncollected: None, program: type[Vertex], edges: Any, partitions: int, compiled: bool
) -> None:
    assert_nothing_stays(lambda: a_loop(program, edges, partitions, compiled))


@pytest.mark.sample(1)
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_loop_that_failed_holds_nothing(uncollected: None, partitions: int) -> None:
    """The exceptions, whose frames have the partitions as locals, are kept as a notebook does."""

    def use() -> list[Any]:
        graph = Graph.from_arrays(*NUMBERS, partitions=partitions)
        loop = MainLoop(
            Stumbles, graph, backend=BACKEND, loop="fails", replace=True, compiled=False
        )
        loop.query().close()
        loop.ingest([("+", 4, 5)])
        with pytest.raises(RunError, match="too many vertices") as failed:
            loop.query()
        branch = loop.fork()
        with pytest.raises(RunError, match="too many vertices") as failed_too:
            branch.result()
        branch.close()
        loop.close()
        return [loop, branch, failed, failed_too]

    assert_nothing_stays(use)


@pytest.mark.parametrize("backend", ["memory", "lmdb"])
def test_runs_stores_and_resumed_loops_that_are_closed_hold_nothing(
    uncollected: None, tmp_path: Path, backend: str
) -> None:
    address = BACKEND if backend == "memory" else f"lmdb://{tmp_path}/state"

    def use() -> list[Any]:
        graph = Graph.from_arrays(*NUMBERS, partitions=2)
        results = [
            run(program, graph, backend=address, compiled=compiled)
            for program in (PageRank, Degree) for compiled in (True, False)
        ]  # fmt: skip
        for result in results:
            result.to_dict()
            result.lookup([1])
            result.close()
        graph.unpersist()
        store = open_store(address)
        store.close()
        loop = MainLoop(Degree, graph, backend=address, loop="again", replace=True)
        loop.ingest([("+", 4, 5)])
        loop.close()
        again = MainLoop.resume(None, Degree, backend=address, loop="again")
        again.query().close()
        again.close()
        return [graph, results, store, loop, again]

    assert_nothing_stays(use)


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("program", [PageRank, Stumbles])
def test_a_graph_is_freed_with_its_last_reference_after_a_run(
    uncollected: None, program: type[Vertex], partitions: int
) -> None:
    """Also after a run that failed; else processors on Spark would keep their slots."""

    def use() -> weakref.ref[Graph]:
        graph = Graph.from_arrays([*NUMBERS[0], 5], [*NUMBERS[1], 5], partitions=partitions)
        with contextlib.suppress(RunError):
            run(program, graph, backend=BACKEND, compiled=program is PageRank).close()
            assert program is PageRank
        return weakref.ref(graph)

    use()  # to compile leaves cycles behind
    assert use()() is None


def test_an_open_loop_keeps_few_files_of_those_that_were_closed(
    uncollected: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arena, "_spare", arena._SpareFiles())  # those of this test alone
    with MainLoop(Degree, Graph.from_arrays(*NUMBERS), backend=BACKEND, loop="open") as beside:
        beside.query().close()
        assert_nothing_stays(lambda: a_loop(ShortestPaths, NUMBERS, 1, compiled=True))
    large = 1 << 20
    one = arena.Memory(large)
    several = [arena.Memory(large) for _ in range(2 * arena._SPARE_FILES)]
    before = held()
    several.clear()
    assert (before - held()).total() == arena._SPARE_FILES
    del one
    assert (before - held()).total() > 2 * arena._SPARE_FILES


def used(times: int) -> tuple[Counter[Any], int]:
    """Use loops so often; what this process has then, and the most memory it has had."""
    for k in range(times):
        graph = Graph.from_arrays(*NUMBERS, partitions=1 + k % 2)
        with MainLoop(ShortestPaths, graph, origin=1, backend=BACKEND, replace=True) as loop:
            queried_and_merged(loop, 4, 5, 6)
    gc.collect()
    return held(), peak_memory()


def test_loops_that_are_opened_and_closed_leave_nothing() -> None:
    before, _ = used(2)
    assert not used(6)[0] - before


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_two_thousand_loops_take_no_more_than_twenty() -> None:
    before, memory = used(20)
    after, most = used(1_980)
    assert not after - before
    assert most < memory + (64 << 20)
