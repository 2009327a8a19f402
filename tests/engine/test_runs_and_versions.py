"""Runs whose rule fails, whose states are objects, that lose a partition, or have neighbours."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from vertexsdk import Graph, RunError, Sum, Vertex, aggregate, read, run, state
from vertexsdk.algorithms import ConnectedComponents
from vertexsdk.engine import loop_task
from vertexsdk.engine.loop_task import LoopTask
from vertexsdk.engine.run_partition import RunPartition
from vertexsdk.errors import LostError
from vertexsdk.state import open_store

RING = list(range(12)), [(k + 1) % 12 for k in range(12)]


class Undecided(Vertex):
    """A program whose rule of convergence fails after some iterations."""

    value: float = state(0.0)
    total = aggregate(Sum(float))
    messages = Sum(float)

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        self.value = 1.0 + 0.25 * delta.value
        self.total.contribute(self.value)

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.value)

    def converged(self, iteration: int, aggregates: Any) -> bool:
        if aggregates.total > 15.97:  # in iteration 5
            raise ValueError("no idea")
        return False


class Diary(Vertex):
    """A program whose methods change a list in place."""

    seen: object = state(None)
    messages = Sum(int)
    max_iterations = 6

    def init(self) -> None:
        self.seen = []

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        self.seen.append(iteration)

    def scatter(self, iteration: int) -> None:
        self.emitAll(1)


def versions(url: str) -> list[int]:
    with open_store(url, create=False) as store:
        return store.versions("loop")


@pytest.mark.parametrize("partitions", [1, 3])
def test_versions_before_a_rule_that_fails_are_readable(partitions: int) -> None:
    graph = Graph.from_arrays(*RING, partitions=partitions)
    url = f"memory://undecided-{partitions}"
    with pytest.raises(RunError, match=r"Undecided.converged: ValueError: no idea"):
        run(Undecided, graph, backend=url, loop="loop", commit_every=1, compiled=False)
    assert versions(url) == [1, 2, 3, 4]


@pytest.mark.parametrize("partitions", [1, 3])
def test_versions_have_the_objects_as_they_were(partitions: int) -> None:
    graph = Graph.from_arrays(*RING, partitions=partitions)
    url = f"memory://diary-{partitions}"
    run(Diary, graph, backend=url, loop="loop", commit_every=1, compiled=False).close()
    for iteration in versions(url):
        with closing(read(url, "loop", at=iteration, trusted=True)) as result:
            assert {tuple(row["seen"]) for _, row in result.rows()} == {
                tuple(range(1, iteration + 1))
            }


def test_a_partition_that_is_lost_has_the_run_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[int] = []
    real = LoopTask._run_partition

    def lose(task: LoopTask, partition: int, version: int) -> Any:
        if partition == 1 and not lost:
            lost.append(partition)
            raise LostError("gone")
        return real(task, partition, version)

    monkeypatch.setattr(LoopTask, "_run_partition", lose)
    graph = Graph.from_arrays(*RING, partitions=3)
    with closing(run(ConnectedComponents, graph, backend="memory://lost")) as result:
        assert set(result.to_dict().values()) == {0}
    assert lost == [1]


def test_a_run_by_jobs_leaves_the_partitions_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: dict[Any, Any] = {}
    for key, resident in (("stays", True), ("is over", False)):
        part = RunPartition.__new__(RunPartition)
        part.plan = SimpleNamespace(resident=resident)  # type: ignore[assignment]
        runs[key, 0] = 1, part
    monkeypatch.setattr(loop_task, "_partitions", runs)
    graph = Graph.from_arrays(*RING, partitions=2)
    with closing(run(ConnectedComponents, graph, backend="memory://jobs", exchange="shuffle")):
        assert list(runs) == [("stays", 0)]
