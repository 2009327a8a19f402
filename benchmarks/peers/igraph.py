"""igraph: the C library through its Python interface, one thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Later, Peer, require


class IGraph(Peer):
    title = "igraph"
    about = (
        "One thread. Text is read by Graph.Read_Ncol, Parquet by pyarrow into Graph(n, edges). Its "
        "PageRank (PRPACK) always runs to convergence, so it has no ten iterations; it is checked "
        "against the converged reference to 1e-6. breadth-first search is distances() without "
        "weights."
    )

    def start(self) -> dict[str, str]:
        self.igraph = require("igraph", "igraph")
        self.pq = require("pyarrow.parquet", "pyarrow")
        return {"igraph": self.igraph.__version__}

    def release(self) -> None:
        self.loaded: Any = None
        self.ids: Any = None

    def load_text(self) -> Later:
        self.loaded = self.igraph.Graph.Read_Ncol(
            self.graph.text, names=True, weights=True, directed=True
        )
        self.ids = np.array(self.loaded.vs["name"], dtype=np.int64)
        return self._counts

    def load_parquet(self) -> Later:
        table = self.pq.read_table(self.graph.parquet)
        pairs = np.column_stack((table["source"].to_numpy(), table["target"].to_numpy()))
        self.ids, compact = np.unique(pairs, return_inverse=True)
        self.loaded = self.igraph.Graph(
            n=self.ids.size, edges=compact.reshape(-1, 2), directed=True
        )
        self.loaded.es["weight"] = table["value"].to_numpy()
        return self._counts

    def _counts(self) -> dict[str, Any]:
        return {"vertices": self.loaded.vcount(), "edges": self.loaded.ecount()}

    @property
    def _origin(self) -> int:
        return int(np.nonzero(self.ids == self.graph.origin)[0][0])

    def pagerank_converged(self) -> Later:
        rank = self.loaded.pagerank(damping=0.85)
        return lambda: {
            "ids": self.ids,
            "value": np.array(rank),
            "definition": "_converged",
            "error": 1e-6,
        }

    def components(self) -> Later:
        found = self.loaded.connected_components(mode="weak")
        return lambda: {"ids": self.ids, "value": np.array(found.membership)}

    def shortest_paths(self) -> Later:
        distance = self.loaded.distances(self._origin, weights="weight", mode="out")
        return lambda: {"ids": self.ids, "value": np.array(distance[0])}

    def bfs(self) -> Later:
        distance = self.loaded.distances(self._origin, mode="out")
        return lambda: {"ids": self.ids, "value": np.array(distance[0])}
