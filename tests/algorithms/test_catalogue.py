"""Algorithms on graphs that change: queries of a main loop equal the oracle's answers.

Those that draw at random are checked for what they promise, and for the same answer from scratch.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.support.random_changes import Edges, key_of, random_rows
from tests.support.seeds import seed
from vertexsdk import Graph, MainLoop, RunError, run
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.testing.oracles import ORACLES, disagreements, graph_of, near

Rows = dict[Any, dict[str, Any]]
VERTICES = range(14)
TOLERANCE = 1e-6

PARAMS: dict[str, dict[str, Any]] = {
    "betweenness": {},
    "closeness": {},
    "edge_similarity": {},
    "eigenvector": {"epsilon": 1e-11},
    "hits": {"epsilon": 1e-12},
    "katz": {"alpha": 0.04, "epsilon": 1e-11},
    "lcc": {},
    "similarity": {"origin": 3},
    "squares": {},
    "triangles": {},
}
FOLLOWS = {
    "colouring",
    "katz",
    "lcc",
    "mis",
    "similarity",
    "triangles",
}  # from the answer before; the others start from init


def independent(graph: Any, rows: Rows) -> None:
    selected = {v for v, row in rows.items() if row["selected"]}
    assert not any(a in selected and b in selected for a, b in graph.edges)
    assert all(v in selected or selected & {*graph.adj[v]} for v in graph)


def coloured(graph: Any, rows: Rows) -> None:
    assert all(rows[a]["colour"] != rows[b]["colour"] for a, b in graph.edges)
    smaller = [{rows[u]["colour"] for u in graph.adj[v]} for v in graph]
    for v, near_v in zip(graph, smaller, strict=True):
        assert {*range(rows[v]["colour"])} <= near_v


def matched(graph: Any, rows: Rows) -> None:
    mates = {v: row["mate"] for v, row in rows.items()}
    assert all(mates[mate] == v for v, mate in mates.items())
    assert nx.is_maximal_matching(graph, {(v, m) for v, m in mates.items() if v < m})


CHECKS: dict[str, Callable[[Any, Rows], None]] = {
    "colouring": coloured, "matching": matched, "mis": independent,
}  # fmt: skip


def walks(graph: Any, rows: Rows) -> None:
    """Walkers come to a vertex from its producers only, and none is lost before the last step."""
    ends = {v for v in graph if not graph.adj[v]}
    length, total = 4, sum(row["visits"] for row in rows.values())
    assert 5 * len(graph) <= total <= 5 * len(graph) * (length + 1)
    if not ends:
        assert total == 5 * len(graph) * (length + 1)


# A circle of odd length is part of every graph, so that the largest eigenvalue is simple.
CIRCLE = [*((k, k + 1) for k in range(13)), (13, 0), (0, 2)]
# And for hits a vertex with many edges, so that the largest singular value is.
HUB = [(0, k) for k in range(3, 14)]


def started(rng: random.Random, fixed: list[tuple[int, int]], *, undirected: bool) -> Edges:
    """Some edges drawn at random, and those of `fixed`."""
    edges: Edges = {}
    random_rows(rng, edges, 40, undirected=undirected, vertices=VERTICES)
    for a, b in fixed:
        edges[key_of(a, b, undirected=undirected)] = 1.0
    return edges


def as_graph(edges: Edges, **options: Any) -> Graph:
    source, target = zip(*edges, strict=True)
    return Graph.from_arrays(source, target, vertices=[*VERTICES], **options)


def follows(statistics: dict[str, Any]) -> bool:
    """Whether an answer follows from the one before, or would, but took longer so far."""
    return statistics["start"] != "init" or "took more" in statistics["start_reason"]


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", sorted([*PARAMS, *CHECKS, "walks"]))
def test_answers_after_changes(name: str) -> None:
    rng = random.Random(seed())
    undirected, partitions = rng.random() < 0.5, rng.choice([1, 2, 3])
    compiled: Any = "require" if partitions == 2 else False
    params = PARAMS.get(name, {"length": 4, "walks": 5} if name == "walks" else {})
    options: Any = {"params": params, "compiled": compiled, "backend": "memory://catalogue"}
    fixed = CIRCLE + (HUB if name == "hits" else [])
    edges = started(rng, fixed, undirected=undirected)
    graph = as_graph(edges, undirected=undirected, partitions=partitions)
    with MainLoop(name, graph, loop=name, **options) as main:
        for turn in range(3):
            now = graph_of(edges, VERTICES, undirected=undirected)
            with main.query() as result:
                rows = dict(result.rows())
                statistics = result.statistics
            assert turn == 0 or follows(statistics) == (name in FOLLOWS), statistics
            if name in ORACLES:
                wanted = ORACLES[name](now, **params)
                assert not disagreements(wanted, rows, TOLERANCE), (undirected, partitions)
                if name == "lcc":
                    assert not disagreements(ORACLES["triangles"](now), rows)
            else:
                simple = nx.Graph(now)
                simple.remove_edges_from([*nx.selfloop_edges(simple)])
                CHECKS.get(name, walks)(now if name == "walks" else simple, rows)
                again = as_graph(edges, undirected=undirected, partitions=partitions % 3 + 1)
                with run(
                    name, again, loop=f"{name}-scratch", **{**options, "compiled": False}
                ) as scratch:
                    assert dict(scratch.rows()) == rows
            changes = random_rows(rng, edges, 6, undirected=undirected, vertices=VERTICES)
            for a, b in fixed:
                edges.setdefault(key_of(a, b, undirected=undirected), 1.0)
                changes.append(("+", a, b))
            main.ingest(changes)


@pytest.mark.parametrize("name", ["khop", "ppr"])
def test_vertices_that_have_an_attribute(name: str) -> None:
    rng = random.Random(seed())
    undirected, partitions = rng.random() < 0.5, rng.choice([1, 2, 3])
    edges = started(rng, CIRCLE, undirected=undirected)
    ids = rng.sample(VERTICES, 4)
    attribute = {"khop": ("source", [1] * 4), "ppr": ("jump", [0.1, 0.2, 0.3, 0.4])}[name]
    graph = as_graph(edges, undirected=undirected, partitions=partitions)
    attributes = {"id": ids, attribute[0]: attribute[1]}
    graph = graph.with_attributes(attributes, add_vertices=True)
    params = {"k": 2} if name == "khop" else {"epsilon": 1e-12}
    with MainLoop(name, graph, params=params, backend="memory://catalogue") as main:
        for turn in range(3):
            now = graph_of(edges, VERTICES, undirected=undirected)
            with main.query() as result:
                got = result.to_dict()
                assert turn == 0 or follows(result.statistics), result.statistics
            if name == "khop":
                lengths = nx.multi_source_dijkstra_path_length(now, {*ids}, 2, weight=None)
                assert {v: x for v, x in got.items() if x <= 2} == lengths
            else:
                jump = dict(zip(ids, attribute[1], strict=True))
                ranks = nx.pagerank(now, personalization=jump, weight=None, tol=1e-14, max_iter=999)
                assert near(got, {v: float(x) for v, x in ranks.items()}, 1e-8)
            main.ingest(random_rows(rng, edges, 6, undirected=undirected, vertices=VERTICES))


def test_samples_estimate_all() -> None:
    graph = nx.connected_watts_strogatz_graph(300, 6, 0.2, seed=2)
    for name, field in (("closeness", "harmonic"), ("betweenness", "betweenness")):
        with run(name, graph, samples=100, seed=5, backend="memory://catalogue") as result:
            got = np.array([*result.to_dict(field).values()])
            assert 60 < result.lookup([0])[0]["sources"] < 140
        exact = np.array([*ORACLES[name](graph)[field].values()])
        assert np.corrcoef(got, exact)[0, 1] > 0.85
        assert abs(got.sum() / exact.sum() - 1) < 0.1


def test_more_sources_than_fit_into_one_batch() -> None:
    graph = nx.gnp_random_graph(600, 0.005, seed=1, directed=True)
    with run("closeness", graph, backend="memory://catalogue") as result:
        assert not disagreements(ORACLES["closeness"](graph), dict(result.rows()), 1e-9)


@pytest.mark.parametrize(
    ("name", "params", "line"),
    [
        ("katz", {"alpha": 2.0}, "scores grow beyond all bounds: alpha is 2"),
        ("ppr", {}, "the vertex attribute jump adds up to 0"),
        ("hits", {"rounds": 1}, "no convergence after 1 iterations"),
        ("eigenvector", {"rounds": 1}, "no convergence after 1 iterations"),
    ],
)
def test_no_fixed_point_is_an_error(name: str, params: dict[str, Any], line: str) -> None:
    with pytest.raises(RunError, match=line):
        run(name, nx.karate_club_graph(), params=params, backend="memory://catalogue")


def test_on_spark(spark: SparkSession) -> None:
    rng = random.Random(7)
    edges = started(rng, CIRCLE + HUB, undirected=False)
    graph = as_graph(edges, spark=spark, partitions=2)
    now = graph_of(edges, VERTICES)
    for name, params in PARAMS.items():
        with run(name, graph, params=params, backend="memory://catalogue") as result:
            rows = dict(result.rows())
        assert not disagreements(ORACLES[name](now, **params), rows, TOLERANCE), name
    graph.unpersist()


def test_every_algorithm_is_tested() -> None:
    others = {
        "bridges",
        "forest",
        "leiden",
        "louvain",
        "node2vec",
        "truss",
    }  # in test_standing_graphs.py
    others |= {"bfs", "cdlp", "degree", "kcore", "pagerank", "scc", "sssp", "wcc"}
    assert {*PARAMS, *CHECKS, "walks", "khop", "ppr"} == {*ALGORITHMS} - others
