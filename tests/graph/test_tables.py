"""Tables of every library, wherever Spark's DataFrames are taken; and unknown arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.support.arrow_stream import ArrowStream
from tests.support.seeds import seed
from vertexsdk import Changes, Graph, InputError, MainLoop, MainLoops, Min, Vertex, inf, run, state
from vertexsdk.graph.load.tables import is_table
from vertexsdk.program.vertex import param

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lazy:
    """As a LazyFrame of Polars, whose strings are views."""

    __module__ = "polars.lazyframe.frame"

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def collect(self) -> ArrowStream:
        columns = [
            c.cast(pa.string_view()) if c.type == pa.string() else c for c in self.table.columns
        ]
        return ArrowStream(pa.table(columns, names=self.table.column_names))


def coded(table: pa.Table) -> pd.DataFrame:
    """A DataFrame whose columns of strings are categories."""
    frame = table.to_pandas()
    texts = [n for n in table.column_names if table[n].type == pa.string()]
    return frame.astype(dict.fromkeys(texts, "category"))


TABLES: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "categories": coded,
    "arrow": lambda table: table,
    "stream": ArrowStream,
    "lazy": Lazy,
}
ROWS = [("+", 4, 1, 0.5), ("-", 1, 2, None), ("+", 2, 5, None), ("~", 2, 3, 7.0)]


def columns_of(rows: list[tuple[Any, ...]], convert: type) -> pa.Table:
    kind, source, target, value = zip(*rows, strict=True)
    ends = [[convert(x) for x in end] for end in (source, target)]
    return pa.table({"kind": kind, "source": ends[0], "target": ends[1], "value": value})


def drawn(rng: np.random.Generator, count: int) -> list[tuple[Any, ...]]:
    kinds = rng.choice(["+", "-", "~"], count, p=[0.6, 0.2, 0.2])
    ends = rng.integers(0, 9, (count, 2)).tolist()
    values = rng.integers(1, 9, count).astype(float).tolist()
    return [
        (str(k), *e, None if k == "-" or (k == "+" and v > 6) else v)
        for k, e, v in zip(kinds, ends, values, strict=True)
    ]


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("convert", [int, str])
@pytest.mark.parametrize(("partitions", "compiled"), [(1, True), (2, False), (7, False)])
def test_ingest_takes_tables_as_it_takes_tuples(
    kind: str, convert: type, partitions: int, compiled: bool
) -> None:
    rng = np.random.default_rng(seed())
    undirected = bool(rng.integers(2))
    answers = []
    for table in (False, True):
        graph = Graph.from_arrays(
            [convert(x) for x in (1, 2, 3)], [convert(x) for x in (2, 3, 1)], [1.0, 2.0, 3.0],
            partitions=partitions, undirected=undirected,
        )  # fmt: skip
        options = {"params": {"origin": convert(1)}, "compiled": compiled, "replace": True}
        with MainLoop("sssp", graph, backend="memory://tables", loop=kind, **options) as main:
            said = []
            draws = np.random.default_rng(int(rng.integers(1)) + seed())
            for rows in (ROWS, drawn(draws, 12), drawn(draws, 1)):
                named = [(sign, convert(a), convert(b), value) for sign, a, b, value in rows]
                given = TABLES[kind](columns_of(rows, convert)) if table else named
                said.append(main.ingest(given))
            with main.fork() as branch:
                more = [("+", 3, 8, 1.0)]
                named = [(sign, convert(a), convert(b), value) for sign, a, b, value in more]
                branch.apply(TABLES[kind](columns_of(more, convert)) if table else named)
                answers.append((said, main.query().to_dict(), branch.result().to_dict()))
    assert answers[0] == answers[1]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("convert", [int, str])
def test_tables_with_times(kind: str, convert: type) -> None:
    rows = [("+", k, k + 1, None) for k in range(6)]
    table = columns_of(rows, convert)
    whole = table.append_column("at", pa.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    stamps = table.append_column("at", pa.array([1, 2, 3, 4, 5, 6], pa.timestamp("s")))
    pairs = [("+", convert(a), convert(b)) for _, a, b, _ in rows]
    answers = []
    for changes, time in (
        (pairs, [1, 2, 3, 4, 5, 6]), (TABLES[kind](whole), "at"), (TABLES[kind](stamps), "at"),
    ):  # fmt: skip
        options: dict[str, Any] = {"backend": "memory://tables-times", "replace": True}
        with MainLoop("degree", Graph.empty(convert), **options).window(3) as main:
            main.ingest(changes, time=time)
            one = main.query().to_dict()
        with MainLoop("degree", Graph.empty(convert), **options).window(3) as main:
            answers.append(
                (one, [(t, a.to_dict()) for t, a in main.rolling(2, changes, time=time)])
            )
    assert answers[0] == answers[1] == answers[2]
    with (
        MainLoop("degree", Graph.empty(convert), **options).window(3) as main,
        pytest.raises(InputError, match="time is 3; of a DataFrame it must be the name of a col"),
    ):
        main.ingest(TABLES[kind](whole), time=3)


class Lanes(Vertex):
    origin: int = param(0)
    hours: float = state(inf)
    messages = Min(float)
    edge = {"length": float, "lanes": int}  # noqa: RUF012

    def gather(self, iteration, source, delta):
        self.hours = 0.0 if self.id == self.origin else delta.value

    def scatter(self, iteration):
        for target in self.targets:
            if target.lanes >= 2:
                self.emit(target, self.hours + target.length)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", TABLES)
def test_tables_with_several_edge_attributes(kind: str) -> None:
    graph = Graph.from_arrays([0, 1], [1, 2], {"length": [1.0, 2.0], "lanes": [2, 1]})
    table = pa.table({
        "kind": ["+", "+"], "source": [1, 2], "target": [2, 3], "lanes": [3, 2],
        "length": [None, 4.0],
    })  # fmt: skip
    with MainLoop(Lanes, graph, backend="memory://tables", replace=True) as main:
        main.ingest(TABLES[kind](table))
        assert main.query().to_dict() == {0: 0.0, 1: 1.0, 2: 3.0, 3: 7.0}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", TABLES)
def test_several_programs_take_tables(kind: str) -> None:
    table = columns_of([("+", 1, 2, None), ("+", 2, 3, None)], int)
    loops = MainLoops(["wcc", "degree"], Graph.empty(), backend="memory://tables", replace=True)
    with loops as several:
        several.ingest(TABLES[kind](table))
        answers = several.query()
        assert answers["wcc"].to_dict() == {1: 1, 2: 1, 3: 1}
        assert answers["degree"].to_dict() == {1: 1, 2: 2, 3: 1}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"kind": ["+"], "source": [1]}, r"columns are kind, source; there is no target"),
        (
            {"kind": ["+", "add", "x"], "source": [1] * 3, "target": [2] * 3},
            r"row 3: kind 'x'; use",
        ),
        ({"kind": ["+"], "source": [None], "target": [2]}, r"source is null; make it integers"),
        ({"kind": ["~"], "source": [1], "target": [2]}, r"row 1: a change of a value needs one"),
        ({"kind": ["+"], "source": ["a"], "target": ["b"]}, r"the graph's ids are integers"),
    ],
)
@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_rows_that_are_not_changes(columns: dict[str, Any], said: str, kind: str) -> None:
    graph = Graph.from_arrays([1], [2])
    with MainLoop("wcc", graph, backend="memory://tables", replace=True) as main:
        with pytest.raises(InputError, match=said) as refused:
            main.ingest(TABLES[kind](pa.table(columns)))
        assert "\n" not in str(refused.value)
        assert main.query().to_dict() == {1: 1, 2: 1}
        empty = {n: [] for n in ("kind", "source", "target")}
        assert not any(main.ingest(TABLES[kind](pa.table(empty))).values())


def test_what_is_a_table() -> None:
    table = pa.table({"x": [1]})
    assert all(is_table(make(table)) for make in TABLES.values())
    assert not any(map(is_table, ([("+", 1, 2)], {}, np.zeros(2), Changes.of([]), None, "a.txt")))


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [k for k in TABLES if k != "lazy"])
def test_vertices_and_placements_come_from_tables(kind: str) -> None:
    convert = TABLES[kind]
    edges = pa.table({"from": ["a", "b"], "to": ["b", "c"], "km": [1.5, 2.0]})
    names = {"source": "from", "target": "to", "value": "km"}
    vertices = pa.table({"id": ["a", "d"], "jump": [0.25, 0.75]})
    place = convert(pa.table({"id": ["a", "b", "c", "d"], "partition": [0, 1, 1, 0]}))
    plain = Graph.from_arrays(["a", "b"], ["b", "c"], [1.5, 2.0])
    for graph in (
        Graph.from_dataframe(convert(edges), convert(vertices), **names),
        Graph.from_dataframe(
            convert(edges), convert(vertices), **names, partitions=2, partitioner=place
        ),
        plain.with_attributes(convert(vertices), add_vertices=True),
        Graph.from_arrays(["a", "b"], ["b", "c"], [1.5, 2.0], vertices=convert(vertices)),
    ):
        assert graph.to_arrow().to_pydict()["value"] == [1.5, 2.0]
        assert graph.num_vertices == 4
        with run("ppr", graph, backend="memory://tables", compiled=False) as result:
            assert sum(result.to_dict().values()) == pytest.approx(1.0)


def empty(dtype: Any) -> pd.DataFrame:
    return pd.DataFrame({"source": [], "target": [], "value": []}, dtype=dtype)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("kind", "dtype", "partitions"),
    [("pandas", object, 1), ("pandas", float, 2), ("stream", object, 7), ("lazy", "int64", 1)],
)
@pytest.mark.parametrize("ids", [[3, 1], ["b", "a"]])
def test_vertices_without_edges(dtype: Any, kind: str, ids: list[Any], partitions: int) -> None:
    edges = TABLES[kind](pa.Table.from_pandas(empty(dtype), preserve_index=False))
    vertices = TABLES[kind](pa.table({"id": ids}))
    graph = Graph.from_dataframe(edges, vertices, partitions=partitions)
    with run("wcc", graph, backend="memory://tables", compiled=False) as result:
        assert result.to_dict() == {x: x for x in sorted(ids)}
    params = {"origin": ids[0]}
    with run("sssp", graph, params=params, backend="memory://tables", compiled=False) as result:
        assert result.to_dict() == {x: 0.0 if x == ids[0] else inf for x in sorted(ids)}
    with MainLoop("wcc", graph, backend="memory://tables-main", replace=True) as main:
        main.ingest([("+", ids[0], ids[1])])
        assert {*main.query().to_dict().values()} == {min(ids)}


@pytest.mark.parametrize("dtype", [object, float, "int64"])
@pytest.mark.parametrize("ids", [[3, 1], ["b", "a"]])
def test_edges_with_an_empty_table_of_vertices(dtype: Any, ids: list[Any]) -> None:
    edges = pd.DataFrame({"source": ids[:1], "target": ids[1:]})
    graph = Graph.from_dataframe(edges, pd.DataFrame({"id": []}, dtype=dtype))
    assert graph.degrees() == {ids[0]: 1, ids[1]: 0}


CONSTRUCTORS: dict[str, tuple[Any, ...]] = {
    "read": ("no.txt",),
    "empty": (),
    "from_dataframe": (pd.DataFrame({"source": [1], "target": [2]}),),
    "from_pandas": (pd.DataFrame({"source": [1], "target": [2]}),),
    "from_polars": (pa.table({"source": [1], "target": [2]}),),
    "from_arrow": (pa.table({"source": [1], "target": [2]}),),
    "from_graphframe": (None,),
    "from_arrays": ([1], [2]),
    "from_networkx": (None,),
    "from_scipy": (None,),
}


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", CONSTRUCTORS)
@pytest.mark.parametrize(
    ("given", "near"), [("directed", "undirected"), ("partition", "partitions"), ("zzz", "")]
)
def test_an_unknown_argument_is_refused_with_the_nearest(name: str, given: str, near: str) -> None:
    meant = rf"did you mean {near}=\? " if near else ""
    said = rf"^Graph\.{name}: no argument {given}=; {meant}its arguments are [\w, ]*undirected"
    with pytest.raises(InputError, match=said) as refused:
        getattr(Graph, name)(*CONSTRUCTORS[name], **{given: True})
    assert "cls" not in str(refused.value)


def test_all_constructors_are_tried() -> None:
    made = {n for n in vars(Graph) if n.startswith("from_") or n in ("read", "empty")}
    assert made == {*CONSTRUCTORS}
    with pytest.raises(InputError, match=r"no argument add_vertex=; did you mean add_vertices=\?"):
        Graph.from_arrays([1], [2]).with_attributes({"id": [3]}, add_vertex=True)  # type: ignore[call-arg]


def test_columns_of_spark_have_other_names(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", "b", 1.5, 9.0), ("b", "c", 2.0, 8.0)], "f string, t string, km double, value double")  # fmt: skip  # noqa: E501
    names = {"source": "f", "target": "t"}
    for value, wanted in (("km", [1.5, 2.0]), (None, [1.0, 1.0])):
        given = names if value is None else {**names, "value": value}
        table = Graph.from_dataframe(frame, **given).to_arrow().to_pydict()
        assert table == {"source": ["a", "b"], "target": ["b", "c"], "value": wanted}
    with pytest.raises(InputError, match=r"no column 'x' for source=; columns are f, t, km, value"):
        Graph.from_dataframe(frame, source="x", target="t")
    with pytest.raises(InputError, match="give both source= and target=, or neither"):
        Graph.from_dataframe(frame, source="f")
