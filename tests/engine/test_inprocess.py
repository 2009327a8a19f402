"""The graphs which the parity tests run on are what a load gives."""

from __future__ import annotations

import gc
import random
import threading

import pytest

from tests.support import topologies as loaded
from tests.support.adjacency import adjacency
from tests.support.graphs import random_graph
from tests.support.inprocess import topologies
from vertexsdk import Graph, run
from vertexsdk.algorithms import Degree
from vertexsdk.arrays import shared_memory
from vertexsdk.graph.load.build_topology import Variant


@pytest.mark.parametrize("direction", ["out", "in", "both", "undirected"])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_topologies_built_here_are_those_of_a_load(
    direction: str, each: bool, partitions: int
) -> None:
    variant = Variant(direction, "float64", "each" if each else "combined")
    for seed in range(20):
        graph = random_graph(random.Random(seed), vertices=20, edges=60)
        wanted = loaded.expected(
            graph.edges, variant, graph.undirected, multi=False, vertices=graph.vertices
        )
        rows = adjacency(graph.edges, graph.vertices, direction, undirected=graph.undirected)
        loaded.check(topologies(rows, partitions, each=each), wanted, variant)


def test_a_graph_that_is_gone_leaves_no_arrays() -> None:
    graph = Graph.from_arrays([1, 2], [2, 3], partitions=2)
    run(Degree, graph, backend="memory://gone").close()
    key = graph.topology_key(next(iter(graph._infos)), 0)
    assert shared_memory.load(key) is not None
    del graph
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "vertexsdk-close":
            thread.join()
    assert shared_memory.load(key) is None
