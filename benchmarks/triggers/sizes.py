"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        rows: of the table that is written to.
        pairs: turns of each loop that writes to it.
        graph: pages of the graphs in which executions are preempted.
        degrees: links into each of these pages.
        partials: partial results of an accumulation.
        totals: accumulations that each change of all of them leads to.
        texts: pages whose words are counted.
        pages: of the graph whose pages are ranked.
        shares: percent of the pages that change.
        items: that are there after each addition, for clustering.
        clusters: of these.
        turns: of what is timed more than once.
        cores: of the sessions of Spark, where ours has one.
    """

    rows: int = 50_000
    pairs: int = 5
    graph: int = 250
    degrees: tuple[int, ...] = (10, 20, 50, 100, 200)
    partials: tuple[int, ...] = (100, 200, 400, 800)
    totals: int = 100
    texts: int = 50_000
    pages: int = 20_000
    shares: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0)
    items: tuple[int, ...] = (1_000, 10_000, 50_000)
    clusters: int = 120
    turns: int = 3
    cores: int = 2
