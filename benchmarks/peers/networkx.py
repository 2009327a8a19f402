"""NetworkX: graphs as Python dictionaries, the reference for ease of use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers import Later, Peer, require


class NetworkX(Peer):
    title = "NetworkX"
    about = (
        "A MultiDiGraph read by read_edgelist. pagerank() stops by its tolerance only, so it is "
        "given the one at which the reference stops after its tenth iteration. clustering() runs "
        "on an undirected Graph without self-loops, made before the clock; its label propagations "
        "are other definitions, so they are left out."
    )

    def start(self) -> dict[str, str]:
        self.nx = require("networkx", "networkx")
        require("scipy", "scipy")
        return {"networkx": self.nx.__version__}

    def release(self) -> None:
        self.loaded: Any = None
        self.simple: Any = None

    def prepare(self, measure: str) -> None:
        if measure == "lcc" and self.simple is None:
            self.simple = self.nx.Graph(self.loaded.edges())
            self.simple.add_nodes_from(self.loaded)
            self.simple.remove_edges_from(list(self.nx.selfloop_edges(self.simple)))

    def load_text(self) -> Later:
        self.loaded = self.nx.read_edgelist(
            self.graph.text,
            create_using=self.nx.MultiDiGraph,
            nodetype=int,
            data=(("weight", int),),
        )
        return lambda: {
            "vertices": self.loaded.number_of_nodes(),
            "edges": self.loaded.number_of_edges(),
        }

    def pagerank(self) -> Later:
        # It stops when the L1 change is below n * tol; changes shrink from iteration to iteration.
        changes = self.graph.answer("pagerank_changes").astype(float)
        tol = float(np.sqrt(changes[-2] * changes[-1])) / self.graph.vertices
        rank = self.nx.pagerank(self.loaded, alpha=0.85, tol=tol, weight=None)
        return lambda: _columns(rank)

    def components(self) -> Later:
        found = list(self.nx.weakly_connected_components(self.loaded))
        return lambda: _columns({v: k for k, members in enumerate(found) for v in members})

    def shortest_paths(self) -> Later:
        distance = self.nx.single_source_dijkstra_path_length(self.loaded, self.graph.origin)
        return lambda: self._distances(distance)

    def bfs(self) -> Later:
        distance = self.nx.single_source_shortest_path_length(self.loaded, self.graph.origin)
        return lambda: self._distances(distance)

    def lcc(self) -> Later:
        found = self.nx.clustering(self.simple)
        return lambda: _columns(found) | {"definition": "_undirected"}

    def _distances(self, reached: dict[int, float]) -> dict[str, Any]:
        return _columns(dict.fromkeys(self.loaded, np.inf) | reached)


def _columns(values: Mapping[int, float]) -> dict[str, Any]:
    return {"ids": np.array(list(values), np.int64), "value": np.array(list(values.values()))}
