"""Algorithms of several programs, on graphs that stand still, or those of a main loop's answers."""

from __future__ import annotations

import random
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.support.graphs import random_graph
from tests.support.random_changes import Edges, random_rows
from tests.support.seeds import seed
from vertexsdk import Graph, InputError, MainLoop, run
from vertexsdk.algorithms.louvain import LocalMoves
from vertexsdk.algorithms.node2vec import BiasedWalk
from vertexsdk.testing.oracles import ORACLES, disagreements, expected, graph_of

EXACT = ["bridges", "forest", "truss"]
COMMUNITIES = ["leiden", "louvain"]


def rows_of(name: str, graph: Graph, **options: Any) -> dict[Any, dict[str, Any]]:
    with run(name, graph, backend="memory://standing", **options) as result:
        return dict(result.rows())


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", EXACT)
def test_agrees_with_the_oracle(name: str) -> None:
    rng = random.Random(seed())
    for turn in range(8):
        strings = rng.random() < 0.3
        graph = random_graph(rng, vertices=rng.choice([5, 30]), edges=40, strings=strings)
        if not graph.edges:
            continue
        source, target, value = zip(*graph.edges, strict=True)
        loaded = Graph.from_arrays(
            source, target, [float(round(x)) for x in value], vertices=graph.vertices,
            undirected=graph.undirected, partitions=rng.choice([1, 2, 3]),
        )  # fmt: skip
        edges = [(s, t, float(round(x))) for s, t, x in graph.edges]
        wanted = expected(name, edges, graph.vertices, undirected=graph.undirected)
        got = rows_of(name, loaded, compiled="require" if turn % 2 else False)
        assert not disagreements(wanted, got), turn


@pytest.mark.parametrize("name", EXACT)
def test_on_the_graph_of_an_answer(name: str) -> None:
    rng = random.Random(seed())
    undirected, edges = rng.random() < 0.5, Edges()
    random_rows(rng, edges, 30, undirected=undirected)
    source, target = zip(*edges, strict=True)
    graph = Graph.from_arrays(
        source, target, [*edges.values()], undirected=undirected, vertices=range(14)
    )
    options: Any = {"origin": 0, "loop": f"under-{name}", "backend": "memory://standing"}
    with MainLoop("sssp", graph, **options) as main:
        main.ingest(random_rows(rng, edges, 12, undirected=undirected))
        answer, now = main.query(), graph_of(
            [(*e, x) for e, x in edges.items()], range(14), undirected=undirected
        )  # fmt: skip
        main.ingest([("+", 1, 13), ("-", *next(iter(edges)))])
        got = rows_of(name, answer.graph())
        assert not disagreements(ORACLES[name](now), got)
    with pytest.raises(InputError, match="stands still"):
        MainLoop(name, graph, backend="memory://standing")
    with run("degree", graph, backend="memory://standing") as result, pytest.raises(InputError):
        result.graph()


def modularity(graph: nx.Graph, rows: dict[Any, dict[str, Any]], **options: Any) -> float:
    groups: dict[Any, set[Any]] = {}
    for v, row in rows.items():
        groups.setdefault(row["community"], set()).add(v)
    assert all(min(group) == name for name, group in groups.items())
    return float(nx.community.modularity(graph, groups.values(), **options))


@pytest.mark.parametrize("name", COMMUNITIES)
@pytest.mark.slow
def test_communities_are_as_good_as_those_of_others(name: str) -> None:
    number = seed()
    for graph in (
        nx.karate_club_graph(),
        nx.planted_partition_graph(6, 30, 0.3, 0.02, seed=number),
        nx.random_geometric_graph(200, 0.12, seed=number),
    ):
        tries = range(number, number + 3)  # each may end in a local optimum
        answers = [rows_of(name, Graph.from_networkx(graph), seed=k) for k in tries]
        others = [nx.community.louvain_communities(graph, seed=k) for k in tries]
        wanted = max(nx.community.modularity(graph, other) for other in others)
        assert max(modularity(graph, rows, weight="weight") for rows in answers) > 0.95 * wanted
        rows = answers[0]
        if name == "leiden":
            for community in {row["community"] for row in rows.values()}:
                members = [v for v, row in rows.items() if row["community"] == community]
                assert nx.is_connected(graph.subgraph(members))


@pytest.mark.parametrize("name", COMMUNITIES)
@pytest.mark.slow
def test_communities_follow_from_the_seed_alone(name: str) -> None:
    graph = nx.planted_partition_graph(3, 9, 0.5, 0.1, seed=3)
    edges, ids = [(f"v{a:02}", f"v{b:02}") for a, b in graph.edges], [f"v{v:02}" for v in graph]
    answers = []
    for partitions, compiled in ((1, "require"), (2, False)):
        own = Graph.from_arrays(
            *zip(*edges, strict=True), vertices=[*ids, "alone"], undirected=True,
            partitions=partitions,
        )  # fmt: skip
        answers.append(rows_of(name, own, seed=5, resolution=1.5, compiled=compiled))
    assert answers[0] == answers[1]
    assert answers[0]["alone"]["community"] == "alone"
    many, few = (
        len({row["community"] for row in rows_of(name, own, resolution=x, compiled=False).values()})
        for x in (4.0, 0.2)
    )
    assert many > few


@pytest.mark.parametrize("name", [*EXACT, *COMMUNITIES])
def test_graphs_of_self_loops_and_without_edges(name: str) -> None:
    loops = Graph.from_arrays([1, 2], [1, 2], vertices=[1, 2, 3])
    empty = Graph.from_arrays(np.empty(0, np.int64), np.empty(0, np.int64), vertices=[1, 2, 3])
    for graph in (loops, empty):
        rows = rows_of(name, graph)
        field = "parent" if name in EXACT else "community"
        wanted = dict.fromkeys([1, 2, 3], 0) if name == "truss" else {1: 1, 2: 2, 3: 3}
        found = {v: row["degree" if name == "truss" else field] for v, row in rows.items()}
        assert found == wanted


def test_walks_go_where_their_definition_says() -> None:
    number, p, q = seed(), 0.5, 3.0
    graph = nx.Graph([(0, 1), (1, 2), (2, 0), (1, 3), (3, 4)])
    near = [sorted(graph.adj[v]) for v in range(5)]
    rows: Any = {
        "start": np.concatenate([[0], np.cumsum([*map(len, near)])]),
        "target": np.concatenate(near), "length": 64, "p": p, "q": q,
    }  # fmt: skip
    loaded, steps = Graph.from_arrays(*zip(*graph.edges, strict=True), undirected=True), {}
    for k in range(60):
        with run(
            BiasedWalk, loaded, params=rows, seed=number + k, backend="memory://standing"
        ) as result:
            for walk in result.values("walk")[1].tolist():
                for before, now, after in zip(walk, walk[1:], walk[2:], strict=False):
                    steps.setdefault((before, now), []).append(after)
    for (before, now), found in steps.items():
        weights = {
            x: 1 / p if x == before else 1 if graph.has_edge(before, x) else 1 / q
            for x in graph.adj[now]
        }
        for x, weight in weights.items():
            share = weight / sum(weights.values())
            error = (share * (1 - share) / len(found)) ** 0.5
            assert abs(found.count(x) / len(found) - share) <= 6 * error, (before, now, x)


def test_pairs_are_those_of_the_walks() -> None:
    number, graph = seed(), nx.gnm_random_graph(12, 20, seed=3, directed=True)
    source, target = zip(*((f"v{a:02}", f"v{b:02}") for a, b in graph.edges), strict=True)
    answers = []
    for partitions, compiled in ((1, "require"), (3, False)):
        own = Graph.from_arrays(source, target, partitions=partitions)
        with run(
            "node2vec", own, walks=2, length=6, window=2, p=0.5, seed=number, compiled=compiled,
            backend="memory://standing",
        ) as result:  # fmt: skip
            answers.append((result.to_dict(), result.edges().to_pylist()))
    assert answers[0] == answers[1]
    visits, pairs = answers[0]
    assert 2 * len(visits) <= sum(visits.values()) <= 12 * len(visits)
    close = nx.DiGraph(zip(source, target, strict=True))
    for pair in pairs:
        assert nx.has_path(close, pair["source"], pair["target"])
    # each walk of k vertices has k - 1 pairs one step apart, and k - 2 two steps apart
    counted = sum(pair["count"] for pair in pairs)
    assert counted <= 2 * sum(visits.values()) - 3 * 2 * len(visits) + 2 * len(visits)
    with pytest.raises(InputError, match="length from 1 to 64"):
        run("node2vec", own, length=65, backend="memory://standing")


def test_weights_that_are_negative_are_refused() -> None:
    with pytest.raises(InputError, match="not negative"):
        rows_of("louvain", Graph.from_arrays([1], [2], [-1.0]))


def test_a_move_is_the_best_one() -> None:
    """Of all communities of neighbours that where modularity, counted anew, is largest."""
    rng = np.random.default_rng(seed())
    graph = nx.gnm_random_graph(24, 50, seed=int(rng.integers(1000)))
    for edge in graph.edges.values():
        edge["weight"] = float(rng.integers(1, 4))
    of = rng.integers(0, 6, 24)
    degree = np.array([x for _, x in graph.degree(weight="weight")], float)
    source, target, value = zip(*graph.edges(data="weight"), strict=True)
    loaded = Graph.from_arrays(source, target, value, undirected=True, vertices=range(24))
    moves = rng.random(24) < 0.8
    params = {
        "of": of, "total": np.bincount(of, degree, 24), "degree": degree, "moves": moves,
        "part": np.zeros(24, np.int64), "open": np.ones(24, np.bool_), "share": 1 / degree.sum(),
    }  # fmt: skip
    with run(LocalMoves, loaded, params=params, backend="memory://standing") as result:
        got = result.to_dict()

    def reached(v: int, community: int) -> float:
        after = of.copy()
        after[v] = community
        groups = [{*np.flatnonzero(after == c).tolist()} for c in range(6)]
        return float(nx.community.modularity(graph, groups))

    for v in graph:
        candidates = {int(of[u]) for u in graph.adj[v]} | {int(of[v])}
        best = max(reached(v, c) for c in candidates) if moves[v] else reached(v, of[v])
        assert reached(v, got[v]) == pytest.approx(best, abs=1e-12)
        assert got[v] in candidates
