"""Suite ``soak evolving``: millions of changes with queries among them; does memory stay flat?

Shortest paths are kept up after every batch. The last answer is checked. Memory of the driver, the
JVM and the Python workers is looked at twice a second.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cells
from benchmarks.document import Table, lines
from benchmarks.evolving.cases import Context, pieces
from benchmarks.options import cache_of, limits_of, option, say
from benchmarks.runner import CaseResult, SuiteResults, run_case
from benchmarks.suite import CaseSuite, Parts
from benchmarks.suites.evolving import context_of
from vertexsdk.engine.commands import QUIET

CASE = "g-shortest_paths"

HEAP = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": "-Xms2g -XX:+AlwaysPreTouch"}
"""The JVM would take more of its heap for as long as it may, needed or not. So it is given all of
it at once; whether more and more of it is used, what its collections leave says."""


WARM = 0.2  # of the changes; what is held until then is not judged


GROWTH = 0.05  # over the rest of the run: more than that is not flat


LEAST = 4  # points that make a line


_KINDS = {
    "driver own": "driver, without mapped files",
    "workers own": "Python workers, without mapped files",
    "shared": "graphs and state in shared memory",
    "all": "**all of these**",
    "jvm own": "**JVM**, without mapped files",
    "driver": "driver, resident",
    "jvm": "JVM, resident",
    "workers": "Python workers, resident",
    "heap": "JVM's heap, as its last collection left it",
}


def flat(found: CaseResult) -> bool:
    """Whether memory, after the warm-up, grew by less than `GROWTH` until the end: that of driver,
    workers and shared memory together; the JVM's; and what the JVM's heap has to keep."""
    lines = {kind: _line(found, kind) for kind in ("all", "jvm own", "heap")}
    if any(line is None for line in lines.values()):
        return False
    rise = {kind: line[2] * line[0] for kind, line in lines.items() if line}
    mean = {kind: line[0] for kind, line in lines.items() if line}
    return rise["all"] <= GROWTH * mean["all"] and (
        max(rise["jvm own"], rise["heap"]) <= GROWTH * mean["jvm own"]
    )


def _points(found: CaseResult, kind: str) -> list[tuple[float, float]]:
    """(changes done, median bytes held while the next ones were taken in), in order."""
    if kind == "heap":
        return list(zip(found.figures["done"], found.figures["heap bytes"], strict=True))
    last = found.figures["done"][-1]  # then the answer is checked, and all of it ends
    looks: dict[float, list[float]] = {}
    for at, held in found.memory:
        if at >= last:
            continue
        own = ("driver own", "workers own", "shared")
        held_now = sum(held[k] for k in own) if kind == "all" else held[kind]
        looks.setdefault(at, []).append(held_now)
    return [(at, float(np.median(held))) for at, held in sorted(looks.items())]


def _line(found: CaseResult, kind: str) -> tuple[float, float, float] | None:
    """Mean bytes after the warm-up; bytes per change; growth to the end as a share of the mean."""
    points = _points(found, kind)
    kept = [p for p in points if points and p[0] >= WARM * points[-1][0]]
    if len(kept) < LEAST:
        return None
    at, held = np.array(kept).T
    slope = float(np.polyfit(at, held, 1)[0])
    mean = float(held.mean())
    return mean, slope, slope * float(at[-1] - at[0]) / mean if mean else 0.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Options of the soak."""

    total: int = option(10_000_000, "changes in all", flag="--changes")
    every: int = option(100_000, "changes between queries")
    scale: int = option(20, "of R-MAT")
    batch: int = option(1 << 17, "changes that are ingested at once")
    cores: int = 2
    edges_file: str = ""


def soaking(context: Context) -> None:
    """So many changes, a query every some of them; the last answer is checked."""
    sizes = context.sizes
    with context.main("shortest_paths", QUIET) as main:
        main.query()
        done = 0
        while done < sizes.total:
            left = min(sizes.every, sizes.total - done)
            done += left
            for batch in pieces(context.stream.take(left), sizes.batch):
                main.ingest(batch)
            result = context.timed("query", main.query)
            context.note("state bytes", context.state_bytes())
            context.note("heap bytes", context.heap_bytes())
            context.note("done", done)
        context.check("shortest_paths", result)


class Results(SuiteResults[Sizes]):
    """The figures of the only case."""

    __slots__ = ()

    @property
    def case(self) -> CaseResult:
        return self.cases[CASE]


def _execute(r: Results, options: argparse.Namespace) -> None:
    if r.sizes.every > r.sizes.total:
        raise ValueError("--every must not exceed --changes")
    with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as scratch:
        r.cases[CASE] = run_case(
            __name__, CASE, r.sizes, cache_of(options), Path(scratch), limits_of(options), say, True
        )


def _facts(r: Results) -> list[str]:
    done, queries = int(max([0, *r.case.figures.get("done", [])])), r.figures(CASE, "query")
    checked = "the last answer was right" if r.case.of("checked") else "no answer was checked"
    return [
        f"{r.case.edges:,} edges at first; {done:,} changes in batches of at most "
        f"{min(r.sizes.batch, r.sizes.every):,}, shortest paths kept up after each, "
        f"{len(queries)} queries; {checked}. {r.case.seconds:,.0f} s in all.\n"
    ]


def _sections(r: Results) -> list[tuple[Any, ...]]:
    if not r.case.figures.get("query"):
        return []
    rows = [
        [title, f"{mean / 1e6:,.0f}", f"{slope:,.2f}", f"{growth:+.1%}"]
        for kind, title in _KINDS.items() if (line := _line(r.case, kind))
        for mean, slope, growth in (line,)
    ]  # fmt: skip
    if not rows:
        return [("Memory", "Too few looks at memory to judge it.", []), _over_time(r.case)]
    head = ["memory", "mean, MB", "slope, MB per million changes", "growth to the end"]
    note = (
        f"After the first {WARM:.0%} of the changes, by least squares; "
        f"{'flat' if flat(r.case) else '**not flat**'}: growth of the bold lines by at most "
        f"{GROWTH:.0%} counts as flat. What the kernel can drop, as pages of the store's file, is "
        "only in the resident lines. The JVM has all of its heap from the start; what it needs of "
        "it must not grow either."
    )
    return [("Memory", [Table(head, rows, note=note)]), _over_time(r.case)]


def _over_time(case: CaseResult) -> tuple[str, Parts]:
    held = dict(_points(case, "all"))
    figures = (case.figures[name] for name in ("done", "state bytes", "query"))
    points = list(zip(*figures, strict=True))
    points = points[:: max(1, len(points) // 20)]
    at = [done for done, _, _ in points]
    names = [f"{done:,.0f}" for done in at]
    megabytes = [held[done] / 1e6 if done in held else None for done in at]
    state = [size / 1e6 for _, size, _ in points]
    rows = [
        [name, cells.number(mb), cells.number(size), cells.seconds(query)]
        for name, mb, size, (*_, query) in zip(names, megabytes, state, points, strict=True)
    ]
    series = {"driver, workers and shared memory": megabytes, "store on disk": state}
    head = ["changes", "all of these, MB", "store on disk, MB", "query, s"]
    title = "Memory while changes come in"
    return "Over time", [
        Table(head, rows), lines(title, "MB", at, names, "changes", series, log=False)
    ]  # fmt: skip


class Soak(CaseSuite):
    """The suite, whose command line begins with the word that names it among other soaks."""

    def parser(self) -> argparse.ArgumentParser:
        parser = super().parser()
        parser.add_argument("what", choices=["evolving"])
        return parser


SUITE = Soak(
    name="soak",
    title="Soak: changes of R-MAT",
    about="Millions of changes with queries among them; does memory stay flat?",
    sizes=Sizes, cases={CASE: soaking}, context=partial(context_of, conf=HEAP), execute=_execute,
    results=Results, failed=lambda r: bool(r.case.problem) or not flat(r.case), facts=_facts,
    sections=_sections, flag="", time_limit=3600,
)  # fmt: skip
