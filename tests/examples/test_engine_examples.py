"""The example programs on the engine, against the reference executor."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import vertexsdk
from tests.support.example_modules import example_module
from tests.support.graphs import random_graph
from tests.support.inprocess import InProcess
from tests.support.reference import reference
from vertexsdk.program.program import Program
from vertexsdk.testing.oracles import near

CASES = [
    ("peeling", "Peeling", {"k": 2}, "require"),
    ("paper_paths", "PaperPaths", {"origin": ...}, False),
    ("ratings", "program", {}, "require"),
    ("reach", "Reach", {}, "require"),
]


def example(name: str, program: str) -> Program:
    """What examples/NAME.py calls `program`, as a Program."""
    found = getattr(example_module(name), program)
    return found if isinstance(found, Program) else Program(found)


@pytest.mark.parametrize(("name", "what", "params", "compiled"), CASES)
@pytest.mark.sample(1)
def test_example(name: str, what: str, params: dict[str, Any], compiled: Any) -> None:
    program = example(name, what)
    for seed in range(4):
        rng = random.Random(seed)
        graph = random_graph(rng, vertices=20, edges=60, undirected=False)
        kinds = [(v, rng.choice(program.classes).name) for v in graph.ids]
        bound = {k: rng.choice(graph.ids) if x is ... else x for k, x in params.items()}
        wanted = reference(program, graph.edges, kinds, bound)
        runs = InProcess(program, graph.edges, kinds)
        for partitions in (1, 3):
            for way in {False, compiled}:
                got, _, _ = runs.run(bound, partitions=partitions, compiled=way)
                for v, row in wanted.state.items():
                    for field, value in got[v].items():
                        assert near(value, row[field], 1e-6), (seed, partitions, way, v, field)


def test_routes_of_strings_on_spark(spark: SparkSession) -> None:
    program = example("routes", "Routes")
    graph = random_graph(random.Random(1), vertices=15, edges=40, strings=True, undirected=False)
    params = {"origin": graph.edges[0][0]}
    source, target, value = zip(*graph.edges, strict=True)
    loaded = vertexsdk.Graph.from_arrays(
        source, target, value, spark=spark, vertices=graph.vertices, partitions=2
    )
    with pytest.warns(UserWarning, match=r"routes\.py:\d+: .*interpreted"):
        result = vertexsdk.run(program, loaded, params=params, backend="memory://routes")
    wanted = reference(program, graph.edges, graph.vertices, params)
    assert result.to_dict("route") == wanted.values("route")
    loaded.unpersist()
