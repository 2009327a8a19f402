"""vertexsdk: its own algorithms as anyone would run them, with one partition and with two."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks import rmat
from benchmarks.peers import Later, Peer

_INTERPRETED_SCALE = 13
_CHAINS = (20, 120)
# The forms of the graph that the programs read; each is loaded once.
_VALUES = ("out", "float64", "combined")
_NEEDS = {
    "pagerank": ("out", None, "combined"),
    "components": ("undirected", None, "combined"),
    "shortest_paths": _VALUES,
    "bfs": ("out", None, "combined"),
}
_UNREACHED = np.iinfo(np.int64).max


class _Loops(Peer):
    """What is measured of ours with any number of partitions."""

    partitions: int

    def start(self) -> dict[str, str]:
        self.vertexsdk: Any = importlib.import_module("vertexsdk")
        self.Graph: Any = importlib.import_module("vertexsdk.graph").Graph
        built_in = importlib.import_module
        self.PageRank: Any = built_in("vertexsdk.algorithms.pagerank").PageRank
        self.Components: Any = built_in("vertexsdk.algorithms.wcc").ConnectedComponents
        self.Paths: Any = built_in("vertexsdk.algorithms.sssp").ShortestPaths
        self.Depths: Any = built_in("vertexsdk.algorithms.bfs").BreadthFirstSearch
        session = importlib.import_module("vertexsdk.session").session
        self.spark = session(f"local[{self.settings.cores}]", "vertexsdk-benchmark")
        self.loaded: Any = None
        return {"spark": self.spark.version}

    def stop(self) -> None:
        self.release()
        self.spark.stop()

    def release(self) -> None:
        if self.loaded is not None:
            self.loaded.unpersist()
        self.loaded = None

    def load_text(self) -> Later:
        return self._load(self.graph.text)

    def load_parquet(self) -> Later:
        return self._load(self.graph.parquet)

    def _load(self, path: str) -> Later:
        self.loaded = self._read(path)
        info = self.loaded.materialise(_VALUES)
        return lambda: {"vertices": info.num_vertices, "edges": info.num_edges}

    def _read(self, path: str) -> Any:
        return self.Graph.read(self.spark, edges=path, multi=True, partitions=self.partitions)

    def prepare(self, measure: str) -> None:
        if measure in _NEEDS:
            self.loaded.materialise(_NEEDS[measure])

    def pagerank(self) -> Later:
        return self._run(self.PageRank, "rank", iterations=10)

    def components(self) -> Later:
        return self._run(self.Components, "component")

    def shortest_paths(self) -> Later:
        return self._run(self.Paths, "length", origin=self.graph.origin)

    def bfs(self) -> Later:
        return self._run(self.Depths, "depth", origin=self.graph.origin)

    def _run(self, program: Any, field: str, **params: Any) -> Later:
        result = self._result(program, self.loaded, params)

        def later() -> dict[str, Any]:
            table = result.dataframe().select("id", field).toArrow()
            ids, value = table["id"].to_numpy(), table[field].to_numpy()
            if field == "depth":
                value = np.where(value == _UNREACHED, np.inf, value)
            return {"ids": ids, "value": value}

        return later

    def _result(self, program: Any, graph: Any, params: dict[str, Any], **options: Any) -> Any:
        return self.vertexsdk.run(
            program, graph, params=params, backend="memory://benchmark", **options
        )


class Ours(_Loops):
    title = "ours, 1 partition"
    about = (
        "One partition, threads inside the kernels; ready means the out-edges with values; "
        "PageRank needs them without, components the undirected neighbours: loaded before the "
        "clock. "
        "Interpreted: the same PageRank class with compiled=False on R-MAT 13, one core. Worker "
        "memory: anonymous memory of Spark's Python workers and resident graphs in shared memory, "
        "sampled every 20 ms while each of shortest paths and PageRank loads from text and runs, "
        "over the edges."
    )
    partitions = 1

    def interpreted(self) -> Later:
        source, target = rmat.pairs(_INTERPRETED_SCALE, 0, 16 << _INTERPRETED_SCALE)
        graph = self.Graph.from_arrays(
            source, target, spark=self.spark, multi=True, partitions=self.partitions
        )
        result = self._result(self.PageRank, graph, {"iterations": 10}, compiled=False)
        graph.unpersist()
        figures = result.statistics
        return lambda: {"messages_per_second": figures.messages / figures.seconds}

    def memory(self) -> Later:
        for run in (self.shortest_paths, self.pagerank):
            self.release()
            self.loaded = self._read(self.graph.text)
            run()
        return dict


class OursTwo(_Loops):
    title = "ours, 2 partitions"
    about = (
        "Two partitions, messages between them by the shuffle where they are large. Cost of a hop: "
        "breadth-first search along a chain, the difference of two lengths over that in hops."
    )
    partitions = 2

    def hop(self) -> Later:
        taken = []
        for length in _CHAINS:
            graph = self.Graph.from_arrays(
                np.arange(length - 1),
                np.arange(1, length),
                spark=self.spark,
                partitions=self.partitions,
            )
            figures = self._result(self.Depths, graph, {"origin": 0}).statistics
            taken.append((figures.seconds, figures.hops))
            graph.unpersist()
        (first, few), (second, many) = taken
        return lambda: {"milliseconds": 1000 * (second - first) / (many - few)}
