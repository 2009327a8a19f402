"""Fixed costs beside the plainest thing that does as much: a Spark job, a Python loop, a write."""

from __future__ import annotations

import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks import rmat
from benchmarks.guard.comparing import Comparison
from benchmarks.guard.timing import in_turns, seconds
from benchmarks.peers.ours import Ours
from benchmarks.state.floors import floor_of
from vertexsdk.state import open_store

_CHAIN, _SMALL, _ITERATIONS = 20, 11, 5
_VERTICES, _CHANGED = 1_000_000, 1000


def hops(ours: Ours) -> Comparison:
    """A hop over two partitions that carries next to nothing, beside a job of two Python tasks."""
    context = ours.spark.sparkContext
    ours.release()  # two processors want all slots but one
    along = np.arange(_CHAIN)
    graph = ours.Graph.from_arrays(along[:-1], along[1:], spark=ours.spark, partitions=2)

    def hop() -> float:
        figures = ours._result("bfs", graph, {"origin": 0}).statistics
        return float(figures["seconds"] / figures["hops"])

    def jobs() -> None:
        for _ in range(_CHAIN):
            context.parallelize(range(2), 2).map(abs).collect()

    def job() -> float:
        return seconds(jobs) / _CHAIN

    least = in_turns(3, [hop, job])
    problem = None if graph.workers.resident else "no processors hold the graph"
    graph.unpersist()
    return Comparison("a hop over 2 partitions", "a Spark job of 2 Python tasks", least, problem)


def interpreted(ours: Ours) -> Comparison:
    """PageRank by the interpreter, beside a loop over lists in plain Python."""
    source, target = rmat.pairs(_SMALL, 0, 16 << _SMALL)
    graph = ours.Graph.from_arrays(source, target, spark=ours.spark, multi=True, partitions=1)
    params = {"iterations": _ITERATIONS}
    pairs = list(zip(source.tolist(), target.tolist(), strict=True))

    def program() -> float:
        result = ours._result("pagerank", graph, params, compiled=False)
        return float(result.statistics["seconds"])

    in_turns(1, [program])
    least = in_turns(3, [program, lambda: seconds(lambda: _loop(pairs, 1 << _SMALL))])
    graph.unpersist()
    return Comparison("PageRank, interpreted", "a loop in plain Python", least)


def _loop(pairs: list[tuple[int, int]], n: int) -> list[float]:
    degree = [0] * n
    for source, _ in pairs:
        degree[source] += 1
    rank = [1.0 / n] * n
    for _ in range(_ITERATIONS):
        arrived = [0.0] * n
        for source, target in pairs:
            arrived[target] += rank[source] / degree[source]
        rank = [0.15 / n + 0.85 * value for value in arrived]
    return rank


def commits(scratch: Path) -> list[Comparison]:
    """A base and a delta, put and committed to LMDB, beside the same bytes written and synced."""
    random = np.random.default_rng(0)
    numbers = count()
    with open_store(f"lmdb://{scratch}/commits") as store:
        floor = floor_of("lmdb://", str(scratch))

        def commit(loop: str, kind: Literal["base", "delta"], parent: Any, n: int) -> float:
            ids = np.sort(random.choice(_VERTICES, n, replace=False))
            columns = {"id": ids, "value": random.random(n)}
            iteration = next(numbers)
            began = time.perf_counter()
            ref = store.put_segment(loop, 0, iteration, kind, columns)
            store.commit(loop, iteration=iteration, segments=[ref], parent=parent)
            return time.perf_counter() - began

        def base() -> float:
            loop = f"base-{next(numbers)}"
            took = commit(loop, "base", None, _VERTICES)
            store.delete(loop)
            return took

        def plain(size: int) -> float:
            floor.clear()
            return floor.seconds([bytes(size)])

        commit("main", "base", None, _VERTICES)
        bases = in_turns(5, [base, lambda: plain(16 * _VERTICES)])
        delta = partial(commit, "main", "delta", n=_CHANGED)
        deltas = in_turns(
            15, [lambda: delta(parent=store.head("main")), lambda: plain(16 * _CHANGED)]
        )
        floor.clear()
    peer = "the same bytes written and synced"
    return [
        Comparison("commit of a base of 1,000,000 vertices", peer, bases),
        Comparison("commit of a delta of 1,000 vertices", peer, deltas),
    ]
