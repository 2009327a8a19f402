"""Vertices placed by structure, and moved on the way, where executors share no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vertexsdk.algorithms import PageRank
from vertexsdk.balance import Balance
from vertexsdk.graph import Graph
from vertexsdk.running import run
from vertexsdk.testing.clusters import Driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.cluster


def ranks(spark: SparkSession, partitioner: Any, balance: Any) -> tuple[Any, Any, float]:
    """Run PageRank on a grid of 30 by 20; the ranks, the moves, and the share of edges cut."""
    ids = np.arange(600).reshape(20, 30)
    source = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    target = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    graph = Graph.from_arrays(
        source, target, spark=spark, undirected=True, partitions=2, partitioner=partitioner
    )
    result = run(
        PageRank, graph, params={"iterations": 6}, backend="memory://placed", balance=balance
    )
    found = {v: row["rank"] for v, row in result.rows()}
    graph.unpersist()
    return found, result.statistics["moves"], result.statistics["cut"]


def test_placed_and_moved(standalone_cluster: Driver) -> None:
    forced = Balance(hops=2, overhead=0.0, per_unit=0.0)
    crowded = np.stack([np.arange(600), np.arange(600) >= 590], 1)
    wanted, _, scattered = standalone_cluster.run(ranks, "hash", False)
    placed, _, cut = standalone_cluster.run(ranks, "fennel", False)
    moved, moves, _ = standalone_cluster.run(ranks, crowded, forced)
    assert cut * 5 < scattered
    assert [m["vertices"] > 200 for m in moves] == [True]
    for got in (placed, moved):
        assert got == pytest.approx(wanted, rel=1e-12)
