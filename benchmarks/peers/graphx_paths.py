"""GraphX with weighted shortest paths: Scala code of a user's own beside the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.peers import Later, _spark
from benchmarks.peers.graphx import GraphX

_SOURCE = Path(__file__).with_name("weighted_paths.scala")


class GraphXWithPaths(GraphX):
    about = (
        "GraphLoader.edgeListFile with one partition per core, then lib.PageRank, "
        "lib.ConnectedComponents and lib.ShortestPaths; local[cores], no Python workers. Its "
        "PageRank loses the rank of vertices without out-edges and scales the sum at the end, so "
        "it is checked against that definition. lib.ShortestPaths counts hops towards a landmark, "
        "so it stands under breadth-first search, on the reversed graph. Paths along values are "
        "those of its programming guide, by Pregel, compiled by the Scala compiler among Spark's "
        "jars, on a graph that has the values. Both graphs are made and cached before the clock. "
        "lib.LabelPropagation breaks ties as its maps happen to be ordered, and lib.TriangleCount "
        "is no coefficient, so these are left out."
    )

    def conf(self) -> dict[str, str]:
        return {"spark.driver.extraClassPath": str(_spark.scala_jar(_SOURCE, self.settings))}

    weighted: Any = None

    def release(self) -> None:
        super().release()
        if self.weighted is not None:
            self.weighted.unpersist(True)
        self.weighted = None

    def prepare(self, measure: str) -> None:
        super().prepare(measure)
        if measure == "shortest_paths" and self.weighted is None:
            paths = self.jvm.benchmarks.WeightedPaths
            context = self.spark.sparkContext._jsc
            self.weighted = paths.load(context, self.graph.text, self.settings.cores)

    def shortest_paths(self) -> Later:
        lengths = self.jvm.benchmarks.WeightedPaths.run(self.weighted, self.graph.origin)
        lengths.vertices().count()

        def later() -> dict[str, Any]:
            ids, length = self._pairs(lengths, r"^\((-?\d+),([-+.\dE]+|Infinity)\)$")
            return {"ids": ids, "value": length}

        return later
