"""A run's results as JSON, and as Markdown tables of medians, spread and ratios."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import aims
from benchmarks.graphs import BenchGraph
from benchmarks.measures import BY_NAME, MEASURES, Measure
from benchmarks.turns import Outcome, Standing

OURS = "ours"
QUIET = 0.1  # share of the cores that others may use before a time is not to be quoted


@dataclass(slots=True)
class Run:
    """One call of the harness: where, how, and what was found on each graph."""

    machine: dict[str, Any]
    command: list[str]
    limits: dict[str, Any]
    results: list[tuple[BenchGraph, list[Standing]]] = field(default_factory=list)

    def add(self, graph: BenchGraph, standings: list[Standing]) -> None:
        """Append what the systems did on one graph."""
        self.results.append((graph, standings))

    def wrong(self) -> bool:
        """Whether any answer was wrong, or one of our own measures failed."""
        everyone = [s for _, standings in self.results for s in standings]
        if any(s.unavailable and s.system.startswith(OURS) for s in everyone):
            return True
        return any(
            outcome.problem
            and (outcome.problem.startswith("wrong") or standing.system.startswith(OURS))
            for standing in everyone
            for outcome in standing.outcomes.values()
        )


def save(run: Run, out: Path) -> list[Path]:
    """Write ``batch-GRAPH-DATE.md`` and ``.json`` to ``out``; returns the two paths."""
    out.mkdir(parents=True, exist_ok=True)
    names = [graph.name.lower().replace(" ", "-").removesuffix(".txt") for graph, _ in run.results]
    stem = f"batch-{names[0]}" + (f"-to-{names[-1]}" if len(names) > 1 else "")
    paths = [out / f"{stem}-{run.machine['date'][:10]}{end}" for end in (".md", ".json")]
    paths[0].write_text(markdown(run))
    paths[1].write_text(json.dumps(_plain(run), indent=1) + "\n")
    return paths


def _plain(run: Run) -> dict[str, Any]:
    def graph_facts(graph: BenchGraph) -> dict[str, Any]:
        return {k: v for k, v in asdict(graph).items() if k != "folder"}

    return {
        "machine": run.machine,
        "command": run.command,
        "limits": run.limits,
        "results": [
            {"graph": graph_facts(graph), "systems": [asdict(s) for s in standings]}
            for graph, standings in run.results
        ],
    }


def markdown(run: Run) -> str:
    """The whole report as Markdown."""
    at = where(run.machine, ["bench", *run.command], run.limits["cores"])
    parts = ["# Suite batch", at, _disturbed(run)]
    for graph, standings in run.results:
        parts += [f"## {graph.name}", _graph(graph), _table(graph, standings)]
        parts += [_prepared(standings), _missing(standings), aims.table(graph, standings)]
    if len(run.results) > 1:
        parts += ["## Time per edge", _per_edge(run)]
    parts += ["## Notes", _notes(run)]
    return "\n\n".join(part for part in parts if part) + "\n"


def where(m: dict[str, Any], command: list[str], cores: int) -> str:
    """The command, and the machine as `machine.describe` gives it."""
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    return (
        f"`./dev {' '.join(command)}`  \n"
        f"{m['date']}; {m['processor']}, {cores} of {m['cores']} cores used, "
        f"{m['memory'] / 2**30:.0f} GiB; {m['system']}, Python {m['python']}; {versions}; "
        f"revision {m['revision']}; load "
        f"average at the start {m['load_average']}."
    )


def disturbed(others: float, when: str) -> str:
    """A warning where other programs used more of the cores than is quiet; or empty."""
    if others <= QUIET:
        return ""
    return (
        f"**Not to be quoted: the machine was not quiet.** Other programs used up to "
        f"{others:.0%} of its cores {when}."
    )


def _disturbed(run: Run) -> str:
    every = [o for _, found in run.results for s in found for o in s.outcomes.values() if o.seconds]
    loud = [o.others for o in every if o.others > QUIET]
    if not loud:
        return ""
    return (
        f"**Not to be quoted: the machine was not quiet.** During {len(loud)} of {len(every)} "
        f"measures other programs used more than {QUIET:.0%} of its cores, up to {max(loud):.0%}; "
        "these are marked ⚠ with that share. Times, ratios and whether an aim was reached hold "
        "for this load only, and the load was not the same for every system."
    )


def _graph(graph: BenchGraph) -> str:
    return (
        f"{graph.vertices:,} vertices (ids with an edge), {graph.edges:,} edges as drawn: "
        f"{graph.duplicates:,} duplicates and {graph.self_loops:,} self-loops are kept by every "
        f"system. Paths start at {graph.origin}, the vertex with the most out-edges. Each cell is "
        "the median in seconds, (n runs, least to greatest), and how many times ours with one "
        "partition."
    )


def _table(graph: BenchGraph, standings: list[Standing]) -> str:
    there = [s for s in standings if s.unavailable is None]
    ours = next((s for s in there if s.system == OURS), None)
    rows = [["", *(s.title for s in there)]]
    for measure in MEASURES:
        if measure.name in aims.OWN or not any(measure.name in s.outcomes for s in there):
            continue
        mine = median(ours.outcomes.get(measure.name)) if ours else None
        rows.append([measure.title, *(_cell(s, measure, mine, ours) for s in there)])
    peaks = [f"{s.peak / graph.edges:,.0f}" for s in there]
    rows.append(["peak of all processes, bytes per edge", *peaks])
    return grid(rows)


def grid(rows: list[list[str]]) -> str:
    """A Markdown table; the first row is its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def median(outcome: Outcome | None) -> float | None:
    """Seconds, None where there are none."""
    return statistics.median(outcome.seconds) if outcome and outcome.seconds else None


def _cell(s: Standing, measure: Measure, mine: float | None, ours: Standing | None) -> str:
    outcome = s.outcomes.get(measure.name)
    if outcome is None:
        return "–"
    if outcome.problem:
        return outcome.problem.replace("|", "/")
    middle, least, most = median(outcome) or 0.0, min(outcome.seconds), max(outcome.seconds)
    text = f"**{seconds(middle)}** ({len(outcome.seconds)}, {seconds(least)} to {seconds(most)})"
    if mine and s is not ours:
        text += f" {middle / mine:.3g}×"
    # A ratio of times that were taken beside different loads says nothing.
    return f"{text} ⚠ {outcome.others:.0%}" if outcome.others > QUIET else text


def seconds(value: float) -> str:
    """Three significant digits, without an exponent."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:.{digits if value >= 0.1 else 4}f}"


def _missing(standings: Iterable[Standing]) -> str:
    return "\n".join(
        f"- {s.title}: not available: {s.unavailable}" for s in standings if s.unavailable
    )


def _prepared(standings: Iterable[Standing]) -> str:
    lines = []
    for s in standings:
        made = [
            f"{BY_NAME[name].title} {seconds(outcome.prepared)} s"
            for name, outcome in s.outcomes.items()
            if outcome.prepared > 0.01
        ]
        if made:
            lines.append(f"- {s.title}: made ready once, before the clock: {', '.join(made)}")
        for name, outcome in s.outcomes.items():
            parts = {k[6:]: v for k, v in outcome.facts.items() if k.startswith("phase ")}
            if parts:
                told = ", ".join(f"{k} {seconds(v)}" for k, v in parts.items() if v >= 0.001)
                lines.append(f"- {s.title}: {BY_NAME[name].title}: seconds of the last run: {told}")
    return "\n".join(lines)


def _per_edge(run: Run) -> str:
    """Nanoseconds per edge of each measure and scale, and largest over smallest."""
    rows = [["nanoseconds per edge", *(graph.name for graph, _ in run.results), "most / least"]]
    for k, standing in enumerate(run.results[0][1]):
        for name in standing.outcomes:
            if name in aims.OWN:
                continue
            middles = [median(found[k].outcomes.get(name)) for _, found in run.results]
            each = [
                middle / graph.edges * 1e9 if middle is not None else None
                for middle, (graph, _) in zip(middles, run.results, strict=True)
            ]
            known = [value for value in each if value is not None]
            if known:
                cells = ["–" if value is None else f"{value:.3g}" for value in each]
                flat = f"{max(known) / min(known):.2f}"
                rows.append([f"{standing.title}: {name}", *cells, flat])
    return grid(rows)


def _notes(run: Run) -> str:
    lines = [
        "- Every system ran alone in processes of its own, first all measures on R-MAT 8 untimed, "
        "then on this graph. A time is shown only if the answer equals the reference: PageRank to "
        "1e-9 relative L1, components as a partition, distances exactly.",
        "- PageRank: damping 0.85, from 1/n, the rank of vertices without out-edges spread evenly.",
    ]
    seen: dict[str, Standing] = {s.title: s for _, standings in run.results for s in standings}
    for title, s in seen.items():
        versions = ", ".join(f"{name} {version}" for name, version in s.versions.items())
        lines.append(f"- {title}{f' ({versions})' if versions else ''}: {s.about}")
    return "\n".join(lines)
