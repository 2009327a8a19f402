"""What ours must reach on a graph that changes, and what was reached."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks import targets
from benchmarks.cells import QUIET
from benchmarks.document import Table
from benchmarks.evolving.results import TITLES, Results, ratio
from benchmarks.evolving.sizes import Sizes
from benchmarks.targets import Target


def _milliseconds(case: str, share: float | None, r: Results) -> float | None:
    found = r.percentile(case, "query", share) if share else r.median(case, "query")
    return None if found is None else 1e3 * found


def _over(system: str, case: str, program: str, r: Results) -> float | None:
    return ratio(r.scratch(system, program), r.median(case, "query"))


def _flat(program: str, r: Results) -> float | None:
    case, shares = f"c-{program}", r.sizes.shares
    most = r.median(case, f"query {shares[-1]:g}")
    return ratio(most, r.median(case, f"query {shares[0]:g}"))


def _slower(r: Results) -> float | None:
    alone, forked = (r.rate("f-shortest_paths", name) for name in ("alone", "forked"))
    kept = ratio(forked, alone)
    return None if kept is None else 100 * (1 - kept)


def _targets() -> Iterator[Target[Results]]:
    for program in ("shortest_paths", "components"):
        case = f"a-{program}"
        what = f"query after 1,000 changes, {TITLES[program]}"
        yield Target(f"{what}, median", partial(_milliseconds, case, None), 150, "ms")
        yield Target(f"{what}, 99th percentile", partial(_milliseconds, case, 0.99), 400, "ms")
        yield Target(
            f"{what}, GraphX from scratch / ours",
            partial(_over, "graphx", case, program),
            100,
            "×",
            True,
        )
    what = f"query after 1,000 changes, {TITLES['pagerank']}"
    for system, title, bound in (("graphx", "GraphX", 50), ("ours", "run()", 3)):
        find = partial(_over, system, "b-pagerank", "pagerank")
        yield Target(f"{what}, {title} from scratch / ours", find, bound, "×", True)
    for program in ("shortest_paths", "pagerank"):
        title = f"query after 20 % of the edges / after 1 %, {TITLES[program]}"
        yield Target(title, partial(_flat, program), 2, "×")
    for bound, said in ((300_000, "sustained ingest"), (1_000_000, "the same, a million")):
        find = partial(Results.rate, case="d-shortest_paths", name="rate")
        yield Target(f"{said}, shortest paths kept up", find, bound, "changes/s", True)
    touched = partial(Results.median, case="e-shortest_paths", name="touched")
    yield Target("vertices touched by a single change, median", touched, 50, "vertices")
    yield Target("ingest slowed by a fork every second", _slower, 10, "%")


TARGETS = tuple(_targets())


def _as_stated(sizes: Sizes) -> bool:
    plain = Sizes()
    return (
        (sizes.scale, sizes.changes, sizes.shares) == (plain.scale, plain.changes, plain.shares)
        and sizes.queries >= plain.queries
        and sizes.singles >= plain.singles
    )


def table(results: Results) -> Table | None:
    """The aims, judged only at the sizes that they are stated for, on a quiet machine."""
    if results.sizes.edges_file:
        return None
    unjudged = "machine not quiet" if results.others() > QUIET else None
    if not _as_stated(results.sizes):
        unjudged = "stated for other sizes"
    return targets.table(TARGETS, results, unjudged)
