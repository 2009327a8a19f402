"""Ours beside the systems for changing graphs, each on the largest graph that it finished."""

from __future__ import annotations

import math
import statistics

from benchmarks import cells
from benchmarks.document import Chart, Section, Series, Table
from benchmarks.evolving.beside import Beside
from benchmarks.evolving.results import TITLES, Results, ratio
from benchmarks.runner import CaseResult

_QUERIES = {
    "a-shortest_paths": "shortest_paths",
    "a-components": "components",
    "b-pagerank": "pagerank",
}


def sections(r: Results) -> list[Section]:
    """Queries, shares and ingest, a table for each; without those that have no rows."""
    parts = [_queries(r), _shares(r), _ingest(r)]
    titles = (
        f"Beside systems that keep an answer up: queries after {r.sizes.changes:,} changes each",
        "Beside them: after a share of the edges has arrived",
        "Beside them: sustained ingest, shortest paths kept up",
    )
    return [Section(title, "", part) for title, part in zip(titles, parts, strict=True)]


def notes(r: Results) -> list[str]:
    """How each was run."""
    there = [one for one in r.beside.values() if not one.unavailable]
    lines = []
    for one in there:
        versions = ", ".join(f"{name} {version}" for name, version in one.versions.items())
        lines.append(f"{one.title} ({versions}): {one.about}")
    if there:
        lines.append(
            "Beside: the same edges and changes for both, read from the same files. A system tries "
            "larger and larger graphs until one does not finish; ours is measured on the largest "
            "that it finished, in this run. Its PageRank has as many iterations as its definition "
            "needs on the edges at first until one changes the ranks by no more than 1e-6 in all, "
            "or its whole surfers stop moving. Answers are compared after the first batch, after "
            "the first counted one or each share, and after the last one."
        )
        lines.append(
            "Beside, shares: changes arrive in batches of at most a hundredth of the edges (the "
            "epochs of the paper's measurement), each answered by the others before the next; "
            "*last batch*: from its arrival to the answer. Theirs keep no durable state; ours "
            "commits every batch and answer."
        )
    return lines


def _pairs(
    r: Results, cases: list[str]
) -> list[tuple[Beside, str, str, CaseResult, CaseResult | None]]:
    """(system, case, graph, what it found there, what ours found there)."""
    found = []
    for one in r.beside.values():
        for case in cases:
            graph = one.best(case)
            if graph:
                theirs = one.tried[graph][case]
                found.append((one, case, graph, theirs, r.ours_on(graph, case)))
    return found


def _queries(r: Results) -> list[Table | Chart]:
    head = [
        "", "graph", "its changes to answer", "99 %", "first answer",
        "ours, ingest and query", "99 %", "query alone", "its / ours",
    ]  # fmt: skip
    rows, names = [], []
    bars: dict[str, list[float | None]] = {"theirs": [], "ours": []}
    for one, case, graph, theirs, ours in _pairs(r, list(_QUERIES)):
        its, alone = theirs.of("query"), ours.of("query") if ours else []
        # Theirs is from the first change handed in: so is ours, which they are compared with.
        taken = ours.of("ingest")[: len(alone)] if ours else []
        mine = [sum(pair) for pair in zip(taken, alone, strict=True)]
        rows.append([
            f"{one.title}: {TITLES[_QUERIES[case]]}", graph, cells.middle(its), _most(its),
            cells.middle(theirs.of("first")), cells.middle(mine), _most(mine), cells.middle(alone),
            _times(its, mine),
        ])  # fmt: skip
        names.append(f"{one.title}, {TITLES[_QUERIES[case]]}, {graph}")
        bars["theirs"].append(_median(its))
        bars["ours"].append(_median(mine))
    if not rows:
        return []
    series = [Series(name, values) for name, values in bars.items()]
    title = f"Seconds from {r.sizes.changes:,} changes to the answer"
    return [Table(head, rows), Chart("bars", title, "s", names, series, log=True)]


def _shares(r: Results) -> list[Table | Chart]:
    head = [
        "", "graph", "its last batch", "ours, last batch and query", "ours, query",
        "ours without approximation, last batch and query", "query", "its / ours",
    ]  # fmt: skip
    rows, charts = [], []
    for one, case, graph, theirs, ours in _pairs(r, ["c-shortest_paths", "c-pagerank"]):
        batch = r.ours_on(graph, f"{case}-batch")
        lines: dict[str, list[float | None]] = {}
        for share in r.sizes.shares:
            its = theirs.of(f"last {share:g}")
            last, query, late, later = (
                found.of(f"{name} {share:g}") if found else []
                for found in (ours, batch)
                for name in ("last", "query")
            )
            rows.append([
                f"{one.title}: {TITLES[case[2:]]}, {share:.0%}", graph, cells.middle(its),
                *map(cells.middle, (last, query, late, later)), _times(its, last),
            ])  # fmt: skip
            for name, value in ((one.title, its), ("ours", last), ("ours, batch", late)):
                lines.setdefault(name, []).append(_median(value))
        title = f"{TITLES[case[2:]]}, {graph}: from the last changes to the answer"
        charts.append(_line(title, r, lines))
    return [Table(head, rows), *charts] if rows else []


def shares(r: Results) -> list[Table | Chart]:
    """On the suite's own graph: from scratch after each share, and figure 5 of the paper."""
    found: list[Table | Chart] = []
    every = (pair for systems in r.arrived.values() for pair in systems.items())
    titles = {name: s.title for name, s in every if not s.unavailable}
    rows = []
    for program in ("shortest_paths", "pagerank"):
        lines: dict[str, list[float | None]] = {
            "ours": [r.median(f"c-{program}", f"last {s:g}") for s in r.sizes.shares],
            "ours, batch": [r.median(f"c-{program}-batch", f"last {s:g}") for s in r.sizes.shares],
        }
        for name, title in titles.items():
            lines[title] = [r.arrived_seconds(name, program, s) for s in r.sizes.shares]
        for number, share in enumerate(r.sizes.shares):
            values = [each[number] for each in lines.values()]
            if any(value is not None for value in values[2:]):
                rows.append([
                    f"{TITLES[program]}, {share:.0%}", *map(cells.seconds, values),
                    *(cells.times(ratio(value, values[0])) for value in values[2:]),
                ])  # fmt: skip
        if any(value is not None for each in lines.values() for value in each):
            title = f"{TITLES[program]}, {r.graph}: from the last changes to the answer"
            found.append(_line(title, r, lines))
    if rows:
        names = list(titles.values())
        head = ["", "ours, last batch and query", "ours, batch", *names]
        found.insert(0, Table([*head, *(f"{name} / ours" for name in names)], rows))
    return found


def _line(title: str, r: Results, lines: dict[str, list[float | None]]) -> Chart:
    series = [Series(name, values) for name, values in lines.items() if set(values) != {None}]
    return Chart(
        "lines", title, "s", [f"{share:.0%}" for share in r.sizes.shares], series, log=True,
        x=[100 * share for share in r.sizes.shares], x_title="% of the edges changed",
    )  # fmt: skip


def _ingest(r: Results) -> list[Table | Chart]:
    head = ["", "graph", "its changes per second", "ours", "ours / its"]
    rows, names = [], []
    bars: dict[str, list[float | None]] = {"theirs": [], "ours": []}
    for one, _, graph, theirs, _ in _pairs(r, ["c-shortest_paths"]):
        mine = r.ours_on(graph, "d-shortest_paths")
        its, own = (_rate(found.of("rate")) if found else None for found in (theirs, mine))
        counts = map(cells.number, (its, own))
        rows.append([one.title, graph, *counts, cells.times(ratio(own, its))])
        names.append(f"{one.title}, {graph}")
        bars["theirs"].append(its)
        bars["ours"].append(own)
    if not rows:
        return []
    series = [Series(name, values) for name, values in bars.items()]
    title = "Changes per second, shortest paths kept up"
    return [Table(head, rows), Chart("bars", title, "changes/s", names, series, log=True)]


def _median(found: list[float]) -> float | None:
    return statistics.median(found) if found else None


def _rate(found: list[float]) -> float | None:
    return statistics.harmonic_mean(found) if found else None


def _most(found: list[float]) -> str:
    at = math.ceil(0.99 * len(found)) - 1
    return cells.seconds(sorted(found)[at]) if found else "–"


def _times(its: list[float], mine: list[float]) -> str:
    return cells.times(ratio(_median(its), _median(mine)))
