"""`target.targets` and `edges_to`: the reference, compiled and interpreted, however divided."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.graphs import random_graph
from tests.support.inprocess import InProcess
from tests.support.reference import reference
from tests.support.seeds import seed
from vertexsdk import Graph, InputError, Latest, Min, ProgramError, Sum, Vertex, run, state
from vertexsdk.program.program import Program


class TwoSteps(Vertex, abstract=True):
    """Walks of two edges: how many there are, where they end, and which of them have a shortcut."""

    walks: int = state(0)
    ends: int = state(0)  # a sum over their last vertices, in which the order counts
    shortcuts: int = state(0)
    returns: int = state(0)
    parallel: int = state(0)
    told: int = state(0)
    first: int = state(0)
    degrees: int = state(0)

    messages = Sum(int)

    def init(self):
        for target in self.targets:
            self.first += len(target.targets)

    def gather(self, iteration, source, delta):
        self.told = delta.value
        if iteration == 1:
            for target in self.targets:
                self.walks += len(target.targets)
                self.parallel += self.edges_to(target)
                for other in target.targets:
                    self.ends = (31 * self.ends + other.id) % 1000003
                    self.shortcuts += self.edges_to(other)
                    self.degrees += len(other.targets)
                    if other.id == self.id or other.id == target.id:
                        self.returns += 1

    def scatter(self, iteration):
        for target in self.targets:
            count = 0
            for other in target.targets:
                if other.id != self.id:
                    count += 1 + self.edges_to(other)
            self.emit(target, count)


class Out(TwoSteps):
    direction = "out"


class In(TwoSteps):
    direction = "in"


class Both(TwoSteps):
    direction = "both"


class Undirected(TwoSteps):
    direction = "undirected"


class Nearest(Vertex):
    """Smallest id two edges away, by messages that are compared."""

    least: int = state(0)
    messages = Min(int)

    def gather(self, iteration, source, delta):
        self.least = delta.value

    def scatter(self, iteration):
        for target in self.targets:
            for other in target.targets:
                self.emit(target, other.id)


class Listed(Vertex):
    """With messages that are not combined, a vertex of another partition has several ghosts."""

    shortcuts: int = state(0)
    same: int = state(0)
    messages = Latest(int)
    direction = "both"

    def gather(self, iteration, source, delta):
        self.shortcuts = 0
        self.same = 0
        for target in self.targets:
            for other in target.targets:
                self.shortcuts += self.edges_to(other) * (1 + len(other.targets))
                if other.id == target.id:
                    self.same += len(delta.values)

    def scatter(self, iteration):
        self.emitAll(1)


@pytest.mark.sample(2)
@pytest.mark.parametrize("program", [Out, In, Both, Undirected, Nearest, Listed])
def test_agrees_with_the_reference(program: type[Vertex]) -> None:
    rng = random.Random(seed())
    for turn in range(6):
        graph = random_graph(rng, vertices=rng.choice([3, 12, 40]), edges=rng.choice([9, 60, 150]))
        wanted = reference(program, graph.edges, graph.vertices, undirected=graph.undirected).state
        runs = InProcess(Program(program), graph.edges, graph.vertices, undirected=graph.undirected)
        compiled: Any = "require" if turn % 2 else False
        for partitions, forget in ((1, False), (rng.choice([2, 3]), True), (7, False)):
            threads = rng.choice([1, 2])
            got, _, _ = runs.run(
                partitions=partitions, compiled=compiled, forget=forget, threads=threads
            )
            assert got == wanted, (turn, partitions, forget, compiled)


def test_string_ids() -> None:
    graph = Graph.from_arrays(["b", "a", "c", "d"], ["a", "c", "b", "b"], partitions=2)
    for compiled in ("require", False):
        with run("triangles", graph, compiled=compiled, backend="memory://rows") as result:
            assert result.to_dict() == {"a": 1, "b": 1, "c": 1, "d": 0}


class Grows(Nearest):
    """Sends to a vertex that is not there."""

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(len(target.targets) + 1000, 1)


def test_a_graph_that_its_own_program_changes_is_refused() -> None:
    graph = Graph.from_arrays([1, 2], [2, 3])
    with pytest.raises(ProgramError, match="grows reads the targets of its targets"):
        run(Grows, graph, backend="memory://rows")
    with pytest.raises(InputError, match="Nearest reads the targets of its targets"):
        run(Nearest, graph, delay_bound=4, backend="memory://rows")
