"""Suite ``asynchrony``: what delay bounds above 1 buy on Spark, and what they cost.

Parts: a, the paper's table 2; b, hops and time to convergence by bound, on R-MAT and on a grid of
streets, by hash and by structure; c, one partition at a time slower than the others; d, the
protocol's cost where everything is in one partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import cells
from benchmarks.asynchrony.cases import CASES, context, graphs_of, named
from benchmarks.asynchrony.runs import graph_of
from benchmarks.asynchrony.sizes import Sizes
from benchmarks.document import Chart, Series, Table
from benchmarks.runner import SuiteResults
from benchmarks.suite import CaseSuite, Parts, filled
from benchmarks.targets import Target, median, ratio


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def ratio(self, case: str, name: str, beside: str, other: str | None = None) -> float | None:
        """Of two medians; None where either is missing. Where a run was ended, over the seconds
        that it had."""
        top, bottom = self.median(case, name), self.median(beside, other or name)
        if top is None and name.endswith(" seconds"):
            top = self.median(case, name.removesuffix("seconds") + "late")
        return top / bottom if top is not None and bottom else None


def _slowed(r: Results) -> float | None:
    """What a straggler costs asynchronous runs, over what it costs synchronous ones; at most, where
    a synchronous run with a straggler was ended."""
    if r.median("c-grid", "auto straggler seconds") is None:
        return None
    auto = r.ratio("c-grid", "auto straggler seconds", "c-grid", "auto even seconds")
    waiting = r.ratio("c-grid", "B=1 straggler seconds", "c-grid", "B=1 even seconds")
    return auto / waiting if auto is not None and waiting else None


def _targets() -> Iterator[Target[Results]]:
    for case, many in (("a-few", 4), ("a-many", 8)):
        prepares = median(case, "B=1 prepares")
        yield Target(f"prepares at B=1, R-MAT, {many} partitions", prepares, 0, "")
    for what, bound in (("hops", 5), ("seconds", 3)):
        find = ratio("b-grid-structure", f"B=1 {what}", other=f"auto {what}")
        yield Target(f"{what} on the grid by structure, B=1 / auto", find, bound, "×", True)
    find = median("b-grid-structure", "auto seconds")
    yield Target("the grid by structure, auto", find, 2.0, "s")
    yield Target("one slow / none slow on the grid, auto over B=1", _slowed, 0.6)
    find = ratio("b-rmat-hash", "B=256 seconds", other="B=1 seconds")
    yield Target("seconds on R-MAT by hash, B=256 / B=1", find, 2.0)
    for case in ("hash", "structure"):
        find = ratio(f"b-rmat-{case}", "auto seconds", other="B=1 seconds")
        yield Target(f"seconds on R-MAT by {case}, auto / B=1", find, 1.05)
    for case, said in (("shortest_paths", "shortest paths"), ("components", "components")):
        cost = f"B={Sizes().cost}"  # the targets are judged at this bound only
        for place, title in (("alone", "one partition"), ("beside", "one of two partitions")):
            find = ratio(f"d-{case}", f"{cost} {place} seconds", other=f"B=1 {place} seconds")
            yield Target(f"all in {title}, {said}, B=256 / B=1", find, 1.15)
        find = ratio(f"d-{case}", f"{cost} beside kernel", other="B=1 alone kernel")
        yield Target(f"the same, time in tasks: sweeps / iterations, {said}", find, 1.15)


def _bounds_charts(r: Results) -> list[Chart]:
    """Bars for each bound, a series for each graph and placement; of hops and of seconds."""
    names = [named(bound) for bound in r.sizes.bounds]
    found = []
    for what, unit in (("hops", "hops"), ("seconds", "s")):
        series = []
        for graph, said in (("rmat", "R-MAT"), ("grid", "grid")):
            for how, placed in (("hash", "hash"), ("structure", r.sizes.partitioner)):
                case = f"b-{graph}-{how}"
                values = [r.median(case, f"{name} {what}") for name in names]
                if any(value is not None for value in values):
                    series.append(Series(f"{said}, {placed}", values))
        if series:
            title = "Hops to convergence" if what == "hops" else "Seconds to convergence"
            found.append(Chart("bars", title, unit, names, series, log=True))
    return found


def _straggler_charts(r: Results) -> list[Chart]:
    """Bars of seconds, with a partition that is slow and without."""
    series, names = [], list(dict.fromkeys(map(named, (r.sizes.bounds[0], r.sizes.bounds[-1]))))
    cases = [("c-rmat", "R-MAT"), ("c-grid", "grid")]
    categories = [f"{said}, {name}" for _, said in cases for name in names]
    for kind, title in (("even", "none slow"), ("straggler", "one slow")):
        values = [r.median(case, f"{name} {kind} seconds") for case, _ in cases for name in names]
        series.append(Series(title, values))
    if all(value is None for one in series for value in one.values):
        return []
    return [
        Chart("bars", "Seconds with and without a straggler", "s", categories, series, log=True)
    ]


def _sections(r: Results) -> list[tuple[str, Parts]]:
    return [
        (f"The paper's table 2: shortest paths on R-MAT {r.sizes.scale}", [_paper(r)]),
        (
            f"Shortest paths, {r.sizes.partitions} partitions: hops and time by bound",
            [_bounds(r), *_bounds_charts(r)],
        ),
        ("A straggler", [_straggler(r), *_straggler_charts(r)]),
        ("Everything in one partition", [_cost(r)]),
    ]


def _graphs(r: Results) -> list[str]:
    told = {}
    for name, case in r.cases.items():
        kind = f"grid {r.sizes.grid} x {r.sizes.grid}"
        kind = kind if "grid" in name else f"R-MAT {r.sizes.scale}"
        if case.edges:
            (vertices,) = case.figures["vertices"]
            told[kind] = (
                f"- {kind}: {vertices:,.0f} vertices, {case.edges:,} edges; paths start at "
                f"{case.origin}."
            )
    return list(told.values())


def _paper(r: Results) -> Table | None:
    names = ("iterations", "hops", "updates", "prepares", "prepare_messages", "held")
    rows = [["partitions", "B", "seconds", *names, "prepares / updates", "answer"]]
    for case, many in zip(("a-few", "a-many"), r.sizes.paper_partitions, strict=False):
        for bound in r.sizes.paper:
            if not _ran(r, case, named(bound)):
                continue
            counts = [cells.number(r.median(case, f"{named(bound)} {n}")) for n in names]
            share = r.ratio(case, f"{named(bound)} prepares", case, f"{named(bound)} updates")
            rows.append([
                str(many), bound, _seconds(r, case, named(bound)), *counts,
                f"{share or 0:.3g}", _answer(r, case, named(bound)),
            ])  # fmt: skip
    return filled(rows[0], rows[1:], 2)


def _bounds(r: Results) -> Table | None:
    rows = [["", "B", "hops", "B=1 / this", "seconds", "B=1 / this", "iterations", "updates",
             "answer"]]  # fmt: skip
    for graph in ("rmat", "grid"):
        for how, partitioner in (("hash", "hash"), ("structure", r.sizes.partitioner)):
            case = f"b-{graph}-{how}"
            for name in map(named, r.sizes.bounds):
                if not _ran(r, case, name):
                    continue
                fewer = r.ratio(case, "B=1 hops", case, f"{name} hops")
                less = r.ratio(case, "B=1 seconds", case, f"{name} seconds")
                share = r.median(case, f"{name} boundary_share") or 0.0
                rows.append([
                    f"{'R-MAT' if graph == 'rmat' else 'grid'}, {partitioner}, "
                    f"{share:.2%} of vertices at a boundary",
                    _bound(r, case, name),
                    cells.number(r.median(case, f"{name} hops")), cells.times(fewer),
                    _seconds(r, case, name), cells.times(less),
                    cells.number(r.median(case, f"{name} iterations")),
                    cells.number(r.median(case, f"{name} updates")),
                    _answer(r, case, name),
                ])  # fmt: skip
    return filled(rows[0], rows[1:], 2)


def _straggler(r: Results) -> Table | None:
    rows = [["", "B", "seconds, none slow", "one slow", "slow / none", "B=1 / this, one slow",
             "idle, none slow", "one slow"]]  # fmt: skip
    first, last = named(r.sizes.bounds[0]), named(r.sizes.bounds[-1])
    for case in ("c-rmat", "c-grid"):
        for name in dict.fromkeys((first, last)):
            if not _ran(r, case, f"{name} even"):
                continue
            slow = f"{name} straggler"
            idle = [r.median(case, f"{n} idle") for n in (f"{name} even", slow)]
            rows.append([
                "R-MAT" if case == "c-rmat" else "grid", name,
                _seconds(r, case, f"{name} even"), _seconds(r, case, slow),
                cells.times(r.ratio(case, f"{slow} seconds", case, f"{name} even seconds")),
                cells.times(r.ratio(case, f"{first} straggler seconds", case, f"{slow} seconds")),
                *("–" if share is None else f"{share:.0%}" for share in idle),
            ])  # fmt: skip
    return filled(rows[0], rows[1:], 2)


def _cost(r: Results) -> Table | None:
    rows = [["", "", "B", "seconds", "over B=1", "seconds in tasks", "over 1 partition, B=1",
             "hops", "iterations"]]  # fmt: skip
    for case, program in (("d-shortest_paths", "shortest paths"), ("d-components", "components")):
        for where, said in (("alone", "1 partition"), ("beside", "1 of 2, the other is empty")):
            for bound in ("1", r.sizes.cost):
                name = f"{named(bound)} {where}"
                if not _ran(r, case, name):
                    continue
                rows.append([
                    program, said, bound, _seconds(r, case, name),
                    cells.times(r.ratio(case, f"{name} seconds", case, f"B=1 {where} seconds")),
                    cells.seconds(r.median(case, f"{name} kernel") or 0),
                    cells.times(r.ratio(case, f"{name} kernel", case, "B=1 alone kernel")),
                    cells.number(r.median(case, f"{name} hops")),
                    cells.number(r.median(case, f"{name} iterations")),
                ])  # fmt: skip
    return filled(rows[0], rows[1:], 2)


def _notes(r: Results) -> list[str]:
    s = r.sizes
    return [
        "Seconds are those of the whole run(): Spark jobs, iterations, commit to LMDB; the graph "
        "was loaded and the workers were warm before. Medians, (runs, least to greatest). "
        "The bounds of a case take turns in one process, each "
        "case has a process of its own. A run "
        f"that takes more than {s.limit:g} s is ended and shown as > that, and ratios over it are "
        "at least what is shown.",
        "Every distance and component is compared with the plainest code there is after the "
        "first run of each bound, and has to be exactly that. A case with a wrong answer has no "
        "figures, and the exit status is 1.",
        "Updates: vertices that gathered; prepares: updates that asked their consumers in other "
        "partitions first; prepare_messages: what they asked with, one for each consumer and not "
        "for each producer; held: updates that waited at the bound until the frontier moved.",
        f"Straggler: tasks of one partition, another one each {s.turn:g} s, sleep {s.times - 1:g} "
        f"times their own time, which is taken to be {1000 * s.least:g} ms at least. Each "
        "partition has a slot of its own (local[partitions + 2]), as one that sleeps uses no core. "
        "Idle: the share of the time in which tasks were not at work, sleep being work: the fixed "
        "cost of hops is in.",
        "Everything in one partition: alone, it has nobody to ask, and the SDK runs it as with "
        "B=1. As one of two, all of the protocol is there, with nobody to answer. Seconds in tasks "
        "are those that kernels and protocol took, without Spark's; all cores in both.",
    ]  # fmt: skip


def _ran(r: Results, case: str, name: str) -> bool:
    return bool(r.figures(case, f"{name} seconds") or r.figures(case, f"{name} late"))


def _bound(r: Results, case: str, name: str) -> str:
    taken = r.median(case, f"{name} delay_bound")
    return f"auto: {taken:.0f}" if name == "auto" and taken else name.removeprefix("B=")


def _answer(r: Results, case: str, name: str) -> str:
    return "exact" if r.figures(case, f"{name} checked") else "–"


def _seconds(r: Results, case: str, name: str) -> str:
    found = r.figures(case, f"{name} seconds")
    if not found:
        late = r.figures(case, f"{name} late")
        return f"> {cells.seconds(late[0])}" if late else "–"
    return cells.spread(found)


def _prepare(parts: Sequence[str], sizes: Sizes, cache: Path) -> None:
    for name in dict.fromkeys(map(graphs_of, parts)):
        graph_of(name, sizes, cache)


SUITE = CaseSuite(
    name="asynchrony",
    title="Suite asynchrony: what delay bounds buy and cost",
    about="The same program on the same graph under different delay bounds B: with B=1 partitions "
    "wait for each other in every iteration, above it they go on by themselves.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes, facts=_graphs,
    context=context, prepare=_prepare,
    targets=tuple(_targets()),
    stated=("scale", "grid", "partitions", "paper_partitions", "cost"),
    stem=lambda s: f"asynchrony-r-mat-{s.scale}",
    groups={part: [case for case in CASES if case[0] == part] for part in "abcd"},
    time_limit=7200,
    quick=(
        "--parts", "b-grid-structure", "--scale", "12", "--grid", "60", "--bounds", "1,16,auto",
        "--repeats", "1", "--budget", "5",
    ),
)  # fmt: skip
