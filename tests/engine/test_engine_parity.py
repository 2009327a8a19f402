"""Random programs: the engine, in every way it can run them, against the reference."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import vertexsdk
from tests.support import seeds
from tests.support.events import random_events_program
from tests.support.graphs import SmallGraph, random_graph
from tests.support.inprocess import InProcess
from tests.support.programs import RandomProgram, random_program
from tests.support.reference import Reference, reference
from vertexsdk.program.program import Program
from vertexsdk.testing.oracles import near

Make = Callable[[random.Random], RandomProgram]


def drawn(programs: Any, number: int) -> Any:
    """Some of the programs; pytest shows the seed when the test fails: put it above to repeat it.

    The programs are the same ones in every run of the tests, so that all have their turn.
    """
    return random.Random(seeds.seed()).sample(programs, number)


def pure(rng: random.Random) -> RandomProgram:
    return random_program(rng, always=False)


def always(rng: random.Random) -> RandomProgram:
    return random_program(rng, always=True)


def latest_vectors(rng: random.Random) -> RandomProgram:
    return random_program(rng, algebra="latest vectors")


class Case:
    """One random program over one random graph, and what the reference makes of it."""

    def __init__(self, make: Make, seed: int, directory: Path) -> None:
        rng = random.Random(seed)
        made = make(rng)
        self.program: Program = made.load(directory / f"{make.__name__}_{seed}.py")
        self.graph: SmallGraph = random_graph(rng, vertices=20, edges=60)
        whole = self.program.classes[0].cls.edge is int
        self.edges = [(s, t, int(x * 8) if whole else x) for s, t, x in self.graph.edges]
        self.vertices = [(v, rng.choice(made.kinds)) for v in self.graph.ids]
        self.params = {"hub": rng.choice(self.graph.ids)}
        self.wanted: Reference = reference(
            self.program, self.edges, self.vertices, self.params, undirected=self.graph.undirected
        )

    def in_process(self) -> InProcess:
        return InProcess(self.program, self.edges, self.vertices, undirected=self.graph.undirected)

    def check(self, got: dict[Any, dict[str, Any]], *how: Any) -> None:
        source = self.program.classes[0].file
        assert got.keys() == self.wanted.state.keys(), (source, *how)
        for v, row in self.wanted.state.items():
            for name, value in row.items():
                if name != "heard":
                    assert near(got[v][name], value, 0.0), (source, *how, v, name)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("make", "seeds"), [(pure, 40), (always, 60), (random_events_program, 40), (latest_vectors, 20)]
)
def test_interpreted(make: Make, seeds: int, tmp_path: Path) -> None:
    for seed in drawn(range(seeds), 15):
        case, partitions = Case(make, seed, tmp_path), (1, 2, 7)[seed % 3]
        got, _, _ = case.in_process().run(case.params, partitions=partitions)
        case.check(got, "interpreted", partitions)


# Every algebra, direction, kind of element and of edge, with and without aggregators, a converged,
# changes of the graph, new vertices, vectors, and a second class; most pairs of these too.
COMPILED = [(pure, (155, 168, 212, 280)), (always, (100, 164, 179, 267))]
COMPILED += [(latest_vectors, (0, 1))]  # one of floats, one of ints


@pytest.mark.parametrize(("make", "seeds"), COMPILED)
@pytest.mark.sample(1)
def test_compiled(make: Make, seeds: tuple[int, ...], tmp_path: Path) -> None:
    for seed in drawn(seeds, 2):  # compiling one takes three seconds
        case = Case(make, seed, tmp_path)
        runs = case.in_process()
        for partitions, threads in ((1, 2), (2, 1), (7, 1)):
            got, _, _ = runs.run(
                case.params, partitions=partitions, compiled="require", threads=threads
            )
            case.check(got, "compiled", partitions)


@pytest.mark.parametrize("make", [pure, always, random_events_program])
def test_a_new_worker_at_every_hop_changes_nothing(make: Make, tmp_path: Path) -> None:
    for seed in drawn(range(200, 215), 6):
        case, partitions = Case(make, seed, tmp_path), (2, 3)[seed % 2]
        got, _, _ = case.in_process().run(case.params, partitions=partitions, forget=True)
        case.check(got, "forget", partitions)


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    for make, seed in ((pure, 300), (always, 301), (always, 302), (random_events_program, 303)):
        case = Case(make, seed, tmp_path)
        (tmp_path / "edges.txt").write_text("".join(f"{s} {t} {x}\n" for s, t, x in case.edges))
        (tmp_path / "kinds.txt").write_text("".join(f"{v} {k}\n" for v, k in case.vertices))
        graph = vertexsdk.Graph.read(
            spark, str(tmp_path / "edges.txt"), str(tmp_path / "kinds.txt"),
            undirected=case.graph.undirected, partitions=2,
        )  # fmt: skip
        result = vertexsdk.run(
            case.program, graph, params=case.params, backend="memory://parity", compiled=False
        )
        got = dict(result.rows())
        if len(case.program.classes) > 1:
            assert {v: row.pop("class") for v, row in got.items()} == case.wanted.kinds
        case.check(got, "spark")
        graph.unpersist()
