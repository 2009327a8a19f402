"""Linkage: after each change, the forest and the clusters are those of Kruskal's method."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import networkx as nx
import pytest

from tests.support.example_modules import example_module
from tests.support.seeds import seed
from vertexsdk import Graph, MainLoop

LEVELS = 6


def kruskal(edges: dict[tuple[int, int], int]) -> tuple[Counter[int], list[int]]:
    """The distances of the forest's edges, and the number of clusters at each distance."""
    graph = nx.Graph()
    graph.add_weighted_edges_from((a, b, x) for (a, b), x in edges.items())
    forest = nx.minimum_spanning_edges(graph, algorithm="kruskal")
    clusters = []
    for level in range(1, LEVELS + 1):
        near = nx.Graph()
        near.add_nodes_from(graph)
        near.add_edges_from(pair for pair, x in edges.items() if x <= level)
        clusters.append(nx.number_connected_components(near))
    return Counter(x["weight"] for _, _, x in forest), clusters


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("names", [int, "v{}".format], ids=["integers", "names"])
def test_the_forest_after_each_change(partitions: int, names: Any) -> None:
    example = example_module("linkage")
    rng, edges = random.Random(seed()), dict[tuple[int, int], int]()
    while len(edges) < 20:  # a graph without edges has integer ids
        example.random_change(rng, edges, 30, LEVELS)

    def named(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return (row[0], names(row[1]), names(row[2]), *row[3:])

    ends = ([names(pair[k]) for pair in edges] for k in (0, 1))
    graph = Graph.from_arrays(*ends, [*edges.values()], undirected=True, partitions=partitions)
    with MainLoop(
        example.Linkage, graph, params={"levels": LEVELS}, backend="memory://linkage",
        replace=True, compiled="require",
    ) as main:  # fmt: skip
        for _ in range(8):
            with main.query() as answer:
                joined = Counter(answer.to_dict().values())
            forest, clusters = kruskal(edges)
            del joined[0]
            assert joined == forest
            counts = [len({v for pair in edges for v in pair})]
            for level in range(1, LEVELS + 1):
                counts.append(counts[-1] - joined[level])
            assert counts[1:] == clusters
            rows = [example.random_change(rng, edges, 30, LEVELS) for _ in range(3)]
            main.ingest([*map(named, rows)])
