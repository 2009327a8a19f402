"""Vertices placed by structure, and by a table, where executors share no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.clusters import Driver
from vertexsdk.algorithms import PageRank
from vertexsdk.graph.graph import Graph
from vertexsdk.loops.run import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.cluster


def ranks(spark: SparkSession, partitioner: Any) -> tuple[dict[Any, float], float]:
    """Run PageRank on a grid of 30 by 20; the ranks and the share of edges cut."""
    ids = np.arange(600).reshape(20, 30)
    source = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    target = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    graph = Graph.from_arrays(
        source, target, spark=spark, undirected=True, partitions=2, partitioner=partitioner
    )
    result = run(PageRank, graph, params={"iterations": 6}, backend="memory://placed")
    found = {v: row["rank"] for v, row in result.rows()}
    graph.unpersist()
    return found, result.statistics["cut"]


def test_placed_by_structure_and_by_a_table(standalone_cluster: Driver) -> None:
    table = np.stack([np.arange(600), np.arange(600) >= 590], 1)
    expected, scattered = standalone_cluster.run(ranks, "hash")
    by_structure, cut = standalone_cluster.run(ranks, "fennel")
    by_table, _ = standalone_cluster.run(ranks, table)
    assert cut * 5 < scattered
    for ranks_of in (by_structure, by_table):
        assert ranks_of == pytest.approx(expected, rel=1e-12)
