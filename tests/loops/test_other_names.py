"""Programs by the names that other systems have for them: understood, or suggested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk import Graph, InputError, MainLoop, run
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.cli import main
from vertexsdk.loops import find_program as names
from vertexsdk.loops.find_program import load_program

UNDERSTOOD = {
    "connected_components": "wcc",
    "connectedComponents": "wcc",
    "weakly_connected_components": "wcc",
    "strongly_connected_components": "scc",
    "stronglyConnectedComponents": "scc",
    "triangleCount": "triangles",
    "gds.triangleCount.stream": "triangles",
    "gds.wcc": "wcc",
    "nx.triangles": "triangles",
    "gds.localClusteringCoefficient": "lcc",
    "betweenness_centrality": "betweenness",
    "coloring": "colouring",
}
SUGGESTED = {
    "label_propagation": "; the nearest is 'cdlp': all labels change at once",
    "labelPropagation": "; the nearest is 'cdlp': ",
    "shortest_path": "; the nearest is 'sssp': lengths of paths",
    "shortestPaths": "; the nearest is 'sssp': ",
    "gds.allShortestPaths.dijkstra": "",
    "clustering": "; the nearest is 'lcc': ",
    "core_number": "; the nearest is 'kcore': ",
    "kCore": "; the nearest is 'kcore': ",
    "louvain_communities": "; the nearest is 'louvain': ",
    "pageRank": "; the nearest is 'pagerank': ranks add up to 1",
    "page_rank": "; the nearest is 'pagerank': ranks add up to 1",
    "gds.pageRank.write": "; the nearest is 'pagerank': ",
    "parallelPersonalizedPageRank": "; the nearest is 'ppr': ",
    "conected_components": "; did you mean 'wcc'?",
    "HubsAndAuthorities": "; did you mean 'hits'?",
    "pagerang": "; did you mean 'pagerank'?",
    "nope": "",
}


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_understood(name: str) -> None:
    program = load_program(name)
    assert program.name == UNDERSTOOD[name]
    assert program.classes[0].cls is ALGORITHMS[program.name]


@pytest.mark.parametrize("name", SUGGESTED)
def test_suggested(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        load_program(name)
    assert str(error.value).startswith(f"no built-in program {name!r}{SUGGESTED[name]}")
    edges = tmp_path / "edges.txt"
    edges.write_text("1 2\n")
    assert main(["run", name, "--edges", str(edges), "--engine", "local"]) == 2
    assert capsys.readouterr().err.startswith(f"vertexsdk: no built-in program {name!r}")


def test_one_table_of_programs_that_exist() -> None:
    others = [*names._UNDERSTOOD, *names._DIFFERENT]
    assert len({names._plain(name) for name in others}) == len(others)
    assert {*names._UNDERSTOOD.values()} <= {*ALGORITHMS}
    assert {ours for ours, _ in names._DIFFERENT.values()} <= {*ALGORITHMS}
    assert all(names.understood(ours) == ours for ours in ALGORITHMS)


@pytest.mark.sample(3)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_what_is_understood_has_the_answer_of_networkx(directed: bool, partitions: int) -> None:
    rng = np.random.default_rng(seed())
    kind = nx.DiGraph if directed else nx.Graph
    graph = kind([(int(a), int(b)) for a, b in rng.integers(0, 15, (25, 2)) if a != b])
    origin = min(graph)

    def ours(name: str, **params: Any) -> dict[Any, Any]:
        source = Graph.from_networkx(graph, partitions=partitions)
        with run(name, source, backend="memory://names", compiled=False, **params) as result:
            return result.to_dict()

    def groups(of: dict[Any, Any]) -> set[frozenset[Any]]:
        return {frozenset(v for v in of if of[v] == label) for label in of.values()}

    components = "weakly_connected_components" if directed else "connected_components"
    assert groups(ours(components)) == {*map(frozenset, getattr(nx, components)(graph))}
    lengths = nx.single_source_shortest_path_length(graph, origin)
    answer = ours("single_source_shortest_path_length", origin=origin)
    assert {v: x for v, x in answer.items() if x < 2**62} == lengths
    assert ours("betweenness_centrality") == pytest.approx(nx.betweenness_centrality(graph))
    if directed:
        strong = groups(ours("strongly_connected_components"))
        assert strong == {*map(frozenset, nx.strongly_connected_components(graph))}
    else:
        assert ours("triangle_count") == nx.triangles(graph)
        assert ours("local_clustering_coefficient") == pytest.approx(nx.clustering(graph))


def test_the_command_line_and_main_loops_understand_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("edges.txt").write_text("a b\nb c\nd e\n")
    line = ["run", "connected_components", "--edges", "edges.txt", "--engine", "local"]
    assert main([*line, "--backend", f"lmdb://{tmp_path}/state", "--output", "o.csv"]) == 0
    assert Path("o.csv").read_text() == "vertex,value\na,a\nb,a\nc,a\nd,d\ne,d\n"
    with MainLoop("connectedComponents", nx.path_graph(3), backend="memory://named") as loop:
        assert loop.query().to_dict() == {0: 0, 1: 0, 2: 0}
