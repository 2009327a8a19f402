"""Results as tables and graphs of other libraries; programs and parameters in every form."""

from __future__ import annotations

import sys
import types
from typing import Any

import networkx as nx
import pytest

from vertexsdk import Graph, InputError, MainLoop, Program, Vertex, run, state
from vertexsdk.algorithms import PageRank

BACKEND = "memory://frames"


def test_a_result_in_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = nx.star_graph(3)
    with run("bfs", graph, origin=1, backend=BACKEND) as result:
        assert len(result) == 4
        assert list(result) == [0, 1, 2, 3]
        assert 3 in result
        assert 4 not in result
        wanted = {"id": [0, 1, 2, 3], "depth": [1, 0, 2, 2]}
        assert result.to_arrow().to_pydict() == wanted
        assert result.to_pandas().to_dict("list") == wanted
        assert result.top(2) == {2: 2, 3: 2}
        assert result.histogram(2).to_pydict() == {
            "low": [0.0, 1.0], "high": [1.0, 2.0], "count": [1, 3]
        }  # fmt: skip
        polars = types.SimpleNamespace(from_arrow=lambda table: table)
        monkeypatch.setitem(sys.modules, "polars", polars)
        assert result.to_polars().to_pydict() == wanted
        for edges in (graph, Graph.from_networkx(graph)):
            ours = result.to_networkx(edges)
            assert nx.get_node_attributes(ours, "depth") == {0: 1, 1: 0, 2: 2, 3: 2}
            assert {*map(frozenset, ours.edges)} == {*map(frozenset, graph.edges)}
        assert not nx.get_node_attributes(graph, "depth")  # which was copied
        with pytest.raises(InputError, match="not from list"):
            result.to_networkx([])
        for name in ("pandas", "polars", "networkx"):
            monkeypatch.setitem(sys.modules, name, None)
            with pytest.raises(InputError, match=f"pip install {name}, or use to_arrow"):
                getattr(result, f"to_{name}")(*[graph] if name == "networkx" else [])


def test_vertices_without_a_path_are_in_no_ranking() -> None:
    graph = nx.Graph([("a", "b"), ("c", "d")])
    for name in ("bfs", "sssp"):
        with run(name, graph, origin="a", backend=BACKEND) as result:
            assert result.top() == {"b": 1, "a": 0}
            assert sum(result.histogram()["count"].to_pylist()) == 2


class Named(Vertex):
    """A vertex with a word and a list of numbers."""

    word: str = state("x")
    numbers: float = state(size=2)
    messages = PageRank.messages

    def gather(self, iteration: int, source: int, delta: Any) -> None:
        pass

    def scatter(self, iteration: int) -> None:
        pass


def test_rankings_need_numbers() -> None:
    with run(Named, nx.path_graph(2), backend=BACKEND, compiled=False) as result:
        for field in (None, "numbers"):
            with pytest.raises(InputError, match="has no single numbers"):
                result.top(field=field)


def test_programs_by_name_and_parameters_as_keywords() -> None:
    graph = nx.karate_club_graph()
    program = Program(PageRank)
    one = run("pagerank", graph, damping=0.5, backend=BACKEND).to_dict()
    two = run(program, graph, params={"damping": 0.5}, backend=BACKEND).to_dict()
    named = run("vertexsdk.algorithms:PageRank", graph, damping=0.5, backend=BACKEND).to_dict()
    assert one == two == named != run(PageRank, graph, backend=BACKEND).to_dict()
    with MainLoop("pagerank", graph, damping=0.5, backend=BACKEND) as main:
        assert main.query().to_dict() == pytest.approx(one, abs=1e-9)
    with MainLoop.resume(None, "pagerank", damping=0.5, backend=BACKEND) as main:
        assert main.query().to_dict() == pytest.approx(one, abs=1e-9)


@pytest.mark.parametrize("what", [run, MainLoop])
@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"dampin": 1}, r"'dampin' is neither .* \(did you mean damping\?\); its parameters are"),
        ({"max_iteration": 1}, r"did you mean max_iterations\?"),
        ({"damping": 0.5, "params": {"damping": 0.5}}, "damping is given twice"),
    ],
)
def test_keywords_that_mean_nothing(what: Any, options: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        what("pagerank", nx.path_graph(3), backend=BACKEND, **options)


def test_other_programs_are_refused() -> None:
    with pytest.raises(InputError, match="no built-in program 'pagerang'; did you mean 'pagerank'"):
        run("pagerang", nx.path_graph(3))


@pytest.mark.parametrize(("ids", "edge"), [(int, (1, 2)), (str, ("a", "b"))])
def test_a_main_loop_from_nothing(ids: type, edge: tuple[Any, Any]) -> None:
    with MainLoop("wcc", Graph.empty(ids), backend=f"memory://frames-{ids}") as main:
        assert main.query().to_dict() == {}
        main.ingest([("+", *edge)])
        assert main.query().to_dict() == dict.fromkeys(edge, edge[0])
