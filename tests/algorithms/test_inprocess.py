"""The graphs which the parity tests run on are what a load gives."""

from __future__ import annotations

import random

import pytest

from vertexsdk.load.build import Variant
from vertexsdk.testing import topologies as loaded
from vertexsdk.testing.adjacency import adjacency
from vertexsdk.testing.graphs import random_graph
from vertexsdk.testing.inprocess import topologies


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
