"""`self.random()` gives the same numbers in every way that a program can be run."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import vertexsdk
from tests.support import seeds
from tests.support.inprocess import InProcess
from vertexsdk import InputError, Min, Sum, Vertex, param, state
from vertexsdk.program.analysis.delay_bound import why_synchronous
from vertexsdk.program.analysis.incremental_rules import why_from_init
from vertexsdk.program.program import Program


class Walk(Vertex):
    """Numbers drawn in every method, in a loop, and in a helper."""

    first: float = state(0.0)
    second: float = state(0.0)
    total: float = state(0.0)
    rounds: int = param(4)
    messages = Sum(int)

    def init(self):
        self.first = self.random()
        self.second = self.random()

    def drawn(self):
        return self.random()

    def gather(self, iteration, source, delta):
        for _ in range(iteration):
            self.total = self.total + self.random()
        self.total = self.total + 10.0 * self.drawn() + delta.value % 3

    def scatter(self, iteration):
        if iteration < self.rounds:
            for target in self.targets:
                self.emit(target, int(self.random() * 1000.0))


class Events(Vertex):
    numbers: float = state(size=3)

    def init(self):
        self.numbers[0] = self.random()

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        self.numbers[1] += self.random()

    def scatter(self, iteration):
        self.numbers[2] = self.random()


def edges_of(rng: random.Random) -> list[tuple[int, int]]:
    return sorted({(rng.randrange(30), rng.randrange(30)) for _ in range(90)})


def columns(edges: list[Any]) -> tuple[list[Any], list[Any]]:
    return [a for a, _ in edges], [b for _, b in edges]


def seeded(runs: InProcess, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = InProcess._plan
    monkeypatch.setattr(runs, "_plan", lambda *a: replace(plan(runs, *a), seed=seed))


def test_the_same_numbers_in_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = seeds.seed()
    rng = random.Random(seed)
    runs = InProcess(Program(Walk), edges_of(rng))
    seeded(runs, seed, monkeypatch)
    wanted, _, _ = runs.run()
    for partitions in (1, 2, 7):
        for how in ({"compiled": "require", "threads": 2}, {"forget": True}):
            got, _, _ = runs.run(partitions=partitions, **how)  # type: ignore[arg-type]
            assert got == wanted, (partitions, how)
    seeded(runs, seed + 1, monkeypatch)
    other, _, _ = runs.run()
    assert all(other[v]["first"] != row["first"] for v, row in wanted.items())


def test_events(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = edges_of(random.Random(3))
    runs = InProcess(Program(Events), edges)
    rows = [runs.run(partitions=p, forget=p > 1)[0] for p in (1, 2, 7)]
    for v, row in rows[0].items():
        assert (row["numbers"] == rows[1][v]["numbers"]).all()
        assert (row["numbers"] == rows[2][v]["numbers"]).all()
        assert len(set(row["numbers"])) == 3 or row["numbers"][1] == 0.0


def test_they_are_uniform_and_independent() -> None:
    class Many(Vertex):
        numbers: float = state(size=64)
        messages = Min(int)

        def init(self):
            for k in range(64):
                self.numbers[k] = self.random()

        def gather(self, iteration, source, delta):
            pass

        def scatter(self, iteration):
            pass

    rows, _, _ = InProcess(Program(Many), [(v, v + 1) for v in range(2000)]).run()
    x = np.array([rows[v]["numbers"] for v in range(2000)])
    assert x.min() >= 0.0
    assert x.max() < 1.0
    counts = np.histogram(x, 64, (0, 1))[0] / (x.size / 64)
    assert abs(counts - 1).max() < 0.12
    assert abs(np.corrcoef(x, rowvar=False) - np.eye(64)).max() < 0.12
    assert abs(np.corrcoef(x[:-1, 0], x[1:, 0])[0, 1]) < 0.1


def test_a_program_that_draws_is_neither_warm_started_nor_asynchronous() -> None:
    program = Program(Walk)
    assert "draws random numbers" in str(why_from_init(program, {"rounds": 4}))
    assert "draws random numbers" in str(why_synchronous(program, {"rounds": 4}))


@pytest.mark.parametrize("strings", [False, True])
def test_on_spark(spark: SparkSession, strings: bool) -> None:
    name: Any = (lambda v: f"v{v}") if strings else int
    edges = [(name(a), name(b)) for a, b in edges_of(random.Random(4))]
    more = [("+", name(3), name(77)), ("+", name(77), name(1))]
    changed = sorted({*edges, *((a, b) for _, a, b in more)})
    answers = []
    for partitions, compiled in ((1, "require"), (2, False)):
        graph = vertexsdk.Graph.from_arrays(*columns(changed), spark=spark, partitions=partitions)
        backend = f"memory://random-{strings}"
        with closing(
            vertexsdk.run(Walk, graph, backend=backend, seed=7, compiled=compiled)
        ) as result:
            answers.append(dict(result.rows()))
        graph.unpersist()
    graph = vertexsdk.Graph.from_arrays(*columns(edges), spark=spark)
    with vertexsdk.MainLoop(Walk, graph, backend=backend, loop="m", seed=7) as main:
        main.query().close()
        main.ingest(more)
        with closing(main.query()) as result:
            answers.append(dict(result.rows()))
    assert answers[0] == answers[1] == answers[2]
    with pytest.raises(InputError, match="seed"):
        vertexsdk.run(Walk, graph, backend=backend, seed=2**63)
