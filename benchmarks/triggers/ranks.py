"""PageRank of a graph whose pages change: ours, and a batch job (figure 12 of the Domino paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.timing import timed
from benchmarks.triggers.pages import Pages, links
from benchmarks.triggers.sizes import Sizes
from benchmarks.triggers.spark_jobs import in_memory, session_on
from tests.triggers.programs import Rank
from vertexsdk import TriggerLoop

TOLERANCE = 1e-3  # of ranks, whose mean is 1
_DAMPING = 0.85

Graph = Mapping[str, Sequence[str]]  # the links of each page


def rank_loop(process: CaseProcess, **options: Any) -> TriggerLoop:
    """Return a loop that ranks pages."""
    url = f"lmdb://{process.scratch}/state"
    return TriggerLoop(Rank(tolerance=TOLERANCE), backend=url, replace=True, **options)


def ranks(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds until all ranks are those of the pages as they are now."""
    pages = Pages(sizes.pages, links)
    with rank_loop(process) as loop:
        took, _ = timed(partial(loop.upsert, "pages", url=pages.urls, links=pages.values))
        process.note("all pages", took)
        for percent, (urls, values) in pages.changes(sizes):
            took, _ = timed(partial(loop.upsert, "pages", url=urls, links=values))
            check_ranks(loop, pages.graph())
            process.note(f"{percent:g}", took)


def check_ranks(loop: TriggerLoop, graph: Graph) -> None:
    """Compare the ranks of a loop with those of a graph.

    Raises:
        Wrong: they are farther from them than the tolerance allows.
    """
    rows = loop.read("pages")
    _compare(dict(zip(*(rows[name].to_pylist() for name in ("url", "rank")), strict=True)), graph)


def _compare(ranks: Mapping[str, float], graph: Graph) -> None:
    exact, _ = _ranks_of(graph, 1e-12)
    if ranks.keys() != graph.keys():
        raise Wrong(f"{len(ranks):,} pages have ranks, of {len(graph):,}")
    error = np.abs(exact - [ranks[url] for url in graph]).sum()
    if not error <= len(exact) * TOLERANCE * _DAMPING / (1 - _DAMPING):
        raise Wrong(f"the L1 error of ranks is {error:.3g}")


def _ranks_of(graph: Graph, tolerance: float) -> tuple[Any, int]:
    """Return the ranks by NumPy, and after how many iterations none changed by the tolerance."""
    places = {url: k for k, url in enumerate(graph)}
    rows = [places[link] for own in graph.values() for link in own]
    counts = np.array([len(own) for own in graph.values()])
    columns = np.repeat(np.arange(len(counts)), counts)
    shares = sparse.csr_array(
        (_DAMPING / counts[columns], (rows, columns)), shape=(len(counts), len(counts))
    )
    ranks, iterations, change = np.ones(len(counts)), 0, np.inf
    while change > tolerance:
        last, ranks = ranks, 1 - _DAMPING + shares @ ranks
        change, iterations = np.abs(ranks - last).max(), iterations + 1
    return ranks, iterations


def ranks_by_spark(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds of as many iterations on all pages as the tolerance needs."""
    from pyspark.sql import functions as f

    spark, pages = session_on(sizes.cores), Pages(sizes.pages, links)
    rank = f.lit(1 - _DAMPING) + f.sum(f.col("rank") * f.col("share"))
    for turn in range(1 + sizes.turns):
        graph = pages.graph()
        rows = [(u, v, _DAMPING / len(own)) for u, own in graph.items() for v in own]
        rows += [(u, u, 0.0) for u in graph]  # for the sum of a page without links to it
        columns = dict(zip(("url", "link", "share"), zip(*rows, strict=True), strict=True))
        edges = in_memory(spark, pa.table(columns), "url")
        start = in_memory(spark, pa.table({"url": pages.urls, "rank": [1.0] * len(graph)}), "url")
        _, iterations = _ranks_of(graph, TOLERANCE)

        def job(edges: Any = edges, ranks: Any = start, iterations: int = iterations) -> Any:
            for _ in range(iterations):
                sums = edges.join(ranks, "url").groupBy("link").agg(rank.alias("rank"))
                ranks = sums.withColumnRenamed("link", "url").localCheckpoint()
            return ranks

        took, frame = timed(job)
        _compare(dict(map(tuple, frame.collect())), graph)
        if turn:  # the first one compiles
            process.note("batch", took)
            process.note("iterations", iterations)
        for each in (edges, start):
            each.unpersist()
        pages.change(1.0)
