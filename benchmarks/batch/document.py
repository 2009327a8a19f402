"""A run of the suite ``batch`` as a `Document`: a section for each graph, notes on each system."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from benchmarks.batch import charts, tables
from benchmarks.batch.results import Run
from benchmarks.cells import QUIET
from benchmarks.document import Document, Section
from benchmarks.graphs import BenchGraph


def plain(run: Run) -> dict[str, Any]:
    """The figures, for JSON."""

    def graph_facts(graph: BenchGraph) -> dict[str, Any]:
        return {k: v for k, v in asdict(graph).items() if k != "folder"}

    return {
        "limits": run.limits,
        "results": [
            {"graph": graph_facts(graph), "systems": [asdict(s) for s in standings]}
            for graph, standings in run.every()
        ],
    }


def of_run(run: Run) -> Document:
    """All that the run says."""
    cores = run.limits["cores"]
    sections = [
        Section(graph.name, tables.graph(graph, standings), tables.parts(run, k))
        for k, (graph, standings) in enumerate(run.every())
    ]
    if run.small:
        asked = ", ".join(graph.name for graph, _ in run.results)
        sections[-1].title += f", for what takes too long on {asked}"
    if len(run.results) > 1:
        sections.append(Section("Time against edges", parts=charts.against_edges(run)))
    return Document(
        "batch",
        f"The whole answer, from scratch: {', '.join(graph.name for graph, _ in run.results)}",
        "A graph that does not change, from its file to the answers, by every system in turn: the "
        "six algorithms of LDBC Graphalytics, loading and memory.",
        f"./dev {' '.join(run.command)}",
        run.machine,
        f"{cores} of {run.machine['cores']} cores used",
        _disturbed(run),
        sections,
        tables.notes(run),
    )


def _disturbed(run: Run) -> str:
    every = [outcome for outcome in run.outcomes() if outcome.seconds]
    loud = [o.others for o in every if o.others > QUIET]
    if not loud:
        return ""
    return (
        f"**Not to be quoted: the machine was not quiet.** During {len(loud)} of {len(every)} "
        f"measures other programs used more than {QUIET:.0%} of its cores, up to {max(loud):.0%}; "
        "these are marked ⚠ with that share. Times, ratios and whether an aim was reached hold "
        "for this load only, and the load was not the same for every system."
    )
