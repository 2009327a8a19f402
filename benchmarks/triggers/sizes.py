"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from benchmarks.options import floats, option


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    rows: int = option(50_000, "of the table that is written to")
    pairs: int = option(5, "turns of each loop that writes to it")
    graph: int = option(250, "pages of the graphs with preemption")
    degrees: tuple[int, ...] = option((10, 20, 50, 100, 200), "links into each of these: 10,200")
    partials: tuple[int, ...] = option((100, 200, 400, 800), "of an accumulation: 100,800")
    totals: int = option(100, "of partial results")
    texts: int = option(50_000, "pages whose words are counted")
    pages: int = option(20_000, "pages that are ranked")
    shares: tuple[float, ...] = option(
        (0.01, 0.1, 1.0, 10.0, 100.0), "percent that change: 0.01,1,100", partial(floats, most=100)
    )
    items: tuple[int, ...] = option((1_000, 10_000, 50_000), "of clustering: 1000,10000")
    clusters: int = option(120, "of these")
    turns: int = option(3, "of what is timed more than once")
    cores: int = 2
