"""Numbers along edges: `Result.edges`, of a class of one's own and of built-in algorithms."""

from __future__ import annotations

import random
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk import (
    Graph,
    InputError,
    Latest,
    MainLoop,
    ProgramError,
    Sum,
    Vertex,
    read,
    run,
    state,
)

BACKEND = "memory://edges"


class Product(Vertex):
    """The product of the ids of both ends, and of the edge's value and the smaller id."""

    degree: int = state(0)
    note: float = state(0.0, size=2)

    messages = Sum(float, size=2)
    edge_values = ("product", "scaled")

    def gather(self, iteration, source, delta):
        self.degree = len(self.targets)

    def scatter(self, iteration):
        for target in self.targets:
            self.note[0] = self.id * target.id
            self.note[1] = target.value * min(self.id, target.id)
            self.emit(target, self.note)


class Ids(Vertex):
    """The same message along all edges of a vertex."""

    degree: int = state(0)
    messages = Latest(int)
    edge_values = ("sender",)

    def gather(self, iteration, source, delta):
        self.degree = len(delta.values)

    def scatter(self, iteration):
        self.emitAll(self.id)


def test_the_last_messages_of_a_class() -> None:
    rng = random.Random(seed())
    pairs = {
        (rng.randrange(1, 12), rng.randrange(1, 12)): float(rng.randrange(9)) for _ in range(30)
    }
    source, target = zip(*sorted(pairs), strict=True)
    for partitions in (1, 3):
        graph = Graph.from_arrays(
            source, target, [pairs[e] for e in sorted(pairs)], partitions=partitions
        )
        for compiled in ("require", False):
            with run(Product, graph, compiled=compiled, backend=BACKEND) as result:
                rows = result.edges().to_pylist()
            assert rows == [
                {
                    "source": a,
                    "target": b,
                    "product": float(a * b),
                    "scaled": pairs[a, b] * min(a, b),
                }
                for a, b in sorted(pairs)
            ]
            with run(Ids, graph, compiled=compiled, backend=BACKEND) as result:
                assert [*map(tuple, map(dict.values, result.edges().to_pylist()))] == [
                    (a, b, a) for a, b in sorted(pairs)
                ]


def test_who_has_none() -> None:
    graph = Graph.from_arrays([1, 2], [2, 3])
    run(Ids, graph, backend=BACKEND, loop="ids").close()
    stored = read(BACKEND, "ids")
    with stored, pytest.raises(InputError, match="read from a store"):
        stored.edges()
    with MainLoop(Ids, graph, backend=BACKEND) as main:
        answer = main.query()
        with pytest.raises(InputError, match="of a main loop"):
            answer.edges()
    with pytest.raises(ProgramError, match="a name for each number in a message"):
        type("Wrong", (Ids,), {"edge_values": ("a", "b")})


@pytest.mark.parametrize("name", ["edge_similarity", "forest", "truss"])
def test_edges_of_algorithms(name: str) -> None:
    number = seed()
    rng = random.Random(number)
    graph = nx.gnm_random_graph(25, 80, seed=number)
    if rng.random() < 0.5:
        graph = nx.relabel_nodes(graph, {v: f"v{v:02}" for v in graph})
    source, target = zip(*graph.edges, strict=True)
    loaded = Graph.from_arrays(
        source, target, undirected=rng.random() < 0.5, partitions=rng.choice([1, 2, 3])
    )
    options: Any = {"k": 4} if name == "truss" else {}
    with run(
        name, loaded, compiled=rng.choice([True, False]), backend=BACKEND, **options
    ) as result:
        rows, parents = result.edges().to_pylist(), dict(result.rows())
    edges = [(row["source"], row["target"]) for row in rows]
    assert len({*map(frozenset, edges)}) == len(edges)
    if name == "forest":
        assert edges == [(row["parent"], v) for v, row in parents.items() if row["parent"] != v]
    elif name == "truss":
        assert {*map(frozenset, edges)} == {*map(frozenset, nx.k_truss(graph, 4).edges)}
    else:
        shared = {frozenset(e) for e in graph.edges if [*nx.common_neighbors(graph, *e)]}
        assert {*map(frozenset, edges)} == shared
        for row, edge in zip(rows, edges, strict=True):
            degrees = [graph.degree[v] for v in edge]
            assert row["common"] == len(list(nx.common_neighbors(graph, *edge)))
            assert row["overlap"] == row["common"] / min(degrees)
            wanted = [*nx.jaccard_coefficient(graph, [edge]), *nx.adamic_adar_index(graph, [edge])]
            assert np.allclose([row["jaccard"], row["adamic_adar"]], [x for *_, x in wanted])
