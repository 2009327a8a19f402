"""The programming guide: its examples print what it shows, and its programs are right."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import random
import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.support import seeds
from vertexsdk import Graph, run

GUIDE = (Path(__file__).parents[2] / "docs" / "guide.md").read_text()
BLOCKS = re.findall(r"^```(python|text)\n(.*?)^```", GUIDE, re.M | re.S)


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The guide's Python as a module."""
    path = tmp_path_factory.mktemp("guide") / "guide_page.py"
    path.write_text("\n".join(text for kind, text in BLOCKS if kind == "python"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        spec.loader.exec_module(page)
    assert printed.getvalue() == "".join(text for kind, text in BLOCKS if kind == "text")
    return page


@pytest.fixture
def graph() -> nx.Graph:
    """A random undirected graph; some vertices have no edge."""
    seed = seeds.seed()
    return nx.gnm_random_graph(24, 50, seed=seed)


def answers(program: Any, graph: Any, field: str, **options: Any) -> dict[Any, Any]:
    """Run a program over a NetworkX graph; return a field by vertex."""
    rng = random.Random(seeds.seed())
    partitions = rng.choice([1, 2, 3])
    ours = Graph.from_networkx(graph, partitions=partitions)
    options = {"compiled": False} | options
    with run(program, ours, backend=f"memory://guide-{random.random()}", **options) as result:
        rows = result.lookup(list(graph), field)
    return {v: row[field] for v, row in rows.items()}


def test_hits(guide: Any, graph: nx.Graph) -> None:
    directed = nx.gnm_random_graph(12, 60, seed=3, directed=True)
    hubs, authorities = nx.hits(directed, max_iter=500, tol=1e-12)
    for field, wanted in (("hub", hubs), ("authority", authorities)):
        got = answers(guide.Hits, directed, field)
        total = sum(got.values())
        assert {v: x / total for v, x in got.items()} == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("many", [3, 6, 64])
def test_groups(guide: Any, graph: nx.Graph, many: int) -> None:
    labels = answers(guide.Groups, graph, "label", params={"many": many})
    groups: dict[Any, set[Any]] = {}
    for vertex, label in labels.items():
        groups.setdefault(label, set()).add(vertex)
    assert sorted(map(sorted, groups.values())) == sorted(
        map(sorted, nx.connected_components(graph))
    )


def test_triangles(guide: Any, graph: nx.Graph) -> None:
    assert answers(guide.Triangles, graph, "count") == nx.triangles(graph)


def test_independent_set(guide: Any, graph: nx.Graph) -> None:
    inside = {v for v, x in answers(guide.IndependentSet, graph, "inside").items() if x}
    assert not graph.subgraph(inside).edges
    assert nx.is_dominating_set(graph, inside)


def test_colouring(guide: Any, graph: nx.Graph) -> None:
    wanted = nx.greedy_color(graph, lambda g, _: sorted(g))
    assert answers(guide.Colouring, graph, "colour") == wanted


def test_random_walks(guide: Any, graph: nx.Graph) -> None:
    directed = graph.to_directed()
    directed.add_edges_from((v, (v + 1) % len(graph)) for v in graph)  # nobody gets stuck
    options = {"params": {"origin": 0, "walkers": 50}, "seed": seeds.seed()}
    after = [answers(guide.Walkers, directed, "here", max_iterations=k, **options) for k in (6, 7)]
    assert [sum(here.values()) for here in after] == [50, 50]
    come_from = {w for v in directed if after[0][v] for w in directed[v]}
    assert {v for v in directed if after[1][v]} <= come_from


def test_heat(guide: Any, graph: nx.Graph) -> None:
    start = np.random.default_rng(1).random(len(graph))
    nx.set_node_attributes(graph, dict(zip(graph, start.tolist(), strict=True)), "heat")
    heat, laplacian = start, nx.laplacian_matrix(graph).toarray()
    for _ in range(20):
        heat = heat - 0.1 * laplacian @ heat
    assert list(answers(guide.Heat, graph, "heat").values()) == pytest.approx(heat.tolist())


def test_betweenness(guide: Any, graph: nx.Graph) -> None:
    small = nx.Graph(graph.edges(list(graph)[:9]))
    total = dict.fromkeys(small, 0.0)
    for origin in small:
        params = {"origin": origin}
        for v, x in answers(guide.Dependency, small, "dependency", params=params).items():
            total[v] += x / 2 * (v != origin)
    assert total == pytest.approx(nx.betweenness_centrality(small, normalized=False))


def test_matching(guide: Any, graph: nx.Graph) -> None:
    partner = answers(guide.Matching, graph, "partner")
    pairs = {(v, w) for v, w in partner.items() if w >= 0}
    assert all((w, v) in pairs for v, w in pairs)
    assert nx.is_maximal_matching(graph, {(v, w) for v, w in pairs if v < w})


def test_alternating_least_squares(guide: Any) -> None:
    users, items, rng = range(8), range(100, 106), np.random.default_rng(5)
    ratings = {
        (u, i): float(rng.integers(1, 6)) for u in users for i in items if rng.random() < 0.8
    }
    ours = Graph.from_arrays(
        [u for u, _ in ratings], [i for _, i in ratings], list(ratings.values()),
        vertices={"id": [*users, *items], "item": [v >= 100 for v in (*users, *items)]},
    )  # fmt: skip
    place = f"memory://als-{random.random()}"
    first = run(guide.Factors, ours, backend=place, max_iterations=0, compiled=False)
    x = {v: np.array(row["factors"]) for v, row in first.lookup([*users, *items]).items()}
    for iteration in range(1, 21):
        for v in items if iteration % 2 == 0 else users:
            pairs = [(i if v == u else u, r) for (u, i), r in ratings.items() if v in (u, i)]
            a = sum((np.outer(x[w], x[w]) for w, _ in pairs), 0.1 * np.eye(2))
            x[v] = np.linalg.solve(a, sum((r * x[w] for w, r in pairs), np.zeros(2)))
    got = run(guide.Factors, ours, backend=place, compiled=False).lookup([*users, *items])
    wanted = {v: pytest.approx(x[v].tolist()) for v in x}
    assert {v: row["factors"] for v, row in got.items()} == wanted


def test_louvain(guide: Any) -> None:
    planted = nx.planted_partition_graph(4, 8, 0.9, 0.05, seed=7)
    community = answers(guide.Louvain, planted, "community")
    groups = [{v for v in planted if community[v] == c} for c in set(community.values())]
    theirs = next(nx.community.louvain_partitions(planted, seed=1))
    ours, reached = (nx.community.modularity(planted, g) for g in (groups, theirs))
    assert ours > 0.9 * reached
