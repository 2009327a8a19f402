"""Single-linkage clusters and the minimum spanning forest of a graph that changes, by rounds.

    python examples/linkage.py [--vertices N] [--edges M] [--levels K] [--changes N]

Edges have a distance from 1 to K. In round k only edges of a distance up to k count: the vertices
that they connect are a cluster, and clusters merge as k grows. Where two merge, the vertex with the
larger one of their two smallest ids notes k. Each merger is an edge of the minimum spanning forest,
and k its distance, as Kruskal's method takes edges in that order. So the forest's sum of distances
is that of all notes, and the clusters at any distance follow from them. After each change of the
graph the main loop refines the rounds in which something differs.

Source: Gower and Ross, "Minimum spanning trees and single linkage cluster analysis", 1969.
"""

import argparse
import random
import tempfile
import time
from collections import Counter

from vertexsdk import INT_MAX, Graph, MainLoop, Min, Vertex, VertexId, param, state


class Linkage(Vertex):
    """The cluster of a vertex, and the distance at which it lost its own one.

    `cluster` is the smallest id that paths of edges up to `levels` lead to. `joined` is the least
    distance at which a smaller id can be reached, 0 where none can.
    """

    levels: int = param(10)
    level: int = state(1)
    cluster: VertexId = state()
    joined: int = state(0)

    messages = Min(VertexId)
    direction = "undirected"
    edge = int
    result = "joined"

    def init(self):
        self.cluster = self.id

    def gather(self, iteration, source, delta):
        self.cluster = min(self.cluster, delta.value)

    def next_round(self, round):
        if self.joined == 0 and self.cluster != self.id:
            self.joined = self.level
        if self.level < self.levels:
            self.level += 1

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.cluster if target.value <= self.level else INT_MAX)


def random_change(rng, edges, vertices, levels):
    """Add, remove or replace an edge of `edges`, a dict of distances by pairs; return the row.

    >>> edges = {(1, 2): 3}
    >>> random_change(random.Random(1), edges, 2, 5), edges
    (('-', 1, 2), {})
    """
    kind = rng.choice("+-~") if edges else "+"
    if kind == "+":
        pair = tuple(sorted(rng.sample(range(1, vertices + 1), 2)))
    else:
        pair = rng.choice(sorted(edges))
    if kind == "-":
        del edges[pair]
        return ("-", *pair)
    edges[pair] = rng.randint(1, levels)
    return (kind, *pair, edges[pair])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--vertices", type=int, default=2000)
    parser.add_argument("--edges", type=int, default=6000)
    parser.add_argument("--levels", type=int, default=10)
    parser.add_argument("--changes", type=int, default=10)
    args = parser.parse_args()
    rng, edges = random.Random(1), {}
    while len(edges) < args.edges:
        pair = tuple(sorted(rng.sample(range(1, args.vertices + 1), 2)))
        edges[pair] = rng.randint(1, args.levels)
    graph = Graph.from_arrays(*zip(*edges, strict=True), [*edges.values()], undirected=True)
    with tempfile.TemporaryDirectory() as folder:
        options = {"params": {"levels": args.levels}, "backend": f"lmdb://{folder}/state"}
        with MainLoop(Linkage, graph, **options) as loop:
            report("at first", loop)
            for _ in range(args.changes):
                row = random_change(rng, edges, args.vertices, args.levels)
                loop.ingest([row])
                report(" ".join(map(str, row)), loop)


def report(change, loop):
    """Print what the exact answer after a change says."""
    began = time.perf_counter()
    with loop.query() as answer:
        milliseconds = 1000 * (time.perf_counter() - began)
        at = Counter(answer.to_dict("joined").values())
    clusters, left = [], sum(at.values())
    for level in range(1, loop.params["levels"] + 1):
        left -= at[level]
        clusters.append(left)
    total = sum(level * count for level, count in at.items())
    print(f"{change:>14}: forest {total:,}, clusters {clusters}, {milliseconds:.1f} ms")


if __name__ == "__main__":
    main()
