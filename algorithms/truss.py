"""The k-truss: edges that are in many triangles with each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from vertexsdk import Sum, Vertex, param, state
from vertexsdk.algorithms._edge_arrays import edge_arrays, local_graph, numbered_ends
from vertexsdk.algorithms.triangles import TriangleCount
from vertexsdk.program.vertex import Delta


class EdgeTriangles(TriangleCount):
    """As `TriangleCount`; `Result.edges` has how many triangles each edge is in.

    Converges to: that, after one iteration.
    Cost, Source: those of `TriangleCount`.
    """

    edge_values = ("triangles",)


class Truss(Vertex):
    """Number of a vertex's edges in the k-truss.

    Definition: the k-truss is the largest set of edges each of which is in at least k - 2 triangles
        of edges of the set. Edges are taken both ways; duplicates and self-loops do not count.
        `Result.edges` has its edges, each once.
    How: edges in too few triangles are removed, until none is.
    Converges to: that.
    Cost: that of `TriangleCount` for each round, of which there are some tens on real graphs, on
        the driver.
    Source: Cohen, "Trusses: cohesive subgraphs for social network analysis", National Security
        Agency, 2008.

    Example:
        >>> from vertexsdk import Graph, run
        >>> graph = Graph.from_arrays([1, 2, 3, 3], [2, 3, 1, 4])
        >>> with run("truss", graph, k=3, backend="memory://docs") as result:
        ...     result.to_dict()
        {1: 2, 2: 2, 3: 2, 4: 0}
    """

    k: int = param(4)
    degree: int = state(0)

    messages = Sum(int)

    @classmethod
    def prepare(
        cls, graph: Any, params: Mapping[str, Any], run: Callable[..., Any], seed: int
    ) -> Mapping[str, Any] | None:
        """Find the edges on the driver, before the run."""
        if not graph.num_edges:
            return None
        ids, source, target = numbered_ends(*edge_arrays(graph)[:2])
        low, high = np.minimum(source, target), np.maximum(source, target)
        keys = np.unique((low * len(ids) + high)[low != high])
        while len(keys):
            left = local_graph(graph, *np.divmod(keys, len(ids)))
            with run(EdgeTriangles, left) as result:
                edges_left = result.edges()
            ends = [edges_left[name].to_numpy() for name in ("source", "target")]
            kept = edges_left["triangles"].to_numpy() >= params["k"] - 2
            low, high = np.minimum(*ends)[kept], np.maximum(*ends)[kept]
            previous, keys = keys, np.sort(low * len(ids) + high)
            if len(keys) == len(previous) or params["k"] <= 2:
                keys = previous
                break
        low, high = np.divmod(keys, len(ids))
        degree = np.bincount(np.concatenate([low, high]), minlength=len(ids))
        edges = pa.table({"source": ids[low], "target": ids[high]})
        return {"id": ids, "degree": degree, "edges": edges}

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        pass

    def scatter(self, iteration: int) -> None:
        pass
