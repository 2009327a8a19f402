"""What single things cost, each found by an experiment of its own that changes one thing.

Hops of a task that does nothing, by number of tasks; with blocks of more and more bytes; with more
and more messages; commits of more and more bytes; graphs of more and more vertices in memory.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cloudpickle
import numpy as np

from benchmarks import processes
from benchmarks.programs import prepare
from benchmarks.scaling import blocks
from benchmarks.scaling.context import PROGRAMS, Context
from tests.support.servers import NotInstalled, RedisServer
from vertexsdk import Graph, run
from vertexsdk.state import open_store
from vertexsdk.transport.shuffle import ShuffleWorkers

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the edges, that lead to the other partition
COMMIT_FRACTIONS = (64, 16, 4, 1)
_DEGREE = 16
_WARM = 3
_ROUNDS = 12  # iterations of the runs whose messages are counted


def on_one_machine(context: Context) -> None:
    """All that needs no executors of its own."""
    _settle(context)
    for partitions in _counts(context):
        for seconds in _hops(context, partitions, 8):
            context.note("hop shuffle", seconds, partitions)
    for size in _sizes(context):
        for seconds in _hops(context, 2, size // 4):
            context.note("bytes shuffle", seconds, size)
    _committing(context)
    _messages(context)
    _memory(context)


def of_the_driver(context: Context) -> None:
    """Processor time of the driver alone, its Python and its JVM, when the tasks run elsewhere."""
    jvm = int(context.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    mine = [os.getpid(), jvm]
    _settle(context)
    for partitions in _counts(context):
        # Ticks of a clock that are 10 ms apart: only the sum tells.
        spent = list(_hops(context, partitions, 8, lambda: processes.spent(mine)))
        context.note("driver hop", sum(spent) / len(spent), partitions)


def _settle(context: Context) -> None:
    """Hops before the first that counts: the JVM compiles what is called often meanwhile."""
    for _round in range(1 + context.sizes.hops // 2):
        for _seconds in _hops(context, 4, 8):
            pass


def _counts(context: Context) -> Iterator[int]:
    count = 1
    while count <= context.sizes.tasks:
        yield count
        count *= 2


def _sizes(context: Context) -> Iterator[int]:
    most = context.sizes.megabytes << 20
    yield from (0, most // 8, most // 4, most // 2, most)


def _hops(
    context: Context, partitions: int, size: int, clock: Callable[[], float] = time.perf_counter
) -> Iterator[float]:
    """Seconds of hops in which every partition sends ``size`` bytes to every one, as often as
    sizes say, once those which warm are done."""
    cloudpickle.register_pickle_by_value(blocks)  # executors need not have the benchmarks
    workers = ShuffleWorkers(context.spark, partitions)
    with (
        contextlib.closing(workers),
        contextlib.closing(workers.exchange(blocks.sending)) as exchange,
    ):
        for number in range(_WARM + context.sizes.hops):
            begin = clock()
            exchange.hop((partitions, size))
            if number >= _WARM:
                yield clock() - begin


def _committing(context: Context) -> None:
    """Seconds of putting a state of 16 bytes a vertex into a store and committing it."""
    _commits(context, "lmdb", f"lmdb://{context.scratch}/commits")
    try:
        server = RedisServer()
        with server:
            _commits(context, "redis", server.url())
    except NotInstalled:
        return


def _commits(context: Context, name: str, url: str) -> None:
    with open_store(url) as store:
        for fraction in COMMIT_FRACTIONS:
            count = (context.sizes.megabytes << 20) // fraction // 16
            columns = {"id": np.arange(count), "value": np.random.default_rng(0).random(count)}
            for number in range(context.sizes.repeats + 1):
                begin = time.perf_counter()
                ref = store.put_segment("costs", 0, number, "base", columns)
                store.commit("costs", iteration=number, segments=[ref], parent=None)
                if number:  # the first one finds the store cold
                    context.note(f"commit {name}", time.perf_counter() - begin, ref.bytes)
                store.delete("costs")


def _random(context: Context, edges: int, vertices: int, across: float, partitions: int) -> Graph:
    """A random graph, vertices dealt out in turn, of whose edges a share leads to another
    partition, the next one."""
    random = np.random.default_rng(1)
    source = random.integers(0, vertices // 2, edges) * 2
    source[: edges // 2] += 1
    target = random.integers(0, vertices // 2, edges) * 2 + source % 2
    turned = random.random(edges) < across
    target[turned] ^= 1
    ids = np.arange(vertices)
    return Graph.from_arrays(
        source, target, spark=context.spark, vertices=ids, multi=True, partitions=partitions,
        partitioner=(ids, ids % partitions) if partitions > 1 else "hash",
    )  # fmt: skip


def _pagerank(context: Context, graph: Graph) -> dict[str, Any]:
    return run(
        PROGRAMS["pagerank"][0], graph, params={"iterations": _ROUNDS}, backend=context.backend,
        exchange="shuffle", progress=False, threads=1,
    ).statistics  # fmt: skip


def _messages(context: Context) -> None:
    """Seconds of an iteration of PageRank by how many combined messages cross."""
    edges = 1 << context.sizes.log_edges
    for share in SHARES:
        graph = _random(context, edges, edges // _DEGREE, share, 2)
        info = prepare(graph, "pagerank")
        crossing = sum(ghosts for _, _, ghosts in info.sizes)
        for number in range(context.sizes.repeats + 1):
            found = _pagerank(context, graph)
            if number:
                context.note("messages", found["seconds"] / found["hops"], crossing)
        context.note("message bytes", found["bytes"] / found["iterations"], crossing)
        graph.unpersist()


def _memory(context: Context) -> None:
    """Bytes of a graph by entries, vertices and ghosts."""
    most = 1 << context.sizes.log_edges
    for edges, degree, share in _graphs_of(most):
        graph = _random(context, edges, edges // degree, share, 2)
        info = prepare(graph, "pagerank")
        entries, ghosts = (sum(size[k] for size in info.sizes) for k in (1, 2))
        context.note("memory", info.bytes, entries, info.num_vertices, ghosts)
        graph.unpersist()


def _graphs_of(most: int) -> Iterable[tuple[int, int, float]]:
    return [
        (most, 16, 0.5),
        (most // 2, 8, 0.5),
        (most, 8, 0.0),
        (most, 32, 1.0),
        (most // 2, 4, 1),
    ]
