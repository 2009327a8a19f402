"""igraph: the C library through its Python interface, one thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Later, require
from benchmarks.peers._arrays import OnArrays, compact


class IGraph(OnArrays):
    title = "igraph"
    about = (
        "One thread. Text is read by Graph.Read_Ncol, Parquet by pyarrow into Graph(n, edges). Its "
        "PageRank (PRPACK) always runs to convergence, so it has no ten iterations; it is checked "
        "against the converged reference to 1e-6. breadth-first search is distances() without "
        "weights. transitivity_local_undirected runs on an undirected copy without duplicates and "
        "self-loops, made before the clock. community_label_propagation visits the vertices in a "
        "random order, which is another definition, so it is left out."
    )

    def start(self) -> dict[str, str]:
        self.igraph = require("igraph", "igraph")
        return {"igraph": self.igraph.__version__}

    def prepare(self, measure: str) -> None:
        if measure == "lcc" and self.simple is None:
            self.simple = self.loaded.as_undirected(mode="collapse")
            self.simple.simplify()

    def load_text(self) -> Later:
        self.loaded = self.igraph.Graph.Read_Ncol(
            self.graph.text, names=True, weights=True, directed=True
        )
        self.ids = np.array(self.loaded.vs["name"], dtype=np.int64)
        return self._counts

    def build(self, source: Any, target: Any, value: Any) -> Later:
        self.ids, source, target = compact(source, target)
        pairs = np.column_stack((source, target))
        self.loaded = self.igraph.Graph(n=self.ids.size, edges=pairs, directed=True)
        self.loaded.es["weight"] = value
        return self._counts

    def _counts(self) -> dict[str, Any]:
        return {"vertices": self.loaded.vcount(), "edges": self.loaded.ecount()}

    def pagerank_converged(self) -> Later:
        rank = self.loaded.pagerank(damping=0.85)
        return self.answer(rank, definition="_converged", error=1e-6)

    def components(self) -> Later:
        return self.answer(self.loaded.connected_components(mode="weak").membership)

    def shortest_paths(self) -> Later:
        return self.answer(self.loaded.distances(self.origin, weights="weight", mode="out")[0])

    def bfs(self) -> Later:
        return self.answer(self.loaded.distances(self.origin, mode="out")[0])

    def lcc(self) -> Later:
        found = self.simple.transitivity_local_undirected(mode="zero")
        return self.answer(found, definition="_undirected")
