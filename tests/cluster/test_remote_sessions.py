"""A remote session, of a Spark Connect server: graphs are in the client's process, without a JVM.

A process has one kind of session, so the client is a process of its own. What it returns is
compared with a graph from arrays in this one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.clusters import Driver
from vertexsdk import Graph, MainLoop, Vertex, run, session, state
from vertexsdk.algorithms import ConnectedComponents, ShortestPaths
from vertexsdk.errors import InputError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

EDGES = [(1, 2, 0.5), (2, 3, 1.0), (1, 3, 4.0), (3, 4, 0.25), (7, 8, 1.0)]
CHANGES = [("+", 4, 9, 2.0), ("-", 2, 3, None), ("~", 1, 3, 3.0), ("+", 1, 2, None)]
ORIGIN = {"origin": 1}


class Heights(Vertex):
    """Twice the height which each vertex is given."""

    height: float = state(1.0)
    twice: float = state(0.0)

    def init(self) -> None:
        self.twice = 2 * self.height

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        pass

    def scatter(self, iteration: int) -> None:
        pass


def answer(
    program: type[Vertex], graph: Graph, field: str | None = None, **options: Any
) -> dict[Any, Any]:
    with closing(run(program, graph, backend="memory://remote", **options)) as result:
        return result.to_dict(field)


def frame(spark: SparkSession, edges: list[Any] = EDGES) -> Any:
    return spark.createDataFrame(edges, ["source", "target", "value"])


def has_no_jvm(spark: SparkSession) -> bool:
    from pyspark import SparkContext

    assert session() is spark
    return (
        type(spark).__module__.startswith("pyspark.sql.connect") and SparkContext._gateway is None
    )


def answers(spark: SparkSession) -> list[dict[Any, Any]]:
    numbers = Graph.from_dataframe(frame(spark), undirected=True)
    two = Graph.from_dataframe(frame(spark), partitions=2)
    named = frame(spark, [(f"v{a}", f"v{b}", x) for a, b, x in EDGES])
    names = Graph.from_dataframe(named, undirected=True)
    assert (numbers.spark, numbers.partitions) == (spark, 1)
    return [
        answer(ConnectedComponents, numbers),
        answer(ShortestPaths, two, params=ORIGIN),
        answer(ConnectedComponents, names),
        answer(ShortestPaths, names, params={"origin": "v1"}),
    ]


def test_answers_are_those_of_arrays(remote: Driver) -> None:
    source, target, value = (list(x) for x in zip(*EDGES, strict=True))
    numbers = Graph.from_arrays(source, target, value, undirected=True)
    directed = Graph.from_arrays(source, target, value)
    names = Graph.from_arrays(
        [f"v{a}" for a in source], [f"v{b}" for b in target], value, undirected=True
    )
    assert remote.run(answers) == [
        answer(ConnectedComponents, numbers),
        answer(ShortestPaths, directed, params=ORIGIN),
        answer(ConnectedComponents, names),
        answer(ShortestPaths, names, params={"origin": "v1"}),
    ]
    assert remote.run(has_no_jvm)


def placed_and_attributed(spark: SparkSession) -> tuple[Any, ...]:
    heights = spark.createDataFrame([(1, 5.0), (20, 7.0)], ["id", "height"])
    places = spark.createDataFrame([(v, v % 2) for v in (1, 2, 3, 4, 7, 8)], ["id", "partition"])
    graph = Graph.from_dataframe(frame(spark), heights, partitions=2, partitioner=places)
    info = graph.materialise()
    arrays = Graph.from_arrays([1], [2], spark=spark)
    return (
        answer(Heights, graph, "twice"),
        [n for n, *_ in info.sizes],
        answer(ConnectedComponents, arrays),
    )


def test_vertex_attributes_and_partitions_are_dataframes(remote: Driver) -> None:
    twice, sizes, arrays = remote.run(placed_and_attributed)
    assert twice == {1: 10.0, 2: 2.0, 3: 2.0, 4: 2.0, 7: 2.0, 8: 2.0, 20: 14.0}
    assert sum(sizes) == 7
    assert 3 in sizes
    assert arrays == {1: 1, 2: 1}


def read_from_files(spark: SparkSession, directory: str) -> tuple[int, int]:
    local, far = Path(directory, "edges.txt"), Path(directory, "far")
    local.write_text("1 2\n2 3\n")
    frame(spark).write.parquet(f"file://{far}")
    edges = spark.read.parquet(f"file://{far}")
    return Graph.read(spark, str(local)).num_vertices, Graph.from_dataframe(edges).num_vertices


def test_files_are_read_here_and_tables_by_the_server(remote: Driver, tmp_path: Path) -> None:
    assert remote.run(read_from_files, str(tmp_path)) == (3, 6)


def main_loop(spark: SparkSession, store: str) -> list[Any]:
    kinds = "kind string, source long, target long, value double"
    changes = spark.createDataFrame(CHANGES, kinds)
    graph = Graph.from_dataframe(frame(spark))
    with closing(MainLoop(ShortestPaths, graph, params=ORIGIN, backend=store)) as main:
        counts = main.ingest(changes)
        with closing(main.query()) as result:
            rows = {row.id: row.length for row in result.dataframe().collect()}
        again = result.to_dict()
    with (
        closing(MainLoop.resume(spark, ShortestPaths, backend=store)) as main,
        closing(main.fork()) as branch,
    ):
        branch.apply([("+", 9, 10, 1.0)])
        branch.start()
        with closing(branch.result()) as result:
            return [counts, rows, again, result.to_dict()]


def test_a_main_loop_takes_changes_from_a_dataframe(remote: Driver, tmp_path: Path) -> None:
    counts, rows, again, branch = remote.run(main_loop, f"lmdb://{tmp_path}")
    source, target, value = (list(x) for x in zip(*EDGES, strict=True))
    graph = Graph.from_arrays(source, target, value)
    with closing(MainLoop(ShortestPaths, graph, params=ORIGIN, backend="memory://here")) as main:
        assert main.ingest(CHANGES) == counts
        with closing(main.query()) as result:
            assert rows == again == result.to_dict()
    assert branch == {**rows, 10: rows[9] + 1}


def there_and_back(spark: SparkSession) -> tuple[Any, Any]:
    result = run(
        ShortestPaths, Graph.from_dataframe(frame(spark)), params=ORIGIN, backend="memory://back"
    )
    with closing(result):
        reached = result.dataframe().where("length < 10").withColumnRenamed("id", "source")
        edges = reached.selectExpr("source", "source + 100 as target", "length as value")
        return result.to_dict(), answer(ShortestPaths, Graph.from_dataframe(edges), params=ORIGIN)


def test_a_result_is_a_dataframe_of_the_server(remote: Driver) -> None:
    lengths, onward = remote.run(there_and_back)
    assert lengths[4] == 1.75
    assert (onward[1], onward[101], onward[104]) == (0.0, 0.0, float("inf"))


def as_documented(spark: SparkSession, code: str) -> dict[Any, Any]:
    os.environ["VERTEXSDK_BACKEND"] = "memory://documented"
    frame(spark).createOrReplaceTempView("follows")
    exec(code, {})  # `session` returns the running one, whatever the URL
    return {row.id: row.component for row in spark.table("components").collect()}


def test_the_page_shows_what_runs(remote: Driver) -> None:
    page = Path(__file__).parents[2] / "docs" / "processors.md"
    (code,) = re.findall(r"^```py\n(.*?)^```", page.read_text(), re.M | re.S)
    assert len(remote.run(as_documented, code)) == 6


def refusals(spark: SparkSession) -> list[str]:
    graph = Graph.from_dataframe(frame(spark))
    main = MainLoop(ShortestPaths, graph, params=ORIGIN, backend="memory://refused")
    attempts = [
        lambda: answer(ConnectedComponents, graph, exchange="shuffle"),
        lambda: MainLoop(ConnectedComponents, graph, backend="memory://x", exchange="shuffle"),
        lambda: main.start(spark.readStream.format("rate").load()),
        lambda: Graph.from_dataframe(spark.table("missing")),
        lambda: Graph.from_dataframe(spark.sql("select 1 source, true target")),
        lambda: Graph.read(spark, "/missing/edges.txt"),
    ]
    lines = []
    for attempt in attempts:
        with pytest.raises(InputError) as refused:
            attempt()
        lines.append(str(refused.value))
    main.close()
    return lines


def test_what_cannot_work_is_refused_in_a_line(remote: Driver) -> None:
    shuffle, driver, stream, table, column, file = lines = remote.run(refusals)
    assert not any("\n" in line for line in lines)
    assert shuffle.startswith("exchange='shuffle' needs Spark jobs")
    assert driver.startswith("exchange='shuffle' needs Spark jobs")
    assert stream.endswith("pass change files to start(), or batches to ingest()")
    assert "TABLE_OR_VIEW_NOT_FOUND" in table
    assert "column target: boolean" in column
    assert "/missing/edges.txt: no such file" in file


def test_no_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    from vertexsdk.transport.session import remote_session

    with pytest.raises(InputError, match="no Spark Connect server answers at 127"):
        remote_session("sc://127.0.0.1:1/;token=secret", "tests", {})


def test_without_one_spark_connect_is_not_imported() -> None:
    code = (
        "import sys, pyspark.sql, vertexsdk; from vertexsdk.algorithms import ConnectedComponents; "
        "graph = vertexsdk.Graph.from_arrays([1], [2]); "
        "vertexsdk.run(ConnectedComponents, graph, backend='memory://x').close(); "
        "assert 'grpc' not in sys.modules and 'pyspark.sql.connect' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)
