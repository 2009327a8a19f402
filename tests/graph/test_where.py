"""`Graph.where`: the edges for which a condition holds, of every kind of source."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import operator
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.arrow_stream import ArrowStream
from tests.support.seeds import draws, seed
from vertexsdk import Graph, InputError, MainLoop, Sum, Vertex, run, state

URL = "memory://where"
COLUMNS = ["source", "target", "value", "amount", "kind", "day"]
Row = dict[str, Any]
Test = tuple[pc.Expression, Callable[[Row], bool]]


def rows_of(rng: random.Random, ids: type) -> list[Row]:
    def vertex() -> Any:
        return rng.randrange(9) if ids is int else f"v{rng.randrange(9)}"

    return [
        {
            "source": vertex(), "target": vertex(), "value": float(rng.randrange(1, 9)),
            "amount": rng.choice([None, 1, 2.5, 10, 25]), "kind": rng.choice(["bus", "car", "Bus"]),
            "day": datetime.date(2024, 1, rng.randrange(1, 20)),
        }
        for _ in range(rng.choice([1, 12, 40]))
    ]  # fmt: skip


def a_test(rng: random.Random, rows: list[Row], names: list[str]) -> Test:
    """A condition on one of some columns, and the same in Python; null does not fulfil it."""
    name = rng.choice(names)
    there = [row[name] for row in rows if row[name] is not None] or [1]
    than = rng.choice(there)
    compare = rng.choice([operator.eq, operator.gt, operator.le, operator.ne])
    return (
        compare(pc.field(name), than),
        lambda row: row[name] is not None and bool(compare(row[name], than)),
    )


def made(rng: random.Random, rows: list[Row], path: Path, spark: Any, **options: Any) -> Graph:
    """The rows as a source of some kind, which its name tells, with all columns."""
    table = pa.Table.from_pylist(rows, pa.schema([
        ("source", pa.int64() if isinstance(rows[0]["source"], int) else pa.string()),
        ("target", pa.int64() if isinstance(rows[0]["source"], int) else pa.string()),
        ("value", pa.float64()), ("amount", pa.float64()), ("kind", pa.string()),
        ("day", pa.date32()),
    ]))  # fmt: skip
    kinds = ["arrow", "pandas", "polars", "parquet", "csv", "csv.gz"]
    kind = rng.choice(kinds) if spark is None else "spark"
    options["spark"] = spark
    if kind == "arrow":
        return Graph.from_arrow(table, **options)
    if kind == "pandas":
        return Graph.from_pandas(table.to_pandas(), **options)
    if kind == "polars":
        return Graph.from_polars(ArrowStream(table), **options)
    if kind == "spark":
        del options["spark"]
        frame = spark.createDataFrame(table.to_pylist(), "source string, target string, value "
            "double, amount double, kind string, day date")  # fmt: skip
        if isinstance(rows[0]["source"], int):
            frame = frame.withColumns({n: frame[n].cast("long") for n in ("source", "target")})
        return Graph.from_dataframe(frame, **options)
    file = path / f"edges.{kind}"
    if kind == "parquet":
        pq.write_table(table, file, row_group_size=rng.choice([3, 100]))
    else:
        text = table.to_pandas().to_csv(index=False).encode()
        file.write_bytes(gzip.compress(text) if kind == "csv.gz" else text)
    return Graph.read(options.pop("spark"), [str(file)], **options)


def check(graph: Graph, rows: list[Row], *, multi: bool = False) -> None:
    """A graph is that of these rows."""
    edges = [(row["source"], row["target"], row["value"]) for row in rows]
    if graph.undirected:
        edges = [(min(a, b), max(a, b), x) for a, b, x in edges]
    if not multi:
        edges = [(a, b, x) for (a, b), x in {(a, b): x for a, b, x in edges}.items()]
    table = graph.to_arrow()
    assert graph.num_edges == len(edges)
    assert graph.num_vertices == len({v for a, b, _ in edges for v in (a, b)})
    if not (multi and graph.undirected):  # of which loops are there twice
        assert sorted(zip(*table.to_pydict().values(), strict=True)) == sorted(edges)


def histories(rng: random.Random, path: Path, spark: Any = None) -> None:
    rows = rows_of(rng, rng.choice([int, str]))
    how = {"undirected": rng.random() < 0.5, "partitions": rng.choice([1, 2, 7])}
    multi = rng.random() < 0.3
    graph = made(rng, rows, path, spark, multi=multi, **how)
    names = [n for n in COLUMNS if n not in ("source", "target")]
    condition, holds = a_test(rng, rows, names)
    some = graph.where(condition)
    kept = [row for row in rows if holds(row)]
    check(some, kept, multi=multi)
    condition, also = a_test(rng, rows, ["source", "amount", "kind"])
    check(some.where(condition), [row for row in kept if also(row)], multi=multi)
    assert graph.num_edges >= some.num_edges  # it is as it was
    both = graph.where((pc.field("kind") == "bus") & (pc.field("amount") > 2))
    kept = [row for row in rows if row["kind"] == "bus" and (row["amount"] or 0) > 2]
    check(both, kept, multi=multi)
    for each in (graph, some, both):
        each.unpersist()


def test_rows_of_every_source(tmp_path: Path) -> None:
    for k in range(draws(8, 40)):
        histories(random.Random(seed() + k), tmp_path)


def test_rows_of_every_source_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    histories(random.Random(seed()), tmp_path, spark)


def test_files_that_spark_reads(tmp_path: Path, spark: SparkSession) -> None:
    from vertexsdk.graph.load.dataframes import edges_by_spark
    from vertexsdk.graph.load.files import Form

    rows = [("a", "b", 5, "x"), ("b", "c", 1, "y"), ("c", "d", 7, "y")]
    (tmp_path / "e.csv").write_text("src,dst,weight,kind\n" + "".join(
        ",".join(map(str, row)) + "\n" for row in rows))  # fmt: skip
    (tmp_path / "e.txt").write_text("".join(" ".join(map(str, row[:3])) + "\n" for row in rows))
    for name, condition in (("e.csv", pc.field("weight") > 3), ("e.txt", pc.field("value") > 3)):
        edges = edges_by_spark(spark, [str(tmp_path / name)], Form())
        graph = Graph(spark, edges, partitions=2).where(condition)
        assert graph.to_arrow()["source"].to_pylist() == ["a", "c"]
        assert graph.num_vertices == 4
        graph.unpersist()


@pytest.mark.parametrize("ids", [int, str])
def test_lines_of_text_have_their_value(ids: type, tmp_path: Path) -> None:
    rng = random.Random(seed())
    rows = rows_of(rng, ids)
    path = tmp_path / "edges.txt"
    lines = [
        f"{r['source']} {r['target']}" + ("" if r["value"] == 1.0 else f" {r['value']}")
        for r in rows
    ]
    path.write_text("\n".join(["# edges", *lines]) + "\n")
    for partitions in (1, 2, 7):
        graph = Graph.read(str(path), partitions=partitions)
        for condition, holds in (
            (pc.field("value") > 4, lambda x: x > 4),
            (pc.field("value") == 1, lambda x: x == 1),
            (pc.field("value") > 99, lambda x: False),
        ):
            check(graph.where(condition), [row for row in rows if holds(row["value"])])
    with pytest.raises(
        InputError, match=r"edges\.txt: .* reads column 'source'; columns are value"
    ):
        Graph.read(str(path)).where(pc.field("source") == 1)


def test_attributes_that_a_program_reads() -> None:
    table = {"source": [1, 1, 2], "target": [2, 3, 3], "km": [1.0, 2.0, 4.0], "lane": [1, 2, 2]}
    for partitions in (1, 2):
        graph = Graph.from_arrow(pa.table(table), partitions=partitions)
        graph = graph.where(pc.field("lane") == 2)
        for compiled in (False, True):
            with run(Kilometres, graph, compiled=compiled, backend=URL) as result:
                assert result.to_dict() == {1: 0.0, 2: 0.0, 3: 6.0}


class Kilometres(Vertex):
    """Of edges in."""

    edge = {"km": float}  # noqa: RUF012
    total: float = state(0.0)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.total = delta.value

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, target.km)


def test_names_that_a_user_gave() -> None:
    frame = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"], "km": [1.5, 2.0]})
    graph = Graph.from_pandas(frame, source="from", target="to", value="km")
    for condition in (
        pc.field("km") > 1.5, pc.field("value") > 1.5, pc.field("from") == "b",
        pc.field("source") == "b", pc.field("to").isin(["c"]),
    ):  # fmt: skip
        assert graph.where(condition).to_arrow()["source"].to_pylist() == ["b"]
    upper = Graph.from_arrow(pa.table({"SRC": [1, 2], "DST": [2, 3], "Weight": [1.0, 9.0]}))
    for name in ("Weight", "value"):
        assert upper.where(pc.field(name) > 5).num_edges == 1


def test_cells_of_csv(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text(
        "source,target,value,n,code,at\n1,2,,5,007,2024-01-02 10:00:00\n2,3,4,2.5,7,2024-01-01\n"
        f"3,4,9,{2**53 + 1},a,2025-01-01\n"
    )
    graph = Graph.read(str(path))
    for condition, sources in (
        (pc.field("n") > 2.5, [1, 3]),
        (pc.field("code") == "007", [1]),
        (pc.field("code").isin(["7", "a"]), [2, 3]),
        (pc.field("value") == 1, [1]),  # as an edge without a value has
        (pc.field("source") >= 2, [2, 3]),
        (pc.field("at") < datetime.datetime(2024, 1, 2), [2]),
        (pc.match_substring(pc.field("code"), "7"), [1, 2]),
    ):
        assert graph.where(condition).to_arrow()["source"].to_pylist() == sources, condition
    with pytest.raises(InputError, match=r"e\.csv, .*column code: .* compares cells as int64"):
        graph.where(pc.field("code") > 5).materialise()
    path.write_text(f"source,target,n\n1,2,{2**53 + 1}\n2,3,{2**53}\n")
    assert Graph.read(str(path)).where(pc.field("n") == 2**53 + 1).num_edges == 1


def test_vertices_stay_where_they_are_named() -> None:
    ends: Any = ([1, 2, 3], [2, 3, 4], [1.0, 5.0, 5.0])
    condition = pc.field("value") > 1
    assert Graph.from_arrays(*ends).where(condition).num_vertices == 3
    assert Graph.from_arrays(*ends, vertices=[1, 9]).where(condition).num_vertices == 5
    graph = Graph.from_arrays(*ends).with_attributes({"id": [1, 2], "jump": [0.5, 0.5]})
    with run("ppr", graph.where(condition), backend=URL, compiled=False) as result:
        assert [*result.to_dict()] == [1, 2, 3, 4]
    graph = Graph.from_networkx(nx.path_graph(4)).where(pc.field("source") > 0)
    assert (graph.num_vertices, graph.num_edges) == (4, 2)


@pytest.mark.parametrize("partitions", [1, 2])
def test_the_last_row_for_which_it_holds_counts(partitions: int) -> None:
    graph = Graph.from_arrays([1, 2, 1], [2, 1, 2], [5.0, 6.0, 1.0], partitions=partitions)
    assert graph.to_arrow()["value"].to_pylist() == [1.0, 6.0]
    assert graph.where(pc.field("value") > 1).to_arrow()["value"].to_pylist() == [5.0, 6.0]
    both = Graph.from_arrays([1, 2, 1], [2, 1, 2], [5.0, 6.0, 1.0], undirected=True)
    assert both.where(pc.field("value") > 1).to_arrow()["value"].to_pylist() == [6.0]


def test_no_edge_is_left(tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text("a b 1\n")
    nothing = pc.field("value") > 1
    for graph in (
        Graph.read(str(tmp_path / "e.txt")), Graph.from_arrays(["a"], ["b"], [1.0], partitions=2),
    ):  # fmt: skip
        assert (graph.where(nothing).num_vertices, graph.where(nothing).num_edges) == (0, 0)
    empty = Graph.empty(str).where(pc.field("source") == 1)
    with MainLoop("wcc", empty, backend=f"{URL}-empty", compiled=False) as main:
        main.ingest([("+", "a", "b")])
        with main.query() as answer:
            assert answer.to_dict() == {"a": "a", "b": "a"}


@pytest.mark.parametrize("partitions", [1, 7])
@pytest.mark.parametrize("ids", [int, str])
def test_main_loops_take_changes_as_they_come(partitions: int, ids: type) -> None:
    a, b, c, d = (1, 2, 3, 4) if ids is int else "abcd"
    graph = Graph.from_arrays([a, b], [b, c], [5.0, 1.0], partitions=partitions)
    options: dict[str, Any] = {
        "backend": f"{URL}-loop-{ids}-{partitions}", "compiled": False, "params": {"origin": a},
    }  # fmt: skip
    with MainLoop("sssp", graph.where(pc.field("value") > 2), **options) as main:
        with main.query() as answer:
            assert answer.to_dict() == {a: 0.0, b: 5.0}
        main.ingest([("+", b, d, 1.0)])
        with main.query() as answer:
            assert answer.to_dict() == {a: 0.0, b: 5.0, d: 6.0}
            assert answer.graph().where(pc.field("value") > 2).num_edges == 1
    with MainLoop.resume(None, "sssp", **options) as main, main.query() as answer:
        assert answer.to_dict() == {a: 0.0, b: 5.0, d: 6.0}


def test_partitioners_samples_and_estimates(tmp_path: Path) -> None:
    rng = random.Random(seed())
    source, target = ([rng.randrange(50) for _ in range(4000)] for _ in range(2))
    amount = [k % 4 for k in range(4000)]
    table = pa.table({"source": source, "target": target, "amount": amount})
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=500)
    table.to_pandas().to_csv(tmp_path / "e.csv", index=False)
    kept = pc.field("amount") == 1
    for make in (
        lambda **how: Graph.from_arrow(table, **how),
        lambda **how: Graph.read(str(tmp_path / "e.parquet"), **how),
        lambda **how: Graph.read(str(tmp_path / "e.csv"), **how),
    ):
        graph = make(multi=True, partitioner="ldg", partitions=2).where(kept)
        assert graph.num_edges == 1000
        part, share = make(multi=True).where(kept).sample(400)
        assert part.num_edges / share == pytest.approx(1000, rel=0.1)
        assert make(multi=True).where(kept).estimate("degree", compiled=False).edges == 1000
        none = make().where(pc.field("amount") > 9).estimate("degree", compiled=False)
        assert none.edges == 0


def test_what_is_refused(tmp_path: Path) -> None:
    table = pa.table({"source": [1], "target": [2], "kind": ["a"]})
    table.to_pandas().to_csv(tmp_path / "e.csv", index=False)
    pq.write_table(table, tmp_path / "e.parquet")
    for graph in (
        Graph.from_arrow(table), Graph.read(str(tmp_path / "e.csv")),
        Graph.read(str(tmp_path / "e.parquet")),
    ):  # fmt: skip
        for condition, why in (
            (pc.field("amount") > 1, "reads column 'amount'; columns are source, target, kind"),
            ((pc.field("kind") == "a") & (pc.field("amount") > 1), "reads column 'amount'"),
            (pc.field("value") > 1, "reads column 'value'"),
            (pc.field(0) > 1, "name a column by pc.field"),
            (pc.field("kind") + 1, "does not fit the columns"),
        ):
            with pytest.raises(InputError, match=why) as caught:
                graph.where(condition)
            assert "\n" not in str(caught.value)
        for wrong in ("kind == 'a'", True, lambda row: True, None):
            with pytest.raises(InputError, match="takes a condition of pyarrow"):
                graph.where(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="does not fit the columns"):
        Graph.from_arrow(table).where(pc.field("kind") > 1)


def test_only_the_columns_that_are_needed_are_read(tmp_path: Path) -> None:
    table = pa.table({"source": [1, 2], "target": [2, 3], "kind": ["a", "b"], "other": ["x", "y"]})
    pq.write_table(table, tmp_path / "e.parquet")
    seen: list[list[str]] = []
    real = pq.ParquetFile.iter_batches

    def watched(self: Any, *args: Any, **options: Any) -> Any:
        seen.append(options.get("columns") or [])
        return real(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(StopIteration):
        patch.setattr(pq.ParquetFile, "iter_batches", watched)
        graph = Graph.read(str(tmp_path / "e.parquet"), partitions=1)
        assert graph.where(pc.field("kind") == "a").num_edges == 1
    assert {"other"} & {n for names in seen for n in names} == set()
    assert any("kind" in names for names in seen)
