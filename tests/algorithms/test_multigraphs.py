"""Graphs with parallel edges: a neighbour is one neighbour, and a doubled edge is no bridge."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from typing import Any

import networkx as nx
import pytest

from tests.support.seeds import seed
from vertexsdk import Graph, InputError, MainLoop, run
from vertexsdk.testing.oracles import expected, near

N = 9


def drawn(rng: random.Random) -> list[tuple[int, int]]:
    """Edges of a sparse graph, some of them several times, in either direction."""
    edges = [(k, rng.randrange(k)) for k in range(1, N) if rng.random() < 0.9]
    edges += [(rng.randrange(N), rng.randrange(N)) for _ in range(5)]
    edges += [rng.choice(edges)[:: rng.choice([1, -1])] for _ in range(6)]
    return rng.sample(edges, len(edges))


def name(ids: str, number: int) -> Any:
    return number if ids == "int" else f"v{number}"


def answer(algorithm: str, edges: list[tuple[int, int]], ids: str, **options: Any) -> Any:
    compiled = options.pop("compiled")
    ends = [[name(ids, v) for v in end] for end in zip(*edges, strict=True)]
    graph = Graph.from_arrays(*ends, multi=True, **options)
    with closing(
        run(algorithm, graph, backend="memory://multigraphs", compiled=compiled, progress=False)
    ) as result:
        return dict(result.rows())


CASES = [("lcc", 1), ("lcc", 2), ("lcc", 7), ("betweenness", 2)]
CASES += [("triangles", 7), ("squares", 2), ("truss", 1)]


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize(("algorithm", "partitions"), CASES)
def test_a_neighbour_counts_once(algorithm, partitions, undirected):
    rng = random.Random(seed())
    edges = drawn(rng)
    ids = "int" if algorithm == "squares" else rng.choice(["int", "string"])
    got = answer(
        algorithm, edges, ids, undirected=undirected, partitions=partitions, compiled=False
    )
    simple = sorted({tuple(sorted(e)) if undirected else e for e in edges})
    for field, values in expected(algorithm, simple, undirected=undirected).items():
        for v, x in values.items():
            assert near(got[name(ids, v)][field], x, 1e-9), (field, v)


@pytest.mark.sample(6)
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("ids", ["int", "string"])
def test_a_doubled_edge_is_not_a_bridge(ids, undirected, partitions):
    rng = random.Random(seed())
    edges = drawn(rng)
    got = answer(
        "bridges", edges, ids, undirected=undirected, partitions=partitions,
        compiled="require" if (ids, partitions, undirected) == ("int", 1, True) else False,
    )  # fmt: skip
    many = Counter(tuple(sorted(e)) if undirected else e for e in edges)
    graph = nx.MultiGraph()
    for a, b in {tuple(sorted(e)) for e in edges}:  # one in each direction is one edge
        graph.add_edges_from([(a, b)] * max(many[a, b], many[b, a]))
    wanted = {frozenset((name(ids, a), name(ids, b))) for a, b, *_ in nx.bridges(graph)}
    assert {frozenset((v, row["parent"])) for v, row in got.items() if row["bridge"]} == wanted


def test_main_loops_refuse_parallel_edges():
    graph = Graph.from_arrays([1, 1], [2, 2], multi=True)
    with pytest.raises(InputError, match="the graph has parallel edges"):
        MainLoop("lcc", graph, backend="memory://multigraphs")
