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

Its `ShortestPaths` counts hops, so lengths are done as its programming guide does them, with
`pregel`: `peers/weighted_paths.scala`, made into a jar by the Scala compiler among Spark's jars.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

from benchmarks import graphs, reference
from benchmarks.answers import EPSILON, PAGERANK_ERROR
from benchmarks.evolving.stream import FileStream, blocks_after, blocks_of_files
from benchmarks.peers import Later
from benchmarks.peers.graphframes import GraphFrames
from benchmarks.peers.graphx import GraphX
from benchmarks.peers.ours import Ours

SYSTEMS = {
    "ours": "benchmarks.evolving.instants:OursFromScratch",
    "graphx": "benchmarks.evolving.instants:GraphXFromScratch",
    "graphframes": "benchmarks.evolving.instants:GraphFramesFromScratch",
}
_ENOUGH = "_undistributed_enough"


class OursFromScratch(Ours):
    title = "run() from scratch"
    about = (
        "One partition; the whole run(), its commit to LMDB too, on a graph that a load made "
        "ready before the clock."
    )

    def pagerank_converged(self) -> Later:
        later = self._run("pagerank", "rank", epsilon=EPSILON)
        return lambda: later() | {"definition": "_converged", "error": PAGERANK_ERROR}

    def prepare(self, measure: str) -> None:
        super().prepare("pagerank" if measure == "pagerank_converged" else measure)


class GraphXFromScratch(GraphX):
    title = "GraphX from scratch"
    about = (
        "A graph with values on its edges, one partition per core, cached before the clock; "
        "lib.ConnectedComponents, the shortest paths of GraphX's programming guide by pregel, and "
        "the static lib.PageRank with as many iterations as its definition (without the rank of "
        "vertices without out-edges) needs until one changes the ranks by no more than 1e-6 in "
        "all; found beforehand. local[cores], no Python workers."
    )

    def start(self) -> dict[str, str]:
        versions = super().start()
        self.edge_tag = self.tags.Double()
        return versions

    def load_text(self) -> Later:
        return self._loaded(self.with_values())

    def prepare(self, measure: str) -> None:
        self.weighted = self.loaded

    def pagerank_converged(self) -> Later:
        return self.ranks(int(self.graph.answer("iterations_enough")[0]), _ENOUGH)


class GraphFramesFromScratch(GraphFrames):
    title = "GraphFrames from scratch"
    about = (
        "Cached DataFrames, one shuffle partition per core; pageRank with as many iterations as "
        "GraphX's, whose it is; shortest paths along values by Pregel."
    )

    def pagerank_converged(self) -> Later:
        return self.ranks(int(self.graph.answer("iterations_enough")[0]), _ENOUGH)


def graph_after(scale: int, cache: Path, batches: Sequence[int]) -> graphs.BenchGraph:
    """The graph after batches of these sizes, with its answers; made once."""
    told = f"{len(batches)}x{batches[0]}" if batches else "0"
    if len(set(batches)) > 1:
        told = "-".join(map(str, batches))
    folder = cache / f"rmat-{scale}-after-{told}"
    name = f"R-MAT {scale} after {sum(batches):,} changes"
    blocks = partial(blocks_after, scale, cache, batches)
    return _with_ranks(graphs.of_blocks(folder, name, scale, blocks))


def graph_of_files(edges: Path, changes: Sequence[Path], cache: Path) -> graphs.BenchGraph:
    """The graph of one's own files after all changes, with its answers; made once."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (edges, *changes)))
    folder = cache / f"{edges.stem}-after-{digest.hexdigest()[:12]}"
    files = folder.with_suffix(".files")
    blocks = partial(blocks_of_files, edges, changes, files)
    name = f"{edges.name} after all changes"
    stream = FileStream(edges, changes, files)
    stream.take(stream.left)
    source, target, _ = stream.columns()
    there = bool(((source == stream.origin) | (target == stream.origin)).any())
    begin = stream.origin if there else None
    return _with_ranks(graphs.of_blocks(folder, name, None, blocks, begin))


def _with_ranks(graph: graphs.BenchGraph) -> graphs.BenchGraph:
    """With the answer of GraphX's definition too."""
    folder = Path(graph.folder)
    path = folder / "reference" / f"pagerank{_ENOUGH}.npy"
    if not path.exists():
        table = pq.read_table(graph.parquet, columns=["source", "target"])
        ids = graph.answer("ids")
        source, target = (np.searchsorted(ids, table[c].to_numpy()) for c in table.column_names)
        ranks, iterations = reference.undistributed(source, target, ids.size, EPSILON)
        np.save(folder / "reference" / "iterations_enough.npy", np.array([iterations]))
        np.save(path, ranks)
    return graph
