"""The backend of NetworkX: what it says it can compute, and NetworkX's own tests of that."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from tests.support.seeds import seed
from vertexsdk.loops import networkx_backend as backend
from vertexsdk.testing.oracles import near

ROOT = Path(__file__).parents[2]
# NetworkX's tests of functions that the backend has. Those of betweenness and closeness, and of
# paths in `shortest_paths.tests.test_unweighted`, pass too, and take as long as all of these.
TESTS = [
    "link_analysis.tests.test_pagerank",
    "tests.test_bridges",
    "tests.test_core",
    "components.tests.test_connected",
    "components.tests.test_strongly_connected",
    "components.tests.test_weakly_connected",
    "centrality.tests.test_harmonic_centrality",
    "centrality.tests.test_katz_centrality",
]


@pytest.fixture
def plugged(tmp_path: Path) -> dict[str, str]:
    """The environment of a process in which the entry points of pyproject.toml are installed."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    metadata = tmp_path / "vertexsdk-0.1.0.dist-info"  # before an installed one on the path
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vertexsdk\nVersion: 0.1.0\n")
    lines = [
        line for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]  # fmt: skip
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


@pytest.mark.processes
@pytest.mark.slow
def test_the_tests_of_networkx(plugged: dict[str, str], tmp_path: Path) -> None:
    plugged |= {"NETWORKX_TEST_BACKEND": "vertexsdk", "NETWORKX_FALLBACK_TO_NX": "True"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs"]
    modules = [f"networkx.algorithms.{name}" for name in TESTS]
    done = subprocess.run(
        [*command, *modules],
        env=plugged,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    last = done.stdout.strip().splitlines()[-1]
    assert done.returncode == 0, done.stdout[-5000:]
    assert "passed" in last


@pytest.mark.full
def test_dispatched_by_networkx(plugged: dict[str, str], tmp_path: Path) -> None:
    script = (
        "import networkx as nx\n"
        "graph = nx.Graph(nx.karate_club_graph().edges)\n"
        "theirs, ours = nx.pagerank(graph), nx.pagerank(graph, backend='vertexsdk')\n"
        "assert max(abs(theirs[v] - ours[v]) for v in graph) < 1e-12\n"
        "assert nx.core_number(graph, backend='vertexsdk') == nx.core_number(graph)\n"
    )
    subprocess.run(
        [sys.executable, "-c", script], env=plugged, cwd=tmp_path, check=True, timeout=240
    )


FUNCTIONS: dict[str, dict[str, Any]] = {
    "betweenness_centrality": {"normalized": False},
    "bridges": {},
    "closeness_centrality": {},
    "clustering": {},
    "core_number": {},
    "has_bridges": {},
    "harmonic_centrality": {"nbunch": ["a", (1, 2)]},
    "katz_centrality": {"alpha": 0.05, "tol": 1e-12, "weight": "km"},
    "pagerank": {"weight": "km", "tol": 1e-12},
    "single_source_dijkstra_path_length": {"source": "a", "weight": "km", "cutoff": 4.5},
    "single_source_shortest_path_length": {"source": "a", "cutoff": 2},
    "triangles": {"nodes": "a"},
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nodes_of_any_kind(name: str) -> None:
    graph = nx.Graph()
    graph.add_weighted_edges_from(
        [("a", 7, 1.0), (7, (1, 2), 2.5), ((1, 2), "a", 9.0), ((1, 2), "x", 1.0)], "km"
    )
    graph.add_node(frozenset({1}))
    converted = backend.convert_from_nx(graph)
    keywords = FUNCTIONS[name]
    assert backend.can_run(name, (converted,), keywords) is True
    ours = getattr(backend, name)(converted, **keywords)
    theirs = getattr(nx, name)(graph, **keywords)
    if name == "bridges":
        ours, theirs = ({frozenset(edge) for edge in edges} for edges in (ours, theirs))
    assert near(ours, {**theirs} if isinstance(theirs, dict) else theirs, 1e-9)
    if name.startswith("single"):
        assert [*ours.values()] == sorted(ours.values())


@pytest.mark.parametrize("name", ["connected", "weakly_connected", "strongly_connected"])
def test_components(name: str) -> None:
    kind = nx.Graph if name == "connected" else nx.DiGraph
    graph = kind([(1, 2), (2, 1), (2, 3), ("x", "y")])
    function = f"{name}_components"
    ours = getattr(backend, function)(backend.convert_from_nx(graph))
    assert {*map(frozenset, ours)} == {*map(frozenset, getattr(nx, function)(graph))}
    other = graph.to_directed() if name == "connected" else graph.to_undirected()
    with pytest.raises(nx.NetworkXNotImplemented):
        getattr(backend, function)(backend.convert_from_nx(other))


@pytest.mark.parametrize(
    ("name", "keywords", "why"),
    [
        ("clustering", {"weight": "weight"}, "edge weights are not supported"),
        ("pagerank", {"weight": "low"}, "from 0 up"),
        ("pagerank", {"weight": "none"}, "from 0 up"),
        ("pagerank", {"weight": None, "personalization": {1: 1}}, "personalization={1: 1} is not"),
        ("katz_centrality", {"beta": {1: 2}}, "beta of each node"),
        ("single_source_dijkstra_path_length", {"source": 1, "weight": len}, "weights are names"),
        ("single_source_dijkstra_path_length", {"source": 1, "weight": "low"}, "from 0 up"),
        ("single_source_dijkstra_path_length", {"source": 1, "weight": "none"}, "from 0 up"),
        ("closeness_centrality", {"distance": "weight"}, "distance='weight' is not supported"),
        ("betweenness_centrality", {"k": 3}, "k=3 is not supported"),
        ("pagerank", {"nonsense": 3}, "nonsense"),
        ("girvan_newman", {}, "girvan_newman is not implemented"),
    ],
)
def test_what_is_left_to_networkx(name: str, keywords: dict[str, Any], why: str) -> None:
    graph = nx.Graph([(1, 2, {"weight": 2.0, "low": -1, "none": None})])
    assert why in str(backend.can_run(name, (backend.convert_from_nx(graph),), keywords))


def test_graphs_that_are_left_to_networkx() -> None:
    for graph in (nx.MultiGraph([(1, 2)]), nx.Graph()):
        assert backend.can_run("triangles", (backend.convert_from_nx(graph),), {}) is not True
    directed = backend.convert_from_nx(nx.DiGraph([(1, 2)]))
    assert "both directions" in str(backend.can_run("core_number", (directed,), {}))
    with pytest.raises(nx.NodeNotFound):
        backend.single_source_shortest_path_length(directed, 9)
    with pytest.raises(nx.PowerIterationFailedConvergence):
        backend.katz_centrality(backend.convert_from_nx(nx.complete_graph(9)), alpha=1.0)
    assert backend.should_run("triangles", (nx.path_graph(2),), {}) is not True
    assert backend.should_run("triangles", (nx.empty_graph(1001),), {}) is True
    assert {*backend.get_info()["functions"]} == {*FUNCTIONS} | {
        f"{name}_components" for name in ("connected", "weakly_connected", "strongly_connected")
    }


@pytest.mark.parametrize("name", sorted(backend._FUNCTIONS))
@pytest.mark.parametrize("directed", [False, True])
def test_what_it_can_run_has_the_answer_of_networkx(name: str, directed: bool) -> None:
    graph = nx.gnp_random_graph(9, 0.3, seed=seed() % 2**31, directed=directed)
    args = (graph, 0) if name.startswith("single_source") else (graph,)
    if backend.can_run(name, args, {}) is not True:
        return
    answers = []
    for function, first in (
        (getattr(backend, name), backend.BackendGraph(graph)), (getattr(nx, name), graph),
    ):  # fmt: skip
        try:
            answer = function(first, *args[1:])
        except nx.NetworkXNotImplemented:
            answer = "not implemented"
        if not isinstance(answer, (dict, bool, str)):
            answer = {frozenset(group) for group in answer}
        answers.append(answer)
    if isinstance(answers[1], dict):
        answers[1] = pytest.approx(dict(answers[1]), abs=1e-5)
    assert answers[0] == answers[1]
