"""GraphX: the Scala library inside PySpark's own jars, called through the gateway."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Later, Peer, Unavailable, require


class GraphX(Peer):
    title = "GraphX"
    about = (
        "GraphLoader.edgeListFile with one partition per core, then lib.PageRank, "
        "lib.ConnectedComponents and lib.ShortestPaths; local[cores], no Python workers. Its "
        "PageRank loses the rank of vertices without out-edges and scales the sum at the end, so "
        "it is checked against that definition. lib.ShortestPaths counts hops towards a landmark, "
        "so it stands under breadth-first search, on the reversed graph, which is made and "
        "cached before the clock. Weighted paths need "
        "Scala code of one's own, which the gateway cannot pass."
    )

    def start(self) -> dict[str, str]:
        require("pyspark", "pyspark")
        from benchmarks.peers import _spark

        self._spark = _spark
        self.spark = _spark.jvm_session(self.settings, **self.conf())
        jvm: Any = self.spark.sparkContext._jvm
        try:
            self.loader = jvm.org.apache.spark.graphx.GraphLoader.edgeListFile
        except (AttributeError, TypeError) as error:
            raise Unavailable("this Spark has no GraphX jar") from error
        self.lib = jvm.org.apache.spark.graphx.lib
        # ClassTag's companion object: getattr, because `MODULE$` is no Python name.
        tags = getattr(jvm.scala.reflect, "ClassTag$")
        self.tag = getattr(tags, "MODULE$").Int()
        self.edge_tag = self.tag
        self.level = jvm.org.apache.spark.storage.StorageLevel.MEMORY_ONLY()
        self.converters = jvm.scala.jdk.javaapi.CollectionConverters
        self.jvm = jvm
        self.loaded: Any = None
        self.reversed: Any = None
        return self._spark.versions(self.spark)

    def conf(self) -> dict[str, str]:
        """Spark settings of its own."""
        return {}

    def stop(self) -> None:
        self.spark.stop()

    def release(self) -> None:
        for graph in (self.loaded, self.reversed):
            if graph is not None:
                graph.unpersist(True)
        self.loaded = self.reversed = None
        self.jvm.System.gc()

    def load_text(self) -> Later:
        context = self.spark.sparkContext._jsc.sc()
        self.loaded = self.loader(
            context, self.graph.text, False, self.settings.cores, self.level, self.level
        )
        vertices, edges = self.loaded.vertices().count(), self.loaded.edges().count()
        return lambda: {"vertices": vertices, "edges": edges}

    def prepare(self, measure: str) -> None:
        if measure == "bfs" and self.reversed is None:
            self.reversed = self.loaded.reverse().cache()
            self.reversed.edges().count()
            self.reversed.vertices().count()

    def pagerank(self) -> Later:
        ranks = self.lib.PageRank.run(self.loaded, 10, 0.15, self.tag, self.edge_tag)
        ranks.vertices().count()

        def later() -> dict[str, Any]:
            ids, rank = self._pairs(ranks, r"^\((-?\d+),([-+.\dE]+)\)$")
            rank /= rank.sum()
            return {"ids": ids, "value": rank, "definition": "_undistributed"}

        return later

    def components(self) -> Later:
        labels = self.lib.ConnectedComponents.run(self.loaded, self.tag, self.edge_tag)
        labels.vertices().count()

        def later() -> dict[str, Any]:
            ids, label = self._pairs(labels, r"^\((-?\d+),(-?\d+)\)$")
            return {"ids": ids, "value": label}

        return later

    def bfs(self) -> Later:
        landmarks = self._landmarks(self.graph.origin)
        hops = self.lib.ShortestPaths.run(self.reversed, landmarks, self.edge_tag)
        hops.vertices().count()

        def later() -> dict[str, Any]:
            reached, hop = self._pairs(hops, r"^\((-?\d+),\w*Map\(-?\d+ -> (\d+)\)\)$")
            ids = self.graph.answer("ids")
            value = np.full(ids.size, np.inf)
            value[np.searchsorted(ids, reached)] = hop
            return {"ids": ids, "value": value}

        return later

    def _landmarks(self, number: int) -> Any:
        # The gateway turns a java.lang.Long into an int and back into an Integer, which no vertex
        # id equals; so the list is made inside the JVM.
        boxed = self.jvm.java.util.stream.LongStream.rangeClosed(number, number).boxed()
        listed = boxed.collect(self.jvm.java.util.stream.Collectors.toList())
        return self.converters.asScala(listed).toSeq()

    def _pairs(self, graph: Any, pattern: str) -> tuple[Any, Any]:
        found = self._spark.pairs(graph.vertices(), self.settings.scratch, pattern)
        graph.unpersist(True)
        return found
