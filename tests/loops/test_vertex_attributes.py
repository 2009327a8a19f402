"""Vertex attributes fill state fields of the same name before `init`, wherever they come from."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from pyspark.sql import SparkSession

import vertexsdk
from tests.support.attributes import by_vertex, place_of
from tests.support.attributes import vertex_id as named
from vertexsdk import Graph, MainLoop, Min, Program, Vertex, VertexId, state
from vertexsdk.errors import InputError
from vertexsdk.program.vertex import ADD_TARGET, REMOVE_TARGET, UPDATE

EDGES = [(1, 2), (2, 3), (3, 2), (3, 4), (6, 5)]
WEIGHTS = {1: 0.5, 3: 2.5, 4: 7.0, 9: 3.0}  # 9 has no edge; 2, 5 and 6 keep the default


class Least(Vertex):
    """The least weight of a vertex and all from which a path leads to it."""

    least: float = state(0.0)
    weight: float = state(4.0)
    lanes: int = state(2)
    start: float = state(0.0)
    messages = Min(float)

    def init(self):
        self.start = self.weight + self.lanes
        self.least = self.weight

    def gather(self, iteration, source, delta):
        self.start = self.weight + self.lanes
        self.least = min(self.weight, delta.value)

    def scatter(self, iteration):
        self.emitAll(self.least)


class LeastEvents(Vertex):
    """The same without a declared algebra, for graphs that do not lose edges."""

    least: float = state(0.0)
    weight: float = state(4.0)
    lanes: int = state(2)
    start: float = state(0.0)
    told: float = state(99.0)

    def init(self):
        self.start = self.weight + self.lanes
        self.least = self.weight

    def gather(self, iteration, source, delta):
        if delta.kind == ADD_TARGET:
            self.addTarget(delta.value)
        elif delta.kind == REMOVE_TARGET:
            self.removeTarget(delta.value)
        elif delta.kind == UPDATE:
            self.least = min(self.least, delta.value)

    def scatter(self, iteration):
        for target in self.targets if self.least < self.told else self.addedTargets:
            self.emit(target, self.least)
        self.told = self.least


def expected(edges: list[tuple[Any, Any]], weights: dict[Any, float]) -> dict[Any, float]:
    """The oracle."""
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(weights)
    return {v: min(weights.get(u, 4.0) for u in (*nx.ancestors(graph, v), v)) for v in graph.nodes}


def graph_of(spark: SparkSession | None, ids: str, partitions: int) -> Graph:
    """The graph of `EDGES` and `WEIGHTS`, from DataFrames; without Spark from arrays."""
    edges = [(named(ids, a), named(ids, b)) for a, b in EDGES]
    rows = [(named(ids, v), w, 3 if v == 1 else None) for v, w in WEIGHTS.items()]
    if spark is None:
        vertices = dict(zip(("id", "weight", "lanes"), zip(*rows, strict=True), strict=True))
        source, target = zip(*edges, strict=True)
        return Graph.from_arrays(source, target, vertices=vertices, partitions=partitions)
    kind = "long" if ids == "int" else "string"
    return Graph.from_dataframe(
        spark.createDataFrame(edges, f"source {kind}, target {kind}"),
        spark.createDataFrame(rows, f"id {kind}, weight double, lanes int"),
        partitions=partitions,
    )


LOCAL = ("local-1", "local-2", "local-7")
PROGRAMS = ((Least, "require"), (Least, False), (LeastEvents, False))
ON_SPARK = [("spark-2", "string", Least, "require"), ("spark-2", "int", LeastEvents, False)]
CASES = [(where, ids, *how) for where in LOCAL for ids in ("int", "string") for how in PROGRAMS]
CASES += ON_SPARK
ONE_WAY_EACH = [case[:3] for case in CASES if case[2:] != (Least, False)]


@pytest.fixture
def where(request) -> tuple[SparkSession | None, int]:
    """A session or None, and a number of partitions."""
    return place_of(request)


def test_constants_are_no_obstacle_to_going_on_from_the_state_before():
    assert Program(Least).classes[0].facts.constants == {"weight", "lanes"}
    assert Program(Least).classes[0].facts.gather_leaves is None


@pytest.mark.parametrize(("where", "ids", "program", "compiled"), CASES, indirect=["where"])
@pytest.mark.sample(6)
def test_a_run_begins_with_the_columns_of_the_vertices(where, tmp_path, ids, program, compiled):
    spark, partitions = where
    graph = graph_of(spark, ids, partitions)
    with closing(
        vertexsdk.run(program, graph, backend=f"lmdb://{tmp_path}/state", compiled=compiled)
    ) as result:
        wanted = expected(EDGES, WEIGHTS)
        assert by_vertex(result, "least") == {named(ids, v): x for v, x in wanted.items()}
        starts = {named(ids, v): WEIGHTS.get(v, 4.0) + (3 if v == 1 else 2) for v in wanted}
        assert by_vertex(result, "start") == starts


@pytest.mark.parametrize(("where", "ids", "program"), ONE_WAY_EACH, indirect=["where"])
@pytest.mark.sample(3)
def test_a_main_loop_its_branches_and_a_resumed_loop_keep_the_attributes(
    where, tmp_path, ids, program
):
    backend = f"lmdb://{tmp_path}/state"
    spark, partitions = where
    graph = graph_of(spark, ids, partitions)
    edges = [(named(ids, a), named(ids, b)) for a, b in EDGES]
    weights = {named(ids, v): w for v, w in WEIGHTS.items()}
    a, b, c = (named(ids, v) for v in (9, 5, 20))  # 20 is new and has the default
    with MainLoop(program, graph, backend=backend, loop="least", snapshot_every=1) as main:
        with closing(main.query()) as result:
            assert by_vertex(result, "least") == expected(edges, weights)
        main.ingest([("+", a, b), ("+", c, a)])
        edges += [(a, b), (c, a)]
        with closing(main.query()) as result:
            assert by_vertex(result, "least") == expected(edges, weights)
        with main.fork() as branch:
            branch.apply([("+", b, c)])
            with closing(branch.result()) as result:
                assert by_vertex(result, "least") == expected([*edges, (b, c)], weights)
    with MainLoop.resume(spark, program, backend=backend, loop="least", trusted=True) as main:
        with closing(main.query()) as result:
            assert by_vertex(result, "least") == expected(edges, weights)
        if program is Least:
            main.ingest([("-", named(ids, 1), named(ids, 2))])
            edges.remove((named(ids, 1), named(ids, 2)))
            with closing(main.query()) as result:
                assert by_vertex(result, "least") == expected(edges, weights)


def test_a_loop_on_integers_and_one_partition_edits_its_graph_in_place(tmp_path):
    graph = graph_of(None, "int", 1)
    edges = list(EDGES)
    with MainLoop(Least, graph, backend=f"lmdb://{tmp_path}/state") as main:
        assert main.from_init is None
        main.query().close()
        for change in [("-", 1, 2), ("+", 3, 6), ("-", 3, 2), ("+", 9, 1)]:
            main.ingest([change])
            sign, *edge = change
            edges.append(tuple(edge)) if sign == "+" else edges.remove(tuple(edge))
            with closing(main.query()) as result:
                assert by_vertex(result, "least") == expected(edges, WEIGHTS)
                assert result.statistics["start"] == "warm"


def test_a_field_that_methods_change_begins_every_answer(tmp_path):
    vertices = {"id": [1, 2, 3], "least": [1.0, -5.0, 2.0]}
    graph = Graph.from_arrays([1, 2], [2, 3], vertices=vertices)
    with MainLoop(Spread, graph, backend=f"lmdb://{tmp_path}/state") as main:
        assert main.from_init == "Spread.least begins with vertex attributes"
        with closing(main.query()) as result:
            assert result.lookup([1, 2, 3], "least")[3]["least"] == -5.0


class Spread(Vertex):
    least: float = state(9.0)
    messages = Min(float)
    always = True  # so no history is kept

    def gather(self, iteration, source, delta):
        if delta.value < self.least:
            self.least = delta.value

    def scatter(self, iteration):
        self.emitAll(self.least)


# Where attributes come from. -----------------------------------------------------------------


class Copied(Vertex):
    """Every kind of field, copied by `init` and by nothing else."""

    weight: float = state(4.0)
    count: int = state(-1)
    open: bool = state(False)
    label: str = state("none")
    friend: VertexId = state(0)
    place: float = state(size=2)
    seen: str = state("")
    messages = Min(float)

    def init(self):
        self.seen = f"{self.weight} {self.count} {self.open} {self.label} {self.place.tolist()}"

    def gather(self, iteration, source, delta):
        pass

    def scatter(self, iteration):
        pass


def seen(graph: Graph, tmp_path: Path, program: type[Vertex] = Copied) -> dict[Any, str]:
    with closing(
        vertexsdk.run(
            program, graph, backend=f"lmdb://{tmp_path}/state", compiled=False, trusted=True
        )
    ) as result:
        return by_vertex(result, "seen")


DEFAULT = "4.0 -1 False none [0.0, 0.0]"


def test_fields_of_every_type(tmp_path):
    vertices = {
        "id": ["a", "b"], "weight": [1, 2], "count": [7.0, 8.0], "open": [True, False],
        "label": ["x", None], "place": [[1, 2], [3.5, 4]], "friend": ["b", "c"],
        "unrelated": [object(), {}],
    }  # fmt: skip
    graph = Graph.from_arrays(["a", "b"], ["b", "c"], vertices=vertices)
    with closing(
        vertexsdk.run(Copied, graph, backend=f"lmdb://{tmp_path}/s", compiled=False, trusted=True)
    ) as result:
        rows = result.lookup(["a", "b", "c"])
    assert rows["a"]["seen"] == "1.0 7 True x [1.0, 2.0]"
    assert rows["b"]["seen"] == "2.0 8 False none [3.5, 4.0]"
    assert rows["c"]["seen"] == DEFAULT
    assert [rows[v]["friend"] for v in "ab"] == ["b", "c"]


def test_node_data_of_a_networkx_graph(tmp_path):
    graph = nx.DiGraph([("a", "b")])
    graph.add_node("a", weight=1.5, label="x", other=object())
    graph.add_node("c", count=np.int64(3), open=True)
    assert seen(Graph.from_networkx(graph), tmp_path) == {
        "a": "1.5 -1 False x [0.0, 0.0]",
        "b": DEFAULT,
        "c": "4.0 3 True none [0.0, 0.0]",
    }


@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_csv_vertex_file(tmp_path, separator):
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n")
    rows = ["ID,weight,label,open", '1, 2.5 ,"007",true', "3,,7,", "4,1,,false", "1,3,last,true"]
    text = "\n".join(r.replace(",", separator) for r in rows)
    name = {",": "vertices.csv", "\t": "vertices.tsv"}[separator]
    (tmp_path / name).write_text("\ufeff" + text)
    graph = Graph.read(None, f"{tmp_path}/edges.txt", vertices=f"{tmp_path}/{name}")
    assert seen(graph, tmp_path) == {
        1: "3.0 -1 True last [0.0, 0.0]",
        2: DEFAULT,
        3: "4.0 -1 False 7 [0.0, 0.0]",
        4: "1.0 -1 False none [0.0, 0.0]",
    }


def test_several_csv_files_and_parquet(spark, tmp_path):
    (tmp_path / "edges.txt").write_text("1 2\n")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.csv").write_text("id,weight\n1,1\n")
    (tmp_path / "files" / "b.csv").write_text("id,count\n2,5\n")
    graph = Graph.read(spark, f"{tmp_path}/edges.txt", vertices=f"{tmp_path}/files")
    wanted = {1: "1.0 -1 False none [0.0, 0.0]", 2: "4.0 5 False none [0.0, 0.0]"}
    assert seen(graph, tmp_path) == wanted
    frame = spark.createDataFrame([(1, 1.0, None), (2, None, 5)], "id int, weight float, count int")
    frame.write.parquet(f"{tmp_path}/vertices.parquet")
    graph = Graph.read(spark, f"{tmp_path}/edges.txt", vertices=f"{tmp_path}/vertices.parquet")
    assert seen(graph, tmp_path) == wanted


def test_columns_of_several_classes(tmp_path):
    (tmp_path / "edges.txt").write_text("1 2\n")
    (tmp_path / "vertices.csv").write_text("id,kind,weight\n1,Other,5\n2,Copied,6\n3,,7\n")
    graph = Graph.read(None, f"{tmp_path}/edges.txt", vertices=f"{tmp_path}/vertices.csv")
    program = Program(Copied, Other)
    with closing(
        vertexsdk.run(program, graph, backend=f"lmdb://{tmp_path}/s", compiled=False, trusted=True)
    ) as result:
        rows = result.lookup([1, 2, 3])
    assert rows[1]["weight"] == 5
    assert "seen" not in rows[1]
    assert [rows[v]["weight"] for v in (2, 3)] == [6.0, 7.0]


class Other(Vertex):
    weight: int = state(0)
    messages = Min(float)

    def gather(self, iteration, source, delta):
        pass

    def scatter(self, iteration):
        pass


def test_a_parameter_that_names_a_vertex_leaves_its_attributes(tmp_path):
    from vertexsdk.algorithms import ShortestPaths

    class From(ShortestPaths):
        """Shortest paths; `weight` is only carried along."""

        weight: float = state(4.0)

    graph = graph_of(None, "int", 1)
    main = MainLoop(From, graph, params={"origin": 1}, backend=f"lmdb://{tmp_path}/state")
    with main, closing(main.query()) as result:
        assert result.lookup([1, 2], "weight") == {1: {"weight": 0.5}, 2: {"weight": 4.0}}


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("weight", ["x"], r"column weight: Failed to parse string: 'x'.*Copied.weight is float; "),
        ("weight", [True], r"column weight: bool, but Copied.weight is float; cast or rename"),
        ("count", [0.5], r"column count: .*0.5.*truncated.*, but Copied.count is int"),
        ("open", [1], r"column open: int64, but Copied.open is bool"),
        ("label", [7], r"column label: 7, but Copied.label is str"),
        ("place", [[1.0]], r"column place: a list is not of 2 numbers, but Copied.place is float"),
        ("place", [1.0], r"column place: double, but Copied.place is float\[2\]"),
        ("weight", [object()], r"column weight: .*object.*, but Copied.weight is float"),
    ],
)
def test_an_attribute_of_another_type_is_refused_in_one_line(tmp_path, column, values, message):
    graph = Graph.from_arrays([1], [2], vertices={"id": [1], column: values})
    with pytest.raises(InputError, match=message) as error:
        vertexsdk.run(Copied, graph, backend=f"lmdb://{tmp_path}/s")
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=message):
        MainLoop(Copied, graph, backend=f"lmdb://{tmp_path}/s")


def test_bad_tables_of_vertices_are_refused(spark, tmp_path):
    (tmp_path / "edges.txt").write_text("1 2\n")
    edges = spark.createDataFrame(EDGES, "source long, target long")
    (tmp_path / "v.csv").write_text("id,weight\n1,2,3\n")
    with pytest.raises(InputError, match=r"v\.csv, line 2: expected 2 columns, got 3"):
        Graph.read(spark, f"{tmp_path}/edges.txt", vertices=f"{tmp_path}/v.csv")
    with pytest.raises(InputError, match=r"columns are name, weight; name one `id`"):
        Graph.from_arrays([1], [2], vertices={"name": [1], "weight": [2]})
    with pytest.raises(InputError, match="lengths differ"):
        Graph.from_arrays([1], [2], vertices={"id": [1], "weight": [2, 3]})
    with pytest.raises(InputError, match="an id is null"):
        Graph.from_dataframe(edges, spark.createDataFrame([(None,)], "id long"))
