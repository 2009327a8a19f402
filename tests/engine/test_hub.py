"""One vertex with half a million edges in and as many out: skew changes no answer and no count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import vertexsdk
from vertexsdk.algorithms import ConnectedComponents, PageRank, ShortestPaths

pytestmark = pytest.mark.slow

SPOKES = 500_000
HUB = SPOKES // 2  # so that about half of the others have a smaller id
RIM = np.delete(np.arange(SPOKES + 1), HUB)
OUT, IN = RIM % 7 + 1.0, RIM % 5 + 1.0  # lengths from the hub, and to it
ORIGIN = 8


@pytest.fixture(scope="module", params=[1, 2])
def star(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[vertexsdk.Graph]:
    hub = np.full(SPOKES, HUB)
    source, target = np.concatenate([hub, RIM]), np.concatenate([RIM, hub])
    graph = vertexsdk.Graph.from_arrays(
        source, target, np.concatenate([OUT, IN]), spark=spark, partitions=request.param
    )
    yield graph
    graph.unpersist()


def run(program: Any, graph: vertexsdk.Graph, **params: Any) -> tuple[Any, dict[str, Any]]:
    """The result by vertex, and the statistics."""
    result = vertexsdk.run(
        program, graph, params=params, backend="memory://hub", compiled="require"
    )
    columns = result.columns()
    assert np.array_equal(columns["id"], np.arange(SPOKES + 1))
    return columns[result.fields[0]], result.statistics


def test_wcc(star: vertexsdk.Graph) -> None:
    component, counts = run(ConnectedComponents, star)
    assert not component.any()
    # The hub hears of 0 in iteration 1, and the others of the hub, or in iteration 2 of 0; who
    # has not reached the least value yet, sends on.
    assert counts["updates"] == (SPOKES + 1) + SPOKES
    assert counts["messages"] == 2 * SPOKES + (SPOKES + SPOKES // 2) + (SPOKES - 1)
    assert counts["iterations"] in (2, 3)  # one more where the last messages leave a partition


def test_pagerank(star: vertexsdk.Graph) -> None:
    rank, counts = run(PageRank, star, iterations=3)
    n = SPOKES + 1
    hub = rim = 1 / n
    for _ in range(3):
        hub, rim = 0.15 / n + 0.85 * SPOKES * rim, 0.15 / n + 0.85 * hub / SPOKES
    assert rank[HUB] == pytest.approx(hub, rel=1e-9)
    assert np.allclose(rank[RIM], rim, rtol=1e-9, atol=0.0)
    assert counts["iterations"] == 3
    assert counts["updates"] == 3 * n
    assert counts["messages"] == 4 * 2 * SPOKES


def test_sssp(star: vertexsdk.Graph) -> None:
    length, counts = run(ShortestPaths, star, origin=ORIGIN)
    expected = np.zeros(SPOKES + 1)
    expected[HUB] = IN[ORIGIN]
    expected[RIM] = IN[ORIGIN] + OUT
    expected[ORIGIN] = 0.0
    assert np.array_equal(length, expected)
    assert counts["updates"] == (SPOKES + 1) + SPOKES
    assert counts["messages"] == 2 * SPOKES + SPOKES + (SPOKES - 1)
    assert counts["iterations"] in (2, 3)
