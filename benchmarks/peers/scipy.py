"""SciPy: a compressed sparse row matrix and `scipy.sparse.csgraph`, one thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Later, require
from benchmarks.peers._arrays import OnArrays, compact


class SciPy(OnArrays):
    title = "SciPy"
    about = (
        "One thread, except that pyarrow reads files on all cores; ids are made 0..n-1 by a table "
        "of them; ready means the CSR matrix "
        "of the edges and that of the reversed edges divided by out-degrees. PageRank is the usual "
        "loop of matrix times vector; connected_components transposes the matrix in its "
        "time; breadth_first_order gives order and predecessors, the depths that are checked are "
        "taken from them after the clock."
    )

    def start(self) -> dict[str, str]:
        self.sparse = require("scipy.sparse", "scipy")
        self.csgraph = require("scipy.sparse.csgraph", "scipy")
        return {"scipy": require("scipy", "scipy").__version__, "numpy": np.__version__}

    held = ("edges", "flow")

    def build(self, source: Any, target: Any, value: Any) -> Later:
        self.ids, source, target = compact(source, target)
        n = self.ids.size
        source, target = source.astype(np.int32), target.astype(np.int32)
        degree = np.bincount(source, minlength=n)
        share = 1.0 / degree[source]
        self.sinks = degree == 0
        # By hand: building from coordinates would add up the values of duplicate edges.
        self.edges = self._rows(source, target, value.astype(np.float64), n)
        self.flow = self._rows(target, source, share, n)
        return lambda: {"vertices": n, "edges": self.edges.nnz}

    def _rows(self, row: Any, column: Any, data: Any, n: int) -> Any:
        m = row.size
        # A matrix with a column per edge: by rows it has the edges' order, counted, not sorted.
        column_each = np.ones(m, np.int8), row, np.arange(m + 1, dtype=np.int32)
        by_row = self.sparse.csc_array(column_each, shape=(n, m)).tocsr()
        order, start = by_row.indices, by_row.indptr
        return self.sparse.csr_array((data[order], column[order], start), shape=(n, n))

    def pagerank(self) -> Later:
        n = self.ids.size
        rank = np.full(n, 1.0 / n)
        for _ in range(10):
            lost = rank[self.sinks].sum() / n
            rank = 0.15 / n + 0.85 * (self.flow @ rank + lost)
        return self.answer(rank)

    def components(self) -> Later:
        _, label = self.csgraph.connected_components(self.edges, directed=True, connection="weak")
        return self.answer(label)

    def shortest_paths(self) -> Later:
        return self.answer(self.csgraph.dijkstra(self.edges, directed=True, indices=self.origin))

    def bfs(self) -> Later:
        at = self.origin
        order, before = self.csgraph.breadth_first_order(self.edges, at, directed=True)

        def depths() -> dict[str, Any]:
            depth = np.full(self.ids.size, np.inf)
            depth[at] = 0.0
            for vertex in order[1:]:
                depth[vertex] = depth[before[vertex]] + 1.0
            return {"ids": self.ids, "value": depth}

        return depths
