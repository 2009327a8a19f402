"""One smoke test each on Spark: a run, a main loop, a shuffle, the command line. For the gate."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from pyspark.sql import SparkSession

from tests.support.seeds import seed
from vertexsdk import Graph, MainLoop, run
from vertexsdk.algorithms import ConnectedComponents, ShortestPaths
from vertexsdk.cli import main

pytestmark = pytest.mark.smoke


def random_edges(directed: bool) -> nx.Graph:
    """A random graph of 40 vertices, of which vertex 0 has an edge."""
    graph = nx.gnm_random_graph(40, 80, seed=seed(), directed=directed)
    graph.add_edge(0, 1)
    return graph


def lengths(edges: nx.DiGraph) -> dict[int, float]:
    """The right answer of shortest paths, of the vertices that are reached."""
    return {v: float(x) for v, x in nx.single_source_shortest_path_length(edges, 0).items()}


def reached(answer: dict[int, float]) -> dict[int, float]:
    return {v: x for v, x in answer.items() if x < float("inf")}


@pytest.mark.parametrize("exchange", ["auto", "shuffle"])
def test_run(spark: SparkSession, exchange: str) -> None:
    edges = random_edges(directed=False)
    graph = Graph.from_networkx(edges, spark=spark, partitions=2)
    with run(
        ConnectedComponents, graph, backend="memory://smoke", exchange=exchange, compiled=False
    ) as result:
        answer = result.to_dict()
    right = {v: min(part) for part in nx.connected_components(edges) for v in part}
    assert answer == {v: right[v] for v in answer}
    assert set(answer) >= set(edges) - set(nx.isolates(edges))
    graph.unpersist()


def test_main_loop(spark: SparkSession, tmp_path: Path) -> None:
    edges = random_edges(directed=True)
    graph = Graph.from_networkx(edges, spark=spark, partitions=2)
    with MainLoop(
        ShortestPaths, graph, params={"origin": 0}, backend=f"lmdb://{tmp_path}/state"
    ) as loop:
        assert reached(loop.query().to_dict()) == lengths(edges)
        loop.ingest([("+", 0, 100, 1.0), ("-", 0, 1)])
        edges.add_edge(0, 100)
        edges.remove_edge(0, 1)
        assert reached(loop.query().to_dict()) == lengths(edges)
    graph.unpersist()


def test_command_line(spark: SparkSession, tmp_path: Path) -> None:
    edges = random_edges(directed=True)
    file, output = tmp_path / "edges.txt", tmp_path / "lengths.csv"
    file.write_text("".join(f"{a} {b}\n" for a, b in edges.edges))
    options = ["--param", "origin=0", "--backend", f"lmdb://{tmp_path}/state"]
    assert main(["run", "sssp", "--edges", str(file), "--output", str(output), *options]) == 0
    header, *rows = output.read_text().split()
    assert header == "vertex,value"
    answer = {int(v): float(x) for v, x in (row.split(",") for row in rows)}
    assert reached(answer) == lengths(edges)
