"""Suite ``batch``: the whole answer on a graph that does not change.

Load and the six algorithms of LDBC Graphalytics (breadth-first search, PageRank, weakly connected
components, community detection, local clustering coefficients, shortest paths) by every system in
turn; and of ours the interpreter's speed, the cost of a hop, and memory. What takes everybody too
long on a graph of the size that is asked for is measured on a smaller one.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import cells, graphs, systems, targets
from benchmarks.cells import QUIET
from benchmarks.document import Chart, Table, bars, lines
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME, MEASURES, Measure
from benchmarks.options import cache_of, file, memory_of, option, say, scales
from benchmarks.peers import SYSTEMS, peer
from benchmarks.programs import TINY_SCALE
from benchmarks.runner import SuiteResults
from benchmarks.suite import CaseSuite, Parts, filled
from benchmarks.systems import MeasureResult, SystemResult
from benchmarks.targets import Target

_SMALL_SCALE = 14
OURS = "ours"
OWN = ("interpreted", "hop", "memory")
"""Measures of ours alone, among the aims and not beside the other systems."""
_GAP = {
    "load_text": 1.3, "pagerank": 0.088, "components": 0.027, "bfs": 0.014, "shortest_paths": 0.141,
}  # fmt: skip
"""Seconds that the GAP Benchmark Suite, in C++, takes on R-MAT 20 with two cores."""
_GAP_SCALE, _GAP_CORES, _GAP_RATIO = 20, 2, 3.0


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Options of the suite."""

    scale: tuple[int, ...] = option((20,), "R-MAT scale, or a range as 16..22", scales)
    edges: str = option("", "edges with whole-number ids instead of R-MAT", file)
    repeats: int = option(5, "runs of each measure")
    budget: float = option(15.0, "seconds after which no repeat is begun")
    systems: tuple[str, ...] = option(tuple(SYSTEMS), f"of {','.join(SYSTEMS)}", _words)
    measures: tuple[str, ...] = option(tuple(BY_NAME), "only these", _words)
    cores: int = 2


@dataclass(slots=True)
class OnGraph:
    """What all systems did on one graph."""

    graph: BenchGraph
    systems: list[SystemResult]

    @property
    def there(self) -> list[SystemResult]:
        """The systems that can be had here."""
        return [s for s in self.systems if s.unavailable is None]

    def outcome(self, system: str, measure: str) -> MeasureResult:
        """How a measure ended; empty where there was none."""
        outcomes = next((s.outcomes for s in self.systems if s.system == system), {})
        return outcomes.get(measure, MeasureResult())

    def median(self, system: str, measure: str) -> float | None:
        """Seconds, None where there are none."""
        taken = self.outcome(system, measure).seconds
        return statistics.median(taken) if taken else None

    def fact(self, system: str, measure: str, name: str) -> float | None:
        return self.outcome(system, measure).facts.get(name)

    def ratio(
        self, system: str, measure: str, beside: str, other: str | None = None
    ) -> float | None:
        """Of the medians of two systems."""
        top, bottom = self.median(system, measure), self.median(beside, other or measure)
        return top / bottom if top is not None and bottom else None

    def worker_bytes_per_edge(self) -> float | None:
        peak = self.fact("ours", "memory", "workers")
        return peak / self.graph.edges if peak is not None else None

    def unjudged(self) -> str | None:
        loud = any(o.others > QUIET for s in self.systems for o in s.outcomes.values())
        return "machine not quiet" if loud else None


@dataclass(slots=True)
class Results(SuiteResults[Sizes]):
    """One call of the suite.

    ``graphs`` are those that were asked for; ``small`` a smaller one, for measures that take too
    long on these.
    """

    graphs: list[OnGraph] = field(default_factory=list)
    small: OnGraph | None = None

    def every(self) -> list[OnGraph]:
        """The results on all graphs."""
        return [*self.graphs, self.small] if self.small else self.graphs

    def outcomes(self) -> Iterator[tuple[SystemResult, MeasureResult]]:
        """All measures of all systems on all graphs."""
        for one in self.every():
            for system in one.systems:
                for outcome in system.outcomes.values():
                    yield system, outcome

    def wrong(self) -> bool:
        """Whether any answer was wrong, or one of our own measures failed."""
        mine = [s for one in self.every() for s in one.systems if s.system.startswith(OURS)]
        return any(s.unavailable for s in mine) or any(
            outcome.problem and (outcome.problem.startswith("wrong") or system in mine)
            for system, outcome in self.outcomes()
        )

    def problems(self) -> list[str]:
        """None beside those in the tables."""
        return []

    def warning(self) -> str:
        """Why times are not to be quoted."""
        others = [outcome.others for _, outcome in self.outcomes() if outcome.seconds]
        loud = [share for share in others if share > QUIET]
        if not loud:
            return ""
        return (
            f"**Not to be quoted: the machine was not quiet.** During {len(loud)} of {len(others)} "
            f"measures other programs used more than {QUIET:.0%} of its cores, up to "
            f"{max(loud):.0%}; these are marked ⚠ with that share. Times, ratios and whether an "
            "aim was reached hold for this load only, and the load was not the same for every "
            "system."
        )

    def plain(self) -> dict[str, Any]:
        def facts(graph: BenchGraph) -> dict[str, Any]:
            return {k: v for k, v in asdict(graph).items() if k != "folder"}

        found = [
            {"graph": facts(one.graph), "systems": [asdict(s) for s in one.systems]}
            for one in self.every()
        ]
        return {"limits": SuiteResults.plain(self)["sizes"], "results": found}


def _prepare(parts: Sequence[str], sizes: Sizes, cache: Path) -> None:
    for name in sizes.systems:
        peer(name)
    for name in sizes.measures:
        if name not in BY_NAME:
            raise ValueError(f"no measure {name!r}; choose from {', '.join(BY_NAME)}")
    _graphs(sizes, cache)


def _graphs(sizes: Sizes, cache: Path) -> list[BenchGraph]:
    if sizes.edges:
        return [graphs.of_file(sizes.edges, cache)]
    return [graphs.of_scale(scale, cache) for scale in sizes.scale]


def _execute(r: Results, options: argparse.Namespace) -> None:
    cache, s = cache_of(options), r.sizes
    tiny, asked = graphs.of_scale(TINY_SCALE, cache), _graphs(s, cache)
    limits = systems.Limits(options.time_limit, memory_of(options), s.repeats, s.budget, s.cores)

    def measured(graph: BenchGraph, measures: list[str]) -> OnGraph:
        say(f"{graph.name}: {graph.vertices:,} vertices, {graph.edges:,} edges")
        for name in measures:  # found now, so that nobody is timed beside it
            graph.find(name)
        found = OnGraph(graph, [])
        for system in s.systems:
            with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
                turn = systems.run(system, graph, tiny, measures, limits, Path(scratch), say)
                found.systems.append(turn)
        return found

    offered = {g.name: [m for m in s.measures if BY_NAME[m].offered(g)] for g in asked}
    r.graphs = [measured(graph, offered[graph.name]) for graph in asked]
    smaller = [m for m in s.measures if not any(m in some for some in offered.values())]
    if smaller:
        r.small = measured(graphs.of_scale(_SMALL_SCALE, cache), smaller)


TARGETS: tuple[Target[OnGraph], ...] = (
    Target("load from text", lambda r: r.median("ours", "load_text"), 8, "s"),
    Target("load from Parquet", lambda r: r.median("ours", "load_parquet"), 5, "s"),
    Target("PageRank, GraphX / ours", targets.ratio("graphx", "pagerank", "ours"), 40, "×", True),
    Target("PageRank, ours / SciPy", targets.ratio("ours", "pagerank", "scipy"), 1.5),
    Target("PageRank, GraphX / ours with 2 partitions",
           targets.ratio("graphx", "pagerank", "ours-2"), 8, "×", True),
    Target("components, GraphX / ours",
           targets.ratio("graphx", "components", "ours"), 25, "×", True),
    Target("shortest paths", lambda r: r.median("ours", "shortest_paths"), 0.8, "s"),
    Target("interpreted messages per second and core",
           lambda r: r.fact("ours", "interpreted", "messages_per_second"), 300_000, "/s", True),
    Target("fixed cost of a hop", lambda r: r.fact("ours-2", "hop", "milliseconds"), 60, "ms"),
    Target("worker memory at the peak", OnGraph.worker_bytes_per_edge, 40, "bytes per edge"),
)  # fmt: skip


def _sections(r: Results) -> list[tuple[Any, ...]]:
    sections = [
        (one.graph.name, _facts(one), [
            *_beside(one),
            targets.table(
                TARGETS, one,
                "stated for R-MAT 20" if one.graph.scale != 20 else one.unjudged(), title="Aims",
            ),
            _beside_limits(one, r.sizes.cores),
        ])
        for one in r.every()
    ]  # fmt: skip
    if r.small:
        asked = ", ".join(one.graph.name for one in r.graphs)
        title, *rest = sections[-1]
        sections[-1] = (f"{title}, for what takes too long on {asked}", *rest)
    if len(r.graphs) > 1:
        sections.append(("Time against edges", "", _against_edges(r)))
    return sections


def _facts(one: OnGraph) -> str:
    """What the graph is, and which systems are not there."""
    graph = one.graph
    text = (
        f"{graph.vertices:,} vertices (ids with an edge), {graph.edges:,} edges: "
        f"{graph.duplicates:,} duplicates and {graph.self_loops:,} self-loops are kept by every "
        f"system. Values are {graph.values}. Paths start at {graph.origin}, the vertex with the "
        "most out-edges."
    )
    missing = [f"- {s.title}: not available: {s.unavailable}" for s in one.systems if s.unavailable]
    return "\n\n".join([text, "\n".join(missing)]) if missing else text


def _beside(one: OnGraph) -> Parts:
    """All systems beside each other: seconds, rates, memory, and what was made ready."""
    there = one.there
    shown = [m for m in MEASURES if m.name not in OWN]
    rows = [m for m in shown if any(m.name in s.outcomes for s in there)]

    def table(title: str, note: str, cell: Callable[[SystemResult, Measure], str]) -> Table:
        body = [[m.title, *(cell(s, m) for s in there)] for m in rows]
        return Table(["", *(s.title for s in there)], body, title, note)

    def seconds(s: SystemResult, measure: Measure) -> str:
        outcome = s.outcomes.get(measure.name, MeasureResult())
        if outcome.problem:
            return outcome.problem.replace("|", "/")
        ratio = None if s.system == OURS else one.ratio(s.system, measure.name, OURS)
        text = cells.spread(outcome.seconds) + (f" {cells.times(ratio)}" if ratio else "")
        # A ratio of times that were taken beside different loads says nothing.
        return f"{text} ⚠ {outcome.others:.0%}" if outcome.others > QUIET else text

    def rate(s: SystemResult, measure: Measure) -> str:
        taken, edges = one.median(s.system, measure.name), one.graph.edges
        if not taken:
            return "–"
        return " / ".join(f"{n / taken / 1e6:.3g}" for n in (edges, edges + one.graph.vertices))

    def chart(measure: Measure) -> Chart | None:
        taken = {s.title: one.median(s.system, measure.name) for s in there}
        known = {title: value for title, value in taken.items() if value is not None}
        return bars(measure.title, "s", known, {"seconds": known.values()})

    if not there:
        return []
    memory = [
        [s.title, f"{s.peak / 2**30:.2f}", f"{s.peak / one.graph.edges:,.0f}"]
        for s in there if s.peak
    ]  # fmt: skip
    return [
        table("Seconds", "Median in seconds (runs, least to greatest), and how many times that of "
              "ours with one partition.", seconds),
        *map(chart, rows),
        table("Processed per second, in millions", "The graph's edges over the median seconds / "
              "its edges and vertices over them: EPS and EVPS of LDBC Graphalytics, which counts "
              "the graph once, however many iterations there are.", rate),
        Table(["", "GiB", "bytes per edge"], memory, "Memory at the peak",
              "Resident memory of all processes of the system together, its largest sum."),
        filled(["", "made ready before the clock, once", "parts of the last run"],
               _prepared(there), title="Seconds besides, and inside"),
    ]  # fmt: skip


def _prepared(there: list[SystemResult]) -> Iterator[list[str]]:
    for s in there:
        for name, outcome in s.outcomes.items():
            made = cells.seconds(outcome.prepared) if outcome.prepared > 0.01 else "–"
            phases = {k[6:]: v for k, v in outcome.facts.items() if k.startswith("phase ")}
            told = ", ".join(f"{k} {cells.seconds(v)}" for k, v in phases.items() if v >= 0.001)
            yield [f"{s.title}: {BY_NAME[name].title}", made, told or "–"]


def _beside_limits(one: OnGraph, cores: int) -> Table | None:
    """Ours with one partition beside C++, on the graph that the limits are known for."""
    if one.graph.scale != _GAP_SCALE:
        return None
    unjudged = f"stated for {_GAP_CORES} cores" if cores != _GAP_CORES else one.unjudged()
    rows = []
    for name, limit in _GAP.items():
        mine = one.median("ours", name)
        if mine is not None:
            target: Target[float] = Target(BY_NAME[name].title, lambda ratio: ratio, _GAP_RATIO)
            ((title, _, *rest),) = targets.rows([target], mine / limit, unjudged)
            rows.append([title, f"{limit:.3f}", f"{mine:.3f}", *rest])
    head = ["", "GAP, seconds", "ours, 1 partition, seconds", "ratio", "aim", ""]
    note = (
        f"Kernels of the GAP Benchmark Suite on a machine such as this, R-MAT {_GAP_SCALE}, "
        f"{_GAP_CORES} cores; beside loading, its reading and building. Ours is the median of a "
        "whole run(), Spark's job and the commit included."
    )
    return Table(head, rows, "What remains to C++", note) if rows else None


def _against_edges(r: Results) -> Parts:
    """Of each measure a chart of seconds against edges, and a table of time per edge."""
    names = [one.graph.name for one in r.graphs]
    edges = [float(one.graph.edges) for one in r.graphs]
    titles = {s.system: s.title for one in r.graphs for s in one.there}
    rows, charts = [], []
    for measure in (m for m in MEASURES if m.name not in OWN):
        series = {
            title: [one.median(system, measure.name) for one in r.graphs]
            for system, title in titles.items()
        }
        for title, values in series.items():
            each = [None if v is None else v / m * 1e9 for v, m in zip(values, edges, strict=True)]
            known = [v for v in each if v is not None]
            if known:
                shown = [
                    "–" if v is None else f"{cells.seconds(v)} ({n:.3g})"
                    for v, n in zip(values, each, strict=True)
                ]
                flat = f"{max(known) / min(known):.2f}"
                rows.append([f"{measure.title}: {title}", *shown, flat])
        charts.append(lines(measure.title, "s", edges, names, "edges of the graph", series))
    table = Table(
        ["", *names, "most / least"], rows, "Seconds (nanoseconds per edge)",
        "Most / least: of the nanoseconds per edge.",
    )  # fmt: skip
    return [table, *charts]


def _notes(r: Results) -> list[str]:
    """How it was measured, and each system's own words."""
    notes = [
        "Every system ran alone in processes of its own, first all measures on R-MAT 8 untimed, "
        "then on this graph. A time is shown only if the answer equals the reference: PageRank to "
        "1e-9 relative L1, coefficients to 1e-9, all others exactly.",
        "PageRank: damping 0.85, from 1/n, the rank of vertices without out-edges spread evenly. "
        "Community detection: in each iteration the most frequent label at the other ends of a "
        "vertex's edges, the least of several; duplicates count. Local clustering coefficient: of "
        "the directed graph without duplicates and self-loops, or where a system's is for "
        "undirected graphs, of that graph; the triangles to be found are the same.",
    ]
    for measure in MEASURES:
        if measure.most_edges is not None:
            notes.append(f"{measure.title}: on graphs of up to {measure.most_edges:,} edges.")
    for title, s in {s.title: s for one in r.every() for s in one.systems}.items():
        versions = ", ".join(f"{name} {version}" for name, version in s.versions.items())
        notes.append(f"{title}{f' ({versions})' if versions else ''}: {s.about}")
    return notes


def _stem(sizes: Sizes) -> str:
    """The graphs that were asked for, as the end of a file's name."""
    if sizes.edges:
        return f"batch-{Path(sizes.edges).name.partition('.')[0].lower().replace(' ', '-')}"
    first, last = sizes.scale[0], sizes.scale[-1]
    return f"batch-r-mat-{first}" + (f"-to-r-mat-{last}" if last != first else "")


SUITE = CaseSuite(
    name="batch",
    title="The whole answer, from scratch",
    about="A graph that does not change, from its file to the answers, by every system in turn: "
    "the six algorithms of LDBC Graphalytics, loading and memory.",
    sizes=Sizes, results=Results, prepare=_prepare, execute=_execute, failed=Results.wrong,
    warning=Results.warning, sections=_sections, notes=_notes, stem=_stem, time_limit=120,
    quick="--scale 13 --repeats 2 --budget 2 --time-limit 60 "
    "--systems ours,graphx,graphframes,scipy,igraph,networkit,networkx",
)  # fmt: skip
