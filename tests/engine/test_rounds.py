"""Loops in loops: programs with `next_round`, in every way the engine can run them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.graphs import random_graph
from tests.support.inprocess import InProcess
from tests.support.random_programs import RandomProgram
from tests.support.reference import reference
from tests.support.seeds import draws, seed
from tests.support.simulated_histories import Cores, Prioritised
from tests.support.written_classes import written_class
from vertexsdk import (
    INT_MAX,
    Graph,
    Max,
    Min,
    Sum,
    Vertex,
    VertexId,
    aggregate,
    run,
    state,
)
from vertexsdk.errors import InputError, ProgramError, RunError
from vertexsdk.program.program import Program
from vertexsdk.testing.oracles import expected

BONUS = 2
PATH = [(1, 2), (2, 3), (3, 4)]


@pytest.mark.filterwarnings("ignore::vertexsdk.program.warn.ProgramWarning")
@pytest.mark.parametrize("number", range(draws(12, 20)))
def test_drawn_programs(number: int, tmp_path: Path) -> None:
    chance = random.Random(f"{seed()} {number}")
    made = RandomProgram(chance, f"Rounds{number}", rounds=True)
    program = Program(made.cls(tmp_path))
    graph = random_graph(chance, vertices=20, edges=60)
    wanted = reference(program, graph.edges, graph.vertices, undirected=graph.undirected)
    runs = InProcess(program, graph.edges, graph.vertices, undirected=graph.undirected)
    for partitions in (1, 2, 7):
        # to compile one takes some seconds
        compiled = "require" if partitions == 2 and number % 6 == 0 else False
        got, _, iterations = runs.run({}, partitions=partitions, compiled=compiled)
        assert got == wanted.state, (partitions, compiled, made.text)
        assert iterations == wanted.iterations
    got, _, _ = runs.run({}, partitions=3, forget=True)  # a new worker at every hop
    assert got == wanted.state, made.text


@pytest.mark.parametrize("partitions", [1, 3])
def test_labels_by_priority(partitions: int) -> None:
    """Two vertices have the same label exactly if they are connected."""
    chance = random.Random(seed())
    edges = [(chance.randrange(60), chance.randrange(60)) for _ in range(45)]
    got, _, _ = InProcess(Program(Prioritised), edges, range(60), undirected=True).run(
        {}, partitions=partitions
    )
    components = expected("wcc", edges, range(60), {}, undirected=True)["component"]
    pairs = {(components[v], got[v]["component"]) for v in components}
    labels = {label for _, label in pairs}
    assert len(pairs) == len(set(components.values())) == len(labels) >= 60 - 45


def test_core_numbers_by_rounds() -> None:
    chance = random.Random(seed())
    graph = random_graph(chance, vertices=30, edges=150)
    wanted = expected("kcore", graph.edges, graph.vertices, {}, undirected=graph.undirected)
    runs = InProcess(Program(Cores), graph.edges, graph.vertices, undirected=graph.undirected)
    for partitions in (1, 2, 7):
        got, _, _ = runs.run({}, partitions=partitions, compiled="require")
        assert {v: row["k"] - 1 for v, row in got.items()} == wanted["core"]


class Counting(Vertex):
    """Rounds in which nothing new is sent, and the numbers of iterations."""

    rounds: int = state(0)
    gathered: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.gathered = self.gathered * 10 + iteration

    def next_round(self, round):
        if self.rounds < self.id:
            self.rounds = round

    def scatter(self, iteration):
        self.emitAll(7)


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("compiled", ["require", False])
def test_a_vertex_that_a_round_changes_gathers_in_the_next_iteration(
    partitions: int, compiled: bool | str
) -> None:
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4], partitions=partitions)
    with run(Counting, graph, backend="memory://rounds", compiled=compiled) as result:
        rows = dict(result.rows())
        assert {v: row["rounds"] for v, row in rows.items()} == {1: 1, 2: 2, 3: 3, 4: 4}
        # Iteration 2 begins round 1, and 4, 6, 8 and 10 those after it; 10 changes no vertex.
        gathered = {v: row["gathered"] for v, row in rows.items()}
        assert gathered == {1: 13, 2: 135, 3: 1357, 4: 13579}
        assert result.statistics["reason"] == "quiet"
        assert result.statistics["iterations"] == 10


class Still(Vertex):
    """One of two classes: it has no rounds, and an aggregator."""

    level: int = state(0)
    messages = Max(int)
    total = aggregate(Sum(int))

    def gather(self, iteration, source, delta):
        self.level = max(self.level, delta.value)
        self.total.contribute(self.level)

    def scatter(self, iteration):
        self.emitAll(self.level)


class Shells(Still):
    """The other one: its rounds read the aggregator."""

    def next_round(self, round):
        if self.total.value < 20:
            self.level += self.id % 2


def test_two_classes_and_an_aggregator() -> None:
    chance = random.Random(seed())
    edges = [(a, b) for a in range(8) for b in range(8) if chance.random() < 0.3]
    kinds = [(v, "Still" if v % 3 == 0 else "Shells") for v in range(8)]
    wanted = reference([Shells, Still], edges, kinds)
    runs = InProcess(Program(Shells, Still), [(a, b, 1.0) for a, b in edges], kinds)
    for partitions in (1, 2, 7):
        for compiled in ("require", False):
            got, _, _ = runs.run({}, partitions=partitions, compiled=compiled)
            assert got == wanted.state


class Offers(Vertex):
    """The message along an edge has a constant of the module."""

    least: VertexId = state()
    far: int = state(0)
    messages = Min(int)
    edge = int

    def gather(self, iteration, source, delta):
        self.far = min(delta.value, 100) if self.far == 0 else min(self.far, delta.value)

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.far + BONUS * target.value if self.far < INT_MAX else BONUS)


def test_a_constant_in_the_message_along_an_edge_is_compiled() -> None:
    edges = [(1, 2, 3), (2, 3, 4), (3, 1, 5)]
    wanted = reference(Offers, edges)
    runs = InProcess(Program(Offers), edges, [])
    got, _, _ = runs.run({}, partitions=2, compiled="require")
    assert got == wanted.state


HEAD = """
from vertexsdk import *


class Wrong(Vertex):
    level: int = state(0)
    total = aggregate(Sum(int))
    {messages}

    def gather(self, iteration, source, delta):
        {gather}

    def {next_round}

    def scatter(self, iteration):
        self.emitAll({message})
"""


@pytest.mark.parametrize(
    ("messages", "next_round", "message", "line"),
    [
        ("", "next_round(self, round):\n        self.level += 1", "1", "needs messages = ..."),
        (
            "messages = Sum(int)", "next_round(self, round):\n        self.level += 1", "iteration",
            "let it read fields only",
        ),
        (
            "messages = Sum(int)", "next_round(self, round):\n        self.level += 1",
            "self.total.value", "let it read fields only",
        ),
        (
            "messages = Sum(int)", "next_round(self):\n        self.level += 1", "1",
            r"next_round takes \(self, round\), this one has 1 arguments",
        ),
        (
            "messages = Sum(int)", "next_round(self, round):\n        self.emitAll(1)", "1",
            "emitAll in next_round; only scatter may send",
        ),
        (
            "messages = Sum(int)", "next_round(self, round):\n        return 3", "1",
            "next_round returns a value, which is not used",
        ),
        (
            "messages = Sum(int)", "nextRound(self, round):\n        self.level = 3", "1",
            "there is no 'nextRound'; did you mean 'next_round'",
        ),
    ],
)  # fmt: skip
def test_classes_that_are_refused(
    messages: str, next_round: str, message: str, line: str, tmp_path: Path
) -> None:
    gather = "self.level = 1" if messages else "super().gather(iteration, source, delta)"
    text = HEAD.format(messages=messages, gather=gather, next_round=next_round, message=message)
    with pytest.raises(ProgramError, match=line):
        written_class("Wrong", text, tmp_path)


class Failing(Vertex):
    """Divides by nothing at vertex 3, in round 2."""

    level: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.level = max(self.level, 0)

    def next_round(self, round):
        self.level = 6 // (5 - self.id - round)

    def scatter(self, iteration):
        self.emitAll(self.level)


@pytest.mark.parametrize("compiled", ["require", False])
def test_an_error_names_the_vertex_and_the_line(compiled: bool | str) -> None:
    graph = Graph.from_arrays([1, 2], [2, 3])
    with pytest.raises(RunError, match=r"next_round: ZeroDivisionError.*vertex 3") as error:
        run(Failing, graph, backend="memory://rounds", compiled=compiled)
    line = Failing.next_round.__code__.co_firstlineno + 1
    assert f"test_rounds.py:{line}: Failing.next_round" in str(error.value)


def test_a_delay_bound_is_refused() -> None:
    graph = Graph.from_arrays([1, 2], [2, 3], partitions=2)
    with pytest.raises(InputError, match=r"Cores.next_round begins when all vertices are at a"):
        run(Cores, graph, backend="memory://rounds", delay_bound=4)


def test_the_last_round_allowed() -> None:
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4])
    with run(Counting, graph, backend="memory://rounds", max_iterations=5) as result:
        rounds = {v: row["rounds"] for v, row in result.rows()}
        assert rounds == {1: 1, 2: 2, 3: 2, 4: 2}
        assert result.statistics["reason"] == "max_iterations"
