"""The sections of the document about costs and what they come to on larger clusters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields

from benchmarks import report
from benchmarks.document import Chart, Section, Series, Table
from benchmarks.scaling.checked import compared
from benchmarks.scaling.measured import Cost, Missing, costs_of, measured, stored_in
from benchmarks.scaling.projection import Assumed, Costs, Projected, fewest, project
from benchmarks.scaling.results import Results
from benchmarks.scaling.sizes import Sizes

__all__ = ["EXECUTORS", "projection"]

EXECUTORS = (10, 100, 1000)


def projection(r: Results) -> Iterator[Section]:
    """What things cost, whether the model fits this machine, and what it says of others."""
    if not r.cases.keys() & {"costs", "costs-driver"}:
        return
    try:
        found = measured(r)
    except Missing as missing:
        yield Section("Projection", f"None: {missing}.")
        return
    costs = costs_of(found)
    yield _costs(found)
    yield from _compared(r, costs)
    yield _projected(r, costs, [cost.title for cost in found if cost.loose])


def _costs(found: list[Cost]) -> Section:
    rows = [[_named(cost), _amount(cost), cost.how] for cost in found]
    text = (
        "Each by least squares through an experiment of its own in this run, which changes one "
        "thing; ± is the standard error. Seconds are those of one core where cores work side by "
        "side, else of the clock. *Loose*: the points hardly tell it, as the standard error is "
        "more than half of it; what came out below zero is taken as zero."
    )
    return Section("What things cost", text, [Table(["", "cost", "found by"], rows)])


def _named(cost: Cost) -> str:
    return f"{cost.title} (*loose*)" if cost.loose else cost.title


def _amount(cost: Cost) -> str:
    if "bytes of" in cost.title:
        return f"{cost.value:.3g} ± {cost.error:.1g} B"
    for unit, size in (("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if max(cost.value, cost.error if cost.error > 0 else 0.0) >= size or unit == "ns":
            error = "" if math.isnan(cost.error) else f" ± {cost.error / size:.2g}"
            return f"{cost.value / size:.3g}{error} {unit}"
    raise AssertionError


def _compared(r: Results, costs: Costs) -> Iterator[Section]:
    found = compared(r, costs)
    if not found:
        return
    rows = [
        [
            str(c.partitions), f"{c.messages:,.0f}", f"{c.crossing:,.0f}",
            report.seconds(c.model), report.seconds(c.measured), f"{c.model / c.measured:.2f}×",
        ]
        for c in found
    ]  # fmt: skip
    text = (
        f"The same model for iterations of PageRank on R-MAT {r.sizes.scale} on {r.sizes.cores} "
        "cores, beside what was measured above, where its messages went by the shuffle. Hubs make "
        "R-MAT's messages combine better than the model thinks, so its seconds are of the messages "
        "that there are."
    )
    head = ["partitions", "messages, model", "there are", "seconds, model", "measured", "ratio"]
    yield Section("The model on this machine", text, [Table(head, rows)])


def _projected(r: Results, costs: Costs, loose: list[str]) -> Section:
    a = Assumed()
    rows = [_row(project(costs, count, a)) for count in EXECUTORS]
    least = fewest(costs, a)
    found = [project(costs, count, a) for count in EXECUTORS]
    charts = [
        Chart(
            "stacked", f"Seconds of one PageRank iteration, 10^11 edges, {said}", "s",
            [f"{each.executors} executors" for each in found],
            [
                Series(name, [each.parts()[name] for each in found])
                for name in found[0].parts()
                if committed or name != "commit"
            ],
        )
        for said, committed in (("not committed", False), ("each one committed", True))
    ]  # fmt: skip
    head = [
        "executors", "memory each", "messages each sends", "bytes each sends", "kernel, s",
        "shuffle, s", "driver, s", "commit, s", "iteration, s", "the same, messages by the driver",
        "load, s", "the limit", "without commits, longest is",
    ]  # fmt: skip
    text = (
        f"PageRank on {a.edges:.0e} edges, one partition per executor, from the costs above. What "
        "keeps it from running at all, or else takes longest, is *the limit*. Seconds are shown "
        "for sizes that would not run too, as if what refuses them were not there. "
        + (
            f"With these assumptions **{least} executors** are the fewest that can run it."
            if least
            else "With these assumptions no number of executors can run it."
        )
    )
    return Section(
        "Projection: 10, 100 and 1000 executors",
        f"{_doubts(r, loose)}{text}\n\nAssumed, not measured:\n\n{_assumptions(r, a)}",
        [*charts, Table(head, rows), _stores(costs, a)],
    )


def _doubts(r: Results, loose: list[str]) -> str:
    """Why not to rely on the projection, ahead of it; or empty."""
    plain, lines = Sizes(), []
    if max(r.sizes.scales) < max(plain.scales) or r.sizes.tasks < plain.tasks:
        lines.append(
            "**Not to be quoted:** measured at smaller sizes than the defaults, where fixed costs "
            "pass for costs of edges and bytes."
        )
    if loose:
        lines.append(
            f"What rests on these costs is a guess, as they are loose: {'; '.join(loose)}."
        )
    return "".join(f"{line}\n\n" for line in lines)


def _row(p: Projected) -> list[str]:
    by_driver = p.seconds - p.shuffle + p.by_driver
    return [
        str(p.executors), f"{p.memory / 2**30:,.1f} GiB", f"{p.messages:.3g}", _bytes(p.sent),
        report.seconds(p.kernel), report.seconds(p.shuffle), report.seconds(p.driver),
        report.seconds(p.commit), f"**{report.seconds(p.seconds)}**", report.seconds(by_driver),
        report.seconds(p.load), p.limit, p.longest(commits=False),
    ]  # fmt: skip


def _bytes(value: float) -> str:
    return f"{value / 1e9:,.3g} GB"


def _stores(costs: Costs, a: Assumed) -> Table:
    """What commits cost when they are rarer, or the store is more servers."""
    rows = []
    for servers in (1, 10, 100):
        shared = Assumed(**{f.name: getattr(a, f.name) for f in fields(a)} | {"stores": servers})
        seconds = project(costs, 100, shared).commit
        rows.append([str(servers), *(report.seconds(seconds / every) for every in (1, 10, 100))])
    head = ["servers of the store", "every iteration", "every 10th", "every 100th"]
    return Table(head, rows, title="Seconds of committing, per iteration, when a commit is made")


def _assumptions(r: Results, a: Assumed) -> str:
    vertices = a.edges / a.edges_per_vertex
    store = stored_in(r)
    shared = (
        "Redis, measured here over a local socket"
        if store == "redis"
        else "LMDB stands for it: no store that executors can share was here, and LMDB is for one "
        "host only"
    )
    return "\n".join([
        f"- {a.edges_per_vertex:g} edges per vertex: {vertices:.3g} vertices; edges hit vertices "
        "evenly, and vertices and edges are spread evenly (a hub would make its partition larger).",
        f"- An executor has {a.cores:g} cores as fast as one here, which share its work evenly, "
        f"and {a.memory / 2**30:g} GiB.",
        f"- The network moves {a.network / 1e9:g} GB/s into and out of every executor at once, and "
        "is never the place where they meet; the shuffle's files are written and read as fast as "
        "here, where they stay in the page cache.",
        "- Vertices are placed by hash: an edge leads to another partition with probability "
        "1 - 1/P. Messages to one vertex are combined before they leave a partition: it sends "
        "n (1 - 1/P) (1 - exp(-m / (P n))) of them. A placement that follows the structure, where "
        "the graph has one, sends fewer.",
        "- Kernel: per edge as measured in one partition on one core; graphs of that size are no "
        "longer in any cache, as R-MAT 20 is only in part.",
        "- Driver: the fixed cost of a hop, a task's own cost once, and the driver's processor "
        "time per task and pair of partitions, extended from "
        f"{r.sizes.tasks} tasks to P: the most daring step of all.",
        "- Memory: the graph and its ghosts, not the arrays of the run, the blocks in flight, nor "
        "what loading needs meanwhile, which together may double it.",
        f"- Commit: {a.state_bytes:g} bytes a vertex, every iteration, waited for, at one server "
        f"({shared}) at the rate which one client reached, shared by all executors; it holds "
        f"{vertices * a.state_bytes / 1e9:.3g} GB a version. Runs commit only at their end unless "
        "told otherwise, see the last column and the table below.",
        f"- Load: {a.edge_bytes:g} bytes an edge over the network; files are read as fast as here.",
        "- No stragglers, no failures, no skew.",
    ])  # fmt: skip
