"""What the suite found, as a document."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks import cells
from benchmarks.asynchrony import charts, targets
from benchmarks.asynchrony.cases import named
from benchmarks.asynchrony.results import Results
from benchmarks.document import Chart, Document, Section, Table

__all__ = ["document"]


def document(r: Results) -> Document:
    """The whole report."""
    found = Document(
        "asynchrony",
        "Suite asynchrony: what delay bounds buy and cost",
        "The same program on the same graph under different delay bounds B: with B=1 partitions "
        "wait for each other in every iteration, above it they go on by themselves.",
        f"./dev {' '.join(r.command)}",
        r.machine,
        f"{r.sizes.cores} cores used",
        cells.disturbed(r.others(), "during a case"),
        notes=_notes(r),
    )
    text = "\n".join([*_graphs(r), *(f"- **Not measured:** {p}" for p in r.problems())])
    shown: list[tuple[str, str, Iterable[Table | Chart]]] = [
        ("What must be reached", text, _only(targets.table(r))),
        (f"The paper's table 2: shortest paths on R-MAT {r.sizes.scale}", "", _only(_paper(r))),
        (
            f"Shortest paths, {r.sizes.partitions} partitions: hops and time by bound",
            "",
            [*_only(_bounds(r)), *charts.bounds(r)],
        ),
        ("A straggler", "", [*_only(_straggler(r)), *charts.straggler(r)]),
        ("Everything in one partition", "", _only(_cost(r))),
    ]
    for title, words, parts in shown:
        section = Section(title, words, list(parts))
        found.sections += [section] if section.parts or words else []
    return found


def _only(table: Table | None) -> list[Table | Chart]:
    return [] if table is None else [table]


def _table(rows: list[list[str]]) -> Table | None:
    return Table(rows[0], rows[1:]) if len(rows) > 1 else None


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
            share = r.ratio(case, f"{named(bound)} prepares", f"{named(bound)} updates")
            rows.append([
                str(many), bound, _seconds(r, case, named(bound)), *counts,
                f"{share or 0:.3g}", _answer(r, case, named(bound)),
            ])  # fmt: skip
    return _table(rows)


def _bounds(r: Results) -> Table | None:
    rows = [["", "B", "hops", "B=1 / this", "seconds", "B=1 / this", "iterations", "updates",
             "answer"]]  # fmt: skip
    for graph in ("rmat", "grid"):
        for how, partitioner in (("hash", "hash"), ("structure", r.sizes.partitioner)):
            case = f"b-{graph}-{how}"
            for name in map(named, r.sizes.bounds):
                if not _ran(r, case, name):
                    continue
                fewer = r.ratio(case, "B=1 hops", f"{name} hops")
                less = r.ratio(case, "B=1 seconds", f"{name} seconds")
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
    return _table(rows)


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
                cells.times(r.ratio(case, f"{slow} seconds", f"{name} even seconds")),
                cells.times(r.ratio(case, f"{first} straggler seconds", f"{slow} seconds")),
                *("–" if share is None else f"{share:.0%}" for share in idle),
            ])  # fmt: skip
    return _table(rows)


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
                    cells.times(r.ratio(case, f"{name} seconds", f"B=1 {where} seconds")),
                    cells.seconds(r.median(case, f"{name} kernel") or 0),
                    cells.times(r.ratio(case, f"{name} kernel", "B=1 alone kernel")),
                    cells.number(r.median(case, f"{name} hops")),
                    cells.number(r.median(case, f"{name} iterations")),
                ])  # fmt: skip
    return _table(rows)


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
