"""What is done from scratch on the graph as it is at one instant: by GraphX, and by our `run`.

The instant is that after some of the batches which the queries of ours were measured with. The
systems run as in the suite ``batch``: in processes of their own, loading and what they make ready
is not counted, and a time is shown only where the answer is right.

To which tolerance GraphX runs PageRank: ours ends when an iteration changed the ranks, whose sum
is 1, by 1e-6 in all. GraphX's `runUntilConvergence(tol)` goes on while any one vertex changes by
more than ``tol`` on a scale where the sum is n; with 1e-6 it would go on much longer for the sake
of the largest ranks. So it is not asked for that: it runs the static PageRank with just as many
iterations as its own definition needs until one changes its ranks, scaled to the sum 1, by no
more than 1e-6. That number is found beforehand, and GraphX pays nothing for testing.

Its `ShortestPaths` counts hops. That is less work than lengths, as it needs fewer rounds, so a
ratio to it is on the low side.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

from benchmarks import graphs, reference
from benchmarks.evolving.answers import EPSILON, PAGERANK_ERROR
from benchmarks.evolving.stream import blocks_after
from benchmarks.peers import Later
from benchmarks.peers.graphx import GraphX
from benchmarks.peers.ours import Ours

SYSTEMS = {
    "ours": "benchmarks.evolving.instants:OursFromScratch",
    "graphx": "benchmarks.evolving.instants:GraphXFromScratch",
}
_ENOUGH = "_undistributed_enough"


class OursFromScratch(Ours):
    title = "run() from scratch, 1 partition"

    def pagerank_converged(self) -> Later:
        later = self._run("pagerank", "rank", epsilon=EPSILON)
        return lambda: later() | {"definition": "_converged", "error": PAGERANK_ERROR}

    def prepare(self, measure: str) -> None:
        super().prepare("pagerank" if measure == "pagerank_converged" else measure)


class GraphXFromScratch(GraphX):
    title = "GraphX from scratch"

    def pagerank_converged(self) -> Later:
        enough = int(self.graph.answer("iterations_enough")[0])
        ranks = self.lib.PageRank.run(self.loaded, enough, 0.15, self.tag, self.tag)
        ranks.vertices().count()

        def later() -> dict[str, Any]:
            ids, rank = self._pairs(ranks, r"^\((-?\d+),([-+.\dE]+)\)$")
            return {"ids": ids, "value": rank / rank.sum(), "definition": _ENOUGH}

        return later


def graph_after(scale: int, cache: Path, batches: Sequence[int]) -> graphs.BenchGraph:
    """The graph after batches of these sizes, with its answers; made once."""
    told = f"{len(batches)}x{batches[0]}" if batches else "0"
    folder = cache / f"rmat-{scale}-after-{told}"
    name = f"R-MAT {scale} after {sum(batches):,} changes"
    graph = graphs.of_blocks(folder, name, scale, partial(blocks_after, scale, cache, batches))
    path = folder / "reference" / f"pagerank{_ENOUGH}.npy"
    if not path.exists():
        table = pq.read_table(graph.parquet, columns=["source", "target"])
        ids = graph.answer("ids")
        source, target = (np.searchsorted(ids, table[c].to_numpy()) for c in table.column_names)
        ranks, iterations = reference.undistributed(source, target, ids.size, EPSILON)
        np.save(folder / "reference" / "iterations_enough.npy", np.array([iterations]))
        np.save(path, ranks)
    return graph
