"""Every algorithm on the engine, compiled and interpreted, on 1, 2 and 7 partitions."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import vertexsdk
from tests.support.graphs import SmallGraph, random_graph
from tests.support.inprocess import InProcess
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.program.program import Program
from vertexsdk.testing.oracles import disagreements, expected

CASES: dict[str, dict[str, Any]] = {
    "bfs": {"origin": ...},
    "cdlp": {},
    "degree": {},
    "kcore": {},
    "lcc": {},
    "pagerank": {},
    "scc": {},
    "sssp": {"origin": ...},
    "wcc": {},
}
COMPILED = [*CASES]
FEWER = {**CASES, "pagerank": {"iterations": 10}}
PARTITIONS = [1, 2, 7]
TOLERANCE = 1e-9


def bound(params: dict[str, Any], graph: SmallGraph, rng: random.Random) -> dict[str, Any]:
    return {k: rng.choice(graph.ids) if x is ... else x for k, x in params.items()}


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("name", "compiled"),
    [*((name, "require") for name in COMPILED), *((name, False) for name in CASES)],
)
def test_agrees_with_the_oracle(name: str, compiled: Any) -> None:
    program = Program(ALGORITHMS[name])
    for seed in range(12):
        rng = random.Random(seed)
        graph = random_graph(rng, vertices=4 + 5 * seed, edges=16 * seed)
        params = bound(CASES[name], graph, rng)
        wanted = expected(name, graph.edges, graph.vertices, params, undirected=graph.undirected)
        runs = InProcess(program, graph.edges, graph.vertices, undirected=graph.undirected)
        partitions = PARTITIONS[seed % 3]  # each with graphs of every size
        got, _, _ = runs.run(params, partitions=partitions, compiled=compiled)
        assert not disagreements(wanted, got, TOLERANCE), (seed, partitions)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_and_interpreted_are_equal_bit_by_bit(name: str) -> None:
    for seed, partitions in enumerate((1, 2, 2, 1)):
        rng = random.Random(seed)
        graph = random_graph(rng, vertices=60, edges=300)
        params = bound(CASES[name], graph, rng)
        runs = InProcess(
            Program(ALGORITHMS[name]), graph.edges, graph.vertices, undirected=graph.undirected
        )
        one, progress, iterations = runs.run(params, partitions=partitions, compiled="require")
        two, same_progress, same = runs.run(params, partitions=partitions, compiled=False)
        assert not disagreements(_by_field(one), two)
        assert iterations == same
        assert progress.updates == same_progress.updates


def _by_field(state: dict[int, dict[str, Any]]) -> dict[str, dict[Any, Any]]:
    fields = next(iter(state.values()))
    return {f: {v: row[f] for v, row in state.items()} for f in fields}


@pytest.mark.parametrize("partitions", [1, 2])  # more of them are on clusters
def test_on_spark(spark: SparkSession, partitions: int) -> None:
    rng = random.Random(partitions)
    graph = random_graph(rng, vertices=100, edges=400, undirected=partitions == 2)
    loaded = load(spark, graph, partitions)
    for name in CASES:
        params = bound(FEWER[name], graph, rng)
        wanted = expected(name, graph.edges, graph.vertices, params, undirected=graph.undirected)
        got = run(name, loaded, params, "require")
        assert not disagreements(wanted, got, TOLERANCE), name
    loaded.unpersist()


def test_on_spark_with_string_ids(spark: SparkSession) -> None:
    rng = random.Random(11)
    graph = random_graph(rng, vertices=40, edges=150, strings=True, undirected=False)
    loaded = load(spark, graph, 2)
    for name, case in FEWER.items():
        params = bound(case, graph, rng)
        wanted = expected(name, graph.edges, graph.vertices, params)
        for compiled in {"wcc": ["require", False]}.get(name, ["require"]):
            got = run(name, loaded, params, compiled)
            assert not disagreements(wanted, got, TOLERANCE), (name, compiled)
    loaded.unpersist()


def load(spark: SparkSession, graph: SmallGraph, partitions: int) -> vertexsdk.Graph:
    source, target, value = zip(*graph.edges, strict=True)
    return vertexsdk.Graph.from_arrays(
        source, target, value, spark=spark, vertices=graph.vertices,
        undirected=graph.undirected, partitions=partitions,
    )  # fmt: skip


def run(name: str, graph: vertexsdk.Graph, params: Any, compiled: Any) -> dict[Any, dict[str, Any]]:
    result = vertexsdk.run(
        ALGORITHMS[name], graph, params=params, backend="memory://algorithms", compiled=compiled
    )
    state: dict[Any, dict[str, Any]] = {}
    for field in result.fields:
        for vertex, value in result.to_dict(field).items():
            state.setdefault(vertex, {})[field] = value
    return state
