"""Suite ``processors``: what commands, programs, executors, loading and branches cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks import cells, graphs
from benchmarks.document import Table
from benchmarks.processors.cases import CASES, PROGRAMS
from benchmarks.processors.sizes import Sizes
from benchmarks.programs import TINY_SCALE
from benchmarks.runner import SuiteResults
from benchmarks.suite import CaseSuite, Parts, filled
from benchmarks.targets import Target, median, ratio

_LOSSES = {1: 10.0, 4: 25.0, 16: 50.0}


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def slope(self, case: str) -> float | None:
        """Bytes for each edge, between the smallest and the largest graph."""
        least, most = self.sizes.slope[0], self.sizes.slope[-1]
        small, large = (self.median(case, f"scale {scale}") for scale in (least, most))
        if small is None or large is None or least == most:
            return None
        return (large - small) / ((16 << most) - (16 << least))

    def loss(self, count: int) -> float | None:
        """Percent of the rate of ingest that so many branches take."""
        kept = self.ratio("branches", f"rate {count} {count}", "branches", f"rate {count} 0")
        return None if kept is None else 100 * (1 - kept)


def _superstep(count: int, r: Results) -> float | None:
    one, ten = (r.median("commands", f"{count} processors, {k} supersteps") for k in (0, 10))
    return None if one is None or ten is None else 1e2 * (ten - one)


def _slopes(r: Results) -> float | None:
    one, two = r.slope("memory-1"), r.slope("memory-2")
    return None if not one or two is None else two / one


def _start(r: Results) -> float | None:
    bare, whole = r.median("command", "bare"), r.median("command", "whole")
    return None if bare is None or whole is None else whole - bare


def _targets() -> Iterator[Target[Results]]:
    for count, bound in ((2, 0.5), (8, 2.0)):
        command = median("commands", f"{count} processors, 0 supersteps", 1e3)
        yield Target(f"a command to {count} processors and back", command, bound, "ms")
        yield Target(f"an empty superstep of {count}", partial(_superstep, count), bound, "ms")
    for program in PROGRAMS:
        bound = 1.2 if program == "pagerank" else 1.3
        find = ratio("beside", f"{program} 2", other=f"{program} 1")
        yield Target(f"{program}, 2 processors / 1, same cores", find, bound)
    for program in PROGRAMS:
        if program != "bfs":
            find = ratio("executors-1", f"{program} 1", "executors-2", f"{program} 2")
            yield Target(f"{program}, one executor of one core / two", find, 1.5, "×", True)
    yield Target("memory for each edge, 2 processors / 1", _slopes, 1.3)
    for kind in ("text", "parquet"):
        find = ratio("beside", f"load {kind} 2", other=f"load {kind} 1")
        yield Target(f"load from {kind}, 2 processors / 1", find, 1.2)
    for count in (1, 2):
        title = f"first answer of a second graph after its load, {count} processors"
        yield Target(title, median("beside", f"first answer {count}"), 2.0, "s")
    yield Target("command on 4,000 edges, beyond a bare session", _start, 3.0, "s")
    for count, percent in _LOSSES.items():
        title = f"ingest lost beside {count} asking branches"
        yield Target(title, partial(Results.loss, count=count), percent, "%")


def _notes(r: Results) -> list[str]:
    return [
        "Ratios are of medians. *Same cores*: one processor with all cores as threads, two "
        "with half of them each, in turn in one session. Executors have a processor with one "
        "thread each, and are measured in sessions of their own.",
        f"Branches: R-MAT {r.sizes.branch_scale}, shortest paths, batches of "
        f"{r.sizes.batch:,}; each branch forks, adds 10 edges, asks for the exact answer, and "
        "closes, without a pause.",
    ]


def _sections(r: Results) -> list[tuple[str, Parts]]:
    return [("Programs", [_programs(r)]), ("Branches beside ingest", [_branches(r)])]


def _programs(r: Results) -> Table | None:
    places = [("beside", 1), ("beside", 2), ("executors-1", 1), ("executors-2", 2)]
    head = ["", "1 processor", "2 processors", "1 executor", "2 executors"]
    rows = [
        [program, *(cells.spread(r.figures(case, f"{program} {n}")) for case, n in places)]
        for program in PROGRAMS
    ]
    return filled(head, rows)


def _branches(r: Results) -> Table | None:
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
    return filled(head, rows)


def _prepare(parts: Sequence[str], sizes: Sizes, cache: Path) -> None:
    memory = sizes.slope if any(part.startswith("memory") for part in parts) else ()
    for scale in {TINY_SCALE, sizes.scale, *memory}:
        graphs.of_scale(scale, cache)


SUITE = CaseSuite(
    name="processors",
    title="Suite processors: what processors cost and gain",
    about="Commands to processors, the same programs on one and two of them, executors, memory, "
    "loading, and ingest beside branches.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes, prepare=_prepare,
    targets=tuple(_targets()),
    stated=("scale",),
    stem=lambda s: f"processors-r-mat-{s.scale}",
    time_limit=1800,
    quick=(
        "--parts", "commands,beside,branches", "--scale", "10", "--repeats", "1",
        "--commands", "10", "--branches", "1", "--branch-scale", "10", "--batch", "1000",
        "--seconds", "2",
    ),  # less than a minute
)  # fmt: skip
