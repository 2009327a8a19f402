"""The document of a profile: stacked bars, and tables which say the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.document import Chart, Document, Section, Series, Table
from benchmarks.profile.phases import REST, SHOWN
from benchmarks.profile.runs import CHANGES

Row = dict[str, Any]
_TITLES = {
    "load": "load",
    "pagerank": "PageRank, 10 iterations",
    "components": "components",
    "shortest_paths": "shortest paths",
    "bfs": "breadth-first search",
    "ingest": f"main loop: {CHANGES:,} changes",
    "query": "main loop: query",
}
MOST = 0.15  # of the wall time that may be not accounted for


def document(
    samples: Sequence[Row], graph: str, command: str, machine: dict[str, Any], settings: str
) -> Document:
    """What the samples say."""
    sections = [_section("Warm", "The median run of each.", [s for s in samples if s["warm"]])]
    first = [s for s in samples if not s["warm"]]
    text = "The first of each in its process: kernels are loaded, workers started, graphs loaded."
    sections.append(_section("First", text, first))
    notes = [f"*{name}*: {about}." for name, about in SHOWN.items() if about]
    notes += [
        "Of tasks that run side by side the one which ended last is followed, hop by hop, so that "
        "the phases of a run add up to its wall time.",
        "Of loads Spark's event log is all there is: along the slowest task of every stage. It "
        "counts whole milliseconds.",
    ]
    over = unaccounted(samples)
    if over:
        notes.append(f"More than {MOST:.0%} is not accounted for in: {', '.join(over)}.")
    return Document(
        suite="profile",
        title=f"Where a run's time goes: {graph}",
        about="Ours alone, phase by phase: `run()` as a user calls it, committed to LMDB.",
        command=command,
        machine=machine,
        settings=settings,
        sections=sections,
        notes=notes,
    )


def median(samples: Sequence[Row]) -> list[Row]:
    """Of the samples of one kind, the one whose seconds are their median; in their order."""
    kinds: dict[tuple[str, int], list[Row]] = {}
    for sample in samples:
        kinds.setdefault((sample["name"], sample["partitions"]), []).append(sample)
    ordered = (sorted(kind, key=lambda s: float(s["seconds"])) for kind in kinds.values())
    return [kind[(len(kind) - 1) // 2] for kind in ordered]


def shown(samples: Sequence[Row]) -> list[Row]:
    """Of the warm samples the median ones, and all first ones."""
    return [*median([s for s in samples if s["warm"]]), *(s for s in samples if not s["warm"])]


def unaccounted(samples: Sequence[Row]) -> list[str]:
    """The runs of which too much is not accounted for."""
    return [_title(s) for s in shown(samples) if s["shown"][REST] > MOST * s["seconds"]]


def _section(title: str, text: str, samples: Sequence[Row]) -> Section:
    chosen = median(samples)
    used = [name for name in SHOWN if any(s["shown"][name] >= 5e-5 for s in chosen)]
    unit, factor = ("s", 1.0) if title == "First" else ("ms", 1e3)
    titles = [_title(s) for s in chosen]
    chart = Chart(
        kind="stacked",
        title=f"{title}: where the time goes",
        unit=unit,
        categories=titles,
        series=[Series(name, [s["shown"][name] * factor for s in chosen]) for name in used],
    )
    digits = 2 if unit == "s" else 1
    rows = [
        [_title(s), f"**{s['seconds'] * factor:,.{digits}f}**"]
        + [f"{s['shown'][name] * factor:,.{digits}f}" for name in used]
        for s in chosen
    ]
    table = Table([unit, "whole", *used], rows)
    return Section(title, text, [chart, table, _spark(chosen, factor, unit, digits)])


def _spark(chosen: Sequence[Row], factor: float, unit: str, digits: int) -> Table:
    """The same runs as Spark's event log has them."""
    names = ["submitted to ended", "queued", "deserialised", "ran"]
    rows = [
        [_title(s), f"{s['spark']['jobs']}"]
        + [f"{s['spark'][name] * factor:,.{digits}f}" for name in names]
        for s in chosen
    ]
    note = (
        "Jobs from submission to end; of each stage's slowest task: from the stage's submission "
        "to its launch, deserialising it, and running it in the JVM, which includes Python."
    )
    return Table([unit, "jobs", *names], rows, "Spark's own count", note)


def _title(sample: Row) -> str:
    title, partitions = _TITLES[sample["name"]], sample["partitions"]
    return title if sample["name"] in ("ingest", "query") else f"{title}, P = {partitions}"
