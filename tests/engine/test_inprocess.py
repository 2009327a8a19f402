"""The graphs which the parity tests run on are what a load gives."""

from __future__ import annotations

import random

import pytest

from tests.support import topologies as loaded
from tests.support.adjacency import adjacency
from tests.support.graphs import random_graph
from tests.support.inprocess import topologies
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
