"""One vertex with two million edges in and as many out: skew changes no answer and no count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import vertexsdk

SPOKES = 2_000_000
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
    """The result field by vertex, as an array, and the statistics."""
    result = vertexsdk.run(
        program, graph, params=params, backend="memory://hub", compiled="require"
    )
    columns = result.columns()
    assert np.array_equal(columns["id"], np.arange(SPOKES + 1))
    return columns[result.fields[0]], result.statistics
