"""vertexsdk: its own algorithms as anyone would run them, with one partition and with two."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks import rmat
from benchmarks.peers import Later, Peer, require

_INTERPRETED_SCALE = 13
_CHAINS = (20, 120)
_VALUES = ("out", "float64", "combined")  # the form of the graph that a load makes ready
_PROGRAMS = {
    "pagerank": ("pagerank", "PageRank"),
    "components": ("wcc", "ConnectedComponents"),
    "cdlp": ("cdlp", "LabelPropagation"),
    "lcc": ("lcc", "ClusteringCoefficient"),
    "shortest_paths": ("sssp", "ShortestPaths"),
    "bfs": ("bfs", "BreadthFirstSearch"),
}
_UNREACHED = np.iinfo(np.int64).max


class _Loops(Peer):
    """What is measured of ours with any number of partitions."""

    partitions: int

    def start(self) -> dict[str, str]:
        # By name, so that this file can be read where vertexsdk is not installed.
        self.vertexsdk: Any = require("vertexsdk", "vertexsdk")
        self.Graph: Any = importlib.import_module("vertexsdk").Graph
        self.programs: dict[str, Any] = {
            measure: getattr(importlib.import_module(f"vertexsdk.algorithms.{module}"), name)
            for measure, (module, name) in _PROGRAMS.items()
        }
        session = importlib.import_module("vertexsdk").session
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
        if measure in self.programs:
            needs = self.vertexsdk.Program(self.programs[measure])
            self.loaded.materialise((needs.direction, needs.value_dtype, "combined"))

    def pagerank(self) -> Later:
        return self._run("pagerank", "rank", iterations=10)

    def components(self) -> Later:
        return self._run("components", "component")

    def cdlp(self) -> Later:
        return self._run("cdlp", "label", iterations=10)

    def lcc(self) -> Later:
        return self._run("lcc", "coefficient")

    def shortest_paths(self) -> Later:
        return self._run("shortest_paths", "length", origin=self.graph.origin)

    def bfs(self) -> Later:
        return self._run("bfs", "depth", origin=self.graph.origin)

    def _run(self, measure: str, field: str, **params: Any) -> Later:
        result = self._result(measure, self.loaded, params)

        def later() -> dict[str, Any]:
            columns = result.columns()
            ids, value = columns["id"], columns[field]
            if field == "depth":
                value = np.where(value == _UNREACHED, np.inf, value)
            phases = result.statistics["phases"] | {"run": result.statistics["total_seconds"]}
            return {"ids": ids, "value": value} | {f"phase {k}": v for k, v in phases.items()}

        return later

    def _result(self, measure: str, graph: Any, params: dict[str, Any], **options: Any) -> Any:
        return self.vertexsdk.run(
            self.programs[measure],
            graph,
            params=params,
            backend=f"lmdb://{self.settings.scratch}/state",
            **options,
        )


class Ours(_Loops):
    title = "ours, 1 partition"
    about = (
        "One partition, threads inside the kernels. A time is that of the whole run(): Spark job, "
        "iterations, commit to LMDB; ready means the out-edges with values; "
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
        result = self._result("pagerank", graph, {"iterations": 10}, compiled=False)
        graph.unpersist()
        figures = result.statistics
        speed = figures["messages"] / figures["seconds"]
        return lambda: {"messages_per_second": speed, "messages": figures["messages"]}

    def memory(self) -> Later:
        for run in (self.shortest_paths, self.pagerank):
            self.release()
            self.loaded = self._read(self.graph.text)
            run()
        return dict


class OursTwo(_Loops):
    title = "ours, 2 partitions"
    about = (
        "Two partitions, each held by a processor. Cost of a hop: "
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
            figures = self._result("bfs", graph, {"origin": 0}).statistics
            taken.append((figures["seconds"], figures["hops"]))
            graph.unpersist()
        (first, few), (second, many) = taken
        return lambda: {"milliseconds": 1000 * (second - first) / (many - few)}
