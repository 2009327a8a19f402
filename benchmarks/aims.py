"""What ours must reach, row by row, and what was reached."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from benchmarks.graphs import BenchGraph
from benchmarks.judged import Aim, judged
from benchmarks.turns import Standing

OWN = ("interpreted", "hop", "memory")
"""Measures of ours alone, shown here and not beside the other systems."""


@dataclass(frozen=True, slots=True)
class _Results:
    graph: BenchGraph
    standings: dict[str, Standing]

    def seconds(self, system: str, measure: str) -> float | None:
        standing = self.standings.get(system)
        outcome = standing.outcomes.get(measure) if standing else None
        return statistics.median(outcome.seconds) if outcome and outcome.seconds else None

    def fact(self, system: str, measure: str, name: str) -> float | None:
        standing = self.standings.get(system)
        outcome = standing.outcomes.get(measure) if standing else None
        return outcome.facts.get(name) if outcome else None

    def ratio(self, over: tuple[str, str], under: tuple[str, str]) -> float | None:
        top, bottom = self.seconds(*over), self.seconds(*under)
        return top / bottom if top is not None and bottom else None

    def worker_bytes_per_edge(self) -> float | None:
        peak = self.fact("ours", "memory", "workers")
        return peak / self.graph.edges if peak is not None else None


_PAGERANK = ("ours", "pagerank")
AIMS: tuple[Aim[_Results], ...] = (
    Aim("load from text", lambda r: r.seconds("ours", "load_text"), 8, "s"),
    Aim("load from Parquet", lambda r: r.seconds("ours", "load_parquet"), 5, "s"),
    Aim(
        "PageRank, GraphX / ours",
        lambda r: r.ratio(("graphx", "pagerank"), _PAGERANK),
        40,
        "×",
        True,
    ),
    Aim("PageRank, ours / SciPy", lambda r: r.ratio(_PAGERANK, ("scipy", "pagerank")), 1.5, "×"),
    Aim(
        "PageRank, GraphX / ours with 2 partitions",
        lambda r: r.ratio(("graphx", "pagerank"), ("ours-2", "pagerank")),
        8,
        "×",
        True,
    ),
    Aim(
        "components, GraphX / ours",
        lambda r: r.ratio(("graphx", "components"), ("ours", "components")),
        25,
        "×",
        True,
    ),
    Aim("shortest paths", lambda r: r.seconds("ours", "shortest_paths"), 0.8, "s"),
    Aim(
        "interpreted messages per second and core",
        lambda r: r.fact("ours", "interpreted", "messages_per_second"),
        300_000,
        "/s",
        True,
    ),
    Aim("fixed cost of a hop", lambda r: r.fact("ours-2", "hop", "milliseconds"), 60, "ms"),
    Aim("worker memory at the peak", _Results.worker_bytes_per_edge, 40, "bytes per edge"),
)


def table(graph: BenchGraph, standings: list[Standing]) -> str:
    """The aims as Markdown; they are stated for R-MAT 20. Empty when none was measured."""
    results = _Results(graph, {s.system: s for s in standings})
    loud = any(o.others > 0.1 for s in standings for o in s.outcomes.values())
    unjudged = "machine not quiet" if loud else None
    if graph.scale != 20:
        unjudged = "stated for R-MAT 20"
    rows = [f"| {' | '.join(row)} |" for row in judged(AIMS, results, unjudged)]
    head = ["| what ours must reach | measured | aim | |", "| --- | --- | --- | --- |"]
    return "\n".join(head + rows) if rows else ""
