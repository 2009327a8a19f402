"""The example programs, run by the reference executor, against what they claim to compute."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.support.example_modules import example_module
from tests.support.graphs import random_graph
from tests.support.reference import reference
from vertexsdk import INT_MAX
from vertexsdk.testing.oracles import expected, graph_of


@pytest.mark.parametrize("seed", range(20))
def test_peeling_leaves_the_core(seed: int) -> None:
    graph = random_graph(random.Random(seed), vertices=25, edges=90)
    wanted = expected("kcore", graph.edges, graph.vertices, undirected=graph.undirected)["core"]
    for k in (1, 2, 3):
        got = reference(
            example_module("peeling").Peeling, graph.edges, graph.vertices, {"k": k},
            undirected=graph.undirected,
        )  # fmt: skip
        assert got.values("inside") == {v: core >= k for v, core in wanted.items()}


@pytest.mark.parametrize("seed", range(20))
def test_paper_paths_counts_edges(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng, vertices=20, edges=60)
    params = {"origin": rng.choice(graph.ids)}
    wanted = expected("bfs", graph.edges, graph.vertices, params, undirected=graph.undirected)
    got = reference(
        example_module("paper_paths").PaperPaths, graph.edges, graph.vertices, params,
        undirected=graph.undirected,
    )  # fmt: skip
    assert got.values("length") == wanted["depth"]


@pytest.mark.parametrize("seed", range(10))
def test_routes_are_shortest_paths(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng, vertices=15, edges=40, strings=True, undirected=False)
    origin = rng.choice(graph.ids)
    wanted = expected("bfs", graph.edges, graph.vertices, {"origin": origin})["depth"]
    edges = {(s, t) for s, t, _ in graph.edges}
    routes = reference(
        example_module("routes").Routes, graph.edges, graph.vertices, {"origin": origin}
    ).values("route")
    for v, route in routes.items():
        stops = route.split(" > ") if route else []
        assert len(stops) - 1 == (wanted[v] if wanted[v] < INT_MAX else -1)
        assert all(step in edges for step in pairwise(stops))


def test_reach_estimates_the_number_of_ancestors() -> None:
    import networkx as nx

    rng = random.Random(5)
    edges = [(rng.randrange(300), rng.randrange(300)) for _ in range(330)]
    got = reference(example_module("reach").Reach, edges).values("count")
    graph = graph_of(edges)
    ratios = [got[v] / (1 + len(nx.ancestors(graph, v))) for v in graph]
    many = [r for v, r in zip(graph, ratios, strict=True) if len(nx.ancestors(graph, v)) > 30]
    assert many
    assert 0.6 < sum(many) / len(many) < 1.6


def test_ratings_trust_the_majority() -> None:
    module = example_module("ratings")
    honest, items = [1, 2, 3, 4], [101, 102, 103]
    edges = [(u, i, float(i - 100)) for u in honest for i in items]
    edges += [(9, i, 5.0) for i in items]
    kinds = [(u, "User") for u in [*honest, 9]] + [(i, "Item") for i in items]
    got = reference(module.program, edges, kinds)
    score, trust = got.values("score"), got.values("trust")
    assert all(abs(score[i] - (i - 100)) < 0.1 for i in items)
    assert all(trust[u] > 10 * trust[9] for u in honest)
