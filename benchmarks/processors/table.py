"""What the suite measured, as a document."""

from __future__ import annotations

from functools import partial

from benchmarks import cells, targets
from benchmarks.document import Document, Section, Table
from benchmarks.processors.cases import PROGRAMS
from benchmarks.processors.sizes import Sizes
from benchmarks.runner import SuiteResults
from benchmarks.targets import Target

__all__ = ["TARGETS", "Results", "document"]

_LOSSES = {1: 10.0, 4: 25.0, 16: 50.0}


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def ratio(self, case: str, over: str, under: str, below: str | None = None) -> float | None:
        """Of two medians, of one case or of two; None where either is missing."""
        top, bottom = self.median(case, over), self.median(below or case, under)
        return top / bottom if top is not None and bottom else None

    def slope(self, case: str) -> float | None:
        """Bytes for each edge, between the smallest and the largest graph."""
        least, most = self.sizes.slope[0], self.sizes.slope[-1]
        small, large = (self.median(case, f"scale {scale}") for scale in (least, most))
        if small is None or large is None or least == most:
            return None
        return (large - small) / ((16 << most) - (16 << least))

    def loss(self, count: int) -> float | None:
        """Percent of the rate of ingest that so many branches take."""
        kept = self.ratio("branches", f"rate {count} {count}", f"rate {count} 0")
        return None if kept is None else 100 * (1 - kept)


def _milliseconds(count: int, r: Results) -> float | None:
    seconds = r.median("commands", f"{count} processors, 0 supersteps")
    return None if seconds is None else 1e3 * seconds


def _superstep(count: int, r: Results) -> float | None:
    one, ten = (r.median("commands", f"{count} processors, {k} supersteps") for k in (0, 10))
    return None if one is None or ten is None else 1e2 * (ten - one)


def _slopes(r: Results) -> float | None:
    one, two = r.slope("memory-1"), r.slope("memory-2")
    return None if not one or two is None else two / one


def _start(r: Results) -> float | None:
    bare, whole = r.median("command", "bare"), r.median("command", "whole")
    return None if bare is None or whole is None else whole - bare


def _targets() -> list[Target[Results]]:
    made: list[Target[Results]] = []
    for count, bound in ((2, 0.5), (8, 2.0)):
        title = f"a command to {count} processors and back"
        made.append(Target(title, partial(_milliseconds, count), bound, "ms"))
        title = f"an empty superstep of {count}"
        made.append(Target(title, partial(_superstep, count), bound, "ms"))
    for program in PROGRAMS:
        bound = 1.2 if program == "pagerank" else 1.3
        find = partial(Results.ratio, case="beside", over=f"{program} 2", under=f"{program} 1")
        made.append(Target(f"{program}, 2 processors / 1, same cores", find, bound))
    for program in PROGRAMS:
        if program != "bfs":
            find = partial(
                Results.ratio, case="executors-1", over=f"{program} 1", under=f"{program} 2",
                below="executors-2",
            )  # fmt: skip
            title = f"{program}, one executor of one core / two"
            made.append(Target(title, find, 1.5, at_least=True))
    made.append(Target("memory for each edge, 2 processors / 1", _slopes, 1.3))
    for kind in ("text", "parquet"):
        find = partial(Results.ratio, case="beside", over=f"load {kind} 2", under=f"load {kind} 1")
        made.append(Target(f"load from {kind}, 2 processors / 1", find, 1.2))
    for count in (1, 2):
        find = partial(Results.median, case="beside", name=f"first answer {count}")
        title = f"first answer of a second graph after its load, {count} processors"
        made.append(Target(title, find, 2.0, "s"))
    made.append(Target("command on 4,000 edges, beyond a bare session", _start, 3.0, "s"))
    for count, percent in _LOSSES.items():
        title = f"ingest lost beside {count} asking branches"
        made.append(Target(title, partial(Results.loss, count=count), percent, "%"))
    return made


TARGETS = tuple(_targets())


def document(r: Results) -> Document:
    """The whole report."""
    report = Document(
        "processors",
        "Suite processors: what processors cost and gain",
        "Commands to processors, the same programs on one and two of them, executors, memory, "
        "loading, and ingest beside branches.",
        f"./dev {' '.join(r.command)}",
        r.machine,
        f"{r.sizes.cores} cores used",
        cells.disturbed(r.others(), "during a case"),
        notes=[
            "Ratios are of medians. *Same cores*: one processor with all cores as threads, two "
            "with half of them each, in turn in one session. Executors have a processor with one "
            "thread each, and are measured in sessions of their own.",
            f"Branches: R-MAT {r.sizes.branch_scale}, shortest paths, batches of "
            f"{r.sizes.batch:,}; each branch forks, adds 10 edges, asks for the exact answer, and "
            "closes, without a pause.",
        ],
    )
    unjudged = "machine not quiet" if r.others() > cells.QUIET else None
    if r.sizes.scale != Sizes().scale:
        unjudged = "stated for other sizes"
    report.sections += targets.sections(TARGETS, r, r.problems(), unjudged)
    for title, table in (("Programs", _programs(r)), ("Branches beside ingest", _branches(r))):
        if table.rows:
            report.sections.append(Section(title, "", [table]))
    return report


def _programs(r: Results) -> Table:
    places = [("beside", 1), ("beside", 2), ("executors-1", 1), ("executors-2", 2)]
    head = ["", "1 processor", "2 processors", "1 executor", "2 executors"]
    rows = [
        [program, *(cells.spread(r.figures(case, f"{program} {n}")) for case, n in places)]
        for program in PROGRAMS
    ]
    return Table(head, [row for row in rows if set(row[1:]) != {"–"}])


def _branches(r: Results) -> Table:
    head = ["branches", "changes/s alone", "beside", "queries", "median", "99 %"]
    rows = []
    for count in r.sizes.branches:
        took = sorted(r.figures("branches", f"query {count}"))
        if took:
            rates = (r.median("branches", f"rate {count} {k}") for k in (0, count))
            last = took[max(int(0.99 * len(took)) - 1, 0)]
            rows.append([
                str(count), *map(cells.number, rates), str(len(took)), cells.middle(took),
                cells.seconds(last),
            ])  # fmt: skip
    return Table(head, rows)
