"""What ours must reach, row by row, and what was reached."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from benchmarks import targets
from benchmarks.batch.runner import SystemResult
from benchmarks.document import Table
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME
from benchmarks.targets import Target

OWN = ("interpreted", "hop", "memory")
"""Measures of ours alone, shown here and not beside the other systems."""


@dataclass(frozen=True, slots=True)
class _Results:
    graph: BenchGraph
    standings: dict[str, SystemResult]

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
TARGETS: tuple[Target[_Results], ...] = (
    Target("load from text", lambda r: r.seconds("ours", "load_text"), 8, "s"),
    Target("load from Parquet", lambda r: r.seconds("ours", "load_parquet"), 5, "s"),
    Target(
        "PageRank, GraphX / ours",
        lambda r: r.ratio(("graphx", "pagerank"), _PAGERANK),
        40,
        "×",
        True,
    ),
    Target("PageRank, ours / SciPy", lambda r: r.ratio(_PAGERANK, ("scipy", "pagerank")), 1.5, "×"),
    Target(
        "PageRank, GraphX / ours with 2 partitions",
        lambda r: r.ratio(("graphx", "pagerank"), ("ours-2", "pagerank")),
        8,
        "×",
        True,
    ),
    Target(
        "components, GraphX / ours",
        lambda r: r.ratio(("graphx", "components"), ("ours", "components")),
        25,
        "×",
        True,
    ),
    Target("shortest paths", lambda r: r.seconds("ours", "shortest_paths"), 0.8, "s"),
    Target(
        "interpreted messages per second and core",
        lambda r: r.fact("ours", "interpreted", "messages_per_second"),
        300_000,
        "/s",
        True,
    ),
    Target("fixed cost of a hop", lambda r: r.fact("ours-2", "hop", "milliseconds"), 60, "ms"),
    Target("worker memory at the peak", _Results.worker_bytes_per_edge, 40, "bytes per edge"),
)


_GAP = {
    "load_text": 1.3,
    "pagerank": 0.088,
    "components": 0.027,
    "bfs": 0.014,
    "shortest_paths": 0.141,
}
"""Seconds that the GAP Benchmark Suite, in C++, takes on R-MAT 20 with two cores."""

_GAP_SCALE, _GAP_CORES, _GAP_RATIO = 20, 2, 3.0


def table(graph: BenchGraph, standings: list[SystemResult]) -> Table | None:
    """The aims that something was measured for; they are stated for R-MAT 20."""
    unjudged = _unjudged(standings)
    if graph.scale != 20:
        unjudged = "stated for R-MAT 20"
    return targets.table(TARGETS, _of(graph, standings), unjudged, title="Aims")


def beside_limits(graph: BenchGraph, standings: list[SystemResult], cores: int) -> Table | None:
    """Ours with one partition beside C++, on the graph that the limits are known for."""
    if graph.scale != _GAP_SCALE:
        return None
    results = _of(graph, standings)
    unjudged = _unjudged(standings)
    if cores != _GAP_CORES:
        unjudged = f"stated for {_GAP_CORES} cores"
    rows = []
    for name, limit in _GAP.items():
        mine = results.seconds("ours", name)
        if mine is not None:
            target: Target[float] = Target(BY_NAME[name].title, lambda ratio: ratio, _GAP_RATIO)
            ((title, _, *rest),) = targets.rows([target], mine / limit, unjudged)
            rows.append([title, f"{limit:.3f}", f"{mine:.3f}", *rest])
    return Table(
        ["", "GAP, seconds", "ours, 1 partition, seconds", "ratio", "aim", ""],
        rows,
        "What remains to C++",
        f"Kernels of the GAP Benchmark Suite on a machine such as this, R-MAT {_GAP_SCALE}, "
        f"{_GAP_CORES} cores; beside loading, its reading and building. Ours is the median of a "
        "whole run(), Spark's job and the commit included.",
    )


def _of(graph: BenchGraph, standings: list[SystemResult]) -> _Results:
    return _Results(graph, {s.system: s for s in standings})


def _unjudged(standings: list[SystemResult]) -> str | None:
    loud = any(o.others > 0.1 for s in standings for o in s.outcomes.values())
    return "machine not quiet" if loud else None
