"""Graphs of what users have: tables, NetworkX graphs, matrices, files; and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.support.arrow_stream import ArrowStream
from vertexsdk import Graph, InputError, Latest, MainLoop, Vertex, run, state
from vertexsdk.graph.graph import as_graph

EDGES = {"source": [3, 1, 1], "target": [1, 2, 3], "value": [0.5, 2.0, 1.0]}
ROWS = {"source": [1, 1, 3], "target": [2, 3, 1], "value": [2.0, 1.0, 0.5]}


class Lazy:
    """As a LazyFrame of Polars, whose strings are views."""

    def collect(self) -> ArrowStream:
        table = pa.table(EDGES)
        ends = [pa.array([str(x) for x in EDGES[n]]).cast(pa.string_view()) for n in EDGES][:2]
        return ArrowStream(pa.table([*ends, table["value"]], names=table.column_names))


def rows(graph: Graph) -> dict[str, Any]:
    return dict(graph.to_arrow().to_pydict())


def test_every_kind_of_table_gives_the_same_edges(tmp_path: Path) -> None:
    table = pa.table(EDGES)
    pq.write_table(table, tmp_path / "edges.parquet")
    directed = nx.DiGraph()
    directed.add_weighted_edges_from(zip(*EDGES.values(), strict=True))
    matrix = nx.to_scipy_sparse_array(directed, [0, 1, 2, 3][1:])
    for source in (
        pd.DataFrame(EDGES), table, ArrowStream(table), directed, tmp_path / "edges.parquet",
        str(tmp_path / "edges.parquet"), [str(tmp_path / "edges.parquet")],
    ):  # fmt: skip
        graph = as_graph(source)
        assert rows(graph) == ROWS, source
        assert (graph.num_vertices, graph.num_edges) == (3, 3)
    moved = {n: [x - (n != "value") for x in column] for n, column in ROWS.items()}
    assert rows(as_graph(matrix)) == moved
    strings = {n: column if n == "value" else [*map(str, column)] for n, column in ROWS.items()}
    assert rows(Graph.from_polars(Lazy())) == strings
    graph = Graph.from_arrow(table)
    assert as_graph(graph) is graph


def test_columns_of_other_names_vertices_and_attributes() -> None:
    trips = pd.DataFrame({"from": ["a", 7], "to": ["b", "a"], "km": [1, 2], "note": [{}, object()]})
    towns = pd.DataFrame({"id": ["z"], "size": pd.Categorical([5])})
    graph = Graph.from_pandas(
        trips, towns, source="from", target="to", value="km", undirected=True, partitions=2
    )
    assert rows(graph) == {"source": ["7", "a"], "target": ["a", "b"], "value": [2.0, 1.0]}
    assert graph.degrees() == graph.degrees("in") == {"7": 1, "a": 2, "b": 1, "z": 0}
    assert graph.vertex_input is not None
    assert graph.vertex_input.attributes is not None
    assert graph.vertex_input.attributes["size"].to_pylist() == [5]


class Longest(Vertex):
    """The longest edge attribute `km` out of a vertex."""

    km: float = state(0.0)
    messages = Latest(float)
    edge: ClassVar = {"km": float, "lanes": int}

    def gather(self, iteration: int, source: int, delta: Any) -> None:
        for target in self.targets:
            self.km = max(self.km, target.km)

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.km)


def test_other_columns_are_edge_attributes() -> None:
    roads = pd.DataFrame({"src": [1, 1], "dst": [2, 3], "km": [4.0, 9.0], "lanes": [2, 1]})
    with run(Longest, roads, backend="memory://conversions") as result:
        assert result.to_dict() == {1: 9.0, 2: 0.0, 3: 0.0}


def test_degrees_on_several_partitions() -> None:
    graph = nx.gnp_random_graph(40, 0.1, seed=4, directed=True)
    ours = Graph.from_networkx(graph, partitions=3)
    assert ours.degrees() == dict(graph.out_degree)
    assert ours.degrees("in") == dict(graph.in_degree)
    assert ours.num_edges == graph.number_of_edges()


def test_graphml_says_whether_edges_have_a_direction(tmp_path: Path) -> None:
    path = str(tmp_path / "path.graphml")
    for graph in (nx.path_graph(3), nx.path_graph(3, nx.DiGraph)):
        nx.set_edge_attributes(graph, 2.5, "weight")
        nx.write_graphml(graph, path)
        for ours in (Graph.read(path), Graph.read(path, format="graphml", partitions=2)):
            assert ours.undirected is not graph.is_directed()
            assert rows(ours)["value"] == [2.5, 2.5]
    assert Graph.read(path, undirected=True).undirected


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (pd.DataFrame({"a": [1]}), "columns are a; name them source,target"),
        (pd.DataFrame({"source": [1.5], "target": [2]}), "column source: double; ids are"),
        (pd.DataFrame({"source": [1], "target": [None]}), "column target: null; ids are"),
        (pd.DataFrame({"source": ["a", None], "target": ["b", "c"]}), "an id is null"),
        (pd.DataFrame({**EDGES, "value": [1, np.nan, 2]}), "column value: a value is missing"),
        (pd.DataFrame([[1, 2]], columns=["source", "source"]), "two columns are called 'source'"),
        (pa.table([[1], [2]], names=["source", "source"]), "two columns have the same name"),
        (pa.table({"source": [1], "target": [[2]]}), "column target: list<"),
        ([1, 2], "list is not a graph; give a vertexsdk.Graph"),
        ([], "list is not a graph"),
        (None, "NoneType is not a graph"),
        ("nowhere.txt", "nowhere.txt"),
    ],
)
def test_what_is_refused(source: Any, line: str) -> None:
    with pytest.raises(InputError) as caught:
        as_graph(source)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_and_files_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame(EDGES)
    with pytest.raises(InputError, match="no column 'from' for source="):
        Graph.from_pandas(frame, source="from", target="target")
    with pytest.raises(InputError, match="give both source= and target="):
        Graph.from_pandas(frame, source="value")
    with pytest.raises(InputError, match="int is not a table that Arrow can read"):
        Graph.from_arrow(7)
    with pytest.raises(InputError, match="the vertices: columns are a; name one `id`"):
        Graph.from_pandas(frame, pd.DataFrame({"a": [1]}))
    with pytest.raises(InputError, match="the ids of a graph are int or str"):
        Graph.empty(float)
    broken = tmp_path / "broken.graphml"
    broken.write_text("<graphml><graph>")
    with pytest.raises(InputError, match="not readable as GraphML"):
        Graph.read(str(broken))
    with pytest.raises(InputError, match="No such file"):
        Graph.read(str(tmp_path / "none.graphml"))
    with pytest.raises(InputError, match="GraphML is one file"):
        Graph.read([str(broken), str(broken)], format="graphml")
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(InputError, match=r"pip install 'vertexsdk\[networkx\]'"):
        Graph.read(str(broken))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("kind", [float, np.int32, bool])
def test_entries_of_one_place_are_summed_in_every_format(form: str, kind: type) -> None:
    start, column, entry = [0, 3, 3, 4], [1, 1, 2, 0], np.array([1, 2, 4, 8], kind)
    matrix = sp.csr_array((entry, column, start), shape=(3, 3))
    if form == "coo":
        matrix = sp.coo_array((entry, ([0, 0, 0, 2], column)), shape=(3, 3))
    elif form != "csr":
        matrix = matrix.asformat(form)
    graph = Graph.from_scipy(matrix)
    assert graph.to_arrow().to_pydict() == {
        "source": [0, 0, 2], "target": [1, 2, 0], "value": [1, 1, 1] if kind is bool else [3, 4, 8],
    }  # fmt: skip
    assert form != "csr" or matrix.nnz == 4


def test_values_that_are_no_real_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="complex128 are not integers or floats; take the real"):
        Graph.from_scipy(sp.csr_array(np.array([[0, 1j], [0, 0]])))
    with pytest.raises(InputError, match="edge values: mixed objects are not integers or floats"):
        Graph.from_arrays([1, 2], [2, 3], np.array([1.0, {}], object))
    with pytest.raises(InputError, match="edge attribute length: complex128 are not"):
        Graph.from_arrays([1], [2], {"length": np.array([1j])})


@pytest.mark.parametrize("kind", [nx.MultiGraph, nx.MultiDiGraph])
def test_a_multigraph_for_a_main_loop_is_refused_with_a_way_out(kind: type) -> None:
    graph = kind([(1, 2), (1, 2)])
    with pytest.raises(InputError, match=r"Graph\.from_networkx\(graph, multi=False\)"):
        MainLoop("wcc", graph, backend="memory://multi")
    with MainLoop("wcc", Graph.from_networkx(graph, multi=False), backend="memory://multi") as main:
        assert main.query().to_dict() == {1: 1, 2: 1}
