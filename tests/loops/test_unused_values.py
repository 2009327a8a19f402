"""Programs that other systems run with weights say that values of edges are not used, once."""

from __future__ import annotations

import logging
from typing import Any

import networkx as nx
import pytest

from vertexsdk import Graph, MainLoop, Sum, Vertex, run, state

EDGES: dict[type, Any] = {int: ([1, 2], [2, 1]), str: (["a", "b"], ["b", "a"])}
SAID = "{}: edges have values, which it does not use: every edge counts the same"
WEIGHT = '; weight="value" uses them'


class PageRank(Vertex):
    """One of a user, who knows whether it reads values."""

    rank: float = state(0.0)
    messages = Sum(float)
    max_iterations = 2

    def gather(self, iteration, source, delta):
        self.rank = delta.value

    def scatter(self, iteration):
        self.emitAll(1.0)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.WARNING, "vertexsdk")
    return lambda: [r.getMessage() for r in caplog.records if "have values" in r.getMessage()]


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", ["pagerank", "hits", "eigenvector", "katz", "closeness"])
@pytest.mark.parametrize("ids", [int, str])
@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("compiled", [True, False])
def test_said_once(name: str, ids: type, partitions: int, compiled: bool, said: Any) -> None:
    graph = Graph.from_arrays(*EDGES[ids], [2.0, 3.0], partitions=partitions)
    options: dict[str, Any] = {"backend": "memory://values", "compiled": compiled}
    for _ in range(2):
        run(name, graph, **options).close()
    if name != "closeness":
        with MainLoop(name, graph, replace=True, **options) as main:
            main.query().close()
    assert said() == [SAID.format(name) + (WEIGHT if name != "closeness" else "")]
    run(name, graph, params={"weight": "value"} if name != "closeness" else {}, **options).close()
    assert len(said()) == 1


def test_personalised_ranks_and_weights_of_networkx(said: Any) -> None:
    graph = Graph.from_networkx(nx.karate_club_graph())
    graph = graph.with_attributes({"id": [0], "jump": [1.0]}, replace=True)
    run("ppr", graph, backend="memory://values", compiled=False).close()
    with MainLoop("pagerank", graph, backend="memory://values", replace=True) as main:
        main.query().close()
    assert said() == [SAID.format("ppr") + WEIGHT, SAID.format("pagerank") + WEIGHT]


def test_estimates_say_nothing_of_their_samples(caplog: pytest.LogCaptureFixture) -> None:
    source, target = [1, 2, 1], [2, 1, 2]
    for value in (None, [2.0, 3.0, 4.0]):
        Graph.from_arrays(source, target, value).estimate("pagerank")
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_not_said_where_nothing_is_lost(said: Any) -> None:
    plain, weighted = (Graph.from_arrays([1, 2], [2, 1], v) for v in (None, [2.0, 3.0]))
    for name, graph in (
        ("pagerank", plain), ("wcc", weighted), ("degree", weighted), ("louvain", weighted),
        (PageRank, weighted),
    ):  # fmt: skip
        run(name, graph, backend="memory://values", compiled=False).close()
        run("sssp", graph, params={"origin": 1}, backend="memory://values").close()
    assert said() == []
