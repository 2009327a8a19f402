"""Programs which change their graph: what counts as a change, and when it is seen."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.support.inprocess import InProcess
from vertexsdk import Graph, Sum, Vertex, run, state
from vertexsdk.program.program import Program


class GrowInGather(Vertex):
    heard: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.heard = delta.value
        if self.id == 1 and iteration == 1:
            self.addTarget(3, 2)
            self.removeTarget(2)

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, int(target.value))


def test_targets_changed_in_gather_are_there_in_scatter(execute: Any) -> None:
    assert execute(GrowInGather, [(1, 2, 5)], "heard", [3])[0] == {1: 0, 2: 0, 3: 2}


class GrowInScatter(Vertex):
    heard: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.heard = delta.value

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, int(target.value))
        if self.id == 1 and iteration == 0:
            self.addTarget(3, 2)


def test_targets_added_in_scatter_are_sent_to_in_the_next_iteration(execute: Any) -> None:
    heard, iterations = execute(GrowInScatter, [(1, 2, 5)], "heard", [3])
    assert heard == {1: 0, 2: 5, 3: 2}
    assert iterations == 2


class Insists(Vertex):
    """1 asks in every iteration for what is so already."""

    total: float = state(0.0)
    calls: int = state(0)
    messages = Sum(int)
    always = True
    max_iterations = 20

    def gather(self, iteration, source, delta):
        self.total = 0.0
        self.calls = min(self.calls + 1, 2)
        for target in self.targets:
            self.total += target.value
        if self.id == 1:
            self.addTarget(2)
            self.addTarget(3)
            self.addTarget(4, 2.5)
            self.removeTarget(9)
            self.removeTarget(2)
            self.addTarget(2, 5.0)
            self.addTarget(7)
            self.removeTarget(7)

    def scatter(self, iteration):
        self.emitAll(0)


@pytest.mark.sample(2)
def test_asking_for_what_is_so_already_changes_nothing(execute: Any) -> None:
    edges = [(1, 2, 5.0), (4, 1, 1.0)]
    total, iterations = execute(Insists, edges, "total", [3])
    # 3 is a target with value 1, for none was given; 7 never came to be.
    assert total == {1: 5.0 + 1.0 + 2.5, 2: 0.0, 3: 0.0, 4: 1.0}
    assert iterations == 3


class Counts(Vertex):
    """Reads no edge value, so that a new one is no news."""

    calls: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.calls += 1

    def scatter(self, iteration):
        self.emitAll(1)
        self.addTarget(2, iteration + 0.5)


def test_a_value_which_nobody_reads_is_no_change(execute: Any) -> None:
    calls, iterations = execute(Counts, [(1, 2), (2, 2), (3, 2)], "calls")
    assert calls == {1: 1, 2: 1, 3: 1}
    assert iterations == 1


class Left(Vertex):
    level: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.level = delta.value

    def scatter(self, iteration):
        if self.id % 2 == 1:
            self.addTarget(self.id + 1)
        self.emitAll(1)


class Right(Vertex):
    trace: float = state(0.0, size=2)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.trace[0] = delta.value

    def scatter(self, iteration):
        self.removeTarget(1)
        self.emitAll(2)


@pytest.mark.sample(1)
@pytest.mark.parametrize("partitions", [1, 3])
def test_kernels_of_all_classes_are_compiled_once_and_before_the_run(partitions: int) -> None:
    vertices = [(v, "Left" if v < 5 else "Right") for v in range(1, 9)]
    edges = [(v, 1 + v % 8) for v in range(1, 9)]
    runs = InProcess(Program(Left, Right), edges, vertices)
    got, _, _ = runs.run({}, partitions=partitions, compiled="require")
    assert (got[1]["level"], got[2]["level"], got[6]["trace"].tolist()) == (0, 1, [2.0, 0.0])
    compiled: dict[tuple[str, str], int] = {}
    for module in [m for n, m in sys.modules.items() if n.startswith("vertexsdk_kernels_")]:
        of = next((name for name in ("Left", "Right") if f" {name}:" in (module.__doc__ or "")), "")
        for kernel in ("init", "gather", "scatter") if of else ():
            count = len(vars(module)[kernel].signatures)
            compiled[of, kernel] = max(count, compiled.get((of, kernel), 0))
    assert len(compiled) == 6
    assert set(compiled.values()) == {1}


class RemovesNone(Vertex):
    """Removes a target that it does not have."""

    total: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.total = delta.value

    def scatter(self, iteration):
        self.removeTarget(99)
        self.emitAll(1)


@pytest.mark.parametrize("direction", ["out", "in", "both", "undirected"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_to_remove_an_absent_target_changes_nothing(direction: str, partitions: int) -> None:
    cls = type("RemovesNone", (RemovesNone,), {"direction": direction})
    graph = Graph.from_arrays([1, 2], [2, 3], partitions=partitions)
    answer = run(cls, graph, backend="memory://absent-target", replace=True).to_dict()
    expected = {"out": {1: 0, 2: 1, 3: 1}, "in": {1: 1, 2: 1, 3: 0}}
    assert answer == expected.get(direction, {1: 1, 2: 2, 3: 1})
