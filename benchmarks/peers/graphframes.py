"""GraphFrames: graphs as DataFrames; its jar comes by Maven coordinates, or from a given path.

``VERTEXSDK_GRAPHFRAMES_JARS`` may name jars that are already there (comma-separated), and
``VERTEXSDK_GRAPHFRAMES_PACKAGE`` other coordinates than `PACKAGE` in the version of the Python
package.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import Later, Peer, Unavailable, require

PACKAGE = "io.graphframes:graphframes-spark4_2.13"


class GraphFrames(Peer):
    title = "GraphFrames"
    about = (
        "A GraphFrame of cached DataFrames read by Spark, one shuffle partition per core. pageRank "
        "is GraphX's, so it is checked against that definition; shortestPaths counts hops towards "
        "a landmark, so it stands under breadth-first search, on the reversed edges, which are "
        "made and cached before the clock. Paths along values are by its Pregel, stopped when no "
        "message is left. labelPropagation is GraphX's too, so it is left out as there."
    )

    def start(self) -> dict[str, str]:
        frames = require("graphframes", "graphframes-py")
        from benchmarks.peers import _spark

        jars = os.environ.get("VERTEXSDK_GRAPHFRAMES_JARS")
        package = os.environ.get("VERTEXSDK_GRAPHFRAMES_PACKAGE")
        package = package or f"{PACKAGE}:{frames.__version__}"
        wanted = {"spark.jars": jars} if jars else {"spark.jars.packages": package}
        try:
            self.spark = _spark.jvm_session(self.settings, **wanted)
            jvm: Any = self.spark.sparkContext._jvm
            jvm.java.lang.Class.forName("org.graphframes.GraphFrame")
        except Exception as error:  # py4j and pyspark raise many kinds when the JVM does not start
            raise Unavailable(_why(jars or package)) from error
        self.spark.sparkContext.setCheckpointDir(self.settings.scratch)
        self.GraphFrame = frames.GraphFrame
        self.loaded: Any = None
        self.turned: Any = None
        return _spark.versions(self.spark) | {"graphframes": jars or package}

    def stop(self) -> None:
        self.spark.stop()

    def release(self) -> None:
        for graph in (self.loaded, self.turned):
            if graph is not None:
                graph.unpersist()
        self.loaded = self.turned = None

    def load_text(self) -> Later:
        schema = "src long, dst long, value long"
        return self._build(self.spark.read.csv(self.graph.text, schema=schema, sep=" "))

    def load_parquet(self) -> Later:
        edges = self.spark.read.parquet(self.graph.parquet)
        return self._build(edges.withColumnsRenamed({"source": "src", "target": "dst"}))

    def _build(self, edges: Any) -> Later:
        edges = edges.cache()
        ends = edges.selectExpr("src as id").union(edges.selectExpr("dst as id"))
        self.loaded = self.GraphFrame(ends.distinct().cache(), edges)
        vertices, count = self.loaded.vertices.count(), edges.count()
        return lambda: {"vertices": vertices, "edges": count}

    def pagerank(self) -> Later:
        return self.ranks(10, "_undistributed")

    def ranks(self, iterations: int, definition: str) -> Later:
        """So many iterations of PageRank."""
        ranks = self.loaded.pageRank(resetProbability=0.15, maxIter=iterations).vertices
        found = self._answer(ranks, "pagerank")

        def later() -> dict[str, Any]:
            answer = found()
            return answer | {"value": answer["value"] / answer["value"].sum(),
                             "definition": definition}  # fmt: skip

        return later

    def components(self) -> Later:
        return self._answer(self.loaded.connectedComponents(), "component")

    def prepare(self, measure: str) -> None:
        if measure == "bfs" and self.turned is None:
            edges = self.loaded.edges.selectExpr("dst as src", "src as dst").cache()
            edges.count()
            self.turned = self.GraphFrame(self.loaded.vertices, edges)

    def shortest_paths(self) -> Later:
        from graphframes.lib import Pregel
        from pyspark.sql import functions as F

        far = F.lit(float("inf"))
        through = Pregel.src("length") + Pregel.edge("value")
        first = F.when(F.col("id") == self.graph.origin, F.lit(0.0)).otherwise(far)
        nearer = F.least(F.col("length"), F.coalesce(Pregel.msg(), far))
        lengths = (
            self.loaded.pregel.setMaxIter(self.graph.vertices)
            .setEarlyStopping(True)
            .withVertexColumn("length", first, nearer)
            .sendMsgToDst(F.when(through < Pregel.dst("length"), through))
            .aggMsgs(F.min(Pregel.msg()))
            .run()
        )
        return self._answer(lengths, "length")

    def bfs(self) -> Later:
        origin = self.graph.origin
        hops = self.turned.shortestPaths(landmarks=[origin])
        found = self._answer(hops, f"double(distances[{origin}])")

        def later() -> dict[str, Any]:
            answer = found()
            value = answer["value"]
            return answer | {"value": np.where(np.isnan(value), np.inf, value)}

        return later

    def _answer(self, frame: Any, value: str) -> Later:
        """Compute a frame now, and hand over an expression of it later."""
        frame = frame.cache()
        frame.count()

        def later() -> dict[str, Any]:
            table = frame.selectExpr("id", f"{value} as value").toArrow()
            frame.unpersist()
            return {"ids": table["id"].to_numpy(), "value": table["value"].to_numpy()}

        return later


def _why(what: str) -> str:
    """Why a jar is not there; Ivy tells it on this process's standard error, which is a file."""
    said = ""
    with contextlib.suppress(OSError, ValueError):
        log = Path(os.readlink("/proc/self/fd/2"))
        said = log.read_text(errors="replace") if log.is_file() else ""
    if "module not found" not in said:
        return f"the jar {what} could not be loaded"
    tried = dict.fromkeys(re.findall(r"==== ([\w-]+): tried", said))
    return f"{what} was found in none of the repositories that Ivy tried: {', '.join(tried)}"
