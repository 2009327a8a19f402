"""`result.path(to)`: shortest paths of runs and main loops, against NetworkX."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from tests.support.random_changes import Edges, random_rows
from tests.support.seeds import seed
from vertexsdk import Graph, InputError, MainLoop, read, run
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.testing.oracles import graph_of

VERTICES = [*range(15)]


def name(vertex: int, *, strings: bool) -> Any:
    return f"v{vertex:02}" if strings else vertex


def wanted(graph: Any, origin: Any, to: Any, weight: str | None) -> list[Any]:
    """The path that is documented, by listing all of them."""
    paths = nx.all_shortest_paths(graph, origin, to, weight=weight)
    fewest = [*paths]
    least = min(map(len, fewest))
    return min((p for p in fewest if len(p) == least), key=lambda p: p[::-1])


def check(result: Any, graph: Any, origin: Any, weight: str | None) -> None:
    for to in graph:
        if nx.has_path(graph, origin, to):
            assert result.path(to) == wanted(graph, origin, to, weight)
        else:
            with pytest.raises(InputError, match=f"there is no path from {origin} to {to}"):
                result.path(to)


@pytest.mark.parametrize("program", ["sssp", "bfs"])
def test_paths_follow_changes(program: str, tmp_path: Path) -> None:
    rng = random.Random(seed())
    undirected, strings = rng.random() < 0.5, rng.random() < 0.5
    options: Any = {"compiled": rng.choice([True, False]), "backend": f"lmdb://{tmp_path}/state"}
    weight = "weight" if program == "sssp" else None
    algorithm: Any = rng.choice([program, ALGORITHMS[program]])
    edges: Edges = {}
    random_rows(rng, edges, 30, undirected=undirected, vertices=VERTICES)
    for edge in edges:
        edges[edge] = float(rng.choice([0, 0, 1, 1, 2, 3]))  # many paths are as short as others

    def named(a: int, b: int) -> tuple[Any, Any]:
        return name(a, strings=strings), name(b, strings=strings)

    def now() -> Any:
        rows = [(*named(a, b), x) for (a, b), x in edges.items()]
        vertices = [name(v, strings=strings) for v in VERTICES]
        return graph_of(rows, vertices, undirected=undirected)

    source, target = zip(*(named(*edge) for edge in edges), strict=True)
    graph = Graph.from_arrays(
        source, target, [*edges.values()], vertices=[name(v, strings=strings) for v in VERTICES],
        undirected=undirected, partitions=rng.choice([1, 2, 3]),
    )  # fmt: skip
    origin = name(0, strings=strings)
    with run(algorithm, graph, origin=origin, loop="once", **options) as result:
        check(result, now(), origin, weight)
    again = read(options["backend"], "once")
    with again, pytest.raises(InputError, match="give path\\(\\) the graph"):
        again.path(origin)
    with MainLoop(algorithm, graph, origin=origin, loop=program, **options) as main:
        for turn in range(3):
            before, earlier = now(), main.query()
            changes = random_rows(rng, edges, 8, undirected=undirected, vertices=VERTICES)
            main.ingest([(row[0], *named(*row[1:3]), *row[3:]) for row in changes])
            check(earlier, before, origin, weight)  # of that instant
            earlier.close()
            if turn == 1:
                main._history.take_snapshot()
        with main.query() as result:
            check(result, now(), origin, weight)
        with read(options["backend"], f"{program}-{main.queries}") as again:
            check(again, now(), origin, weight)


def test_what_has_no_path() -> None:
    graph = Graph.from_arrays([1, 2], [2, 3])
    result = run("wcc", graph, backend="memory://paths")
    with result, pytest.raises(InputError, match="wcc finds no paths"):
        result.path(3)
    with run("bfs", graph, origin=1, backend="memory://paths") as result:
        with pytest.raises(InputError, match="there is no vertex 9"):
            result.path(9)
        with pytest.raises(InputError, match="approximation, or the graph is another one"):
            result.path(3, graph=Graph.from_arrays([1, 3], [2, 1]))


def test_sources_by_attribute() -> None:
    graph = Graph.from_arrays([1, 2, 9, 4], [2, 3, 4, 3])
    graph = graph.with_attributes({"id": [1, 9], "source": [1, 1]})
    with run("khop", graph, k=2, backend="memory://paths") as result:
        assert result.path(3) == [1, 2, 3]
        assert result.path(4) == [9, 4]
