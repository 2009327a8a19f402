"""GraphX: the Scala library inside PySpark's own jars, called through the gateway.

Weighted shortest paths are Scala code of a user's own beside the library.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import Later, Peer, Unavailable, _spark

_PATHS = Path(__file__).with_name("weighted_paths.scala")


class GraphX(Peer):
    title = "GraphX"
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

    def start(self) -> dict[str, str]:
        self.spark = _spark.jvm_session(self.settings, **self.conf())
        jvm: Any = self.spark.sparkContext._jvm
        try:
            self.loader = jvm.org.apache.spark.graphx.GraphLoader.edgeListFile
        except (AttributeError, TypeError) as error:
            raise Unavailable("this Spark has no GraphX jar") from error
        self.lib = jvm.org.apache.spark.graphx.lib
        # ClassTag's companion object: getattr, because `MODULE$` is no Python name.
        self.tags = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$")
        self.tag = self.edge_tag = self.tags.Int()
        self.level = jvm.org.apache.spark.storage.StorageLevel.MEMORY_ONLY()
        self.jvm = jvm
        self.loaded = self.reversed = self.weighted = None
        return _spark.versions(self.spark)

    def conf(self) -> dict[str, str]:
        """Spark settings of its own."""
        return {"spark.driver.extraClassPath": str(_spark.scala_jar(_PATHS, self.settings))}

    def stop(self) -> None:
        self.spark.stop()

    def release(self) -> None:
        for graph in {id(g): g for g in (self.loaded, self.reversed, self.weighted) if g}.values():
            graph.unpersist(True)
        self.loaded = self.reversed = self.weighted = None
        self.jvm.System.gc()

    def load_text(self) -> Later:
        context, cores = self.spark.sparkContext._jsc.sc(), self.settings.cores
        loaded = self.loader(context, self.graph.text, False, cores, self.level, self.level)
        return self._loaded(loaded)

    def _loaded(self, graph: Any) -> Later:
        self.loaded = graph
        vertices, edges = graph.vertices().count(), graph.edges().count()
        return lambda: {"vertices": vertices, "edges": edges}

    def with_values(self) -> Any:
        """The graph with values on its edges."""
        context = self.spark.sparkContext._jsc
        return self.jvm.benchmarks.WeightedPaths.load(context, self.graph.text, self.settings.cores)

    def prepare(self, measure: str) -> None:
        if measure == "bfs" and self.reversed is None:
            self.reversed = self.loaded.reverse().cache()
            self.reversed.edges().count()
            self.reversed.vertices().count()
        if measure == "shortest_paths" and self.weighted is None:
            self.weighted = self.with_values()

    def pagerank(self) -> Later:
        return self.ranks(10, "_undistributed")

    def ranks(self, iterations: int, definition: str) -> Later:
        """So many iterations of the static PageRank."""
        ranks = self.lib.PageRank.run(self.loaded, iterations, 0.15, self.tag, self.edge_tag)
        found = self._answer(ranks)

        def later() -> dict[str, Any]:
            answer = found()
            return answer | {"value": answer["value"] / answer["value"].sum(),
                             "definition": definition}  # fmt: skip

        return later

    def components(self) -> Later:
        return self._answer(self.lib.ConnectedComponents.run(self.loaded, self.tag, self.edge_tag))

    def shortest_paths(self) -> Later:
        paths = self.jvm.benchmarks.WeightedPaths
        return self._answer(paths.run(self.weighted, self.graph.origin))

    def bfs(self) -> Later:
        landmarks = self._landmarks(self.graph.origin)
        hops = self.lib.ShortestPaths.run(self.reversed, landmarks, self.edge_tag)
        found = self._answer(hops, r"^\((-?\d+),\w*Map\(-?\d+ -> (\d+)\)\)$")

        def later() -> dict[str, Any]:
            reached, ids = found(), self.graph.answer("ids")
            value = np.full(ids.size, np.inf)
            value[np.searchsorted(ids, reached["ids"])] = reached["value"]
            return {"ids": ids, "value": value}

        return later

    def _landmarks(self, number: int) -> Any:
        # The gateway turns a java.lang.Long into an int and back into an Integer, which no vertex
        # id equals; so the list is made inside the JVM.
        boxed = self.jvm.java.util.stream.LongStream.rangeClosed(number, number).boxed()
        listed = boxed.collect(self.jvm.java.util.stream.Collectors.toList())
        return self.jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq()

    def _answer(self, graph: Any, pattern: str = _spark.NUMBERS) -> Later:
        """Compute a graph's vertices now, and hand them over later."""
        graph.vertices().count()

        def later() -> dict[str, Any]:
            ids, value = _spark.pairs(graph.vertices(), self.settings.scratch, pattern)
            graph.unpersist(True)
            return {"ids": ids, "value": value}

        return later
