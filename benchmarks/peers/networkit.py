"""NetworKit: C++ with OpenMP through its Python interface, one thread per core."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Later, require
from benchmarks.peers._arrays import OnArrays, compact, simple_pairs


class NetworKit(OnArrays):
    title = "NetworKit"
    about = (
        "One OpenMP thread per core. EdgeListReader drops duplicate edges, so columns are read by "
        "pyarrow, ids are made 0..n-1, and GraphFromCoo builds the directed weighted graph, which "
        "is what ready means; PageRank, components and breadth-first search get its toUnweighted() "
        "before the clock. PageRank distributes sinks and has maxIterations 10, for convergence "
        "its own tolerance, so that is checked to 1e-6. WeaklyConnectedComponents, Dijkstra and "
        "BFS without paths. LocalClusteringCoefficient, in turbo mode, is for undirected graphs "
        "without self-loops: it gets that of the distinct pairs, made before the clock. PLP is "
        "another label propagation (updates in place, ties at random), so it is left out."
    )

    def start(self) -> dict[str, str]:
        self.nk = require("networkit", "networkit")
        self.nk.setNumberOfThreads(self.settings.cores)
        return {"networkit": self.nk.__version__}

    held = ("loaded", "unweighted", "simple", "pairs")

    def build(self, source: Any, target: Any, value: Any) -> Later:
        self.ids, source, target = compact(source, target)
        self.pairs = source.astype(np.uint64), target.astype(np.uint64)
        self.loaded = self.nk.GraphFromCoo(
            (value.astype(np.float64), self.pairs), n=self.ids.size, weighted=True, directed=True
        )
        return lambda: {
            "vertices": self.loaded.numberOfNodes(),
            "edges": self.loaded.numberOfEdges(),
        }

    def prepare(self, measure: str) -> None:
        if measure == "lcc" and self.simple is None:
            source, target = (column.astype(np.int64) for column in self.pairs)
            low, high = simple_pairs(source, target, self.ids.size)
            distinct = low.astype(np.uint64), high.astype(np.uint64)
            self.simple = self.nk.GraphFromCoo(distinct, n=self.ids.size)
        elif measure not in ("lcc", "shortest_paths") and self.unweighted is None:
            self.unweighted = self.nk.graphtools.toUnweighted(self.loaded)

    def pagerank(self) -> Later:
        return self._pagerank("", 1e-9, tol=1e-30, rounds=10)

    def pagerank_converged(self) -> Later:
        return self._pagerank("_converged", 1e-6)

    def _pagerank(self, definition: str, error: float, tol: float = 1e-9, rounds: int = 0) -> Later:
        spread = self.nk.centrality.SinkHandling.DistributeSinks
        rank = self.nk.centrality.PageRank(
            self.unweighted, damp=0.85, tol=tol, distributeSinks=spread
        )
        if rounds:
            rank.maxIterations = rounds
        rank.run()
        return self.answer(rank.scores(), definition=definition, error=error)

    def components(self) -> Later:
        found = self.nk.components.WeaklyConnectedComponents(self.unweighted).run()
        return self.answer(found.getPartition().getVector())

    def shortest_paths(self) -> Later:
        return self._distances(self.nk.distance.Dijkstra, self.loaded)

    def bfs(self) -> Later:
        return self._distances(self.nk.distance.BFS, self.unweighted)

    def _distances(self, kind: Any, graph: Any) -> Later:
        search = kind(graph, self.origin, storePaths=False).run()

        def later() -> dict[str, Any]:
            distance = np.array(search.getDistances())
            unreached = distance == np.finfo(np.float64).max
            return {"ids": self.ids, "value": np.where(unreached, np.inf, distance)}

        return later

    def lcc(self) -> Later:
        found = self.nk.centrality.LocalClusteringCoefficient(self.simple, turbo=True).run()
        return self.answer(found.scores(), definition="_undirected")
