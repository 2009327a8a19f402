"""Partitions that have vertices and no edges, in programs that add edges."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from vertexsdk import Graph, Sum, Vertex, run, state


class Joins(Vertex):
    """Every vertex adds an edge to 1 and sends along it what the edge's value is."""

    heard: float = state(0.0)
    messages = Sum(float)
    max_iterations = 3

    def gather(self, iteration, source, delta):
        self.heard = delta.value
        if iteration == 1:
            self.addTarget(1, 2.5)

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, target.value)


@pytest.mark.parametrize("values", [[4.0], None])
@pytest.mark.parametrize("compiled", ["require", False])
def test_values_of_added_edges_are_read(values: Any, compiled: Any, spark: SparkSession) -> None:
    graph = Graph.from_arrays([1], [2], values, spark=spark, vertices=range(9), partitions=7)
    result = run(Joins, graph, compiled=compiled, backend="memory://edgeless")
    assert result[1] == {"heard": 9 * 2.5}
