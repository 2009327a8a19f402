"""Suite ``evolving``: exact answers about a graph that changes, beside doing them from scratch.

Parts: a, queries after 1,000 changes each, shortest paths and components; b, the same for PageRank;
c, queries after 1 % to 20 % of the edges arrived, with and without approximation in the main loop;
d, sustained ingest; e, vertices touched by single changes; f, forks while ingesting.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks import cells
from benchmarks import systems as batch
from benchmarks.document import Chart, Table, bars, lines
from benchmarks.evolving import beside, instants
from benchmarks.evolving.beside import MODULE, Beside, graph_name
from benchmarks.evolving.cases import Context, arriving, forking, ingesting, queries, singles
from benchmarks.evolving.sizes import Sizes
from benchmarks.evolving.stream import FileStream
from benchmarks.graphs import BenchGraph
from benchmarks.options import cache_of, limits_of, memory_of, say
from benchmarks.processes import Limits
from benchmarks.programs import TINY_SCALE
from benchmarks.runner import CaseProcess, CaseResult, SuiteResults, run_case
from benchmarks.suite import CaseSuite, Part, Parts, filled, grouped
from benchmarks.systems import MeasureResult, SystemResult
from benchmarks.targets import Target, median

CASES: dict[str, Callable[[Context], None]] = {
    "a-shortest_paths": partial(queries, "shortest_paths"),
    "a-components": partial(queries, "components"),
    "b-pagerank": partial(queries, "pagerank"),
    "c-shortest_paths": partial(arriving, "shortest_paths", True),
    "c-shortest_paths-batch": partial(arriving, "shortest_paths", False),
    "c-pagerank": partial(arriving, "pagerank", True),
    "c-pagerank-batch": partial(arriving, "pagerank", False),
    "d-shortest_paths": partial(ingesting, "shortest_paths"),
    "e-shortest_paths": partial(singles, "shortest_paths"),
    "f-shortest_paths": partial(forking, "shortest_paths"),
}
"""By name: the part's letter, the program, and what else."""

TITLES = {
    "shortest_paths": "shortest paths",
    "components": "components",
    "pagerank": "PageRank to 1e-6",
}
SCRATCH = {program: program for program in TITLES} | {"pagerank": "pagerank_converged"}
"""The measures from scratch that stand beside a program's queries."""
_QUERIES = ("a-shortest_paths", "a-components", "b-pagerank")
_SHARED = ("shortest_paths", "pagerank")  # programs that are asked after shares of the edges
_REPEATS = 3  # from scratch


@contextlib.contextmanager
def context_of(
    process: CaseProcess, sizes: Sizes, conf: dict[str, str] | None = None
) -> Iterator[tuple[Context]]:
    """What a case is given."""
    given = Context(sizes, process.cache, process.scratch, process.note, conf)
    process.ready(given.stream.edges, given.stream.origin)
    yield (given,)
    given.spark.stop()


@dataclass(slots=True)
class Results(SuiteResults[Sizes]):
    """One run: what each case measured, and what others did at the instant.

    Attributes:
        files: what is in files of one's own.
        standings: from scratch at the instant, by system.
        arrived: from scratch after each share of the edges: by share, by system.
        ours: our cases on the graphs of those beside, by graph; ``cases`` has the suite's own.
    """

    instant: str = ""
    files: str = ""
    standings: dict[str, SystemResult] = field(default_factory=dict)
    arrived: dict[str, dict[str, SystemResult]] = field(default_factory=dict)
    beside: dict[str, Beside] = field(default_factory=dict)
    ours: dict[str, dict[str, CaseResult]] = field(default_factory=dict)

    def figures(self, case: str, name: str) -> list[float]:
        """What the case noted under the name; empty if it did not end well."""
        return self.cases[case].of(name) if case in self.cases else []

    def rate(self, case: str, name: str) -> float | None:
        """All that went through over all seconds, from rates of equal batches."""
        return _rate(self.figures(case, name))

    def scratch(self, system: str, program: str, share: float | None = None) -> MeasureResult:
        """A run from scratch on the graph of the instant, or after a share of the edges."""
        there = self.standings if share is None else self.arrived.get(f"{share:g}", {})
        outcomes = there[system].outcomes if system in there else {}
        return outcomes.get(SCRATCH[program], MeasureResult())

    @property
    def graph(self) -> str:
        return graph_name(self.sizes)

    def ours_on(self, graph: str, case: str, name: str) -> list[float]:
        """What our case found on a graph."""
        cases = self.cases if graph == self.graph else self.ours.get(graph, {})
        return cases[case].of(name) if case in cases else []

    def problems(self) -> list[str]:
        """What did not end well, in words."""
        found = [f"{name}: {case.problem}" for name, case in self.cases.items() if case.problem]
        for graph, cases in self.ours.items():
            found += [f"{name} on {graph}: {c.problem}" for name, c in cases.items() if c.problem]
        for one in [*self._standings(), *self.beside.values()]:
            if one.unavailable:
                found.append(f"{one.title}: not available: {one.unavailable}")
        for standing in self._standings():
            for measure, outcome in standing.outcomes.items():
                if outcome.problem:
                    found.append(f"{standing.title}, {measure}: {outcome.problem}")
        for one in self.beside.values():
            for graph, cases in one.tried.items():
                for name, case in cases.items():
                    if case.problem:
                        best = one.best(name)
                        least = f"; the largest that it finished is {best}" if best else ""
                        found.append(f"{one.title}, {name} on {graph}: {case.problem}{least}")
        return list(dict.fromkeys(found))

    def _standings(self) -> list[SystemResult]:
        shares = chain.from_iterable(systems.values() for systems in self.arrived.values())
        return [*self.standings.values(), *shares]

    def _streamed(self) -> list[CaseResult]:
        graphs = chain.from_iterable(one.tried.values() for one in self.beside.values())
        return [case for cases in graphs for case in cases.values()]

    def _mine(self) -> list[CaseResult]:
        there = chain.from_iterable(cases.values() for cases in self.ours.values())
        return [*self.cases.values(), *there]

    def wrong(self) -> bool:
        """Whether any answer was wrong, or a case of ours failed."""
        every = [o for s in self._standings() for o in s.outcomes.values()]
        theirs = [one.problem or "" for one in [*every, *self._streamed()]]
        failed = any(case.problem for case in self._mine())
        return failed or any(problem.startswith("wrong") for problem in theirs)

    def others(self) -> float:
        """The largest share of the cores that other programs used during any measure."""
        outcomes = [o for s in self._standings() for o in s.outcomes.values()]
        every = [*outcomes, *self._mine(), *self._streamed()]
        return max([0.0, *(one.others for one in every)])

    def plain(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            **SuiteResults.plain(self),
            "systems": {name: asdict(s) for name, s in self.standings.items()},
            "arrived": {
                share: {name: asdict(s) for name, s in systems.items()}
                for share, systems in self.arrived.items()
            },
            "beside": {
                name: {graph: _plain(cases) for graph, cases in one.tried.items()}
                for name, one in self.beside.items()
            },
            "ours": {graph: _plain(cases) for graph, cases in self.ours.items()},
        }


def _plain(cases: dict[str, CaseResult]) -> dict[str, Any]:
    return {name: case.plain() for name, case in cases.items()}


def _ratio(over: float | None, under: float | None) -> float | None:
    return over / under if over is not None and under else None


def _middle(found: Sequence[float]) -> float | None:
    return statistics.median(found) if found else None


def _rate(found: Sequence[float]) -> float | None:
    return statistics.harmonic_mean(found) if found else None


def _percentile(found: Sequence[float], share: float) -> float | None:
    """By nearest rank: the least figure that ``share`` of them do not exceed."""
    return sorted(found)[math.ceil(share * len(found)) - 1] if found else None


def _execute(r: Results, options: argparse.Namespace) -> None:
    """Run our cases, then the systems beside them, then what begins from scratch."""
    cache, memory = cache_of(options), memory_of(options)
    with tempfile.TemporaryDirectory(prefix="vertexsdk-bench-") as folder:
        scratch = Path(folder)
        if r.sizes.changes_files or r.sizes.edges_file:
            _take_files(r, options, scratch / "files")
        for case in options.parts:
            limits = limits_of(options)
            r.cases[case] = run_case(MODULE, case, r.sizes, cache, scratch / case, limits, say)
        limits = Limits(r.sizes.peer_time_limit, memory)
        setting = beside.Setting(r.sizes, cache, scratch, limits, say)
        for name in r.sizes.peers:
            scales = r.sizes.peer_scales or None
            r.beside[name] = beside.streamed(name, options.parts, scales, setting)
        setting = replace(setting, limits=Limits(options.time_limit, memory))
        r.ours = beside.ours_there(r.beside.values(), setting)
        limits = batch.Limits(options.time_limit, memory, _REPEATS, r.sizes.seconds, r.sizes.cores)
        _from_scratch(r, options.parts, cache, scratch, limits)
        _at_shares(r, options.parts, cache, scratch, limits)


def _take_files(r: Results, options: argparse.Namespace, folder: Path) -> None:
    """With files of one's own: as many queries as there are changes for; only parts a and b."""
    sizes = r.sizes
    if not (sizes.edges_file and sizes.changes_files):
        raise ValueError("give both --edges FILE and --changes FILE...")
    edges, changes = Path(sizes.edges_file), [Path(name) for name in sizes.changes_files]
    stream = FileStream(edges, changes, folder)
    rounds, named = -(-stream.left // sizes.changes), ", ".join(path.name for path in changes)
    if not rounds:
        raise ValueError(f"no line of {named} changes the graph")
    options.parts = [case for case in options.parts if case[0] in "ab"]
    warm = min(sizes.warm, rounds // 4)
    r.files = (
        f"{edges.name}: {stream.edges:,} edges; {named}: {stream.left:,} changes, "
        f"{stream.idle:,} more that would have no effect are left out."
    )
    say(r.files)
    r.sizes = replace(sizes, warm=warm, queries=rounds - warm, seconds=options.time_limit)


def _from_scratch(
    r: Results, parts: Sequence[str], cache: Path, scratch: Path, limits: batch.Limits
) -> None:
    """What the other systems take for the graph after the first query that counted."""
    programs, sizes = [case[2:] for case in parts if case[0] in "ab"], r.sizes
    if not programs or not sizes.systems:
        return
    if sizes.edges_file:
        changes = [Path(name) for name in sizes.changes_files]
        graph = instants.graph_of_files(Path(sizes.edges_file), changes, cache)
    else:
        graph = instants.graph_after(sizes.scale, cache, [sizes.changes] * (sizes.warm + 1))
    r.instant = f"{graph.name}: {graph.vertices:,} vertices, {graph.edges:,} edges."
    for system in sizes.systems:
        folder = scratch / system
        r.standings[system] = _turn(system, graph, programs, limits, folder, cache)


def _at_shares(
    r: Results, parts: Sequence[str], cache: Path, scratch: Path, limits: batch.Limits
) -> None:
    """What others than ours take after each share of the edges has arrived."""
    programs = [program for program in _SHARED if f"c-{program}" in parts]
    others = [system for system in r.sizes.systems if system != "ours"]
    arrived = [r.sizes.changes]
    edges = r.cases[f"c-{programs[0]}"].edges if programs else 0
    for share in r.sizes.shares if edges and others else ():
        arrived.append(int(share * edges))
        graph = instants.graph_after(r.sizes.scale, cache, arrived)
        for system in list(others):
            folder = scratch / f"{system}-{share:g}"
            found = _turn(system, graph, programs, limits, folder, cache)
            r.arrived.setdefault(f"{share:g}", {})[system] = found
            if found.unavailable:
                others.remove(system)


def _turn(
    system: str, graph: BenchGraph, programs: Sequence[str], limits: batch.Limits, folder: Path,
    cache: Path,
) -> SystemResult:  # fmt: skip
    folder.mkdir()
    tiny, measures = instants.graph_after(TINY_SCALE, cache, []), [SCRATCH[p] for p in programs]
    return batch.run(instants.SYSTEMS[system], graph, tiny, measures, limits, folder, say)


def _over(system: str, case: str, r: Results) -> float | None:
    return _ratio(_middle(r.scratch(system, case[2:]).seconds), r.median(case, "query"))


def _flat(program: str, r: Results) -> float | None:
    found = [r.median(f"c-{program}", f"query {share:g}") for share in r.sizes.shares]
    return _ratio(found[-1], found[0])


def _slowest(case: str, r: Results) -> float | None:
    found = _percentile(r.figures(case, "query"), 0.99)
    return None if found is None else 1e3 * found


def _slower(r: Results) -> float | None:
    alone, forked = (r.rate("f-shortest_paths", name) for name in ("alone", "forked"))
    kept = _ratio(forked, alone)
    return None if kept is None else 100 * (1 - kept)


def _targets() -> Iterator[Target[Results]]:
    for program in ("shortest_paths", "components"):
        case, what = f"a-{program}", f"query after 1,000 changes, {TITLES[program]}"
        yield Target(f"{what}, median", median(case, "query", 1e3), 150, "ms")
        yield Target(f"{what}, 99th percentile", partial(_slowest, case), 400, "ms")
        find = partial(_over, "graphx", case)
        yield Target(f"{what}, GraphX from scratch / ours", find, 100, "×", True)
    what = f"query after 1,000 changes, {TITLES['pagerank']}"
    for system, title, bound in (("graphx", "GraphX", 50), ("ours", "run()", 3)):
        find = partial(_over, system, "b-pagerank")
        yield Target(f"{what}, {title} from scratch / ours", find, bound, "×", True)
    for program in _SHARED:
        title = f"query after 20 % of the edges / after 1 %, {TITLES[program]}"
        yield Target(title, partial(_flat, program), 2, "×")
    for bound, said in ((300_000, "sustained ingest"), (1_000_000, "the same, a million")):
        find = partial(Results.rate, case="d-shortest_paths", name="rate")
        yield Target(f"{said}, shortest paths kept up", find, bound, "changes/s", True)
    touched = median("e-shortest_paths", "touched")
    yield Target("vertices touched by a single change, median", touched, 50, "vertices")
    yield Target("ingest slowed by a fork every second", _slower, 10, "%")


def _as_stated(sizes: Sizes) -> bool:
    plain = Sizes()
    return (
        (sizes.scale, sizes.changes, sizes.shares) == (plain.scale, plain.changes, plain.shares)
        and sizes.queries >= plain.queries
        and sizes.singles >= plain.singles
        and not sizes.edges_file
    )


def _facts(r: Results) -> list[str]:
    """What the graph is, and what was not tried."""
    case, told = next((case for case in r.cases.values() if case.edges), None), []
    if case and r.sizes.edges_file:
        told.append(
            f"{r.files} Of lines with the same ends the last one counts. Paths start at "
            f"{case.origin}, the vertex with the most out-edges. One partition, LMDB.\n"
        )
    elif case:
        told.append(
            f"R-MAT {r.sizes.scale} without parallel edges, {case.edges:,} edges, values 1..100; "
            f"paths start at {case.origin}, the vertex with the most out-edges. Half of the "
            "changes remove an edge that is there, half add one, drawn as the graph was. One "
            "partition, LMDB.\n"
        )
    for one in r.beside.values():
        told += [f"- **Not tried:** {one.title}, {c}: {why}" for c, why in one.untried.items()]
    for name in _QUERIES:
        many = len(r.figures(name, "query"))
        if 0 < many < r.sizes.queries:
            told.append(f"- **Fewer queries than asked for:** {name}, {many}; its time was over.")
    return told


def _sections(r: Results) -> list[tuple[str, str, Parts]]:
    changes = f"{r.sizes.changes:,} changes each"
    branches = r.figures("f-shortest_paths", "branch")
    told = (
        f"{len(branches)} branches; from fork to answer, median: "
        f"{r.seconds('f-shortest_paths', 'branch')} s."
    )
    every = [
        (f"Queries after {changes}", "", [_queries(r)]),
        ("From scratch at one of these instants", r.instant, _scratch(r)),
        ("Queries after a share of the edges has arrived", "", [_arriving(r), *_shares(r)]),
        (f"Beside systems that keep an answer up: queries after {changes}", "", _asked(r)),
        ("Beside them: after a share of the edges has arrived", "", _asked_shares(r)),
        ("Beside them: sustained ingest, shortest paths kept up", "", _ingested(r)),
        ("Ingest", told if branches else "", _ingest(r)),
        ("Single changes", _said_of_singles(r), [_singles(r)]),
    ]
    return [one for one in every if any(part is not None for part in one[2])]


def _queries(r: Results) -> Part:
    head = ["", "query", "99 %", "most", "ingest", "touched", "iterations", "begun"]
    return filled(head, (
        [
            TITLES[case[2:]], cells.middle(found), cells.seconds(_percentile(found, 0.99)),
            cells.seconds(max(found)), r.seconds(case, "ingest"), r.number(case, "touched"),
            r.number(case, "iterations"),
            ", ".join(
                f"{name.removeprefix('start ')} {len(starts)}"
                for name, starts in r.cases[case].figures.items() if name.startswith("start ")
            ),
        ]
        for case in _QUERIES if (found := r.figures(case, "query"))
    ))  # fmt: skip


def _scratch(r: Results) -> Parts:
    there = {name: s.title for name, s in r.standings.items() if s.outcomes}
    rows, names = [], []
    series: dict[str, list[float | None]] = {t: [] for t in ("ours, query", *there.values())}
    for case in _QUERIES:
        mine = r.median(case, "query")
        row = [f"**{cells.seconds(mine)}**" if mine else "–"]
        taken = [r.scratch(system, case[2:]).seconds for system in there]
        for found in taken:
            times = _ratio(_middle(found), mine)
            row.append(cells.middle(found) + (f" {times:.3g}×" if times else ""))
        if set(row) != {"–"}:
            rows.append([TITLES[case[2:]], *row])
            names.append(TITLES[case[2:]])
            for bar, value in zip(series.values(), [mine, *map(_middle, taken)], strict=True):
                bar.append(value)
    if not there:
        return []
    title = "Seconds to the answer after 1,000 changes" if r.sizes.changes == 1000 else "Seconds"
    table = filled(["", "query after the changes", *there.values()], rows)
    return [table, bars(title, "s", names, series)]


def _arriving(r: Results) -> Part:
    names = ("query", "last batch and query", "all ingest")
    head = ["", *(f"{how}: {n}" for how in ("approximating", "batch") for n in names)]
    return filled(head, (
        [f"{TITLES[program]}, {share:.0%}", *(
            cell for case in (f"c-{program}", f"c-{program}-batch") for cell in (
                r.middle(case, f"query {share:g}"), r.seconds(case, f"last {share:g}"),
                r.seconds(case, f"ingest {share:g}"),
            )
        )]
        for program in _SHARED for share in r.sizes.shares
    ))  # fmt: skip


def _shares(r: Results) -> Parts:
    """On the suite's own graph: from scratch after each share, and figure 5 of the paper."""
    every = (pair for systems in r.arrived.values() for pair in systems.items())
    titles = {name: s.title for name, s in every if not s.unavailable}
    rows, charts = [], []
    for program in _SHARED:
        series = {
            "ours": [r.median(f"c-{program}", f"last {s:g}") for s in r.sizes.shares],
            "ours, batch": [r.median(f"c-{program}-batch", f"last {s:g}") for s in r.sizes.shares],
        }
        for name, title in titles.items():
            taken = (r.scratch(name, program, share).seconds for share in r.sizes.shares)
            series[title] = [_middle(seconds) for seconds in taken]
        for share, *values in zip(r.sizes.shares, *series.values(), strict=True):
            if any(value is not None for value in values[2:]):
                ratios = (cells.times(_ratio(value, values[0])) for value in values[2:])
                told = [*map(cells.seconds, values), *ratios]
                rows.append([f"{TITLES[program]}, {share:.0%}", *told])
        charts.append(_line(f"{TITLES[program]}, {r.graph}", r, series))
    head = ["", "ours, last batch and query", "ours, batch", *titles.values()]
    return [filled([*head, *(f"{name} / ours" for name in titles.values())], rows), *charts]


def _line(what: str, r: Results, series: dict[str, list[float | None]]) -> Chart | None:
    names, at = [f"{share:.0%}" for share in r.sizes.shares], [100 * s for s in r.sizes.shares]
    title = f"{what}: from the last changes to the answer"
    return lines(title, "s", at, names, "% of the edges changed", series)


def _pairs(r: Results, cases: Sequence[str]) -> Iterator[tuple[Beside, str, str, CaseResult]]:
    """(system, case, graph, what it found there)."""
    for one in r.beside.values():
        for case in cases:
            if graph := one.best(case):
                yield one, case, graph, one.tried[graph][case]


def _asked(r: Results) -> Parts:
    head = [
        "", "graph", "its changes to answer", "99 %", "first answer",
        "ours, ingest and query", "99 %", "query alone", "its / ours",
    ]  # fmt: skip
    rows, names = [], []
    series: dict[str, list[float | None]] = {"theirs": [], "ours": []}
    for one, case, graph, theirs in _pairs(r, _QUERIES):
        its, alone = theirs.of("query"), r.ours_on(graph, case, "query")
        # Theirs is from the first change handed in: so is ours, which they are compared with.
        taken = r.ours_on(graph, case, "ingest")[: len(alone)]
        mine = [sum(pair) for pair in zip(taken, alone, strict=True)]
        title = TITLES[case[2:]]
        rows.append([
            f"{one.title}: {title}", graph, cells.middle(its),
            cells.seconds(_percentile(its, 0.99)), cells.middle(theirs.of("first")),
            cells.middle(mine), cells.seconds(_percentile(mine, 0.99)), cells.middle(alone),
            cells.times(_ratio(_middle(its), _middle(mine))),
        ])  # fmt: skip
        names.append(f"{one.title}, {title}, {graph}")
        series["theirs"].append(_middle(its))
        series["ours"].append(_middle(mine))
    title = f"Seconds from {r.sizes.changes:,} changes to the answer"
    return [filled(head, rows, 2), bars(title, "s", names, series)]


def _asked_shares(r: Results) -> Parts:
    head = [
        "", "graph", "its last batch", "ours, last batch and query", "ours, query",
        "ours without approximation, last batch and query", "query", "its / ours",
    ]  # fmt: skip
    rows, charts = [], []
    for one, case, graph, theirs in _pairs(r, [f"c-{program}" for program in _SHARED]):
        series: dict[str, list[float | None]] = {}
        for share in r.sizes.shares:
            its = theirs.of(f"last {share:g}")
            last, query, late, later = (
                r.ours_on(graph, c, f"{name} {share:g}")
                for c in (case, f"{case}-batch")
                for name in ("last", "query")
            )
            rows.append([
                f"{one.title}: {TITLES[case[2:]]}, {share:.0%}", graph, cells.middle(its),
                *map(cells.middle, (last, query, late, later)),
                cells.times(_ratio(_middle(its), _middle(last))),
            ])  # fmt: skip
            for name, value in ((one.title, its), ("ours", last), ("ours, batch", late)):
                series.setdefault(name, []).append(_middle(value))
        charts.append(_line(f"{TITLES[case[2:]]}, {graph}", r, series))
    return [filled(head, rows, 2), *charts]


def _ingested(r: Results) -> Parts:
    rows, names = [], []
    series: dict[str, list[float | None]] = {"theirs": [], "ours": []}
    for one, _, graph, theirs in _pairs(r, ["c-shortest_paths"]):
        its, mine = _rate(theirs.of("rate")), _rate(r.ours_on(graph, "d-shortest_paths", "rate"))
        counts = map(cells.number, (its, mine))
        rows.append([one.title, graph, *counts, cells.times(_ratio(mine, its))])
        names.append(f"{one.title}, {graph}")
        series["theirs"].append(its)
        series["ours"].append(mine)
    table = filled(["", "graph", "its changes per second", "ours", "ours / its"], rows, 2)
    title = "Changes per second, shortest paths kept up"
    return [table, bars(title, "changes/s", names, series)]


def _ingest(r: Results) -> Parts:
    """Of parts d and f."""
    titles = {
        ("d-shortest_paths", "rate"): "shortest paths kept up",
        ("f-shortest_paths", "alone"): "the same, in turns with",
        ("f-shortest_paths", "forked"): "a branch forked every second",
    }
    found = {title: r.figures(*key) for key, title in titles.items() if r.figures(*key)}
    rows = [
        [title, f"**{_rate(each):,.0f}**", f"{min(each):,.0f}", f"{max(each):,.0f}", f"{len(each)}"]
        for title, each in found.items()
    ]
    head = ["", "changes per second, all", "slowest batch", "fastest batch", "batches"]
    series = {"changes per second": [_rate(each) for each in found.values()]}
    chart = bars("Changes taken in per second", "changes/s", found, series, log=False)
    return [filled(head, rows), chart]


def _singles(r: Results) -> Part:
    """Of part e."""
    found = r.figures("e-shortest_paths", "touched")
    if not found:
        return None
    middle, *more = (f"{_percentile(found, share):,.0f}" for share in (0.5, 0.9, 0.99))
    head = ["vertices touched: median", "90 %", "99 %", "most", "query, median"]
    took = r.seconds("e-shortest_paths", "query")
    return Table(head, [[f"**{middle}**", *more, f"{max(found):,.0f}", took]])


def _said_of_singles(r: Results) -> str:
    """How many of the single changes touch anything."""
    case = "e-shortest_paths"
    found = r.figures(case, "touched")
    added, removed = (len(r.figures(case, name)) for name in ("added", "removed"))
    some = [count for count in found if count]
    told = (
        f"{len(found)} changes, {added} of them add an edge, {removed} remove one. "
        f"{len(some)} touch any vertex"
    )
    told += f"; of those the median is {statistics.median(some):,.0f}." if some else "."
    return told if found else ""


def _notes(r: Results) -> list[str]:
    """How everything was measured."""
    s = r.sizes
    notes = [
        "Times are seconds: medians, (how many). A percentile is by nearest rank. Each case ran "
        "in a process of its own, one after another, first some rounds which are not counted.",
        "Answers are compared with the plainest code there is, on the edges of that instant: "
        "after the first query that counts and after the last one, or the last one of the case. "
        "Distances and components exactly, PageRank to the error that its epsilon leaves. A case "
        "with a wrong answer has no times.",
        "Query: the whole call `main.query()`, from the fork to the exact answer committed. "
        "Where queries follow every so many changes the main loop does nothing between, so all "
        "the work is in the query.",
        f"Shares of the edges arrive in batches of at most {s.batch:,} changes, and of a hundredth "
        "of the edges. As a batch is ingested the main loop approximates, up to "
        f"{s.batch_seconds:g} s, or, under *batch*, not at all (figure 5 of the paper). *Last "
        "batch and query*: from the arrival of the last changes to the answer.",
        "Sustained ingest: each batch is taken in, approximated until nothing moves, and "
        "committed, before the next one. The changes are made before the clock runs.",
    ]
    every = {s.title: s.about for s in r._standings() if not s.unavailable}
    notes += [f"{title}: {about}" for title, about in every.items()]
    there = [one for one in r.beside.values() if not one.unavailable]
    for one in there:
        versions = ", ".join(f"{name} {version}" for name, version in one.versions.items())
        notes.append(f"{one.title} ({versions}): {one.about}")
    if there:
        notes += [
            "Beside: the same edges and changes for both, read from the same files. A system tries "
            "larger and larger graphs until one does not finish; ours is measured on the largest "
            "that it finished, in this run. Its PageRank has as many iterations as its definition "
            "needs on the edges at first until one changes the ranks by no more than 1e-6 in all, "
            "or its whole surfers stop moving. Answers are compared after the first batch, after "
            "the first counted one or each share, and after the last one.",
            "Beside, shares: changes arrive in batches of at most a hundredth of the edges (the "
            "epochs of the paper's measurement), each answered by the others before the next; "
            "*last batch*: from its arrival to the answer. Theirs keep no durable state; ours "
            "commits every batch and answer.",
        ]
    return notes


def _stem(sizes: Sizes) -> str:
    graph = graph_name(sizes).lower().replace(" ", "-")
    return f"evolving-{graph.rpartition('.')[0] or graph}"


SUITE = CaseSuite(
    name="evolving",
    about="Exact answers about a graph that changes: ours, others that keep an answer up, and "
    "others from scratch.",
    sizes=Sizes, cases=CASES, groups=grouped(CASES, *"abcdef"), context=context_of,
    execute=_execute, results=Results, failed=Results.wrong, facts=_facts, sections=_sections,
    notes=_notes, targets=tuple(_targets()), stated=_as_stated, stem=_stem, time_limit=300,
    quick="--scale=10 --parts=a-shortest_paths,c-shortest_paths,c-shortest_paths-batch --queries=8 "
    "--every=200 --shares=0.05 --batch-seconds=0.1 --seconds=1 --peer-scales=10 "
    "--peer-time-limit=20 --systems=graphx,graphframes",
)  # fmt: skip
