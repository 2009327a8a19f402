"""Results read by Spark's own `spark.read`, and the columns that a result says it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from pyspark.sql import SparkSession

from vertexsdk import Graph, InputError, run
from vertexsdk.loops.data_source import ResultSource, opened


def test_spark_reads_a_result(spark: SparkSession, tmp_path: Path) -> None:
    backend = f"lmdb://{tmp_path}/state"
    graph = Graph.from_arrays(["a", "b"], ["b", "c"], partitions=2)
    with run("sssp", graph, origin="a", backend=backend, loop="lengths") as result:
        wanted = result.to_dict()
    spark.dataSource.register(ResultSource)
    frame = spark.read.format("vertexsdk").option("loop", "lengths").load(backend)
    assert frame.dtypes == [("id", "string"), ("length", "double")]
    assert {row.id: row.length for row in frame.collect()} == wanted


@pytest.mark.parametrize("name", ["wcc", "triangles", "mis", "closeness"])
@pytest.mark.parametrize("strings", [False, True])
def test_the_schema_is_known_before_the_rows(name: str, strings: bool) -> None:
    graph = nx.path_graph(3)
    if strings:
        graph = nx.relabel_nodes(graph, lambda v: f"v{v}")
    with run(name, graph, backend=f"memory://source-{strings}") as result:
        assert result.to_arrow().schema == result.arrow_schema()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "needs path and loop"),
        ({"path": "memory://x"}, "needs loop"),
        ({"path": "memory://x", "loop": "y", "at": "now"}, "at is 'now'; it must be the number"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        opened(options)
